"""`clearhead classify`: label texts, images or audio files from the command line, or each line of standard input."""

from collections.abc import Sequence
from typing import Any

from ...input_lines import Place, Printed, input_groups, reads_stdin, warn_of_file_names, warnings_of, warnings_of_cut
from ...lines.answering import LineAnswers, MediaInputs, add_line_options, check_line_options
from ...lines.table_answers import add_table_options, answer_table, check_table_options
from ...models import add_model_options, open_model
from ...parser import Options, Parser, Verb


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.batch_tokens"])
    parser.add_inputs("texts", "TEXT", "text, image file or audio file to label (default: lines of standard input)")
    parser.add_flag("--json", "print JSON lines with the probabilities of all labels")
    add_table_options(parser, "label and probability")
    add_line_options(parser)


def _run(options: Options) -> None:
    check_table_options(options, len(options.texts))
    piped = reads_stdin(options.texts)
    app, decode = open_model(options, "classify", one_answer=False)
    check_line_options(options, app)
    if options.data:
        answer_table(options, app, decode)
        return
    answering = LineAnswers(options, app, decode, as_json=options.json, key="text")
    if "text" not in app.task.modalities:
        inputs = _files(app, options, decode, answering)
        what = f"the path of a {app.task.form.roles.source}"
        groups = input_groups(options.texts, "classify", what, noun="")
        answering.run(groups, inputs, piped=piped, failure=inputs.error)
        return
    warn_of_file_names(() if piped else options.texts, "<")

    def answer(places: Sequence[Place]) -> list[Printed]:
        results = app.results([line.text for _, line in places], **decode)
        return [answering.printed(it, it.label, _notes(place, it)) for place, it in zip(places, results)]

    answering.run(input_groups(options.texts, "classify", "a text"), answer, piped=piped)


def _notes(place: Place, result: Any) -> tuple[str, ...]:
    where, line = place
    notes = warnings_of(place, result)
    return notes if line.text.strip() else (*notes, f"{where} is blank, so its label is meaningless")


def _files(app: Any, options: Options, decode: dict[str, Any], answering: LineAnswers) -> MediaInputs:
    """Return what labels image or audio files, which are named in the arguments or on the lines of standard input."""

    def show(name: str, result: Any) -> Printed:
        return answering.printed(result, result.label, warnings_of_cut(name, result))

    return MediaInputs(app, lambda names: app.results(names, **decode), show, as_json=options.json, key="text")


VERB = Verb(
    name="classify",
    summary="label texts, images or audio files",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead classify models/topics "The match ended in a draw."',
        "clearhead classify models/topics < texts.txt > labels.txt",
        "cat texts.txt | clearhead classify models/topics --json",
        "clearhead classify models/topics --data tickets.csv --out labelled.csv",
        "clearhead classify models/animals a.png b.jpg",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
