"""Measure the machine's limits: how fast it reads and copies memory, and how fast it multiplies matrices."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_SECONDS = 0.15  # for each measurement
_SIZES = {"cpu": 1024, "cuda": 8192}  # of the matrices to multiply
_WIDTH = 512  # of the weights to read
_LARGE = 2**25  # numbers; they don't fit into a cache
_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
BYTES = {name: dtype.itemsize for name, dtype in _TYPES.items()}


@dataclass(frozen=True)
class Machine:
    """The limits of this machine.

    Attributes:
        n_weights: number of weights that were read, such as those of a decoding step.
        read: bytes of weights read per second, by precision. Weights that fit into the processor's cache are faster.
        products: floating-point or integer operations per second of large matrix products, by precision.
        copy: bytes read and written per second while copying memory.
    """

    n_weights: int
    threads: int
    read: dict[str, float]
    products: dict[str, float]
    copy: float

    @classmethod
    def measure(cls, n_weights: int = _LARGE, threads: int | None = None, device: str = "cpu") -> "Machine":
        """Measure the limits. This takes about a second.

        Args:
            n_weights: number of weights to read, such as those of a decoding step (default: more than a cache holds).
            threads: number of threads (default: torch's own setting).
            device: cpu, or a GPU such as cuda.
        """
        before = torch.get_num_threads()
        torch.set_num_threads(threads or before)
        size = _SIZES[torch.device(device).type]
        read = {name: it * n_weights / seconds(_reading(n_weights * it // 4, device)) for name, it in BYTES.items()}
        products = {name: 2 * size**3 / seconds(_multiplying(dtype, size, device)) for name, dtype in _TYPES.items()}
        copy = 8 * _LARGE / seconds(_copying(device))
        torch.set_num_threads(before)
        return cls(n_weights, threads or before, read, products, copy)

    def raised_to(self, other: "Machine") -> "Machine":
        """Return the higher limits of two measurements, since other programs can only lower them."""
        read, products = (
            {name: max(it[name], also[name]) for name in it}
            for it, also in ((self.read, other.read), (self.products, other.products))
        )
        return Machine(self.n_weights, self.threads, read, products, max(self.copy, other.copy))

    def limit(self, precision: str, rows: int) -> float:
        """Return the most steps per second: each step reads all weights, and multiplies them with `rows` vectors."""
        reading = BYTES[precision] * self.n_weights / self.read[precision]
        multiplying = 2 * self.n_weights * rows / self.products[precision]
        return 1 / max(reading, multiplying)


def seconds(work: Callable[[], Tensor]) -> float:
    """Return the least time that the work takes, of several runs after a first one."""
    on_gpu = work().is_cuda

    def finish() -> None:
        if on_gpu:
            torch.cuda.synchronize()

    finish()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        begun = time.perf_counter()
        work()
        finish()
        best = min(best, time.perf_counter() - begun)
    return best


def _reading(n: int, device: str) -> Callable[[], Tensor]:
    """Return a product that reads n numbers of four bytes."""
    weights, x = torch.zeros(max(1, n // _WIDTH), _WIDTH, device=device), torch.zeros(_WIDTH, device=device)
    return lambda: weights @ x


def _copying(device: str) -> Callable[[], Tensor]:
    source, target = torch.zeros(_LARGE, device=device), torch.zeros(_LARGE, device=device)
    return lambda: target.copy_(source)


def _multiplying(dtype: torch.dtype, size: int, device: str) -> Callable[[], Tensor]:
    a = torch.ones(size, size, dtype=dtype, device=device)
    if dtype is torch.int8:
        return lambda: torch._int_mm(a, a)  # the only product of int8 that torch has
    return lambda: a @ a
