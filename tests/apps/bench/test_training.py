"""The rates that models train with on this machine."""

from dataclasses import replace

import pytest
import torch

from clearhead.apps.bench import training
from clearhead.apps.bench.machine import BYTES, Machine
from clearhead.apps.bench.training import Arrangement, TrainingRate, TrainingSpeed, measure, operations_per_token
from clearhead.config import ModelConfig, TrainConfig
from clearhead.training.distributed.processes import EndedElsewhereError

SPEEDS = {"fp32": 1e12, "bf16": 4e12, "int8": 8e12}
ON_TWO = TrainConfig(device="cpu", threads=2, precision="fp32")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch):
    """Small batches, a machine with known limits, and no second process."""

    def limits(threads: int, device: str) -> Machine:
        return Machine(10, threads, dict.fromkeys(BYTES, 1e9), {name: threads * it for name, it in SPEEDS.items()}, 1e9)

    monkeypatch.setattr(Machine, "measure", limits)
    for name, value in {"_BATCH": 300, "_SENTENCES": 20, "_SECONDS": 0.0}.items():
        monkeypatch.setattr(training, name, value)
    monkeypatch.setattr(training, "keep_freed_memory", lambda: True)
    monkeypatch.setattr(training, "has_bf16", lambda _device: False)
    monkeypatch.setattr(training, "call", lambda *_: pytest.fail("no second process is needed"))
    threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.random.set_rng_state(generator)


def test_each_preset_has_a_rate_and_its_share_of_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    report = measure(["nano"], replace(ON_TWO, threads=1))
    [[rate]] = report.rates
    assert (rate.preset, rate.precision, rate.arrangement) == ("nano", "fp32", Arrangement(1, 1))
    model = training._settings("nano", "fp32", "cpu").model
    assert rate.share == pytest.approx(rate.tokens * operations_per_token(model) / SPEEDS["fp32"])
    assert capsys.readouterr().err == "measuring nano in fp32\n"


def test_both_precisions_are_measured_if_the_device_has_them(monkeypatch) -> None:
    monkeypatch.setattr(training, "has_bf16", lambda _device: True)
    monkeypatch.setattr(training, "_times", lambda _config, counts, _processes: [100.0] * len(counts))
    monkeypatch.setattr(training, "operations_per_token", lambda _config: 10**9)
    rates = measure(["nano", "base"], replace(ON_TWO, threads=1, precision="bf16")).rates
    assert [(it.preset, it.precision) for [it] in rates] == [
        ("nano", "bf16"), ("nano", "fp32"), ("base", "bf16"), ("base", "fp32")
    ]  # fmt: skip
    assert rates[0][0].share == pytest.approx(100 * 10**9 / SPEEDS["bf16"])


def test_where_a_second_process_cannot_work_only_one_is_measured(monkeypatch, capsys) -> None:
    def fail(*_: object) -> None:
        raise EndedElsewhereError(code)

    monkeypatch.setattr(training, "call", fail)
    code = 1
    [row] = measure(["nano"], ON_TWO).rates
    assert [it.arrangement for it in row] == [Arrangement(1, 1), Arrangement(1, 2)]
    assert "2 processes can't work together here" in capsys.readouterr().err
    code = 130  # Ctrl-C
    with pytest.raises(EndedElsewhereError):
        measure(["nano"], ON_TWO)


def test_what_would_end_too_late_is_left_out_but_never_everything(monkeypatch, capsys) -> None:
    monkeypatch.setattr(training, "_times", lambda _config, counts, _processes: [10.0] * len(counts))
    rates = measure(["nano", "small"], replace(ON_TWO, threads=1)).rates
    assert [it.preset for [it] in rates] == ["nano"]
    assert "small in fp32 isn't measured" in capsys.readouterr().err


def test_operations_are_six_for_each_weight_of_the_blocks_and_the_projection() -> None:
    model = ModelConfig(d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1,
                        src_vocab_size=50, tgt_vocab_size=50)  # fmt: skip
    attention, feed_forward = 4 * 8 * 8, 2 * 8 * 16
    assert operations_per_token(model) == 6 * (3 * attention + 2 * feed_forward + 50 * 8)


def test_the_fastest_way_of_each_preset_is_recommended_but_two_processes_must_be_clearly_faster() -> None:
    def recommended(*rates: float) -> Arrangement:
        ways = [Arrangement(1, 1), Arrangement(1, 2), Arrangement(2, 1)]
        small = [[TrainingRate("nano", kind, ways[0], rate, 0.1)] for kind, rate in (("bf16", 9e9), ("fp32", 8e9))]
        large = [TrainingRate("base", "fp32", it, rate, 0.1) for it, rate in zip(ways, rates)]
        first, last = TrainingSpeed("cpu", 0.0, [], [*small, large]).fastest
        assert first == small[0][0]
        return last.arrangement

    assert recommended(100.0, 150.0, 155.0) == Arrangement(1, 2)
    assert recommended(100.0, 150.0, 160.0) == Arrangement(2, 1)
    assert recommended(100.0, 50.0, 50.0) == Arrangement(1, 1)


@pytest.mark.slow
def test_two_processes_are_measured_too(monkeypatch) -> None:
    monkeypatch.undo()
    [row] = measure(["nano"], ON_TWO).rates[:1]
    assert [it.arrangement for it in row] == [Arrangement(1, 1), Arrangement(1, 2), Arrangement(2, 1)]
    assert all(it.tokens > 0 for it in row)
