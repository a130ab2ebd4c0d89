"""Position schemes, which encode the order of tokens: those of section 3.5, and four later ones.

A scheme overrides one of three methods: `embed` adds to the embeddings, `rotation` rotates queries and keys, and `bias`
adds to the attention scores. Positions count from zero and have shape (B, T), or (1, T) if they're the same in all
rows. To use another scheme, name its class with `--model.positions=package.module:Class`, or add it to `POSITIONS`.
"""

import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ..errors import ModelError
from .linear import learned_table

_LARGEST_TABLE = 2**29  # numbers: 4 GiB while the table is computed


class Rotation(NamedTuple):
    """The cosines and sines of the angles to rotate by, both (B, 1, T, K) in float64."""

    cos: Tensor
    sin: Tensor


class Positions(nn.Module):
    """Base class of all schemes. It adds no position information itself."""

    endless = True  # any position is valid; False for a table, which has a last one

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        """Add positions to the embeddings."""
        return x

    def rotation(self, positions: Tensor) -> Rotation | None:  # (B, T) -> (B, 1, T, K), (B, 1, T, K)
        """Return the rotation of queries and keys at these positions, or None."""
        return None

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:  # (B, T), (B, S) -> (B, H, T, S)
        """Return the bias to add to the scores between these positions, or None."""
        return None


def sinusoid(n_positions: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same. -> (T, D)"""
    position = torch.arange(n_positions, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    table = torch.zeros(n_positions, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : d_model // 2]  # an odd width has one cosine fewer
    return table.to(torch.get_default_dtype())


class Sinusoidal(Positions):
    """The paper's scheme: add a fixed table of sines and cosines to the embeddings."""

    endless = False
    table: Tensor

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        _check_table(max_len, d_model)
        self.register_buffer("table", sinusoid(max_len, d_model), persistent=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        return x + _look_up(self.table, positions, "sinusoidal")


class SinusoidalHalves(Positions):
    """Add the table of `Sinusoidal` with all sines first and then all cosines, as Marian and OpenNMT-tf order them."""

    endless = False
    table: Tensor

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        _check_table(max_len, d_model)
        table = sinusoid(max_len, d_model)
        self.register_buffer("table", torch.cat((table[:, 0::2], table[:, 1::2]), 1), persistent=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        return x + _look_up(self.table, positions, "sinusoidal")


class Sinusoidal2D(Positions):
    """Add the row of a patch to one half of its embedding and the column to the other, each as in `Sinusoidal`.

    Positions count patches row by row. A class token comes first and gets no position.

    Args:
        d_model: the width of the embeddings.
        columns: the patches in a row.
        class_token: whether there's a class token.
    """

    endless = False
    table: Tensor

    def __init__(self, d_model: int, columns: int, class_token: bool = False) -> None:
        super().__init__()
        half = d_model // 2
        rows = sinusoid(columns, half)[:, None].expand(columns, columns, half)
        across = sinusoid(columns, d_model - half)[None].expand(columns, columns, d_model - half)
        table = torch.cat((rows, across), -1).reshape(columns**2, d_model)
        if class_token:
            table = torch.cat((torch.zeros(1, d_model), table))
        self.register_buffer("table", table, persistent=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        return x + _look_up(self.table, positions, "two-dimensional")


class Learned(Positions):
    """Add a learned table of the same shape. Section 3.5 found it equally good for translation."""

    endless = False

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        self.table = learned_table(max_len, d_model)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        return x + _look_up(self.table, positions, "learned")


class Rotary(Positions):
    """Rotate queries and keys by an angle that grows with the position (Su et al. 2021).

    Their product then depends on the distance alone. `base` sets the wavelengths, and `scaling` stretches them for
    longer texts (see `stretched`).
    """

    def __init__(self, d_head: int, base: float = 10_000.0, scaling: tuple[float, ...] = ()) -> None:
        super().__init__()
        if d_head % 2:
            raise ModelError(
                f"rotary positions can't rotate heads of width d_head={d_head}",
                expected="an even width",
                name="d_head",
                value=d_head,
            )
        self.d_head, self.base, self.scaling = d_head, base, scaling

    def rotation(self, positions: Tensor) -> Rotation:  # (B, T) -> (B, 1, T, K), (B, 1, T, K)
        # always in float64: bfloat16 can't tell position 256 from 257
        exponent = torch.arange(0, self.d_head, 2, dtype=torch.float64, device=positions.device) / self.d_head
        angle = positions[:, None, :, None] * stretched(self.base**-exponent, self.scaling).repeat(2)
        return Rotation(angle.cos(), angle.sin())


def stretched(frequency: Tensor, scaling: tuple[float, ...]) -> Tensor:
    """Lower the frequencies of a rotation, in radians per token, so that it covers longer texts. (...) -> (...)

    Args:
        frequency: the frequencies.
        scaling: () changes nothing. (factor,) divides all frequencies (Chen et al. 2023). (factor, short, long), YaRN
            (Peng et al. 2023), divides those of wavelengths above `long` tokens, leaves those below `short` alone, and
            blends in between, by the logarithm. (factor, low, high, length), of Llama 3, divides those that turn less
            than `low` times within `length` tokens, leaves those alone that turn more than `high` times, and blends in
            between.
    """
    if len(scaling) < 3:
        return frequency / scaling[0] if scaling else frequency
    factor, low, high = scaling[:3]
    if len(scaling) == 3:
        kept = ((2 * math.pi / frequency).log() - math.log(high)) / (math.log(low) - math.log(high))
    else:
        kept = (scaling[3] * frequency / (2 * math.pi) - low) / (high - low)
    kept = kept.clamp(0, 1)
    return kept * frequency + (1 - kept) * frequency / factor


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Rotate each pair (x_i, x_{i + K/2}) by its angle. (B, H, T, K), (B, 1, T, K) -> (B, H, T, K)"""
    learned = rotation.cos.requires_grad or rotation.sin.requires_grad  # by a custom scheme
    if x.requires_grad and torch.is_grad_enabled() and not learned:
        return cast(Tensor, _Rotate.apply(x, *rotation))  # type: ignore[no-untyped-call]
    return _rotated(x, *rotation)


class _Rotate(torch.autograd.Function):
    """`rotate`, whose gradient is a rotation back: one pass instead of one for each operation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _rotated(upstream, cos, -sin.roll(sin.size(-1) // 2, -1)), None, None  # roll: halves may differ


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    (a, b), (cos_a, cos_b), (sin_a, sin_b) = (it.to(wide).chunk(2, -1) for it in (x, cos, sin))
    return torch.cat((a * cos_a - b * sin_a, b * cos_b + a * sin_b), -1).to(x.dtype)


class Relative(Positions):
    """Add a learned bias for each head and bucket of distances (Raffel et al. 2020).

    Small distances have a bucket each, and larger ones share logarithmic buckets. In an encoder (`two_sided`), half of
    the buckets look ahead. In a causal decoder, all look back.
    """

    def __init__(self, n_heads: int, *, two_sided: bool = True, n_buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        self.two_sided, self.n_buckets, self.max_distance = two_sided, n_buckets, max_distance
        self.table = nn.Parameter(torch.zeros(n_buckets, n_heads))

    def bucket(self, distance: Tensor) -> Tensor:
        """Return the bucket, 0 to n_buckets - 1, of each key position minus query position. (...) -> (...)"""
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
    """Subtract a slope times the distance, with a fixed slope for each head (Press et al. 2022).

    In an encoder (`two_sided`), the distance counts in both directions. In a causal decoder, the future gets no bias:
    it's masked anyway.
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
    """Return 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads.

    If n isn't a power of two, return the slopes for the power below, then every second slope for the power above.
    """
    power = 2 ** int(math.log2(n_heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2 ** (-4 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return slopes + between[: n_heads - power]


POSITIONS: dict[str, type[Positions]] = {  # values of model.positions
    "sinusoidal": Sinusoidal,
    "sinusoidal_halves": SinusoidalHalves,
    "sinusoidal_2d": Sinusoidal2D,
    "learned": Learned,
    "rotary": Rotary,
    "relative": Relative,
    "alibi": Alibi,
}


def _check_table(max_len: int, d_model: int) -> None:
    if max_len * d_model > _LARGEST_TABLE:
        raise ModelError(
            f"max_len={max_len} makes a table of {max_len * d_model:,} numbers",
            expected=f"at most {_LARGEST_TABLE // d_model:,} at d_model={d_model}",
            fix="set model.max_len to the length of your longest text, or use positions without a table",
            name="max_len",
            value=max_len,
        )


def _look_up(table: Tensor, positions: Tensor, scheme: str) -> Tensor:
    try:
        return table[positions]
    except IndexError as error:
        last = int(positions.max())
        raise ModelError(
            f"position {last} is beyond the {len(table)} {scheme} positions of this model",
            expected=f"at most {len(table)} tokens",
            fix="shorten the text, or train with a larger model.max_len",
            name="positions",
            value=last,
        ) from error
