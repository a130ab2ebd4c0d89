"""Explain the filling of one text."""

import math

import torch

from ...config import DecodeConfig
from ...inspection.record.recorder import record
from ...inspection.record.uncompiled import uncompiled
from ...inspection.views.contrast import Contrast, mask_contrast
from ...inspection.views.explanation import Explanation
from ...inspection.views.flow import dimension_flow
from ...inspection.views.token_attribution import Replay
from ...model.heads import TokenPredictor
from ...model.transformer import EncoderModel, evaluation
from ...tokenization.offsets import unknown_texts
from .task import Filling


def explain_filling(task: Filling, model: EncoderModel, text: str, search: DecodeConfig) -> Explanation:
    """Fill the masks of a text, then record the model while it reads the text.

    Raises:
        DataError: the text has no mask, or is too long.
    """
    source, (ids, masks) = task.tokenizers.source, task.read(text)
    with uncompiled(model):  # so that the recorded pass gives the same answer
        [found] = task.fillings(model, [text], search)
    head, inputs = model.head, torch.tensor([ids], device=task.config.train.device)
    assert isinstance(head, TokenPredictor)
    at = torch.zeros_like(inputs, dtype=torch.bool)
    at[0, masks] = True
    pieces = source.pieces(ids)
    for place in masks:
        pieces[place] = source.mask_name
    spell = {"encoder": lambda _: pieces}
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        model(inputs, at=at)

    def first(word: str) -> int | None:  # a token as `fill --json` prints it, or the first one of a word
        return source.token_id(word) if word in source.vocabulary() else source.known(source.encode(word))

    def contrast(token: str | None, other: str | None) -> Contrast:
        return mask_contrast(head, trace, at[0], first, source.pieces, token or found.masks[0][0].token, other)

    best = [it[0] for it in found.masks]
    chosen = torch.tensor([source.token_id(it.token) for it in best], device=inputs.device)

    def again(n: int) -> torch.Tensor:  # -> (n, M), the log-probability of the best token of each mask
        logits = model(inputs.expand(n, -1), at=at.expand(n, -1)).unflatten(0, (n, -1))
        return logits.log_softmax(-1).take_along_dim(chosen[None, :, None], -1)[..., 0]

    names = [it.token for it in best]
    return Explanation(
        text=text,
        answer=found.filled,
        values={"probability": math.prod(best.probability for best, *_ in found.masks)},
        tokens={"encoder": tuple(pieces)},
        flow=tuple(dimension_flow(model, inputs)),
        trace=trace,
        model=model,
        config=task.config,
        pieces=source.pieces,
        contrast=contrast,
        filled=tuple(chosen.tolist()),
        mask_name=source.mask_name,
        unknown=tuple(it for part in text.split(source.mask_name) for it in unknown_texts(source, part)),
        rerun=again,
        replay=Replay(model, model.encoder.embedding, tuple(pieces), names, task.special.unk, again),
    )
