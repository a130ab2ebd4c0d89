"""`clearhead export`: write a model in another program's format, as a web page, or merged with its adapter."""

from pathlib import Path

from ...config.messages import say
from ..models import NO_FOLDER, add_adapter, add_consent
from ..parser import Options, Parser, UsageError, Verb


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="model folder")
    text = "format to write: huggingface (or hf), onnx, ct2 (CTranslate2), page or peft (an adapter)"
    parser.add_value("--to", "FORMAT", text)
    parser.add_flag("--merge", "write a model folder with the adapter merged into the weights, in place of --to")
    parser.add_argument("--out", metavar="PATH", help="folder to write, new or empty; for page, a new file")
    text = "type of the weights; ct2 also has fp16, bf16 and int16 (default: fp32)"
    parser.add_value("--precision", "fp32|int8", text, "fp32")
    add_adapter(parser)
    add_consent(parser)


def _run(options: Options) -> None:
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
    from ...loading.loaded import TARGET_TOKENIZER

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


VERB = Verb(
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
    add_options=_add_options,
    run=_run,
)
