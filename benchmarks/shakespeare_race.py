"""Time how long Clearhead and nanoGPT's CPU recipe need to reach the same loss on tiny Shakespeare.

    python benchmarks/shakespeare_race.py $CLEARHEAD_DATA/tinyshakespeare/input.txt.xz --rounds 3

Clearhead runs with the default settings of `clearhead train --task generate`. The recipe is a plain PyTorch loop in
bfloat16. Both read characters, train on the first nine tenths of the text, and are scored in the same way: the mean
loss over consecutive blocks of 64 characters in the last tenth. The two runs alternate.

Scoring time isn't counted. The loop is timed for its steps only. Clearhead is timed from the call of `train`, so its
time includes reading the text, building the vocabulary and planning.
"""

import argparse
import contextlib
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import clearhead
from clearhead.data.forms import TextForm

BLOCK, BATCH, WIDTH, HEADS, LAYERS, STEPS = 64, 12, 128, 4, 4, 2000  # the recipe: config/train_shakespeare_char.py


class Block(nn.Module):
    """A GPT-2 block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (it.unflatten(-1, (HEADS, -1)).transpose(1, 2) for it in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Plain(nn.Module):
    """A plain GPT."""

    def __init__(self, n_letters: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(n_letters, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH, bias=False)
        self.project = nn.Linear(WIDTH, n_letters, bias=False)
        self.project.weight = self.letters.weight
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                small = ("out.weight", "down.weight")
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * LAYERS) if name.endswith(small) else 0.02)

    def forward(self, letters: Tensor) -> Tensor:
        x = self.letters(letters) + self.places.weight[: letters.size(1)]
        logits: Tensor = self.project(self.norm(self.blocks(x)))
        return logits


def plain_loop(text: str, goal: float, precision: str) -> list[tuple[float, float]]:
    """Train by the recipe until the goal is reached, and return (seconds, loss) of each evaluation."""
    letters = sorted(set(text))
    data = torch.tensor([letters.index(it) for it in text])
    training, held_out = data[: len(data) * 9 // 10], data[len(data) * 9 // 10 :]
    torch.manual_seed(0)
    model = Plain(len(letters))
    matrices = [it for it in model.parameters() if it.dim() == 2]
    vectors = [it for it in model.parameters() if it.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    seconds, found = 0.0, []
    for step in range(1, STEPS + 1):
        begun = time.perf_counter()
        rise, fall = step / 100, (step - 100) / (STEPS - 100)
        lr = 1e-3 * rise if step < 100 else 1e-4 + 0.5 * (1 + math.cos(math.pi * fall)) * 9e-4
        for group in adam.param_groups:
            group["lr"] = lr
        starts = torch.randint(len(training) - BLOCK, (BATCH,))
        block = training[starts[:, None] + torch.arange(BLOCK + 1)]
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = F.cross_entropy(model(block[:, :-1]).flatten(0, 1), block[:, 1:].flatten())
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        seconds += time.perf_counter() - begun
        if step % 50 == 0:
            found.append((seconds, judge(model, held_out)))
            if found[-1][1] <= goal:
                break
    return found


@torch.inference_mode()
def judge(model: nn.Module, held_out: Tensor) -> float:
    """Return the mean loss over all positions of consecutive blocks."""
    whole = (len(held_out) - 1) // BLOCK * BLOCK
    inputs, outputs = held_out[:whole].view(-1, BLOCK), held_out[1 : whole + 1].view(-1, BLOCK)
    total = sum(
        float(F.cross_entropy(model(inputs[i : i + 64]).flatten(0, 1), outputs[i : i + 64].flatten(), reduction="sum"))
        for i in range(0, len(inputs), 64)
    )
    return total / whole


class Reached(Exception):  # noqa: N818  # not an error
    """The goal was reached."""


def ours(file: str, goal: float, settings: dict[str, Any]) -> list[tuple[float, float]]:
    """Train with `clearhead.train` until the goal is reached, and return (seconds, loss) of each evaluation."""
    seconds, mark, found = 0.0, time.perf_counter(), []

    def stepped(_: dict[str, Any]) -> None:
        nonlocal seconds, mark
        now = time.perf_counter()
        seconds, mark = seconds + now - mark, now

    def judged(record: dict[str, Any]) -> None:
        nonlocal mark
        found.append((seconds, record["bits_per_byte"] * math.log(2)))  # a character here is a byte
        if found[-1][1] <= goal:
            raise Reached
        mark = time.perf_counter()

    judging = {"data.split": 0.1, "data.max_len": BLOCK, "train.eval_every": 10, "train.save_every": 1_000_000}
    config = clearhead.Config().override({"train.task": "generate", "data.train": (file,), **judging, **settings})
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Reached):
        clearhead.train(config, Path(folder) / "model", say=lambda _: None, on_step=stepped, on_eval=judged)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="tiny Shakespeare: input.txt, compressed or not")
    parser.add_argument("--goal", type=float, default=1.88, help="target loss in nats per character (default: 1.88)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--steps", type=int, default=120, help="steps for Clearhead (default: 120)")
    parser.add_argument("--tokenizer", default="character", help="tokenizer for Clearhead")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    text = "".join(TextForm().read([options.text], clearhead.DataConfig(normalise=())).pieces)
    settings = {f"train.{name}": getattr(options, name) for name in ("steps", "threads", "precision")}
    settings["data.tokenizer"] = options.tokenizer
    contenders: dict[str, Callable[[], list[tuple[float, float]]]] = {
        "clearhead": lambda: ours(options.text, options.goal, settings),
        "plain loop": lambda: plain_loop(text, options.goal, options.precision),
    }
    needed: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(options.rounds):
        for name, race in contenders.items():
            found = race()
            seconds, loss = found[-1]
            needed[name].append(seconds)  # if the goal wasn't reached, the whole run: a lower bound
            reached = "" if loss <= options.goal else ": the run ended before it reached the goal"
            print(f"round {turn + 1}, {name}: {loss:.3f} after {seconds:.1f} s of training{reached}", flush=True)
    print(f"\n{'':12}{'median':>10}{'min':>10}{'max':>10}   seconds to {options.goal}")
    for name, seconds in needed.items():
        print(f"{name:12}{statistics.median(seconds):10.1f}{min(seconds):10.1f}{max(seconds):10.1f}")
    ratio = statistics.median(a / b for a, b in zip(*needed.values()))
    print(f"\nclearhead needs {ratio:.2f} times as long as the loop (median of {options.rounds} rounds)")


if __name__ == "__main__":
    main()
