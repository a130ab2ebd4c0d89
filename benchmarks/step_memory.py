"""Measure the memory of one training step against text length: attention in the open, as usual, and with checkpointing.

    OMP_NUM_THREADS=1 python benchmarks/step_memory.py --plot step-memory.svg

One step of the `base` encoder on one text, in float32: forward, backward, Adam. The table shows the peak of the process
above its memory before the step, which is after a step on a text of 256 tokens, so weights and moments aren't counted,
but gradients are. Each case runs in its own process (Linux).

By default, the C library returns every freed block to the system at once, so the table shows what the step needs.
`--keep` keeps them, as `clearhead train` does, which is faster and leaves gaps between blocks.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from clearhead.config import ModelConfig, TrainConfig
from clearhead.model.attention import Attend
from clearhead.model.transformer import build
from clearhead.tokenization.ragged import IntArray
from clearhead.training.memory import keep_freed_memory, memory_in_use, peak_memory, release_freed_memory
from clearhead.training.update import Update

RETURN = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}  # read by glibc when a process starts
FORMS = ("open", "default", "checkpointed")
NEVER = 2**40  # keys from which the fused kernel is used


def loss(model: nn.Module, lengths: IntArray) -> Tensor:
    """Return some loss of a text of random tokens."""
    hidden: Tensor = model(torch.randint(1, 1000, (1, int(lengths[0]))))
    return hidden.square().mean()


def measure(form: str, length: int, dropout: float) -> tuple[float, float]:
    """Return the memory of a step in MB, and its processor time in seconds."""
    torch.manual_seed(0)
    model = build(ModelConfig(topology="encoder-only", src_vocab_size=1000, dropout=dropout, max_len=length))
    for part in model.modules():
        if isinstance(part, Attend) and form == "open":
            part.fused_from = NEVER
    train = TrainConfig(optimizer="adam", activation_checkpointing=form == "checkpointed")
    update = Update(model, loss, train)
    update([torch.tensor([256]).numpy()], 256, step=1, lr=1e-4)
    release_freed_memory()
    device = torch.device("cpu")
    before, begun = memory_in_use(device), time.process_time()
    peak = peak_memory(device, lambda: update([torch.tensor([length]).numpy()], length, step=2, lr=1e-4))
    seconds = time.process_time() - begun
    assert before is not None and peak is not None, "this system doesn't tell the memory of a process"
    return (peak - before) / 1e6, seconds


def plot(lengths: list[int], table: dict[str, list[float]], path: Path) -> None:
    """Draw memory against length."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for name, values in table.items():
        axes.plot(lengths, values, marker="o", label=name)
    axes.set(xlabel="tokens", ylabel="MB above weights and Adam", xscale="log", yscale="log")
    axes.set_xticks(lengths, [f"{it:,}" for it in lengths])
    axes.set_xticks([], minor=True)
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--forms", nargs="+", default=FORMS, choices=FORMS)
    parser.add_argument("--plot", type=Path, help="write a picture to this file")
    parser.add_argument("--time", action="store_true", help="print the processor seconds of the step instead")
    parser.add_argument("--keep", action="store_true", help="keep freed blocks in the process")
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        form, length, dropout = options.case
        if options.keep:
            keep_freed_memory()
        print(*measure(form, int(length), float(dropout)))
        return
    cases = [(form, dropout) for dropout in options.dropout for form in options.forms]
    names = [f"{form}, dropout {dropout:g}" for form, dropout in cases]
    print("| tokens | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    table: dict[str, list[float]] = {name: [] for name in names}
    for length in options.lengths:
        for name, (form, dropout) in zip(names, cases):
            run = [sys.executable, __file__, "--case", form, str(length), str(dropout), *["--keep"] * options.keep]
            environment = os.environ | ({} if options.keep else RETURN)
            memory, seconds = map(float, subprocess.check_output(run, text=True, env=environment).split())
            table[name].append(seconds if options.time else memory)
        shown = (f"{it[-1]:,.2f}" if options.time else f"{it[-1]:,.0f}" for it in table.values())
        print(f"| {length:,} | " + " | ".join(shown) + " |", flush=True)
    if options.plot:
        plot(options.lengths, table, options.plot)


if __name__ == "__main__":
    main()
