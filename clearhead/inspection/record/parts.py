"""Names, parameter counts and memory of the parts of a model, and their shapes and times in a recorded pass."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import nn

from ...model.blocks import DecoderBlock, EncoderBlock
from ...model.norms import AddNorm
from ...model.transformer import Decoder, Encoder, EncoderDecoder, EncoderModel
from .trace import Trace
from .uncompiled import WRAPPED, unwrapped_name

_FLOAT32, _BFLOAT16 = 4, 2  # bytes
_TRAINING = 4  # numbers for each weight: the weight, its gradient and Adam's two moments


@dataclass(frozen=True)
class Part:
    """A model component, repeated `times` times in a row. `parameters` excludes the parameters of its `parts`."""

    name: str
    parameters: int = 0
    parts: tuple["Part", ...] = ()
    times: int = 1
    note: str = ""

    @property
    def total(self) -> int:
        """The number of parameters, including those of inner parts, over all occurrences."""
        return self.times * (self.parameters + sum(part.total for part in self.parts))

    def to_dict(self) -> dict[str, Any]:
        parts = [part.to_dict() for part in self.parts]
        return {**asdict(self), "parts": parts, "total": self.total}


def stacks(model: nn.Module) -> dict[str, Encoder | Decoder]:
    """Return a model's stacks (Figure 1), keyed by "encoder" and "decoder"."""
    if isinstance(model, EncoderDecoder):
        return {"encoder": model.encoder, "decoder": model.decoder}
    model = model.encoder if isinstance(model, EncoderModel) else model
    assert isinstance(model, Encoder | Decoder)
    return {"encoder" if isinstance(model, Encoder) else "decoder": model}


def sub_layers(block: nn.Module) -> Iterator[tuple[str, nn.Module, AddNorm, str]]:
    """Yield the sub-layers of a block in order: (kind, part, the AddNorm around it, the AddNorm's name)."""
    block = getattr(block, WRAPPED, block)
    assert isinstance(block, EncoderBlock | DecoderBlock)
    yield "self", block.attention, block.add_norm_1, "add_norm_1"
    if isinstance(block, EncoderBlock):
        yield "feed_forward", block.feed_forward, block.add_norm_2, "add_norm_2"
        return
    if block.cross_attention is not None and block.add_norm_2 is not None:
        yield "cross", block.cross_attention, block.add_norm_2, "add_norm_2"
    yield "feed_forward", block.feed_forward, block.add_norm_3, "add_norm_3"


def named_parts(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield all parts with their short names: decoder.blocks.0.cross_attention.attend is decoder.0.cross."""
    model = getattr(model, WRAPPED, model)
    if not isinstance(model, EncoderDecoder | EncoderModel | Encoder | Decoder):
        yield from ((_short_name(path) or "model", part) for path, part in model.named_modules())
        return
    for stack, module in stacks(model).items():
        for path, part in module.named_modules(remove_duplicate=False):
            path = unwrapped_name(path)
            named = "embedded" if path == "dropout" else _short_name(path)
            yield ".".join(filter(None, (stack, named))), part
    if isinstance(model, EncoderModel):
        yield from ((".".join(filter(None, ("head", path))), part) for path, part in model.head.named_modules())


def _short_name(path: str) -> str:
    """Shorten a path: blocks.0.attention.attend -> 0.self"""
    names = {"attention": "self", "cross_attention": "cross"}
    return ".".join(names.get(it, it) for it in path.removesuffix(".attend").split(".") if it != "blocks")


def parts(model: nn.Module) -> list[Part]:
    """Return the stacks, each with one block representing all its blocks, and the head.

    A matrix shared by two parts counts once.
    """
    counted: dict[int, str] = {}
    found = [Part(name, parts=tuple(_stack(name, stack, counted))) for name, stack in stacks(model).items()]
    return [*found, _leaf("head", model.head, counted)] if isinstance(model, EncoderModel) else found


def count_parameters(model: nn.Module) -> dict[str, int]:
    """Return the number of parameters, as {"total": ..., "trainable": ...}."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return {"total": sum(size for size, _ in sizes), "trainable": sum(size for size, trained in sizes if trained)}


def render_parts(model: nn.Module) -> str:
    """Render a table of parts, with the numbers of all and of trainable parameters."""
    rows = [row for part in parts(model) for row in _rows(part, 0)]
    rows += [(name, f"{number:,}", "") for name, number in count_parameters(model).items()]
    return "\n".join(f"{name:<34}{number:>14}  {note}".rstrip() for name, number, note in rows)


def footprint(model: nn.Module) -> dict[str, int]:
    """Return bytes, keyed by use.

    "float32" and "bfloat16" are the weights. "training" adds gradients and Adam's moments, but no activations. "cache"
    is the keys and values that a decoder keeps for one token, in float32; 0 without a decoder.
    """
    n = count_parameters(model)["total"]
    return {
        "float32": _FLOAT32 * n,
        "bfloat16": _BFLOAT16 * n,
        "training": _TRAINING * _FLOAT32 * n,
        "cache": _FLOAT32 * _numbers_per_token(model),
    }


def render_footprint(model: nn.Module) -> str:
    """Render a table of `footprint`."""
    found = footprint(model)
    rows = [
        ("weights in float32", "float32", ""),
        ("weights in bfloat16", "bfloat16", ""),
        ("training", "training", "weights, gradients and Adam's moments in float32, without activations"),
        ("cache per token", "cache", "keys and values of every decoder block in float32"),
    ]
    return "\n".join(f"{name:<34}{_spoken(found[use]):>14}  {note}".rstrip() for name, use, note in rows if found[use])


def _stack(name: str, stack: Encoder | Decoder, counted: dict[int, str]) -> Iterator[Part]:
    yield _leaf("embedding", stack.embedding, counted, f"{name}'s embedding")
    if isinstance(stack, Encoder) and stack.types is not None:
        yield _leaf("token types", stack.types, counted)
    if list(stack.positions.parameters()):
        yield _leaf("positions", stack.positions, counted)
    if stack.embedding_norm is not None:
        yield _leaf("embedding norm", stack.embedding_norm, counted)
    if len(stack.blocks):
        sublayers = tuple(_block(stack.blocks[0], counted))
        yield Part("block", parts=sublayers, times=len(stack.blocks))
    if list(stack.norm.parameters()):
        yield _leaf("final norm", stack.norm, counted)
    if isinstance(stack, Decoder):
        yield _leaf("projection", stack.projection, counted)
        if stack.pointer is not None:
            yield _leaf("pointer", stack.pointer, counted)


def _block(block: nn.Module, counted: dict[int, str]) -> Iterator[Part]:
    names = {"attention": "self-attention", "cross_attention": "cross-attention", "feed_forward": "feed-forward"}
    norms = nn.ModuleList()
    for name, module in block.named_children():
        if name in names:
            yield _leaf(names[name], module, counted)
        else:
            norms.append(module)
    yield _leaf("norms", norms, counted)


def _leaf(name: str, module: nn.Module, counted: dict[int, str], owner: str = "") -> Part:
    own = {id(parameter): parameter.numel() for parameter in module.parameters()}
    shared = [counted[key] for key in own if key in counted]
    number = sum(size for key, size in own.items() if key not in counted)
    counted |= {key: owner or name for key in own if key not in counted}
    return Part(name, number, note=f"shares its matrix with the {shared[0]}" if shared else "")


def _rows(part: Part, depth: int) -> Iterator[tuple[str, str, str]]:
    times = f"{part.times} x {part.total // part.times:,}" if part.times > 1 else ""
    yield "  " * depth + part.name, f"{part.total:,}", part.note or times
    for inner in part.parts:
        yield from _rows(inner, depth + 1)


def _numbers_per_token(model: nn.Module) -> int:
    decoder = stacks(model).get("decoder")
    blocks = [] if decoder is None else [it for it in decoder.blocks if isinstance(it, DecoderBlock)]
    return sum(2 * block.attention.n_kv_heads * block.attention.d_head for block in blocks)


def _spoken(n_bytes: int) -> str:
    size, units = float(n_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}"


# --- a recorded pass


@dataclass(frozen=True)
class PartRow:
    """A part of a recorded pass, with the shape of its output and its running time."""

    stack: str
    name: str
    shape: tuple[int, ...]
    parameters: int
    milliseconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"shape": list(self.shape)}


def part_rows(model: nn.Module, trace: Trace) -> list[PartRow]:
    """Return the parts of a recorded pass in the order of Figure 1.

    A sub-layer includes everything between its input and its output. A matrix shared by several parts counts for each.
    """
    found = []
    for stack, module in stacks(model).items():
        rows = [row for name in _part_names(stack, module) if (row := _row(trace, stack, name)) is not None]
        learned = sum(p.numel() for p in module.positions.parameters())  # positions have no call of their own
        found += [replace(it, parameters=learned) if it.name == f"{stack}.embedded" else it for it in rows]
    if "head" in trace.parts:
        found += [it for it in [_row(trace, "head", "head")] if it is not None]
    return found


def render_part_rows(rows: list[PartRow]) -> str:
    """Render a table of 80 columns."""
    lines = [f"{'':<32}{'output':<22}{'parameters':>12}{'ms':>10}"]
    before = ""
    for it in rows:
        if it.stack != before and it.name != it.stack:
            lines.append(it.stack)
        before, shape = it.stack, str(it.shape)
        name = it.name.removeprefix(f"{it.stack}.").replace("_", "-")
        number = f"{it.parameters:,}" if it.parameters else ""
        lines.append(f"  {name:<30}{shape:<22}{number:>12}{it.milliseconds:>10.2f}")
    total = sum(it.milliseconds for it in rows)
    return "\n".join([*lines, f"{'':<32}{'total':<22}{'':>12}{total:>10.2f}"])


def _part_names(stack: str, module: Encoder | Decoder) -> Iterator[str]:
    yield from (f"{stack}.embedding", f"{stack}.types", f"{stack}.embedding_norm", f"{stack}.embedded")
    for number, block in enumerate(module.blocks):
        for kind, _, _, add_norm in sub_layers(block):
            yield from (f"{stack}.{number}.{kind}", f"{stack}.{number}.{add_norm}")
    yield from (f"{stack}.norm", f"{stack}.projection", f"{stack}.pointer")


def _row(trace: Trace, stack: str, name: str) -> PartRow | None:
    """Return the row of a part, including everything inside it. For a residual connection, only the norm counts."""
    if name in trace.calls:
        inside = [trace.parts[it][-1] for it in trace.parts if it.startswith(f"{name}.")]
        shape = next((it.output.shape for it in inside if it.name.endswith(".out")), trace.calls[name][-1].output.shape)
        seconds = trace.calls[name][-1].seconds + sum(it.seconds for it in inside)
        return PartRow(stack, name, tuple(shape), sum(it.parameters for it in inside), 1000 * seconds)
    if name not in trace.parts:
        return None
    call = trace.parts[name][-1]
    norm = trace.parts.get(f"{name}.norm")
    seconds = norm[-1].seconds if norm else call.seconds
    return PartRow(stack, name, tuple(call.output.shape), call.parameters, 1000 * seconds)
