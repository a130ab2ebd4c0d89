"""`clearhead demo`: a model from what comes with the program or with Python, in minutes."""

from pathlib import Path

from ...errors import did_you_mean
from ..parser import Options, Parser, UsageError, Verb

_DEMOS = {
    "translate": ("runs/demo", "a translator from the built-in phrasebook; what is made where none is named"),
    "generate": ("runs/demo-generate", "a language model from the source of Python's standard library"),
}


def _add_options(parser: Parser) -> None:
    parser.add_argument("demo", nargs="?", default="translate", metavar="|".join(_DEMOS), help="which (--list)")
    parser.add_argument("--list", action="store_true", help="print the demos and do nothing else")
    places = ", ".join(f"{place} for {name}" for name, (place, _) in _DEMOS.items())
    parser.add_argument("--out", metavar="DIR", help=f"where the model goes (default: {places})")


def _run(options: Options) -> None:
    if options.list:
        print("\n".join(f"clearhead demo {name:<10} {what}" for name, (_, what) in _DEMOS.items()))
        return
    if options.demo not in _DEMOS:
        named = f"unknown demo {options.demo!r}; there are {', '.join(_DEMOS)}"
        raise UsageError(f"{named}{did_you_mean(options.demo, _DEMOS)}")
    out = Path(options.out or _DEMOS[options.demo][0])
    if options.demo == "generate":
        from ...demo.code_demo import run_code_demo

        run_code_demo(out)
    else:
        from ...demo.phrasebook_demo import run_demo

        run_demo(out)


VERB = Verb(
    name="demo",
    summary="train, score and try a small model in minutes: a translator, or one that writes code",
    usage="[translate|generate] [--out DIR]",
    examples=("clearhead demo", "clearhead demo generate", "clearhead demo --list", "clearhead demo --out models/demo"),
    add_options=_add_options,
    run=_run,
)
