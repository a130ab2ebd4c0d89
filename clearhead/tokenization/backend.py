"""Open tokenizer files with the tokenizers library, and turn its panics into exceptions.

Rust prints a panic to stderr before Python sees it. The usual cause is a regular expression that backtracks too long.
"""

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import tokenizers
from tokenizers import Regex, pre_tokenizers

_LOCK = threading.RLock()
_STDERR = 2
_REPEATS = 48  # a pattern that backtracks exponentially fails within as many characters
_DECODED = 1000  # tokens to try
_LETTERS = "aA1 .\n'_-é中▁"  # of the kinds that patterns tell apart


class PanicError(Exception):
    """A panic of the library. It isn't a bug of the caller, but of the library or of a tokenizer file."""


@contextlib.contextmanager
def as_exceptions() -> Iterator[None]:
    """Raise PanicError if the library panics in the block, and keep its report away from stderr.

    What other threads write to stderr in the meantime is written at the end.
    """
    with _LOCK:
        panicked, stderr = False, None
        with contextlib.suppress(OSError):  # stderr is closed
            stderr = os.dup(_STDERR)
            os.dup2(_report(os.getpid()), _STDERR)
        try:
            yield
        except BaseException as error:
            panicked = type(error).__name__ == "PanicException"  # it has no public name, and isn't an Exception
            if not panicked:
                raise
            raise PanicError(str(error)) from None
        finally:
            if stderr is not None:
                os.dup2(stderr, _STDERR)
                os.close(stderr)
                if size := os.lseek(_report(os.getpid()), 0, os.SEEK_CUR):
                    os.lseek(_report(os.getpid()), 0, os.SEEK_SET)
                    os.write(_STDERR, b"" if panicked else os.read(_report(os.getpid()), size))
                    os.lseek(_report(os.getpid()), 0, os.SEEK_SET)
                    os.ftruncate(_report(os.getpid()), 0)


@cache
def _report(_process: int) -> int:
    """Return a process's file for what is written to stderr. Opening one each time takes as long as encoding."""
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def patterns(content: Any) -> list[str]:
    """Return the regular expressions in a part of a tokenizer file."""
    inside = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    here = [content["Regex"]] if isinstance(content, dict) and isinstance(content.get("Regex"), str) else []
    return here + [it for part in inside if isinstance(part, dict | list) for it in patterns(part)]


def open_backend(text: str, content: dict[str, Any]) -> tokenizers.Tokenizer:
    """Return the library's tokenizer of a file.

    Args:
        content: the same, parsed.

    Raises:
        Exception: the library can't use the file.
    """
    _check_merges(content["model"])
    with as_exceptions():
        found: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(text)
    for pattern in patterns({name: it for name, it in content.items() if name != "model"}):  # a vocabulary has none
        _try(pattern)
    with as_exceptions():
        found.decode_batch([[], *([i] for i in range(min(found.get_vocab_size(), _DECODED)))])
        with contextlib.suppress(Exception):  # the vocabulary may lack these
            found.encode(_LETTERS)
    return found


def _check_merges(model: dict[str, Any]) -> None:
    """Raise ValueError if merged tokens lack the prefix that the library cuts off, since it would cut characters."""
    prefix = model.get("continuing_subword_prefix") or ""
    pairs = (it.split(" ") if isinstance(it, str) else it for it in model.get("merges") or ())
    if prefix and not (prefix.isascii() and all(second.startswith(prefix) for _, second in pairs)):
        raise ValueError(f"continuing_subword_prefix={prefix!r} doesn't begin the second token of every merge")


def _try(pattern: str) -> None:
    """Split texts that make patterns backtrack exponentially. Raise PanicError if one does."""
    words = re.findall(r"[^\W_]+", pattern)
    starts = dict.fromkeys([*_LETTERS, *words, *"".join(words), "".join(words)])
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    with as_exceptions():
        for start in starts:
            split.pre_tokenize_str(start * _REPEATS + "\0")
