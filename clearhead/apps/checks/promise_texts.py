"""Choose a few tokenized texts for `verify`, from data, from a model folder or at random."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...config import SpecialTokens
from ...data.forms import PairForm
from ...errors import ModelError
from ...folder.manifest import parse_json_object, read_bytes
from ...readers.pairs import Pairs
from ...readers.skipped import Report
from ...tasks.base import Task
from ...tokenization.ragged import Ragged

TEXTS = 6
LONGEST = 24  # tokens
_SAMPLED = 200  # maximum number of examples to sample from the data
_ROOM = 4  # tokens of the context window to leave for padding

Rows = Sequence[Sequence[int]]


def known(task: Task, data: Any, folder: Path, seed: int) -> tuple[Any, str]:
    """Return a sample of the data or of the folder's last evaluation, and a description; (None, "") without either."""
    if data is not None:
        sample, _ = task.form.sample(data, _SAMPLED, seed)
        return sample, f"texts of {' + '.join(map(str, data.report.paths))}"
    pairs = _evaluated(folder / "evaluation.json") if isinstance(task.form, PairForm) else []
    report = Report((str(folder / "evaluation.json"),))
    return (Pairs.of(pairs, report), "texts of its evaluation.json") if pairs else (None, "")


def _evaluated(path: Path) -> list[tuple[int, str, str]]:
    """Return the sources of an evaluation with one reference each, or [] if the file is missing or unreadable."""
    try:
        lines = parse_json_object(path, read_bytes(path))["examples"]
        return [(place, str(it["source"]), str(it["references"][0])) for place, it in enumerate(lines, 1)]
    except (ModelError, LookupError, TypeError):
        return []


def longest(max_len: int) -> int:
    """Return the maximum length of a text in tokens, including special tokens."""
    return max(2, min(LONGEST, max_len - _ROOM))


def pick(*sides: Ragged, most: int, seed: int, eos: int) -> list[list[list[int]]]:
    """Pick the same few rows from all sides. Truncate them to `most` tokens, but keep the end token."""
    rows = choose_rows(len(sides[0]), seed)
    return [[cut(side[row], most, eos) for row in rows] for side in sides]


def choose_rows(count: int, seed: int) -> list[int]:
    """Return the numbers of a few of `count` examples."""
    return sorted(np.random.default_rng(seed).choice(count, min(count, TEXTS), replace=False).tolist())


def random_ids(vocab_size: int, most: int, seed: int, special: SpecialTokens) -> list[list[int]]:
    """Return random ordinary ids: one text of `most` tokens, one of a single token, and some in between."""
    rng = np.random.default_rng([seed, vocab_size])
    lengths = [most, 1, *rng.integers(1, most + 1, TEXTS - 2).tolist()]
    ids = np.array(special.ordinary(vocab_size))
    return [ids[rng.integers(0, len(ids), length)].tolist() for length in lengths]


def describe(found: str, count: int) -> str:
    """Describe the number and origin of the texts for the report."""
    if found:
        return f"{count} {found}, at most {LONGEST} tokens each"
    return f"{count} texts of random tokens (no data given, and none in the folder)"


def pad(rows: Rows, value: int) -> Tensor:
    """Stack rows, padded on the right. -> int64 (B, longest)"""
    return torch.from_numpy(Ragged(rows).padded(np.arange(len(rows)), value))


def cut(ids: list[int], most: int, eos: int) -> list[int]:
    """Truncate a text to `most` tokens, but keep its end token."""
    return ids if len(ids) <= most else [*ids[: most - 1], eos]
