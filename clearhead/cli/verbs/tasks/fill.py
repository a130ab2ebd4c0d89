"""`clearhead fill`: fill the masks of texts from the command line, or of each line of standard input."""

import sys
from typing import TYPE_CHECKING

from ....errors import DataError
from ...input_lines import Place, input_groups, reads_stdin, warn
from ...lines.table_answers import add_output_options, add_table_options, answer_table, check_table_options
from ...models import add_model_options, open_model
from ...output import to_json
from ...parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    from ....apps.filler import Filler
    from ....tasks.fill.fillings import Filled


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.batch_tokens", "decode.suppress", "decode.suppress_special"])
    parser.add_inputs("texts", "TEXT", "text with one or more masks (default: lines of standard input)")
    parser.add_number("--top", "print the N most probable tokens for each mask instead of the filled text", least=1)
    parser.add_flag("--json", "print JSON lines with the tokens and their probabilities")
    add_table_options(parser, "the filled text")
    add_output_options(parser)


def _run(options: Options) -> None:
    check_table_options(options, len(options.texts))
    reads_stdin(options.texts)  # raises an error for - among others before the model is read
    top = options.top
    app, decode = open_model(options, "fill", one_answer=False)
    if options.data:
        if top:
            raise UsageError("--top can't be combined with --data", fix="leave it out")
        answer_table(options, app, decode)
        return
    for group in input_groups(options.texts, "fill", "a text"):
        for place, result in zip(group, _filled(app, group, top or 1, decode)):
            warn(place, result)
            print(to_json(result.to_dict()) if options.json else _tokens(result) if top else result.filled)
        sys.stdout.flush()


def _filled(app: "Filler", group: list[Place], top: int, decode: dict[str, object]) -> "list[Filled]":
    """Fill the texts of a group. An error names the first text that has it."""
    try:
        return app.results([line.text for _, line in group], top=top, **decode)
    except DataError:
        if len(group) == 1:
            raise
    for place, line in group:
        try:
            app.reading(line.text)
        except DataError as error:
            raise error.within(place) from error
    raise AssertionError


def _tokens(result: "Filled") -> str:
    """Return the tokens for each mask with their probabilities. Masks are separated by a bar."""
    return " | ".join("  ".join(f"{it.text} {it.probability:.4f}" for it in mask) for mask in result.masks)


VERB = Verb(
    name="fill",
    summary="fill the masks of texts",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead fill models/book "Paris is the [MASK] of France."',
        'clearhead fill models/book "Paris is the [MASK] of France." --top 5',
        "clearhead fill models/book --json < texts.txt",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
