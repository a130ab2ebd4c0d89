"""What stands beside a text changes nothing of it: other texts, padding, and what comes later."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from ...model.fronts.tokens import Embedding
from ...model.masks import padding_mask
from ...model.transformer import Decoder, Encoder, EncoderDecoder, EncoderModel
from ...tokenization.tokenizer import PAD, UNK
from ..record.parts import stacks
from .check import Check, Difference, Promise, judge, skip
from .rounding import furthest
from .subject import Case, Inputs, numbered, outputs, split, whole

BATCHED = Promise("batched = single", "a text in a batch has the outputs that it has alone")
PADDED = Promise("padded = unpadded", "more padding changes nothing of a text")
FUTURE = Promise("no leak from the future", "other tokens later in a text change nothing before them")
HIDDEN = Promise("no leak from padding", "what stands where padding is masked changes nothing")

_MORE = 3  # columns of padding


def batched(case: Case) -> Check:
    """Each text alone against the batch."""
    count = len(case.inputs)

    def measure() -> Difference:
        alone = [outputs(case.model, case.inputs.row(place))[0] for place in range(count)]
        return furthest(outputs(case.model, case.inputs), alone, numbered(count))

    return judge(BATCHED, case.precision, lambda: case.bound(_outputs(case)), measure)


def padded(case: Case) -> Check:
    """With more padding against without: on the right, and of a language model on the left, where prompts have it."""
    count, inputs = len(case.inputs), case.inputs
    room = case.subject.max_len - max(it.size(1) for it in (inputs.source, inputs.target) if it is not None)
    if room < 1:
        return skip(PADDED, f"the texts fill all that the model reads, model.max_len = {case.subject.max_len}")
    longer = inputs.padded(min(_MORE, room))

    def measure() -> Difference:
        if isinstance(case.model, Decoder):
            return furthest(_right_aligned(case.model, longer), outputs(case.model, inputs), numbered(count))
        return furthest(outputs(case.model, longer), outputs(case.model, inputs), numbered(count))

    def longer_outputs(model: nn.Module) -> list[Tensor]:  # its lengths are those of the texts
        return outputs(model, longer)

    return judge(PADDED, case.precision, lambda: case.bound(longer_outputs), measure)


def future(case: Case) -> Check:
    """Other tokens from some place on against the text as it is, before that place."""
    target = case.inputs.target
    if target is None:
        return skip(FUTURE, "an encoder reads the whole text at once: it may look ahead")
    if target.size(1) < 2:
        return skip(FUTURE, "no text has a later token")
    places = sorted({1, target.size(1) // 2, target.size(1) - 1})

    def measure() -> Difference:
        before, found = whole(case.model, case.inputs), []
        for place in places:
            changed = torch.cat((target[:, :place], _others(case.model, target[:, place:])), 1)
            after = whole(case.model, replace(case.inputs, target=changed))
            found.append((after[:, :place], before[:, :place]))
        names = [f"tokens from place {place} on change what the model says before them" for place in places]
        return furthest([after for after, _ in found], [before for _, before in found], names)

    return judge(FUTURE, case.precision, lambda: case.bound(_outputs(case)), measure)


def hidden(case: Case) -> Check:
    """Other tokens where padding is, under the mask as it was."""
    inputs = case.inputs.padded(1) if _room(case) else case.inputs
    tokens = inputs.target if inputs.source is None else inputs.source
    assert tokens is not None
    if not (tokens == PAD).any():
        return skip(HIDDEN, f"the texts fill all that the model reads, model.max_len = {case.subject.max_len}")

    def measure() -> Difference:
        found, names = _under_mask(case.model, inputs), numbered(len(inputs))
        others = torch.where(tokens == PAD, _others(case.model, tokens), tokens)
        return furthest(found(others), found(tokens), names)

    return judge(HIDDEN, case.precision, lambda: case.bound(lambda model: _under_mask(model, inputs)(tokens)), measure)


def ragged(decoder: Decoder, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Texts moved to the right end, with padding on the left: the tokens, their mask and their positions.

    (B, T) -> (B, T), (B, 1, 1, T), (B, T)
    """
    lengths, width = (tokens != PAD).sum(1), tokens.size(1)
    shift = width - lengths
    at = torch.arange(width, device=tokens.device)[None] - shift[:, None]
    moved = tokens.gather(1, at.clamp(min=0)).masked_fill(at < 0, PAD)
    return moved, padding_mask(moved, PAD), at.clamp(min=0)


def _right_aligned(model: Decoder, inputs: Inputs) -> list[Tensor]:
    assert inputs.target is not None
    tokens, mask, positions = ragged(model, inputs.target)
    found = model(tokens, mask=mask, positions=positions)
    return [row[tokens.size(1) - length :] for row, length in zip(found, inputs.lengths)]


def _under_mask(model: nn.Module, inputs: Inputs) -> Callable[[Tensor], list[Tensor]]:
    """The outputs as a function of the tokens that are read, under the mask of those of `inputs`."""

    def run(tokens: Tensor) -> list[Tensor]:
        if isinstance(model, Decoder):
            assert inputs.target is not None
            padding, mask, positions = ragged(model, inputs.target)
            moved = torch.where(mask[:, 0, 0], padding, tokens.flip(1))  # what is hidden stands on the right there
            found = model(moved, mask=mask, positions=positions)
            return [row[tokens.size(1) - length :] for row, length in zip(found, inputs.lengths)]
        assert inputs.source is not None
        mask = padding_mask(inputs.source, PAD)
        if isinstance(model, EncoderDecoder):
            assert inputs.target is not None
            return split(model, model(tokens, inputs.target, source_mask=mask), inputs)
        encoder = model.encoder if isinstance(model, EncoderModel) else model
        assert isinstance(encoder, Encoder)
        x = encoder(tokens, inputs.types, mask=mask)
        if isinstance(model, EncoderModel):
            x = model.head(x, inputs.source != PAD if inputs.at is None else inputs.at)
        return split(model, x, inputs)

    return run


def _others(model: nn.Module, tokens: Tensor) -> Tensor:
    """Other tokens of the vocabulary, none of them special where there are others; where padding stands, too."""
    embeddings = [stack.embedding for stack in stacks(model).values()]
    size = min(len(it.weight) for it in embeddings if isinstance(it, Embedding))
    first = UNK + 1 if size > UNK + 2 else 0
    return first + (tokens - first + 1 + torch.arange(tokens.size(1), device=tokens.device)) % (size - first)


def _outputs(case: Case) -> Callable[[nn.Module], list[Tensor]]:
    return lambda model: outputs(model, case.inputs)


def _room(case: Case) -> bool:
    widths = [it.size(1) for it in (case.inputs.source, case.inputs.target) if it is not None]
    return max(widths) < case.subject.max_len
