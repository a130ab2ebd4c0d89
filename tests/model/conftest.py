"""The tests of the model draw the same numbers every time, and compute in float64 unless they say otherwise."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor


@pytest.fixture(autouse=True)
def same_numbers_in_float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def gradients() -> Callable[..., list[Tensor]]:
    """gradients(output, *inputs): of the output times random numbers, the same ones for outputs of the same shape."""

    def of(output: Tensor, *inputs: Tensor) -> list[Tensor]:
        numbers = torch.randn(output.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        return list(torch.autograd.grad((output * numbers.to(output.dtype)).sum(), inputs))

    return of


@pytest.fixture
def single() -> Iterator[None]:
    """Compute in float32, as in use."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)
