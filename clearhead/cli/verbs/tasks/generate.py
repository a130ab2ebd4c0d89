"""`clearhead generate`: continue texts from the command line or standard input."""

import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from ....config.messages import say
from ...input_lines import LONGEST, STDIN, line_of, standard_input, text_of, too_long, warn_of_bytes
from ...lines.table_answers import add_output_options, add_table_options, answer_table, check_table_options
from ...models import SEARCH, add_greedy, add_model_options, apply_greedy, open_model
from ...output import print_pieces, to_json
from ...parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    from ....api import LanguageModel
    from ....decode.continuation import Continuation

_OF_A_SOURCE = ("decode.max_ratio", "decode.min_ratio")
_HELPS = {
    "decode.max_len": "maximum number of tokens to add",
    "decode.max_extra": "maximum number of tokens to add if decode.max_len isn't set",
}


def _add_options(parser: Parser) -> None:
    add_model_options(parser, [name for name in SEARCH if name not in _OF_A_SOURCE], helps=_HELPS)
    parser.add_inputs("texts", "TEXT", "text to continue; - means all of standard input (default: start a new text)")
    parser.add_number("--chars", "add exactly this many characters", least=1)
    parser.add_repeatable("--stop", "TEXT", "stop before this text; can be repeated")
    parser.add_flag("--chat", "answer each line of standard input, or the conversations in files (TEXT: JSON, JSONL)")
    add_greedy(parser)
    parser.add_flag("--json", "print JSON lines with tokens and log-probabilities")
    add_table_options(parser, "the continuation")
    add_output_options(parser)


def _run(options: Options) -> None:
    check_table_options(options, len(options.texts))
    apply_greedy(options)
    chars = options.chars
    if options.texts.count(STDIN) > 1:
        raise UsageError("- is given twice, but standard input can be read only once", fix="give - once")
    app, decode = open_model(options, "generate", one_answer=not options.json)
    if not options.json and decode["n_best"] > 1:
        raise UsageError(f"--n-best {decode['n_best']} needs --json, which prints all the continuations")
    if options.chat:
        if chars is not None:
            raise UsageError("--chars can't be combined with --chat, whose answers end by themselves")
        if options.data:
            raise UsageError("--data can't be combined with --chat", fix="name a file of conversations as TEXT")
        if options.json and not options.texts:
            raise UsageError("--chat --json needs a file of conversations", fix="name one as TEXT, or leave out --json")
        _chat(app, options, decode)
        return
    ends: dict[str, Any] = {"chars": chars, "stop": options.stop}
    if options.data:
        answer_table(options, app, {**ends, **decode})
        return
    texts = [_prompt(text, number) for number, text in enumerate(options.texts or [""], 1)]
    seen = set[str]()
    for number, text in enumerate(texts):
        if options.json:
            several = app.continuations([text], **ends, **decode)[0]
            for found in several:
                print(to_json(found.to_dict(text)), flush=True)
        else:
            # an empty line between texts, which can have several lines
            several = [_print(app, text, "\n" * bool(number), ends, decode)]
        for note in _notes(app, text, several, chars):
            if note not in seen:
                say(note)
            seen.add(note)


def _chat(app: "LanguageModel", options: Options, decode: dict[str, Any]) -> None:
    """Answer the conversations in files, or the user's messages as they come."""
    from ....readers.conversations import read_chats
    from ....tokenization.chat_template import ASSISTANT

    decode = app.answering(stop=options.stop, **decode)
    if not options.texts:
        _converse(app, decode)
        return
    for number, messages in enumerate([it for path in options.texts for it in read_chats(path)]):
        if not options.json:
            print("\n" * bool(number), end="")
            _answer(app, messages, decode)
            continue
        for found in app.continuations([messages], **decode)[0]:
            answer = {"role": ASSISTANT, "content": found.text}
            print(to_json({**found.to_dict(""), "prompt": messages, "message": answer}), flush=True)


def _converse(app: "LanguageModel", decode: dict[str, Any]) -> None:
    """Answer each line of standard input, with all lines and answers before it."""
    from ....tokenization.chat_template import ASSISTANT

    messages = list[dict[str, str]]()
    lines = chain.from_iterable(standard_input("generate", "a message"))
    for line in (it for it in lines if it.text.strip()):
        warn_of_bytes(f"line {line.number:,}", line)
        messages.append({"role": "user", "content": line.text})
        messages.append({"role": ASSISTANT, "content": _answer(app, messages, decode)})


def _answer(app: "LanguageModel", messages: list[dict[str, str]], decode: dict[str, Any]) -> str:
    """Print the answer to a conversation as it's generated, and return it."""
    stream = app.chat_pieces(messages, **decode)
    print_pieces(stream)
    if stream.continuation.unread:
        window, overflow = app.config.model.max_len, app.writer().overflow
        say(f"the conversation is longer than the context window of {window:,} tokens: {overflow}")
    return str(stream.continuation.text)


def _print(
    app: "LanguageModel", text: str, before: str, ends: dict[str, Any], decode: dict[str, Any]
) -> "Continuation":
    """Print a text and its continuation, piece by piece as it's generated or, with beam search, all at once."""
    if decode.get("beam", 1) > 1 and not app.decode_config(**decode).sample:
        found = app.continuations([text], **ends, **decode)[0][0]
        print(before + text + found.text, flush=True)
        return found
    pieces = app.pieces(text, **ends, **decode)  # raises errors about the text before anything is printed
    print(before + text, end="", flush=True)
    print_pieces(pieces)
    return cast("Continuation", pieces.continuation)


def _prompt(text: str, number: int) -> str:
    """Return a text from the command line or, for -, all of standard input without its final newline."""
    if text == STDIN:
        if sys.stdin is None:
            raise UsageError("standard input is closed", fix='give a text: clearhead generate DIR "once upon a time"')
        content = sys.stdin.buffer.read(LONGEST + 1)
        if len(content) > LONGEST:
            raise too_long(1)
        line = line_of(1, content.removesuffix(b"\n"))
        warn_of_bytes("standard input", line)
        return line.text
    line = text_of(text, number)
    warn_of_bytes(f"text {number:,}", line)
    return line.text


def _notes(app: "LanguageModel", text: str, found: "list[Continuation]", chars: int | None) -> Iterator[str]:
    """Yield notes about continuations that exceed the context window or end too early."""
    block, start = app.config.model.max_len, len(app.tokenizers.target.encode(text))
    if any(start + len(it.tokens) > block for it in found):
        yield f"the text is longer than the context window of {block:,} tokens: {app.writer().overflow}"
    if chars is not None and any(it.why == "tokens" for it in found):
        yield f"decode.max_len ended a text before {chars:,} characters; increase it or leave it out"


VERB = Verb(
    name="generate",
    summary="continue texts, or write new ones",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead generate models/shakespeare "To be, or not to be" --chars 500',
        'clearhead generate models/shakespeare "ROMEO:" --greedy --stop "JULIET:"',
        "clearhead generate models/helper --chat",
        "cat story.txt | clearhead generate models/stories - --temperature 0.8 --seed 7",
    ),
    add_options=_add_options,
    run=_run,
)
