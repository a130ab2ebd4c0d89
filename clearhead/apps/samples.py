"""The few texts that promises are tried on, as tokens: of data, of what a model folder knows, or drawn at random."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.forms import PairForm
from ..readers.pairs import Pairs
from ..readers.skipped import Report
from ..tasks.base import Task
from ..tokenization.ragged import Ragged
from ..tokenization.tokenizer import EOS, PAD, UNK

TEXTS = 6
LONGEST = 24  # tokens
_LOOKED_AT = 200  # of the data
_ROOM = 4  # tokens that are left, for padding, of what the model reads

Rows = Sequence[Sequence[int]]


def known(task: Task, data: Any, folder: Path, seed: int) -> tuple[Any, str]:
    """Some of the data that are given, or else of those that the last evaluation of a folder shows, and in words which.

    None where there are neither.
    """
    if data is not None:
        sample, _ = task.form.sample(data, _LOOKED_AT, seed)
        return sample, f"texts of {' + '.join(map(str, data.report.paths))}"
    pairs = _evaluated(folder / "evaluation.json") if isinstance(task.form, PairForm) else []
    report = Report((str(folder / "evaluation.json"),))
    return (Pairs.of(pairs, report), "texts of its evaluation.json") if pairs else (None, "")


def _evaluated(path: Path) -> list[tuple[int, str, str]]:
    """The sources of an evaluation with a reference each; none where it is not there, or not to be understood."""
    try:
        lines = json.loads(path.read_text(encoding="utf-8"))["examples"]
        return [(place, str(it["source"]), str(it["references"][0])) for place, it in enumerate(lines, 1)]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def longest(max_len: int) -> int:
    """Tokens of a text, special ones included."""
    return max(2, min(LONGEST, max_len - _ROOM))


def some(*sides: Ragged, most: int, seed: int) -> list[list[list[int]]]:
    """A few rows of all sides; of those that are longer than `most` tokens the beginning, with its end."""
    count = len(sides[0])
    rows = sorted(np.random.default_rng(seed).choice(count, min(count, TEXTS), replace=False).tolist())
    return [[_cut(side[row], most) for row in rows] for side in sides]


def drawn(vocab_size: int, most: int, seed: int) -> list[list[int]]:
    """Random tokens: a text of `most`, one of a single token, and some of lengths between."""
    rng = np.random.default_rng([seed, vocab_size])
    lengths = [most, 1, *rng.integers(1, most + 1, TEXTS - 2).tolist()]
    first = min(UNK + 1, vocab_size - 1)
    return [rng.integers(first, vocab_size, length).tolist() for length in lengths]


def in_words(found: str, count: int) -> str:
    """Which texts they are."""
    if found:
        return f"{count} {found}, of each {LONGEST} tokens at most"
    return f"{count} texts of random tokens, since no data were given and its folder keeps none"


def tensor(rows: Rows) -> Tensor:
    """The rows below each other, with padding on the right. -> int64 (B, longest)"""
    return torch.from_numpy(Ragged(rows).padded(np.arange(len(rows)), PAD))


def _cut(ids: list[int], most: int) -> list[int]:
    return ids if len(ids) <= most else [*ids[: most - 1], EOS]
