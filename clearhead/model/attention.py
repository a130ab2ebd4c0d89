"""Attention (section 3.2): Equation 1 written out, a fused version, and multi-head attention.

`Attend` computes the output from queries, keys and values. The classes around it project, split and merge heads. To
use another attention module, name its class with `--model.attention=package.module:Class`, or add it to `ATTENTIONS`.
"""

import math
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ModelError
from .cache import LayerCache
from .dropout import dropout as drop
from .linear import Linear
from .masks import check_mask, is_causal
from .piecewise import piecewise
from .positions import Rotation, rotate


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the keys that a query may attend to. A query that may attend to none gets zeros.

    (B, H, T, S) -> (B, H, T, S); the mask broadcasts to it
    """
    if mask is None:
        return scores.softmax(-1)
    check_mask(mask, scores.shape)
    masked = ~mask
    lowest = torch.finfo(scores.dtype).min  # finite, so a row that's all masked has gradient 0 and not NaN
    return scores.masked_fill(masked, lowest).softmax(-1).masked_fill(masked, 0.0)


def attention_weights(q: Tensor, k: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)), the attention weights of Equation 1.

    (B, H, T, K), (B, H, S, K) -> (B, H, T, S); mask and bias broadcast to it

    Args:
        q: queries.
        k: keys.
        mask: True for keys that a query may attend to (default: all of them).
        bias: added to the scores before the softmax, such as a bias by distance (default: nothing).
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if bias is not None:
        scores = scores + bias
    return masked_softmax(scores, mask)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d_k)) V: Equation 1, written out. Returns the output, and the weights before dropout.

    (B, H, T, K), (B, H, S, K), (B, H, S, Kv) -> (B, H, T, Kv), (B, H, T, S); mask and bias broadcast to (B, H, T, S)

    Args:
        q: queries.
        k: keys.
        v: values.
        mask: True for keys that a query may attend to (default: all of them).
        bias: added to the scores before the softmax, such as a bias by distance (default: nothing).
        dropout: probability of dropping a weight.
    """
    weights = attention_weights(q, k, mask=mask, bias=bias)
    return drop(weights, dropout).to(v.dtype) @ v, weights


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """The output of `scaled_dot_product_attention`, from a kernel that never stores the (T, S) weights.

    torch's kernel for CPUs has no dropout. With dropout, `piecewise` takes its place there.

    (B, H, T, K), (B, H, S, K), (B, H, S, Kv) -> (B, H, T, Kv); mask and bias broadcast to (B, H, T, S)

    Args:
        q: queries.
        k: keys.
        v: values.
        mask: True for keys that a query may attend to (default: all of them). A query without keys gets zeros.
        bias: added to the scores before the softmax, such as a bias by distance (default: nothing).
        dropout: probability of dropping a weight.
    """
    if dropout and q.device.type == "cpu":
        return piecewise(_equation_1, q, k, v, mask, bias, dropout)
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k.size(-2)))
        if bias is None and is_causal(mask):
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
    added = mask
    if bias is not None:
        added = bias.to(q.dtype)  # before masking: float32's lowest number is -inf in bfloat16
        added = added if mask is None else added.masked_fill(~mask, torch.finfo(q.dtype).min)
    if added is not None:
        added = added[(None,) * (4 - added.dim())]  # the kernel broadcasts dimensions, but doesn't add them
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropout)
    if mask is None:
        return output
    return output.masked_fill(~mask.any(-1, keepdim=True), 0.0)  # queries that may attend to nothing


def _equation_1(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float) -> Tensor:
    return scaled_dot_product_attention(q, k, v, mask=mask, bias=bias, dropout=dropout)[0]


class Attend(nn.Module):
    """Equation 1 as a module without parameters.

    Each of the G key-value heads serves H / G of the H query heads. From `fused_from` keys on, the fused kernel is
    used. Below that, the written-out equation is faster.
    """

    def __init__(self, dropout: float = 0.0, fused_from: int = 256) -> None:
        super().__init__()
        self.dropout, self.fused_from = dropout, fused_from

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """(B, H, T, K), (B, G, S, K), (B, G, S, K) -> (B, H, T, K); mask and bias broadcast to (B, H, T, S)

        Args:
            q: queries, from H heads.
            k: keys, from G heads. G divides H.
            v: values, from G heads.
            mask: True for keys that a query may attend to (default: all of them).
            bias: added to the scores before the softmax, such as a bias by distance (default: nothing).
        """
        groups = q.size(1) // k.size(1)
        if groups > 1:
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        dropout = self.dropout if self.training else 0.0
        if k.size(-2) >= self.fused_from:
            return fused_attention(q, k, v, mask=mask, bias=bias, dropout=dropout)
        return scaled_dot_product_attention(q, k, v, mask=mask, bias=bias, dropout=dropout)[0]

    def weights(self, q: Tensor, k: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        """The weights that `forward` applies, without dropout. (B, H, T, K), (B, G, S, K) -> (B, H, T, S)

        Optional in custom modules. Without it, the weights can't be shown, and a pointer can't copy.

        Args:
            q: queries, from H heads.
            k: keys, from G heads. G divides H.
            mask: True for keys that a query may attend to (default: all of them).
            bias: added to the scores before the softmax, such as a bias by distance (default: nothing).
        """
        return attention_weights(q, k.repeat_interleave(q.size(1) // k.size(1), 1), mask=mask, bias=bias)


ATTENTIONS: dict[str, type[nn.Module]] = {"softmax": Attend}  # values of model.attention


class MultiHeadAttention(nn.Module):
    """Section 3.2.2 as written: h heads attend in parallel to learned projections, and an output projection joins them.

    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W_O  with  head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i)
    """

    def __init__(self, d_model: int = 512, n_heads: int = 8, dropout: float = 0.1, *, bias: bool = True) -> None:
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads, self.dropout = n_heads, dropout
        self.w_q, self.w_k, self.w_v, self.w_o = (Linear(d_model, d_model, bias=bias) for _ in range(4))

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(B, T, D), (B, S, D), (B, S, D) -> (B, T, D), weights (B, H, T, S)

        Args:
            query: the T vectors that attend.
            key: the S vectors attended to.
            value: the S vectors that are averaged, usually those of `key`.
            mask: True for keys that a query may attend to (default: all of them). Broadcasts to (B, H, T, S).
        """
        q = split_heads(self.w_q(query), self.n_heads)
        k = split_heads(self.w_k(key), self.n_heads)
        v = split_heads(self.w_v(value), self.n_heads)
        dropout = self.dropout if self.training else 0.0
        heads, weights = scaled_dot_product_attention(q, k, v, mask=mask, dropout=dropout)
        return self.w_o(merge_heads(heads)), weights


class _FusedHeads(nn.Module):
    """Base of `SelfAttention` and `CrossAttention`: heads with fused projections, and `attend`.

    Both return the output only.

    Args:
        d_model: the width of the residual stream.
        n_heads: the number of query heads.
        dropout: probability of dropping a weight.
        n_kv_heads: the number of heads of keys and values (default: n_heads). Each serves several query heads.
        d_head: the width of a head (default: d_model / n_heads).
        bias: whether projections add a bias.
        qkv_bias: whether the projections to queries, keys and values do (default: bias).
        scale: replaces the 1 / sqrt(d_k) of Equation 1.
        attend: the module that computes Equation 1.
    """

    def __init__(
        self,
        d_model: int = 512,
        n_heads: int = 8,
        dropout: float = 0.1,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        bias: bool = True,
        qkv_bias: bool | None = None,
        scale: float | None = None,
        attend: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_heads if n_kv_heads is None else n_kv_heads
        check_heads(d_model, n_heads, self.n_kv_heads, d_head)
        self.d_head = d_model // n_heads if d_head is None else d_head
        self._rescale = 1.0 if scale is None else scale * math.sqrt(self.d_head)
        own, shared = n_heads * self.d_head, self.n_kv_heads * self.d_head
        self._add_projections(d_model, own, shared, bias=bias if qkv_bias is None else qkv_bias)
        self.out = Linear(own, d_model, bias=bias)
        self.attend = Attend(dropout) if attend is None else attend

    def _add_projections(self, d_model: int, own: int, shared: int, *, bias: bool) -> None:
        """Add projections to `own` numbers of queries, and `shared` numbers of keys and of values."""
        raise NotImplementedError

    @property
    def scale(self) -> float:
        """The factor of the scores q k^T: 1 / sqrt(K) in Equation 1."""
        return self._rescale / math.sqrt(self.d_head)

    def _rescaled(self, q: Tensor) -> Tensor:
        """Return queries whose scores, divided by sqrt(d_k) in Equation 1, have the scale."""
        return q if self._rescale == 1 else q * self._rescale


class SelfAttention(_FusedHeads):
    """MultiHeadAttention(x, x, x) with one matrix product for queries, keys and values, and `attend` for Equation 1."""

    def _add_projections(self, d_model: int, own: int, shared: int, *, bias: bool) -> None:
        self.qkv = Linear(d_model, own, shared, shared, bias=bias)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        rotation: Rotation | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); with a cache, queries also attend to the cached keys.

        Args:
            x: the residual stream.
            mask: True for keys that a query may attend to; broadcasts to (B, H, T, S), where S counts the cached keys,
                too.
            bias: added to the scores; broadcasts like the mask.
            rotation: angles by which queries and keys are rotated, from `Positions.rotation`.
            cache: keys and values of earlier tokens. Those of `x` are appended.
        """
        heads = split_heads(self.qkv(x), self.n_heads + 2 * self.n_kv_heads)
        qk, v = heads.split([self.n_heads + self.n_kv_heads, self.n_kv_heads], dim=1)
        if rotation is not None:
            qk = rotate(qk, rotation)
        q, k = qk.split([self.n_heads, self.n_kv_heads], dim=1)
        q = self._rescaled(q)
        if cache is not None:
            k, v = cache.append(k, v)
        return self.out(merge_heads(self.attend(q, k, v, mask=mask, bias=bias)))


class CrossAttention(_FusedHeads):
    """MultiHeadAttention(x, memory, memory) with one product for keys and values, and `attend` for Equation 1."""

    def _add_projections(self, d_model: int, own: int, shared: int, *, bias: bool) -> None:
        self.q = Linear(d_model, own, bias=bias)
        self.kv = Linear(d_model, shared, shared, bias=bias)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of the memory. Call it once per source.

        (B, S, D) -> (B, G, S, K), (B, G, S, K)
        """
        keys, values = split_heads(self.kv(memory), 2 * self.n_kv_heads).chunk(2, dim=1)
        return keys, values

    def forward(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        *,
        mask: Tensor | None = None,
        observe: Callable[[Tensor], None] | None = None,
    ) -> Tensor:
        """(R, T, D), keys (B, G, S, K), values (B, G, S, K) -> (R, T, D); the mask broadcasts to (B, H, R/B*T, S)

        Args:
            x: the decoder's states. R is a multiple of B: the hypotheses of a source are in adjacent rows and share its
                memory, which is never copied.
            memory: keys and values from `project`.
            mask: True for positions of the memory that may be attended to.
            observe: called with the weights (B, H, R/B*T, S).
        """
        keys, values = memory
        rows, length, _ = x.shape
        if rows % keys.size(0):
            raise ModelError(
                f"{rows} rows of queries can't share {keys.size(0)} memories",
                expected=f"a multiple of {keys.size(0)} rows",
                name="x",
                value=rows,
            )
        q = self._rescaled(self.q(x))
        q = split_heads(q.reshape(keys.size(0), -1, q.size(-1)), self.n_heads)
        if observe is not None:
            weights = cast(Attend, self.attend).weights  # or a custom module with this method
            observe(weights(q, keys, mask=mask))
        return self.out(merge_heads(self.attend(q, keys, values, mask=mask)).reshape(rows, length, -1))


def check_heads(d_model: int, n_heads: int, n_kv_heads: int = 1, d_head: int | None = None) -> None:
    """Raise ModelError unless n_heads divides d_model, or d_head is given, and n_kv_heads divides n_heads.

    Args:
        d_model: the width of the residual stream.
        n_heads: the number of query heads.
        n_kv_heads: the number of heads of keys and values.
        d_head: the width of a head (default: d_model / n_heads).
    """
    if n_heads < 1 or (d_head is None and d_model % n_heads):
        raise ModelError(
            f"n_heads={n_heads} doesn't divide d_model={d_model}",
            expected=f"a divisor of {d_model}",
            name="n_heads",
            value=n_heads,
        )
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ModelError(
            f"n_kv_heads={n_kv_heads} doesn't divide n_heads={n_heads}",
            expected=f"a divisor of {n_heads}",
            name="n_kv_heads",
            value=n_kv_heads,
        )


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """(B, T, H*K) -> (B, H, T, K)"""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, H*K)"""
    return x.transpose(1, 2).flatten(2)
