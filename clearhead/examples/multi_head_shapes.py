"""Print the shapes in multi-head attention (section 3.2.2), from input through the heads to output.

python multi_head_shapes.py
"""

import torch

from clearhead.model.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads

BATCH, LENGTH, D_MODEL, HEADS = 2, 10, 512, 8


def main() -> None:
    torch.manual_seed(42)
    x = torch.randn(BATCH, LENGTH, D_MODEL)
    attention = MultiHeadAttention(D_MODEL, HEADS, dropout=0.0)
    with torch.no_grad():
        show("input: query, key and value", x)
        q, k, v = attention.w_q(x), attention.w_k(x), attention.w_v(x)
        show("after the projections W_Q, W_K, W_V, each", q)
        q, k, v = (split_heads(projected, HEADS) for projected in (q, k, v))
        show(f"split into {HEADS} heads of {D_MODEL // HEADS}", q)
        heads, weights = scaled_dot_product_attention(q, k, v)
        show("attention weights of every head", weights)
        show("output of every head", heads)
        show("heads joined again", merge_heads(heads))
        output = attention.w_o(merge_heads(heads))
        show("after the last projection W_O", output)
        same, _ = attention(x, x, x)
    print(f"\nMultiHeadAttention itself differs by at most {(same - output).abs().max():.1e}.")


def show(what: str, tensor: torch.Tensor) -> None:
    print(f"{what:<45} {tuple(tensor.shape)}")


if __name__ == "__main__":
    main()
