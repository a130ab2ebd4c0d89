"""Small random models with all that their promises are tried on."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.decode.beams import Hypothesis, Request
from clearhead.decode.engines.torch_engine import TextEngine, TorchEngine
from clearhead.decode.rules import Rules
from clearhead.decode.search import beam_search
from clearhead.folder.model_folder import load_weights, weights_from_bytes, weights_to_bytes
from clearhead.inspection.promises.check import Check, Verification
from clearhead.inspection.promises.subject import Inputs, Subject, SubjectSearch
from clearhead.model.positions import Positions
from clearhead.model.transformer import Decoder, EncoderDecoder, EncoderModel, build
from clearhead.tasks.loss import class_cross_entropy, smoothed_cross_entropy, span_cross_entropy
from tests.builders import moved

BOS, EOS, PAD, UNK = 1, 2, 0, 3  # the special tokens of a new vocabulary

V, MAX_LEN, ALPHA = 17, 20, 0.6
SIZES = {"d_model": 16, "n_heads": 4, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1}
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, 2], [11, 4, 5, 2, 0, 0, 0], [12, 2, 0, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 9, 8, 0, 0, 0], [1, 4, 4, 5, 13, 14], [1, 12, 11, 10, 0, 0]])


def model(**settings: object) -> nn.Module:
    """Of the positions "none", too. Every weight is moved, since some start at zero, where they change nothing."""
    generator = torch.random.get_rng_state()
    torch.manual_seed(0)
    none = settings.get("positions") == "none"
    values = {"src_vocab_size": V, "tgt_vocab_size": V, "max_len": MAX_LEN} | SIZES | settings
    net = moved(build(ModelConfig(**(values | {"positions": "sinusoidal"} if none else values))))
    for part in list(net.modules()) if none else ():
        if hasattr(part, "positions"):
            part.positions = Positions()
    torch.random.set_rng_state(generator)
    return net


def subject(net: nn.Module, **changes: object) -> Subject:
    """A model with the texts above, and whatever a task of its kind has."""
    inputs = Inputs(
        None if isinstance(net, Decoder) else SOURCE, TARGET if isinstance(net, Decoder | EncoderDecoder) else None
    )
    if isinstance(net, EncoderModel) and net.encoder.types is not None:
        types = (SOURCE > 6).long()
        inputs = Inputs(SOURCE, None, types, (types == 1) & (SOURCE != PAD))
    more: dict[str, object] = {}
    if isinstance(net, EncoderDecoder):
        more["engines"] = {"torch": lambda model, _: TorchEngine(model, pad=PAD)}
    if isinstance(net, Decoder):
        more["engines"] = {"text": lambda model, window: TextEngine(model, pad=PAD, max_len=window)}
    if more:
        prompts = [row[(row != PAD) & ((row != EOS) | isinstance(net, EncoderDecoder))].tolist() for row in SOURCE]
        more["search"] = SubjectSearch(prompts, lambda model: searched(model, prompts), ALPHA)
    return Subject(net, inputs, "three texts", MAX_LEN, **({"loss": loss(inputs), "reload": reload} | more | changes))


def loss(inputs: Inputs) -> Callable[[nn.Module], Tensor]:
    """What each kind of model learns by."""

    def of(net: nn.Module) -> Tensor:
        found = inputs.outputs(net)
        if isinstance(net, Decoder | EncoderDecoder):
            after = [torch.cat([row[row != PAD][1:], torch.tensor([EOS])]) for row in inputs.target]
            return smoothed_cross_entropy(torch.cat(found), torch.cat(after), smoothing=0.1, pad=PAD)
        if found[0].dim() == 1:
            return class_cross_entropy(torch.stack(found), torch.tensor([0, 1, 2]))
        if isinstance(net, EncoderModel):
            return sum(span_cross_entropy(row[None], torch.tensor([[0, 0]])) for row in found)
        return sum(row.square().sum() * (place + 1) + row.sin().sum() for place, row in enumerate(found))

    return of


def searched(net: nn.Module, prompts: list[list[int]]) -> list[list[Hypothesis]]:
    """Three hypotheses of a prompt each, of at most six tokens."""
    rules = Rules(eos=EOS, suppress=(PAD, BOS, UNK), beam=3, alpha=ALPHA, n_best=3)
    if isinstance(net, Decoder):
        engine, read, start = (
            TextEngine(net, pad=PAD, max_len=MAX_LEN),
            [it[:-1] for it in prompts],
            [it[-1] for it in prompts],
        )
    else:
        engine, read, start = TorchEngine(net, pad=PAD), prompts, [BOS] * len(prompts)
    with engine.prefill(read, 6) as decoding:
        return beam_search(decoding, np.array(start), [Request(6)] * len(prompts), rules)


def reload(net: nn.Module, folder: Path) -> nn.Module:
    """The model, written and loaded into another."""
    folder.mkdir()
    (folder / "weights").write_bytes(weights_to_bytes(net.state_dict()))
    fresh = deepcopy(net)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.fill_(float("nan"))
    load_weights(fresh, weights_from_bytes(folder / "weights", (folder / "weights").read_bytes()))
    return fresh


def failed(found: Verification) -> dict[str, Check]:
    """The checks that failed, by name: the sharpest of each."""
    return {check.name: check for check in reversed(found.checks) if check.status == "failed"}
