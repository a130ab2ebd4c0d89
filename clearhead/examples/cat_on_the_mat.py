"""Print self-attention over six words as a table, and how to read it.

python cat_on_the_mat.py
"""

import torch

from clearhead.inspection.views.equation import render_matrix
from clearhead.model.attention import MultiHeadAttention

WORDS = ["The", "cat", "sat", "on", "the", "mat"]
D_MODEL = 4


def main() -> None:
    torch.manual_seed(42)
    x = torch.randn(1, len(WORDS), D_MODEL)  # one vector per word; a trained model has learned them
    attention = MultiHeadAttention(d_model=D_MODEL, n_heads=1, dropout=0.0)
    with torch.no_grad():
        output, weights = attention(x, x, x)
    print(f"{len(WORDS)} words of {D_MODEL} numbers each: {tuple(x.shape)} -> {tuple(output.shape)}\n")
    print(render_matrix(weights[0, 0], WORDS, WORDS))

    row = weights[0, 0, 1]
    most = int(row.argmax())
    print("\nHow to read it: each row is a word that looks, each column a word it looks at. A row sums to 1.")
    print(f"Here {WORDS[1]!r} looks most at {WORDS[most]!r} (word {most}), with {row[most]:.0%} of its attention.")
    print("These weights are random: the vectors and the projections were never trained.")


if __name__ == "__main__":
    main()
