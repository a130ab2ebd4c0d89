"""Files of pairs, made and read in one line."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.readers.pairs import Pairs, read_pairs

Read = Callable[..., Pairs]


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def both(pairs: Pairs) -> list[tuple[str, str]]:
    return list(zip(pairs.sources, pairs.targets))


def error_of(call: Callable, *arguments: object, **options: object) -> DataError:
    """The DataError that a call raises."""
    with pytest.raises(DataError) as caught:
        call(*arguments, **options)
    return caught.value


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """`read("a,b\\n", separator="comma")`: the pairs of a file with this content."""

    def call(content: bytes | str, **settings: object) -> Pairs:
        return read_pairs([written(tmp_path / "pairs", content)], DataConfig(**settings))

    return call


@pytest.fixture
def refused(read: Read) -> Callable[..., DataError]:
    """The error that such a file raises."""
    return lambda content, **settings: error_of(read, content, **settings)


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let these bytes be standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
