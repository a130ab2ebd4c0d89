"""What was measured is kept, and taken for what it is alone."""

import importlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from clearhead.inspection.ablation import (
    WHOLE,
    KeptOutcomes,
    Outcome,
    fingerprint,
    has_hooks,
    measure_without_each,
)
from clearhead.inspection.record.recorder import record
from clearhead.inspection.record.switches import switches, without
from tests.builders import small_model

TEXT, KEY = torch.tensor([[1, 4, 5, 6]]), {"weights": "a", "data": "b"}
NAMES = ["decoder.0.self", "decoder.0.self.head.1", "decoder.1.feed_forward"]


model = partial(small_model, "decoder-only", vocab=10)


def measuring(net: nn.Module, calls: list[int]) -> Callable[[], Outcome]:
    """The logits of a text as its scores."""

    def measure() -> Outcome:
        calls.append(1)
        with torch.no_grad():
            return Outcome([], {"logits": net(TEXT).flatten().tolist()})

    return measure


def silent(*_: object) -> None:
    pass


def test_each_outcome_is_that_without_its_part() -> None:
    net, calls = model(), list[int]()
    measure = measuring(net, calls)
    found, n_kept = measure_without_each(net, NAMES, measure, KeptOutcomes(None, KEY), silent)
    assert list(found) == [WHOLE, *NAMES] and n_kept == 0 and len(calls) == 4
    assert found[WHOLE] == measure()
    for name in NAMES:
        with without(net, name):
            assert found[name] == measure()
    assert len({tuple(it.values["logits"]) for it in found.values()}) == 4


def test_what_is_kept_is_not_measured_again_and_the_same_to_the_bit(tmp_path: Path) -> None:
    net, calls, told = model(), list[int](), list[tuple[str, int, int]]()
    measure = measuring(net, calls)
    first, _ = measure_without_each(net, NAMES[:2], measure, KeptOutcomes(tmp_path, KEY), silent)
    again, n_kept = measure_without_each(net, NAMES, measure, KeptOutcomes(tmp_path, KEY), lambda *it: told.append(it))
    assert len(calls) == 4 and n_kept == 3
    assert told == [(NAMES[2], 0, 1), ("comparing", 1, 1)]
    assert list(again) == [WHOLE, *NAMES] and {name: again[name] for name in first} == first


@pytest.mark.parametrize("other", [{"weights": "c"}, {"data": "c"}, {"decode": {"beam": 1}}])
def test_results_of_another_key_are_not_taken(tmp_path: Path, other: dict) -> None:
    net, calls = model(), list[int]()
    kept = [KeptOutcomes(tmp_path, key) for key in (KEY, KEY | other)]
    for outcomes in kept:
        measure_without_each(net, NAMES, measuring(net, calls), outcomes, silent)
    assert len(calls) == 8 and kept[0].folder != kept[1].folder
    assert json.loads((kept[1].folder / "key.json").read_bytes()) == KEY | other


def test_a_study_that_was_ended_goes_on_where_it_stopped(tmp_path: Path) -> None:
    net, calls = model(), list[int]()
    measure = measuring(net, calls)

    def ending() -> Outcome:
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measure()

    with pytest.raises(KeyboardInterrupt):
        measure_without_each(net, NAMES, ending, KeptOutcomes(tmp_path, KEY), silent)
    assert not has_hooks(net)
    found, n_kept = measure_without_each(net, NAMES, measure, KeptOutcomes(tmp_path, KEY), silent)
    assert n_kept == 2 and len(calls) == 4
    assert found == measure_without_each(net, NAMES, measure, KeptOutcomes(None, KEY), silent)[0]


def test_a_process_killed_anywhere_leaves_whole_results_or_none(tmp_path: Path, crash_points) -> None:
    net, outcome = model(), Outcome(["a"], {"score": [0.1]})
    kept, number = KeptOutcomes(tmp_path / "0", KEY), 0

    def put() -> None:
        kept.put(WHOLE, outcome)

    for number in crash_points(put):
        assert kept.get(WHOLE) in (None, outcome)
        kept = KeptOutcomes(tmp_path / str(number), KEY)
    assert number > 3 and kept.get(WHOLE) == outcome
    assert measure_without_each(net, [], measuring(net, []), kept, silent) == ({WHOLE: outcome}, 1)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:40],
        lambda data: b"",
        lambda data: data.replace(b"0.25", b"0.75"),
        lambda data: data.replace(b'"format_version": 1', b'"format_version": 2'),
        lambda data: b"[]",
        lambda data: b"\xff" + data,
        lambda data: b"{}",
    ],
)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    kept = KeptOutcomes(tmp_path, KEY)
    kept.put(WHOLE, Outcome(["a"], {"score": [0.25]}))
    path = kept.folder / f"{WHOLE}.json"
    assert kept.get(WHOLE) is not None and b"0.25" in path.read_bytes()
    path.write_bytes(damage(path.read_bytes()))
    assert kept.get(WHOLE) is None
    kept.put(WHOLE, Outcome(["b"], {"score": [1.0]}))
    assert kept.get(WHOLE) == Outcome(["b"], {"score": [1.0]})


def test_where_nothing_can_be_written_the_study_goes_on_and_says_why(tmp_path: Path, fail_from, read_only) -> None:
    net, calls = model(), list[int]()
    kept = KeptOutcomes(tmp_path / "folder", KEY)
    with fail_from(1, read_only):
        found, n_kept = measure_without_each(net, NAMES, measuring(net, calls), kept, silent)
    assert len(found) == 4 and n_kept == 0 and len(calls) == 4
    assert str(kept.folder) in kept.problem and "Read-only file system" in kept.problem
    assert "work on a copy of the model" in kept.problem


def test_on_a_full_disk_what_was_kept_stays(tmp_path: Path, fail_from, disk_full) -> None:
    kept = KeptOutcomes(tmp_path, KEY)
    kept.put(WHOLE, Outcome([], {"score": [1.0]}))
    with fail_from(1, disk_full):
        kept.put("decoder.0.self", Outcome([], {"score": [2.0]}))
    assert "No space left on device" in kept.problem
    assert kept.get(WHOLE) is not None and kept.get("decoder.0.self") is None


def test_the_fingerprint_is_that_of_the_weights_and_of_what_they_are_in() -> None:
    net = model()
    before = fingerprint(net)
    assert before == fingerprint(model())
    with torch.no_grad():
        net.blocks[1].feed_forward.outer.weight[3, 4] += 1e-3
    changed = fingerprint(net)

    class Other(type(net.blocks[0].attention.attend)):
        pass

    net.blocks[0].attention.attend = Other()
    assert len({before, changed, fingerprint(net)}) == 3


def test_the_fingerprint_is_that_of_the_code_of_an_own_part_too(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = set()
    for factor in ("2", "-3"):
        (tmp_path / "mine.py").write_text(
            "from clearhead.model.attention import Attend\n\n\nclass Mine(Attend):\n"
            f"    def forward(self, q, k, v, **more):\n        return super().forward({factor} * q, k, v, **more)\n"
        )
        monkeypatch.delitem(sys.modules, "mine", raising=False)
        importlib.invalidate_caches()
        net = model()
        net.blocks[0].attention.attend = importlib.import_module("mine").Mine()
        found |= {fingerprint(net), fingerprint(net)}
    assert len(found) == 2


def test_a_compiled_model_is_measured_as_it_is_written_with_all_parts_and_without(tmp_path: Path) -> None:
    net = model()
    expected, _ = measure_without_each(net, NAMES, measuring(net, []), KeptOutcomes(None, KEY), silent)
    net.blocks[0]._compiled_call_impl = lambda x, **_: x + 1.0  # stands for what `compile` makes
    found, _ = measure_without_each(net, NAMES, measuring(net, []), KeptOutcomes(None, KEY), silent)
    assert found == expected and net.blocks[0]._compiled_call_impl is not None


def test_hooks_are_seen() -> None:
    net = model()
    assert not has_hooks(net)
    with without(net, "decoder.0.self.head.1"):
        assert has_hooks(net)
    with record(net):
        assert has_hooks(net)
    assert not has_hooks(net) and switches(net)


def test_a_pipe_in_place_of_an_outcome_does_not_block(tmp_path: Path) -> None:
    kept = KeptOutcomes(tmp_path, KEY)
    assert kept.folder
    kept.folder.mkdir()
    os.mkfifo(kept.folder / f"{WHOLE}.json")
    assert kept.get(WHOLE) is None
