"""Check a language model's decoding past its context window, which uses a ring buffer or a new window."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ...model.transformer import Decoder
from .check import Check, Difference, Promise, blaming, judge, skip
from .decoding_checks import engine_steps
from .rounding import furthest
from .subject import Case, OpenEngine, numbered

WINDOW = Promise("window = full", "past the context window, steps see exactly the tokens in the window")

_WINDOW = 16  # maximum window in tokens, small so that it overflows soon


def check_windows(case: Case) -> Iterator[Check]:
    """Check every engine of a language model past its context window."""
    if not isinstance(case.model, Decoder):
        yield skip(WINDOW, "only a language model has a context window")
    elif not case.engines:
        yield skip(WINDOW, "no engine is given")
    else:
        for name, open_engine in case.engines.items():
            yield _check_window(case, name, open_engine)


def _check_window(case: Case, name: str, open_engine: OpenEngine) -> Check:
    """Compare an engine's steps with forward passes over the tokens in its window.

    The window is small and overflows twice. One text is shorter than the other.
    """
    target = case.inputs.target
    assert target is not None
    window = min(case.subject.max_len, _WINDOW)
    tokens = target[target != case.inputs.special.pad]
    long = tokens.repeat(3 * window // len(tokens) + 1)[: 2 * window + 3]
    texts, read = [long, long[3:]], max(1, window // 2)

    def measure() -> Difference:
        prompts, rest = [it[:read].tolist() for it in texts], [it[read:].tolist() for it in texts]
        found = engine_steps(open_engine(case.model, window), prompts, rest)
        return furthest([it.to(case.device) for it in found], expected(case.model), numbered(len(texts)))

    def expected(model: nn.Module) -> list[Tensor]:
        assert isinstance(model, Decoder)
        return [_through_window(model, text, read, window) for text in texts]

    return blaming(name, judge(WINDOW, case.precision, lambda: case.bound(expected), measure))


def _through_window(model: Decoder, text: Tensor, read: int, window: int) -> Tensor:
    """Return log-probabilities after each token from `read` on, without a cache. (T,) -> (T - read, V)

    With endless positions, every token attends to the newest `window` tokens. With others, when the window overflows,
    its newest half is read again from position 0.
    """
    if model.positions.endless:
        at = torch.arange(len(text), device=text.device)
        mask = (at[:, None] - at < window)[None, None]
        found: Tensor = model(text[None], mask=mask)[0, read:]
        return found.log_softmax(-1)
    held, rows = text[:read], []
    for token in text[read:]:
        held = torch.cat((held, token[None]))
        if len(held) > window:
            held = held[-max(1, window // 2) :]
        rows.append(model(held[None])[0, -1])
    return torch.stack(rows).log_softmax(-1)
