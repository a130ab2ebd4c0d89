"""Preview how a training run would use the data, without training."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from ..config import Config
from ..data.forms import Divided
from ..readers.lines import shown
from .base import Task
from .detect import find_task, with_modality
from .preview_media import media_preview
from .registry import task_of

_EXAMPLES = 3  # examples shown
_LABELS = 20  # labels listed with their counts
_WIDTH = 100  # characters of a value shown


def preview(config: Config, check: Callable[[Config], Iterable[str]] = lambda _: ()) -> Iterator[str]:
    """Yield paragraphs on the task and its columns, the data, the held-out part, the labels and the first examples.

    Args:
        config: the settings.
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
        if task.has_labels:
            yield _labels(corpus, task.units.examples)
        unread = set[str]()
        if config.data.modality != "text":
            unread = yield from media_preview(corpus, config)
        yield from _examples(task, corpus, unread)
    for name, paths in (("validation", data.valid), ("test", data.test)):
        if paths:
            yield f"{name}: {task.form.read(paths, data).report}"


def _labels(corpus: Divided, what: str) -> str:
    counts: Counter[str] = Counter()
    for chunk in corpus.chunks():
        counts.update(chunk.targets)
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
