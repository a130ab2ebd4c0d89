import torch

from clearhead.config import Config
from clearhead.inspection.record.parts import footprint, render_footprint
from clearhead.model.transformer import build

SHAPE = {"d_model": 12, "n_heads": 3, "d_ff": 8, "src_vocab_size": 9, "tgt_vocab_size": 9}


def model(topology: str, **more: object) -> torch.nn.Module:
    values = {"topology": topology, "n_encoder_layers": 2, "n_decoder_layers": 2, **SHAPE, **more}
    return build(Config().override({f"model.{name}": value for name, value in values.items()}).model)


def test_the_memory_is_that_of_the_tensors() -> None:
    net = model("decoder-only", n_kv_heads=1, d_head=6)
    n = sum(it.numel() for it in net.parameters())
    cache = net.new_cache(1, 1)
    net(torch.tensor([[5]]), cache=cache)
    stored = sum(it.nbytes for layer in cache.layers for it in (layer.keys, layer.values))
    factor = torch.zeros(()).element_size() // 4  # tests may run in float64
    assert footprint(net) == {"float32": 4 * n, "bfloat16": 2 * n, "training": 16 * n, "cache": stored // factor}


def test_only_a_decoder_has_a_cache() -> None:
    assert footprint(model("encoder-only"))["cache"] == 0
    assert "cache" not in render_footprint(model("encoder-only"))
    with torch.device("meta"):
        shown = render_footprint(model("encoder-decoder", d_model=1200))
    assert [line.split("  ")[0] for line in shown.splitlines()] == [
        "weights in float32", "weights in bfloat16", "training", "cache per token",
    ]  # fmt: skip
    assert " MB" in shown and shown.splitlines()[-1].split()[3:5] == ["19.2", "kB"]
