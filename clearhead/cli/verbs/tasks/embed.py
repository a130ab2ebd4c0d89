"""`clearhead embed`: print embeddings of texts, images or audio files, or write them to a file."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....config.messages import say
from ...input_lines import Place, input_groups, reads_stdin, warn
from ...lines.table_answers import add_output_options, add_table_options, answer_table, check_table_options
from ...models import add_model_options, open_model
from ...output import to_json
from ...parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ....api import App
    from ....apps.answers import Reading


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.batch_tokens"])
    parser.add_inputs("texts", "TEXT", "text, image file or audio file to embed (default: lines of standard input)")
    text = "use the mean of all tokens, or the first token (default: model.pooling)"
    parser.add_argument("--pooling", choices=["mean", "first"], help=text)
    parser.add_argument(
        "--normalize", action="store_true", default=None, help="scale embeddings to length 1 (default: model.normalize)"
    )
    parser.add_flag("--json", "print JSON lines with each text and its embedding")
    add_table_options(parser, "the vector")
    add_output_options(parser, "write to this file: the table or, without --data, a .npy file with an array (N, D)")


def _run(options: Options) -> None:
    check_table_options(options, len(options.texts))
    if options.out and not options.data and options.out.suffix.lower() != ".npy":
        what, fix = f"--out {options.out} doesn't end in .npy", "add it, or print the embeddings as JSON lists"
        raise UsageError(what, fix=fix, name="--out", value=options.out)
    reads_stdin(options.texts)  # raises an error for - among others before the model is read
    if options.out and options.json:
        raise UsageError("--out can't be combined with --json", fix="use one of them")
    app, decode = open_model(options, one_answer=False)
    from ....apps.answers import Embedded

    settings = {"pooling": options.pooling, "normalize": options.normalize, **decode}
    if options.data:
        answer_table(options, app, settings, lambda rows: _records(app, [text for (text,) in rows], settings), "embed")
        return
    found = _embedded(app, options, settings)
    if options.out:
        _write(options.out, app, [vectors for _, vectors in found])
        return
    for group, vectors in found:
        for (_, line), vector in zip(group, vectors):
            record = Embedded(line.text, vector).to_dict()
            print(to_json(record if options.json else record["embedding"]))
        sys.stdout.flush()


def _embedded(
    app: "App", options: Options, settings: dict[str, Any]
) -> "Iterator[tuple[list[Place], NDArray[np.float32]]]":
    """Yield groups of texts with their embeddings (N, D)."""
    is_text = "text" in app.task.modalities
    what = "a text" if is_text else f"the path of a file of {app.task.units.sources}"
    for group in input_groups(options.texts, "embed", what):
        vectors = app.embed([line.text for _, line in group], **settings)
        if is_text:
            for place, found in zip(group, _readings(app, [line.text for _, line in group])):
                warn(place, found)
        yield group, vectors


def _records(app: "App", texts: list[str], settings: dict[str, Any]) -> list[Any]:
    """Return a record for each text of a table, with the problems of the text."""
    from ....apps.answers import EmbeddedRow

    return [
        EmbeddedRow(**vars(problems), embedding=vector)
        for problems, vector in zip(_readings(app, texts), app.embed(texts, **settings))
    ]


def _readings(app: "App", texts: list[str]) -> "list[Reading]":
    """Return the unknown words of texts, and the number of tokens cut off."""
    from ....apps.answers import Reading
    from ....tasks.embed import reader_of

    _, cut = reader_of(app.task).encode(texts)
    return [Reading(tuple(app.tokenizers.source.unknown_words(text)), cut=it) for text, it in zip(texts, cut)]


def _write(path: Path, app: "App", groups: "list[NDArray[np.float32]]") -> None:
    """Write all embeddings as one array."""
    import numpy as np

    from ....folder.atomic import save_file

    vectors = np.concatenate(groups) if groups else np.zeros((0, app.config.model.d_model), np.float32)
    data = io.BytesIO()
    np.save(data, vectors)
    save_file(path, data.getvalue())
    say(f"wrote {path}: {len(vectors):,} embeddings of width {vectors.shape[1]:,}")


VERB = Verb(
    name="embed",
    summary="turn texts, images or audio files into vectors",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead embed models/minilm "The match ended in a draw."',
        "clearhead embed models/minilm --out vectors.npy < texts.txt",
        "clearhead embed models/en-fr --pooling mean --normalize --json < texts.txt",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
