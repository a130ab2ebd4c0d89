"""What self-attention and a recurrent layer of the same width cost as a text grows (section 4, Table 1).

    python benchmarks/attention_cost.py

One text, one thread, float32, forward only. Times are those of the processor, not of the clock on the wall, so that
other programs do not count while they have their turn; contenders alternate, and the least time of each is given.
Memory is that of the weights of all heads, which the open equation holds and the fused kernel never makes. About half a
minute.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from clearhead.model.attention import Attend, SelfAttention, attention_weights


def contenders(width: int, n_heads: int) -> dict[str, Callable[[Tensor], object]]:
    """Layers from (1, n, width) to (1, n, width) with like numbers of parameters: 4 D^2, 4 D^2, 8 D^2 and 6 D^2."""
    torch.manual_seed(0)
    never, always = 2**40, 0  # from how many keys on the kernel is fused
    return {
        "open": SelfAttention(width, n_heads, attend=Attend(fused_from=never)).eval(),
        "fused": SelfAttention(width, n_heads, attend=Attend(fused_from=always)).eval(),
        "LSTM": nn.LSTM(width, width, batch_first=True).eval(),
        "GRU": nn.GRU(width, width, batch_first=True).eval(),
    }


def weights_bytes(n: int, n_heads: int) -> int:
    """Of the weights of a text of n tokens, as they are: n^2 numbers a head."""
    q = torch.zeros(1, n_heads, n, 1)
    return attention_weights(q, q).nbytes


def seconds(layers: dict[str, Callable[[Tensor], object]], n: int, width: int, repeats: int) -> dict[str, float]:
    """The least time of each layer on a random text of n tokens."""
    x, least = torch.randn(1, n, width), dict.fromkeys(layers, float("inf"))
    with torch.inference_mode():
        for _ in range(repeats):
            for name, layer in layers.items():
                begun = time.thread_time()
                layer(x)
                least[name] = min(least[name], time.thread_time() - begun)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    layers = contenders(options.width, options.heads)
    seconds(layers, options.tokens[0], options.width, 3)  # warm-up
    print("| tokens | " + " | ".join(f"{name}, ms" for name in layers) + " | steps in a row | weights |")
    print("|" + "---|" * (len(layers) + 3))
    for n in options.tokens:
        times = seconds(layers, n, options.width, options.repeats)
        shown = " | ".join(f"{1000 * time:.2f}" for time in times.values())
        print(f"| {n:,} | {shown} | 1 or {n:,} | {weights_bytes(n, options.heads) / 2**20:,.2f} MiB |", flush=True)


if __name__ == "__main__":
    main()
