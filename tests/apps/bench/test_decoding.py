"""The rates of a model's engines."""

import itertools
from pathlib import Path

import pytest
import torch

from clearhead.api import load
from clearhead.apps.bench import decoding, machine
from clearhead.apps.bench.decoding import CELLS, Rate, best, chosen, measure, step_weights
from clearhead.apps.bench.machine import BYTES, Machine
from clearhead.errors import ConfigError

MACHINE = Machine(10**6, 1, dict.fromkeys(BYTES, 1e9), dict.fromkeys(BYTES, 1e12), 1e9)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_SECONDS", 0.0)
    monkeypatch.setattr(decoding, "_N", 3)
    monkeypatch.setattr(decoding, "usable_engines", lambda *_: ["torch"])


def test_the_limit_is_what_takes_longer_reading_or_multiplying() -> None:
    assert MACHINE.limit("fp32", 1) == pytest.approx(250)  # 4 MB at 1 GB/s
    assert MACHINE.limit("int8", 1) == pytest.approx(1000)
    assert MACHINE.limit("fp32", 10**6) == pytest.approx(0.5)  # 2e12 operations at 1e12 per second


def test_a_machine_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_LARGE", 10**5)
    monkeypatch.setattr(machine, "_SECONDS", 0.01)
    before = torch.get_num_threads()
    found = Machine.measure(10**5, threads=before + 1)
    assert found.read.keys() == found.products.keys() == BYTES.keys()
    assert all(it > 1e6 for it in (*found.read.values(), *found.products.values(), found.copy))
    assert (found.n_weights, found.threads, torch.get_num_threads()) == (10**5, before + 1, before)


def test_of_two_measurements_the_higher_limits_count() -> None:
    other = Machine(10**6, 1, {**MACHINE.read, "fp32": 3e9}, {**MACHINE.products, "int8": 1e9}, 2e9)
    assert MACHINE.raised_to(other) == Machine(10**6, 1, other.read, MACHINE.products, 2e9)


def test_a_step_reads_the_decoder_and_the_projection(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    model = app.loaded.config.model
    weights = {name: it.size for name, it in app.loaded.handle.weights().items() if name.startswith("decoder.blocks.")}
    once = sum(size for name, size in weights.items() if "cross_attention.kv" in name)
    assert once
    assert step_weights(app.loaded) == sum(weights.values()) - once + model.tgt_vocab_size * model.d_model


def test_every_engine_has_a_rate_in_every_cell(model_folder: Path, quick) -> None:
    loaded, said = load(model_folder, device="cpu").loaded, []
    found = list(measure(loaded, MACHINE, said.append))
    assert all([(it.beam, it.batch) for it in rates] == list(CELLS) for rates in found)
    assert [{(it.engine, it.precision) for it in rates} for rates in found] == [
        {("torch", "fp32")},
        {("torch", "bf16")},
    ]
    assert said == ["measuring torch in fp32", "measuring torch in bf16"]
    for it in found[0]:
        assert it.tokens > 0
        assert it.share == pytest.approx(it.tokens / (it.batch * MACHINE.limit("fp32", it.beam * it.batch)))
    assert chosen(loaded) in ("torch", "loops")


def test_the_best_is_the_fastest_with_a_beam_of_four() -> None:
    rates = [
        Rate(engine, precision, beam, batch, tokens, 0.5)
        for (beam, batch), (engine, precision, tokens) in itertools.product(
            CELLS, [("a", "fp32", 1.0), ("b", "fp32", 2.0), ("b", "int8", 3.0)]
        )
    ]
    assert (best(rates).engine, best(rates).precision) == ("b", "int8")
    assert best(rates[:-1]).tokens == 2.0


def test_a_model_that_writes_no_text_is_named(answer_folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        next(measure(load(answer_folder, device="cpu").loaded, MACHINE, print))
    assert caught.value.name == "model.topology"
