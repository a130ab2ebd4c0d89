"""Promises that a text's outputs depend on nothing else: other texts, padding, later tokens, recording or saving."""

import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ...model.fronts.tokens import Embedding
from ...model.masks import padding_mask
from ...model.transformer import Decoder, Encoder, EncoderDecoder, EncoderModel
from ..record.parts import stacks
from ..record.recorder import record
from ..record.uncompiled import compiled_parts, uncompiled, unwrapped_name
from .check import Measured, Promise, Skip
from .rounding import EXACT, Difference, furthest
from .subject import Case, Inputs, numbered, reads_tokens, source_mask

_MORE = 3  # columns of padding


def _batched(case: Case) -> Measured:
    """Compare the outputs of each text alone with those in the batch."""
    bound = case.bound(case.inputs.outputs)
    alone = [case.inputs.row(index).outputs(case.model)[0] for index in range(len(case.inputs))]
    yield bound, furthest(case.inputs.outputs(case.model), alone, case.inputs.names)


def _padded(case: Case) -> Measured:
    """Add padding on the right, or for a language model on the left, as in prompts, and compare the outputs."""
    inputs = case.inputs
    if inputs.source is not None and _source_mask(case) is None:
        raise Skip("the front end has no padding")
    room = case.subject.max_len - _width(case)
    if room < 1:
        raise Skip(f"the texts leave no room for padding (model.max_len={case.subject.max_len})")
    longer = inputs.padded(min(_MORE, room), _stride(case))
    bound = case.bound(longer.outputs)
    if isinstance(case.model, Decoder) and longer.target is not None:
        found = _under_mask(case.model, longer, longer.target)
    else:
        found = longer.outputs(case.model)
    yield bound, furthest(found, inputs.outputs(case.model), inputs.names)


def _future(case: Case) -> Measured:
    """Replace the end of each text, and compare the outputs before it."""
    target = case.inputs.target
    if target is None:
        raise Skip("an encoder reads the whole text at once")
    if target.size(1) < 2:
        raise Skip("no text has a later token")
    bound = case.bound(case.inputs.outputs)
    before, found, names = case.inputs.whole_output(case.model), [], []
    for start in sorted({1, target.size(1) // 2, target.size(1) - 1}):
        changed = torch.cat((target[:, :start], _others(case, target[:, start:])), 1)
        after = replace(case.inputs, target=changed).whole_output(case.model)
        found.append((after[:, :start], before[:, :start]))
        names.append(f"tokens from position {start} on change earlier outputs")
    yield bound, furthest([after for after, _ in found], [before for _, before in found], names)


def _masked(case: Case) -> Measured:
    """Replace padding, with the same mask, and compare the outputs."""
    if not reads_tokens(case.model):
        raise Skip("only a text has tokens; the front end tells padding from the input")
    inputs = case.inputs.padded(1) if _width(case) < case.subject.max_len else case.inputs
    tokens = inputs.target if inputs.source is None else inputs.source
    assert tokens is not None
    padding = tokens == inputs.special.pad
    if not padding.any():
        raise Skip(f"the texts leave no room for padding (model.max_len={case.subject.max_len})")
    bound = case.bound(lambda model: _under_mask(model, inputs, tokens))
    others = torch.where(padding, _others(case, tokens), tokens)
    found, expected = (_under_mask(case.model, inputs, it) for it in (others, tokens))
    yield bound, furthest(found, expected, inputs.names)


def _repeated(case: Case) -> Measured:
    """Compare the outputs of two runs."""
    first, second = case.inputs.outputs(case.model), case.inputs.outputs(case.model)
    yield EXACT, furthest(first, second, numbered(len(first), "input"))


def _recorded(case: Case) -> Measured:
    """Compare outputs before, during and after recording, and check that no hooks remain.

    Compiled parts are recorded uncompiled, so their outputs may differ by rounding.
    """
    model, inputs, compiled = case.model, case.inputs, compiled_parts(case.model)
    bound = EXACT
    if compiled:
        bound = case.bound(inputs.outputs)
        bound = replace(bound, reason=f"{bound.reason}; compiled: {', '.join(it.name for it in compiled)}")
    hooks, before = _hooks(model), inputs.outputs(model)
    with record(model):
        during = inputs.outputs(model)
    if remaining := {name for name, these in _hooks(model).items() if these != hooks.get(name)}:
        yield bound, Difference(float("inf"), f"hooks remain on {', '.join(sorted(remaining))}")
    else:
        found = [furthest(some, before, inputs.names) for some in (during, inputs.outputs(model))]
        yield bound, max(found, key=lambda it: it.value)


def _saved(case: Case) -> Measured:
    """Compare every weight and output with those of the model reloaded from a temporary folder."""
    if case.subject.reload is None:
        raise Skip("no way to save the model is given")
    with tempfile.TemporaryDirectory(prefix="clearhead-verify-") as folder:
        loaded = case.subject.reload(case.model, Path(folder) / "model").to(case.device).eval()
    own, found = _tensors(case.model), _tensors(loaded)
    if missing := own.keys() ^ found.keys():
        difference = Difference(float("inf"), f"only in one of the two models: {', '.join(sorted(missing))}")
    elif other := [name for name in own if own[name].dtype != found[name].dtype]:
        difference = Difference(float("inf"), f"in another precision: {', '.join(other)}")
    else:
        difference = furthest([found[name] for name in own], list(own.values()), list(own))
    if difference.value == 0:
        with uncompiled(case.model):
            own_outputs = case.inputs.outputs(case.model)
        difference = furthest(case.inputs.outputs(loaded), own_outputs, case.inputs.names)
    yield EXACT, difference


BATCHED = Promise("batched = single", "a text has the same outputs in a batch as alone", _batched)
PADDED = Promise("padded = unpadded", "more padding changes no output", _padded)
FUTURE = Promise("no leak from the future", "changing later tokens changes no earlier output", _future)
MASKED = Promise("no leak from padding", "changing masked tokens changes no output", _masked)
REPEATED = Promise("again = before", "the same inputs give the same bits again", _repeated)
RECORDED = Promise(
    "recorded = unrecorded", "recording doesn't change a bit of the outputs, and no hooks remain", _recorded
)
SAVED = Promise("saved = loaded", "saved and reloaded weights are the same, and so are the outputs", _saved)


def aligned_right(decoder: Decoder, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Move the padding of texts from the right to the left, as in prompts.

    (B, T) -> tokens (B, T), mask (B, 1, 1, T), positions (B, T)
    """
    pad = decoder.embedding.pad
    lengths, width = (tokens != pad).sum(1), tokens.size(1)
    shift = width - lengths
    at = torch.arange(width, device=tokens.device)[None] - shift[:, None]
    moved = tokens.gather(1, at.clamp(min=0)).masked_fill(at < 0, pad)
    return moved, padding_mask(moved, pad), at.clamp(min=0)


def _under_mask(model: nn.Module, inputs: Inputs, tokens: Tensor) -> list[Tensor]:
    """Return the outputs for tokens with the mask of `inputs`. A language model reads them with padding on the left."""
    if isinstance(model, Decoder):
        assert inputs.target is not None
        aligned, mask, positions = aligned_right(model, inputs.target)
        read = torch.where(mask[:, 0, 0], aligned, tokens.flip(1))  # masked tokens are on the right in `tokens`
        found = model(read, mask=mask, positions=positions)
        return [row[tokens.size(1) - length :] for row, length in zip(found, inputs.lengths)]
    assert inputs.source is not None
    fixed = source_mask(model, inputs.source)
    if isinstance(model, EncoderDecoder):
        return inputs.split(model, model(tokens, inputs.target, source_mask=fixed))
    encoder = model.encoder if isinstance(model, EncoderModel) else model
    assert isinstance(encoder, Encoder)
    x = encoder(tokens, inputs.types, mask=fixed)
    if isinstance(model, EncoderModel):
        x = model.head(x, inputs.source != inputs.source_pad if inputs.at is None else inputs.at)
    return inputs.split(model, x)


def _others(case: Case, tokens: Tensor) -> Tensor:
    """Replace every token, padding included, with another one. Special tokens are avoided if possible."""
    embeddings = [stack.embedding for stack in stacks(case.model).values()]
    size = min(len(it.weight) for it in embeddings if isinstance(it, Embedding))
    some = case.inputs.special.ordinary(size)
    ids = torch.tensor(some if len(some) > 1 else range(size), device=tokens.device)
    places = torch.searchsorted(ids, tokens.contiguous())  # of the token itself, or of the next one
    return ids[(places + 1 + torch.arange(tokens.size(1), device=tokens.device)) % len(ids)]


def _width(case: Case) -> int:
    """Return the number of positions that the model reads, of its source or its target."""
    return max(it.size(-1) for it in (_source_mask(case), case.inputs.target) if it is not None)


def _stride(case: Case) -> int:
    """Return the columns of the source for each position: 1 for tokens, many samples for audio."""
    source, mask = case.inputs.source, _source_mask(case)
    return 1 if source is None or mask is None else -(-source.size(1) // mask.size(-1))


def _source_mask(case: Case) -> Tensor | None:
    return None if case.inputs.source is None else source_mask(case.model, case.inputs.source)


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers, including buffers that aren't saved."""
    every = (*model.named_parameters(), *model.named_buffers())
    return {unwrapped_name(name): it.detach() for name, it in every}


def _hooks(model: nn.Module) -> dict[str, list[int]]:
    """Return the ids of all functions that run before, after or instead of each module."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    found = {}
    for name, module in model.named_modules():
        hooks = [hook for kind in kinds for hook in getattr(module, kind).values()]
        found[name or "the model"] = [*map(id, hooks), id(vars(module).get("forward")), id(type(module).forward)]
    return found
