"""Masked language modelling: predict masked tokens of running text (BERT, Devlin et al. 2019)."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ...config import TASKS, Config, DecodeConfig
from ...data.batches import Batches
from ...data.forms import TextForm
from ...data.running_text import Running
from ...decode.model_handle import ModelHandle, as_module
from ...errors import DataError
from ...model.transformer import evaluation
from ...readers.lines import shown
from ...tokenization.normalise import NEVER
from ...tokenization.offsets import unknown_texts
from ...tokenization.ragged import Ragged
from ..base import Units, rotary_positions, search_settings_but
from ..denoise import MaskedTokens
from ..examples import HeldOut
from .fillings import Candidate, Filled, fill, spelling

if TYPE_CHECKING:
    from ...inspection.views.explanation import Explanation

_PARAGRAPHS = re.compile(r"\n[^\S\n]*\n")


class Filling(MaskedTokens):
    """Fill the masks of a text, with an encoder-only model."""

    verb = "fill"
    form = TextForm()
    units = Units("pieces of text", "tokens", "filling", "texts")
    title = "A masked language model"
    usage = '"a text with a [MASK]"'
    required: ClassVar[dict[str, Any]] = {**TASKS["fill"].needs, "data.joint": True}
    defaults: ClassVar[dict[str, Any]] = {
        "data.max_len": 128,
        "model.pre_norm": True,
        "train.label_smoothing": 0.0,
        "train.hidden_span": 1.0,
    }
    unused = (
        *("data.target_column", "data.separator", "data.reverse", "model.n_token_types"),
        "train.warm_start",  # it would learn the same twice
        *search_settings_but("batch_tokens", "suppress", "suppress_special"),
    )
    compared_by = ("hidden_accuracy", "hidden_nats")
    searches = False

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        """Return the settings for a model that reads a piece of text with BOS and EOS, with rotary positions."""
        return {"model.max_len": config.data.max_len + 2} | rotary_positions(config)

    @classmethod
    def texts(cls, data: Running) -> Sequence[str]:
        """Return the paragraphs, between blank lines. In a text without blank lines, return the lines."""
        found: list[str] = []
        for piece in data.texts:
            parts = _PARAGRAPHS.split(piece.strip())
            found += parts if len(parts) > 1 else piece.split("\n")
        return [text for text in found if text.strip()]

    def hold_out(self, data: Running) -> HeldOut:
        """Prepare texts for scoring, in pieces that the model can read."""
        held_out = super().hold_out(data)
        tokens = held_out.examples.sources
        pieces = self.tokenizers.source.decode_batch([tokens[i] for i in range(len(tokens))])
        return replace(held_out, sources=pieces)

    def read(self, text: str) -> tuple[list[int], list[int]]:
        """Return the tokens that the model reads of a text with masks, and the indices of the masks.

        Raises:
            DataError: the text has no mask, or is too long.
        """
        tokenizer, (longest, limit) = self.tokenizers.source, self.longest
        ids, masks = tokenizer.encode_masked(text)
        if not masks:
            what = f"the text {shown(text)} has no mask to fill"
            raise DataError(what, expected=f"{tokenizer.mask_name} in place of a token", name="text", value=text)
        if len(ids) > longest:
            what = f"the text has {len(ids):,} tokens, more than {limit}={longest}"
            raise DataError(what, fix="shorten it around its masks", name="text", value=len(ids))
        begins = self.config.model.begins
        return self.special.source(ids, begins=begins), [place + begins for place in masks]

    def fillings(
        self, model: ModelHandle | nn.Module, texts: Sequence[str], decode: DecodeConfig, top: int = 1
    ) -> list[Filled]:
        """Fill the masks of each text, and return the `top` most probable tokens for each mask.

        Args:
            model: a torch module or a handle of a loaded model.
            texts: texts with masks.
            decode: `batch_tokens`, and the tokens to suppress, are used.
            top: number of tokens to return for each mask, at most the vocabulary.

        Raises:
            DataError: see `read`.
        """
        module, read = as_module(model), [self.read(text) for text in texts]
        tokens, found = Ragged([ids for ids, _ in read]), [Filled("", "")] * len(texts)
        with evaluation(module), torch.inference_mode():
            for rows in Batches(tokens.lengths, np.zeros_like(tokens.lengths), decode.batch_tokens).epoch(0):
                inputs = torch.from_numpy(tokens.padded(rows, self.special.pad)).to(self.config.train.device)
                at = torch.zeros_like(inputs, dtype=torch.bool)
                for row, i in enumerate(rows.tolist()):
                    at[row, read[i][1]] = True
                p, ids = self._ranked(module(inputs, at=at), decode, top)
                counts = [len(read[i][1]) for i in rows.tolist()]
                for i, *best in zip(rows.tolist(), p.split(counts), ids.split(counts)):
                    found[i] = self._filled(texts[i], *(it.tolist() for it in best))
        return found

    def _ranked(self, logits: Tensor, decode: DecodeConfig, top: int) -> tuple[Tensor, Tensor]:
        """Return the probabilities and ids of the most probable tokens. (N, V) -> (N, top), (N, top)

        Suppressed tokens are left out; the probabilities are those of the whole vocabulary.
        """
        p = logits.float().softmax(-1)
        suppressed = self.tokenizers.source.suppressed(decode)
        if decode.suppress_special:
            suppressed += [i for i in self.special.ids if i < p.size(-1)]
        p[:, suppressed] = -1.0
        best = p.topk(min(top, p.size(-1) - len(set(suppressed))))
        return best.values, best.indices

    def _filled(self, text: str, p: Sequence[Sequence[float]], ids: Sequence[Sequence[int]]) -> Filled:
        """Return a text filled with the first of each mask's tokens."""
        tokenizer = self.tokenizers.source
        masks = [
            tuple(
                Candidate(piece, spelling(tokenizer, i).strip() or piece, value)
                for piece, i, value in zip(tokenizer.pieces(tokens), tokens, values)
            )
            for tokens, values in zip(ids, p)
        ]
        best = [tokens[0] for tokens in ids]
        return Filled(text, fill(tokenizer, text, best), tuple(masks), self.unknown_words(text))

    def unknown_words(self, text: str) -> tuple[str, ...]:
        """Return the words of a text with masks that the vocabulary lacks."""
        tokenizer = self.tokenizers.source
        words = tokenizer.unknown_words(text.replace(tokenizer.mask_name, NEVER))
        return tuple(word for word in words if NEVER not in word)

    def answers(self, model: Any, texts: Sequence[str], decode: DecodeConfig) -> list[str]:
        """Return each text with its masks filled.

        Args:
            model: a torch module or a handle of a loaded model.
            texts: texts with masks.
            decode: see `fillings`.
        """
        return [it.filled for it in self.fillings(model, texts, decode)]

    def explain(self, model: Any, text: str, decode: DecodeConfig) -> "Explanation":
        """Fill the masks of one text and record every step. Raise DataError if the text has no mask, or is too long.

        Args:
            model: a torch module.
            text: a text with masks.
            decode: see `fillings`.
        """
        from ...inspection.explaining import explain
        from ...inspection.record.forward_pass import Pass
        from ...inspection.record.uncompiled import uncompiled
        from ...inspection.views.contrast import Masks

        source, (ids, masks) = self.tokenizers.source, self.read(text)
        with uncompiled(model):  # so that the recorded pass gives the same answer
            [found] = self.fillings(model, [text], decode)
        inputs, best = torch.tensor([ids], device=self.config.train.device), [it[0] for it in found.masks]
        at, names = torch.zeros_like(inputs, dtype=torch.bool), source.pieces(ids)
        at[0, masks] = True
        for place in masks:
            names[place] = source.mask_name
        said = [it.token for it in best]
        targets = [source.token_id(it) for it in said]
        forward = Pass(model=model, inputs=(inputs,), pieces={"encoder": lambda _: names}, targets=targets, said=said,
                       at=at, hidden=self.special.unk)  # fmt: skip
        values = {"probability": math.prod(it.probability for it in best)}
        unknown = [it for part in text.split(source.mask_name) for it in unknown_texts(source, part)]
        answer, choice = found.filled, Masks(source, said[0])
        return explain(forward, self.tokenizers, self.config, text, answer, values, choice=choice, unknown=unknown)
