"""Time the Go reader, and compare its text with Python's.

(cd go && go build -o clearhead-go ./cmd/clearhead-go)
python benchmarks/go_decoding.py runs/demo < sentences.txt
python benchmarks/go_decoding.py models/mine --as base < sentences.txt     random weights, of a preset's size
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import clearhead
from clearhead.config.presets import preset
from clearhead.folder.model_folder import load_model_folder, model_files, save_files
from clearhead.model.transformer import build

PROGRAM = Path(__file__).parents[1] / "go" / "clearhead-go"
STARTS = 21


def seconds(command: list[str | Path], text: str) -> tuple[float, str]:
    """Return how long a program runs, and its output."""
    start = time.perf_counter()
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=True)
    return time.perf_counter() - start, done.stdout


def resized(folder: Path, name: str, target: Path) -> Path:
    """Write a model of a preset's size, with random weights and the tokenizer of another model."""
    read, shape = load_model_folder(folder), preset(name)
    config = read.config.override({it: shape[it] for it in shape if it.startswith("model.")})
    torch.manual_seed(0)
    weights = build(config.model).state_dict()
    save_files(target, model_files(config=config.to_dict(), tokenizer=read.tokenizer, weights=weights, card=""))
    return target


def main() -> None:
    """Print the time to start, tokens per second for each beam, and how many answers differ from Python's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--as", dest="preset", help="preset whose size to time, with random weights")
    arguments = parser.parse_args()
    text = sys.stdin.read()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder
        if arguments.preset:
            folder = resized(folder, arguments.preset, Path(temporary) / "model")
        starts = [seconds([PROGRAM, folder], "")[0] for _ in range(STARTS)]
        print(f"start: {1000 * statistics.median(starts):.0f} ms, median of {STARTS}")
        app = clearhead.load(folder)
        for beam in (1, 4):
            once, output = seconds([PROGRAM, folder, "--json", "--threads", "1", "--beam", str(beam)], text)
            answers = [json.loads(line) for line in output.splitlines()]
            tokens = sum(len(it["logprobs"]) for it in answers)
            print(f"beam {beam}: {tokens / once:,.0f} tokens/s on one core ({tokens:,} tokens in {once:.2f} s)")
            expected = app(text.splitlines(), beam=beam)
            differ = sum(it["text"] != theirs for it, theirs in zip(answers, expected, strict=True))
            print(f"beam {beam}: {differ} of {len(answers)} answers differ from Python's")


if __name__ == "__main__":
    main()
