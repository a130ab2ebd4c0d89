"""Hand a batch to the compiled search, in shares for several threads, and turn its arrays into hypotheses."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ...beams import Hypothesis, Request
from ...engine import Batch
from ...rules import IntArray, Rules
from ...search import nan_error
from . import beam_loops
from . import stack_parts as parts
from .hypotheses import AnswerArrays, Jobs, Ruling
from .weight_arrays import Model

_ROWS = 32  # of a step, at most: more wouldn't share the weights much better
_CACHE_BYTES = 2**28  # of keys and values in each thread
_FOUND_NUMBERS = 2**24  # tokens in the arrays of answers
_WIDEST = 32  # beams; the arrays of a wider search are better handled step by step


def supports(batch: Batch, rules: Rules) -> bool:
    """Return whether the compiled search knows these rules, and its answers fit into memory."""
    simple = not (rules.no_repeat_ngram or rules.repetition_penalty > 1 or rules.pool or rules.detokenize)
    stops = any(request.should_stop is not None for request in batch.requests)
    tokens = len(batch.sources) * rules.beam * _steps(batch.requests)
    return simple and not stops and rules.beam <= _WIDEST and tokens <= _FOUND_NUMBERS


def run(model: Model, batch: Batch, rules: Rules, threads: int) -> list[list[Hypothesis]]:
    """Return the answers to each source, best first."""
    order = sorted(range(len(batch.sources)), key=lambda n: -len(batch.sources[n]))
    shares = [order[i::threads] for i in range(min(threads, len(order)))]
    if len(shares) == 1:
        found = [_decode(model, batch, shares[0], rules)]
    else:
        with ThreadPoolExecutor(len(shares)) as pool:
            found = list(pool.map(lambda share: _decode(model, batch, share, rules), shares))
    answers: list[list[Hypothesis]] = [[] for _ in order]
    for share, some in zip(shares, found):
        for place, each in zip(share, some):
            answers[place] = each
    return answers


def capacity(model: Model, batch: Batch) -> int:
    """Return the number of tokens that the longest text needs in the cache."""
    steps = _steps(batch.requests)
    if model.decoder.shape.cross:
        return steps
    return min(max(map(len, batch.sources)) + steps, int(model.decoder.shape.max_len))


def _decode(model: Model, batch: Batch, share: Sequence[int], rules: Rules) -> list[list[Hypothesis]]:
    requests = [batch.requests[n] for n in share]
    n, beam, steps, most = len(share), rules.beam, _steps(requests), capacity(model, batch)
    found = AnswerArrays(
        np.empty((n, beam, steps), np.int64),
        np.empty((n, beam, steps), np.float32),
        np.empty((n, beam), np.int64),
        np.empty((n, beam)),
        np.empty((n, beam)),
        np.zeros((n, beam), np.bool_),
        np.zeros(n, np.int64),
        np.full(2, -1),
    )
    jobs = _jobs([batch.sources[place] for place in share], batch.start[share], requests)
    suppressed = np.zeros(model.decoder.places[0, parts.PROJECTION, 1], np.bool_)
    suppressed[[token for token in rules.suppress if token < len(suppressed)]] = True
    ends = rules.ends(np.arange(len(suppressed)))
    ruling = Ruling(rules.eos, beam, float(rules.alpha), rules.n_best, suppressed, ends, rules.considered)
    shape = model.decoder.shape
    row_bytes = int(8 * shape.layers * shape.kv_heads * shape.d_head * most)
    slots = max(1, min(_ROWS, _CACHE_BYTES // row_bytes) // beam)
    beam_loops.search(*model, jobs, ruling, min(slots, n), most, found)
    if found.failed[0] >= 0:
        raise nan_error(int(found.failed[1]), share[int(found.failed[0])])
    return [_hypotheses(found, i) for i in range(n)]


def _jobs(sources: Sequence[Sequence[int]], start: IntArray, requests: Sequence[Request]) -> Jobs:
    prefixes = np.full((len(requests), max(len(it.prefix) for it in requests)), -1, np.int64)
    for row, request in zip(prefixes, requests):
        row[: len(request.prefix)] = request.prefix
    return Jobs(
        np.array([token for source in sources for token in source], np.int64),
        np.cumsum([0, *map(len, sources)]),
        start,
        np.array([it.max_steps for it in requests], np.int64),
        np.array([it.min_len for it in requests], np.int64),
        np.array([-1 if it.max_len is None else it.max_len for it in requests], np.int64),
        prefixes,
    )


def _hypotheses(found: AnswerArrays, n: int) -> list[Hypothesis]:
    """Return the answers to one source. If every token was forbidden, the answer is empty and its score is -inf."""
    answers = []
    for w in range(min(int(found.n_found[n]), found.tokens.shape[1])):
        length, finished = int(found.lengths[n, w]), bool(found.finished[n, w])
        parts = tuple(found.log_probabilities[n, w, :length].tolist())
        ids = found.tokens[n, w, :length].tolist()
        end = ids.pop() if finished else None
        answers.append(Hypothesis(tuple(ids), float(found.scores[n, w]), sum(parts), parts, finished, end))
    return answers or [Hypothesis((), -np.inf, -np.inf, (), finished=False)]


def _steps(requests: Sequence[Request]) -> int:
    return max(request.max_steps for request in requests)
