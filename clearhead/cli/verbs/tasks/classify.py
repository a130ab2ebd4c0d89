"""`clearhead classify`: label texts, images or audio files from the command line, or each line of standard input."""

import sys
from typing import Any

from ....config.messages import say
from ...input_lines import STDIN
from ...input_warnings import warn, warn_of_cut, warn_of_file_name
from ...media_inputs import MediaInputs
from ...models import add_model_options, open_model
from ...output import to_json
from ...parser import Options, Parser, Verb
from ...text_to_text import expect_one_input, file_groups, numbered_lines, numbered_texts


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.batch_tokens"])
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="text, image file or audio file to label (default: lines of standard input)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines with the probabilities of all labels")


def _run(options: Options) -> None:
    expect_one_input(options.texts, len(options.texts))
    app, decode = open_model(options, "classify", one_answer=False)
    piped = options.texts in ([], [STDIN])
    if "text" not in app.task.modalities:
        _label_files(app, options, decode)
        return
    for number, text in enumerate(() if piped else options.texts, 1):
        warn_of_file_name(f"text {number:,}", text, "<")
    for group in numbered_lines("classify", "a text") if piped else [numbered_texts(options.texts)]:
        results = app.results([line.text for _, line in group], **decode)
        for (place, line), result in zip(group, results):
            warn(place, line, result)
            if not line.text.strip():
                say(f"{place} is blank, so its label is meaningless")
            print(to_json(result.to_dict()) if options.json else result.label)
        sys.stdout.flush()


def _label_files(app: Any, options: Options, decode: dict[str, Any]) -> None:
    """Label image or audio files, which are named in the arguments or on the lines of standard input."""
    inputs = MediaInputs(app, as_json=options.json, key="text")
    for group in file_groups(options.texts, "classify", f"the path of a {app.task.form.roles.source}"):
        for name, result in zip(group, inputs.answered(group, lambda names: app.results(names, **decode))):
            if result is None:
                print(inputs.shown(name))
                continue
            warn_of_cut(name, result)
            print(to_json(result.to_dict()) if options.json else result.label)
        sys.stdout.flush()
    inputs.finish()


VERB = Verb(
    name="classify",
    summary="label texts, images or audio files",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead classify models/topics "The match ended in a draw."',
        "clearhead classify models/topics < texts.txt > labels.txt",
        "cat texts.txt | clearhead classify models/topics --json",
        "clearhead classify models/animals a.png b.jpg",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
