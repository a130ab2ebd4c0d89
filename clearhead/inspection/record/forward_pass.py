"""One forward pass of a model over one input, the basis of every view."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from ...model.fronts.front import Front
from ...model.heads import SpanFinder
from ...model.transformer import Decoder, evaluation
from .labels import Pieces
from .parts import stacks
from .recorder import record
from .trace import Trace


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A model's input and its output. A pass can be recorded, and run again.

    Attributes:
        inputs: what it reads, in the order of its arguments: each (1, ...).
        pieces: functions that convert the token ids of each stack to text.
        targets: what it says, R: the ids of tokens or of a label, or the first and the last position of an answer.
        said: the names of the targets; a single one for an answer.
        at: the positions that its head reads, (1, S). See `EncoderModel`.
        hidden: the id of the token that stands for a hidden one. None for a vector of zeros.
        answer: answers the same input from the start, with one beam if `greedy`. Returns the answer and its score.
        log_p: returns what a classifier's logits mean: log-probabilities of labels, or a number. (n, C) -> (n, C)
        measure: what `log_probabilities` returns: "log-probability" or "number".
    """

    model: nn.Module = field(repr=False)
    inputs: Sequence[Tensor]
    pieces: Mapping[str, Pieces] = field(repr=False)
    targets: Sequence[int] = ()
    said: Sequence[str] = ()
    at: Tensor | None = None
    hidden: int | None = None
    answer: Callable[..., tuple[str, float]] | None = field(default=None, repr=False)
    log_p: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)
    measure: str = "log-probability"

    def run(self, n: int = 1) -> Tensor:
        """Run the model on n copies of the input, and return its output."""
        more = {} if self.at is None else {"at": self.at.expand(n, -1)}
        return self.model(*(it.expand(n, *it.shape[1:]) for it in self.inputs), **more)

    def log_probabilities(self, n: int = 1) -> Tensor:
        """Return the log-probability of each output token, for n copies of the input. -> (n, R)"""
        logits, targets = self.run(n), torch.tensor(self.targets, device=self.inputs[0].device)
        if isinstance(getattr(self.model, "head", None), SpanFinder):  # (n, S, 2)
            return logits.log_softmax(1).take_along_dim(targets[None, None], 1).sum(-1)
        if self.log_p is not None:
            return self.log_p(logits.double())[:, targets]  # numbers may be large, and differ by little
        if logits.dim() == 2:  # a token for each mask
            logits = logits.unflatten(0, (n, -1))
        logits = logits[:, logits.size(1) - len(targets) :]  # without those of a prompt
        return logits.log_softmax(-1).take_along_dim(targets[None, :, None], -1)[..., 0]

    @contextmanager
    def recording(self) -> Iterator[Trace]:
        """Record what the model does inside the `with` block."""
        with (
            evaluation(self.model),
            torch.inference_mode(),
            record(self.model, pieces=self.pieces, limit=None) as trace,
        ):
            yield trace

    def recorded(self) -> Trace:
        """Run the model and return the record."""
        with self.recording() as trace:
            self.run()
        return trace

    @property
    def front(self) -> Front:
        """The part that turns the input into vectors."""
        return next(iter(stacks(self.model).values())).embedding

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the positions that each stack reads: tokens, patches or times."""
        found = {}
        for (name, stack), read in zip(stacks(self.model).items(), self.inputs):
            named = stack.embedding.names(read)
            found[name] = tuple(self.pieces[name](read[0].tolist()) if named is None else named[0])
        return found

    @property
    def reads_tokens(self) -> bool:
        """True if the input is a text."""
        return self.front.names(self.inputs[0]) is None

    @property
    def read(self) -> Sequence[str]:
        """The names of the input's positions, S. A language model's own tokens aren't among them."""
        first = next(iter(self.names.values()))
        return first[: len(first) + 1 - len(self.targets)] if isinstance(self.model, Decoder) else first
