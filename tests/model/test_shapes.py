"""The shapes that functions of the model state are run: whatever takes or gives tensors says its shapes, and is right.

A statement reads `(B, T, D), mask (B, 1, 1, S) -> (B, T, V)`: the shapes of its tensors in their order, each with a
name before it where that helps; several statements are separated by a semicolon.
"""

import ast
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import clearhead.model
from clearhead.config import ModelConfig
from clearhead.model import (
    attention,
    blocks,
    cache,
    dropout,
    feed_forward,
    heads,
    linear,
    masks,
    norms,
    piecewise,
    pointer,
    positions,
    transformer,
)
from clearhead.model.fronts import frames, front, patches, tokens

# R rows are the hypotheses of B sources; G heads of keys and values; F the inner width of the feed-forward; C classes;
# N hidden tokens of a batch.
SIZES = {
    "B": 2,
    "R": 4,
    "T": 3,
    "S": 5,
    "D": 12,
    "H": 4,
    "G": 2,
    "K": 3,
    "Kv": 7,
    "F": 20,
    "V": 11,
    "C": 6,
    "N": 8,
    "M": 9,
}
RECORDINGS = {"N": 20, "T": 20, "S": 5, "L": 41}  # a hop of 1 sample, and positions of 4 frames
SPECTROGRAM = {"F": 3, "N": 2}  # a Fourier transform of 4 samples, and 3 frames with a hop of 1
IMAGES = {"H": 4, "W": 4, "S": 4, "N": 24}  # patches of 2 x 2 pixels with 6 channels
D, H, G, F, V, C = (SIZES[letter] for letter in "DHGFVC")
ITEM = r"(?:\w+ )?\([^()]*\)"
STATEMENT = re.compile(rf"((?:{ITEM}(?:, {ITEM})* )?)-> ({ITEM}(?:, {ITEM})*)")


class Statement(NamedTuple):
    """One statement of shapes, and the function that makes it."""

    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The public functions and methods of a module that give tensors.

    Those that only autograd calls, and those that give weights by name, have no shapes to state.
    """
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and "torch.autograd.Function" in map(ast.unparse, node.bases):
            continue
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                returns = ast.unparse(inner.returns)
                if ("Tensor" in returns or "Rotation" in returns) and not returns.startswith("dict"):
                    yield f"{node.name}.{inner.name}" if node is not inner else inner.name, inner


def stated(module: str) -> Iterator[Statement]:
    """What the docstrings of a module, and the comments behind its signatures, state; nothing stated is a failure."""
    path = Path(import_module(f"clearhead.model.{module}").__file__)
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for name, function in functions(ast.parse(source)):
        signature = lines[function.lineno - 1 : function.body[0].lineno - 1]
        comments = [line.partition("#")[2] for line in signature]
        text = " ".join([*comments, ast.get_docstring(function) or ""])
        found = STATEMENT.findall(text)
        yield from (
            Statement(f"{module}.{name}", tuple(re.findall(ITEM, before)), tuple(re.findall(ITEM, after)))
            for before, after in found
        )
        if not found:
            yield Statement(f"{module}.{name}", (), ())


MODULES = [module.name for module in pkgutil.iter_modules(clearhead.model.__path__) if not module.ispkg]
MODULES += [f"fronts.{module.name}" for module in pkgutil.iter_modules(clearhead.model.fronts.__path__)]
STATED = [statement for module in MODULES for statement in stated(module)]


def sizes(shape: str) -> tuple[int, ...]:
    """`mask (B, 1, T, H*K)` as numbers; `...` stands for any dimensions, here two."""
    inside = shape.partition("(")[2].rstrip(")").replace("*shape", "T, D").replace("...", "6, 7")
    return tuple(int(eval(dimension, {}, SIZES)) for dimension in inside.split(",") if dimension.strip())


def ids(x: Tensor) -> Tensor:
    return torch.randint(1, V, x.shape)


def memory(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    return keys, values


class Features(front.Front):
    """Any input as S vectors."""

    def forward(self, inputs: Tensor) -> Tensor:
        x = inputs.flatten(1)
        return (x @ torch.randn(x.size(1), SIZES["S"] * D)).unflatten(1, (SIZES["S"], D))

    def mask(self, inputs: Tensor) -> Tensor:
        return torch.ones(inputs.size(0), 1, 1, SIZES["S"], dtype=torch.bool)


def self_attention() -> attention.SelfAttention:
    return attention.SelfAttention(D, H, n_kv_heads=G)


def cross_attention() -> attention.CrossAttention:
    return attention.CrossAttention(D, H, n_kv_heads=G)


def add_norms(count: int) -> list[norms.AddNorm]:
    return [norms.AddNorm(norms.LayerNorm(D)) for _ in range(count)]


def model(topology: str = "encoder-decoder", **more: Any) -> torch.nn.Module:
    sizes = {"src_vocab_size": V, "tgt_vocab_size": V, "d_model": D, "n_heads": H, "d_ff": F}
    return transformer.build(ModelConfig(topology=topology, **sizes, **more))


def audio_front() -> frames.Frames:
    return frames.Frames(D, 100, SIZES["M"], speed=0.5)


def samples(x: Tensor) -> Tensor:
    return (1000 * x).to(torch.int16)


def layer_cache() -> cache.LayerCache:
    held = cache.LayerCache(*(torch.zeros(SIZES["R"], G, 9, SIZES["K"]) for _ in range(2)))
    held.append(*(torch.zeros(SIZES["R"], G, SIZES["S"] - SIZES["T"], SIZES["K"]) for _ in range(2)))
    return held


def block(x: Tensor, keys: Tensor, values: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
    part = blocks.DecoderBlock(self_attention(), cross_attention(), feed_forward.FeedForward(D, F), add_norms(3))
    return part(x, memory(keys, values), mask=mask > 0, memory_mask=memory_mask > 0)


# Each function, called with tensors of the stated shapes, in the stated order.
CALLS: dict[str, Callable[..., Tensor | tuple[Tensor, ...]]] = {
    "attention.masked_softmax": lambda scores: attention.masked_softmax(scores, scores > 0),
    "attention.scaled_dot_product_attention": attention.scaled_dot_product_attention,
    "attention.fused_attention": attention.fused_attention,
    "attention.attention_weights": attention.attention_weights,
    "piecewise.piecewise": lambda q, k, v: piecewise.piecewise(attention._equation_1, q, k, v, None, None, 0.0),
    "attention.Attend.forward": attention.Attend(),
    "attention.Attend.weights": attention.Attend().weights,
    "attention.MultiHeadAttention.forward": lambda q, k, v: attention.MultiHeadAttention(D, H)(q, k, v),
    "attention.SelfAttention.forward": lambda x: self_attention()(x),
    "attention.CrossAttention.project": lambda source: cross_attention().project(source),
    "attention.CrossAttention.forward": lambda x, *projected: cross_attention()(x, memory(*projected)),
    "attention.split_heads": lambda x: attention.split_heads(x, H),
    "attention.merge_heads": attention.merge_heads,
    "blocks.EncoderBlock.forward": lambda x, mask: blocks.EncoderBlock(
        self_attention(), feed_forward.SwiGLU(D, F), add_norms(2)
    )(x, mask=mask > 0),
    "blocks.DecoderBlock.forward": block,
    "cache.Cache.ages": lambda: cache.Cache([layer_cache()]).ages(SIZES["T"]),
    "cache.side_by_side": lambda first, second: cache.side_by_side(first, second, 1),
    "cache.LayerCache.append": lambda k, v: layer_cache().append(k, v),
    "dropout.dropout": lambda x: dropout.dropout(x, 0.5),
    "dropout.Dropout.forward": dropout.Dropout(),
    "feed_forward.FeedForward.forward": lambda x: feed_forward.FeedForward(D, F)(x),
    "feed_forward.GatedFeedForward.forward": lambda x: feed_forward.SwiGLU(D, F)(x),
    "fronts.frames.Frames.forward": lambda x: audio_front()(samples(x)),
    "fronts.frames.Frames.mask": lambda x: audio_front().mask(samples(x)),
    "fronts.frames.Frames.spectrogram": lambda x: audio_front().spectrogram(samples(x)),
    "fronts.frames.Frames.normalised": lambda x, real: audio_front().normalised(x, real > 0),
    "fronts.frames.Frames.augment": lambda x: audio_front().augment(samples(x)),
    "fronts.frames.waveform": lambda x: frames.waveform(audio_front(), x),
    "fronts.frames.magnitudes": lambda x: frames.magnitudes(audio_front(), x),
    "fronts.frames.mel_filters": lambda: frames.mel_filters(SIZES["M"], 2 * F - 2, 8000),
    "fronts.patches.Patches.forward": lambda x: patches.Patches(D, 4, C, 2)(x),
    "fronts.patches.Patches.augment": lambda x: patches.Patches(D, 4, C, 2, shift=1).augment(x),
    "fronts.patches.patches": lambda x: patches.patches(x, 2),
    "fronts.front.Front.augment": lambda x: Features().augment(x),
    "fronts.front.Front.forward": lambda x: Features()(x),
    "fronts.front.Front.mask": lambda x: Features().mask(x),
    "fronts.tokens.Embedding.forward": lambda x: tokens.Embedding(V, D)(ids(x)),
    "fronts.tokens.Embedding.mask": lambda x: tokens.Embedding(V, D).mask(ids(x)),
    "fronts.tokens.Projection.forward": lambda x: tokens.Projection(D, V)(x),
    "fronts.tokens.Projection.scaled": lambda x: tokens.Projection(D, V, scale=0.5).scaled(x),
    "fronts.tokens.TokenTypes.forward": lambda x: tokens.TokenTypes(V, D)(ids(x)),
    "heads.pool": lambda x, real: heads.pool(x, real > 0, "mean"),
    "heads.ClassPredictor.forward": lambda x, real: heads.ClassPredictor(D, C)(x, real > 0),
    "heads.SpanFinder.forward": lambda x, allowed: heads.SpanFinder(D)(x, allowed > 0),
    "heads.TokenPredictor.forward": lambda x, at: heads.TokenPredictor(tokens.Projection(D, V))(x, ids(at) % 10),
    "heads.TokenTransform.forward": lambda x: heads.TokenTransform(D, norms.LayerNorm(D))(x),
    "linear.Linear.forward": lambda x: linear.Linear(D, F)(x),
    "linear.LoraLinear.forward": lambda x: linear.LoraLinear(linear.Linear(D, F), 2, 1.0)(x),
    "linear.Linear.matrices": lambda x: linear.Linear(D, F, F).matrices(x),
    "masks.padding_mask": lambda x: masks.padding_mask(ids(x)),
    "masks.recent_mask": lambda queries, keys: masks.recent_mask(queries, keys, 2),
    "masks.causal_mask": lambda: masks.causal_mask(SIZES["T"], SIZES["S"]),
    "norms.layer_norm": lambda x: norms.layer_norm(x, 2),
    "norms.rms_norm": norms.rms_norm,
    "norms.LayerNorm.forward": lambda x: norms.LayerNorm((SIZES["T"], D))(x),
    "norms.RMSNorm.forward": lambda x: norms.RMSNorm(D)(x),
    "pointer.Pointer.read": lambda source: pointer.Pointer.read(ids(source)),
    "pointer.Pointer.forward": lambda x, logits, weights, source, first: pointer.Pointer(D)(
        x, logits, weights.softmax(-1), pointer.Pointer.read(ids(source))
    ),
    "positions.Positions.embed": lambda x, at: positions.Positions().embed(x, ids(at)),
    "positions.Positions.rotation": lambda at: positions.Rotary(6).rotation(ids(at)),  # the base has none
    "positions.Positions.bias": lambda *at: positions.Alibi(H).bias(*map(ids, at)),
    "positions.sinusoid": lambda: positions.sinusoid(SIZES["T"], D),
    "positions.SinusoidalHalves.embed": lambda x, at: positions.SinusoidalHalves(D).embed(x, ids(at)),
    "positions.stretched": lambda x: positions.stretched(x, (2.0,)),
    "positions.Sinusoidal.embed": lambda x, at: positions.Sinusoidal(D).embed(x, ids(at)),
    "positions.Sinusoidal2D.embed": lambda x, at: positions.Sinusoidal2D(D, 4).embed(x, ids(at)),
    "positions.Learned.embed": lambda x, at: positions.Learned(D).embed(x, ids(at)),
    "positions.Rotary.rotation": lambda at: positions.Rotary(6).rotation(ids(at)),
    "positions.rotate": lambda x, wave: positions.rotate(x, positions.Rotation(wave, wave)),
    "positions.Relative.bucket": lambda x: positions.Relative(H).bucket(x.long()),
    "positions.Relative.bias": lambda *at: positions.Relative(H).bias(*map(ids, at)),
    "positions.Alibi.bias": lambda *at: positions.Alibi(H).bias(*map(ids, at)),
    "norms.AddNorm.forward": lambda x: add_norms(1)[0](x, torch.sin),
    "transformer.Encoder.forward": lambda x, types, mask: model("encoder-only", n_token_types=V)(
        ids(x), ids(types), mask=mask > 0
    ),
    "transformer.EncoderModel.forward": lambda x, types: model(
        "encoder-only", n_token_types=V, head="class", n_classes=C
    )(ids(x), ids(types)),
    "transformer.Decoder.forward": lambda x, memory, memory_mask, source: model(copy=True).decoder(
        ids(x), memory, memory_mask=memory_mask > 0, source=ids(source)
    ),
    "transformer.EncoderDecoder.forward": lambda source, target, mask: model()(
        ids(source), ids(target), source_mask=mask > 0
    ),
    "transformer.EncoderDecoder.encode": lambda source, mask: model().encode(ids(source), mask=mask > 0),
}


@pytest.mark.parametrize("statement", STATED, ids=lambda s: f"{s.function}-{'-'.join(s.inputs)}")
def test_stated_shapes_are_the_real_ones(statement, monkeypatch) -> None:
    assert statement.outputs, f"{statement.function} gives tensors and does not state their shapes"
    if "rot" in statement.function:  # a rotated head has an even width
        monkeypatch.setitem(SIZES, "K", 6)
    rooms = {"fronts.frames.waveform": SPECTROGRAM, "fronts.frames.magnitudes": SPECTROGRAM}
    rooms |= {"fronts.frames": RECORDINGS, "fronts.patches": IMAGES}
    special = next((sizes for room, sizes in rooms.items() if statement.function.startswith(room)), {})
    for letter, size in special.items():
        monkeypatch.setitem(SIZES, letter, size)
    result = CALLS[statement.function](*(torch.randn(sizes(shape)) for shape in statement.inputs))
    shapes = [tuple(tensor.shape) for tensor in ([result] if isinstance(result, Tensor) else result)]
    assert shapes == [sizes(shape) for shape in statement.outputs]


def test_every_call_is_of_a_function_that_states_its_shapes() -> None:
    assert {statement.function for statement in STATED} == CALLS.keys()
