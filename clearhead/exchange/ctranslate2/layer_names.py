"""Names of weights in CTranslate2's models, next to ours. One table serves import and export."""

from collections.abc import Iterator

from ...config import ModelConfig

_GATED = ("swiglu", "geglu")


def is_gated(config: ModelConfig) -> bool:
    """Return whether the feed-forward network has a gate, which is a matrix of its own there."""
    return config.feed_forward in _GATED


def stacks(config: ModelConfig) -> list[tuple[str, str, int]]:
    """Return the stacks: their name, the prefix of our names, and the number of blocks."""
    if config.topology == "decoder-only":
        return [("decoder", "", config.n_decoder_layers)]
    return [
        ("encoder", "encoder.", config.n_encoder_layers),
        ("decoder", "decoder.", config.n_decoder_layers),
    ]


def linear_layers(config: ModelConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield our name of each linear layer in a block, and theirs. Several of theirs are stacked in ours."""
    inner = ("linear_0", "linear_0_noact") if is_gated(config) else ("linear_0",)
    for theirs, ours, _, cross in _blocks(config):
        attention = (("linear_0", "attention.qkv"), ("linear_1", "attention.out"))
        for name, own in attention:
            yield f"{ours}.{own}", (f"{theirs}/self_attention/{name}",)
        for i, own in enumerate(("q", "kv", "out") if cross else ()):
            yield f"{ours}.cross_attention.{own}", (f"{theirs}/attention/linear_{i}",)
        yield f"{ours}.feed_forward.inner", tuple(f"{theirs}/ffn/{name}" for name in inner)
        yield f"{ours}.feed_forward.outer", (f"{theirs}/ffn/linear_1",)


def norms(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Yield our name of each norm that a model can have, and theirs."""
    for stack, ours, _ in stacks(config):
        yield f"{ours}embedding_norm", f"{stack}/layernorm_embedding"
        yield f"{ours}norm", f"{stack}/layer_norm"
    for theirs, ours, decodes, cross in _blocks(config):
        yield f"{ours}.add_norm_1.norm", f"{theirs}/self_attention/layer_norm"
        if cross:
            yield f"{ours}.add_norm_2.norm", f"{theirs}/attention/layer_norm"
        yield f"{ours}.add_norm_{3 if decodes else 2}.norm", f"{theirs}/ffn/layer_norm"


def _blocks(config: ModelConfig) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield their name and ours of each block, whether it's the decoder's, and whether it attends to an encoder."""
    for stack, ours, count in stacks(config):
        decodes = stack == "decoder"
        for i in range(count):
            cross = decodes and config.topology == "encoder-decoder"
            yield f"{stack}/layer_{i}", f"{ours}blocks.{i}", decodes, cross
