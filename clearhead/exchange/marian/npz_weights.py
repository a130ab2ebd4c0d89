"""Weights in Marian's .npz files, under the names and in the form that they have in Transformers."""

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import ModelError, shortened
from ...folder.manifest import read_bytes

OPTIONS = "special:model.yml"
_ATTENTIONS = {"encoder": {"self": "self_attn"}, "decoder": {"self": "self_attn", "context": "encoder_attn"}}
_MOST = 16  # times the size of a file that its arrays can have in all


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file. The one named OPTIONS has the bytes of a text, and the others are in float32.

    Raises:
        ModelError: the file is missing or damaged, or isn't a model of Marian.
    """
    data = read_bytes(path)
    try:
        with np.load(io.BytesIO(data)) as file:
            size = sum(it.file_size for it in file.zip.infolist())
            if size > _MOST * len(data):
                raise ValueError(f"its {len(data):,} bytes unpack to {size:,}")
            options, arrays = file[OPTIONS], {name: file[name] for name in file.files if name != OPTIONS}
        for name, array in arrays.items():
            if array.dtype.kind != "f" or array.ndim not in (1, 2):
                raise ValueError(f"{name} has the type {array.dtype} and the shape {array.shape}")
    except Exception as error:  # numpy and zipfile raise several classes
        what, fix = f"{path} isn't a model of Marian: {error}", "download the folder again"
        raise ModelError(what, expected=f"an .npz file with {OPTIONS}", fix=fix, name=path.name) from error
    return {OPTIONS: options} | {name: it.astype(np.float32, copy=False) for name, it in arrays.items()}


class NpzWeights:
    """The weights of a model.

    Args:
        path: the file, for messages.
        arrays: its arrays.
        depths: the number of layers of each stack, encoder and decoder.

    Raises:
        ModelError: weights are missing, or there are some that aren't supported.
    """

    def __init__(self, path: Path, arrays: Mapping[str, NDArray[Any]], depths: Mapping[str, int]) -> None:
        names = dict(_tables(arrays))
        for stack, depth in depths.items():
            for i in range(min(depth, len(arrays))):  # with more layers, some are missing anyway
                names |= _layer(f"{stack}_l{i + 1}", f"{stack}.layers.{i}", _ATTENTIONS[stack])
        missing, unknown = (sorted(it) for it in (names.keys() - arrays, arrays.keys() - {*names, OPTIONS}))
        if missing or unknown:
            has = f"no {shortened(missing)}" if missing else f"{shortened(unknown)}, which isn't supported"
            expected = " and ".join(f"{depth} layers in the {stack}" for stack, depth in depths.items())
            raise ModelError(f"{path} has {has}", expected=f"the weights of {expected}", name=(missing + unknown)[0])
        self._tensors = {name: _converted(theirs, name, arrays[theirs]) for theirs, name in names.items()}

    @property
    def tables(self) -> list[str]:
        """The names of the embeddings of encoder and decoder, which can be the same."""
        own = [f"{stack}.embed_tokens.weight" for stack in _ATTENTIONS]
        return own if own[0] in self._tensors else ["shared.weight"] * 2

    def names(self) -> Sequence[str]:
        """Return the names of all tensors."""
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return tuple(self._tensors[name].shape)

    def read(self, name: str) -> Tensor:
        """Return a tensor."""
        return self._tensors[name]


def _tables(known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield Marian's name and that of Transformers for each weight outside the layers."""
    if "Wemb" in known:
        yield "Wemb", "shared.weight"
    else:
        yield from ((f"{stack}_Wemb", f"{stack}.embed_tokens.weight") for stack in _ATTENTIONS)
        if "decoder_ff_logit_out_W" in known:
            yield "decoder_ff_logit_out_W", "lm_head.weight"
    yield "decoder_ff_logit_out_b", "final_logits_bias"


def _layer(theirs: str, name: str, attentions: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield Marian's name and that of Transformers for each weight of a layer."""
    layers = [(f"ffn_W{i}", f"ffn_b{i}", f"fc{i}") for i in (1, 2)]
    layers += [("ffn_ffn_ln_scale", "ffn_ffn_ln_bias", "final_layer_norm")]
    for part, attention in attentions.items():
        layers += [(f"{part}_W{it}", f"{part}_b{it}", f"{attention}.{it}_proj") for it in "qkv"]
        layers += [(f"{part}_Wo", f"{part}_bo", f"{attention}.out_proj")]
        layers += [(f"{part}_Wo_ln_scale", f"{part}_Wo_ln_bias", f"{attention}_layer_norm")]
    for weight, bias, own in layers:
        yield f"{theirs}_{weight}", f"{name}.{own}.weight"
        yield f"{theirs}_{bias}", f"{name}.{own}.bias"


def _converted(theirs: str, name: str, array: NDArray[Any]) -> Tensor:
    """Return an array as Transformers has it.

    A matrix has a row for each output, and a vector has one dimension. The vocabularies get one more token, the
    decoder's first input. Its embedding is zero.
    """
    if name.endswith("bias") or "norm." in name:
        array = array.reshape(-1)
    elif "Wemb" not in theirs:
        array = array.T
    if "Wemb" in theirs or "logit_out" in theirs:
        array = np.concatenate((array, np.zeros((1, *array.shape[1:]), array.dtype)))
    return torch.from_numpy(np.ascontiguousarray(array))
