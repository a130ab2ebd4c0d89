"""Parts of one's own, trained, kept in a model folder by their names, and read from there."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import load, train
from clearhead.errors import ConfigError, ModelError
from clearhead.folder.model_folder import load_model_folder
from clearhead.training.report.metrics import read_metrics
from clearhead.training.report.progress import Progress
from clearhead.training.signals import StoppedError
from tests.builders import quiet

EXAMPLES = Path(__file__).parents[2] / "clearhead" / "examples"
OWN = {"model.attention": "own_attention:LinearAttention", "model.positions": "own_parts:Near"}
OWN |= {"model.norm": "own_parts:ScaleNorm"}
FROZEN = '''
import torch
from torch import nn
from clearhead.model.attention import Attend

class Frozen(Attend):
    """Attention with all that a part may keep: a weight that learns, one that does not, and a number beside them."""
    def __init__(self, d_head):
        super().__init__()
        self.gain, self.fixed = nn.Parameter(torch.ones(d_head)), nn.Parameter(torch.randn(d_head), requires_grad=False)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
    def forward(self, q, k, v, *, mask=None, bias=None):
        self.calls += self.training
        return super().forward(q * self.gain, k * self.fixed, v, mask=mask, bias=bias)
'''


@pytest.fixture
def here(toy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with the modules of the examples; they are forgotten afterwards."""
    folder = toy.folder / "here"
    folder.mkdir()
    for name in ("own_attention.py", "own_parts.py"):
        (folder / name).write_bytes((EXAMPLES / name).read_bytes())
    (folder / "own_frozen.py").write_text(FROZEN)
    monkeypatch.chdir(folder)
    yield folder
    forget()


def forget() -> None:
    for name in ("own_attention", "own_parts", "own_frozen"):
        sys.modules.pop(name, None)


def test_a_model_of_own_parts_learns_and_is_kept_and_read_by_their_names(toy, here, monkeypatch) -> None:
    changes = {**OWN, "train.steps": 60, "train.lr": 1e-2, "model.dropout": 0.0, "decode.beam": 3}
    folder = train(toy.config(changes), toy.folder / "run", say=quiet)
    losses = [record["loss"] for record in read_metrics(folder / "metrics.jsonl") if "loss" in record]
    assert losses[-1] < 0.7 * losses[0]
    kept = json.loads((folder / "config.json").read_bytes())["model"]
    assert {f"model.{name}": kept[name] for name in ("attention", "positions", "norm")} == OWN
    card = (folder / "README.md").read_text()
    assert "own_attention:LinearAttention attention, own_parts:Near positions" in card
    assert all(f"--{name}={value}" in card for name, value in OWN.items())
    answers = load(folder, device="cpu", allow_custom_code=True).results(["one two", "three", "six five four"])
    forget()
    again = load(folder, device="cpu", allow_custom_code=True).results(["one two", "three", "six five four"])
    assert again == answers and all(answer.text for answer in answers)
    assert load(folder, device="cpu", allow_custom_code=True)("three") == answers[1].text
    forget()
    monkeypatch.chdir(toy.folder)
    with pytest.raises(ConfigError) as caught:
        load(folder, allow_custom_code=True).model  # noqa: B018
    assert caught.value.value == "own_attention:LinearAttention" and "PYTHONPATH" in caught.value.expected
    monkeypatch.syspath_prepend(here)
    assert load(folder, device="cpu", allow_custom_code=True)("three") == answers[1].text


@pytest.mark.parametrize("changes", [OWN, {"model.attention": "own_frozen:Frozen"}], ids=["examples", "frozen"])
def test_a_run_with_own_parts_that_was_stopped_ends_as_if_it_had_not(toy, here, outcome, monkeypatch, changes) -> None:
    whole = outcome(train(toy.config(changes), toy.folder / "whole", say=quiet))
    update = Progress.update

    def interrupted(self: Progress, **values: Any) -> None:
        if values["step"] == 6:
            signal.raise_signal(signal.SIGTERM)
        update(self, **values)

    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(Progress, "update", interrupted)
        train(toy.config(changes), toy.folder / "stopped", say=quiet)
    forget()
    again = outcome(train(toy.config(changes), toy.folder / "stopped", resume=True, say=quiet))
    assert again == whole


def test_whatever_a_part_keeps_is_in_the_model_folder(toy, here) -> None:
    changes = {"model.attention": "own_frozen:Frozen", "train.best": "exact_match"}
    folder = train(toy.config(changes), toy.folder / "run", say=quiet)
    weights = load_model_folder(folder, allow_custom_code=True).weights
    places = [f"{place}.attend" for place in (
        "encoder.blocks.0.attention", "decoder.blocks.0.attention", "decoder.blocks.0.cross_attention")]  # fmt: skip
    for place in places:
        assert {name.rpartition(".")[2] for name in weights if name.startswith(place)} == {"gain", "fixed", "calls"}
        assert not torch.equal(weights[f"{place}.gain"], torch.ones(16)) and int(weights[f"{place}.calls"]) > 0
    found = load(folder, device="cpu", allow_custom_code=True).model.state_dict()
    assert all(torch.equal(found[name], weight) for name, weight in weights.items())


def test_what_cannot_be_had_is_known_before_the_data_are_read(toy, here) -> None:
    changes = {"model.attention": "own_attention:LinearAtention", "data.train": ("no-such-file.tsv",)}
    with pytest.raises(ConfigError) as caught:
        train(toy.config(changes), toy.folder / "run", say=quiet)
    assert caught.value.name == "model.attention" and "LinearAttention" in caught.value.fix
    assert not (toy.folder / "run").exists()


def test_another_model_begins_with_the_parts_of_the_one_that_it_goes_on_from(toy, here) -> None:
    first = train(toy.config(OWN), toy.folder / "first", say=quiet)
    later = {"train.init_from": str(first), "train.steps": 2}
    with pytest.raises(ModelError) as caught:  # who trains has not named them, nor allowed them
        train(toy.config(later), toy.folder / "second", say=quiet)
    assert caught.value.name == "model.attention" and "allow_custom_code=True" in caught.value.fix
    for changes, allowed in ((OWN, False), ({}, True)):
        second = train(
            toy.config(later | changes), toy.folder / f"second-{allowed}", say=quiet, allow_custom_code=allowed
        )
        assert json.loads((second / "config.json").read_bytes())["model"]["norm"] == OWN["model.norm"]


def test_a_model_of_own_parts_is_explained_as_far_as_they_tell(toy, here) -> None:
    changes = {"train.steps": 2, "model.attention": "own_attention:LinearAttention"}
    told = load(
        train(toy.config(changes), toy.folder / "told", say=quiet), device="cpu", allow_custom_code=True
    ).explain("one two")
    rendered = told.render_attention("decoder.cross", 0, 0)
    assert "weights   of LinearAttention" in rendered and "scores" not in rendered
    assert told.trace.largest_difference < 1e-5 and "heads" in told.render_heads("decoder.cross", 0)
    (here / "own_silent.py").write_text(
        "from torch import nn\n\nclass Silent(nn.Module):\n    def __init__(self): super().__init__()\n"
        "    def forward(self, q, k, v, *, mask=None, bias=None): return v.mean(2, keepdim=True).expand_as(q)\n"
    )
    changes["model.attention"] = "own_silent:Silent"
    silent = load(
        train(toy.config(changes), toy.folder / "silent", say=quiet), device="cpu", allow_custom_code=True
    ).explain("one two")
    assert "decoder.0.cross: Silent doesn't report its weights" in silent.render_heads("decoder.cross", None)
    assert "Attention without reported weights:" in silent.render()
    assert "Silent doesn't report its weights." in silent.render_attention("decoder.cross", 0, 0)
    values = silent.to_dict("decoder.cross", 0, 0)
    assert "alignment" not in values and values["heads"] == {} and values["search"]["answers"]
    assert [step["name"] for step in values["attention"]["steps"]] == ["queries", "keys", "values", "output"]
    with pytest.raises(ModelError) as caught:
        silent.alignment(0)
    assert (caught.value.name, caught.value.value) == ("decoder.0.cross", "Silent")
    sys.modules.pop("own_silent", None)
