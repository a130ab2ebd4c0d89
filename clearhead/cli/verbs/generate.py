"""`clearhead generate`: a text goes on, from the command line or from standard input."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...config.messages import say
from ..input_texts import text_of, warn_of_bytes
from ..model_options import SEARCH, add_greedy, add_model_options, open_model, settle_greedy
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb
from ..stdin import line_of

if TYPE_CHECKING:
    from ...api import LanguageModel
    from ...decode.continuation import Continuation

_OF_A_SOURCE = ("decode.max_ratio", "decode.min_ratio")
_HELPS = {
    "decode.max_len": "most tokens that follow a text",
    "decode.max_extra": "most tokens that follow a text, where decode.max_len is open",
}


def _add_options(parser: Parser) -> None:
    add_model_options(parser, [name for name in SEARCH if name not in _OF_A_SOURCE], _HELPS)
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
    told = set[str]()
    for number, text in enumerate(texts):
        if options.json:
            several = app.continuations([text], **ends, **decode)[0]
            for found in several:
                print(to_json(_record(text, found)), flush=True)
        else:
            several = [_print(app, text, "\n" * bool(number), ends, decode)]  # texts have lines themselves
        for news in _how(app, text, several, chars):
            if news not in told:
                say(news)
            told.add(news)


def _print(
    app: "LanguageModel", text: str, between: str, ends: dict[str, Any], decode: dict[str, Any]
) -> "Continuation":
    """A text with what follows it, while that comes; the best of a search is known when all of it is."""
    if decode.get("beam", 1) > 1 and not app.decode_config(**decode).sample:
        found = app.continuations([text], **ends, **decode)[0][0]
        print(between + text + found.text, flush=True)
        return found
    pieces = app.pieces(text, **ends, **decode)  # refuses what the model cannot read
    print(between + text, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print(flush=True)
    assert pieces.continuation is not None
    return pieces.continuation


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


def _how(app: "LanguageModel", text: str, found: "list[Continuation]", chars: int | None) -> Iterator[str]:
    """What is to be known of how a text went on."""
    block, begun = app.config.model.max_len, len(app.tokenizers.target.encode(text))
    if any(begun + len(it.tokens) > block for it in found):
        yield f"beyond the {block:,} tokens of a block: {app.writer().overflow}"
    if chars is not None and any(it.why == "tokens" for it in found):
        yield f"decode.max_len ended a text before {chars:,} characters; expected a larger one, or none"


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
