"""Shares of tensors that several processes have divided among them (DTensor)."""

from typing import TYPE_CHECKING, cast

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def gathered(tensor: Tensor) -> Tensor:
    """Return the whole of a divided tensor, which every process has to ask for; any other tensor unchanged."""
    return cast(Tensor, tensor.full_tensor()) if hasattr(tensor, "full_tensor") else tensor


def own_share(tensor: Tensor) -> Tensor:
    """Return the share of this process in a divided tensor; any other tensor unchanged."""
    return cast(Tensor, tensor.to_local()) if hasattr(tensor, "to_local") else tensor


def divided_like(divided: Tensor, whole: Tensor) -> Tensor:
    """Divide a tensor, which every process has, in the way of another one; unchanged if that one isn't divided."""
    if not hasattr(divided, "device_mesh"):
        return whole
    from torch.distributed.tensor import distribute_tensor  # slow to import

    like = cast("DTensor", divided)
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)
