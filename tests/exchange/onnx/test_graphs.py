"""In ONNX Runtime, an exported graph returns what the model returns in torch, for batches and lengths of any size."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.errors import ModelError
from clearhead.exchange.onnx.graphs import graphs, trace
from clearhead.model.transformer import build
from tests.builders import moved

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

V, PAD = 50, 0
SIZES = {"src_vocab_size": V, "tgt_vocab_size": V, "d_model": 24, "n_heads": 4, "d_ff": 40, "max_len": 300}

ENCODER_DECODERS = {
    "sinusoidal, post-norm, copying, two blocks": {"copy": True, "n_encoder_layers": 2, "n_decoder_layers": 2},
    "relative, pre-norm, RMSNorm, GQA, a window": {
        "positions": "relative", "pre_norm": True, "norm": "rms", "n_kv_heads": 2, "window": 3, "feed_forward": "geglu",
        "tie": "target",
    },
    "ALiBi, a norm after the embedding": {
        "positions": "alibi", "embedding_norm": True, "feed_forward": "gelu", "tie": "none", "logit_scale": 0.5,
    },
}  # fmt: skip
LANGUAGE_MODELS = {
    "rotary, pre-norm, RMSNorm, GQA, a window": {
        "positions": "rotary", "rotary": "10000:llama3:8:1:4:32", "pre_norm": True, "norm": "rms", "n_kv_heads": 2,
        "feed_forward": "swiglu", "window": 4, "bias": False,
    },
    "learned, padding beyond the vocabulary, one key head": {
        "positions": "learned", "pad_id": V, "feed_forward": "gelu_tanh", "n_kv_heads": 1, "d_head": 8,
        "attention_scale": 0.3,
    },
    "relative": {"positions": "relative", "tie": "none"},
}  # fmt: skip
ENCODERS = {
    "class of the first": {
        "head": "class",
        "n_classes": 3,
        "pooling": "first",
        "head_layer": "tanh",
        "n_token_types": 2,
    },
    "token": {"head": "token", "head_layer": "norm", "positions": "sinusoidal_halves", "projection_bias": True},
    "none": {"positions": "alibi"},
    "class of the mean": {"head": "class", "n_classes": 3, "positions": "relative", "pre_norm": True},
    "span": {"head": "span", "positions": "rotary", "n_token_types": 2},
}


class Exported:
    """A model in torch, and its graphs in ONNX Runtime."""

    def __init__(self, topology: str, settings: dict[str, Any]) -> None:
        layers = {"n_encoder_layers": 1, "n_decoder_layers": 1}
        self.config = ModelConfig(topology=topology, **{**SIZES, **layers, **settings})
        torch.manual_seed(0)
        self.model = moved(build(self.config).float())
        self.graphs = {it.name: it for it in graphs(self.model, self.config)}
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.sessions = {
            name: onnxruntime.InferenceSession(trace(it, window=self.config.window).SerializeToString(), options)
            for name, it in self.graphs.items()
        }

    def run(self, name: str, **given: Tensor) -> dict[str, Tensor]:
        inputs = {port.name: given[port.name].numpy() for port in self.graphs[name].inputs}
        found = self.sessions[name].run(None, inputs)
        return {port.name: torch.from_numpy(it) for port, it in zip(self.graphs[name].outputs, found, strict=True)}

    def in_pieces(self, tokens: Tensor, sizes: list[int], given: dict[str, Tensor]) -> Tensor:
        """The logits of tokens that are read a few at a time, each piece with the cache of those before."""
        cache = {
            port.name: torch.zeros([len(tokens), *(0 if n == "past" else n for n in port.shape[1:])], dtype=port.dtype)
            for port in self.graphs["decoder"].inputs
            if port.name.startswith("past_")
        }
        found = []
        for piece in tokens.split(sizes, 1):
            outputs = self.run("decoder", tokens=piece, **given, **cache)
            cache = {name: outputs[name.removeprefix("past_")] for name in cache}
            found.append(outputs["logits"])
        return torch.cat(found, 1)


def some_slow(settings: dict[str, Any], fast: int = 1) -> list[Any]:
    """All settings; those after the first few are for the slow tests, since torch's exporter takes seconds."""
    marks = [(), pytest.mark.slow]
    return [pytest.param(it, id=name, marks=marks[n >= fast]) for n, (name, it) in enumerate(settings.items())]


def texts(batch: int, length: int, *, seed: int = 0) -> Tensor:
    """Tokens of texts of several lengths, padded on the right. The first one is the longest."""
    tokens = torch.randint(4, V, (batch, length), generator=torch.Generator().manual_seed(seed))
    for row in range(1, batch):
        tokens[row, max(1, length - 2 * row) :] = PAD
    return tokens


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-4)


@pytest.fixture(autouse=True)
def single_precision():
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(default)


@pytest.mark.parametrize("settings", some_slow(ENCODER_DECODERS))
def test_a_decoder_reads_its_source_and_its_cache(settings) -> None:
    both = Exported("encoder-decoder", settings)
    for batch, length, sizes in ((1, 1, [1]), (3, 9, [1, 1, 1, 1]), (2, 40, [5, 1, 3]), (1, 290, [1, 8])):
        source, target = texts(batch, length), texts(batch, sum(sizes), seed=1)
        memory = both.run("encoder", source=source)
        found = both.in_pieces(target, sizes, {"source": source, **memory})
        with torch.no_grad():
            close(found, both.model(source, target, source_mask=source[:, None, None] != PAD))


@pytest.mark.parametrize("settings", some_slow(LANGUAGE_MODELS))
def test_a_language_model_reads_its_cache_and_padding_on_the_left_changes_nothing(settings) -> None:
    both = Exported("decoder-only", settings)
    for batch, sizes in ((1, [1, 1]), (2, [4, 1, 1, 3]), (3, [12, 1]), (1, [270, 2])):
        length = sum(sizes)
        tokens = torch.randint(4, V, (batch, length), generator=torch.Generator().manual_seed(0))
        for row in range(1, batch):
            tokens[row, : row + 1] = both.config.pad_id
        found = both.in_pieces(tokens, sizes, {})
        for row in range(batch):
            start = row + 1 if row else 0
            with torch.no_grad():
                close(found[row, start:], both.model(tokens[row : row + 1, start:])[0])


@pytest.mark.parametrize("settings", some_slow(ENCODERS, fast=3))
def test_an_encoder_s_heads_read_texts_of_any_length(settings) -> None:
    both = Exported("encoder-only", settings)
    for batch, length in ((1, 1), (3, 9), (2, 40), (1, 290)):
        source = texts(batch, length)
        types = torch.arange(length).expand(batch, length) % 2
        given = (source, types) if both.config.n_token_types else (source,)
        [found] = both.run("encoder", source=source, types=types).values()
        with torch.no_grad():
            if both.config.head == "none":
                expected = both.model(*given, mask=source[:, None, None] != PAD)
            elif both.config.head == "token":  # the graph scores every position
                expected = both.model(source, at=torch.ones_like(source, dtype=torch.bool)).view(batch, length, V)
            else:
                expected = both.model(*given)
        close(found, expected)


def test_pictures_are_labelled_by_their_pixels() -> None:
    settings = {"front": "patches", "image_size": 12, "image_channels": 3, "patch_size": 4}
    settings |= {"head": "class", "n_classes": 3, "pooling": "first", "positions": "sinusoidal_2d"}
    both = Exported("encoder-only", settings)
    for batch in (1, 4):
        pixels = torch.randint(0, 256, (batch, 3, 12, 12), dtype=torch.uint8)
        with torch.no_grad():
            close(both.run("encoder", pixels=pixels)["logits"], both.model(pixels))


@pytest.mark.slow
def test_recordings_are_labelled_by_their_samples() -> None:
    settings = {"front": "frames", "sample_rate": 8000, "head": "class", "n_classes": 3}
    both = Exported("encoder-only", settings)
    pad = both.model.encoder.embedding.pad
    for batch, length in ((1, 8000), (3, 5003), (2, 300)):
        samples = (torch.randn(batch, length) * 1000).to(torch.int16)
        for row in range(1, batch):
            samples[row, length - 100 * row :] = pad
        with torch.no_grad():
            close(both.run("encoder", samples=samples)["logits"], both.model(samples))


@pytest.mark.slow
def test_a_decoder_reads_recordings_of_any_length() -> None:
    both = Exported("encoder-decoder", {"front": "frames", "sample_rate": 8000, "tie": "target"})
    front, target = both.model.encoder.embedding, texts(2, 5, seed=1)
    samples = (torch.randn(2, 5003) * 1000).to(torch.int16)
    samples[1, 4000:] = front.pad
    found = both.in_pieces(target, [2, 1, 2], both.run("encoder", samples=samples))
    with torch.no_grad():
        close(found, both.model(samples, target, source_mask=front.mask(samples)))


class Rounding(nn.Module):
    """A norm that reads a value of its input, which no graph can."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x / float(x.abs().max()) if float(x.max()) > 0 else x


def test_a_part_that_can_t_be_exported_is_named() -> None:
    with pytest.raises(ModelError, match="Rounding") as caught:
        Exported("encoder-only", {"norm": f"{__name__}:Rounding"})
    assert caught.value.name == "Rounding" and caught.value.fix
