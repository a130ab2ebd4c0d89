"""Compare decoding (with a cache, with engines, and in a search) with full forward passes."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from ...decode.beams import Hypothesis
from ...decode.engine import StepEngine
from ...errors import ModelError
from ...model.transformer import Decoder, EncoderDecoder
from .batch_checks import ragged
from .check import Bound, Check, Difference, Promise, blaming, judge, skip
from .rounding import furthest
from .subject import Case, OpenEngine, numbered, outputs, source_mask

CACHED = Promise("cached = full", "decoding token by token with a cache gives the same logits as one forward pass")
ENGINE = Promise("engine = full", "an engine's steps give the same log-probabilities as one forward pass")
ENGINES = Promise("engine = engine", "all engines give the same log-probabilities")
BEAM = Promise("beam's scores = rescoring", "a search gives its answers the same scores as a forward pass")

_NOT_WRITING = "an encoder doesn't generate text"


def check_cache(case: Case) -> Check:
    """Compare step-by-step decoding with one forward pass, for a language model also with left-padded prompts."""
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


def check_engine(case: Case, name: str, open_engine: OpenEngine) -> Check:
    """Compare an engine's steps with one forward pass.

    The number of hypotheses doubles after the first step, and texts leave the batch when they end.
    """

    def measure() -> Difference:
        found = _target_steps(open_engine(case.model, case.subject.max_len), case)
        full = _log_p(case.model, case)
        return furthest(found, [row[len(row) - len(steps) :] for row, steps in zip(full, found)], numbered(len(found)))

    return blaming(name, judge(ENGINE, case.precision, lambda: case.bound(lambda model: _log_p(model, case)), measure))


def check_engines(case: Case) -> Check:
    """Compare all engines with the first one."""
    engines = case.engines
    if case.inputs.target is None:
        return skip(ENGINES, _NOT_WRITING)
    if len(engines) < 2:
        where = f" in {case.precision}" if len(case.subject.engines) > 1 else ""
        return skip(
            ENGINES, f"there's only one engine{where}, {next(iter(engines))}" if engines else "no engine is given"
        )

    def measure() -> Difference:
        first, *others = (
            (name, _target_steps(open_engine(case.model, case.subject.max_len), case))
            for name, open_engine in engines.items()
        )
        found = [(it, name) for name, steps in others for it in [furthest(steps, first[1], numbered(len(steps)))]]
        worst, name = max(found, key=lambda each: each[0].value)
        return Difference(worst.value, f"{name} and {first[0]} differ at {worst.where}")

    return judge(ENGINES, case.precision, lambda: case.bound(lambda model: _log_p(model, case)), measure)


def check_search(case: Case) -> Check:
    """Compare the scores of a search's answers (each token's, their sum, and the final score) with teacher forcing."""
    search = case.subject.search
    if search is None:
        return skip(BEAM, "the task has no search")
    answers: list[tuple[Sequence[int], Hypothesis]] = []

    def rescored(model: nn.Module) -> list[Tensor]:
        return [_rescored(model, prompt, answer, search.alpha, case) for prompt, answer in answers]

    def bound() -> Bound:
        found = search.answers(case.model)
        answers.extend(
            (prompt, one) for prompt, some in zip(search.prompts, found) for one in some if one.token_log_probabilities
        )
        if not answers:
            raise ModelError(
                f"the search returned no answer to any of {len(search.prompts)} prompts",
                expected="at least one answer",
                name="search",
            )
        return case.bound(rescored)

    def measure() -> Difference:
        claimed = [
            torch.tensor([*one.token_log_probabilities, one.log_probability, one.score], dtype=torch.float64)
            for _, one in answers
        ]
        return furthest([it.double().cpu() for it in rescored(case.model)], claimed, numbered(len(answers), "answer"))

    return judge(BEAM, case.precision, bound, measure)


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


def _target_steps(engine: StepEngine, case: Case) -> list[Tensor]:
    """Return an engine's log-probabilities after each of the targets' last T' tokens: (T', V) for each text.

    A language model reads the first half of each text as its prompt.
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
    return [it.to(case.device) for it in engine_steps(engine, prompts, rest)]


def engine_steps(engine: StepEngine, prompts: Sequence[list[int]], rest: Sequence[list[int]]) -> list[Tensor]:
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


def _rescored(model: nn.Module, prompt: Sequence[int], answer: Hypothesis, alpha: float, case: Case) -> Tensor:
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


def _cut(found: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    return [row[:length] for row, length in zip(found, lengths)]
