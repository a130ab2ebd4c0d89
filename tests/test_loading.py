"""A loaded model shares its weights and engines with copies that have other settings, and notices changes to them."""

import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from clearhead.api import load
from clearhead.apps.app import App
from clearhead.decode.registry import choice_for
from clearhead.errors import ConfigError

TEXT = "I am hungry."


@pytest.fixture
def app(model_folder: Path) -> App:
    return load(model_folder, device="cpu")


def test_copies_with_other_search_settings_share_weights_and_engines(app: App) -> None:
    other = app.override({"decode.beam": 1}).override({"decode.alpha": 0.0})
    assert other(TEXT) and other.model is app.model and other.loaded.handle is app.loaded.handle
    assert list(app.loaded.handle.engines) == ["torch fp32"]
    threaded = app.override({"train.threads": 1})
    assert threaded.model is app.model and threaded.loaded.handle is not app.loaded.handle
    copied = pickle.loads(pickle.dumps(other))
    assert copied(TEXT) == other(TEXT) and copied.model is not app.model


@pytest.mark.parametrize("was_read", [False, True])
def test_a_separate_model_has_the_same_weights_but_its_own_hooks(app: App, was_read: bool) -> None:
    answer = app(TEXT) if was_read else load(app.path, device="cpu")(TEXT)
    other = type(app)(app.loaded.separate())
    assert other(TEXT) == answer and other.model is not app.model
    pairs = zip(app.model.parameters(), other.model.parameters(), strict=True)
    assert all((one.data_ptr() == same.data_ptr()) == was_read and one.equal(same) for one, same in pairs)
    with other.without("decoder.0.cross"):
        assert app.loaded.watch.changes is None and not app.loaded.handle.needs_module
        assert other.loaded.handle.needs_module


@pytest.mark.parametrize("engine", ["loops", "ct2"])
def test_an_engine_with_its_own_copy_notices_changed_weights(
    app: App, engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if engine == "ct2":
        pytest.importorskip("ctranslate2", reason="needs the extra ct2")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = app.results([TEXT], beam=1, engine=engine)[0].logprobs
    assert app.results([TEXT], beam=1, engine=engine)[0].logprobs == before == pytest.approx(scores(app), abs=1e-4)
    with torch.no_grad():
        app.model.decoder.blocks[0].feed_forward.outer.weight.mul_(-3)
    assert scores(app) != pytest.approx(before, abs=1e-3)
    if engine == "loops":
        assert app.results([TEXT], beam=1, engine=engine)[0].logprobs == pytest.approx(scores(app), abs=1e-4)
        return
    with pytest.raises(ConfigError) as caught:
        app(TEXT, beam=1, engine=engine)
    assert caught.value.name == "format" and choice_for(app.loaded.handle, app.decode_config(beam=1)).name == "torch"


def scores(app: App) -> tuple[float, ...]:
    return app.results([TEXT], beam=1, engine="torch")[0].logprobs


def test_a_module_with_hooks_or_other_parts_is_run_by_torch(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.decode.engines.loops.machine_code.LoopsOpener.waits", lambda *_: "")

    def chosen() -> str:
        return choice_for(app.loaded.handle, app.decode_config()).name

    feed_forward = app.model.decoder.blocks[0].feed_forward
    assert chosen() == "loops"
    hook = feed_forward.register_forward_hook(lambda *_: None)
    assert chosen() == "torch"
    hook.remove()
    assert chosen() == "loops"
    app.model.decoder.blocks[0].feed_forward = nn.Identity()
    assert chosen() == "torch"
    app.model.decoder.blocks[0].feed_forward = feed_forward
    feed_forward.outer.weight.data = feed_forward.outer.weight.data * 2
    assert chosen() == "loops" and app.loaded.handle.engines == {}


def test_an_evaluation_records_the_engine_and_the_precision(app: App) -> None:
    evaluation = app.evaluate([(TEXT, "J'ai faim.")], beam=1)
    assert (evaluation.engine, evaluation.decode.engine) == ("torch", "auto")
    assert evaluation.to_dict()["engine"] == "torch" and evaluation.to_dict()["precision"] == "fp32"
    assert "\nengine torch, fp32\n" in evaluation.report()
