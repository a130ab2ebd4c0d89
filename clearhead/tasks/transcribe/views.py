"""When each token of a transcript was said."""

from collections.abc import Sequence
from typing import Any

import torch

from ...config import chosen
from ...config.front_geometry import position_seconds
from ...inspection.media.timings import Timing, timings
from ...inspection.record.recorder import record
from ...inspection.views.alignment import alignment_layer
from ...model.transformer import EncoderDecoder, evaluation
from .task import Transcription


def timings_of(task: Transcription, model: EncoderDecoder, recording: Any, pieces: Sequence[str]) -> tuple[Timing, ...]:
    """Return when each token of a transcript was said, by the model's cross-attention.

    Raises:
        ModelError: a custom attention module doesn't report its weights.
    """
    if not pieces:
        return ()
    [samples], _ = task.sources([recording])
    target, device, rate = task.tokenizers.target, task.config.train.device, chosen(task.config.model.sample_rate)
    inputs = torch.tensor([[task.special.start, *map(target.token_id, pieces)]], device=device)
    with evaluation(model), torch.inference_mode(), record(model.decoder, limit=None) as trace:
        model(task.encoder_input(samples).to(device), inputs)
    layer = alignment_layer(len(model.decoder.blocks))
    weights = trace[f"decoder.{layer}.cross"].weights.values[0].double().mean(0)
    return timings(weights.numpy(force=True), pieces, position_seconds(rate), len(samples) / rate)
