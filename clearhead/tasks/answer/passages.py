"""From the scores of a window's tokens to passages of the text: the best ones that can be answers.

A passage begins and ends somewhere in the text, ends where it begins or behind, and has at most 30 tokens. Its score is

    start(first) + end(last) - start(<s>) - end(<s>)

the logarithm of how many times likelier the model finds it than that the window has no answer. That of one window can
so be compared with that of another, and with 0, which stands for no answer at all.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ...tokenization.offsets import TokensWithOffsets
from .windows import ANSWER_TOKENS, Span


@dataclass(frozen=True)
class Passage:
    """An answer: text[start:end], in code points of the text that was read; "" and no place where it has none."""

    text: str
    start: int | None
    end: int | None
    score: float


NOTHING = Passage("", None, None, 0.0)


Scored = tuple[float, Span]


def best_spans(scores: Tensor, allowed: Tensor, count: int, longest: int = ANSWER_TOKENS) -> list[list[Scored]]:
    """The best spans of each window by their scores, at most `count`. (B, S, 2), (B, S) -> B lists

    They begin and end only where `allowed` is True.
    """
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
    """The passages of a text where these spans of its tokens stand, best first, each place once, at most `count`.

    Where the answer `may_lack`, that there is none is among them.
    """
    best: dict[tuple[int, int], float] = {}
    for score, span in spans:
        place = text.span_of(*span)
        best[place] = max(score, best.get(place, score))
    found = [Passage(text.text[start:end], start, end, score) for (start, end), score in best.items()]
    found += [NOTHING] if may_lack or not found else []
    return sorted(found, key=lambda it: (-it.score, it.start or 0, it.end or 0))[:count]
