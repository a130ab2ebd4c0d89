"""What looking inside costs: a recorded pass beside a plain one, an explanation, and the proof of all promises.

    python benchmarks/looking.py runs/demo

`base` with random weights reads a sentence of 30 tokens and another as its translation; its passes take turns, and the
median of each is taken. What the record holds is counted once a tensor. The model of the folder explains a sentence.
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
    """The median time of each, taken in turns."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 1):
        for call, times in zip(calls, taken):
            begun = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun)
    return [statistics.median(times[1:]) for times in taken]  # the first of each is warm-up


def recorded_pass() -> None:
    """A pass of `base`, plain and recorded."""
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
    parser.add_argument("folder", type=Path, help="a translation model, such as that of `clearhead demo`")
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
