"""Models in CTranslate2's form give the same scores here, and what we wrote is read back unchanged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import clearhead
from clearhead.config import ModelConfig
from clearhead.decode.model_handle import as_handle
from clearhead.errors import DataError, ModelError
from clearhead.exchange.ct2 import ct2_files
from clearhead.exchange.ctranslate2.binary import generated_table, read_binary, write_binary
from clearhead.exchange.import_model import import_model, read
from clearhead.model.restore import restore
from clearhead.model.transformer import build
from tests.builders import moved

TOKENS = ["<blank>", "<s>", "</s>", "<unk>", *(f"t{i}" for i in range(19))]
SIZES = {"src_vocab_size": 23, "tgt_vocab_size": 23, "d_model": 18, "n_heads": 3, "d_ff": 20, "max_len": 30}
SIZES |= {"n_encoder_layers": 2, "n_decoder_layers": 2}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"pre_norm": True, "tie": "none", "positions": "learned", "end": False},
    {"pre_norm": True, "final_norm": False, "tie": "target", "begin": True},
    {"final_norm": True, "embedding_norm": True, "projection_bias": True},
    {"norm": "rms", "bias": False, "feed_forward": "swiglu", "tie": "embeddings"},
    {"feed_forward": "geglu", "qkv_bias": False, "logit_scale": 0.5, "norm_eps": 0.1},
    {"feed_forward": "gelu", "attention_scale": 0.5, "embedding_scale": 1.0, "start_id": 2},
    {"feed_forward": "silu", "positions": "sinusoidal_halves", "d_head": 8},
    {"positions": "rotary", "pre_norm": True, "n_kv_heads": 1, "rotary": "500", "feed_forward": "gelu_tanh"},
]
Edit = Callable[[dict[str, NDArray[Any]]], dict[str, NDArray[Any]]]


def saved(folder: Path, topology: str = "encoder-decoder", **settings: Any) -> tuple[ModelConfig, torch.nn.Module]:
    """Write a random model of ours in CTranslate2's form."""
    sizes = SIZES if topology == "encoder-decoder" else SIZES | {"src_vocab_size": 0, "n_encoder_layers": 0}
    model = ModelConfig(topology=topology, mask_id=None, **sizes | settings)  # type: ignore[arg-type]
    torch.manual_seed(0)
    net = moved(build(model))
    folder.mkdir(exist_ok=True)
    sides = [TOKENS] if topology == "decoder-only" else [TOKENS, TOKENS]
    for name, data in ct2_files(model, as_handle(net, model).weights(), sides).items():
        (folder / name).write_bytes(data)
    return model, net


def edit(folder: Path, change: Edit, *, name: str = "TransformerSpec", revision: int = 7) -> None:
    """Rewrite model.bin with other variables."""
    values = change(dict(read_binary(folder / "model.bin")[1]))
    (folder / "model.bin").write_bytes(write_binary(name, revision, values, {}))


@pytest.mark.parametrize("topology", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_what_was_written_is_read_back(tmp_path: Path, settings: dict[str, Any], topology: str) -> None:
    if topology == "decoder-only":
        settings = {name: value for name, value in settings.items() if name not in ("begin", "end", "start_id")}
    _, net = saved(tmp_path, topology, **settings)
    imported = read(tmp_path)
    weights = net.state_dict()
    assert imported.weights.keys() == weights.keys()
    assert all(imported.weights[name].equal(weight) for name, weight in weights.items())
    again = restore(imported.config.model, imported.weights).eval()
    inputs = [torch.tensor([[5, 6, 7, 8]])] * (2 if topology == "encoder-decoder" else 1)
    with torch.no_grad():
        torch.testing.assert_close(again(*inputs), net(*inputs), rtol=0, atol=1e-6)
    special = imported.config.model
    assert (special.pad_id, special.bos_id, special.eos_id, special.unk_id) == (0, 1, 2, 3)
    for name in {"begin", "end", "start_id", "norm_eps", "positions"} & settings.keys():
        assert getattr(special, name) == settings[name]


def test_the_transliteration_model_gives_its_known_answers(data_folder: Path, tmp_path: Path) -> None:
    source = data_folder / "pretrained" / "ctranslate2-aren-transliteration"
    app = clearhead.load(import_model(source, tmp_path / "model"))
    assert (app.config.model.src_vocab_size, app.config.model.tgt_vocab_size) == (51, 43)
    for text, expected, score in (("آ ت ز م و ن", "a t z m o n", -0.15167), ("آ ت ز م ن", "a t z m a n", -0.18808)):
        (answer,) = app.results([text], beam=2, alpha=0.0)
        assert answer.text == expected
        assert answer.log_probability / len(answer.logprobs) == pytest.approx(score, abs=2e-5)
    with pytest.raises(DataError) as caught:
        app("آ ت ز م ؟ ن")
    assert caught.value.value == ["؟"]


def test_ctranslate2_scores_the_transliteration_model_as_we_do(data_folder: Path) -> None:
    ct2 = pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    folder = data_folder / "pretrained" / "ctranslate2-aren-transliteration"
    imported = read(folder)
    source, target = ((folder / f"{side}_vocabulary.txt").read_text().split("\n") for side in ("source", "target"))
    text, asked = [*source[5:40]], [*target[3:40]]
    (expected,) = ct2.Translator(str(folder), compute_type="float32").score_batch([text], [asked])
    net = restore(imported.config.model, imported.weights).eval()
    ids = [1, *map(target.index, asked), 2]
    with torch.no_grad():
        logits = net(torch.tensor([[source.index(it) for it in text]]), torch.tensor([ids[:-1]]))[0].log_softmax(-1)
    found = logits.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    np.testing.assert_allclose(found.numpy(), expected.log_probs, atol=1e-4)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.float16])
def test_quantised_weights_are_read_as_ctranslate2_reads_them(tmp_path: Path, kind: Any) -> None:
    ct2 = pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    saved(tmp_path, tie="none", pre_norm=True)

    def quantised(values: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        found = dict(values)
        for name, value in values.items():
            if kind == np.float16 and value.dtype == np.float32 and value.ndim:
                found[name] = value.astype(np.float16)
            elif kind != np.float16 and name.endswith("/weight"):
                rows = np.abs(value).max(1) if kind == np.int8 else np.abs(value).max()
                scale = (np.iinfo(kind).max / rows).astype(np.float32)
                found |= {name: np.rint(value * scale.reshape(-1, 1)).astype(kind), f"{name}_scale": scale}
        return found

    edit(tmp_path, quantised)
    imported = read(tmp_path)
    net = restore(imported.config.model, imported.weights).eval()
    translator = ct2.Translator(str(tmp_path), compute_type="float32")
    (expected,) = translator.score_batch([TOKENS[5:9]], [TOKENS[8:12]])
    with torch.no_grad():
        logits = net(torch.tensor([[5, 6, 7, 8, 2]]), torch.tensor([[1, 8, 9, 10, 11]]))[0].log_softmax(-1)
    found = logits.gather(1, torch.tensor([8, 9, 10, 11, 2])[:, None])[:, 0]
    np.testing.assert_allclose(found.numpy(), expected.log_probs, atol=1e-4)


def test_positions_that_are_not_stored_are_those_that_ctranslate2_computes(tmp_path: Path) -> None:
    saved(tmp_path)
    edit(tmp_path, lambda values: {name: it for name, it in values.items() if "encodings" not in name})
    imported = read(tmp_path)
    assert (imported.config.model.positions, imported.config.model.max_len) == ("learned", 1024)
    np.testing.assert_array_equal(imported.weights["encoder.positions.table"].numpy(), generated_table(1024, 18))
    table = generated_table(3, 18)
    assert table[2, 8] == pytest.approx(np.sin(3e-4)) and table[2, 9] == pytest.approx(np.cos(3))  # positions from 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("decoder/activation", np.int8(5)),
        ("decoder/alibi", np.int8(1)),
        ("encoder/pre_norm", np.int8(1)),
        ("decoder/layer_1/self_attention/relative_position_keys", np.zeros((3, 4), np.float32)),
        ("decoder/layer_0/self_attention/queries_scale", np.float32(2)),
        ("decoder/layer_0/self_attention/rotary_dim", np.int32(2)),
        ("decoder/layer_0/self_attention/rotary_interleave", np.int8(1)),
    ],
)
def test_what_our_parts_cannot_express_is_named(tmp_path: Path, name: str, value: Any) -> None:
    def change(values: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        if "queries" in name:
            values["decoder/layer_1/self_attention/queries_scale"] = np.array(3, np.float32)
        return values | {name: np.array(value)}

    saved(tmp_path)
    edit(tmp_path, change)
    with pytest.raises(ModelError) as caught:
        read(tmp_path)
    assert caught.value.name in (name, "model.pre_norm")


def test_another_kind_of_model_and_a_missing_variable_are_named(tmp_path: Path) -> None:
    saved(tmp_path)
    edit(tmp_path, lambda values: values, name="WhisperSpec")
    with pytest.raises(ModelError, match="WhisperSpec"):
        read(tmp_path)
    edit(tmp_path, lambda values: {n: v for n, v in values.items() if n != "decoder/projection/weight"})
    with pytest.raises(ModelError) as caught:
        read(tmp_path)
    assert caught.value.name == "decoder/projection/weight"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"source_vocabulary.json": TOKENS, "target_vocabulary.json": TOKENS[::-1]}, "at different places"),
        ({"shared_vocabulary.json": {"a": 1}}, "is damaged"),
        ({"shared_vocabulary.json": TOKENS[3:]}, "has no token '<s>'"),
    ],
)
def test_vocabularies_that_do_not_fit_are_rejected(tmp_path: Path, files: dict[str, Any], expected: str) -> None:
    saved(tmp_path)
    (tmp_path / "shared_vocabulary.json").unlink()
    (tmp_path / "config.json").unlink()
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=expected):
        read(tmp_path)


def test_without_padding_it_is_beyond_the_vocabulary(tmp_path: Path) -> None:
    saved(tmp_path, pad_id=23)
    (tmp_path / "shared_vocabulary.json").write_text(json.dumps(["x", *TOKENS[1:]]))
    assert read(tmp_path).config.model.pad_id == 23
