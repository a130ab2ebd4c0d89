"""Input of the checks: a model, some tokenized texts, and the loss, engines and search of its task."""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ...config import SpecialTokens
from ...decode.beams import Answers
from ...decode.engine import StepEngine
from ...model.fronts.front import Front
from ...model.fronts.tokens import Embedding
from ...model.heads import TokenPredictor
from ...model.transformer import Decoder, EncoderDecoder, EncoderModel
from ..record.parts import stacks
from .rounding import Bound, Run, bound_of, nudged_models


@dataclass(frozen=True)
class Inputs:
    """A batch of tokenized texts, images or recordings, padded on the right.

    Attributes:
        source: encoder input, (B, S) for tokens; otherwise whatever the front end reads, (B, ...).
        target: decoder input, (B, T).
        types: token types of the source, (B, S).
        at: True for the positions that a head reads, (B, S).
        pad: the value that marks padding in the source (default: `special.pad`).
    """

    source: Tensor | None = None
    target: Tensor | None = None
    types: Tensor | None = None
    at: Tensor | None = None
    pad: int | None = None
    special: SpecialTokens = field(default_factory=SpecialTokens)

    def __len__(self) -> int:
        return len(self.source if self.target is None else self.target)  # type: ignore[arg-type]

    @property
    def names(self) -> list[str]:
        """A name for each text: "text 1"."""
        return numbered(len(self))

    @property
    def lengths(self) -> list[int]:
        """The number of tokens in each text: of the target if there is one, or else of the source."""
        return self._source_lengths if self.target is None else _lengths(self.target, self.special.pad)

    @property
    def source_pad(self) -> int:
        """The value that marks padding in the source."""
        return self.special.pad if self.pad is None else self.pad

    @property
    def _source_lengths(self) -> list[int]:
        """The number of columns of each source without padding."""
        assert self.source is not None
        if self.source.dim() != 2:  # images have no padding
            return [self.source.size(1)] * len(self.source)
        return _lengths(self.source, self.source_pad)

    def each(self, change: Callable[[Tensor], Tensor]) -> "Inputs":
        """Return inputs with `change` applied to every tensor."""
        return self._with({name: change(it) for name, it in self._tensors.items()})

    def row(self, place: int) -> "Inputs":
        """Return one text without padding."""
        widths = {}
        if self.source is not None:
            widths = dict.fromkeys(("source", "types", "at"), self._source_lengths[place])
        if self.target is not None:
            widths["target"] = _lengths(self.target, self.special.pad)[place]
        return self._with({name: it[place : place + 1, : widths[name]] for name, it in self._tensors.items()})

    def padded(self, more: int, stride: int = 1) -> "Inputs":
        """Return inputs with `more` additional positions of padding, each of `stride` columns of the source."""
        pads, longer = {"source": self.source_pad, "target": self.special.pad}, {}
        for name, it in self._tensors.items():
            count = more * stride if name == "source" else more
            longer[name] = torch.nn.functional.pad(it, (0, count), value=pads.get(name, 0))
        return self._with(longer)

    def outputs(self, model: nn.Module) -> list[Tensor]:
        """Return a model's output for each text, without padding: (T, V), (S, D), (S, 2) or (C,)"""
        return self.split(model, self.whole_output(model))

    def whole_output(self, model: nn.Module) -> Tensor:
        """Return a model's output, padding included."""
        if isinstance(model, Decoder):
            found = model(self.target)
        elif isinstance(model, EncoderModel):
            found = model(self.source, self.types, at=self.at)
        else:
            assert self.source is not None
            mask = source_mask(model, self.source)
            if isinstance(model, EncoderDecoder):
                found = model(self.source, self.target, source_mask=mask)
            else:
                found = model(self.source, self.types, mask=mask)
        assert isinstance(found, Tensor)
        return found

    def split(self, model: nn.Module, found: Tensor) -> list[Tensor]:
        """Split a model's output into texts, without padding."""
        lengths = self.lengths
        if self.target is None and self.source is not None:
            mask = source_mask(model, self.source)
            lengths = lengths if mask is None else mask[:, 0, 0].sum(1).tolist()
        if isinstance(model, EncoderModel) and isinstance(model.head, TokenPredictor):
            return list(found.split(lengths if self.at is None else self.at.sum(1).tolist()))
        if found.dim() == 2:  # one vector for each text
            return list(found)
        return [row[:length] for row, length in zip(found, lengths)]

    @property
    def _tensors(self) -> dict[str, Tensor]:
        return {name: it for name, it in vars(self).items() if isinstance(it, Tensor)}

    def _with(self, tensors: dict[str, Any]) -> "Inputs":
        return replace(self, **tensors)


OpenEngine: TypeAlias = Callable[[nn.Module, int], StepEngine]


@dataclass(frozen=True)
class SubjectSearch:
    """A task's search. `answers` returns a model's answers to each prompt, ranked with length penalty `alpha`.

    A prompt is what the encoder reads, or the beginning of a text to continue.
    """

    prompts: Sequence[Sequence[int]]
    answers: Callable[[nn.Module], Answers]
    alpha: float


@dataclass(frozen=True)
class Subject:
    """A model with everything that the checks need. Checks that need a missing attribute are skipped.

    Attributes:
        texts: description of these texts.
        max_len: the maximum number of tokens that the model reads.
        loss: returns a model's loss on a fixed batch, on the CPU.
        reload: saves a model into a folder and loads it from there, on the CPU.
        engines: functions that open a decoding engine, given a model and a context window in tokens.
        float32_engines: the names of those that compute in float32, whatever the model's precision.
    """

    model: nn.Module
    inputs: Inputs
    texts: str
    max_len: int
    loss: Callable[[nn.Module], Tensor] | None = None
    reload: Callable[[nn.Module, Path], nn.Module] | None = None
    engines: Mapping[str, OpenEngine] = field(default_factory=dict)
    float32_engines: Collection[str] = ()
    search: SubjectSearch | None = None


class Case:
    """A subject in one precision, with copies of its model whose weights are nudged to compute bounds."""

    def __init__(self, subject: Subject, dtype: torch.dtype, device: torch.device) -> None:
        self.precision = str(dtype).removeprefix("torch.")
        first = next(subject.model.parameters())
        same = (first.dtype, first.device) == (dtype, device)
        self.model = subject.model if same else deepcopy(subject.model).to(device=device, dtype=dtype)
        self.nudged = nudged_models(self.model)
        self.inputs = subject.inputs.each(lambda tensor: tensor.to(device))
        self.subject, self.device = subject, device

    @property
    def engines(self) -> dict[str, OpenEngine]:
        """The engines that compute in this precision."""
        single, own = self.subject.float32_engines, self.subject.engines
        return {name: it for name, it in own.items() if self.precision == "float32" or name not in single}

    def bound(self, run: Run) -> Bound:
        """Return a bound on the change that rounding can cause in the result of `run` on the model."""
        return bound_of(run(self.model), [run(it) for it in self.nudged], "every weight")


def front_of(model: nn.Module) -> Front | None:
    """Return the front end of a model's encoder, or None if it has no encoder."""
    encoder = stacks(model).get("encoder")
    return None if encoder is None else encoder.embedding


def reads_tokens(model: nn.Module) -> bool:
    """Return whether a model reads only tokens, not images or audio."""
    front = front_of(model)
    return front is None or isinstance(front, Embedding)


def source_mask(model: nn.Module, source: Tensor) -> Tensor | None:
    """Return the mask that the model's front end makes of its inputs. (B, ...) -> (B, 1, 1, S)"""
    front = front_of(model)
    assert front is not None
    return front.mask(source)


def numbered(count: int, what: str = "text") -> list[str]:
    """Return the names "text 1", "text 2", ..."""
    return [f"{what} {place + 1}" for place in range(count)]


def _lengths(tokens: Tensor, pad: int) -> list[int]:
    """Return the lengths of rows without the padding on their right. Some decoders start with padding (T5)."""
    places = torch.arange(1, tokens.size(1) + 1, device=tokens.device)
    return [max(int(length), 1) for length in (places * (tokens != pad)).amax(1)]
