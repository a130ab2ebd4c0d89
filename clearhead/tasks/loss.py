"""Cross-entropy with label smoothing (section 5.4); padding neither counts nor gets any of the mass."""

import torch
from torch import Tensor


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, pad: int = 0) -> Tensor:
    """The sum over real targets of -sum_v q(v) log p(v), with p = softmax(logits): q gives 1 - smoothing to the target,
    and spreads the rest over every token but padding, the target among them. (N, V), (N,) -> ()
    """
    log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    loss = -(1 - smoothing) * log_p.gather(-1, targets[:, None])[:, 0]
    if smoothing:
        loss = loss - smoothing / (logits.size(-1) - 1) * (log_p.sum(-1) - log_p[:, pad])
    return loss.masked_fill(targets == pad, 0.0).sum()
