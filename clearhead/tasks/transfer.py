"""Copy batches to the device that computes."""

from typing import TYPE_CHECKING, Any

from ..errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


def on_device(numbers: "NDArray[Any]", device: str) -> "Tensor":
    """Copy numbers to a device, which doesn't have to be waited for. On a CPU, they aren't copied."""
    import torch

    tensor = torch.from_numpy(numbers)
    if device.startswith("cuda"):
        tensor = tensor.pin_memory()  # a GPU reads such memory by itself, while Python prepares the next operation
    return tensor.to(device, non_blocking=True)


def tokens_on_device(tokens: "NDArray[Any]", device: str, vocab_size: int, pad: int) -> "Tensor":
    """Copy token ids to a device. Padding may be beyond the vocabulary.

    Raises:
        ModelError: a token is beyond the vocabulary. A GPU would end the process, so it's checked here; on a CPU, the
            embedding raises the same error.
    """
    if device != "cpu" and tokens.size:
        found = int(tokens.max(where=tokens != pad, initial=0))
        if found >= vocab_size:
            raise ModelError(
                f"token {found} is beyond the vocabulary of {vocab_size}",
                expected=f"token ids from 0 to {vocab_size - 1}",
                fix="encode the text with this model's tokenizer",
                name="tokens",
                value=found,
            )
    return on_device(tokens, device)
