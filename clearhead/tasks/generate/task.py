"""Language modelling: how a text goes on. Blocks of running text, each token predicted from those before it."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ...config import Config, DecodeConfig
from ...data.running_text import Running
from ...decode.continuation import TextGenerator
from ...decode.engine import WindowedEngine
from ...decode.model_handle import ModelHandle, as_handle
from ...decode.registry import open_engine
from ...decode.stopping import StoppingCriteria
from ...errors import ConfigError, DataError
from ...model.transformer import evaluation
from ...readers.skipped import Skipped
from ...scoring.resampling import FloatArray
from ...scoring.significance import Comparison, compare_means
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import PAD, UNK, Tokenizers
from ..base import Judged, Units
from ..loss import smoothed_cross_entropy
from .text_blocks import Blocks, TextEncoder

_SCORED = 4096  # tokens that are scored together


@dataclass(frozen=True)
class HeldOutText:
    """Running text to score on: its tokens, and how many characters and bytes they stand for.

    These are of the text in the form that is learnt, by `data.lowercase` and the like. `unknown` of the tokens stand
    for something that the vocabulary lacks.
    """

    examples: Blocks
    characters: int
    bytes: int
    unknown: int
    sources: Sequence[str]  # each block, as text
    too_long: list[Skipped]
    cut: int = 0
    references: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class TextScores:
    """How well text is predicted. `loss` is in nats a token, and so depends on what the tokens are; bits a byte do not.

    bits a byte = sum of -log2 p(token) / bytes of the text in UTF-8

    Of `unknown` tokens the probability of <unk> counts, whatever they stand for: with such bits a byte are too few.
    """

    characters: int
    bits_per_byte: float
    nats_per_character: float
    loss: float
    perplexity: float
    token_accuracy: float
    unknown: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class Generation:
    """What training and scoring need to know of the task."""

    units = Units("blocks", "tokens", "continuation", "blocks")

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        self.tokenizers, self.config = tokenizers, config
        self.device = torch.device(config.train.device)

    @property
    def longest(self) -> tuple[int, str]:
        """The tokens of a block, and the setting that says so: no more than the model can read at once."""
        return min((self.config.data.max_len, "data.max_len"), (self.config.model.max_len, "model.max_len"))

    @property
    def encoder(self) -> TextEncoder:
        """What makes tokens of text."""
        return TextEncoder(self.tokenizers.target)

    def examples(self, sides: tuple[Ragged, Ragged]) -> Blocks:
        """The text, in blocks; a DataError where there is not one."""
        longest, limit = self.longest
        blocks = Blocks(sides[1], longest)
        if not len(blocks):
            raise DataError(
                f"the text to train on has {len(sides[1].tokens):,} tokens; expected more than {longest}, a block "
                f"({limit}): more text, or a smaller --{limit}"
            )
        return blocks

    def hold_out(self, data: Running) -> HeldOutText:
        """Text to be scored in blocks one behind the other: every token of it is predicted once, the first from BOS."""
        begun = replace(data, first=[True, *data.first[1:]])
        blocks = Blocks(self.encoder(begun).targets, self.longest[0], rest=True)
        tokenizer, tokens = self.tokenizers.target, blocks.documents.tokens
        text = "".join(map(tokenizer.normalize, data.pieces))  # as it is predicted: what was folded costs no bits
        decode = tokenizer.decode
        sources = [decode(np.asarray(tokens[i + 1 : i + 1 + blocks.length]).tolist()) for i in blocks.starts]
        unknown = int((np.asarray(tokens) == UNK).sum())
        return HeldOutText(blocks, len(text), len(text.encode()), unknown, sources, [])

    def loss(self, model: nn.Module, examples: Blocks, rows: IntArray, *, smoothing: float) -> Tensor:
        """Cross-entropy summed over all tokens of the blocks."""
        text = torch.from_numpy(examples.at(rows, examples.length)).to(self.device)
        logits = model(text[:, :-1]).flatten(0, 1)
        return smoothed_cross_entropy(logits, text[:, 1:].flatten(), smoothing=smoothing, pad=PAD)

    def losses(self, model: nn.Module, blocks: Blocks) -> tuple[FloatArray, int, int]:
        """-log p of each block in nats; how many tokens there are, and how many right."""
        n_tokens, right, found, starts = 0, 0, [], blocks.starts
        together = max(_SCORED // blocks.length, 1)
        with evaluation(model), torch.inference_mode():
            for i in range(0, len(starts), together):
                text = torch.from_numpy(blocks.at(starts[i : i + together], blocks.length)).to(self.device)
                logits, outputs = model(text[:, :-1]), text[:, 1:]
                real = outputs != PAD
                log_p = logits.float().log_softmax(-1).gather(-1, outputs[..., None])[..., 0]
                found.append((-log_p * real).double().sum(-1).cpu().numpy())
                n_tokens += int(real.sum())
                right += int(((logits.argmax(-1) == outputs) & real).sum())
        return np.concatenate(found), n_tokens, right

    def evaluate(self, model: nn.Module, held_out: HeldOutText, decode: DecodeConfig) -> Judged:
        """How well the text is predicted; nothing is generated for it."""
        nats, n_tokens, right = self.losses(model, held_out.examples)
        total = float(nats.sum())
        scores = TextScores(
            characters=held_out.characters,
            bits_per_byte=total / math.log(2) / held_out.bytes,
            nats_per_character=total / held_out.characters,
            loss=total / n_tokens,
            perplexity=math.exp(min(total / n_tokens, 700)),
            token_accuracy=right / n_tokens,
            unknown=held_out.unknown,
        )
        of_block = nats / math.log(2) * len(nats) / held_out.bytes  # whose mean is that of the text
        return Judged(scores, held_out.sources, (), (), lambda: {"bits_per_byte": of_block})

    def numbers(self, scores: TextScores) -> dict[str, float]:
        """What the log keeps and the best weights may be chosen by."""
        names = ("loss", "bits_per_byte", "token_accuracy")
        return {name: getattr(scores, name) for name in names}

    def compare(self, systems: Sequence[tuple[str, Judged]]) -> Comparison:
        """Whether models predict a text better than the first of them, block by block; all have the same blocks."""
        blocks = {tuple(it.sources) for _, it in systems}
        if len(blocks) > 1:
            raise ConfigError(
                "the models read the text in different blocks, so that these cannot be compared one by one; expected "
                "the same tokenizer and data.max_len: evaluate each alone, bits a byte can be compared"
            )
        name = "bits_per_byte"
        return Comparison({name: compare_means([(system, it.singly()[name]) for system, it in systems])}, {})

    def generator(
        self, model: ModelHandle | nn.Module, decode: DecodeConfig, stopping: StoppingCriteria | None = None
    ) -> TextGenerator:
        """Return the model ready to continue texts, in the engine that `decode.engine` names.

        Raises:
            ConfigError: this engine can't run the model, or doesn't support one of the settings.
            DataError: a token to suppress isn't in the vocabulary.
        """
        engine = open_engine(as_handle(model, self.config.model), decode.engine)
        return TextGenerator(cast(WindowedEngine, engine), self.tokenizers.target, decode, stopping=stopping)

    def expect_search(self, model: nn.Module) -> None:
        """Raise an error where a token that is to be suppressed is none."""
        for piece in self.config.decode.suppress:
            self.tokenizers.target.token(piece)
