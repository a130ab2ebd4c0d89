"""The break-it lab: train the same small translator with and without one part, and see what the part is for."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..demo.phrasebook_demo import WATCHED
from ..errors import unknown
from ..model import attention, norms, positions, transformer
from ..pictures.plain_page import document, line_chart, table
from .finish import TRAINING, small_translator, spread
from .grade import Matrix, number_table

_SCORED, _SHOWN = 100, 4  # unseen sentences


@dataclass(frozen=True)
class Part:
    """A part to remove.

    Attributes:
        what: what it's for, and what to look at.
        replaced: the object, the name of its attribute and what takes its place without the part.
        settings: settings that differ without the part.
    """

    what: str
    replaced: tuple[Any, str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def _unscaled(q: Tensor, k: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    return attention.masked_softmax(q @ k.transpose(-2, -1), mask)


def _everything(n: int, m: int | None = None, *, device: torch.device | None = None) -> Tensor:
    return torch.ones(1, 1, n, n if m is None else m, dtype=torch.bool, device=device)


PARTS = {
    "scale": Part(
        "Without 1 / sqrt(d_k), scores are large from the beginning. The softmax gives nearly everything to one key, "
        "and learns more slowly.",
        (attention, "attention_weights", _unscaled),
    ),
    "mask": Part(
        "Without the causal mask, the decoder copies the next word from its own input. The loss is excellent, and the "
        "translations are useless: while it writes, the next word isn't there yet.",
        (transformer, "causal_mask", _everything),
    ),
    "positions": Part(
        "Without positions, the encoder sees a bag of words, and the decoder doesn't know which word came last.",
        (positions.Sinusoidal, "embed", lambda self, x, positions: x),
    ),
    "residual": Part(
        "Without residual connections, every layer has to pass on everything that a later one needs, and gradients "
        "fade on their way back.",
        (norms.AddNorm, "forward", lambda self, x, sublayer: self.norm(self.dropout(sublayer(x)))),
    ),
    "norm": Part(
        "Without norms, the size of the vectors changes from layer to layer, and a learning rate that suits one layer "
        "is too high for another.",
        (norms.LayerNorm, "forward", lambda self, x: x),
    ),
    "warmup": Part(
        "Without warmup, the first steps, whose gradients are the least reliable, are as large as the others.",
        settings={"train.warmup": 0},
    ),
}


@dataclass(frozen=True)
class _Trial:
    losses: Sequence[float]
    exact: float
    answers: Mapping[str, str]
    weights: Matrix


def check_part(name: str) -> None:
    """Raise ConfigError if there's no such part to remove."""
    if name not in PARTS:
        raise unknown(f"there's no part {name!r} to remove", name, PARTS, "--break")


def break_it(name: str, folder: Path, steps: int = 400) -> str:
    """Train with and without a part, and return a page that compares both.

    Args:
        name: a key of `PARTS`.
        folder: the folder to write both models to.
        steps: how long to train each of them.

    Raises:
        ConfigError: there's no such part.
    """
    check_part(name)
    part = PARTS[name]
    trials: dict[str, _Trial] = {}
    for which, settings in (("with", Part("").settings), ("without", part.settings)):
        with _without(part.replaced if which == "without" else None):
            trials[which] = _trial(folder / which, steps, settings)
    return _page(part, trials)


@contextmanager
def _without(replaced: tuple[Any, str, Any] | None) -> Iterator[None]:
    """Replace an attribute within this context."""
    with ExitStack() as back:
        if replaced is not None:
            owner, name, other = replaced
            back.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, other)
        yield


def _trial(out: Path, steps: int, settings: Mapping[str, Any]) -> _Trial:
    losses: list[float] = []
    every = TRAINING | {
        "train.steps": steps,
        "train.warmup": steps // 8,
        "train.eval_every": steps,
        "train.save_every": steps,
        "decode.engine": "torch",  # other engines have parts of their own
    }
    app, scored = small_translator(out, {**every, **settings}, _SCORED, lambda step: losses.append(step["loss"]))
    explanation = app.explain(WATCHED)
    weights = explanation.weights("decoder.cross", app.config.model.n_decoder_layers - 1)[0]
    shown = [source for source, _ in spread(scored, _SHOWN)]
    answers = dict(zip(shown, app(shown)))
    return _Trial(losses, app.evaluate(scored).scores.exact_match, answers, weights.tolist())


def _page(part: Part, trials: Mapping[str, _Trial]) -> str:
    both = trials["with"], trials["without"]
    texts = table(
        ("source", "with", "without"), [(it, both[0].answers[it], both[1].answers[it]) for it in both[0].answers]
    )
    exact = " and ".join(f"{it.exact:.0%} {which} it" for which, it in trials.items())
    tables = "".join(number_table(f"{which} it", it.weights) for which, it in trials.items())
    body = f"""<p>{escape(part.what)}</p>{_curves(trials)}
<p>Unseen sentences translated exactly right: {exact}.</p>
{texts}
<p>Cross-attention for "{escape(WATCHED)}", last layer, head 1.
Rows are tokens of the translation, columns those of the source.</p>
{tables}"""
    return document(f"A Transformer {part.what.partition(',')[0].replace('Without', 'without')}", body)


def _curves(trials: Mapping[str, _Trial]) -> str:
    """Return both losses over the steps as a picture."""
    lines = {f"{which} it: {it.losses[-1]:.2f}": [*enumerate(it.losses)] for which, it in trials.items()}
    highest = max(max(it.losses) for it in trials.values())
    return line_chart(lines, f"loss of each step, from 0 to {highest:.1f}")
