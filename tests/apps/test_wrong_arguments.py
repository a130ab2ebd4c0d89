"""Arguments of the wrong type, given to every public method of every app, are errors with fields."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead import ClearheadError
from clearhead.apps.app import App
from tests.builders import make_encoder_folder

WRONG = [5, 1.5, "\ud800", "\0", b"x", [5], ["\ud800"], [None], {"a": 1}, object(), True, 10**400, np.zeros(2), [["a"]]]
INTERNAL = {"result", "writer", "generator", "row_results"}  # called by other modules only
LONG = {"ablate", "verify"}  # read data like `evaluate`


@pytest.fixture(scope="module")
def apps(model_folder: Path, answer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[App]:
    encoders = [
        make_encoder_folder(tmp_path_factory.mktemp("wrong") / task, task=task, **settings)
        for task, settings in {"fill": {}, "embed": {}}.items()
    ]
    return [clearhead.load(folder, device="cpu") for folder in (model_folder, answer_folder, *encoders)]


def is_answered(call: Any, **arguments: Any) -> None:
    """Call a method. Raise anything but an error with fields."""
    try:
        found = call(**arguments)
        if hasattr(found, "__next__"):
            list(found)
    except ClearheadError as error:
        assert error.what and (error.expected or error.fix), (call, arguments, error.__dict__)


def test_every_argument_of_every_method(apps: list[App]) -> None:
    for app in apps:
        for name, method in inspect.getmembers(type(app), inspect.isfunction):
            if (name.startswith("_") and name != "__call__") or name in INTERNAL | LONG:
                continue
            every = list(inspect.signature(method).parameters.values())[1:]
            needed = {it.name: "a b" for it in every if it.default is it.empty and "VAR" not in it.kind.name}
            for it in every:
                for wrong in WRONG if "VAR" not in it.kind.name else []:
                    is_answered(getattr(app, name), **needed | {it.name: wrong})


def test_every_app_has_results_with_a_record_for_each_text(apps: list[App]) -> None:
    for app in apps:
        given = {"context": "it is here"} if "context" in inspect.signature(app.results).parameters else {}
        texts = ["where [MASK]", "who [MASK]"]
        assert [type(it.to_dict()) for it in app.results(texts, **given)] == [dict, dict]


@pytest.mark.parametrize("wrong", [None, "x", 5, {}, object()])
def test_public_functions(apps: list[App], wrong: Any) -> None:
    for call in (clearhead.build, clearhead.preset, clearhead.published, clearhead.Config.from_dict, clearhead.train):
        if (call, wrong) != (clearhead.Config.from_dict, {}):
            with pytest.raises(clearhead.ConfigError) as caught:
                call(wrong)
            assert caught.value.what and caught.value.expected
    for call in (clearhead.load, clearhead.read_pairs, clearhead.Config.from_toml, apps[0].save_evaluation):
        with pytest.raises(ClearheadError) as caught:
            call(wrong)
        assert caught.value.what and caught.value.expected
