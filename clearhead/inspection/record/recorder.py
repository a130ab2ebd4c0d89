"""Looking inside from outside: hooks that write down what every part receives and gives, while the model runs as ever.

with record(model) as trace:
    model(source, target)
trace["decoder.0.cross"].weights
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...errors import ConfigError
from ...model.attention import Attend, CrossAttention, SelfAttention
from ...model.cache import Cache
from ...model.dropout import Dropout
from ...model.transformer import Decoder, Encoder
from .as_written import WRAPPED, Twins, as_written
from .calls import WEIGHT_AXES, Attention, Passed, Summary
from .labelled import Labelled
from .parts import named_parts
from .switches import switched_off
from .told_weights import class_name, told_weights
from .trace import Trace

Pieces: TypeAlias = Callable[[Iterable[int]], list[str]]
Rows: TypeAlias = list[list[str]]  # the tokens of each row

LIMIT = 2**30  # bytes of a record, where nobody says


@contextmanager
def record(
    model: nn.Module, *, pieces: Mapping[str, Pieces] | None = None, limit: int | None = LIMIT
) -> Iterator[Trace]:
    """Record every call of every part inside the `with` block; outputs are untouched, and nothing stays behind.

    `pieces` spells the tokens of each stack, {"encoder": tokenizer.pieces}; without it they are numbers. Beyond `limit`
    bytes (None: without end) calls are summarised, which `trace.summaries` says. Parts that were compiled run as they
    are written; how far the compiled ones are from that is `trace.lifted_difference`, once the block is left.
    """
    if limit is not None and limit < 0:
        raise ConfigError(f"limit = {limit} bytes cannot be kept; expected at least 0, or None for no limit")
    trace = Trace(limit, off=switched_off(model))
    with as_written(model) as compiled:
        trace.lifted, twins = [it.name for it in compiled], Twins(compiled)
        recording = _Recording(trace, pieces or {}, twins)
        try:
            recording.attach(model)
            yield trace
        finally:
            recording.detach()
    trace.lifted_difference = twins.difference()


class _Recording:
    """The hooks of one `with` block, and what they have to remember from one call to the next."""

    def __init__(self, trace: Trace, pieces: Mapping[str, Pieces], twins: Twins) -> None:
        self.trace, self.pieces, self.twins = trace, pieces, twins
        self.handles: list[RemovableHandle] = []
        self.running = ""  # the stack, whose embedding may be the other's, too
        self.steps: dict[str, int] = {}
        self.begun: dict[nn.Module, float] = {}
        self.sizes: dict[nn.Module, int] = {}
        self.spent = 0.0  # seconds of the hooks themselves
        self.kept: dict[int, Tensor] = {}  # by the address of their memory, which is thereby nobody else's
        self.read: Tensor | None = None  # the tokens of the sources, (B, S)
        self.followed: dict[int, tuple[Cache, Tensor]] = {}  # caches by identity, with the tokens that they hold
        self.queries: Rows = []
        self.keys: Rows = []

    def attach(self, model: nn.Module) -> None:
        """Hooks on all parts, under the names that they have in Figure 1."""
        names: dict[nn.Module, list[str]] = {}
        for name, part in named_parts(model):
            if _is_of_interest(name, part):
                names.setdefault(part, []).append(name)
        self.handles += self.twins.watch()
        seams = {part.attend for part in model.modules() if isinstance(part, SelfAttention | CrossAttention)}
        self.sizes = {part: sum(p.numel() for p in part.parameters()) for part in names}
        for part, called in names.items():
            before = partial(self._enter, called[0]) if isinstance(part, Encoder | Decoder) else self._begin
            self.handles.append(part.register_forward_pre_hook(before, with_kwargs=True))
            attends = part in seams or isinstance(part, Attend)
            after: Any = partial(self._attended if attends else self._passed, called)
            self.handles.append(part.register_forward_hook(after, with_kwargs=True))

    def detach(self) -> None:
        """Leave everything as it was."""
        for handle in self.handles:
            handle.remove()
        for cache, _ in self.followed.values():
            for name in ("select", "select_memory"):  # those of the class are there again
                vars(cache).pop(name, None)

    def _now(self) -> float:
        """A clock that stands still in hooks."""
        return time.perf_counter() - self.spent

    def _begin(self, part: nn.Module, _inputs: Any, _options: Any) -> None:
        self.begun[part] = self._now()

    def _enter(self, name: str, stack: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """A stack begins to run: from here on calls are its own, and tokens are known."""
        entered = time.perf_counter()
        self.running = name
        self.steps[name] = self.steps.get(name, -1) + 1
        tokens: Tensor = inputs[0] if inputs else options["tokens"]
        if name == "encoder":
            self.read = tokens
            self.queries = self.keys = self._spell(name, tokens)
        else:
            self._enter_decoder(tokens, options.get("cache"))
        self.spent += time.perf_counter() - entered
        self.begun[stack] = self._now()

    def _enter_decoder(self, tokens: Tensor, cache: Cache | None) -> None:
        said = held = tokens
        if cache is not None:
            self.trace.cache_lengths.append(cache.length)
            if (before := self._followed(cache)) is not None:
                said = torch.cat((before, tokens), 1)
            self.followed[id(cache)] = (cache, said)
            places = said.size(1) - 1 - cache.ages(tokens.size(1))
            held = said[:, places] if int(places.min()) >= 0 else said[:, :0]  # it held more than was seen
        self.queries, self.keys = self._spell("decoder", tokens), self._spell("decoder", held)

    def _followed(self, cache: Cache) -> Tensor | None:
        """The tokens that a cache holds, None at first: from then on, where hypotheses change rows, they follow."""
        if id(cache) in self.followed:
            return self.followed[id(cache)][1]
        select, select_memory = cache.select, cache.select_memory

        def moved(rows: Tensor) -> None:
            select(rows)
            self.followed[id(cache)] = (cache, self.followed[id(cache)][1].index_select(0, rows))

        def chosen(sources: Tensor) -> None:
            select_memory(sources)
            self.read = None if self.read is None else self.read.index_select(0, sources)

        cache.select, cache.select_memory = moved, chosen  # type: ignore[method-assign]
        return None

    def _spell(self, stack: str, tokens: Tensor) -> Rows:
        spell = self.pieces.get(stack, _numbers)
        return [list(spell(ids)) for ids in tokens.tolist()]

    def _passed(self, called: list[str], part: nn.Module, inputs: Any, options: Any, output: Any) -> None:
        """A part has given its output."""
        seconds, entered = self._now() - self.begun.pop(part), time.perf_counter()
        name, kind = self._name(called), type(part).__name__
        step = self.steps.get(self.running, 0)
        given = tuple(x.detach() for x in (*inputs, *options.values()) if isinstance(x, Tensor))
        if isinstance(output, Tensor):
            if self._has_room(*given, output):
                found = Passed(name, kind, step, given, output.detach(), seconds, self.sizes[part])
                self.trace.parts.setdefault(name, []).append(found)
            else:
                self.trace.summaries.append(Summary.of(name, kind, step, output, seconds))
        self.spent += time.perf_counter() - entered

    def _attended(self, called: list[str], part: nn.Module, inputs: Any, options: Any, output: Tensor) -> None:
        """An attention has given its output: its weights are recomputed beside it."""
        seconds, entered = self._now() - self.begun.pop(part), time.perf_counter()
        name, kind, step = self._name(called), class_name(part), self.steps.get(self.running, 0)
        q, k, v = (x.detach() for x in inputs)
        groups, output = q.size(1) // k.size(1), output.detach()
        mask, bias = options.get("mask"), options.get("bias")
        bias = None if bias is None else bias.detach()
        with torch.no_grad():
            weights, difference = told_weights(name, part, q, k, v, mask, bias, output)
        k, v = (it.repeat_interleave(groups, 1) if groups > 1 else self._own(it) for it in (k, v))
        there = [it for it in (q, k, v, mask, bias, output, weights) if it is not None]
        if self._has_room(*there):
            known = None if weights is None else Labelled(weights, WEIGHT_AXES, self._tokens(name, weights))
            found = Attention(name, kind, step, q, k, v, mask, bias, output, known, difference, seconds)
            self.trace.calls.setdefault(name, []).append(found)
        else:
            self.trace.summaries.append(Summary.of(name, kind, step, output, seconds))
        self.spent += time.perf_counter() - entered

    def _name(self, called: list[str]) -> str:
        return next((name for name in called if name.startswith(f"{self.running}.")), called[0])

    def _tokens(self, name: str, weights: Tensor) -> dict[str, Rows]:
        """What the queries and keys of an attention are called, for each row; numbers where nobody ran a stack."""
        queries, keys = self.queries, self.keys
        if name.endswith(".cross"):
            keys = [] if self.read is None else self._spell("encoder", self.read)
            beams = max(len(queries) // weights.size(0), 1)  # hypotheses of a source stand together
            queries = [[*chain(*queries[row : row + beams])] for row in range(0, len(queries), beams)]
        shape = (weights.size(0), weights.size(2), weights.size(3))
        fits = [(len(rows), {*map(len, rows)}) for rows in (queries, keys)]
        if fits != [(shape[0], {shape[1]}), (shape[0], {shape[2]})]:
            queries, keys = ([[str(i) for i in range(size)]] * shape[0] for size in shape[1:])
        return {"query": queries, "key": keys}

    def _own(self, x: Tensor) -> Tensor:
        """A copy of what is not kept already: keys in a cache are overwritten by its next step."""
        return x if x.untyped_storage().data_ptr() in self.kept else x.clone()

    def _has_room(self, *tensors: Tensor) -> bool:
        """Whether these can be kept within the limit, and if so keep them; what is kept already costs nothing."""
        new = {it.untyped_storage().data_ptr(): it for it in tensors}
        new = {place: it for place, it in new.items() if place not in self.kept}
        size = self.trace.nbytes + sum(it.untyped_storage().nbytes() for it in new.values())
        if self.trace.limit is not None and size > self.trace.limit:
            return False
        self.kept |= new
        self.trace.nbytes = size
        return True


def _numbers(ids: Iterable[int]) -> list[str]:
    return [str(i) for i in ids]


def _is_of_interest(name: str, part: nn.Module) -> bool:
    """Not what only holds others, nor what gives what it is given."""
    if isinstance(part, Dropout):
        return name.endswith("embedded")
    if WRAPPED in part._modules:
        return False
    return not isinstance(part, nn.ModuleList | nn.Identity | SelfAttention | CrossAttention)
