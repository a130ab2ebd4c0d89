"""`clearhead demo`: train a small model on data included with Clearhead or Python."""

from pathlib import Path

from ...errors import nearest
from ..parser import Options, Parser, UsageError, Verb

_DEMOS = {
    "translate": ("runs/demo", "a translator trained on the built-in phrasebook (default)"),
    "generate": ("runs/demo-generate", "a language model trained on the source of Python's standard library"),
}


def _add_options(parser: Parser) -> None:
    parser.add_argument("demo", nargs="?", default="translate", metavar="|".join(_DEMOS), help="demo to run")
    parser.add_argument("--list", action="store_true", help="list the demos and exit")
    places = ", ".join(f"{place} for {name}" for name, (place, _) in _DEMOS.items())
    parser.add_argument("--out", metavar="DIR", help=f"model folder to write (default: {places})")


def _run(options: Options) -> None:
    if options.list:
        print("\n".join(f"clearhead demo {name:<10} {what}" for name, (_, what) in _DEMOS.items()))
        return
    if options.demo not in _DEMOS:
        near = nearest(options.demo, _DEMOS)
        raise UsageError(
            f"there's no demo {options.demo!r}",
            expected=" or ".join(_DEMOS),
            fix=f"did you mean {near!r}?" if near else "",
            value=options.demo,
        )
    if options.out is not None and not options.out.strip():
        raise UsageError("--out is empty", fix="name a folder", name="--out", value=options.out)
    out = Path(options.out or _DEMOS[options.demo][0])
    if options.demo == "generate":
        from ...demo.code_demo import run_code_demo

        run_code_demo(out)
    else:
        from ...demo.phrasebook_demo import run_demo

        run_demo(out)


VERB = Verb(
    name="demo",
    summary="train, score and try out a small translator or code generator in a few minutes",
    usage="[translate|generate] [--out DIR]",
    examples=("clearhead demo", "clearhead demo generate", "clearhead demo --list", "clearhead demo --out models/demo"),
    add_options=_add_options,
    run=_run,
)
