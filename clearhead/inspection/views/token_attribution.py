"""Attribution of the model's output to input tokens.

Two methods that often agree: hide one token after the other and see how far the log-probability falls (occlusion,
Zeiler & Fergus 2014), or add up gradients on the way from an input without information to the real one (integrated
gradients, Sundararajan et al. 2017). The second has a check: its attributions sum to the difference of the two scores.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.cells import cell_len
from torch import Tensor, nn

from ...model.transformer import evaluation
from ..record.forward_pass import Pass
from ..record.uncompiled import uncompiled
from .text_columns import WIDTH, bar, cut, left, preformatted, right, signed, wrapped

_TOGETHER = 4096  # tokens in a batch
_POINTS = (16, 32, 64)  # of the path of integrated gradients; more if fewer aren't exact
_FEW = (8,)  # points for the sum of everything said, when speed matters more
_EXACT = 0.01  # the largest error of a sum, relative to the largest difference
_SHOWN, _NAME = 3, 18  # tokens for each token of the answer, columns of a token


def attribute_tokens(forward: Pass, *, most: int | None = None) -> "TokenAttribution":
    """Return how much each input token mattered for each output token.

    Args:
        forward: a pass that reads tokens. It runs again with other vectors in place of tokens.
        most: integrate the gradients of the first `most` output tokens only (default: all). 0 means those of
            their sum, which is faster but less exact.
    """
    with uncompiled(forward.model), evaluation(forward.model):
        given, blank = _vectors(forward)
        with torch.no_grad():
            whole, falls = _occlude(forward, given, blank)
        nothing, gradients, error = _integrate(forward, given, blank, whole, len(whole) if most is None else most)
    whole, nothing, falls, gradients = (it.cpu().double() for it in (whole, nothing, falls, gradients))
    return TokenAttribution(
        forward.read, forward.said, whole, nothing, falls, gradients, error=error, measure=forward.measure
    )


def _vectors(forward: Pass) -> tuple[Tensor, Tensor]:
    """Return the input's vectors and those of an input of hidden tokens, both (S, D)."""
    seen: list[Tensor] = []

    def see(x: Tensor) -> Tensor:
        seen.append(x)
        return x

    with torch.no_grad(), _first_output(forward.front, see):
        forward.run()
    given = seen[0][0, : len(forward.read)]
    if forward.hidden is None:
        return given, torch.zeros_like(given)
    with torch.no_grad():
        token = torch.tensor([[forward.hidden]], device=given.device)
        return given, forward.front(token)[0].expand_as(given)


def _scores(forward: Pass, vectors: Tensor) -> Tensor:
    """Return the log-probabilities when the input has these vectors. (B, S, D) -> (B, R)"""
    n, length = vectors.shape[:2]
    with _first_output(forward.front, lambda x: torch.cat((vectors.to(x.dtype), x[:, length:]), 1)):
        return forward.log_probabilities(n)


def _occlude(forward: Pass, given: Tensor, blank: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities (R,), and how far they drop when each token is hidden, (S, R)."""
    whole = _scores(forward, given[None])[0]
    size = len(given)
    hidden = torch.eye(size, dtype=torch.bool, device=given.device).split(max(_TOGETHER // size, 1))
    return whole, whole - torch.cat([_scores(forward, torch.where(it[..., None], blank, given)) for it in hidden])


def _integrate(forward: Pass, given: Tensor, blank: Tensor, whole: Tensor, most: int) -> tuple[Tensor, Tensor, float]:
    """Return the log-probabilities of the blank input (R,), the integrated gradients, (S, R) or (S, 1), and the largest
    error of their sums."""
    with torch.no_grad():
        nothing = _scores(forward, blank[None])[0]
    for points in _POINTS if most else _FEW:
        found, moved = _path(forward, given, blank, points, most), whole - nothing
        moved = moved[:most] if most else moved.sum()[None]
        error = float((found.sum(0) - moved).abs().max())
        if error <= _EXACT * float(moved.abs().max()):
            break
    return nothing, found, error


def _path(forward: Pass, given: Tensor, blank: Tensor, points: int, most: int) -> Tensor:
    """Integrate with the Gauss-Legendre rule of this many points. -> (S, most), or (S, 1) for the sum of all"""
    at, weights = (
        torch.tensor(it, dtype=given.dtype, device=given.device) for it in np.polynomial.legendre.leggauss(points)
    )
    found = given.new_zeros(len(given), most or 1)
    for share, weight in zip(((at + 1) / 2).split(_POINTS[0]), (weights / 2).split(_POINTS[0])):
        vectors = (blank + share[:, None, None] * (given - blank)).requires_grad_()
        with torch.enable_grad():
            scores = (_scores(forward, vectors) * weight[:, None]).sum(0)
            scores = scores[:most] if most else scores.sum()[None]
        for row, score in enumerate(scores):
            again = row + 1 < len(scores)
            # zeros if nothing of the input is read, because parts are off
            [slope] = torch.autograd.grad(score, vectors, retain_graph=again, materialize_grads=True)
            found[:, row] += (slope.sum(0) * (given - blank)).sum(-1)
    return found


@dataclass(frozen=True)
class TokenAttribution:
    """Importance of each input token. A positive number supports the answer.

    Attributes:
        tokens: the names of the input's tokens, S.
        said: what the model said, R.
        whole: its log-probabilities, or numbers, (R,).
        nothing: the same if all tokens are hidden, (R,).
        falls: how far they fall if one token is hidden, (S, R).
        gradients: integrated gradients. The sum over tokens is `whole` minus `nothing`, but for an error. (S, R), fewer
            columns if only the first ones are known, or (S, 1) for the sum of everything said.
        error: the largest difference between a sum of integrated gradients and what it should be.
        measure: what `whole` has: "log-probability" or "number".
    """

    tokens: Sequence[str]
    said: Sequence[str]
    whole: Tensor
    nothing: Tensor
    falls: Tensor
    gradients: Tensor
    error: float
    measure: str = "log-probability"

    def to_dict(self) -> dict[str, Any]:
        names = ("whole", "nothing", "falls", "gradients")
        arrays = {name: getattr(self, name).tolist() for name in names}
        return {"tokens": list(self.tokens), "said": list(self.said), **arrays, "error": self.error}

    def _repr_html_(self) -> str:
        return preformatted(self.render())

    def render(self) -> str:
        """Render both methods in 80 columns: the tokens that mattered most for each token of the answer, or all for a
        label."""
        rows = self._of_label() if len(self.said) == 1 else self._of_answer()
        moved = float((self.whole - self.nothing).abs().max())
        check = (
            f"With every token hidden, the {self.measure} changes by up to {moved:.4f}; the gradients sum to these "
            f"changes within {self.error:.1e}."
        )
        return "\n".join([*rows, "", *wrapped("", check.split())])

    def _of_label(self) -> Iterator[str]:
        name, most = self.said[0], float(self.falls.abs().max()) or 1.0
        yield f'which tokens support "{name}" ({self.measure} {float(self.whole[0]):.4f})'
        yield f"  {'token':<{_NAME}}{'hiding it':>10}{'gradients':>11}"
        for token, fall, slope in zip(self.tokens, self.falls[:, 0].tolist(), self.gradients[:, 0].tolist()):
            yield f"  {left(token, _NAME)}{signed(fall, 10)}{signed(slope, 11)}  {bar(fall, most)}".rstrip()

    def _of_answer(self) -> Iterator[str]:
        yield "how much each token mattered: the drop in log-probability when it is hidden,"
        yield "and integrated gradients"
        width = min(_NAME, max(map(cell_len, self.said)))
        half = (WIDTH - width - 4) // 2
        yield f"  {'':{width}}{'hiding':<{half}}gradients"
        for row, name in enumerate(self.said):
            both = [left(self._most(it[:, row], half - 2), half - 2) + "  " for it in (self.falls, self.gradients)]
            yield f"  {right(name, width)}  {''.join(both)}".rstrip()

    def _most(self, values: Tensor, width: int) -> str:
        """Return the tokens that mattered most, as many as fit."""
        best = sorted(zip(values.tolist(), self.tokens), key=lambda it: -abs(it[0]))[:_SHOWN]
        shown = [f"{cut(token, 12)} {value:+.2f}" for value, token in best if round(value, 2)]
        while cell_len("  ".join(shown)) > width:
            shown.pop()
        return "  ".join(shown) or "none"


@contextmanager
def _first_output(part: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Change the output of a part's first call inside the `with` block."""

    def hook(_part: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        handle.remove()
        return change(output)

    with part.register_forward_hook(hook) as handle:
        yield
