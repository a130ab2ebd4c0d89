"""The search for an answer, and for a sampled one the probabilities that it was drawn with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...decode.sampling import Sampling
from ..views.explanation import Explanation


def search_data(explanation: Explanation, candidates: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the search tree, and for sampling the probability of drawing each candidate: 0 if it was cut off.

    Args:
        explanation: the recorded search.
        candidates: ids of tokens at each place of the answer, (T, K).
    """
    found, config = explanation.searched, explanation.config
    values, decode = found.to_dict() | {"verdict": found.verdict(), "sampled": config.decode.sample}, config.decode
    plain = not decode.no_repeat_ngram and decode.repetition_penalty == 1 and not decode.suppress
    if decode.sample and plain:
        log_p = explanation.trace["decoder"].output[0].float().log_softmax(-1).numpy(force=True).copy()
        if decode.suppress_special:
            log_p[:, [i for i in config.model.special.never_generated if i < log_p.shape[1]]] = -np.inf
        sampling = Sampling(temperature=decode.temperature, top_k=decode.top_k, top_p=decode.top_p, min_p=decode.min_p)
        p = torch.from_numpy(sampling.probabilities(log_p)).gather(-1, torch.tensor(candidates))
        values["drawn_with"] = [[round(it, 6) for it in row] for row in p.tolist()]
    return values
