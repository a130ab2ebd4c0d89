"""`clearhead generate`: a text goes on, from the command line or from standard input."""

import sys
from typing import TYPE_CHECKING, Any

from ..messages import say
from .lines import line_of
from .output import to_json
from .parser import Options, Parser, UsageError, Verb
from .reading import text_of, warn_of_bytes
from .using import SEARCH, add_greedy, add_model_options, open_model, settle_greedy

if TYPE_CHECKING:
    from ..app import LanguageModel
    from ..decode.continuation import Continuation


def _add_options(parser: Parser) -> None:
    add_model_options(parser, SEARCH)
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="what goes on; none: a text of its own; -: all of standard input"
    )
    parser.add_argument("--chars", metavar="N", help="exactly so many characters more, Unicode code points")
    parser.add_argument(
        "--stop", action="append", metavar="TEXT", default=[], help="end before this text; may be given several times"
    )
    add_greedy(parser)
    parser.add_argument("--json", action="store_true", help="print JSON lines with tokens and probabilities")


def _run(options: Options) -> None:
    settle_greedy(options)
    chars = _count(options.chars)
    app, decode = open_model(options, "generate", one_answer=not options.json)
    if not options.json and decode["n_best"] > 1:
        raise UsageError("several continuations of a text need room for their scores; expected --json beside --n-best")
    if options.texts.count("-") > 1:
        raise UsageError("- stands for all of standard input, and was given twice; expected it once")
    texts = [_prompt(text, number) for number, text in enumerate(options.texts or [""], 1)]
    ends: dict[str, Any] = {"chars": chars, "stop": options.stop}
    _say_beyond(app, texts, ends, decode)
    for number, text in enumerate(texts):
        if options.json:
            for found in app.continuations([text], **ends, **decode)[0]:
                print(to_json(_record(text, found)), flush=True)
            continue
        pieces = app.pieces(text, **ends, **decode)  # refuses what the model cannot read
        print("\n" * bool(number) + text, end="", flush=True)  # a blank line between texts, which have lines themselves
        for piece in pieces:
            print(piece, end="", flush=True)
        print(flush=True)


def _count(chars: str | None) -> int | None:
    if chars is None:
        return None
    if not chars.isdecimal() or int(chars) < 1:
        raise UsageError(f"--chars {chars} is no number of characters; expected one, at least 1")
    return int(chars)


def _prompt(text: str, number: int) -> str:
    """A text of the command line; - stands for all of standard input, but for a line end at its end."""
    if text == "-":
        if sys.stdin is None:
            raise UsageError('standard input is closed; give a text: clearhead generate DIR "once upon a time"')
        line = line_of(1, sys.stdin.buffer.read().removesuffix(b"\n"))
        warn_of_bytes("standard input", line)
        return line.text
    line = text_of(text, number)
    warn_of_bytes(f"text {number:,}", line)
    return line.text


def _say_beyond(app: "LanguageModel", texts: list[str], ends: dict[str, Any], decode: dict[str, Any]) -> None:
    """Say how what is longer than the model's block is read, where that may happen."""
    writer = app.writer(**ends, **decode)
    longest = max(len(app.tokenizers.target.encode(text)) for text in texts) + writer.session.limit
    if longest > app.config.model.max_len:
        say(f"beyond the {app.config.model.max_len:,} tokens of a block: {writer.beyond}")


def _record(text: str, found: "Continuation") -> dict[str, Any]:
    return {
        "format_version": 1,
        "prompt": text,
        "text": found.text,
        "why": found.why,
        "score": found.score,
        "log_probability": found.log_probability,
        "tokens": list(found.tokens),
        "logprobs": list(found.logprobs),
        "unread": found.unread,
    }


VERB = Verb(
    name="generate",
    summary="go on with a text",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead generate models/shakespeare "To be, or not to be" --chars 500',
        'clearhead generate models/shakespeare "ROMEO:" --greedy --stop "JULIET:"',
        "cat story.txt | clearhead generate models/stories - --temperature 0.8 --seed 7",
    ),
    add_options=_add_options,
    run=_run,
)
