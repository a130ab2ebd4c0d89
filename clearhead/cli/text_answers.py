"""Texts to texts, for the verbs whose model makes one of another: from the command line, files, or standard input."""

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ..config.messages import say
from ..errors import DataError
from .input_texts import text_of, warn, warn_of_bytes
from .model_options import add_model_options, open_model
from .output import to_json
from .parser import Options, Parser, UsageError
from .stdin import Line, line_of, read_groups

if TYPE_CHECKING:
    from ..api import Translator

Place = tuple[str, Line]  # a text, and where it is from in words


def add_text_options(parser: Parser, verb: str, answer: str) -> None:
    """The model, the texts and how they are answered; an `answer` is what it is called."""
    add_model_options(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help=f"what to {verb}; none, or -: standard input")
    parser.add_argument("--prefix", metavar="TEXT", default="", help=f"what every {answer} begins with")
    parser.add_argument("--stream", action="store_true", help=f"print each {answer} while it grows; greedy, or drawn")
    parser.add_argument("--json", action="store_true", help="print JSON lines with scores, tokens and alternatives")


def answer_texts(options: Options, verb: str, text: str, files: Sequence[str] = ()) -> None:
    """One line of output for each text; `text` says what one is. Each of the `files` is one, too."""
    if "-" in options.texts and len(options.texts) + len(files) > 1:
        raise UsageError("- stands for standard input, and is one of several texts here; expected it alone")
    if options.stream and options.json:
        raise UsageError("--stream and --json exclude each other; expected one of them")
    app, decode = open_model(options, verb, one_answer=not options.json)
    if not options.json and decode["n_best"] > 1:
        raise UsageError("several answers for each text need room for their scores; expected --json beside --n-best")
    reading = options.texts == ["-"] or not (options.texts or files)
    search = app.decode_config(**decode)
    _check_suppressed(app, search.suppress, texts_may_be_among_them=not options.texts)
    typed = [(f"text {number:,}", text_of(it, number)) for number, it in enumerate(options.texts, 1)]
    groups = standard_input(verb, text) if reading else [[*typed, *map(_whole, files)]]
    prefix = text_of(options.prefix)
    warn_of_bytes("the prefix", prefix)
    decode["prefix"] = prefix.text
    if options.stream:
        _stream(app, groups, decode)
    else:
        _answer(app, groups, decode, as_json=options.json)


def _answer(app: "Translator", groups: Iterable[list[Place]], decode: dict[str, Any], *, as_json: bool) -> None:
    """Answer each group as soon as it is there."""
    for group in groups:
        results = app.results([line.text for _, line in group], **decode)
        for (place, line), result in zip(group, results):
            warn(place, line, result)
            print(to_json(result.to_dict()) if as_json else result.text)
        sys.stdout.flush()


def _stream(app: "Translator", groups: Iterable[list[Place]], decode: dict[str, Any]) -> None:
    """Write each answer in pieces, as they are found."""
    for place, line in itertools.chain.from_iterable(groups):
        warn(place, line, app.reading(line.text))
        for piece in app.pieces(line.text, **decode):
            print(piece, end="", flush=True)
        print(flush=True)


def _check_suppressed(app: "Translator", pieces: Iterable[str], *, texts_may_be_among_them: bool) -> None:
    """Refuse what is no token before standard input is waited for."""
    for piece in pieces:
        try:
            app.tokenizers.target.token_id(piece)
        except DataError as error:
            if not texts_may_be_among_them:
                raise
            raise UsageError(f"{error}\n  a text that is to be answered stands before --suppress") from error


def _whole(name: str) -> Place:
    """All of a file as one text."""
    from ..readers.files import Input
    from ..readers.lines import read_whole

    with closing(Input(name)) as file:
        return file.name, line_of(1, read_whole(file))


def standard_input(verb: str, text: str) -> Iterator[list[Place]]:
    """The lines of standard input as they come, in groups; `text` says what one is. A UsageError where it is closed."""
    if sys.stdin is None:
        raise UsageError(f'standard input is closed; give texts: clearhead {verb} DIR "{text}"')
    if sys.stdin.isatty():
        say(f"type {text} a line; end with Ctrl-D")
    for group in read_groups(sys.stdin.fileno()):
        yield [(f"line {line.number:,}", line) for line in group]
