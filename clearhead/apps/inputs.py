"""Validation of the texts and data passed to an app."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np

from ..config import Config
from ..data.forms import MediaForm
from ..errors import ConfigError, DataError
from ..readers.lines import shown
from ..readers.skipped import Skipped
from ..readers.source import as_paths
from ..tasks.base import Task
from ..tokenization.chat_template import Messages, fault_of

_WIDTH = 80  # maximum number of characters to show of an invalid value


def as_texts(texts: Any, what: str = "text") -> list[str]:
    """Return `texts` as a list of plain str.

    Raises:
        DataError: `texts` is a single str, isn't an ordered collection, or contains anything other than str.
    """
    if isinstance(texts, str):  # iterating over it would give characters
        raise DataError(f"got one {what}, {shown(texts)}", expected=f"a list of {what}s", name=what, value=texts)
    in_order = isinstance(texts, Iterable) and not isinstance(texts, bytes | Mapping | Set)
    if not in_order or len(getattr(texts, "shape", (0,))) != 1:  # a DataFrame would give column names
        raise DataError(
            f"got {describe_value(texts)}", expected=f"a {what} or a list of {what}s", name=what, value=texts
        )
    found = list(texts)
    for place, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(
                f"{what} {place} is {describe_value(text)}", expected="a str", name=f"{what} {place}", value=text
            )
    return [str(text) for text in found]  # converts numpy's strings to plain str


def as_text(text: Any, what: str = "text") -> str:
    """Return `text` unchanged. Raise DataError if `text` isn't a str."""
    if not isinstance(text, str):
        raise DataError(f"got {describe_value(text)}", expected=f"one {what}, a str", name=what, value=text)
    return text


def as_messages(messages: Any) -> Messages:
    """Return the messages of a conversation unchanged. Raise DataError if it isn't a list of messages."""
    found = list(messages) if isinstance(messages, Sequence) and not isinstance(messages, str) else messages
    if wrong := fault_of(found):
        expected = '[{"role": "user", "content": "..."}, ...]'
        raise DataError(wrong.replace('"messages"', "this"), expected=expected, name="messages", value=messages)
    return cast(Messages, found)


def as_token_ids(ids: Any, size: int) -> list[int]:
    """Return the `ids` of a prefix, one or a sequence of them, as a list of ints.

    `size` is the number of tokens in the vocabulary.

    Raises:
        DataError: something in it isn't the id of one of the vocabulary's tokens.
    """
    found = list(ids) if isinstance(ids, Sequence) and not isinstance(ids, str | bytes) else [ids]
    for value in found:
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < size:
            raise DataError(
                f"{describe_value(value)} isn't the id of a token",
                expected=f"a list of whole numbers from 0 to {size - 1:,}",
                name="prefix",
                value=value,
            )
    return [int(value) for value in found]


def describe_value(value: Any) -> str:
    """Describe an invalid value for an error message: its repr, truncated, and its type."""
    return f"{' '.join(repr(value).split())[:_WIDTH]} ({type(value).__name__})"


def check_type(name: str, value: Any, kind: Any) -> None:
    """Raise ConfigError unless an argument is of a class, or of one of several.

    Args:
        name: name of the argument, for the error message.
        value: the argument.
        kind: a class, or a tuple of classes.
    """
    if not isinstance(value, kind):
        expected = " or ".join(f"a {it.__name__}" for it in (kind if isinstance(kind, tuple) else (kind,)))
        raise ConfigError(f"{name} is {describe_value(value)}", expected=expected, name=name, value=value)


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise ConfigError unless an argument is a whole number, and large enough.

    Args:
        name: name of the argument, for the error message.
        value: the argument. A bool isn't a whole number here.
        least: the smallest allowed value.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
        raise ConfigError(f"{name} is {describe_value(value)}", expected=f"{least} or more", name=name, value=value)


def as_sources(sources: Any, modalities: Sequence[str]) -> list[Any]:
    """Return what a task answers as a list: texts, or paths and arrays of images or audio.

    Raises:
        DataError: see `as_texts`.
    """
    if "text" in modalities:
        return as_texts(sources)
    in_order = isinstance(sources, Iterable) and not isinstance(sources, bytes | Mapping | Set)
    if is_one_source(sources, modalities) or not in_order:
        raise DataError(f"got {describe_value(sources)}", expected="a list", name="sources", value=sources)
    return list(sources)


def as_source(source: Any, modalities: Sequence[str]) -> Any:
    """Return one text, image or recording unchanged. Raise DataError if it isn't one."""
    if "text" in modalities:
        return as_text(source)
    if not is_one_source(source, modalities):
        what = f"got {describe_value(source)}"
        raise DataError(what, expected="one path, array, or image", name="source", value=source)
    return str(source) if isinstance(source, Path) else source


def is_blank(source: Any) -> bool:
    """Return whether a source is a text of spaces only."""
    return isinstance(source, str) and not source.strip()


def is_one_source(source: Any, modalities: Sequence[str]) -> bool:
    """Return whether a value is a single text, image or recording, and not a list of them."""
    if "text" in modalities:
        return isinstance(source, str)
    from ..readers.media.images import is_image

    if "image" in modalities and isinstance(source, np.ndarray):
        return source.ndim < 3 or (source.ndim == 3 and source.shape[2] in (1, 3, 4))
    is_audio = isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], int | np.integer)
    return isinstance(source, str | Path) or is_audio or is_image(source)


def nothing_readable(files: Sequence[str], what: str, unread: Sequence[Skipped]) -> DataError:
    """Return the error for data of which no image or recording can be read.

    Args:
        files: paths of the data.
        what: the unit in the plural, such as "images".
        unread: the rows that can't be read, at least one. The message quotes the first.
    """
    name = " and ".join(files)
    return DataError(
        f"none of the {len(unread):,} {what} in {name} can be read\n  {unread[0].text}",
        expected=f"{what} whose content matches their names",
        name=name,
        value=len(unread),
    )


@contextmanager
def reading_data(task: Task, config: Config, data: Any) -> Iterator[Any]:
    """Yield the data that `read_data` returns. Images and audio in memory are in files inside the `with` block.

    Args:
        task: the model's task.
        config: its settings for reading data.
        data: any form that `as_paths` accepts, or images or audio in memory.
    """
    if not isinstance(task.form, MediaForm) or isinstance(data, task.form.holds):
        yield read_data(task, config, data)
        return
    from ..readers.media.media_in_memory import write_media

    with TemporaryDirectory() as folder:
        manifest = write_media(data, Path(folder))
        read = read_data(task, config, data if manifest is None else manifest)
        if manifest is not None:
            read.report.paths = (f"{type(data).__name__} in memory",)
        yield read


def read_data(task: Task, config: Config, data: Any) -> Any:
    """Read data in any form that `as_paths` accepts. Data from the task's own reader is returned unchanged.

    Args:
        task: the model's task, whose reader is used.
        config: its settings. `config.data` names the columns and the separator.
        data: the data, or paths to it.
    """
    if isinstance(data, task.form.holds):
        return data
    try:
        paths = as_paths(data)
    except DataError as error:
        raise DataError(error.what, expected=error.expected, name="data", value=data) from error
    if not paths:
        raise DataError("the data is empty", expected="at least one path or pair", name="data", value=data)
    return task.form.read(paths, config.data)
