"""Step engine of plain loops, compiled for this machine. It runs a greedy or beam search in one call."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain

import numpy as np

from ....errors import ModelError, beyond_vocabulary
from ...beams import Answers, Hypothesis, Request
from ...engine import Batch, engine_threads
from ...model_handle import ModelHandle
from ...rules import FloatArray, IntArray, Rules, Sources
from ...search import nan_error
from . import stack_parts as parts
from .beam_loops import AnswerArrays, Jobs, Ruling
from .entries import Entries
from .stacks import CacheArrays, new_cache
from .weight_arrays import Model, load_model

_POSITIONS = 128  # rows of the first table of positions; it grows when a longer text comes
_ROWS = 32  # of a step, at most: more wouldn't share the weights much better
_CACHE_BYTES = 2**28  # of keys and values in each thread
_FOUND_NUMBERS = 2**24  # tokens in the arrays of answers
_WIDEST = 32  # beams; the arrays of a wider search are better handled step by step


class LoopsEngine:
    """Runs encoder-decoder and decoder-only models on the CPU, without torch.

    Args:
        loops: the compiled functions.
        threads: number of threads, which decode different sources.
        precision: that of the linear layers.
    """

    def __init__(self, handle: ModelHandle, loops: Entries, threads: int, precision: str = "fp32") -> None:
        self.handle, self.config, self.threads, self.max_len = handle, handle.config, threads, handle.config.max_len
        self.loops, self.int8 = loops, precision == "int8"
        self.model = load_model(self.config, handle.weights(), _POSITIONS, int8=self.int8)

    @property
    def overflow(self) -> str:
        if self.model.decoder.shape.ring:
            return f"a ring buffer of the newest {self.max_len:,} tokens"
        half = max(1, self.max_len // 2)
        return f"whenever {self.max_len:,} tokens fill the window, the newest {half:,} are read again"

    def search(self, batch: Batch, rules: Rules) -> Answers | None:
        if not _supports(batch, rules):
            return None
        prefixes = (it.prefix for it in batch.requests)
        self.check_tokens(batch.sources, [batch.start.tolist(), [rules.eos], *prefixes])
        longest = max(map(len, batch.sources)) if self.model.decoder.shape.cross else 0
        self.reserve_positions(max(longest, _capacity(self.model, batch)))
        return _run(self.loops, self.model, batch, rules, min(self.threads, engine_threads()))

    @contextmanager
    def prefill(self, sources: Sources, steps: int) -> Iterator["_LoopsDecoding"]:
        """Read B sources. Those of a language model are texts without their last token."""
        if not self.model.decoder.shape.cross:
            sources = [source[max(0, len(source) - self.max_len + 1) :] for source in sources]
        self.check_tokens(sources)
        longest = max(map(len, sources))
        capacity = steps if self.model.decoder.shape.cross else min(longest + steps, self.max_len)
        self.reserve_positions(max(longest, capacity))
        yield _LoopsDecoding(self.loops, self.model, sources, capacity)

    def check_tokens(self, sources: Iterable[Iterable[int]], outputs: Iterable[Iterable[int]] = ()) -> None:
        """Raise ModelError if a token is beyond its vocabulary, since the loops don't check where they read."""
        reader = self.model.encoder if self.model.decoder.shape.cross else self.model.decoder
        for stack, texts in ((reader, sources), (self.model.decoder, outputs)):
            size = int(stack.places[0, parts.EMBEDDING, 1])
            for token in {*chain.from_iterable(texts)}:
                if not 0 <= token < size:
                    raise beyond_vocabulary(token, size)

    def reserve_positions(self, length: int) -> None:
        """Extend the table of positions to this many tokens, if the model has one."""
        held = int(self.model.decoder.places[0, parts.POSITIONS, 1])
        if not held or held >= length:
            return
        if length > self.max_len:
            raise ModelError(
                f"a text of {length:,} tokens is longer than model.max_len={self.max_len:,}",
                fix="shorten the text, or train with a larger model.max_len",
                name="model.max_len",
                value=length,
            )
        self.model = load_model(self.config, self.handle.weights(), max(length, 2 * held), int8=self.int8)


class _LoopsDecoding:
    """A batch being decoded: rows b * W to b * W + W - 1 of the cache are the beams of source b."""

    def __init__(self, loops: Entries, model: Model, sources: Sources, capacity: int) -> None:
        """`capacity` is the maximum number of tokens of a text in the cache."""
        self.loops, self.model, self.width, n = loops, model, 1, len(sources)
        self.shape = model.decoder.shape
        self.cache = new_cache(model.decoder, n, 1, capacity, max(map(len, sources)) if self.shape.cross else 1)
        self.held = np.zeros(n, np.int64)  # tokens of each row in the cache
        self.texts = [[] if self.shape.cross else list(source) for source in sources]
        for place, source in enumerate(sources):
            text = np.array(source, np.int64)
            if self.shape.cross:
                loops.remember(*model, text, place, self.cache)
            else:
                self._read_prompt(text, place)
                self.held[place] = len(text)

    def step(self, tokens: IntArray, k: int, also: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Append a token to each beam, and return the k most likely next tokens.

        (B, W) -> log-probabilities (B, W, k), ids (B, W, k). With `also` (B,), one more column has that token.
        """
        for text, token in zip(self.texts, tokens.reshape(-1).tolist()):
            text.append(token)
        tabled = not (self.shape.ring or self.shape.cross)
        full = (self.held == self.shape.max_len) & tabled
        states = np.empty((tokens.size, self.shape.d_model), np.float32)
        for row in np.flatnonzero(full).tolist():
            states[row] = self._read_again(row)
        places = np.flatnonzero(~full)
        rows = np.stack((tokens.reshape(-1)[places], places, places // self.width, self.held[places]), 1)
        new = np.empty((len(rows), self.shape.d_model), np.float32)
        self.loops.write_states(self.model.decoder, rows, self.cache, new)
        states[places] = new
        self.held[places] += 1
        logits = np.empty((len(states), self.model.decoder.places[0, parts.PROJECTION, 1]), np.float32)
        self.loops.project(states, self.model.decoder, logits)
        log_probabilities, ids = _top(logits, k, None if also is None else also.repeat(self.width))
        shape = (len(tokens), self.width, -1)
        return log_probabilities.reshape(shape), ids.reshape(shape)

    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep these sources, and these beams of each. A beam may be repeated. (B',), (B', W')"""
        rows = (sources[:, None] * self.width + beams).reshape(-1)
        past, history, memory, memory_rows, lengths = self.cache
        own = np.arange(len(rows))[:, None].repeat(history.shape[1], 1)  # a row's past is copied to it
        numbers = memory_rows[: len(sources)]
        past, memory = past.take(rows, axis=2), memory.take(sources, axis=2)
        self.cache = CacheArrays(past, own, memory, numbers, lengths[sources])
        self.held, self.texts = self.held[rows], [list(self.texts[row]) for row in rows]
        self.width = beams.shape[1]

    def _read_again(self, row: int) -> FloatArray:
        """Read the newest half of a text from position 0, and return its last state (1, D)."""
        half = max(1, int(self.shape.max_len) // 2)
        self.held[row] = half
        return self._read_prompt(np.array(self.texts[row][-half:], np.int64), row)

    def _read_prompt(self, text: IntArray, row: int) -> FloatArray:
        """Read a text from position 0 into a row of the cache. Return its last state (1, D), unless it's empty."""
        state = np.empty((1, self.shape.d_model), np.float32)
        self.loops.write_prompt(self.model.decoder, text, row, self.cache, state)
        return state


def _top(logits: FloatArray, k: int, also: IntArray | None) -> tuple[FloatArray, IntArray]:
    """Return log-probabilities and ids of the k most likely tokens, and of `also`. (R, V), (R,) -> (R, k), (R, k)"""
    highest = logits.max(1, keepdims=True)
    normalizer = highest + np.log(np.exp(logits - highest).sum(1, keepdims=True))
    k = min(k, logits.shape[1])
    ids = np.argpartition(-logits, k - 1, axis=1)[:, :k]
    if also is not None:
        ids = np.concatenate((ids, also[:, None]), 1)
    return np.take_along_axis(logits, ids, 1) - normalizer, ids


def _supports(batch: Batch, rules: Rules) -> bool:
    """Return whether the compiled search knows these rules, and its answers fit into memory."""
    simple = not (rules.no_repeat_ngram or rules.repetition_penalty > 1 or rules.pool or rules.detokenize)
    stops = any(request.should_stop is not None for request in batch.requests)
    tokens = len(batch.sources) * rules.beam * _steps(batch.requests)
    return simple and not stops and rules.beam <= _WIDEST and tokens <= _FOUND_NUMBERS


def _run(loops: Entries, model: Model, batch: Batch, rules: Rules, threads: int) -> Answers:
    """Return the answers to each source, best first."""
    order = sorted(range(len(batch.sources)), key=lambda n: -len(batch.sources[n]))
    shares = [order[i::threads] for i in range(min(threads, len(order)))]
    if len(shares) == 1:
        found = [_decode(loops, model, batch, shares[0], rules)]
    else:
        with ThreadPoolExecutor(len(shares)) as pool:
            found = list(pool.map(lambda share: _decode(loops, model, batch, share, rules), shares))
    answers: Answers = [[] for _ in order]
    for share, some in zip(shares, found):
        for place, each in zip(share, some):
            answers[place] = each
    return answers


def _capacity(model: Model, batch: Batch) -> int:
    """Return the number of tokens that the longest text needs in the cache."""
    steps = _steps(batch.requests)
    if model.decoder.shape.cross:
        return steps
    return min(max(map(len, batch.sources)) + steps, int(model.decoder.shape.max_len))


def _decode(loops: Entries, model: Model, batch: Batch, share: Sequence[int], rules: Rules) -> Answers:
    requests = [batch.requests[n] for n in share]
    n, beam, steps, most = len(share), rules.beam, _steps(requests), _capacity(model, batch)
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
    loops.search(*model, jobs, ruling, min(slots, n), most, found)
    if found.failed[0] >= 0:
        raise nan_error(int(found.failed[1]), share[int(found.failed[0])])
    return [_hypotheses(found, i) for i in range(n)]


def _jobs(sources: Sources, start: IntArray, requests: Sequence[Request]) -> Jobs:
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
        scores = tuple(found.log_probabilities[n, w, :length].tolist())
        ids = found.tokens[n, w, :length].tolist()
        end = ids.pop() if finished else None
        answers.append(Hypothesis(tuple(ids), float(found.scores[n, w]), sum(scores), scores, finished, end))
    return answers or [Hypothesis((), -np.inf, -np.inf, (), finished=False)]


def _steps(requests: Sequence[Request]) -> int:
    return max(request.max_steps for request in requests)
