"""Decoding is the full forward, token by token: with a cache, by engines, and in what a search says of its answers."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from ...decode.beams import Hypothesis
from ...decode.engine import StepEngine
from ...errors import ModelError
from ...model.masks import padding_mask
from ...model.transformer import Decoder, EncoderDecoder
from ...tokenization.tokenizer import BOS, EOS, PAD
from .batching import ragged
from .check import Bound, Check, Difference, Promise, judge, skip
from .rounding import furthest
from .subject import Case, numbered, outputs

CACHED = Promise("cached = full", "decoding token by token with a cache gives the logits of one full forward")
ENGINE = Promise("engine = full", "the log-probabilities of an engine's steps are those of one full forward")
ENGINES = Promise("engine = engine", "all engines say the same")
BEAM = Promise("beam's scores = rescoring", "what a search says of its answers is what a full forward says of them")

_NOT_WRITING = "an encoder writes nothing"


def cached(case: Case) -> Check:
    """The decoder step by step against one full forward; of a language model with ragged prompts, too."""
    model, target = case.model, case.inputs.target
    if target is None:
        return skip(CACHED, _NOT_WRITING)

    def measure() -> Difference:
        names = numbered(len(case.inputs))
        full = outputs(model, case.inputs)
        steps = _cut(_stepwise(model, case), case.inputs.lengths)
        found = furthest(steps, full, names)
        if isinstance(model, Decoder):
            prompts = furthest(
                _after_prompts(model, target, case.inputs.lengths), full, [f"{it}, padded on the left" for it in names]
            )
            found = max(found, prompts, key=lambda it: it.value)
        return found

    return judge(CACHED, case.precision, lambda: case.bound(lambda model: outputs(model, case.inputs)), measure)


def engine(case: Case, name: str, make: Callable[[nn.Module], StepEngine]) -> Check:
    """All steps of an engine, whose hypotheses are doubled after the first, whose texts are dropped at their ends."""

    def measure() -> Difference:
        found = _steps_of(make(case.model), case)
        full = _log_p(case.model, case)
        return furthest(found, [row[len(row) - len(steps) :] for row, steps in zip(full, found)], numbered(len(found)))

    return judge(ENGINE, case.precision, lambda: case.bound(lambda model: _log_p(model, case)), measure)


def engines(case: Case) -> Check:
    """All engines of a subject against the first of them."""
    made = case.subject.engines
    if case.inputs.target is None:
        return skip(ENGINES, _NOT_WRITING)
    if len(made) < 2:
        return skip(ENGINES, f"there is one engine, {next(iter(made))}" if made else "no engine is given")

    def measure() -> Difference:
        first, *others = ((name, _steps_of(make(case.model), case)) for name, make in made.items())
        found = [(it, name) for name, steps in others for it in [furthest(steps, first[1], numbered(len(steps)))]]
        worst, name = max(found, key=lambda each: each[0].value)
        return Difference(worst.value, f"{name} and {first[0]} differ at {worst.where}")

    return judge(ENGINES, case.precision, lambda: case.bound(lambda model: _log_p(model, case)), measure)


def beam(case: Case) -> Check:
    """The answers of a search, scored anew by teacher forcing: each token, their sum, and the sum over the penalty."""
    search = case.subject.search
    if search is None:
        return skip(BEAM, "the task searches for nothing")
    answers: list[tuple[Sequence[int], Hypothesis]] = []

    def rescored(model: nn.Module) -> list[Tensor]:
        return [_rescored(model, prompt, answer, search.alpha, case.device) for prompt, answer in answers]

    def bound() -> Bound:
        found = search.answers(case.model)
        answers.extend(
            (prompt, one) for prompt, some in zip(search.prompts, found) for one in some if one.token_log_probabilities
        )
        if not answers:
            raise ModelError(f"the search gave no answer to any of {len(search.prompts)} prompts; expected some")
        return case.bound(rescored)

    def measure() -> Difference:
        said = [
            torch.tensor([*one.token_log_probabilities, one.log_probability, one.score], dtype=torch.float64)
            for _, one in answers
        ]
        return furthest([it.double().cpu() for it in rescored(case.model)], said, numbered(len(answers), "answer"))

    return judge(BEAM, case.precision, bound, measure)


def _stepwise(model: nn.Module, case: Case) -> Tensor:
    """The logits of all target tokens, the first two read together and the others one by one. -> (B, T, V)"""
    tokens, source = case.inputs.target, case.inputs.source
    assert tokens is not None
    if isinstance(model, EncoderDecoder):
        assert source is not None
        mask = padding_mask(source, PAD)
        decoder, memory = model.decoder, model.encode(source, mask=mask)
        cache = decoder.new_cache(len(tokens), tokens.size(1), memory, source)
    else:
        assert isinstance(model, Decoder)
        decoder, mask, cache = model, None, model.new_cache(len(tokens), tokens.size(1))
    ends = [0, *range(min(2, tokens.size(1)), tokens.size(1) + 1)]
    found = [decoder(tokens[:, start:end], memory_mask=mask, cache=cache) for start, end in pairwise(ends)]
    return torch.cat(found, 1)


def _after_prompts(model: Decoder, tokens: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """The same of texts that end together, padded on the left: half of the columns are read together as prompts."""
    moved, mask, positions = ragged(model, tokens)
    width = moved.size(1)
    cache = model.new_cache(len(moved), width)
    ends = [0, *range(max(1, width // 2), width + 1)]
    found = [
        model(moved[:, start:end], mask=mask[..., :end], positions=positions[:, start:end], cache=cache)
        for start, end in pairwise(ends)
    ]
    return [row[width - length :] for row, length in zip(torch.cat(found, 1), lengths)]


def _log_p(model: nn.Module, case: Case) -> list[Tensor]:
    return [row.log_softmax(-1) for row in outputs(model, case.inputs)]


def _steps_of(made: StepEngine, case: Case) -> list[Tensor]:
    """What an engine says of the targets' tokens, in the order of the vocabulary: (T', V) of each text.

    A language model is first given the first half of each text, so that less than T steps are left of it.
    """
    tokens, lengths = case.inputs.target, case.inputs.lengths
    assert tokens is not None
    if case.inputs.source is None:
        read = [max(0, length // 2 - 1) for length in lengths]
        prompts = [row[:count].tolist() for row, count in zip(tokens, read)]
    else:
        read = [0] * len(lengths)
        prompts = [row[row != PAD].tolist() for row in case.inputs.source]
    left = [row[count:length].tolist() for row, count, length in zip(tokens, read, lengths)]
    found: list[list[Tensor]] = [[] for _ in left]
    live, width = list(range(len(left))), 1
    with made.prefill(prompts, max(map(len, left))) as decoding:
        for step in range(max(map(len, left))):
            keep = [row for row, place in enumerate(live) if step < len(left[place])]
            if step == 1 or len(keep) < len(live):
                width = 2
                decoding.select(np.array(keep), np.zeros((len(keep), width), np.int64))
            live = [live[row] for row in keep]
            given = np.array([[left[place][step]] * width for place in live], np.int64)
            log_p, ids = decoding.step(given, 2**31)
            for place, values, order in zip(live, log_p[:, -1], ids[:, -1]):
                found[place].append(torch.from_numpy(values[np.argsort(order)].copy()))
    return [torch.stack(steps).to(case.device) for steps in found]


def _rescored(
    model: nn.Module, prompt: Sequence[int], answer: Hypothesis, alpha: float, device: torch.device
) -> Tensor:
    """The log-probability of each token of an answer, their sum, and the sum over ((5 + n) / 6)^alpha. -> (n + 2,)"""
    said = [*answer.ids, EOS][: len(answer.token_log_probabilities)]
    if isinstance(model, EncoderDecoder):
        begun = [BOS]
        source = torch.tensor([[*prompt, EOS]], device=device)
        logits = model(source, torch.tensor([[*begun, *said[:-1]]], device=device))
    else:
        begun = list(prompt) or [BOS]
        logits = model(torch.tensor([[*begun, *said[:-1]]], device=device))
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))[0, len(begun) - 1 :]
    log_p = logits.log_softmax(-1).gather(-1, torch.tensor(said, device=device)[:, None])[:, 0]
    total = log_p.sum()
    return torch.cat((log_p, torch.stack((total, total / ((5 + len(said)) / 6) ** alpha))))


def _cut(found: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    return [row[:length] for row, length in zip(found, lengths)]
