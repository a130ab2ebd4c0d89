"""Show why attention scores are divided by sqrt(d_k) (section 3.2.1): the softmax with and without the division.

    python benchmarks/why_scale.py

Queries and keys are drawn from N(0, 1), as footnote 4 of the paper assumes, with 64 keys per query. A score is then a
sum of d_k products, with mean 0 and variance d_k. The gradient of the scores passes through the softmax's Jacobian, so
the table shows its median norm, and the share of queries with a norm below 0.01. It takes a few seconds on one core.
"""

import argparse

import torch
from torch import Tensor

from clearhead.model.attention import attention_weights


def jacobian_norm(weights: Tensor) -> Tensor:
    """Return the Frobenius norm of d softmax / d scores, which is diag(w) - w w^T. (..., S) -> (...)

    Its square is the sum of w_i^2 (1 - w_i)^2 on the diagonal and of w_i^2 w_j^2 off it.
    """
    second, third = weights.square().sum(-1), weights.pow(3).sum(-1)
    return (second - 2 * third + second.square()).clamp(min=0).sqrt()


def measure(d_k: int, *, scaled: bool, n_queries: int = 4096, n_keys: int = 64, seed: int = 0) -> dict[str, float]:
    """Measure softmax and gradient for random queries and keys; every 64 queries share a set of keys."""
    generator = torch.Generator().manual_seed(seed)
    shape = (n_queries // 64, 1)
    q = torch.randn(*shape, 64, d_k, dtype=torch.float64, generator=generator)
    k = torch.randn(*shape, n_keys, d_k, dtype=torch.float64, generator=generator)
    if not scaled:
        q = q * d_k**0.5  # cancels the division in Equation 1
    weights = attention_weights(q, k)
    norms = jacobian_norm(weights)
    return {
        "variance": float((q @ k.transpose(-2, -1) / d_k**0.5).var()),
        "largest weight": float(weights.amax(-1).mean()),
        "jacobian": float(norms.median()),
        "nearly none": float((norms < 0.01).double().mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d-k", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256, 512])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| d_k | divided | variance of the scores | mean largest weight | Jacobian, median norm | below 0.01 |")
    print("|---|---|---|---|---|---|")
    for d_k in options.d_k:
        for scaled in (True, False):
            found = measure(d_k, scaled=scaled)
            print(
                f"| {d_k} | {'yes' if scaled else 'no'} | {found['variance']:.2f} | {found['largest weight']:.3f} | "
                f"{found['jacobian']:.4f} | {found['nearly none']:.0%} |"
            )


if __name__ == "__main__":
    main()
