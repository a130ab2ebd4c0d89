"""Promises that decoding (with a cache, with engines, past a window, in a search) equals full forward passes."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from ...decode.beams import Hypothesis
from ...decode.engine import StepEngine
from ...errors import ModelError
from ...model.transformer import Decoder, EncoderDecoder
from .check import Measured, Promise, Skip
from .output_checks import aligned_right
from .rounding import Difference, furthest
from .subject import Case, numbered, source_mask

_WINDOW = 16  # maximum window in tokens, small so that it overflows soon
_NOT_WRITING = "an encoder doesn't generate text"


def _cached(case: Case) -> Measured:
    """Compare step-by-step decoding with one forward pass, for a language model also with left-padded prompts."""
    model, inputs, names = case.model, case.inputs, case.inputs.names
    if inputs.target is None:
        raise Skip(_NOT_WRITING)
    bound, full = case.bound(inputs.outputs), inputs.outputs(model)
    found = furthest(inputs.split(model, _stepwise(model, case)), full, names)
    if isinstance(model, Decoder):
        after_prompts = _after_prompts(model, inputs.target, inputs.lengths)
        prompts = furthest(after_prompts, full, [f"{it}, padded on the left" for it in names])
        found = max(found, prompts, key=lambda it: it.value)
    yield bound, found


def _engine(case: Case, name: str) -> Measured:
    """Compare an engine's steps with one forward pass.

    The number of hypotheses doubles after the first step, and texts leave the batch when they end.
    """
    bound = case.bound(lambda model: _log_p(model, case))
    found = _target_steps(case, name)
    full = [row[len(row) - len(steps) :] for row, steps in zip(_log_p(case.model, case), found)]
    yield bound, furthest(found, full, case.inputs.names)


def _engines(case: Case) -> Measured:
    """Compare all engines with the first one."""
    if case.inputs.target is None:
        raise Skip(_NOT_WRITING)
    first, *others = case.engines or [""]
    if not others:
        where = f" in {case.precision}" if len(case.subject.engines) > 1 else ""
        raise Skip(f"there's only one engine{where}, {first}" if first else "no engine is given")
    bound, expected = case.bound(lambda model: _log_p(model, case)), _target_steps(case, first)
    found = {name: furthest(_target_steps(case, name), expected, case.inputs.names) for name in others}
    name, worst = max(found.items(), key=lambda each: each[1].value)
    yield bound, Difference(worst.value, f"{name} and {first} differ at {worst.where}")


def _window(case: Case, name: str) -> Measured:
    """Compare an engine's steps with forward passes over the tokens in its window.

    The window is small and overflows twice. One text is shorter than the other.
    """
    target = case.inputs.target
    if target is None or not isinstance(case.model, Decoder):
        raise Skip("only a language model has a context window")
    if not name:
        raise Skip("no engine is given")
    window = min(case.subject.max_len, _WINDOW)
    tokens = target[target != case.inputs.special.pad]
    long = tokens.repeat(3 * window // len(tokens) + 1)[: 2 * window + 3]
    texts, read = [long, long[3:]], max(1, window // 2)

    def expected(model: nn.Module) -> list[Tensor]:
        assert isinstance(model, Decoder)
        return [_through_window(model, text, read, window) for text in texts]

    bound = case.bound(expected)
    prompts, rest = [it[:read].tolist() for it in texts], [it[read:].tolist() for it in texts]
    found = _engine_steps(case.engines[name](case.model, window), prompts, rest)
    yield bound, furthest([it.to(case.device) for it in found], expected(case.model), numbered(len(texts)))


def _rescored(case: Case) -> Measured:
    """Compare the scores of a search's answers (each token's, their sum, and the final score) with teacher forcing."""
    search = case.subject.search
    if search is None:
        raise Skip("the task has no search")
    found = zip(search.prompts, search.answers(case.model))
    answers = [(prompt, one) for prompt, some in found for one in some if one.token_log_probabilities]
    if not answers:
        what = f"the search returned no answer to any of {len(search.prompts)} prompts"
        raise ModelError(what, expected="at least one answer", name="search")

    def rescored(model: nn.Module) -> list[Tensor]:
        return [_score(model, prompt, answer, search.alpha, case) for prompt, answer in answers]

    bound = case.bound(rescored)
    claimed = [
        torch.tensor([*one.token_log_probabilities, one.log_probability, one.score], dtype=torch.float64)
        for _, one in answers
    ]
    yield bound, furthest([it.double().cpu() for it in rescored(case.model)], claimed, numbered(len(answers), "answer"))


CACHED = Promise(
    "cached = full", "decoding token by token with a cache gives the same logits as one forward pass", _cached
)
ENGINE = Promise("engine = full", "an engine's steps give the same log-probabilities as one forward pass", _engine)
ENGINES = Promise("engine = engine", "all engines give the same log-probabilities", _engines)
WINDOW = Promise("window = full", "past the context window, steps see exactly the tokens in the window", _window)
BEAM = Promise("beam's scores = rescoring", "a search gives its answers the same scores as a forward pass", _rescored)


def _stepwise(model: nn.Module, case: Case) -> Tensor:
    """Return the logits of all target tokens. The first two are read together, the others one by one. -> (B, T, V)"""
    tokens, source = case.inputs.target, case.inputs.source
    assert tokens is not None
    if isinstance(model, EncoderDecoder):
        assert source is not None
        mask = source_mask(model, source)
        decoder, memory = model.decoder, model.encode(source, mask=mask)
        cache = decoder.new_cache(len(tokens), tokens.size(1), memory, source)
    else:
        assert isinstance(model, Decoder)
        decoder, mask, cache = model, None, model.new_cache(len(tokens), tokens.size(1))
    ends = [0, *range(min(2, tokens.size(1)), tokens.size(1) + 1)]
    found = [decoder(tokens[:, start:end], memory_mask=mask, cache=cache) for start, end in pairwise(ends)]
    return torch.cat(found, 1)


def _after_prompts(model: Decoder, tokens: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Return the logits of left-padded texts. The first half of the columns is read at once, like a prompt."""
    aligned, mask, positions = aligned_right(model, tokens)
    width = aligned.size(1)
    cache = model.new_cache(len(aligned), width)
    ends = [0, *range(max(1, width // 2), width + 1)]
    found = [
        model(aligned[:, start:end], mask=mask[..., :end], positions=positions[:, start:end], cache=cache)
        for start, end in pairwise(ends)
    ]
    return [row[width - length :] for row, length in zip(torch.cat(found, 1), lengths)]


def _log_p(model: nn.Module, case: Case) -> list[Tensor]:
    return [row.log_softmax(-1) for row in case.inputs.outputs(model)]


def _target_steps(case: Case, name: str) -> list[Tensor]:
    """Return an engine's log-probabilities after each of the targets' last T' tokens: (T', V) for each text.

    A language model reads about the first half of each text as its prompt.
    """
    tokens, lengths = case.inputs.target, case.inputs.lengths
    assert tokens is not None
    if case.inputs.source is None:
        read = [max(0, length // 2 - 1) for length in lengths]
        prompts = [row[:count].tolist() for row, count in zip(tokens, read)]
    else:
        read = [0] * len(lengths)
        prompts = [row[row != case.inputs.source_pad].tolist() for row in case.inputs.source]
    rest = [row[count:length].tolist() for row, count, length in zip(tokens, read, lengths)]
    engine = case.engines[name](case.model, case.subject.max_len)
    return [it.to(case.device) for it in _engine_steps(engine, prompts, rest)]


def _engine_steps(engine: StepEngine, prompts: Sequence[list[int]], rest: Sequence[list[int]]) -> list[Tensor]:
    """Return an engine's log-probabilities after each token of `rest`, in the order of the vocabulary: (T', V)."""
    found: list[list[Tensor]] = [[] for _ in rest]
    live, width, n_steps = list(range(len(rest))), 1, max(map(len, rest))
    with engine.prefill(prompts, n_steps) as decoding:
        for step in range(n_steps):
            keep = [row for row, text in enumerate(live) if step < len(rest[text])]
            if step == 1 or len(keep) < len(live):
                width = 2
                decoding.select(np.array(keep), np.zeros((len(keep), width), np.int64))
            live = [live[row] for row in keep]
            given = np.array([[rest[text][step]] * width for text in live], np.int64)
            log_p, ids = decoding.step(given, 2**31)
            for text, values, order in zip(live, log_p[:, -1], ids[:, -1]):
                found[text].append(torch.from_numpy(values[np.argsort(order)].copy()))
    return [torch.stack(steps) for steps in found]


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


def _score(model: nn.Module, prompt: Sequence[int], answer: Hypothesis, alpha: float, case: Case) -> Tensor:
    """Return each token's log-probability, their sum, and the sum over ((5 + n) / 6)^alpha. -> (n + 2,)"""
    special, device = case.inputs.special, case.device
    tokens = [*answer.ids, *answer.last(special.eos)][: len(answer.token_log_probabilities)]
    if isinstance(model, EncoderDecoder):
        start = [special.start]
        source = torch.from_numpy(np.array(prompt))[None].to(device)
        logits = model(source, torch.tensor([[*start, *tokens[:-1]]], device=device))
    else:
        start = list(prompt) or [special.bos]
        logits = model(torch.tensor([[*start, *tokens[:-1]]], device=device))
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))[0, len(start) - 1 :]
    log_p = logits.log_softmax(-1).gather(-1, torch.tensor(tokens, device=device)[:, None])[:, 0]
    total = log_p.sum()
    return torch.cat((log_p, torch.stack((total, total / ((5 + len(tokens)) / 6) ** alpha))))
