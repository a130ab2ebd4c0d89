"""The best passages of a text, from the scores of a window's tokens.

A passage has 1 to 30 tokens of the text. Its score is

    start(first) + end(last) - start(<s>) - end(<s>)

which is the log of how much more likely the passage is than no answer in this window. So scores of different windows
can be compared, and no answer has a score of 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...tokenization.offsets import TokensWithOffsets
from .windows import ANSWER_TOKENS, Span

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Passage:
    """An answer, text[start:end], counted in code points. Without an answer, `text` is "" and there are no offsets."""

    text: str
    start: int | None
    end: int | None
    score: float


NOTHING = Passage("", None, None, 0.0)


Scored = tuple[float, Span]


def best_spans(scores: "Tensor", allowed: "Tensor", count: int, longest: int = ANSWER_TOKENS) -> list[list[Scored]]:
    """Return up to `count` spans of each window, best first. (B, S, 2), (B, S) -> B lists

    A span begins and ends where `allowed` is True, and has up to `longest` tokens.
    """
    import torch
    from torch.nn import functional as F

    barred = scores.masked_fill(~allowed[..., None], -torch.inf)
    ends = F.pad(barred[..., 1], (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)  # (B, S, L): from each start
    of_spans = barred[..., 0, None] + ends - scores[:, 0].sum(-1)[:, None, None]
    values, places = of_spans.flatten(1).topk(min(count, of_spans[0].numel()))
    found = []
    for row in zip(values.tolist(), places.tolist()):
        spans = ((value, *divmod(place, longest)) for value, place in zip(*row) if value > -torch.inf)
        found.append([(value, (start, start + more)) for value, start, more in spans])
    return found


def ranked(text: TokensWithOffsets, spans: Iterable[Scored], count: int, *, may_lack: bool) -> list[Passage]:
    """Return up to `count` distinct passages of a text, best first. With `may_lack`, no answer is a candidate too."""
    best: dict[tuple[int, int], float] = {}
    for score, span in spans:
        place = text.span_of(*span)
        best[place] = max(score, best.get(place, score))
    found = [Passage(text.text[start:end], start, end, score) for (start, end), score in best.items()]
    found += [NOTHING] if may_lack or not found else []
    return sorted(found, key=lambda it: (-it.score, it.start or 0, it.end or 0))[:count]
