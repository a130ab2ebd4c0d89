"""Several adapters over one model: each request names the one that it means."""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import load
from clearhead.errors import ModelError
from clearhead.exchange.targets import export
from clearhead.serving.served_models import ModelName, with_adapters
from tests.builders import make_adapter_folder

from ..small_models import make

TEXT = "I am hungry."


@pytest.fixture(scope="module")
def folders(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models by the name that a server has for them; those with an adapter are merged."""
    place = tmp_path_factory.mktemp("adapters")
    base = Path(shutil.copytree(model_folder, place / "en-fr"))
    letters = make(place / "letters", "generate")
    found = {"en-fr": base, "letters": letters}
    for seed, (name, model) in enumerate({"formal": base, "legal": base, "poems": letters}.items()):
        adapter = make_adapter_folder(place / name, model, seed=seed)
        found[f"{model.name}+{name}"] = place / "merged" / name
        export(load(adapter).loaded, "clearhead", place / "merged" / name)
    return found


@pytest.fixture(scope="module")
def served(serve, folders):
    place = folders["en-fr"].parent
    adapters = [f"formal={place / 'formal'}", str(place / "legal"), str(place / "poems")]
    with serve(str(place / "en-fr"), str(place / "letters"), adapters=adapters) as served:
        yield served


def translated(served, **body: Any) -> Any:
    reply = served.post("/api/translate", {"text": TEXT, **body})
    assert reply.status == 200, reply.body
    return reply.json()


def test_answers_are_those_of_the_merged_models_bit_for_bit(served, folders) -> None:
    found = {}
    for name in ("en-fr", "en-fr+formal", "en-fr+legal"):
        expected = load(folders[name], device="cpu").results([TEXT])[0]
        found[name] = translated(served, model=name)
        assert (found[name]["text"], found[name]["score"]) == (expected.text, expected.score)
    assert len({it["score"] for it in found.values()}) == 3


def test_completions_of_openai_choose_an_adapter_too(served, folders) -> None:
    for name in ("letters", "letters+poems"):
        [[expected]] = load(folders[name], device="cpu").continuations(["She "], max_len=8, beam=1, n_best=1)
        body = {"model": name, "prompt": "She ", "max_tokens": 8, "temperature": 0}
        reply = served.post("/v1/completions", body).json()
        assert (reply["model"], reply["choices"][0]["text"]) == (name, expected.text)
    listed = [it["id"] for it in served.ask("GET", "/v1/models").json()["data"]]
    assert listed == ["en-fr", "letters", *(it for it in folders if "+" in it)]


def test_requests_for_several_adapters_at_the_same_time_do_not_mix(served) -> None:
    names = ["en-fr", "en-fr+formal", "en-fr+legal"] * 4
    alone = {name: translated(served, model=name) for name in names}
    found: list[tuple[str, Any]] = []
    threads = [threading.Thread(target=lambda it: found.append((it, translated(served, model=it))), args=[name])
               for name in names]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(names)
    for name, reply in found:  # texts that are answered together differ by rounding
        assert (reply["text"], reply["score"]) == (alone[name]["text"], pytest.approx(alone[name]["score"], rel=1e-5))


def test_a_request_that_names_none_gets_the_model_itself(served) -> None:
    assert translated(served) == translated(served, model="en-fr")
    reply = served.post("/translate", {"q": TEXT, "source": "en", "target": "fr"})
    assert reply.json()["translatedText"] == translated(served)["text"]
    assert len(served.ask("GET", "/languages").json()[0]["targets"]) == 1


def test_an_unknown_adapter_is_an_error_that_lists_the_others(served) -> None:
    reply = served.post("/api/translate", {"text": TEXT, "model": "en-fr+casual"})
    assert reply.status == 404 and "en-fr+formal" in json.dumps(reply.json())


def test_an_adapter_belongs_to_the_models_with_its_weights(folders, model_folder, tmp_path: Path) -> None:
    place = folders["en-fr"].parent
    models = [ModelName.read(str(place / "en-fr")), ModelName.read(f"copy={model_folder}")]
    formal = ModelName.read(str(place / "formal"))
    named = [it.name for it in with_adapters(models, [formal])]
    assert named == ["en-fr", "copy", "en-fr+formal", "copy+formal"]
    for folder in (place / "poems", model_folder, tmp_path / "nowhere"):
        with pytest.raises(ModelError) as caught:
            with_adapters(models, [ModelName.read(f"x={folder}")])
        assert caught.value.value in (str(folder), folder)
