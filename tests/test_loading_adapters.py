"""A model with an adapter answers as the merged model does, from every engine and however it's named."""

import pickle
import shutil
from pathlib import Path

import pytest

from clearhead.api import load
from clearhead.errors import ConfigError, ModelError
from clearhead.exchange.targets import export
from tests.builders import make_adapter_folder, make_encoder_folder

TEXTS = ["I am hungry.", "They sleep well."]


@pytest.fixture
def base(model_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_folder, tmp_path / "base"))


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    return make_adapter_folder(tmp_path / "adapter", base)


@pytest.mark.parametrize("engine", ["torch", "packed"])
def test_its_answers_and_scores_are_those_of_the_merged_folder_bit_for_bit(
    base: Path, adapter: Path, tmp_path: Path, engine: str
) -> None:
    export(load(adapter).loaded, "clearhead", tmp_path / "merged")
    apps = [load(adapter), load(base, adapter=adapter), load(tmp_path / "merged"), load(base)]
    expected, *others, without = [[(it.text, it.score) for it in app.results(TEXTS, engine=engine)] for app in apps]
    assert others == [expected, expected] and without != expected
    copied = pickle.loads(pickle.dumps(apps[1]))
    assert [(it.text, it.score) for it in copied.results(TEXTS, engine=engine)] == expected
    assert apps[2].config.train.adapter == () and not (tmp_path / "merged" / "adapter.json").exists()


def test_ctranslate2_keeps_the_adapter_apart_from_its_base(base: Path, adapter: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    expected, found = ([it.score for it in load(adapter).results(TEXTS, engine=it)] for it in ("torch", "ct2"))
    assert found == pytest.approx(expected, abs=1e-3)
    assert [it.score for it in load(base).results(TEXTS, engine="ct2")] != pytest.approx(expected, abs=1e-3)


def test_a_base_elsewhere_can_be_named_but_not_converted(base: Path, adapter: Path, tmp_path: Path) -> None:
    expected = load(adapter)(TEXTS)
    moved = base.rename(tmp_path / "moved")
    app = load(moved, adapter=adapter)
    assert app(TEXTS) == expected and app.override({"decode.beam": 1})(TEXTS)
    with pytest.raises(ConfigError):
        app(TEXTS, engine="ct2")


def test_what_is_no_adapter_of_the_model_is_an_error(base: Path, adapter: Path, tmp_path: Path) -> None:
    other = make_encoder_folder(tmp_path / "other", task="fill")
    cases = [(base, other, "adapter"), (other, adapter, "base"), (adapter, adapter, "base")]
    cases += [(base, tmp_path / "nowhere", "folder"), (tmp_path / "nowhere", adapter, "folder")]
    for model, given, name in cases:
        with pytest.raises(ModelError) as caught:
            load(model, adapter=given)
        assert caught.value.name == name
    with pytest.raises(ConfigError) as wrong:
        load(base, adapter="")
    assert wrong.value.name == "adapter"


def test_a_model_without_an_adapter_has_nothing_to_merge(base: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        export(load(base).loaded, "clearhead", tmp_path / "merged")
    assert caught.value.name == str(base) and not (tmp_path / "merged").exists()
