import re
import subprocess
import sys

import pytest
import torch

from clearhead.config import Config
from clearhead.model.transformer import build
from clearhead.tasks.examples import Examples
from clearhead.tasks.translate.task import Translation
from clearhead.tokenization.ragged import Ragged
from clearhead.training.choices import forecast as module
from clearhead.training.choices.forecast import duration, forecast


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


def test_says_what_a_run_is_and_about_what_it_takes() -> None:
    model = build(config().model)
    said = forecast(config(), model, examples(12_345, 6), UNITS)
    n_parameters = sum(p.numel() for p in model.parameters())
    assert re.fullmatch(
        rf"{n_parameters:,} parameters; 12,345 pairs, 74,070 target tokens an epoch; 30 steps; "
        r"about [\d.]+ GB and (a second|\d+ (seconds|minutes)|[\d.]+ hours)",
        said,
    )


def test_the_time_grows_with_the_steps_and_with_the_parameters(monkeypatch) -> None:
    monkeypatch.setattr(module, "_operations_a_second", lambda _config: 1e9)
    model, data = build(config().model), examples(200, 50)
    n_parameters = sum(p.numel() for p in model.parameters())
    seconds = (6 * n_parameters + 1e6) * 1000 * 30_000 / 1e9  # forward and backward: 6 operations a parameter and token
    long = config().override({"train.steps": 30_000})
    assert forecast(long, model, data, UNITS).endswith(f" and {duration(seconds)}")
    assert seconds > 100
    half = forecast(long, model, data, UNITS, done=15_000)
    assert "; 30,000 steps, 15,000 of them left; about" in half and half.endswith(f" and {duration(seconds / 2)}")


@pytest.mark.parametrize(
    ("changes", "times"),
    [({"train.accumulate": 8}, 8), ({"data.batch_sentences": 5}, 1 / 4), ({"data.batch_tokens": 290}, 1 / 4)],
    ids=["accumulated batches", "few sentences", "a batch that is never full"],
)
def test_the_time_is_that_of_the_tokens_that_a_step_really_has(monkeypatch, changes: dict, times: float) -> None:
    monkeypatch.setattr(module, "_operations_a_second", lambda _config: 1e7)
    model, data = build(config().model), examples(200, 50)
    seconds = (6 * sum(p.numel() for p in model.parameters()) + 1e6) * 1000 * times * 3000 / 1e7
    assert forecast(config().override({"train.steps": 3000} | changes), model, data, UNITS).endswith(duration(seconds))


def test_a_moving_average_of_the_weights_takes_memory_and_a_batch_that_is_never_full_less_of_it() -> None:
    large = torch.nn.Linear(50_000, 10_000, device="meta")
    of_weights = [gigabytes(said(config().override({"train.ema": ema}), large, examples(9, 9))) for ema in (0, 0.9)]
    assert of_weights[1] - of_weights[0] == pytest.approx(4 * 50_001 * 10_000 / 1e9, abs=0.11)
    many = {"model.src_vocab_size": 50_000, "model.tgt_vocab_size": 50_000, "data.batch_tokens": 10_000}
    full = config().override(many)
    few, model = full.override({"data.batch_sentences": 20}), build(config().model)
    assert (
        gigabytes(forecast(full, model, examples(1000, 50), UNITS))
        > 4
        > gigabytes(forecast(few, model, examples(1000, 50), UNITS))
    )


@pytest.mark.parametrize(("head", "share"), [("class", 0.0), ("span", 0.0), ("token", 0.15)])
def test_an_encoder_alone_has_logits_only_of_the_tokens_that_it_predicts(monkeypatch, head: str, share: float) -> None:
    monkeypatch.setattr(module, "_operations_a_second", lambda _config: 1e9)
    values = {"model.topology": "encoder-only", "model.head": head, "model.n_classes": 2 * (head == "class")}
    small, large = (
        config().override(
            values | {f"model.{side}_vocab_size": size for side in ("src", "tgt")} | {"train.steps": 10**6}
        )
        for size in (100_000, 2_100_000)
    )
    model, data = torch.nn.Linear(9, 50_000_000, device="meta"), examples(20, 50)  # of both the same weights
    of_data = [forecast(it, model, data, UNITS) for it in (small, large)]
    more = 2_000_000 * share * 1000 * 10  # bytes: ten for each logit of 1,000 tokens
    assert gigabytes(of_data[1]) - gigabytes(of_data[0]) == pytest.approx(more / 1e9, abs=0.11)
    weights = [5e8 - 16 * size * (1 - share) for size in (100_000, 2_100_000)]  # that are multiplied for each token
    for said, count in zip(of_data, weights):
        assert said.endswith(f" and {duration((6 * count + 1e6) * 1000 * 10**6 / 1e9)}")


MEASURE = """
import re, sys
import numpy as np
from clearhead.config import Config
from clearhead.training.memory import keep_freed_memory

keep_freed_memory()
import torch
from clearhead.model.transformer import build
from clearhead.tasks.loss import smoothed_cross_entropy
from clearhead.tasks.examples import Examples
from clearhead.tasks.translate.task import Translation
from clearhead.tokenization.ragged import Ragged
from clearhead.training.choices.forecast import forecast
from clearhead.training.update import Update

config = Config.from_toml(__import__("pathlib").Path(sys.argv[1]))
model = build(config.model)
rng = np.random.default_rng(0)

def loss(model, rows):
    shape = len(rows), config.data.batch_tokens // len(rows)
    tokens = torch.from_numpy(rng.integers(4, config.model.src_vocab_size, shape))
    logits = model(tokens, tokens[:, :-1])
    return smoothed_cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), smoothing=0.1)

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
def test_the_memory_is_about_what_a_run_takes(name: str, tmp_path) -> None:
    values = {"model.src_vocab_size": 4000, "model.tgt_vocab_size": 4000, "data.batch_tokens": 4096}
    values |= {"train.preset": name, "train.precision": "fp32", "train.optimizer": "muon", "train.steps": 6}
    values |= {"train.device": "cpu", "train.threads": 2, "train.lr": 1e-4, "train.warmup": 1, "model.pre_norm": True}
    (tmp_path / "config.toml").write_text(Config().override(values).to_toml())
    arguments = [sys.executable, "-c", MEASURE, str(tmp_path / "config.toml")]
    said = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    expected, measured = float(re.search(r"about ([\d.]+) GB", said)[1]), float(said.split()[-1])
    assert expected == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_nothing_random_is_drawn(precision: str) -> None:
    before = torch.random.get_rng_state()
    model = build(config().model)
    after = torch.random.get_rng_state()
    forecast(config().override({"train.precision": precision}), model, examples(9, 9), UNITS)
    assert torch.equal(torch.random.get_rng_state(), after) and not torch.equal(before, after)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "a second"),
        (1.4, "a second"),
        (2, "2 seconds"),
        (99, "99 seconds"),
        (100, "2 minutes"),
        (720, "12 minutes"),
        (5990, "100 minutes"),
        (6000, "1.7 hours"),
        (9000, "2.5 hours"),
    ],
)
def test_a_duration_is_said_in_the_unit_that_suits(seconds: float, said: str) -> None:
    assert duration(seconds) == said
