"""Measure the cost of inspection: a recorded forward pass against a plain one, `explain` and `verify`.

    python benchmarks/looking.py runs/demo

The forward passes run `base` with random weights on two sentences of 30 tokens. Plain and recorded passes alternate,
and the median of each is printed. A tensor that a recording contains twice counts once. `explain` and `verify` use the
model in the folder.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

import clearhead
from clearhead.config import PRESETS, Config
from clearhead.inspection.record.recorder import record
from clearhead.model.transformer import build

TOKENS, VOCABULARY = 30, 37_000


def seconds(*calls: Callable[[], object], rounds: int = 9) -> list[float]:
    """Return the median time of each call; the calls alternate."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 1):
        for call, times in zip(calls, taken):
            begun = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun)
    return [statistics.median(times[1:]) for times in taken]  # the first round is warm-up


def recorded_pass() -> None:
    """Time a forward pass of `base`, plain and recorded."""
    sizes = {"model.src_vocab_size": VOCABULARY, "model.tgt_vocab_size": VOCABULARY}
    torch.manual_seed(0)
    model = build(Config().override({**PRESETS["base"], **sizes}).model).eval()
    source, target = torch.randint(4, VOCABULARY, (2, 1, TOKENS))

    def plain() -> torch.Tensor:
        return model(source, target)

    def watched() -> torch.Tensor:
        with record(model) as trace:
            plain()
        sizes.update(nbytes=trace.nbytes, parts=len(trace))
        return trace["decoder"].output

    with torch.inference_mode():
        same = torch.equal(plain(), watched())
        before, after = seconds(plain, watched)
    times = f"plain {1000 * before:.1f} ms, recorded {1000 * after:.1f} ms, {after / before:.2f} times"
    print(f"base, {TOKENS} tokens: {times}")
    print(f"  {sizes['parts']} parts, {sizes['nbytes'] / 1e6:.1f} MB; outputs bit-identical: {same}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of a translation model, such as runs/demo")
    parser.add_argument("--text", default="I am very hungry.")
    options = parser.parse_args()
    recorded_pass()
    app = clearhead.load(options.folder)
    (explained,) = seconds(lambda: app.explain(options.text).render())
    print(f"explain {options.text!r}: {1000 * explained:.1f} ms after loading")
    begun = time.perf_counter()
    found = app.verify()
    print(f"verify: {time.perf_counter() - begun:.1f} s, {found.counts}")


if __name__ == "__main__":
    main()
