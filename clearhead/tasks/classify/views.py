"""Explain the label of one text."""

import torch

from ...config import DecodeConfig
from ...errors import DataError
from ...inspection.record.recorder import record
from ...inspection.record.uncompiled import uncompiled
from ...inspection.views.contrast import Contrast, label_contrast
from ...inspection.views.explanation import Explanation
from ...inspection.views.flow import dimension_flow
from ...model.heads import Classifier
from ...model.transformer import EncoderModel, evaluation
from ...tokenization.ragged import Ragged
from ...tokenization.tokenizer import PAD
from .task import Classification


def explain_label(task: Classification, model: EncoderModel, text: str, search: DecodeConfig) -> Explanation:
    """Label one text, then record the model while it reads the text. A long text is truncated.

    Raises:
        DataError: the text is blank.
    """
    if not text.strip():
        raise DataError("the text is blank", expected="a text to explain", name="text", value=text)
    head, source = model.head, task.tokenizers.source
    assert isinstance(head, Classifier)
    [ids], _ = task.encoder.tokens([text])
    with uncompiled(model):  # so that the recorded pass gives the same label
        p = task.log_probabilities(model, Ragged([ids]), search.batch_tokens)[0]
    best, tokens = int(p.argmax()), torch.tensor([ids], device=task.config.train.device)
    spell = {"encoder": source.pieces}
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        model(tokens)

    def contrast(label: str | None, other: str | None) -> Contrast:
        return label_contrast(head, trace, tokens[0] != PAD, task.labels, label or task.labels[best], other)

    return Explanation(
        text=text,
        answer=task.labels[best],
        values={"probability": float(torch.tensor(p[best]).exp())},
        tokens={"encoder": tuple(source.pieces(ids))},
        source_words=tuple(source.word_indices(text)),
        flow=tuple(dimension_flow(model, (1, len(ids)))),
        trace=trace,
        model=model,
        pieces=source.pieces,
        contrast=contrast,
    )
