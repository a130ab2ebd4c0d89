"""Measure the cost of self-attention and of recurrent layers of the same width by text length (section 4, Table 1).

    python benchmarks/attention_cost.py
    python benchmarks/attention_cost.py --memory

The first command times one text on one thread, in float32, forward only. It uses CPU time, so other programs don't
affect it. The layers take turns, and the best time of each is printed. The memory column is the size of the attention
weights of all heads, which Equation 1 stores and the fused kernel doesn't. The script takes about half a minute.

`--memory` measures the peak memory of fused attention, and of a training step of the `base` encoder, for each kind of
mask. Each case runs in its own process. Its peak is the memory added to what the process already used.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.model.attention import Attend, SelfAttention, attention_weights, fused_attention
from clearhead.model.masks import causal_mask, padding_mask
from clearhead.model.transformer import build


def contenders(width: int, n_heads: int) -> dict[str, Callable[[Tensor], object]]:
    """Build layers with similar parameter counts (4 D^2, 4 D^2, 8 D^2 and 6 D^2). (1, n, D) -> (1, n, D)"""
    torch.manual_seed(0)
    never, always = 2**40, 0  # number of keys from which the fused kernel is used
    return {
        "open": SelfAttention(width, n_heads, attend=Attend(fused_from=never)).eval(),
        "fused": SelfAttention(width, n_heads, attend=Attend(fused_from=always)).eval(),
        "LSTM": nn.LSTM(width, width, batch_first=True).eval(),
        "GRU": nn.GRU(width, width, batch_first=True).eval(),
    }


def weights_bytes(n: int, n_heads: int) -> int:
    """Return the size of the attention weights for n tokens: n^2 numbers per head."""
    q = torch.zeros(1, n_heads, n, 1)
    return attention_weights(q, q).nbytes


def seconds(layers: dict[str, Callable[[Tensor], object]], n: int, width: int, repeats: int) -> dict[str, float]:
    """Return the best time of each layer on a random text of n tokens."""
    x, least = torch.randn(1, n, width), dict.fromkeys(layers, float("inf"))
    with torch.inference_mode():
        for _ in range(repeats):
            for name, layer in layers.items():
                begun = time.thread_time()
                layer(x)
                least[name] = min(least[name], time.thread_time() - begun)
    return least


def first_keys(lengths: list[int], n_keys: int) -> Tensor:
    """Return a mask that opens as many first keys of each row. -> (B, 1, 1, S)"""
    return padding_mask((torch.arange(n_keys) < torch.tensor(lengths)[:, None]).long())


def attend(kind: str) -> None:
    """Run fused attention forward (B 4, H 8, T 1,024, K 64)."""
    q, k, v = torch.randn(3, 4, 8, 1024, 64)
    mask = {"padding": first_keys([1024, 900, 800, 700], 1024), "causal": causal_mask(1024)}.get(kind)
    with torch.inference_mode():
        fused_attention(q, k, v, mask=mask)


def train_step(kind: str) -> None:
    """Run the `base` encoder forward and backward on one text of 4,096 tokens, without dropout."""
    net = build(ModelConfig(topology="encoder-only", src_vocab_size=1000, dropout=0.0))
    mask = {"padding": first_keys([4000], 4096), "causal": causal_mask(4096)}.get(kind)
    net(torch.randint(1, 1000, (1, 4096)), mask=mask).square().mean().backward()


MEMORY = {"attend": attend, "train_step": train_step}


def peak_megabytes() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def measure_memory(what: str) -> None:
    """Print the peak memory and CPU time of one case, such as train_step-padding."""
    name, kind = what.split("-")
    torch.set_num_threads(1)
    before, begun = peak_megabytes(), time.process_time()
    MEMORY[name](kind)
    print(f"{peak_megabytes() - before:,.0f} MB | {time.process_time() - begun:.2f} s")


def print_memory() -> None:
    """Print a table of all cases, each measured in a separate process."""
    print("| case | mask | memory | time |\n|---|---|---|---|")
    for name in MEMORY:
        for kind in ("none", "padding", "causal"):
            run = [sys.executable, __file__, "--case", f"{name}-{kind}"]
            print(f"| {name} | {kind} | {subprocess.check_output(run, text=True).strip()} |", flush=True)


def print_times(options: argparse.Namespace) -> None:
    """Print the times of all layers, one row per number of tokens."""
    torch.set_num_threads(1)
    layers = contenders(options.width, options.heads)
    seconds(layers, options.tokens[0], options.width, 3)  # warm-up
    print("| tokens | " + " | ".join(f"{name}, ms" for name in layers) + " | sequential steps | weights |")
    print("|" + "---|" * (len(layers) + 3))
    for n in options.tokens:
        times = seconds(layers, n, options.width, options.repeats)
        shown = " | ".join(f"{1000 * time:.2f}" for time in times.values())
        print(f"| {n:,} | {shown} | 1 or {n:,} | {weights_bytes(n, options.heads) / 2**20:,.2f} MiB |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead, by kind of mask")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        measure_memory(options.case)
    elif options.memory:
        print_memory()
    else:
        print_times(options)


if __name__ == "__main__":
    main()
