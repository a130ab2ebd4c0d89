"""What `import` checks before it writes a model folder, and what it says about folders that it can't read."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import clearhead
from clearhead.cli.entry import main
from clearhead.config import Config, DataConfig, ModelConfig
from clearhead.errors import ModelError
from clearhead.exchange.ct2 import export as export_to_ct2
from clearhead.exchange.huggingface import FAMILIES, write
from clearhead.exchange.import_model import import_model
from clearhead.exchange.targets import export
from clearhead.model.transformer import build
from clearhead.tokenization.source_and_target import train_tokenizers

ROOT = Path(__file__).parents[2]
LINES = ["the cat sat on the mat", "a dog ran after the cat"] * 3
SHAPE: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 24, "max_len": 32, "embedding_scale": 1.0}
GPT2 = {"topology": "decoder-only", "pre_norm": True, "n_decoder_layers": 2, "feed_forward": "gelu_tanh"}
BERT = {"topology": "encoder-only", "n_encoder_layers": 2, "n_token_types": 2, "feed_forward": "gelu"}
BERT |= {"embedding_norm": True, "begin": True}
BART = {"n_encoder_layers": 1, "n_decoder_layers": 1, "embedding_norm": True, "projection_bias": True}


def saved(folder: Path, task: str, **settings: Any) -> Path:
    """Write a random model of ours as a folder of Hugging Face's."""
    tokenizers = train_tokenizers(LINES, LINES, DataConfig(tokenizer="bpe", vocab_size=300))
    size = tokenizers.source.vocab_size
    sizes = {"src_vocab_size": size, "tgt_vocab_size": size}
    sizes |= {"src_vocab_size": 0, "n_encoder_layers": 0} if settings.get("topology") == "decoder-only" else {}
    model = ModelConfig(positions="learned", **{**SHAPE, **sizes, **settings})
    torch.manual_seed(0)
    config = Config(model=model).assign({"train.task": task}, "model")
    write(config, build(model).state_dict(), tokenizers.to_json(), folder)
    return folder


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    return saved(tmp_path / "gpt2", "generate", **GPT2)


def edit(folder: Path, file: str = "config.json", **settings: Any) -> None:
    """Change settings of a JSON file, which may be missing."""
    path = folder / file
    known = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(known | settings))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = {name: it.clone() for name, it in load_file(folder / "model.safetensors").items()}
    change(weights)
    save_file(weights, folder / "model.safetensors")


def fails(folder: Path, **options: Any) -> str:
    """Import a folder; return the message of its error. Nothing is written."""
    out = folder.parent / "out"
    with pytest.raises(ModelError) as caught:
        import_model(folder, out, **options)
    assert not out.exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("transformer.wte.weight", (7, 16)),
        ("transformer.wpe.weight", (8, 16)),
        ("transformer.h.1.attn.c_attn.weight", (48, 16)),
    ],
)
def test_weights_of_another_shape_are_found_before_a_folder_is_written(gpt2: Path, name: str, shape: Any) -> None:
    edit_weights(gpt2, lambda weights: weights.update({name: torch.zeros(shape)}))
    assert f"has shape {shape if 'attn' not in name else shape[::-1]}" in fails(gpt2)


def test_a_tokenizer_of_another_size_is_found_before_a_folder_is_written(gpt2: Path) -> None:
    size = json.loads((gpt2 / "config.json").read_text())["vocab_size"] - 9
    edit(gpt2, vocab_size=size)
    edit_weights(gpt2, lambda weights: weights.update({"transformer.wte.weight": torch.zeros(size, 16)}))
    assert f"the tokenizer of {gpt2} has" in fails(gpt2)


def test_parts_that_cant_be_joined_are_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "bert", "embed", **BERT)
    edit_weights(folder, lambda it: it.update({"encoder.layer.1.attention.self.key.weight": torch.zeros(16, 5)}))
    assert "have shapes that don't fit: (16, 16) and (16, 5) and (16, 16)" in fails(folder)


@pytest.mark.parametrize("content", ["{}", '{"model": {"vocab": 3}}'])
def test_a_damaged_tokenizer_is_named(gpt2: Path, content: str) -> None:
    (gpt2 / "tokenizer.json").write_text(content)
    assert "tokenizer.json can't be used by the tokenizers library" in fails(gpt2)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("n_head", "two", "model.n_heads='two' isn't valid"),
        ("resid_pdrop", "a", "model.dropout='a' isn't valid"),
        ("activation_function", [1], "activation_function=[1], which isn't supported"),
        ("eos_token_id", [], "model.eos_id=[] isn't valid"),
        ("architectures", "GPT2LMHeadModel", "expected: a list of names"),
        ("architectures", 5, "has a value of the wrong type"),
        ("bad_words_ids", [3], "expected: a list of words"),
        ("model_type", None, "has no model_type"),
        ("model_type", "mbart", "config.json has model_type='mbart', a family that can't be read"),
    ],
)
def test_a_value_that_doesnt_fit_is_named(gpt2: Path, name: str, value: Any, said: str) -> None:
    (gpt2 / "generation_config.json").unlink()  # it would be read in place of config.json
    edit(gpt2, **{name: value})
    message = fails(gpt2)
    assert said in message
    assert "did you mean" not in message


def test_missing_and_unknown_weights_are_named(gpt2: Path) -> None:
    edit_weights(gpt2, lambda weights: weights.pop("transformer.ln_f.weight"))
    assert "weights are missing: ln_f.weight" in fails(gpt2)
    edit_weights(gpt2, lambda weights: weights.update({f"transformer.x{i}": torch.zeros(2) for i in range(7)}))
    edit_weights(gpt2, lambda weights: weights.update({"transformer.ln_f.weight": torch.ones(16)}))
    assert "that GPT-2 doesn't have: x0, x1, x2, x3, x4 and 2 more" in fails(gpt2)


@pytest.mark.parametrize("name", ["h.1.attn.c_attn", "h.0.ln_1", "h.1.mlp.c_proj"])
def test_a_missing_bias_is_found_before_a_folder_is_written(gpt2: Path, name: str) -> None:
    edit_weights(gpt2, lambda weights: weights.pop(f"transformer.{name}.bias"))
    assert f"{gpt2} has no weights for blocks.{name[2]}." in fails(gpt2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (torch.full((16,), float("nan")), "NaN or infinity"),
        (torch.full((16,), float("-inf"), dtype=torch.float16), "NaN or infinity"),
        (torch.ones(16, dtype=torch.int8), r"integers (torch.int8)"),
    ],
)
def test_weights_that_arent_finite_numbers_are_named(gpt2: Path, content: torch.Tensor, said: str) -> None:
    edit_weights(gpt2, lambda weights: weights.update({"transformer.h.0.ln_1.weight": content}))
    assert f"contain {said}" in fails(gpt2)


def test_a_model_of_clearhead_needs_no_import(gpt2: Path, tmp_path: Path) -> None:
    own = import_model(gpt2, tmp_path / "own")
    assert "is a model of Clearhead" in fails(own)


def test_a_zip_archive_is_read_as_its_folder_and_named_in_errors(gpt2: Path, tmp_path: Path) -> None:
    for name in ("metadata.json", "data.npz"):  # as packages of Argos Translate and downloads of OPUS-MT have them
        (gpt2 / name).write_text("{}")
    path = Path(shutil.make_archive(str(tmp_path / "download"), "zip", tmp_path, "gpt2"))
    assert clearhead.load(import_model(path, tmp_path / "own")).config.train.task == "generate"
    edit(gpt2, model_type="gpt3")
    path = Path(shutil.make_archive(str(tmp_path / "download"), "zip", tmp_path, "gpt2"))
    assert f"{path}/gpt2/config.json has model_type='gpt3'" in fails(path)


@pytest.mark.parametrize(("task", "said"), [("fill", "a BertModel can't be used for fill"), ("generate", "expected: ")])
def test_a_task_that_doesnt_fit_the_class_is_rejected(tmp_path: Path, task: str, said: str) -> None:
    assert said in fails(saved(tmp_path / "bert", "embed", **BERT), task=task)


@pytest.mark.parametrize("task", ["translate", "summarize"])
def test_an_encoder_decoder_is_for_translations_and_summaries(tmp_path: Path, task: str) -> None:
    own = import_model(saved(tmp_path / "bart", "summarize", **BART), tmp_path / "own", task=task)
    assert clearhead.load(own).config.train.task == task


def test_a_file_that_has_an_unsupported_setting_is_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "bart", "summarize", **BART)
    edit(folder, "generation_config.json", forced_bos_token_id=0)
    assert f"{folder / 'generation_config.json'} has forced_bos_token_id=0" in fails(folder)


def test_an_encoder_decoder_is_imported_without_notes(tmp_path: Path) -> None:
    folder, notes = saved(tmp_path / "bart", "summarize", **BART), []
    edit(folder, is_decoder=False)
    edit(folder, "generation_config.json", num_beams=1)
    import_model(folder, tmp_path / "out", say=notes.append)
    assert not notes


@pytest.mark.parametrize("settings", [GPT2, BART], ids=["decoder", "encoder-decoder"])
def test_tied_weights_of_ctranslate2_are_written_once(tmp_path: Path, settings: dict[str, Any]) -> None:
    task = "generate" if settings is GPT2 else "summarize"
    app = clearhead.load(import_model(saved(tmp_path / "hf", task, **settings), tmp_path / "model"))
    export_to_ct2(app.loaded, tmp_path / "ct2")
    again = clearhead.load(import_model(tmp_path / "ct2", tmp_path / "again", task=task))
    for name, weight in app.loaded.model.state_dict().items():
        assert again.loaded.model.state_dict()[name].equal(weight)


def test_a_ctranslate2_folder_without_vocabulary_is_named(gpt2: Path, tmp_path: Path) -> None:
    app = clearhead.load(import_model(gpt2, tmp_path / "model"))
    export_to_ct2(app.loaded, tmp_path / "ct2")
    (tmp_path / "ct2" / "vocabulary.json").unlink()
    assert f"{tmp_path / 'ct2'} has no vocabulary" in fails(tmp_path / "ct2")


def test_an_encoder_for_embeddings_is_exported_with_its_folders(tmp_path: Path, capsys: Any) -> None:
    own = import_model(saved(tmp_path / "hf", "embed", **BERT), tmp_path / "own")
    assert main(["export", str(own), "--to", "huggingface", "--out", str(tmp_path / "st")]) == 0
    assert (tmp_path / "st" / "1_Pooling" / "config.json").is_file()
    assert main(["import", str(tmp_path / "st"), "--out", str(tmp_path / "back")]) == 0
    assert clearhead.load(tmp_path / "back").config.train.task == "embed"


@pytest.mark.parametrize("pooling", [None, "mean"])
def test_a_classifier_trained_from_an_encoder_is_exported_or_it_is_said_before(tmp_path: Path, pooling: Any) -> None:
    own = import_model(saved(tmp_path / "bert", "embed", **BERT), tmp_path / "own")
    values = {"train.init_from": str(own), "train.task": "classify", "train.steps": 1, "train.warmup": 0}
    values |= {"train.threads": 1, "train.precision": "fp32"} | ({"model.pooling": pooling} if pooling else {})
    said: list[str] = []
    rows = [(line, line[0]) for line in LINES]
    tuned = clearhead.train(Config().override(values), tmp_path / "tuned", data=rows, say=said.append)
    loaded = clearhead.load(tuned).loaded
    if pooling:
        assert any("can't be exported to huggingface" in it and "model.pooling='mean'" in it for it in said)
        return
    assert not any("can't be exported" in it for it in said)
    export(loaded, "hf", tmp_path / "back")
    theirs = json.loads((tmp_path / "back" / "config.json").read_text())
    assert theirs["architectures"] == ["BertForSequenceClassification"]


def test_info_says_that_another_program_trained_the_model(gpt2: Path, tmp_path: Path, capsys: Any) -> None:
    import_model(gpt2, tmp_path / "own")
    capsys.readouterr()
    assert main(["info", str(tmp_path / "own")]) == 0
    shown = capsys.readouterr().out
    assert "trained     by another program" in shown
    assert "\ndata " not in shown


def test_the_documents_name_the_classes_of_each_family() -> None:
    rows = [
        line.split("|")[1:3] for line in (ROOT / "docs" / "exchange.md").read_text("utf-8").splitlines() if "|" in line
    ]
    named = {title.strip().split(",")[0]: set(re.findall(r"`(\w+)`", classes)) for title, classes in rows}
    for kind in FAMILIES.values():
        assert named[kind.title] == set(kind.architectures), kind.title
