"""`clearhead translate`, `summarize` and `transcribe`: answer texts or files, named or from standard input."""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ....config.messages import say
from ....errors import DataError
from ...input_lines import (
    Place,
    Printed,
    input_groups,
    reads_stdin,
    text_of,
    warn,
    warn_of_bytes,
    warn_of_file_names,
    warnings_of,
    warnings_of_cut,
    whole_file,
)
from ...lines.answering import LineAnswers, MediaInputs, add_line_options, check_line_options
from ...lines.measured_engines import Engines
from ...lines.table_answers import RowsAnswer, add_table_options, answer_table, check_table_options
from ...models import add_model_options, open_model
from ...output import print_pieces
from ...parser import Options, Parser, UsageError, Verb
from ...rejection import rejects

if TYPE_CHECKING:
    from ....api import Translator


def _add_options(parser: Parser, verb: str, answer: str) -> None:
    """Add the options for the model, the texts and the output. `answer` is a noun such as "translation"."""
    add_model_options(parser)
    name, what = ("TEXT", "text") if verb != "transcribe" else ("FILE", "audio file")
    lines = "lines of standard input" if verb != "transcribe" else "paths listed on standard input"
    parser.add_inputs("texts", name, f"{what} to {verb} (default: {lines})")
    parser.add_value("--prefix", "TEXT", f"text that every {answer} starts with", "")
    parser.add_flag("--stream", f"print each {answer} as it's generated, without beam search")
    parser.add_flag("--json", "print JSON lines with scores, tokens and alternatives")
    add_table_options(parser, f"the {answer}")
    add_line_options(parser)


def _answer_texts(options: Options, verb: str, what: str, files: Sequence[str] = ()) -> None:
    """Print one answer per line, for each text or each of `files`. `what` is a noun phrase such as "a sentence"."""
    app, decode, piped = _opened(options, verb, len(options.texts) + len(files))
    if options.data:
        answer_table(options, app, decode, _scored(options, app, decode), engines=_engines(app, decode, compares=True))
        return
    groups = input_groups(options.texts, verb, what) if piped else _groups(options, verb, what, files)
    if options.stream:
        _stream(app, groups, decode)
        return

    def answer(places: Sequence[Place]) -> list[Printed]:
        texts = [line.text for _, line in places]
        found: Sequence[Any] = (app.results if is_scored else app.brief_results)(texts, **decode)
        return [answering.printed(it, it.text, warnings_of(place, it)) for place, it in zip(places, found)]

    answering = LineAnswers(options, app, decode, as_json=options.json)
    is_scored = options.json or answering.rejection is not None
    engines = _engines(app, decode, compares=not options.json)  # scores may differ in their last digits
    answering.run(groups, answer, piped=piped, engines=engines)


def _scored(options: Options, app: "Translator", decode: dict[str, Any]) -> RowsAnswer | None:
    """Return what answers rows with a confidence if one is asked for."""
    return (lambda rows: app.results([text for (text,) in rows], **decode)) if rejects(options) else None


def _engines(app: "Translator", decode: dict[str, Any], *, compares: bool) -> Engines:
    """Return the engines that answer with these settings, whose engine changes."""
    from ....decode.registry import AUTO, IN_MEMORY, is_preparing, with_one_engine

    search = app.decode_config(**{name: it for name, it in decode.items() if name != "prefix"})

    def use(name: str) -> str:
        # Workers get its name, so none of them opens another one that becomes ready later.
        decode["engine"] = name or with_one_engine(app.loaded.handle, search).engine
        app.writer(**decode)  # opens it
        return str(decode["engine"])

    may_change = compares and (search.engine, search.precision) == (AUTO, "fp32")
    return Engines(use, IN_MEMORY if may_change else "", lambda: is_preparing(app.loaded.handle))


def _opened(options: Options, verb: str, n_inputs: int) -> "tuple[Translator, dict[str, Any], bool]":
    """Check the options, and return the model, the search settings for it, and whether it reads standard input."""
    check_table_options(options, n_inputs)
    piped = reads_stdin(options.texts, n_inputs)
    if options.stream and options.json:
        raise UsageError("--stream can't be combined with --json", fix="use one of them")
    if options.stream and rejects(options):
        name = "--reject-below and --error-rate"
        raise UsageError(f"{name} need whole answers, so --stream can't be used with them", fix="leave --stream out")
    if options.stream and (options.out or options.workers or options.data):
        name = "--data" if options.data else "--out or --workers"
        raise UsageError(f"--stream can't be combined with {name}", fix="leave it out")
    app, decode = open_model(options, verb, one_answer=not options.json)
    if not options.json and decode["n_best"] > 1:
        raise UsageError(f"--n-best {decode['n_best']} needs --json, which prints all the answers")
    check_line_options(options, app)
    _check_suppressed(app, decode, texts_may_be_among_them=not options.texts)
    prefix = text_of(options.prefix)
    warn_of_bytes("the prefix", prefix)
    decode["prefix"] = prefix.text
    return app, decode, piped


def _answer_files(options: Options, verb: str, what: str) -> None:
    """Print one answer per line for each file, like `_answer_texts`. An unreadable file doesn't affect the others."""
    app, decode, piped = _opened(options, verb, len(options.texts))
    if options.data:
        answer_table(options, app, decode, _scored(options, app, decode))
        return

    def answer(names: list[str]) -> Sequence[Any]:
        if options.stream:
            return [app.reading(name) for name in names]
        if options.json:
            return app.results(names, **decode, timings=True)
        return app.results(names, **decode) if answering.rejection else app.brief_results(names, **decode)

    def show(name: str, result: Any) -> Printed:
        if options.stream:
            return Printed("")
        return answering.printed(result, result.text, warnings_of_cut(name, result))

    answering = LineAnswers(options, app, decode, as_json=options.json)
    inputs = MediaInputs(app, answer, show, as_json=options.json)
    groups = input_groups(options.texts, verb, what, noun="")
    if options.stream:
        _stream_files(app, groups, inputs, decode)
        return
    answering.run(groups, inputs, piped=piped, failure=inputs.error)


def _stream_files(
    app: "Translator", groups: Iterable[list[Place]], inputs: MediaInputs, decode: dict[str, Any]
) -> None:
    """Print each transcript piece by piece as it's generated."""
    count = failed = 0
    for place in itertools.chain.from_iterable(groups):
        [found] = inputs([place])
        count, failed = count + 1, failed + found.failed
        for note in found.notes:
            say(note)
        print_pieces(() if found.failed else app.pieces(place[1].text, **decode))
    if failed:
        raise inputs.error(failed, count)


def _groups(options: Options, verb: str, what: str, files: Sequence[str]) -> Iterable[list[Place]]:
    warn_of_file_names(options.texts, "--file" if "file" in vars(options) else "<")
    texts = [place for group in input_groups(options.texts, verb, what) for place in group] if options.texts else []
    return [[*texts, *map(whole_file, files)]]


def _stream(app: "Translator", groups: Iterable[list[Place]], decode: dict[str, Any]) -> None:
    """Print each answer piece by piece as it's generated."""
    for place in itertools.chain.from_iterable(groups):
        text = place[1].text
        warn(place, app.reading(text))
        print_pieces(app.pieces(text, **decode))


def _check_suppressed(app: "Translator", decode: dict[str, Any], *, texts_may_be_among_them: bool) -> None:
    """Reject unknown tokens in --suppress before waiting for standard input."""
    for piece in app.decode_config(**decode).suppress:
        try:
            app.tokenizers.target.token_id(piece)
        except DataError as error:
            if texts_may_be_among_them:
                raise UsageError(
                    error.what, fix="put the texts before --suppress, which takes all words after it", value=piece
                ) from error
            raise


def _add_summary_options(parser: Parser) -> None:
    _add_options(parser, "summarize", "summary")
    parser.add_files("--file", "summarize each file as one document; - means all of standard input")


TRANSLATE = Verb(
    name="translate",
    summary="translate texts, or each line of standard input",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead translate models/en-fr "I am hungry."',
        "cat text.en | clearhead translate models/en-fr --beam 4 > text.fr",
        "clearhead translate models/en-fr --json < text.en",
        "clearhead translate models/en-fr --data products.csv --text description --out translated.csv",
    ),
    add_options=lambda parser: _add_options(parser, "translate", "translation"),
    run=lambda options: _answer_texts(options, "translate", "a sentence"),
    less_memory="lower --batch-tokens to use less",
)
SUMMARIZE = Verb(
    name="summarize",
    summary="summarize texts, whole files, or each line of standard input",
    usage="DIR [TEXT ...] [--file FILE ...] [options]",
    examples=(
        "clearhead summarize models/minutes --file meeting.txt",
        "clearhead summarize models/minutes --file notes/*.txt --json",
        "cat documents.txt | clearhead summarize models/minutes --max-len 30",
    ),
    add_options=_add_summary_options,
    run=lambda options: _answer_texts(options, "summarize", "a document", options.file),
    less_memory="lower --batch-tokens to use less",
)
TRANSCRIBE = Verb(
    name="transcribe",
    summary="transcribe audio files, or the files listed on standard input",
    usage="DIR [FILE ...] [options]",
    examples=(
        "clearhead transcribe models/calls a.wav b.wav",
        "ls calls/*.flac | clearhead transcribe models/calls --json",
    ),
    add_options=lambda parser: _add_options(parser, "transcribe", "transcript"),
    run=lambda options: _answer_files(options, "transcribe", "the path of an audio file"),
    less_memory="lower --batch-tokens to use less",
)
