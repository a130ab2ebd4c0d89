"""Record the inputs and outputs of every part of a model with hooks, without changing the computation.

with record(model) as trace:
    model(source, target)
trace["decoder.0.cross"].weights
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...errors import ConfigError
from ...model.attention import Attend, CrossAttention, SelfAttention
from ...model.dropout import Dropout
from ...model.transformer import Decoder, Encoder
from .calls import WEIGHT_AXES, AttentionCall, AttentionInputs, PartCall, Summary, class_name, recompute_weights
from .labels import LabelledArray, Pieces, TokenLabels
from .parts import named_parts
from .switches import switched_off
from .trace import Trace
from .uncompiled import WRAPPED, CompiledComparison, uncompiled

C = TypeVar("C", PartCall, AttentionCall)

LIMIT = 2**30  # default maximum size of a record, in bytes


@contextmanager
def record(
    model: nn.Module, *, pieces: Mapping[str, Pieces] | None = None, limit: int | None = LIMIT
) -> Iterator[Trace]:
    """Record every call of every part inside the `with` block. Outputs don't change, and no hooks remain.

    Args:
        model: any model or part. Compiled parts run uncompiled while recording. Afterwards,
            `trace.compiled_difference` is the largest difference from the compiled versions.
        pieces: functions that convert token ids of each stack to text, such as {"encoder": tokenizer.pieces} (default:
            ids are shown as numbers).
        limit: maximum size of the record in bytes, or None for no limit. Calls beyond it are only summarised, in
            `trace.summaries`.

    Raises:
        ConfigError: the limit is negative.
    """
    if limit is not None and limit < 0:
        what = f"limit={limit} is negative"
        raise ConfigError(what, expected="a number of bytes from 0 up, or None for no limit", name="limit", value=limit)
    trace = Trace(limit, off=switched_off(model))
    with uncompiled(model) as compiled:
        trace.uncompiled, comparison = [it.name for it in compiled], CompiledComparison(compiled)
        recorder = _Recorder(trace, TokenLabels(pieces or {}))
        try:
            recorder.handles += comparison.watch()
            recorder.attach(model)
            yield trace
        finally:
            recorder.detach()
    trace.compiled_difference = comparison.difference()


class _Recorder:
    """The hooks of one `with` block, and their state between calls."""

    def __init__(self, trace: Trace, labels: TokenLabels) -> None:
        self.trace, self.labels = trace, labels
        self.handles: list[RemovableHandle] = []
        self.running = ""  # name of the running stack, needed because both can share an embedding
        self.steps: dict[str, int] = {}
        self.started: dict[nn.Module, float] = {}
        self.sizes: dict[nn.Module, int] = {}
        self.overhead = 0.0  # seconds spent in hooks
        self.kept: dict[int, Tensor] = {}  # keyed by address, which stays unique while the tensor is kept

    def attach(self, model: nn.Module) -> None:
        """Add hooks to every part, under its short names."""
        names: dict[nn.Module, list[str]] = {}
        for name, part in named_parts(model):
            if _is_recorded(name, part):
                names.setdefault(part, []).append(name)
        seams = {part.attend for part in model.modules() if isinstance(part, SelfAttention | CrossAttention)}
        self.sizes = {part: sum(p.numel() for p in part.parameters()) for part in names}
        for part, known_as in names.items():
            before = partial(self._enter, known_as[0]) if isinstance(part, Encoder | Decoder) else self._start
            self.handles.append(part.register_forward_pre_hook(before, with_kwargs=True))
            attends = part in seams or isinstance(part, Attend)
            after: Any = partial(self._record_attention if attends else self._record_part, known_as)
            self.handles.append(part.register_forward_hook(after, with_kwargs=True))

    def detach(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.labels.release()

    def _now(self) -> float:
        """Return the time, excluding time spent in hooks."""
        return time.perf_counter() - self.overhead

    def _start(self, part: nn.Module, _inputs: Any, _options: Any) -> None:
        self.started[part] = self._now()

    def _enter(self, name: str, stack: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Record when a stack starts to run, and its input."""
        entered = time.perf_counter()
        self.running = name
        self.steps[name] = self.steps.get(name, -1) + 1
        if name == "encoder":
            read = inputs[0] if inputs else options["inputs"]
            self.labels.enter_encoder(read, stack.embedding.names(read))
        else:
            cache = options.get("cache")
            if cache is not None:
                self.trace.cache_lengths.append(cache.length)
            self.labels.enter_decoder(inputs[0] if inputs else options["tokens"], cache)
        self.overhead += time.perf_counter() - entered
        self.started[stack] = self._now()

    def _record_part(self, known_as: list[str], part: nn.Module, inputs: Any, options: Any, output: Any) -> None:
        seconds, entered = self._now() - self.started.pop(part), time.perf_counter()
        if isinstance(output, Tensor):
            name, kind, step = self._name(known_as), type(part).__name__, self.steps.get(self.running, 0)
            given = tuple(x.detach() for x in (*inputs, *options.values()) if isinstance(x, Tensor))
            self._add(PartCall(name, kind, step, seconds, given, output.detach(), self.sizes[part]), self.trace.parts)
        self.overhead += time.perf_counter() - entered

    def _record_attention(
        self, known_as: list[str], part: nn.Module, inputs: Any, options: Any, output: Tensor
    ) -> None:
        seconds, entered = self._now() - self.started.pop(part), time.perf_counter()
        name, kind, step = self._name(known_as), class_name(part), self.steps.get(self.running, 0)
        (q, k, v), mask, bias = (x.detach() for x in inputs), options.get("mask"), options.get("bias")
        bias, output = None if bias is None else bias.detach(), output.detach()
        given = AttentionInputs(q, k, v, mask, bias)
        with torch.no_grad():
            weights, difference = recompute_weights(name, part, given, output)
        k, v = (it.repeat_interleave(given.groups, 1) if given.groups > 1 else self._copied(it) for it in (k, v))
        known = None
        if weights is not None:
            known = LabelledArray(weights, WEIGHT_AXES, self.labels.of_weights(name, weights))
        call = AttentionCall(name, kind, step, seconds, q, k, v, mask, bias, output, known, difference)
        self._add(call, self.trace.calls)
        self.overhead += time.perf_counter() - entered

    def _add(self, call: C, calls: dict[str, list[C]]) -> None:
        """Add a call to the record, or only its summary if it doesn't fit."""
        if self._keep(*call.arrays().values()):
            calls.setdefault(call.name, []).append(call)
        else:
            self.trace.summaries.append(Summary.of(call))

    def _name(self, known_as: list[str]) -> str:
        return next((name for name in known_as if name.startswith(f"{self.running}.")), known_as[0])

    def _copied(self, x: Tensor) -> Tensor:
        """Copy a tensor unless it's already kept, because the next step may overwrite cached keys and values."""
        return x if x.untyped_storage().data_ptr() in self.kept else x.clone()

    def _keep(self, *tensors: Tensor) -> bool:
        """Keep these tensors if they fit within the limit. Tensors that are already kept don't count again."""
        new = {it.untyped_storage().data_ptr(): it for it in tensors}
        new = {address: it for address, it in new.items() if address not in self.kept}
        size = self.trace.nbytes + sum(it.untyped_storage().nbytes() for it in new.values())
        if self.trace.limit is not None and size > self.trace.limit:
            return False
        self.kept |= new
        self.trace.nbytes = size
        return True


def _is_recorded(name: str, part: nn.Module) -> bool:
    """Return whether to record a part. Containers and parts that return their input are skipped."""
    if isinstance(part, Dropout):
        return name.endswith("embedded")
    if WRAPPED in part._modules:
        return False
    return not isinstance(part, nn.ModuleList | nn.Identity | SelfAttention | CrossAttention)
