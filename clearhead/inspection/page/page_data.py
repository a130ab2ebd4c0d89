"""Everything that the page shows, as plain values: the contract between Python and the page's scripts.

The page and the trace agree to every digit shown. What doesn't fit within the size limit is left out, and named.
"""

import json
import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...config import Config
from ...config.front_geometry import position_seconds
from ...errors import ConfigError, ModelError
from ...model.fronts.frames import Frames
from ...readers.media.audio import wav_bytes
from ...tokenization.codebook import Codebook
from ...version import __version__
from ..media.media_explanation import MediaExplanation
from ..media.media_input import ImageInput, front_of
from ..media.occlusion import occluded_falls
from ..record.forward_pass import Pass
from ..record.parts import count_parameters, stacks
from ..record.switches import switched_off, without
from ..views.contrast import Labels, Masks, Words
from ..views.explanation import Explanation
from ..views.token_attribution import attribute_tokens
from .choice_data import each_label, parts_off, predictions, reasons, search_data, spans_data
from .document import float_array, shades_array, weights_array
from .part_data import attention_data, part_data

FORMAT_VERSION = 1
LARGEST = 1_803_000  # bytes of a file's data: with the scripts and the style, 2 MB
_LARGEST_FILM = 300_000  # bytes of a film's arrays
_COSTLY = 2e11  # multiplications for the gradients of each token of the answer on its own


LeaveOut: TypeAlias = Callable[[str, str], None]
"""Records what is missing in the page's data, and the reason."""


def page_data(
    explanation: Explanation,
    config: Config,
    *,
    name: str,
    command: str = "",
    film: Sequence[Mapping[str, Any]] = (),
    live: bool = False,
) -> dict[str, Any]:
    """Collect what the page shows.

    Args:
        explanation: one answer and the record of the pass.
        command: the command that makes this page.
        film: the frames of a watched run.
        live: leave out what the page can ask for later: the answers without each part.
    """
    left_out: list[dict[str, str]] = []

    def leave_out(what: str, why: str) -> None:
        left_out.append({"what": what, "why": why})

    special, suppressed = config.model.special, explanation.config.decode.suppress_special
    values: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "kind": "page",
        "version": __version__,
        "task": config.train.task or "translate",
        "command": command,
        "model": model_facts(explanation.model, config, name),
        "source": explanation.text,
        "text": explanation.shown_answer,
        "values": dict(explanation.values),
        "tokens": _tokens(explanation, config),
        "prefix": list(explanation.prefix),
        "forced": explanation.forced,
        "off": explanation.trace.off,
        **predictions(explanation, [*special.ids] if suppressed else ()),
    }
    values["parts"] = part_data(explanation)
    values["attention"] = attention_data(explanation, leave_out)
    if "decoder.cross" in explanation.places:
        values["alignment_layer"] = explanation.alignment_layer
    if explanation.said:
        values["lens"] = explanation.lens.to_dict()["layers"]
        values["residuals"] = [[it, *norms] for it, *norms in explanation.trace.residuals()]
    if explanation.search is not None:
        values["search"] = search_data(explanation, _candidates(explanation, values))
    if any(explanation.in_context):
        values["spans"] = spans_data(explanation)
    if explanation.codebook is not None and explanation.answer:
        values["spoken"] = _spoken(explanation.codebook, explanation.said)
    if explanation.choice is not None and (values.get("alternatives") or values.get("labels")):
        try:
            values["why"] = reasons(explanation, _candidates(explanation, values))
        except (ConfigError, ModelError) as error:
            leave_out("why this and not that", error.what)
    still_on = set(explanation.trace.off) - set(switched_off(explanation.model))
    with without(explanation.model, *still_on):  # what runs again is compared with the recorded pass
        forward, choice = each_label(explanation), explanation.choice
        if "search" in values and forward.answer is not None and not explanation.config.decode.sample:
            values["search"]["greedy"] = forward.answer(greedy=True)[0]
        if forward.targets and forward.reads_tokens:
            values["words"] = _words(forward, leave_out, of_labels=isinstance(choice, Labels))
        if forward.targets:
            values["without"] = parts_off(forward, choice, search=not live)
        if isinstance(explanation, MediaExplanation):
            values["media"] = _media(explanation, forward)
        if isinstance(choice, Labels) and (more := len(choice.labels) - len(forward.targets)):
            leave_out(f"{more:,} labels", "they're less likely than the others")
    if film:
        values["film"] = film_data(film, leave_out)
    _fit(values, leave_out)
    return values | {"left_out": left_out}


def model_facts(built: nn.Module, config: Config, name: str) -> dict[str, Any]:
    """Return what the page says about a model.

    Args:
        built: the model.
        config: its settings, and those of the search.
        name: the model's name.
    """
    model = config.model
    return {
        "name": name,
        "topology": model.topology,
        "layers": {stack: len(module.blocks) for stack, module in stacks(built).items()},
        "heads": model.n_heads,
        "d_model": model.d_model,
        "d_head": model.head_width,
        "d_ff": model.d_ff,
        "pre_norm": model.pre_norm,
        "positions": model.positions,
        "parameters": count_parameters(built)["total"],
        "beam": config.decode.beam,
        "alpha": config.decode.alpha,
    }


def _tokens(explanation: Explanation, config: Config) -> dict[str, Any]:
    """Return the tokens that each stack read and the output tokens, each with its kind: text, or the name of a special.

    An unknown token that was read also has the original text.
    """
    special, trace = config.model.special, explanation.trace
    kinds = {
        special.pad: "pad",
        special.bos: "start",
        special.start: "start",
        special.unk: "unknown",
        special.eos: "end",
    }
    ids: dict[str, Sequence[int | None]] = {"outputs": explanation.said}
    for stack in explanation.tokens:
        read = trace[f"{stack}.embedding"].inputs[0][0]
        ids[stack] = read.tolist() if read.dtype == torch.long else [None] * len(explanation.tokens[stack])

    def named(key: str, names: Sequence[str]) -> list[dict[str, Any]]:
        kind = [kinds.get(-1 if i is None else i, "text") for i in ids[key]]
        if isinstance(explanation.choice, Masks):
            mask_name = explanation.choice.tokenizer.mask_name
            kind = ["mask" if text == mask_name else it for text, it in zip(names, kind)]
        return [{"text": text, "id": i, "kind": it} for text, i, it in zip(names, ids[key], kind)]

    pieces = {**explanation.tokens, "outputs": explanation.outputs}
    if isinstance(explanation, MediaExplanation):
        pieces["encoder"] = explanation.input.names
    found = {key: named(key, names) for key, names in pieces.items()}
    first, written = next(iter(explanation.tokens)), iter(explanation.unknown)
    for it in found[first]:
        if it["kind"] == "unknown":
            it["written"] = next(written, "")
    return found | {"begins": max(len(explanation.said) - len(explanation.forward.targets), 0)}


def _candidates(explanation: Explanation, values: Mapping[str, Any]) -> list[list[int]]:
    """Return the ids of the likely tokens at each place: one for labels, and for masks the first."""
    is_answer = isinstance(explanation.choice, Words)
    likely = values["alternatives"] if is_answer else [values.get("labels") or values["alternatives"][0]]
    return [[it[2] for it in some] for some in likely]


def _words(forward: Pass, leave_out: LeaveOut, *, of_labels: bool) -> dict[str, Any]:
    """Return how much each input token mattered for each output token, and gradients for as many as is fast."""
    size, said = len(forward.read) + (1 if of_labels else len(forward.said)), len(forward.said)
    fast = int(_COSTLY / (16 * size * 3 * sum(it.numel() for it in forward.model.parameters())))
    most = min(max(fast, 1), said) if of_labels else said * (said <= fast)
    words = attribute_tokens(forward, most=most)
    if most < said and of_labels:
        leave_out(f"integrated gradients of {said - most:,} labels", "they take too long")
    elif most < said:
        leave_out("integrated gradients of each token of the answer", "they take too long; those of the whole are here")
    arrays = {name: float_array(getattr(words, name).numpy()) for name in ("whole", "nothing", "falls", "gradients")}
    return arrays | {"error": words.error}


def film_data(frames: Sequence[Mapping[str, Any]], leave_out: LeaveOut) -> dict[str, Any]:
    """Return the film. Frames between the first and the last are left out to keep it small."""
    scores = [{"step": it["step"], **it["scores"]} for it in frames]
    size = sum(np.size(weights) for weights in frames[0]["weights"].values()) * 4 / 3
    most = max(2, int(_LARGEST_FILM / max(size, 1)))
    kept = sorted({round(it) for it in np.linspace(0, len(frames) - 1, min(most, len(frames)))})
    if thinned := len(frames) - len(kept):
        leave_out(f"{thinned:,} of {len(frames):,} frames of the film", "to keep the file small")
    found = [_frame(frames[number], number) for number in kept]
    return {"text": frames[0]["text"], "scores": scores, "frames": found}


def _frame(frame: Mapping[str, Any], number: int) -> dict[str, Any]:
    weights, entropy = dict[str, Any](), dict[str, list[float]]()
    for name, it in frame["weights"].items():
        shares = np.asarray(it, np.float64)  # (H, T, S)
        weights[name] = shades_array(shares)
        entropy[name] = (-shares * np.log2(shares.clip(1e-12))).sum(-1).mean(-1).round(4).tolist()
    return {
        "number": number,
        "step": frame["step"],
        "answer": frame["answer"],
        "weights": weights,
        "entropy": entropy,
        "probability": frame.get("probability"),
        "lens": frame["lens"],
    }


def _fit(values: Mapping[str, Any], leave_out: LeaveOut) -> None:
    """Leave out arrays until the data fits the largest size."""
    attention = values["attention"]
    size = len(json.dumps(values))

    def bytes_of(array: Mapping[str, Any]) -> int:
        return sum(bytes_of(it) for it in array.values() if isinstance(it, Mapping)) + len(array.get("b64", ""))

    sounds = {name: values[name] for name in ("media", "spoken") if "sound" in values.get(name, {})}
    for what, stack, names in (
        ("queries and keys of the encoder", "encoder", ("q", "k")),
        ("queries and keys of the decoder", "decoder", ("q", "k")),
        ("attention in the encoder", "encoder", ("weights",)),
        ("the sound", "", ("sound",)),
        ("self-attention in the decoder", "decoder.self", ("weights",)),
        ("attention to the source", "decoder", ("weights",)),
    ):
        first, _, kind = stack.partition(".")
        holder = attention if stack else sounds
        chosen = [it for it in holder if it.startswith(first) and it.endswith(kind)]
        if size <= LARGEST:
            return
        for name in chosen:
            size -= sum(bytes_of(holder[name].pop(it, {})) for it in names)
            if "weights" in names:
                del attention[name]
        if chosen:
            leave_out(what, f"the file would exceed {math.ceil(LARGEST / 1e6)} MB")


# --- images and recordings


def _media(explanation: MediaExplanation, forward: Pass) -> dict[str, Any]:
    """Return the image or recording, each head's attention to its positions, rollout, and the drop of all scores when
    each part is hidden. The pass of a classifier is that of `each_label`."""
    place, read = explanation.main_place, explanation.input
    found: dict[str, Any] = {"place": place, "rows": list(explanation.rows(place))}
    if isinstance(read, ImageInput):
        picture = f"data:image/png;base64,{b64encode(png(read.pixels)).decode()}"
        found |= {"kind": "image", "picture": picture, "across": read.across, "first": read.first}
    else:
        samples, front = explanation.forward.inputs[0][0].numpy(force=True), front_of(explanation.forward)
        assert isinstance(front, Frames)
        found |= _audio(read.spectrogram, read.seconds, read.step, samples, front.sample_rate)
    if not explanation.without_weights:
        maps = [explanation.maps(place, layer) for layer in range(explanation.n_layers(place))]
        found |= {"maps": [weights_array(it) for it in maps], "rollout": weights_array(explanation.rollout(place))}
        names, groups = read.names, read.groups
        found["hidden"] = [names[it[0]] if len(it) == 1 else f"{names[it[0]]} to {names[it[-1]]}" for it in groups]
        falls = occluded_falls(forward, groups).T.numpy()
        found |= {"groups": [list(it) for it in groups], "falls": float_array(falls)}
    return found


def _spoken(codebook: Codebook, ids: Sequence[int]) -> dict[str, Any]:
    """Return the sound of an answer's codes, each of which is a position in time."""
    patches, step = codebook.spectrogram(ids), position_seconds(codebook.sample_rate)
    frames = patches.reshape(-1, patches.shape[-1])
    found = _audio(frames, len(patches) * step, step, codebook.samples(ids), codebook.sample_rate)
    return found | {"names": [f"{n * step:.2f} s" for n in range(len(patches))]}


def _audio(
    spectrogram: NDArray[Any], seconds: float, step: float, samples: NDArray[np.int16], rate: int
) -> dict[str, Any]:
    low, high = spectrogram.min(), spectrogram.max()
    shades = shades_array((spectrogram - low) / max(high - low, 1e-9))
    sound = {"b64": b64encode(wav_bytes(samples, rate)).decode()}
    return {"kind": "audio", "step": step, "seconds": seconds, "spectrogram": shades, "sound": sound}


def png(pixels: NDArray[Any]) -> bytes:
    """Return a PNG image (ISO/IEC 15948) with these pixels, from 0 to 255. (H, W, 1 or 3)"""
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row begins with its filter, which is none
    rows[:, 1:] = np.rint(pixels.clip(0, 255)).astype(np.uint8).reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
