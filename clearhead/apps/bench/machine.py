"""What this machine can do: how fast it reads weights, and how fast it multiplies matrices."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_SECONDS = 0.15  # for each measurement
_SIZE = 1024  # of the matrices to multiply
_WIDTH = 512  # of the weights to read
_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
BYTES = {name: dtype.itemsize for name, dtype in _TYPES.items()}


@dataclass(frozen=True)
class Machine:
    """The limits of this machine for the weights of one model, with all of its threads.

    Attributes:
        n_weights: number of weights that a decoding step reads.
        threads: number of threads.
        read: bytes of weights read per second, by precision. Weights that fit into the processor's cache are faster.
        products: floating-point or integer operations per second of large matrix products, by precision.
    """

    n_weights: int
    threads: int
    read: dict[str, float]
    products: dict[str, float]

    @classmethod
    def measure(cls, n_weights: int) -> "Machine":
        """Measure the limits for decoding with `n_weights` weights. This takes about a second."""
        read = {name: size * n_weights / seconds(_reading(n_weights * size // 4)) for name, size in BYTES.items()}
        products = {name: 2 * _SIZE**3 / seconds(_multiplying(dtype)) for name, dtype in _TYPES.items()}
        return cls(n_weights, torch.get_num_threads(), read, products)

    def limit(self, precision: str, rows: int) -> float:
        """Return the most steps per second: each step reads all weights, and multiplies them with `rows` vectors."""
        reading = BYTES[precision] * self.n_weights / self.read[precision]
        multiplying = 2 * self.n_weights * rows / self.products[precision]
        return 1 / max(reading, multiplying)


def seconds(work: Callable[[], object]) -> float:
    """Return the least time that the work takes, of several runs after a first one."""
    work()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def _reading(n: int) -> Callable[[], Tensor]:
    """Return a product that reads n numbers of four bytes."""
    weights, x = torch.zeros(max(1, n // _WIDTH), _WIDTH), torch.zeros(_WIDTH)
    return lambda: weights @ x


def _multiplying(dtype: torch.dtype) -> Callable[[], Tensor]:
    if dtype is torch.int8:
        a = torch.ones(_SIZE, _SIZE, dtype=dtype)
        return lambda: torch._int_mm(a, a)  # the only product of int8 that torch has
    a = torch.ones(_SIZE, _SIZE, dtype=dtype)
    return lambda: a @ a
