"""`clearhead import` and `clearhead export`: read models of other programs, and write models in their formats."""

from pathlib import Path

from ...config import TASKS
from ...config.messages import say
from ..models import NO_FOLDER, add_adapter, add_consent
from ..parser import Options, Parser, UsageError, Verb


def _add_import(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="PATH",
        help="folder or zip archive of Hugging Face's Transformers, CTranslate2, Argos Translate, OPUS-MT or PEFT",
    )
    parser.add_argument("--out", metavar="MODEL", help="model folder to write")
    parser.add_value("--task", "TASK", "task to use the model for (default: that of its class)", choices=list(TASKS))
    parser.add_argument("--base", metavar="MODEL", help="imported model that an adapter of PEFT belongs to")
    parser.add_flag("--replace", "replace the model in --out")


def _run_import(options: Options) -> None:
    if options.folder is None or options.out is None:
        what = "a model to read or a folder to write is missing"
        raise UsageError(what, expected="clearhead import PATH --out MODEL")
    from ...exchange.import_model import import_model

    base = Path(options.base) if options.base else None
    more = {"task": options.task, "replace": options.replace, "say": say, "base": base}
    out = import_model(Path(options.folder), Path(options.out), **more)
    from ...api import load
    from ...apps.filler import Filler
    from ...tasks.base import example_of

    app = load(out)
    example = example_of(app.task, str(out), app.config)
    say(f"{out} is ready: {example.replace('[MASK]', app.mask) if isinstance(app, Filler) else example}")


IMPORT = Verb(
    name="import",
    summary="turn another program's model on this disk into a model folder",
    usage="PATH --out MODEL [--task TASK] [--base MODEL]",
    examples=(
        "clearhead import downloads/gpt2 --out models/gpt2",
        "clearhead import downloads/opus-mt-en-de --out models/en-de",
        "clearhead import downloads/translate-en_fr-1_9.argosmodel --out models/en-fr",
        "clearhead import downloads/lora --base models/gpt2 --out adapters/gpt2",
    ),
    add_options=_add_import,
    run=_run_import,
)


def _add_export(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="model folder")
    text = "format to write: huggingface (or hf), onnx, ct2 (CTranslate2), page or peft (an adapter)"
    parser.add_value("--to", "FORMAT", text)
    parser.add_flag("--merge", "write a model folder with the adapter merged into the weights, in place of --to")
    parser.add_argument("--out", metavar="PATH", help="folder to write, new or empty; for page, a new file")
    text = "type of the weights; ct2 also has fp16, bf16 and int16 (default: fp32)"
    parser.add_value("--precision", "fp32|int8", text, "fp32")
    add_adapter(parser)
    add_consent(parser)


def _run_export(options: Options) -> None:
    if not options.folder:
        raise UsageError("no model folder is given", fix=NO_FOLDER)
    if options.merge:
        if options.to:
            raise UsageError("--merge and --to can't be combined", fix="use one of them; --to merges too", name="--to")
        options.to = "clearhead"
    for name in ("to", "out"):
        if not getattr(options, name):
            raise UsageError(f"--{name} is missing", expected="--to FORMAT and --out PATH", name=f"--{name}")
    from ...api import load
    from ...exchange.targets import export
    from ...loading import TARGET_TOKENIZER

    consent = options.allow_custom_code
    app = load(options.folder, device="cpu", allow_custom_code=consent, adapter=options.adapter)
    out = Path(options.out)
    export(app.loaded, options.to, out, precision=options.precision)
    if out.is_file():
        say(f"wrote {out}: {out.stat().st_size / 1e6:.1f} MB, to open in any browser")
    else:
        say(f"wrote {out}: {', '.join(sorted(path.name for path in out.iterdir()))}")
        if (out / TARGET_TOKENIZER).is_file():
            say(f"answers have their own vocabulary: decode them with {TARGET_TOKENIZER}")


EXPORT = Verb(
    name="export",
    summary="write a model in another program's format, or as a web page",
    usage="DIR --to FORMAT --out PATH [options]",
    examples=(
        "clearhead export models/en-fr --to huggingface --out en-fr-hf",
        "clearhead export models/en-fr --to onnx --out en-fr-onnx",
        "clearhead export models/en-fr --to onnx --out en-fr-onnx --precision int8",
        "clearhead export models/en-fr --to ct2 --out en-fr-ct2 --precision int8",
        "clearhead export models/en-fr --to page --out en-fr.html",
        "clearhead export adapters/formal --merge --out models/formal",
    ),
    add_options=_add_export,
    run=_run_export,
)
