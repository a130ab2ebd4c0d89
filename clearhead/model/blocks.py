"""The two blocks of Figure 1. A block only connects the modules that it's given."""

from collections.abc import Callable

from torch import Tensor, nn

from ..errors import ModelError
from .attention import CrossAttention, SelfAttention
from .cache import LayerCache
from .norms import AddNorm
from .positions import Rotation


class EncoderBlock(nn.Module):
    """Figure 1, left: self-attention, then feed-forward."""

    def __init__(self, attention: SelfAttention, feed_forward: nn.Module, add_norms: list[AddNorm]) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.add_norm_1, self.add_norm_2 = add_norms

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None, rotation: Rotation | None = None
    ) -> Tensor:
        """(B, S, D), mask (B, 1, 1, S) -> (B, S, D)

        Args:
            x: the residual stream.
            mask: True for positions that may be attended to, usually all but the padding.
            bias: added to the attention scores; broadcasts to (B, H, S, S).
            rotation: angles by which queries and keys are rotated.
        """
        x = self.add_norm_1(x, lambda x: self.attention(x, mask=mask, bias=bias, rotation=rotation))
        return self.add_norm_2(x, self.feed_forward)


class DecoderBlock(nn.Module):
    """Figure 1, right: causal self-attention, attention to the encoder's memory, feed-forward.

    Without cross-attention, it's a block of a decoder-only model.
    """

    def __init__(
        self,
        attention: SelfAttention,
        cross_attention: CrossAttention | None,
        feed_forward: nn.Module,
        add_norms: list[AddNorm],
    ) -> None:
        super().__init__()
        self.attention, self.cross_attention, self.feed_forward = attention, cross_attention, feed_forward
        expected = 2 if cross_attention is None else 3
        if len(add_norms) != expected:
            raise ModelError(
                f"a decoder block of {expected} sub-layers got {len(add_norms)} add_norms",
                expected=f"{expected} add_norms, one for each sub-layer",
                name="add_norms",
                value=len(add_norms),
            )
        self.add_norm_1, *between, self.add_norm_3 = add_norms
        self.add_norm_2 = between[0] if between else None

    def forward(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor] | None = None,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        bias: Tensor | None = None,
        rotation: Rotation | None = None,
        cache: LayerCache | None = None,
        observe: Callable[[Tensor], None] | None = None,
    ) -> Tensor:
        """(B, T, D), keys (B, G, S, K), values (B, G, S, K), mask (1, 1, T, T), memory_mask (B, 1, 1, S) -> (B, T, D)

        Args:
            x: the residual stream.
            memory: keys and values from `cross_attention.project`. Required with cross-attention.
            mask: True for tokens that may be attended to, usually the causal mask.
            memory_mask: True for positions of the memory that may be attended to.
            bias: added to the scores of self-attention; broadcasts to (B, H, T, T).
            rotation: angles by which queries and keys of self-attention are rotated.
            cache: keys and values of earlier tokens. Those of `x` are appended.
            observe: called with the cross-attention's weights.
        """
        x = self.add_norm_1(x, lambda x: self.attention(x, mask=mask, bias=bias, rotation=rotation, cache=cache))
        if self.cross_attention is not None and self.add_norm_2 is not None:
            attend = self.cross_attention
            if memory is None:
                what = "this block attends to an encoder's memory, which is missing"
                raise ModelError(what, fix="pass memory=...", name="memory")
            x = self.add_norm_2(x, lambda x: attend(x, memory, mask=memory_mask, observe=observe))
        return self.add_norm_3(x, self.feed_forward)
