"""`clearhead export`: write a model in another program's format."""

from pathlib import Path

from ...config.messages import say
from ..models import add_consent
from ..parser import Options, Parser, UsageError, Verb


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="model folder")
    parser.add_argument("--to", metavar="FORMAT", help="format to write: huggingface, onnx or ct2 (CTranslate2)")
    parser.add_argument("--out", metavar="DIR", help="folder to write, new or empty")
    parser.add_argument(
        "--precision",
        metavar="fp32|int8",
        default="fp32",
        help="type of the weights; ct2 also has fp16, bf16 and int16 (default: fp32)",
    )
    add_consent(parser)


def _run(options: Options) -> None:
    if not options.folder:
        raise UsageError("no model folder is given", fix="name a folder written by `clearhead train`")
    for name in ("to", "out"):
        if not getattr(options, name):
            raise UsageError(f"--{name} is missing", expected="--to FORMAT and --out DIR", name=f"--{name}")
    from ...api import load
    from ...exchange.targets import export

    app = load(options.folder, device="cpu", allow_custom_code=options.allow_custom_code)
    out = Path(options.out)
    export(app.loaded, options.to, out, precision=options.precision)
    say(f"wrote {out}: {', '.join(sorted(path.name for path in out.iterdir()))}")


VERB = Verb(
    name="export",
    summary="write a model in another program's format",
    usage="DIR --to FORMAT --out DIR [options]",
    examples=(
        "clearhead export models/en-fr --to huggingface --out en-fr-hf",
        "clearhead export models/en-fr --to onnx --out en-fr-onnx",
        "clearhead export models/en-fr --to onnx --out en-fr-onnx --precision int8",
        "clearhead export models/en-fr --to ct2 --out en-fr-ct2 --precision int8",
    ),
    add_options=_add_options,
    run=_run,
)
