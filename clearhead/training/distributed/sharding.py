"""Sharding (FSDP2): each process keeps a share of every weight, of its gradient and of the optimizer's state.

A block gathers its weights before it runs and drops them afterwards, and the gradient of a weight is summed up where
its share is. Everything else sees whole weights: checkpoints, evaluations and the model folder.
"""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ...model.blocks import DecoderBlock
from ...tokenization.ragged import IntArray
from ..activations import blocks_of
from .processes import Loss, LossOf, divided_like, gathered


class Shards:
    """A model whose weights are divided among the processes of a run.

    Attributes:
        model: the model to train. Its weights are DTensors.
        whole: the same model without weights, except inside `gathered` and after `gather`.
        loss: returns the loss of a batch, whose backward pass averages the gradients of all processes.
    """

    def __init__(self, whole: nn.Module, loss: Loss) -> None:
        """Divide the weights of a model, which are those of the first process."""
        for weight in whole.state_dict().values():
            distributed.broadcast(weight, 0)
        self.whole, self.model = whole, copy.deepcopy(whole)
        # Keys and values are views of one product, and nothing changes them in place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
        device = next(whole.parameters()).device
        mesh = init_device_mesh(device.type, (distributed.get_world_size(),))
        for block in blocks_of(self.model):
            if isinstance(block, DecoderBlock) and block.cross_attention is not None:
                fully_shard(block.cross_attention.kv, mesh=mesh)  # runs before its block does
            fully_shard(block, mesh=mesh)
        self.loss = cast(Callable[[IntArray], Tensor], fully_shard(LossOf(self.model, loss), mesh=mesh))
        self.drop()

    def gather(self, weights: Mapping[str, Tensor] | None = None) -> None:
        """Give `whole` these weights, by name (default: those of the model)."""
        found = dict(self.model.named_parameters()) if weights is None else weights
        for name, p in self.whole.named_parameters():
            p.data = gathered(found[name]).detach()

    def drop(self) -> None:
        """Take the weights from `whole`. Their shapes remain."""
        for p in self.whole.parameters():
            p.data = p.data.new_zeros(()).expand(p.shape)

    @contextmanager
    def gathered(self, weights: Mapping[str, Tensor] | None = None) -> Iterator[None]:
        """Inside the `with` block, `whole` has these weights (default: those of the model)."""
        self.gather(weights)
        try:
            yield
        finally:
            self.drop()

    @torch.no_grad()
    def scatter(self) -> None:
        """Give the model the weights of `whole`."""
        whole = dict(self.whole.named_parameters())
        for name, p in self.model.named_parameters():
            p.copy_(divided_like(p, whole[name].detach()))
