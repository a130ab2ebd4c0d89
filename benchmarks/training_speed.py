"""Measure training speed in target tokens per second, by preset, precision and optimiser.

    python benchmarks/training_speed.py --preset nano --precision bf16 fp32 --optimizer adam muon

Sentences are random and have 4 to 40 tokens; padding doesn't count. All contenders take turns in one process, so
changes in the machine's speed affect them equally. The table shows the median and the best turn of each.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.config import Config, preset
from clearhead.data.batches import Batches
from clearhead.model.masks import padding_mask
from clearhead.model.transformer import build
from clearhead.tasks.loss import smoothed_cross_entropy
from clearhead.tokenization.ragged import Ragged
from clearhead.training.memory import keep_freed_memory
from clearhead.training.update import Update


class Contender:
    """A model with its optimiser, trained on batches that all contenders share."""

    def __init__(self, config: Config, sentences: Ragged, batches: list[np.ndarray]) -> None:
        torch.manual_seed(0)
        self.sentences, self.batches = sentences, batches
        self.update = Update(build(config.model), self.loss, config.train)
        self.rates: list[float] = []

    def loss(self, model: nn.Module, rows: np.ndarray) -> Tensor:
        """Return the loss of copying the sentences."""
        padded = torch.from_numpy(self.sentences.padded(rows, 0))
        logits = model(padded, padded[:, :-1], source_mask=padding_mask(padded))
        return smoothed_cross_entropy(logits.flatten(0, 1), padded[:, 1:].flatten(), smoothing=0.1)

    def turn(self) -> None:
        """Train on every batch once and record the rate."""
        begun, tokens = time.perf_counter(), 0
        for step, rows in enumerate(self.batches):
            n_tokens = int(self.sentences.lengths[rows].sum()) - len(rows)
            self.update([rows], n_tokens, step=step, lr=1e-4)
            tokens += n_tokens
        self.rates.append(tokens / (time.perf_counter() - begun))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", nargs="+", default=["nano"])
    parser.add_argument("--precision", nargs="+", default=["bf16", "fp32"])
    parser.add_argument("--optimizer", nargs="+", default=["adam", "muon"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.gamma(3.0, 3.4, 4000).astype(int) + 4, 4, 40)
    sentences = Ragged([rng.integers(4, 8000, n).tolist() for n in lengths])
    batches = Batches(sentences.lengths, sentences.lengths, 4096).epoch(0)[: options.batches]
    contenders = {}
    for name in options.preset:
        for precision in options.precision:
            for optimizer in options.optimizer:
                values = preset(name) | {"model.src_vocab_size": 8000, "model.tgt_vocab_size": 8000}
                values |= {"train.optimizer": optimizer, "train.precision": precision, "model.dropout": 0.1}
                contenders[name, precision, optimizer] = Contender(Config().override(values), sentences, batches)
    for turn in range(options.turns + 1):
        for contender in contenders.values():
            contender.turn()
            if turn == 0:
                contender.rates.clear()  # warm-up
    print("| preset | precision | optimiser | target tokens/s, median | best |\n|---|---|---|---|---|")
    for names, contender in contenders.items():
        rates = contender.rates
        print("| " + " | ".join(names) + f" | {statistics.median(rates):,.0f} | {max(rates):,.0f} |")


if __name__ == "__main__":
    main()
