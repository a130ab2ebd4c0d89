"""The walk-through in CONTRIBUTING.md works: its engine gives the answers of the torch engine."""

import ast
import re
import sys
import types
from pathlib import Path

import pytest

from clearhead.api import load
from clearhead.decode.registry import ENGINES
from clearhead.errors import ConfigError

PAGE = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_engine_of_the_walk_through_answers_as_torch_does(model_folder: Path, monkeypatch) -> None:
    section = PAGE.partition("## Add a decoding engine")[2].partition("\n## ")[0]
    code, entry = re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    [(name, paths)] = ast.literal_eval(f"{{{entry}}}").items()
    module = types.ModuleType(paths["encoder-decoder"].partition(":")[0])
    exec(code, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(ENGINES, name, paths)
    app, texts = load(model_folder), ["I am hungry.", "", "You are late."]
    found, expected = (app.results(texts, beam=1, engine=engine) for engine in (name, "torch"))
    assert [it.text for it in found] == [it.text for it in expected]
    assert [it.score for it in found] == pytest.approx([it.score for it in expected], abs=1e-4)
    assert app(texts, beam=1, engine=name, prefix="Je") == app(texts, beam=1, prefix="Je")
    with pytest.raises(ConfigError) as caught:
        app("I am hungry.", engine=name, beam=2)
    assert caught.value.name == "decode.beam"
