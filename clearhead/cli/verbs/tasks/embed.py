"""`clearhead embed`: print embeddings of texts, images or audio files, or write them to a file."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....config.messages import say
from ...input_lines import Place, input_groups, reads_stdin
from ...input_warnings import warn
from ...models import add_model_options, open_model
from ...output import new_file_of, to_json
from ...parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ....api import App


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.batch_tokens"])
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="text, image file or audio file to embed (default: lines of standard input)",
    )
    parser.add_argument(
        "--pooling",
        choices=["mean", "first"],
        help="use the mean of all tokens, or the first token (default: model.pooling)",
    )
    parser.add_argument(
        "--normalize", action="store_true", default=None, help="scale embeddings to length 1 (default: model.normalize)"
    )
    array = new_file_of("npy", ", or print the embeddings as JSON lists")
    parser.add_argument("--out", type=array, metavar="FILE", help="write a float32 array (N, D) to this .npy file")
    parser.add_flag("--json", "print JSON lines with each text and its embedding")


def _run(options: Options) -> None:
    reads_stdin(options.texts)  # raises an error for - among others before the model is read
    if options.out and options.json:
        raise UsageError("--out can't be combined with --json", fix="use one of them")
    app, decode = open_model(options, one_answer=False)
    from ....apps.answers import Embedded

    found = _embedded(app, options, {"pooling": options.pooling, "normalize": options.normalize, **decode})
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
            _warn(app, group)
        yield group, vectors


def _warn(app: "App", group: list[Place]) -> None:
    """Warn about unknown words and texts that are too long."""
    from ....apps.answers import Reading
    from ....tasks.embed.task import reader_of

    _, cut = reader_of(app.task).encode([line.text for _, line in group])
    for (place, line), n_cut in zip(group, cut):
        warn(place, line, Reading(tuple(app.tokenizers.source.unknown_words(line.text)), cut=n_cut))


def _write(path: Path, app: "App", groups: "list[NDArray[np.float32]]") -> None:
    """Write all embeddings as one array."""
    import numpy as np

    from ....folder.atomic import write_file, writing

    vectors = np.concatenate(groups) if groups else np.zeros((0, app.config.model.d_model), np.float32)
    data = io.BytesIO()
    np.save(data, vectors)
    with writing(path.parent, again="run the command again"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data.getvalue())
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
