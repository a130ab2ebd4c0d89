import json
import re
import subprocess
import sys

import pytest
import torch

from clearhead.config import Config
from clearhead.model.transformer import build
from clearhead.tasks.examples import Examples
from clearhead.tasks.translate import Translation
from clearhead.tokenization.ragged import Ragged
from clearhead.training.choices.memory_limit import forecast


def config(**model: int) -> Config:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 2} | model
    return Config().override(
        {f"model.{name}": value for name, value in sizes.items()}
        | {"model.src_vocab_size": 50, "model.tgt_vocab_size": 50, "data.batch_tokens": 1000, "train.steps": 30}
        | {"train.device": "cpu", "train.precision": "fp32"}
    )


UNITS = Translation.units


def said(config: Config, model: torch.nn.Module, data: Examples) -> str:
    return forecast(config, model, data, UNITS)


def examples(n_pairs: int, length: int) -> Examples:
    """Pairs of so many tokens a side."""
    return Examples(Ragged([[5] * length] * n_pairs), Ragged([[5] * (length + 1)] * n_pairs))


def gigabytes(said: str) -> float:
    return float(re.search(r"about ([\d.]+) GB", said)[1])


def test_states_the_size_of_a_run() -> None:
    model = build(config().model)
    n_parameters = sum(p.numel() for p in model.parameters())
    text = forecast(config(), model, examples(12_345, 6), UNITS)
    size = f"{n_parameters:,} parameters; 12,345 pairs, 74,070 target tokens per epoch; "
    assert re.fullmatch(size + r"30 steps; about [\d.]+ GB of memory", text)
    resumed = forecast(config(), model, examples(12_345, 6), UNITS, done=10)
    assert resumed == text.replace("30 steps", "30 steps, 20 left")
    assert "; 1 step; " in forecast(config().override({"train.steps": 1}), model, examples(9, 6), UNITS)


def test_a_moving_average_of_the_weights_takes_memory_and_a_batch_that_is_never_full_less_of_it() -> None:
    large = torch.nn.Linear(50_000, 10_000, device="meta")
    of_weights = [gigabytes(said(config().override({"train.average": ema}), large, examples(9, 9))) for ema in (0, 0.9)]
    assert of_weights[1] - of_weights[0] == pytest.approx(4 * 50_001 * 10_000 / 1e9, abs=0.11)
    many = {"model.src_vocab_size": 50_000, "model.tgt_vocab_size": 50_000, "data.batch_tokens": 10_000}
    many |= {"model.copy": True}
    full = config().override(many)
    few, model = full.override({"data.batch_sentences": 20}), build(config().model)
    assert (
        gigabytes(forecast(full, model, examples(1000, 50), UNITS))
        > 4
        > gigabytes(forecast(few, model, examples(1000, 50), UNITS))
    )


def test_a_decoder_that_copies_nothing_has_logits_for_few_tokens_at_once() -> None:
    many = config(tgt_vocab_size=1_000_000, src_vocab_size=1_000_000)
    model, data = torch.nn.Linear(9, 9, device="meta"), examples(1000, 50)
    one, ten = (gigabytes(said(many.override({"data.batch_tokens": n}), model, data)) for n in (1_000, 10_000))
    assert ten - one == pytest.approx(24 * 1_000_000 * 10 / 1e9, abs=0.15)


@pytest.mark.parametrize(("head", "share"), [("class", 0.0), ("span", 0.0), ("token", 0.15)])
def test_an_encoder_alone_has_logits_only_for_the_tokens_it_predicts(head: str, share: float) -> None:
    values = {"model.topology": "encoder-only", "model.head": head, "model.n_classes": 2 * (head == "class")}
    sizes = [{f"model.{side}_vocab_size": size for side in ("src", "tgt")} for size in (100_000, 2_100_000)]
    model, data = torch.nn.Linear(9, 50_000_000, device="meta"), examples(20, 50)  # the same weights for both
    small, large = (gigabytes(said(config().override(values | it), model, data)) for it in sizes)
    more = 2_000_000 * share * 1000 * 10  # bytes: ten for each logit of 1,000 tokens
    assert large - small == pytest.approx(more / 1e9, abs=0.11)


MEASURE = """
import json, re, sys
import numpy as np
from clearhead.config import Config
from clearhead.training.memory import keep_freed_memory

keep_freed_memory()
import torch
from clearhead.model.transformer import build
from clearhead.tasks.loss import projected_cross_entropy
from clearhead.tasks.examples import Examples
from clearhead.tasks.translate import Translation
from clearhead.tokenization.ragged import Ragged
from clearhead.training.choices.memory_limit import forecast
from clearhead.training.update import Update

config = Config.from_record(json.loads(sys.argv[1]), source="the test")
model = build(config.model)
rng = np.random.default_rng(0)

def loss(model, rows):
    shape = len(rows), config.data.batch_tokens // len(rows)
    tokens = torch.from_numpy(rng.integers(4, config.model.src_vocab_size, shape))
    states = model(tokens, tokens[:, :-1], states=True).flatten(0, 1)
    return projected_cross_entropy(states, model.decoder.projection, tokens[:, 1:].flatten(), smoothing=0.1)

update = Update(model, loss, config.train)
for step in range(1, 7):
    update([np.arange(rng.integers(200, 500))], config.data.batch_tokens, step=step, lr=1e-4)
side = Ragged([[5] * 64] * 64)  # one batch of 4096 tokens
# Not ru_maxrss, which a process takes over from the one that started it.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024 / 1e9
print(forecast(config, model, Examples(side, side), Translation.units), peak)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems count memory otherwise")
@pytest.mark.parametrize("name", ["nano", "mini", "small"])
def test_the_memory_is_about_what_a_run_takes(name: str) -> None:
    values = {"model.src_vocab_size": 4000, "model.tgt_vocab_size": 4000, "data.batch_tokens": 4096}
    values |= {"train.preset": name, "train.precision": "fp32", "train.optimizer": "muon", "train.steps": 6}
    values |= {"train.device": "cpu", "train.threads": 2, "train.lr": 1e-4, "train.warmup": 1, "model.pre_norm": True}
    arguments = [sys.executable, "-c", MEASURE, json.dumps(Config().override(values).to_record())]
    said = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    expected, measured = float(re.search(r"about ([\d.]+) GB", said)[1]), float(said.split()[-1])
    assert expected == pytest.approx(measured, rel=0.2)
