"""Preview how a training run would use the data, without training."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any

from ..config import Config
from ..data.forms import Divided
from ..errors import DataError
from ..readers.column_roles import label_list
from ..readers.lines import shown
from ..readers.media.audio import probe_audio, read_audio
from ..readers.media.images import probe_image, read_image
from ..readers.skipped import UNREADABLE, Report, none_readable
from .base import Task
from .detect import find_task, with_modality
from .registry import task_of

_EXAMPLES = 3  # examples shown
_LABELS = 20  # labels listed with their counts
_WIDTH = 100  # characters of a value shown


def preview(config: Config, check: Callable[[Config], Iterable[str]] = lambda _: ()) -> Iterator[str]:
    """Yield paragraphs on the task and its columns, the data, the held-out part, the labels and the first examples.

    Args:
        check: takes the settings with what the data decide, and returns more paragraphs.

    Raises:
        DataError: the data can't be used; training would raise the same error.
    """
    config = with_modality(config)
    data = config.data
    found = find_task(data.train, data, task=config.train.task)
    if str(found):
        yield str(found)
    config = config.assign({"train.task": found.verb}, "data")
    task = task_of(config)
    config = task.settle(config)
    with task.form.open(data.train, data) as source:
        corpus = task.form.divide(source, 0.0 if data.valid else config.data.split, config.train.seed)
        yield str(source.report)
        if not data.valid:
            yield corpus.note
        config = config.assign(task.from_data(corpus, config), "data")  # raises the same errors as in training
        yield from check(config)
        if task.has_labels and config.data.label_kind != "number":
            yield _labels(corpus, task.units.examples)
        if config.data.number_scale:
            yield "numbers to train on: mean {:.4g}, standard deviation {:.4g}".format(*config.data.number_scale)
        unread = set[str]()
        if config.data.modality != "text":
            unread = yield from media_preview(corpus, config)
        yield from _examples(task, corpus, unread)
    files = {"validation": data.valid, "test": data.test, "replay": data.replay, "check": data.check}
    for name, paths in files.items():
        if paths:
            yield f"{name}: {task.form.read(paths, data).report}"


def _labels(corpus: Divided, what: str) -> str:
    counts: Counter[str] = Counter()
    for chunk in corpus.chunks():
        counts.update(label for target in chunk.targets for label in label_list(target))
    rows = [f"  {count:7,}  {shown(label, 60)}" for label, count in counts.most_common(_LABELS)]
    more = f"\n  and {len(counts) - _LABELS:,} more" if len(counts) > _LABELS else ""
    return f"{len(counts):,} labels to train on, with their numbers of {what}\n" + "\n".join(rows) + more


def _examples(task: type[Task], corpus: Any, unread: set[str]) -> Iterator[str]:
    examples = (it for chunk in corpus.chunks() for it in task.form.preview(chunk))
    first = islice((it for it in examples if unread.isdisjoint(it.values())), _EXAMPLES)
    for number, parts in enumerate(first, 1):
        width = max(map(len, parts))
        yield "\n".join(
            [f"example {number}", *(f"  {name:{width}}  {shown(it, _WIDTH)}" for name, it in parts.items())]
        )


_READ = 1_000  # files read for a preview


def media_preview(corpus: Any, config: Config) -> Generator[str, None, set[str]]:
    """Yield the sizes of some files, those that can't be read, and the model's view of them.

    Returns the names of those that can't be read.

    Args:
        corpus: the files, those held out included.
        config: the settings, with those that depend on the data.

    Raises:
        DataError: none of the files can be read.
    """
    source = corpus.source
    rows, total = _spread(source), source.report.used
    is_image, what = config.data.modality == "image", source.roles.plural[0]
    sizes, unread, names = list[Any](), Report((), item="file", width=source.report.width), set[str]()
    for number, name in rows:
        try:
            sizes.append(_read(name, config, is_image=is_image))
        except DataError as error:
            unread.skip(number, f"{what} {UNREADABLE}", error.what)
            names.add(name)
    if sizes:
        some = f"{len(rows):,} of {total:,} {what} read" if len(rows) < total else f"{what} read"
        yield f"{some}: {_image_sizes(sizes) if is_image else _audio_sizes(sizes)}\n  {_read_as(config)}"
    if unread.skipped:
        yield "\n".join(unread.skipped_rows("found"))
    if len(names) == total:
        raise none_readable(what, total)
    return names


def _spread(source: Any) -> list[tuple[int, str]]:
    """Return the numbers and the names of at most `_READ` files, spread evenly."""
    total = source.report.used
    most = min(total, _READ)
    return [(number, name) for i, (number, name, _) in enumerate(source) if (i + 1) * most // total > i * most // total]


def _read(name: str, config: Config, *, is_image: bool) -> Any:
    """Return the size of a file that can be read."""
    size: Any = probe_image(name) if is_image else probe_audio(name)
    if is_image:
        read_image(name, config.model.image_size or 1, config.model.image_channels or 1)
    else:
        read_audio(name, config.model.sample_rate or size.sample_rate)
    return size


def _image_sizes(sizes: Any) -> str:
    colours = sum(it.channels > 1 for it in sizes)
    ends = (end(sizes, key=lambda it: it.width * it.height) for end in (min, max))
    small, large = (f"{it.width:,} x {it.height:,}" for it in ends)
    return f"{small if small == large else f'{small} to {large}'} pixels, {colours:,} of {len(sizes):,} in colour"


def _audio_sizes(sizes: Any) -> str:
    seconds = [it.n_samples / it.sample_rate for it in sizes]
    rates = sorted({it.sample_rate for it in sizes})
    each = f"{rates[0]:,}" if len(rates) == 1 else f"{rates[0]:,} to {rates[-1]:,}"
    length = f"{min(seconds):.2f} to {max(seconds):.2f} seconds, {sum(seconds):,.0f} seconds in all"
    return f"{length}; {each} samples per second"


def _read_as(config: Config) -> str:
    model = config.model
    if config.data.modality == "image":
        size, patch, colours = model.image_size, model.patch_size, "grey" if model.image_channels == 1 else "in colour"
        return f"the model reads them as {size} x {size} pixels, {colours}, in patches of {patch} x {patch}"
    return f"the model reads them at {model.sample_rate:,} samples per second (model.sample_rate)"
