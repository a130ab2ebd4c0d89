"""How long an import takes, how much memory it needs, and how long `explain` takes on the imported model.

python benchmarks/exchange.py [--repeats 5]

A model of GPT-2's shape (124 million parameters) with random weights and 50,257 tokens is written to a temporary
folder. Memory is the peak above that of a process that only imports the package's modules. CPU seconds say less about a
user's wait, but depend less on what else the machine is doing.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tokenizers
import torch
from safetensors.torch import save_file

from clearhead.config import ModelConfig
from clearhead.exchange.families.gpt2 import GPT2

D, LAYERS, TOKENS, LENGTH = 768, 12, 50_257, 1024
_MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss * 1024, used.ru_utime + used.ru_stime)
sys.exit(code)
"""
_MODULES = "import clearhead.api, clearhead.exchange.import_model, torch, safetensors.torch"


def write_gpt2(folder: Path) -> int:
    """Write a folder as Transformers does. Return the size of its weights in bytes."""
    names = GPT2().names(ModelConfig(topology="decoder-only", n_decoder_layers=LAYERS, n_encoder_layers=0))
    sizes = {"wte": (TOKENS, D), "wpe": (LENGTH, D), "c_attn": (D, 3 * D), "c_fc": (D, 4 * D)}
    weights = {}
    for name in names:
        (theirs,) = name.theirs
        layer = theirs.split(".")[-2]
        shape = sizes.get(layer, (4 * D, D) if ".mlp." in theirs else (D, D)) if "ln_" not in layer else (D,)
        weights[f"transformer.{theirs}"] = torch.randn(shape) * 0.02
        if layer not in ("wte", "wpe"):
            weights[f"transformer.{name.bias().theirs[0]}"] = torch.zeros(shape[-1])
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
    (folder / "config.json").write_text(json.dumps(config))
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in letters for b in letters][: TOKENS - 1 - len(letters)]
    vocab = {token: i for i, token in enumerate([*letters, *("".join(pair) for pair in pairs), "<|endoftext|>"])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=pairs))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<|endoftext|>"])
    made.save(str(folder / "tokenizer.json"))
    return (folder / "model.safetensors").stat().st_size


def run(*command: str) -> tuple[float, float, float]:
    """Run a command. Return its seconds, its peak memory in bytes and its CPU seconds."""
    start = time.perf_counter()
    found = subprocess.run([sys.executable, "-c", _MEASURED, *command], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    peak, cpu = map(float, found.stdout.split())
    return seconds, peak, cpu


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="measurements, of which the median counts")
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as temporary:
        source, model = Path(temporary) / "gpt2", Path(temporary) / "model"
        source.mkdir()
        size, python = write_gpt2(source), sys.executable
        clearhead = (python, "-m", "clearhead")
        commands = {
            "imports": (python, "-c", _MODULES),
            "import": (*clearhead, "import", str(source), "--out", str(model), "--replace"),
            "explain": (*clearhead, "explain", str(model), "The cat sat on the"),
        }
        runs = {name: [run(*command) for _ in range(repeats)] for name, command in commands.items()}
    median = {name: [statistics.median(it) for it in zip(*found)] for name, found in runs.items()}
    times = (median["import"][1] - median["imports"][1]) / size
    print("| what | measured | bar |\n|---|---|---|")
    print(f"| import, seconds | {median['import'][0]:.1f} (CPU: {median['import'][2]:.1f}) | 10 |")
    print(f"| import, memory above the modules, as a multiple of {size / 2**20:.0f} MiB | {times:.2f} | 2.2 |")
    print(f"| explain, seconds | {median['explain'][0]:.1f} (CPU: {median['explain'][2]:.1f}) | 5 |")


if __name__ == "__main__":
    main()
