"""Our own models, exported to Hugging Face: the same logits, ids and texts, or an error that names what's missing."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.config import Config, DataConfig, ModelConfig
from clearhead.errors import ConfigError, ModelError, TrainingError
from clearhead.exchange.families.bart import reordered_dims, sines_first
from clearhead.exchange.huggingface import families, write
from clearhead.exchange.import_model import import_model, read
from clearhead.exchange.targets import export
from clearhead.model.transformer import build
from clearhead.tokenization.source_and_target import Tokenizers, train_tokenizers

from ..apps.test_foreign_tokenizers import save
from .conftest import shaken, unicode_lines

LINES = unicode_lines(200)
TEXTS = ["I am hungry.", "You are late. </s>", "They sing: été, 3 €, 漢."]
SHAPE = {"d_model": 18, "n_heads": 3, "d_ff": 20, "n_encoder_layers": 2, "n_decoder_layers": 3, "max_len": 40}


@pytest.fixture(scope="module")
def vocabulary() -> Tokenizers:
    return train_tokenizers(LINES, LINES, DataConfig(tokenizer="bpe", vocab_size=400))


def made(vocabulary: Tokenizers, **settings: Any) -> tuple[Config, torch.nn.Module]:
    size = vocabulary.source.vocab_size
    model = ModelConfig(src_vocab_size=size, tgt_vocab_size=size, **{**SHAPE, **settings})
    torch.manual_seed(0)
    return Config(model=model), shaken(build(model))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tie": "target"},
        {"tie": "none", "feed_forward": "gelu"},
        {"projection_bias": True, "embedding_scale": 1.0, "feed_forward": "silu"},
        {"positions": "sinusoidal_halves", "d_model": 15},
        {"positions": "learned", "embedding_norm": True, "feed_forward": "gelu_tanh", "embedding_scale": 1.0},
        {
            "positions": "relative", "pre_norm": True, "norm": "rms", "bias": False, "embedding_scale": 1.0,
            "attention_scale": 1.0, "projection_bias": False, "d_head": 5, "norm_eps": 0.1,
        },
    ],
    ids=str,
)  # fmt: skip
def test_logits_and_ids_are_equal(hf, vocabulary, tmp_path, settings) -> None:
    config, ours = made(vocabulary, **settings)
    write(config, ours.state_dict(), vocabulary.to_json(), tmp_path / "hf")
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf").eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "hf")
    source, target = torch.tensor([[7, 8, 9, 10, 2], [6, 5, 2, 0, 0]]), torch.tensor([[1, 5, 6], [1, 7, 300]])
    with torch.no_grad():
        found = theirs(source, attention_mask=(source != 0).long(), decoder_input_ids=target).logits
        expected = ours(source, target, source_mask=(source != 0)[:, None, None])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    for line in [*LINES, "</s> <pad> a"]:
        assert tokenizer(line)["input_ids"] == [*vocabulary.source.encode(line), 2]
        assert tokenizer.decode(vocabulary.source.encode(line), skip_special_tokens=True) == vocabulary.source.decode(
            vocabulary.source.encode(line)
        )
    again = read(tmp_path / "hf")  # every model that's exported can be imported
    assert again.config.model.vocabulary_sizes == config.model.vocabulary_sizes


def test_a_trained_models_translations_are_equal(hf, model_folder: Path, tmp_path: Path) -> None:
    app = clearhead.load(model_folder)
    export(app.loaded, "huggingface", tmp_path / "hf")
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf").eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "hf")
    expected = [app(text, beam=1, max_len=30, max_extra=30) for text in TEXTS]
    for text, answer in zip(TEXTS, expected):
        ids = tokenizer(text, return_tensors="pt")
        found = theirs.generate(**ids, num_beams=1, early_stopping=False, max_length=31)
        assert tokenizer.decode(found[0], skip_special_tokens=True) == answer
    back = clearhead.load(import_model(tmp_path / "hf", tmp_path / "ours"))
    assert [back(text, beam=1, max_len=30, max_extra=30) for text in TEXTS] == expected
    assert {it.name for it in (tmp_path / "hf").iterdir()} == {
        *("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    }


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"pre_norm": True}, "pre_norm"),
        ({"norm": "rms"}, "norm"),
        ({"copy": True}, "copy"),
        ({"positions": "alibi"}, "positions"),
        ({"tie": "embeddings"}, "tie"),
        ({"embedding_scale": 2.0}, "embedding_scale"),
        ({"bias": False}, "bias"),
        ({"n_kv_heads": 1}, "n_kv_heads"),
        ({"logit_scale": 0.5}, "logit_scale"),
        ({"feed_forward": "swiglu"}, "feed_forward"),
        ({"norm_eps": 0.1}, "norm_eps"),
    ],
    ids=str,
)
def test_a_part_without_counterpart_is_named(vocabulary, tmp_path, settings, name) -> None:
    config, ours = made(vocabulary, **settings)
    with pytest.raises(ModelError, match=f"model.{name}=.* no counterpart in Marian"):
        write(config, ours.state_dict(), vocabulary.to_json(), tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_a_model_of_texts_is_compared_with_families_of_texts_first() -> None:
    model = ModelConfig(
        topology="encoder-only", positions="rotary", pooling="mean", pre_norm=True, head="class", n_classes=2
    )
    lacking = [kind.lacks(model) for kind in families(Config(model=model))]
    assert "model.front" in min(lacking, key=len) and "model.front" not in lacking[0]


def test_an_export_that_auto_tokenizer_splits_in_its_own_way_says_so(hf, vocabulary, tmp_path, capsys) -> None:
    parts = {
        "positions": "rotary",
        "norm": "rms",
        "bias": False,
        "qkv_bias": True,
        "embedding_scale": 1.0,
        "tie": "target",
    }
    parts |= {"pre_norm": True, "feed_forward": "swiglu", "projection_bias": False}
    settings = {f"model.{name}": it for name, it in parts.items()}
    text, size = vocabulary.source.to_json(), vocabulary.source.vocab_size
    export(
        clearhead.load(save(tmp_path / "own", "generate", text, size, settings)).loaded, "huggingface", tmp_path / "hf"
    )
    assert "PreTrainedTokenizerFast.from_pretrained" in capsys.readouterr().err
    theirs = hf.PreTrainedTokenizerFast.from_pretrained(tmp_path / "hf")
    assert theirs(LINES)["input_ids"] == vocabulary.source.encode_batch(LINES)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_two_vocabularies_become_two_tokenizer_files(hf, tmp_path, kind) -> None:
    two = train_tokenizers(LINES, [line[::-1] for line in LINES], DataConfig(joint=False, tokenizer=kind))
    sizes = {"src_vocab_size": two.source.vocab_size, "tgt_vocab_size": two.target.vocab_size}
    config = Config(model=ModelConfig(tie="target", **{**SHAPE, **sizes}))
    torch.manual_seed(0)
    ours = shaken(build(config.model))
    write(config, ours.state_dict(), two.to_json(), tmp_path / "hf")
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf").eval()
    source, target = torch.tensor([[7, 8, 9, 2]]), torch.tensor([[1, 5, 6]])
    with torch.no_grad():
        torch.testing.assert_close(theirs(source, decoder_input_ids=target).logits, ours(source, target))
    reading = hf.AutoTokenizer.from_pretrained(tmp_path / "hf")
    writing = hf.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "hf" / "target_tokenizer.json"))
    for line in LINES[:20]:
        assert reading(line)["input_ids"] == [*two.source.encode(line), 2]
        ids = two.target.encode(line[::-1])
        assert writing.decode(ids, skip_special_tokens=True) == two.target.decode(ids)
    back = read(tmp_path / "hf")
    assert back.config.model.vocabulary_sizes == sizes


def test_int8_is_only_for_onnx_and_files_are_left_alone(model_folder: Path, tmp_path: Path) -> None:
    app = clearhead.load(model_folder)
    with pytest.raises(ConfigError, match="precision 'int8'"):
        export(app.loaded, "huggingface", tmp_path / "hf", precision="int8")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TrainingError, match=r"notes\.txt"):
        export(app.loaded, "huggingface", tmp_path)


def test_a_permuted_model_computes_the_same_from_permuted_positions(vocabulary) -> None:
    config, ours = made(vocabulary, positions="sinusoidal_halves", tie="none", d_model=15)
    halves = ours.state_dict()
    interleaved = build(ModelConfig(**{**vars(config.model), "positions": "sinusoidal"})).eval()
    order = sines_first(15)
    interleaved.load_state_dict(reordered_dims(halves, order.argsort()))
    source, target = torch.tensor([[7, 8, 9, 2]]), torch.tensor([[1, 5, 6]])
    with torch.no_grad():
        torch.testing.assert_close(interleaved(source, target), ours(source, target), rtol=0, atol=1e-5)
    back = reordered_dims(interleaved.state_dict(), order)
    assert all(back[name].equal(it) for name, it in halves.items())


def test_settings_for_decoding_are_written(vocabulary, tmp_path) -> None:
    config, ours = made(vocabulary)
    config = config.assign({"decode.no_repeat_ngram": 3, "decode.beam": 2}, "user")
    write(config, ours.state_dict(), vocabulary.to_json(), tmp_path / "hf")
    found = json.loads((tmp_path / "hf" / "generation_config.json").read_text())
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    search = {"max_length": 40, "num_beams": 2, "early_stopping": True, "no_repeat_ngram_size": 3}
    assert found == ids | search | {"length_penalty": 0.6, "suppress_tokens": [0, 1, 3]}
