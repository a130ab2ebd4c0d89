"""`clearhead translate`: texts from the command line, or line by line from standard input; one line out for each."""

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..messages import say
from .lines import Line, read_groups
from .output import to_json
from .parser import Options, Parser, UsageError, Verb
from .reading import text_of, warn, warn_of_bytes
from .using import add_model_options, open_model

if TYPE_CHECKING:
    from ..app import App


def _add_options(parser: Parser) -> None:
    add_model_options(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to translate; none, or -: standard input")
    parser.add_argument("--prefix", metavar="TEXT", default="", help="what every translation begins with")
    parser.add_argument("--stream", action="store_true", help="print each translation while it grows; greedy, or drawn")
    parser.add_argument("--json", action="store_true", help="print JSON lines with scores, tokens and alternatives")


def _run(options: Options) -> None:
    if "-" in options.texts and len(options.texts) > 1:
        raise UsageError("- stands for standard input, and is one of several texts here; expected it alone")
    if options.stream and options.json:
        raise UsageError("--stream and --json exclude each other; expected one of them")
    app, decode = open_model(options, one_answer=not options.json)
    if not options.json and decode["n_best"] > 1:
        raise UsageError("several answers for each text need room for their scores; expected --json beside --n-best")
    search, reading = app.decode_config(**decode), options.texts in ([], ["-"])
    _check_suppressed(app, search.suppress, texts_may_be_among_them=not options.texts)
    typed = [text_of(text, number) for number, text in enumerate(options.texts, 1)]
    groups = _standard_input() if reading else [typed]
    prefix = text_of(options.prefix)
    warn_of_bytes("the prefix", prefix)
    decode["prefix"] = prefix.text
    if options.stream:
        _stream(app, groups, decode, "line" if reading else "text")
    else:
        _translate(app, groups, decode, "line" if reading else "text", as_json=options.json)


def _translate(app: "App", groups: Iterable[list[Line]], decode: dict[str, Any], place: str, *, as_json: bool) -> None:
    """Answer each group as soon as it is there."""
    for group in groups:
        for line, result in zip(group, app.results([line.text for line in group], **decode)):
            warn(f"{place} {line.number:,}", line, result)
            print(to_json(result.to_dict()) if as_json else result.text)
        sys.stdout.flush()


def _check_suppressed(app: "App", pieces: Iterable[str], *, texts_may_be_among_them: bool) -> None:
    """Refuse what is no token before standard input is waited for."""
    for piece in pieces:
        try:
            app.tokenizers.target.token(piece)
        except DataError as error:
            if not texts_may_be_among_them:
                raise
            raise UsageError(f"{error}\n  a text that is to be translated stands before --suppress") from error


def _stream(app: "App", groups: Iterable[list[Line]], decode: dict[str, Any], place: str) -> None:
    """Write each translation in pieces, as they are found."""
    for line in itertools.chain.from_iterable(groups):
        warn(f"{place} {line.number:,}", line, app.reading(line.text))
        for piece in app.pieces(line.text, **decode):
            print(piece, end="", flush=True)
        print(flush=True)


def _standard_input() -> Iterator[list[Line]]:
    if sys.stdin is None:
        raise UsageError('standard input is closed; give texts: clearhead translate DIR "a sentence"')
    if sys.stdin.isatty():
        say("type a sentence a line; end with Ctrl-D")
    return read_groups(sys.stdin.fileno())


VERB = Verb(
    name="translate",
    summary="translate texts, or standard input line by line",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead translate models/en-fr "I am hungry."',
        "cat text.en | clearhead translate models/en-fr --beam 4 > text.fr",
        "clearhead translate models/en-fr --json < text.en",
    ),
    add_options=_add_options,
    run=_run,
)
