"""Check that a text's outputs don't depend on other texts, on padding, or on later tokens."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from ...model.fronts.tokens import Embedding
from ...model.masks import padding_mask
from ...model.transformer import Decoder, Encoder, EncoderDecoder, EncoderModel
from ..record.parts import stacks
from .check import Check, Difference, Promise, judge, skip
from .rounding import furthest
from .subject import Case, Inputs, numbered, outputs, reads_tokens, source_mask, split, whole

BATCHED = Promise("batched = single", "a text has the same outputs in a batch as alone")
PADDED = Promise("padded = unpadded", "more padding changes no output")
FUTURE = Promise("no leak from the future", "changing later tokens changes no earlier output")
MASKED = Promise("no leak from padding", "changing masked tokens changes no output")

_MORE = 3  # columns of padding


def check_batch(case: Case) -> Check:
    """Compare the outputs of each text alone with those in the batch."""
    count = len(case.inputs)

    def measure() -> Difference:
        alone = [outputs(case.model, case.inputs.row(index))[0] for index in range(count)]
        return furthest(outputs(case.model, case.inputs), alone, numbered(count))

    return judge(BATCHED, case.precision, lambda: case.bound(_outputs(case)), measure)


def check_padding(case: Case) -> Check:
    """Compare outputs with more and less padding, on the right, or for a language model on the left, like prompts."""
    count, inputs = len(case.inputs), case.inputs
    if inputs.source is not None and source_mask(case.model, inputs.source) is None:
        return skip(PADDED, "the front end has no padding")
    room = case.subject.max_len - _width(case)
    if room < 1:
        return skip(PADDED, f"the texts leave no room for padding (model.max_len={case.subject.max_len})")
    longer = inputs.padded(min(_MORE, room), _stride(case))

    def measure() -> Difference:
        if isinstance(case.model, Decoder):
            return furthest(_right_aligned(case.model, longer), outputs(case.model, inputs), numbered(count))
        return furthest(outputs(case.model, longer), outputs(case.model, inputs), numbered(count))

    def longer_outputs(model: nn.Module) -> list[Tensor]:
        return outputs(model, longer)

    return judge(PADDED, case.precision, lambda: case.bound(longer_outputs), measure)


def check_future(case: Case) -> Check:
    """Check that replacing the end of a text changes no output before it."""
    target = case.inputs.target
    if target is None:
        return skip(FUTURE, "an encoder reads the whole text at once")
    if target.size(1) < 2:
        return skip(FUTURE, "no text has a later token")
    starts = sorted({1, target.size(1) // 2, target.size(1) - 1})

    def measure() -> Difference:
        before, found = whole(case.model, case.inputs), []
        for start in starts:
            changed = torch.cat((target[:, :start], _others(case, target[:, start:])), 1)
            after = whole(case.model, replace(case.inputs, target=changed))
            found.append((after[:, :start], before[:, :start]))
        names = [f"tokens from position {start} on change earlier outputs" for start in starts]
        return furthest([after for after, _ in found], [before for _, before in found], names)

    return judge(FUTURE, case.precision, lambda: case.bound(_outputs(case)), measure)


def check_masked(case: Case) -> Check:
    """Check that replacing padding, with the same mask, changes no output."""
    if not reads_tokens(case.model):
        return skip(MASKED, "only a text has tokens; the front end tells padding from the input")
    inputs = case.inputs.padded(1) if _width(case) < case.subject.max_len else case.inputs
    tokens = inputs.target if inputs.source is None else inputs.source
    assert tokens is not None
    padding = tokens == inputs.special.pad
    if not padding.any():
        return skip(MASKED, f"the texts leave no room for padding (model.max_len={case.subject.max_len})")

    def measure() -> Difference:
        found, names = _under_mask(case.model, inputs), numbered(len(inputs))
        others = torch.where(padding, _others(case, tokens), tokens)
        return furthest(found(others), found(tokens), names)

    return judge(MASKED, case.precision, lambda: case.bound(lambda model: _under_mask(model, inputs)(tokens)), measure)


def ragged(decoder: Decoder, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Align texts to the right. (B, T) -> tokens (B, T), mask (B, 1, 1, T), positions (B, T)"""
    pad = decoder.embedding.pad
    lengths, width = (tokens != pad).sum(1), tokens.size(1)
    shift = width - lengths
    at = torch.arange(width, device=tokens.device)[None] - shift[:, None]
    moved = tokens.gather(1, at.clamp(min=0)).masked_fill(at < 0, pad)
    return moved, padding_mask(moved, pad), at.clamp(min=0)


def _right_aligned(model: Decoder, inputs: Inputs) -> list[Tensor]:
    assert inputs.target is not None
    tokens, mask, positions = ragged(model, inputs.target)
    found = model(tokens, mask=mask, positions=positions)
    return [row[tokens.size(1) - length :] for row, length in zip(found, inputs.lengths)]


def _under_mask(model: nn.Module, inputs: Inputs) -> Callable[[Tensor], list[Tensor]]:
    """Return a function from tokens to outputs, with the mask of `inputs`."""

    def run(tokens: Tensor) -> list[Tensor]:
        if isinstance(model, Decoder):
            assert inputs.target is not None
            padding, mask, positions = ragged(model, inputs.target)
            moved = torch.where(mask[:, 0, 0], padding, tokens.flip(1))  # masked tokens are on the right in `tokens`
            found = model(moved, mask=mask, positions=positions)
            return [row[tokens.size(1) - length :] for row, length in zip(found, inputs.lengths)]
        assert inputs.source is not None
        fixed = source_mask(model, inputs.source)
        if isinstance(model, EncoderDecoder):
            assert inputs.target is not None
            return split(model, model(tokens, inputs.target, source_mask=fixed), inputs)
        encoder = model.encoder if isinstance(model, EncoderModel) else model
        assert isinstance(encoder, Encoder)
        x = encoder(tokens, inputs.types, mask=fixed)
        if isinstance(model, EncoderModel):
            x = model.head(x, inputs.source != inputs.source_pad if inputs.at is None else inputs.at)
        return split(model, x, inputs)

    return run


def _others(case: Case, tokens: Tensor) -> Tensor:
    """Replace every token, padding included, with another one. Special tokens are avoided if possible."""
    embeddings = [stack.embedding for stack in stacks(case.model).values()]
    size = min(len(it.weight) for it in embeddings if isinstance(it, Embedding))
    some = case.inputs.special.ordinary(size)
    ids = torch.tensor(some if len(some) > 1 else range(size), device=tokens.device)
    places = torch.searchsorted(ids, tokens.contiguous())  # of the token itself, or of the next one
    return ids[(places + 1 + torch.arange(tokens.size(1), device=tokens.device)) % len(ids)]


def _outputs(case: Case) -> Callable[[nn.Module], list[Tensor]]:
    return lambda model: outputs(model, case.inputs)


def _width(case: Case) -> int:
    """Return the number of positions that the model reads, of its source or its target."""
    mask = None if case.inputs.source is None else source_mask(case.model, case.inputs.source)
    widths = [mask.size(-1)] if mask is not None else []
    return max(widths + ([case.inputs.target.size(1)] if case.inputs.target is not None else []))


def _stride(case: Case) -> int:
    """Return the columns of the source for each position: 1 for tokens, many samples for audio."""
    source = case.inputs.source
    mask = None if source is None else source_mask(case.model, source)
    return 1 if source is None or mask is None else -(-source.size(1) // mask.size(-1))
