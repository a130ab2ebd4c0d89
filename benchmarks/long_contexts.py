"""What a long context costs a decoder-only model: the 1,000th token against the 100th, and the memory of a prompt.

    OMP_NUM_THREADS=1 python benchmarks/long_contexts.py

The weights are random, which changes neither. A token's time is the best of several, with the lengths taking turns.
Memory is the peak of the process above that before the prompt, in a process for each length (Linux).
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from clearhead.config import DecodeConfig, ModelConfig
from clearhead.decode.engine import StepEngine
from clearhead.decode.model_handle import as_handle
from clearhead.decode.registry import open_engine
from clearhead.model.transformer import build

GPT2 = {"d_model": 768, "n_heads": 12, "d_ff": 3072, "n_decoder_layers": 12, "tgt_vocab_size": 50257}
GPT2 |= {"positions": "learned", "pre_norm": True, "feed_forward": "gelu_tanh", "tie": "target", "max_len": 8192}
LENGTHS, PROMPTS = (100, 500, 1000), (1000, 2000, 4000)


def load(name: str, precision: str, layers: int) -> StepEngine:
    torch.manual_seed(0)
    config = ModelConfig(topology="decoder-only", n_encoder_layers=0, **{**GPT2, "n_decoder_layers": layers})
    return open_engine(as_handle(build(config).eval(), config), DecodeConfig(engine=name, precision=precision, beam=1))


def prompt(length: int) -> list[int]:
    return np.random.default_rng(0).integers(4, 50257, length).tolist()


def token_seconds(engine: StepEngine, length: int, tokens: int = 8) -> float:
    """Return the best time of one of the tokens after a prompt."""
    times = []
    with engine.prefill([prompt(length)], tokens) as decoding:
        for _ in range(tokens):
            begun = time.perf_counter()
            decoding.step(np.array([[5]]), 5)
            times.append(time.perf_counter() - begun)
    return min(times)


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def memory(name: str) -> float:
    """Return VmRSS, the memory of the process, or VmHWM, its peak since the reset, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", default=["torch fp32", "packed bf16", "packed int8"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--prompt", type=int, help="print the memory of one prompt, and nothing else")
    options = parser.parse_args()
    if options.prompt:
        engine = load(*options.engines[0].split(), options.layers)
        with engine.prefill([prompt(8)], 1):
            reset_peak()
        before = memory("VmRSS")
        with engine.prefill([prompt(options.prompt)], 8):
            print(f"{memory('VmHWM') - before:.0f}")
        return
    print("| engine | " + " | ".join(f"token {n:,}, ms" for n in LENGTHS) + f" | {LENGTHS[-1]:,} / {LENGTHS[0]} |")
    print("|---" * (len(LENGTHS) + 2) + "|")
    for name in options.engines:
        engine = load(*name.split(), options.layers)
        turns = [[token_seconds(engine, length) for length in LENGTHS] for _ in range(options.turns)]
        best = np.array(turns).min(0)
        ratio = best[-1] / best[0]
        print(f"| {name} | " + " | ".join(f"{it * 1e3:.1f}" for it in best) + f" | {ratio:.2f} |", flush=True)
    print("\n| prompt, tokens | memory, MB |\n|---|---|")
    for length in PROMPTS:
        command = [sys.executable, __file__, "--prompt", str(length), "--layers", str(options.layers)]
        done = subprocess.run([*command, "--engines", options.engines[0]], capture_output=True, text=True, check=True)
        print(f"| {length:,} | {done.stdout.strip()} |", flush=True)


if __name__ == "__main__":
    main()
