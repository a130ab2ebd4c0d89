"""Equation 1 of the paper, one step at a time: Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V.

python attention_steps.py
"""

import math

import torch

from clearhead.model.attention import masked_softmax, scaled_dot_product_attention
from clearhead.model.masks import causal_mask

BATCH, HEADS, LENGTH, D_K = 2, 1, 4, 8


def main() -> None:
    torch.manual_seed(42)
    q, k, v = (torch.randn(BATCH, HEADS, LENGTH, D_K) for _ in range(3))
    print(f"Q, K and V: {tuple(q.shape)}, as (batch, heads, tokens, d_k)")

    scores = q @ k.transpose(-2, -1)
    show("1. Q K^T: how well each query (row) fits each key (column)", scores)

    scaled = scores / math.sqrt(D_K)
    show(f"2. divided by sqrt(d_k) = sqrt({D_K}) = {math.sqrt(D_K):.2f}, so that the softmax does not saturate", scaled)

    mask = causal_mask(LENGTH)
    show("3. masked: a token does not see later ones", scaled.masked_fill(~mask, -math.inf))

    weights = masked_softmax(scaled, mask)
    show("4. softmax: scores become weights", weights)
    print(f"   the first row sums to {weights[0, 0, 0].sum():.4f}, like every other")

    output = weights @ v
    show("5. times V: each output is a weighted mean of the values", output)

    same, _ = scaled_dot_product_attention(q, k, v, mask=mask)
    print(f"\nThe library's function differs by at most {(same - output).abs().max():.1e}.")


def show(title: str, tensor: torch.Tensor) -> None:
    """Print the shape and the top left corner of the first matrix."""
    print(f"\n{title}\n   shape {tuple(tensor.shape)}; the first 3 x 3 numbers:")
    for row in tensor[0, 0, :3, :3].tolist():
        print("   " + " ".join(f"{value:8.4f}" for value in row))


if __name__ == "__main__":
    main()
