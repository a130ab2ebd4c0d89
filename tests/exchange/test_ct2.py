"""Models in CTranslate2's form: CTranslate2 computes what ours compute, and what it can't express is named."""

import json
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.config import ModelConfig
from clearhead.decode.engines.ct2_engine import ct2_obstacle
from clearhead.decode.model_handle import as_handle
from clearhead.errors import ConfigError
from clearhead.exchange.ct2 import ct2_files
from clearhead.model.transformer import build
from tests.builders import model_config, moved

V = 23
TOKENS = [f"t{i}" for i in range(V)]
SOURCES = [[5, 6, 7, 8], [9], [4, 10, 11, 12, 13, 14]]
TARGETS = [[8, 7, 6], [5, 4], [13, 9, 9, 10, 11]]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"pre_norm": True, "tie": "none"},
    {"pre_norm": True, "final_norm": False, "tie": "target"},
    {"final_norm": True, "embedding_norm": True, "projection_bias": True},
    {"norm": "rms", "bias": False, "feed_forward": "swiglu", "tie": "embeddings"},
    {"feed_forward": "geglu", "qkv_bias": False, "logit_scale": 0.3},
    {"feed_forward": "gelu", "attention_scale": 0.7, "embedding_scale": 1.0},
    {"feed_forward": "gelu_tanh", "positions": "learned", "start_id": 2},
    {"feed_forward": "silu", "positions": "sinusoidal_halves", "norm_eps": 0.1, "d_model": 15, "d_head": 8},
    {"positions": "rotary", "pre_norm": True, "n_kv_heads": 1, "d_head": 6},
]
LANGUAGE_MODELS = VARIANTS


config = partial(model_config, vocab=V, d_model=18, d_ff=20, n_heads=3, max_len=30)


def built(settings: ModelConfig) -> torch.nn.Module:
    torch.manual_seed(0)
    return moved(build(settings))


def written(folder: Path, net: torch.nn.Module, settings: ModelConfig, precision: str = "fp32") -> str:
    sides, weights = 1 if settings.topology == "decoder-only" else 2, as_handle(net, settings).weights()
    for name, data in ct2_files(settings, weights, [TOKENS] * sides, precision=precision).items():
        (folder / name).write_bytes(data)
    return str(folder)


def words(ids: list[int]) -> list[str]:
    return [TOKENS[i] for i in ids]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_ctranslate2_scores_translations_as_we_do(tmp_path: Path, settings: dict[str, Any]) -> None:
    ct2 = pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    model = config("encoder-decoder", **settings)
    net = built(model)
    translator = ct2.Translator(written(tmp_path, net, model), compute_type="float32", intra_threads=1)
    found = translator.score_batch([words(it) for it in SOURCES], [words(it) for it in TARGETS])
    for source, target, scored in zip(SOURCES, TARGETS, found):
        read, asked = model.special.source(source), model.special.target(target)
        with torch.no_grad():
            logits = net(torch.tensor([read]), torch.tensor([asked[:-1]]))[0].log_softmax(-1)
        expected = logits.gather(1, torch.tensor(asked[1:])[:, None])[:, 0].numpy()
        np.testing.assert_allclose(scored.log_probs, expected, atol=1e-4)


@pytest.mark.parametrize("settings", LANGUAGE_MODELS, ids=str)
def test_ctranslate2_scores_texts_as_we_do(tmp_path: Path, settings: dict[str, Any]) -> None:
    ct2 = pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    model = config("decoder-only", **settings)
    net = built(model)
    generator = ct2.Generator(written(tmp_path, net, model), compute_type="float32", intra_threads=1)
    found = generator.score_batch([words(it) for it in SOURCES if len(it) > 1])
    for text, scored in zip([it for it in SOURCES if len(it) > 1], found):
        with torch.no_grad():
            logits = net(torch.tensor([text[:-1]]))[0].log_softmax(-1)
        expected = logits.gather(1, torch.tensor(text[1:])[:, None])[:, 0].numpy()
        np.testing.assert_allclose(scored.log_probs, expected, atol=1e-4)


@pytest.mark.parametrize("topology", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize(("precision", "bytes_each", "atol"), [
    ("fp16", 2, 0.02), ("bf16", 2, 0.1), ("int16", 2, 0.3), ("int8", 1, 0.3),
])  # fmt: skip
def test_smaller_types_change_the_scores_little(
    tmp_path: Path, topology: str, precision: str, bytes_each: int, atol: float
) -> None:
    ct2 = pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    model = config(topology, positions="rotary", d_model=32, n_heads=2, d_ff=64)
    net, text, found, sizes = built(model), [5, 6, 7, 8, 9], {}, {}
    for name in ("fp32", precision):
        (folder := tmp_path / name).mkdir()
        written(folder, net, model, name)
        kind = ct2.Translator if topology == "encoder-decoder" else ct2.Generator
        loaded = kind(str(folder), compute_type="default", intra_threads=1)
        both = ([words(text)], [words(text)]) if topology == "encoder-decoder" else ([words(text)],)
        found[name] = np.array(loaded.score_batch(*both)[0].log_probs)
        sizes[name] = (folder / "model.bin").stat().st_size
    difference = np.abs(found["fp32"] - found[precision]).max()
    assert 0 < difference < atol
    assert sizes[precision] < sizes["fp32"] * (bytes_each + 1) / 4


def test_tied_matrices_are_written_once() -> None:
    model = config("encoder-decoder")
    weights = dict(as_handle(built(model), model).weights())
    size = len(ct2_files(model, weights, [TOKENS, TOKENS])["model.bin"])
    untied = config("encoder-decoder", tie="none", projection_bias=False)
    more = ct2_files(untied, as_handle(built(untied), untied).weights(), [TOKENS, TOKENS])["model.bin"]
    assert len(more) - size == pytest.approx(2 * V * 18 * 4, abs=60)
    del weights["encoder.embedding.weight"], weights["decoder.embedding.weight"]
    assert len(ct2_files(model, weights, [TOKENS, TOKENS])["model.bin"]) == size  # the projection's name is enough


def test_the_file_begins_with_version_name_and_revision_and_ends_with_the_aliases() -> None:
    model = config("encoder-decoder")
    data = ct2_files(model, as_handle(built(model), model).weights(), [TOKENS, TOKENS])["model.bin"]
    assert data.startswith(struct.pack("<IH", 6, 16) + b"TransformerSpec\0" + struct.pack("<I", 7))
    assert data.endswith(b"decoder/projection/weight\0" + struct.pack("<H", 28) + b"encoder/embeddings_0/weight\0")


def test_each_side_has_its_own_vocabulary_if_they_differ() -> None:
    model = config("encoder-decoder", tie="target", unk_id=None, mask_id=None)
    weights = as_handle(built(model), model).weights()
    files = ct2_files(model, weights, [TOKENS, TOKENS[::-1]])
    assert json.loads(files["source_vocabulary.json"]) == TOKENS
    assert json.loads(files["target_vocabulary.json"]) == TOKENS[::-1]
    assert json.loads(files["config.json"])["unk_token"] == TOKENS[::-1][1]  # there's no unknown word: the first input


@pytest.mark.parametrize(
    "settings",
    [
        {"copy": True},
        {"positions": "alibi"},
        {"positions": "relative"},
        {"window": 3},
        {"positions": "rotary", "rotary": "10000:linear:2"},
        {"attention": "mine:Attention"},
        {"feed_forward": "mine:Network"},
        {"norm": "mine:Norm"},
        {"front": "frames"},
        {"topology": "encoder-only", "head": "class"},
    ],
    ids=str,
)
def test_a_model_that_it_cant_express_is_rejected_by_its_setting(settings: dict[str, Any]) -> None:
    model = config(**{"topology": "encoder-decoder", **settings})
    name = [it for it in settings if it != "head"][-1]
    assert f"model.{name}={settings[name]!r}" in ct2_obstacle(model)
    with pytest.raises(ConfigError) as caught:
        ct2_files(model, {}, [TOKENS])
    assert f"model.{name}={settings[name]!r}" in caught.value.what
