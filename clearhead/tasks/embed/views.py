"""Explain the embedding of one text."""

import torch

from ...errors import DataError
from ...inspection.record.recorder import record
from ...inspection.views.explanation import Explanation
from ...inspection.views.flow import dimension_flow
from ...model.transformer import Encoder, evaluation
from ...tokenization.offsets import unknown_texts
from .pooling import embed_batch
from .sources import text_ids
from .task import Embedding

_SHOWN = 6  # numbers of the embedding to show


def explain_embedding(task: Embedding, model: Encoder, text: str) -> Explanation:
    """Embed a text, and record the model while it reads the text. A long text is truncated.

    Raises:
        DataError: the text is blank.
    """
    if not text.strip():
        raise DataError("the text is blank", expected="a text to explain", name="text", value=text)
    source, settings = task.tokenizers.source, task.config.model
    [ids] = text_ids(task, [text])[0]
    inputs = torch.tensor([ids], device=task.config.train.device)
    spell = {"encoder": source.pieces}
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        vector = embed_batch(model, inputs, settings.pooling, normalize=settings.normalize)[0]
    shown = ", ".join(f"{value:.4f}" for value in vector[:_SHOWN].tolist())
    return Explanation(
        text=text,
        answer=f"[{shown}{', …' * (len(vector) > _SHOWN)}]",
        values={"length": float(vector.norm())},
        tokens={"encoder": tuple(source.pieces(ids))},
        flow=tuple(dimension_flow(model, inputs)),
        trace=trace,
        model=model,
        config=task.config,
        pieces=source.pieces,
        unknown=tuple(unknown_texts(source, text)),
    )
