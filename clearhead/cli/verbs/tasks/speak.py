"""`clearhead speak`: speak texts, or each line of standard input, as WAV files."""

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import DataError
from ...input_lines import Place, input_groups, warn
from ...models import add_model_options, open_model
from ...output import new_file
from ...parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    from ....api import Speaker

_TABLE = "metadata.csv"


def _place(name: str) -> Path:
    """Check the name of a file before any work is done (argparse type). A folder is checked later."""
    return new_file(name) if _is_file(Path(name)) else Path(name)


def _is_file(path: Path) -> bool:
    return path.suffix.lower() == ".wav"


def _add_options(parser: Parser) -> None:
    add_model_options(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="text to speak (default: lines of standard input)")
    text = "voice to speak with, for a model that was trained with voices"
    parser.add_value("--voice", "NAME", text)
    parser.add_argument(
        "--out",
        type=_place,
        metavar="PATH",
        help="WAV file to write, such as spoken.wav; or a new folder, for a WAV file for each text and a table of them",
    )


def _run(options: Options) -> None:
    out = options.out
    if out is None or not out.name:
        raise UsageError("--out is missing", fix="name a file such as spoken.wav, or a new folder", name="--out")
    from ....exchange.targets import check_empty
    from ....folder.atomic import write_file, write_folder, writing

    if not _is_file(out):
        check_empty(out)
    app, decode = open_model(options, "speak", one_answer=True)
    places = [place for group in input_groups(options.texts, "speak", "a text") for place in group]
    if not places:
        raise DataError("there are no texts on standard input", expected="a text on each line", name="text")
    if _is_file(out) and len(places) > 1:
        what, fix = f"--out {out} is one file, and there are {len(places):,} texts", "name a folder to write"
        raise UsageError(what, fix=fix, name="--out", value=len(places))
    for place, line in places:
        if not line.text.strip():
            raise DataError(f"{place} is blank", expected="a text to speak", name="text", value=line.text)
    if options.voice is not None:
        places = [(place, replace(line, text=app.voiced(line.text, options.voice))) for place, line in places]
    with writing(out.parent, again="run the command again"):
        out.parent.mkdir(parents=True, exist_ok=True)
        sounds = _sounds(app, places, decode)
        if _is_file(out):
            write_file(out, next(sounds))
            print(out)
            return
        rows = [(f"{number:04}.wav", line.text) for number, (_, line) in enumerate(places, 1)]
        write_folder(out, [*((name, sound) for (name, _), sound in zip(rows, sounds)), (_TABLE, _table(rows))])
        print("\n".join(str(out / name) for name, _ in rows))


def _sounds(app: "Speaker", places: list[Place], decode: dict[str, Any]) -> Iterator[bytes]:
    """Yield a WAV file of each text, and warn about those that the model can't read properly."""
    from ....readers.media.audio import wav_bytes

    for place, found in zip(places, app.brief_results([line.text for _, line in places], **decode)):
        warn(place, found)
        yield wav_bytes(*app.sound(found.text))


def _table(rows: list[tuple[str, str]]) -> bytes:
    """Return a table that `clearhead evaluate` reads with a model for `transcribe`."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([("path", "text"), *rows])
    return table.getvalue().encode()


VERB = Verb(
    name="speak",
    summary="speak texts, or each line of standard input, as WAV files",
    usage="DIR [TEXT ...] --out PATH [options]",
    examples=(
        'clearhead speak models/digits "3 5 7" --out spoken.wav',
        "clearhead speak models/digits --out spoken < texts.txt",
        'clearhead speak models/digits --voice theo "3 5 7" --out spoken.wav',
        'clearhead speak models/digits "3 5 7" --sample --top-p 0.9 --seed 2 --out spoken.wav',
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
