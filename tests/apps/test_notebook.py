"""How a model in use shows itself in a notebook."""

import html
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from clearhead.api import load
from clearhead.apps.pages import summary
from clearhead.config import ModelConfig
from clearhead.inspection.record.parts import count_parameters
from clearhead.readers.pairs import read_pairs
from clearhead.scoring import score_labels


def numbers(shown: str, cell: str = "td") -> list[int]:
    """The parameters of each row."""
    found = re.findall(rf"<tr><{cell}[^>]*>[^<]*</{cell}><{cell}[^>]*>([\d,]+)[^<]*</{cell}></tr>", shown)
    return [int(it.replace(",", "")) for it in found]


def test_a_model_shows_its_sizes_and_parts_whose_parameters_add_up(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    shown, model = app._repr_html_(), app.config.model
    total = count_parameters(app.model)["total"]
    assert sum(numbers(shown)) == total and numbers(shown, "th") == [total]
    assert f"{model.n_encoder_layers} encoder layers and {model.n_decoder_layers} decoder layers" in shown
    assert f"d_model {model.d_model}, {model.n_heads} heads" in shown and "clearhead translate " in shown
    assert repr(app) == f"Translator({str(model_folder)!r})"


def test_its_command_can_be_pasted(model_folder: Path, tmp_path: Path) -> None:
    app = load(model_folder, device="cpu")
    app.model  # noqa: B018 - read before the path changes
    app.loaded.path = tmp_path / "my model"
    assert f"clearhead translate '{app.path}' " in html.unescape(app._repr_html_())


def test_it_has_no_colours_of_its_own_and_closes_what_it_opens(model_folder: Path) -> None:
    shown = load(model_folder, device="cpu")._repr_html_()
    assert not re.search("color|background", shown)
    for tag in ("p", "b", "code", "table", "tr", "td", "th"):
        assert len(re.findall(rf"<{tag}[ >]", shown)) == shown.count(f"</{tag}>") > 0


def test_scores_are_shown_while_they_are_those_of_the_weights(model_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model_folder, copy)
    (tmp_path / "pairs.tsv").write_text("I am 1\tJe suis 1\nI am 2\tJe suis 2\n", encoding="utf-8")
    app = load(copy, device="cpu")
    assert "sentences" not in app._repr_html_()
    evaluation = app.evaluate(read_pairs([tmp_path / "pairs.tsv"]))
    app.save_evaluation(evaluation)
    assert f"{score_labels.spoken(evaluation.to_dict())} (2 sentences)" in html.unescape(app._repr_html_())
    values = json.loads((copy / "evaluation.json").read_text(encoding="utf-8"))
    (copy / "evaluation.json").write_text(json.dumps({**values, "weights": "others"}), encoding="utf-8")
    assert "sentences" not in app._repr_html_()


@pytest.mark.parametrize("content", ["", "[]", "{}", "7", '{"sentences": 3', "null"])
def test_what_cannot_be_read_of_the_scores_is_left_out(model_folder: Path, tmp_path: Path, content: str) -> None:
    app = load(model_folder, device="cpu")
    app.model  # noqa: B018 - read before the path changes
    app.loaded.path = tmp_path
    (tmp_path / "evaluation.json").write_text(content, encoding="utf-8")
    assert "<table>" in app._repr_html_()


def test_every_text_is_escaped(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    app.model  # noqa: B018 - read before the path changes
    app.loaded.path = Path("<script>alert('&')</script>")
    shown = app._repr_html_()
    assert "<script" not in shown and html.escape(str(app.path)) in shown


@pytest.mark.parametrize(("topology", "said"), [("encoder-only", "encoder"), ("decoder-only", "decoder")])
def test_a_stack_alone_is_shown_alone(model_folder: Path, topology: str, said: str) -> None:
    from clearhead.loading import ModuleWatch
    from clearhead.model.transformer import build

    app = load(model_folder, device="cpu")
    shape = {"src_vocab_size": 50, "tgt_vocab_size": 50, "d_model": 16, "n_heads": 2, "d_ff": 32}
    config = ModelConfig(topology=topology, n_encoder_layers=2, n_decoder_layers=2, **shape)
    loaded = app.override({"model.topology": topology}).loaded
    loaded._watch = ModuleWatch(build(config), "")
    shown = summary(loaded, "Translator")
    assert sum(numbers(shown)) == count_parameters(loaded.model)["total"]
    assert f"{said} layers" in shown and shown.count("layers, d_model") == 1 and " and " not in shown


@pytest.mark.parametrize("content", ["[]", '{"sentences": "x"}', '{"sentences": 1, "bleu": "x"}', "[" * 9999, None])
def test_a_strange_evaluation_is_left_out(model_folder: Path, tmp_path: Path, content: str | None) -> None:
    copy = Path(shutil.copytree(model_folder, tmp_path / "copy"))
    (copy / "evaluation.json").unlink(missing_ok=True)
    if content is None:
        os.mkfifo(copy / "evaluation.json")
    else:
        (copy / "evaluation.json").write_text(content)
    assert "sentences" not in load(copy, device="cpu")._repr_html_()
