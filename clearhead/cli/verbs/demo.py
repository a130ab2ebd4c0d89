"""`clearhead demo`: train a small model on included data. `clearhead example`: write an included program."""

import re
from collections.abc import Callable
from pathlib import Path

from ...config.messages import say
from ...errors import unknown
from ..parser import Options, Parser, UsageError, Verb

_EXAMPLES = Path(__file__).parents[2] / "examples"
_DEMOS = {
    "translate": ("runs/demo", "a translator trained on the built-in phrasebook (default)"),
    "generate": ("runs/demo-generate", "a language model trained on the source of Python's standard library"),
    "see": ("runs/demo-see", "an image classifier trained on digits and shapes that it draws"),
    "hear": ("runs/demo-hear", "a transcriber trained on the tones of telephone keys"),
    "speak": ("runs/demo-speak", "a model that speaks strings of telephone keys, as tones"),
}


def _add_options(parser: Parser) -> None:
    parser.add_argument(
        "demo", nargs="?", default="translate", metavar="DEMO", help=f"{', '.join(_DEMOS)} (default: translate)"
    )
    parser.add_flag("--list", "list the demos and exit")
    places = "runs/demo, or runs/demo-DEMO for the others"
    parser.add_argument("--out", metavar="DIR", help=f"model folder to write (default: {places})")


def _run(options: Options) -> None:
    if options.list:
        print("\n".join(f"clearhead demo {name:<10} {what}" for name, (_, what) in _DEMOS.items()))
        return
    if options.demo not in _DEMOS:
        raise unknown(f"there's no demo {options.demo!r}", options.demo, _DEMOS, "", UsageError)
    if options.out is not None and not options.out.strip():
        raise UsageError("--out is empty", fix="name a folder", name="--out", value=options.out)
    out = Path(options.out or _DEMOS[options.demo][0])
    _demo(options.demo)(out)


def _demo(name: str) -> Callable[[Path], None]:
    """Import a demo. Only the one that runs is imported, since that takes a second."""
    if name == "generate":
        from ...demo.code_demo import run_code_demo as run
    elif name == "see":
        from ...demo.see_demo import run_see_demo as run
    elif name == "hear":
        from ...demo.keys_demos import run_hear_demo as run
    elif name == "speak":
        from ...demo.keys_demos import run_speak_demo as run
    else:
        from ...demo.phrasebook_demo import run_demo as run
    return run


def _add_example(parser: Parser) -> None:
    parser.add_argument("example", nargs="?", metavar="EXAMPLE", help="name of an example (default: list them)")


def _examples() -> dict[str, list[Path]]:
    """Return the files of each example by its name; the first one describes it."""
    found: dict[str, list[Path]] = {}
    for path in sorted(_EXAMPLES.glob("[!.]*.*"), key=lambda it: (it.stem, it.suffix != ".py")):
        found.setdefault(path.stem, []).append(path)
    return found


def _about(path: Path) -> str:
    """Return the first line of a program's docstring, or the title of a notebook."""
    text = path.read_text(encoding="utf-8")
    title = re.search(r'"# ([^\\"]+)', text) if path.suffix == ".ipynb" else None
    return title[1] if title else text.splitlines()[0].strip('"')


def _run_example(options: Options) -> None:
    examples = _examples()
    if options.example is None:
        print("\n".join(f"clearhead example {name:<25}  {_about(files[0])}" for name, files in examples.items()))
        return
    from ...folder.atomic import save_file

    name = options.example.removesuffix(".py").removesuffix(".ipynb")
    if name not in examples:
        raise unknown(f"there's no example {name!r}", name, examples, "", UsageError)
    for it in examples[name]:
        if Path(it.name).exists():
            fix = "move it, or run the command in another folder"
            raise UsageError(f"{it.name} exists already, and isn't replaced", fix=fix, name="EXAMPLE", value=it.name)
    for it in examples[name]:
        save_file(Path(it.name), it.read_bytes())
        say(f"wrote {it.name}")
    say("  its first lines say how to use it")


VERB = Verb(
    name="demo",
    summary="train, score and try out a small model of text, code, images or audio in a few minutes",
    usage="[translate|generate|see|hear|speak] [--out DIR]",
    examples=("clearhead demo", "clearhead demo see", "clearhead demo --list", "clearhead demo --out models/demo"),
    add_options=_add_options,
    run=_run,
)

EXAMPLE = Verb(
    name="example",
    summary="write a short program or notebook into the current folder, to read, run and change",
    usage="[EXAMPLE]",
    examples=("clearhead example", "clearhead example own_attention"),
    add_options=_add_example,
    run=_run_example,
)
