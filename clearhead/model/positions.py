"""How a model without recurrence knows the order of its tokens (section 3.5, and four schemes that came after).

Every scheme is one object with three doors; each overrides one and leaves the others shut:
`embed` adds to the embeddings, `rotation` turns queries and keys, `bias` adds to the scores of attention.
Positions count from zero and are (B, T) or (1, T): rows may stand at different places.
Another scheme is another class: `--model.positions=package.module:Class`, or one more entry in `POSITIONS`.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..errors import ModelError


class Rotation(NamedTuple):
    """The cosines and sines that `rotate` turns by, both (B, 1, T, K) in float64."""

    cos: Tensor
    sin: Tensor


class Positions(nn.Module):
    """No positions at all: the base of the schemes, and what cross-attention uses."""

    endless = True  # whether any position can be asked for; a table has a last one

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        """The embeddings with their positions."""
        return x

    def rotation(self, positions: Tensor) -> Rotation | None:  # (B, T) -> (B, 1, T, K), (B, 1, T, K)
        """What queries and keys at these positions are turned by."""
        return None

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:  # (B, T), (B, S) -> (B, H, T, S)
        """What is added to the scores between these positions."""
        return None


def sinusoid(n_positions: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same. -> (T, D)"""
    position = torch.arange(n_positions, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    table = torch.zeros(n_positions, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : d_model // 2]  # an odd width has one cosine less
    return table.to(torch.get_default_dtype())


class Sinusoidal(Positions):
    """The paper's: a fixed table of sines and cosines is added to the embeddings."""

    endless = False
    table: Tensor

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        self.register_buffer("table", sinusoid(max_len, d_model), persistent=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        return x + _look_up(self.table, positions, "sinusoidal")


class Learned(Positions):
    """A table of the same shape, learned (section 3.5 found it equal on translation)."""

    endless = False

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(max_len, d_model) * d_model**-0.5)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        return x + _look_up(self.table, positions, "learned")


class Rotary(Positions):
    """Queries and keys are turned by an angle that grows with the position, so that their product depends on the
    distance alone (Su et al. 2021)."""

    def __init__(self, d_head: int, base: float = 10_000.0) -> None:
        super().__init__()
        if d_head % 2:
            raise ModelError(f"rotary positions need an even head width; got {d_head}")
        self.d_head, self.base = d_head, base

    def rotation(self, positions: Tensor) -> Rotation:  # (B, T) -> (B, 1, T, K), (B, 1, T, K)
        # in float64 whatever the model's precision: bfloat16 cannot tell position 256 from 257
        exponent = torch.arange(0, self.d_head, 2, dtype=torch.float64, device=positions.device) / self.d_head
        angle = positions[:, None, :, None] * (self.base**-exponent).repeat(2)
        return Rotation(angle.cos(), angle.sin())


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn each pair (x_i, x_{i + K/2}) by its angle. (B, H, T, K), (B, 1, T, K) -> (B, H, T, K)"""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    cos, sin = (wave.to(torch.promote_types(x.dtype, torch.float32)) for wave in rotation)
    return (x * cos + turned * sin).to(x.dtype)


class Relative(Positions):
    """A learned number a head for each bucket of distances, exact near and logarithmic far (Raffel et al. 2020).

    Two-sided, half of the buckets look ahead; one-sided (a causal decoder), all look back.
    """

    def __init__(self, n_heads: int, *, two_sided: bool = True, n_buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        self.two_sided, self.n_buckets, self.max_distance = two_sided, n_buckets, max_distance
        self.table = nn.Parameter(torch.zeros(n_buckets, n_heads))

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of key position minus query position. (...) -> (...), 0 to n_buckets - 1"""
        n, offset = self.n_buckets, torch.zeros_like(distance)
        if self.two_sided:
            n //= 2
            offset = (distance > 0).long() * n
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = n // 2
        growth = (n - exact) / math.log(self.max_distance / exact)
        far = exact + (torch.log(distance.clamp(min=1).float() / exact) * growth).long()
        return offset + torch.where(distance < exact, distance, far.clamp(max=n - 1))

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:  # (B, T), (B, S) -> (B, H, T, S)
        return self.table[self.bucket(keys[:, None, :] - queries[:, :, None])].permute(0, 3, 1, 2)


class Alibi(Positions):
    """Every head subtracts its own slope times the distance (Press et al. 2022): nothing is learned.

    Two-sided the distance counts in both directions; one-sided the future gets no bias, since it is masked anyway.
    """

    slopes: Tensor

    def __init__(self, n_heads: int, *, two_sided: bool = True) -> None:
        super().__init__()
        self.two_sided = two_sided
        self.register_buffer("slopes", torch.tensor(alibi_slopes(n_heads)), persistent=False)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:  # (B, T), (B, S) -> (B, H, T, S)
        distance = queries[:, :, None] - keys[:, None, :]
        distance = distance.abs() if self.two_sided else distance.clamp(min=0)
        return -self.slopes[:, None, None] * distance[:, None]


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), ... for n a power of two; else of the power below and every second of the one above."""
    power = 2 ** int(math.log2(n_heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2 ** (-4 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return slopes + between[: n_heads - power]


POSITIONS: dict[str, type[Positions]] = {  # by the names that `model.positions` knows
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "relative": Relative,
    "alibi": Alibi,
}


def _look_up(table: Tensor, positions: Tensor, scheme: str) -> Tensor:
    try:
        return table[positions]
    except IndexError as error:
        last = int(positions.max())
        raise ModelError(
            f"position {last} is beyond the {len(table)} {scheme} positions of this model; "
            "shorten the text, or train with a larger model.max_len"
        ) from error
