"""Explain the label of one text, image or recording."""

from typing import Any

import numpy as np
import torch

from ...config import DecodeConfig
from ...errors import DataError
from ...inspection.media.media_explanation import MediaExplanation
from ...inspection.media.media_input import is_media, source_name
from ...inspection.record.recorder import record
from ...inspection.record.uncompiled import uncompiled
from ...inspection.views.contrast import Contrast, label_contrast
from ...inspection.views.explanation import Explanation
from ...inspection.views.flow import dimension_flow
from ...inspection.views.token_attribution import Replay
from ...model.heads import Classifier
from ...model.transformer import EncoderModel, evaluation
from ...tokenization.offsets import unknown_texts
from .task import Classification


def explain_label(task: Classification, model: EncoderModel, source: Any, search: DecodeConfig) -> Explanation:
    """Label a text, image or recording, then record the model while it reads it. A long text or recording is truncated.

    Raises:
        DataError: the text is blank, or the file can't be read.
    """
    if isinstance(source, str) and not source.strip():
        raise DataError("the text is blank", expected="a text to explain", name="text", value=source)
    head, pieces = model.head, task.tokenizers.source.pieces
    assert isinstance(head, Classifier)
    [encoded], _ = task.encoder.tokens([source])
    sources = task.ragged([encoded])
    with uncompiled(model):  # so that the recorded pass gives the same label
        p = task.log_probabilities(model, sources, search.batch_tokens)[0]
    best, inputs, front = int(p.argmax()), task.inputs(sources, np.arange(1)), model.encoder.embedding
    with evaluation(model), torch.inference_mode(), record(model, pieces={"encoder": pieces}, limit=None) as trace:
        model(inputs)
    names, mask = front.names(inputs), front.mask(inputs)
    real = torch.ones(trace["encoder"].output.size(1), dtype=torch.bool) if mask is None else mask.flatten()

    def contrast(label: str | None, other: str | None) -> Contrast:
        return label_contrast(head, trace, real, task.labels, label or task.labels[best], other)

    def again(n: int) -> torch.Tensor:  # -> (n, 1), the log-probability of the label
        logits: torch.Tensor = model(inputs.expand(n, *inputs.shape[1:]))
        return logits.log_softmax(-1)[:, best : best + 1]

    def label_again() -> tuple[str, float]:
        found = model(inputs)[0].softmax(-1)
        return task.labels[int(found.argmax())], float(found.max())

    tokens = tuple(pieces(encoded) if names is None else names[0])
    return (MediaExplanation if is_media(model) else Explanation)(
        text=source_name(source),
        answer=task.labels[best],
        values={"probability": float(torch.tensor(p[best]).exp())},
        tokens={"encoder": tokens},
        source_words=tuple(task.tokenizers.source.word_indices(source)) if names is None else (),
        flow=tuple(dimension_flow(model, inputs)),
        trace=trace,
        model=model,
        config=task.config,
        pieces=pieces,
        contrast=contrast,
        again=label_again,
        rerun=again,
        labels=tuple(task.labels),
        unknown=tuple(unknown_texts(task.tokenizers.source, source)) if names is None else (),
        replay=Replay(model, front, tokens, [task.labels[best]], task.special.unk, again) if names is None else None,
    )
