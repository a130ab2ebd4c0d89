"""`clearhead demo`: a translator from the phrasebook that comes with the program."""

from pathlib import Path

from .parser import Options, Parser, Verb


def _add_options(parser: Parser) -> None:
    parser.add_argument("--out", metavar="DIR", default="runs/demo", help="where the model goes (default: runs/demo)")


def _run(options: Options) -> None:
    from ..demo.run import run_demo

    run_demo(Path(options.out))


VERB = Verb(
    name="demo",
    summary="train, score and try a small translator from a built-in phrasebook, in minutes",
    usage="[--out DIR]",
    examples=("clearhead demo", "clearhead demo --out models/demo"),
    add_options=_add_options,
    run=_run,
)
