"""How a model in use shows itself in a notebook."""

import html
import re
import shutil
from pathlib import Path

import pytest

from clearhead.api import load
from clearhead.config import ModelConfig
from clearhead.inspection.record.parts import count_parameters
from clearhead.readers.pairs import read_pairs
from clearhead.scoring import score_labels


def numbers(page: str, cell: str = "td") -> list[int]:
    """The parameters of each row."""
    found = re.findall(rf"<tr><{cell}[^>]*>[^<]*</{cell}><{cell}[^>]*>([\d,]+)[^<]*</{cell}></tr>", page)
    return [int(it.replace(",", "")) for it in found]


def test_a_model_shows_its_sizes_and_parts_whose_parameters_add_up(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    page, model = app._repr_html_(), app.config.model
    total = count_parameters(app.model)["total"]
    assert sum(numbers(page)) == total and numbers(page, "th") == [total]
    assert f"{model.n_encoder_layers} encoder layers and {model.n_decoder_layers} decoder layers" in page
    assert f"width {model.d_model}, {model.n_heads} heads" in page and "clearhead translate " in page
    assert repr(app) == f"Translator({str(model_folder)!r}, {total:,} parameters)"


def test_its_command_can_be_pasted(model_folder: Path, tmp_path: Path) -> None:
    app = load(model_folder, device="cpu")
    app.path = tmp_path / "my model"
    assert f"clearhead translate '{app.path}' " in html.unescape(app._repr_html_())


def test_it_has_no_colours_of_its_own_and_closes_what_it_opens(model_folder: Path) -> None:
    page = load(model_folder, device="cpu")._repr_html_()
    assert not re.search("color|background", page)
    for tag in ("p", "b", "code", "table", "tr", "td", "th"):
        assert len(re.findall(rf"<{tag}[ >]", page)) == page.count(f"</{tag}>") > 0


def test_scores_are_shown_while_they_are_those_of_the_weights(model_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model_folder, copy)
    (tmp_path / "pairs.tsv").write_text("I am 1\tJe suis 1\nI am 2\tJe suis 2\n", encoding="utf-8")
    app = load(copy, device="cpu")
    assert "sentences" not in app._repr_html_()
    evaluation = app.evaluate(read_pairs([tmp_path / "pairs.tsv"]))
    app.save_evaluation(evaluation)
    assert f"{score_labels.spoken(evaluation.to_dict())} (2 sentences)" in html.unescape(app._repr_html_())
    app.weights_digest = "others"
    assert "sentences" not in app._repr_html_()


@pytest.mark.parametrize("content", ["", "[]", "{}", "7", '{"sentences": 3', "null"])
def test_what_cannot_be_read_of_the_scores_is_left_out(model_folder: Path, tmp_path: Path, content: str) -> None:
    app = load(model_folder, device="cpu")
    app.path = tmp_path
    (tmp_path / "evaluation.json").write_text(content, encoding="utf-8")
    assert "<table>" in app._repr_html_()


def test_every_text_is_escaped(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    app.path = Path("<script>alert('&')</script>")
    page = app._repr_html_()
    assert "<script" not in page and html.escape(str(app.path)) in page


@pytest.mark.parametrize(("topology", "said"), [("encoder-only", "encoder"), ("decoder-only", "decoder")])
def test_a_stack_alone_is_shown_alone(model_folder: Path, topology: str, said: str) -> None:
    from clearhead.model.transformer import build

    app = load(model_folder, device="cpu")
    shape = {"src_vocab_size": 50, "tgt_vocab_size": 50, "d_model": 16, "n_heads": 2, "d_ff": 32}
    config = ModelConfig(topology=topology, n_encoder_layers=2, n_decoder_layers=2, **shape)
    app.model, app.config = build(config), app.config.override({"model.topology": topology})
    page = app._repr_html_()
    assert sum(numbers(page)) == count_parameters(app.model)["total"]
    assert f"{said} layers" in page and page.count("layers, width") == 1 and " and " not in page
