"""T5 computes the same here as in its own class."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import clearhead
from clearhead.errors import ModelError
from clearhead.exchange.huggingface import write
from clearhead.exchange.import_model import import_model, read

from ..conftest import assert_equal_states, shaken, spm_model, unicode_lines

LINES = unicode_lines()
SIZES = {"d_model": 24, "d_kv": 10, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
IDS = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
VARIANTS: dict[str, dict[str, Any]] = {
    "1.0": {},
    "1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "gated silu": {"feed_forward_proj": "gated-silu"},
    "other buckets": {"relative_attention_num_buckets": 12, "relative_attention_max_distance": 15},
}


def spiece() -> bytes:
    return spm_model(LINES[:600], pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


@pytest.fixture(scope="module")
def made(hf, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder in the form of the hub's for each variant, and the model in it."""
    pytest.importorskip("sentencepiece", reason="needs the extra sentencepiece")
    data, found = spiece(), {}
    for variant, settings in VARIANTS.items():
        folder = tmp_path_factory.mktemp("t5")
        torch.manual_seed(0)
        config = hf.T5Config(vocab_size=2600, **SIZES, **IDS, **settings)
        model = hf.T5ForConditionalGeneration(config)
        if variant == "1.1":
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
        shaken(model).save_pretrained(folder)
        (folder / "spiece.model").write_bytes(data)
        if variant == "1.1":  # the hub's folders say it so
            rewrite(folder, tie_word_embeddings=False, scale_decoder_outputs=None)
        found[variant] = SimpleNamespace(folder=folder, model=model)
    return found


def rewrite(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    config = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("variant", VARIANTS)
def test_states_and_logits_are_equal(made, opened, float64, monkeypatch, variant) -> None:
    config, ours = opened(made[variant].folder)
    assert config.model.tie == ("embeddings" if variant == "1.1" else "all")
    theirs = copy.deepcopy(made[variant].model).double()
    with monkeypatch.context() as patched:
        patched.setattr(torch, "float32", torch.float64)  # the library computes norms and softmax in it
        patched.setattr(torch.Tensor, "float", torch.Tensor.double)
        assert_equal_states(theirs, ours)


def test_ids_and_texts_are_equal(made, tmp_path) -> None:
    from sentencepiece import SentencePieceProcessor

    theirs = SentencePieceProcessor(model_proto=spiece())
    folder = import_model(made["1.0"].folder, tmp_path / "t5")
    app = clearhead.load(folder)
    assert [app.tokenizers.source.encode(line) for line in LINES] == theirs.encode(LINES)
    for beams in (1, 3):
        beam = {"num_beams": beams, "length_penalty": 0.0, "early_stopping": True} if beams > 1 else {}
        beam["use_cache"] = False  # theirs expects as many blocks in the decoder as in the encoder
        for line in LINES[:3]:
            ids = torch.tensor([[*theirs.encode(line), 1]])
            found = made["1.0"].model.generate(ids, max_new_tokens=12, do_sample=False, **beam)[0].tolist()
            result = app.results([line], beam=beams, alpha=0.0, max_len=12)[0]
            expected = [i for i in found[1:] if i != 1]
            assert list(result.tokens) == app.tokenizers.target.pieces(expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_exported_as_it_was_imported(made, hf, tmp_path, variant) -> None:
    imported = read(made[variant].folder)
    write(imported.config, imported.weights, imported.tokenizer, tmp_path / "hf")
    back = read(tmp_path / "hf")
    assert back.config == imported.config
    assert back.weights.keys() == imported.weights.keys()
    assert all(back.weights[name].equal(it) for name, it in imported.weights.items())
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf").eval()
    source, target = torch.tensor([[5, 6, 7, 1]]), torch.tensor([[0, 8, 9]])
    with torch.no_grad():
        expected = made[variant].model(source, decoder_input_ids=target).logits
        assert theirs(source, decoder_input_ids=target).logits.equal(expected)
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "hf")
    ids = clearhead.load(import_model(made[variant].folder, tmp_path / "ours")).tokenizers.source.encode(LINES[1])
    assert tokenizer(LINES[1])["input_ids"] == [*ids, 1]


def test_tied_weights_can_have_any_of_their_names(made, tmp_path) -> None:
    source = made["1.0"].folder
    weights = load_file(source / "model.safetensors")
    weights["encoder.embed_tokens.weight"] = weights.pop("shared.weight")
    save_file(weights, tmp_path / "model.safetensors")
    for name in ("config.json", "spiece.model"):
        (tmp_path / name).symlink_to(source / name)
    expected = read(source).weights
    assert all(it.equal(expected[name]) for name, it in read(tmp_path).weights.items())


@pytest.mark.parametrize(("name", "value"), [
    ("feed_forward_proj", "mish"), ("forced_bos_token_id", 3),
])  # fmt: skip
def test_a_setting_that_is_not_supported_is_named(made, tmp_path, name, value) -> None:
    for file in ("model.safetensors", "spiece.model"):
        (tmp_path / file).symlink_to(made["1.0"].folder / file)
    config = json.loads((made["1.0"].folder / "config.json").read_text()) | {name: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=f"{name}=.* isn't supported") as caught:
        read(tmp_path)
    assert caught.value.name == name
