"""Denoising: recover masked parts of a text. A warm start does this before it learns its task.

An encoder alone sees one mask token for each masked token (SpanBERT, Joshi et al. 2020; with spans of one token: BERT,
Devlin et al. 2019). An encoder-decoder sees one mask token for each masked span (BART, Lewis et al. 2020; T5, Raffel
et al. 2020). In our own vocabularies, it's <unk>, which byte-level subwords never produce otherwise.

There is no CLI verb. `denoising` creates a class that learns from the texts of another task.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..config import Config, DecodeConfig, SpecialTokens
from ..data.batches import Batches
from ..data.encoding import Encoded
from ..data.extra_texts import FormWithTexts, running_texts, with_plain_texts
from ..decode.model_handle import ModelHandle, as_module
from ..errors import ConfigError
from ..model.transformer import evaluation
from ..readers.skipped import Skipped
from ..scoring.bootstrap import FloatArray
from ..scoring.translation_scores import TokenCounts
from ..tokenization.ragged import IntArray, Ragged
from ..tokenization.source_and_target import Tokenizers
from ..tokenization.tokenizer import Tokenizer
from .base import EvaluationResult, Task, Units
from .examples import ExampleEncoder, Examples, HeldOut
from .loss import log_probability_of, smoothed_cross_entropy
from .sequences import TeacherForcing
from .source_reader import TextReader, longest_text, on_device

_SEED = 0  # seed of the masks in evaluations, which never change
_SCORED = 4096  # tokens in a batch without gradients
_SAME = ("verb", "title", "usage", "unused", "has_labels", "subword_dropout", "answers_text", "searches")
_SPAN, _SPAN_FOR_LABELS = 3.0, 1.0  # masked tokens in a row, on average
TOKENS_TO_FIND = 0.15  # share of the tokens to predict
_AS_HIDDEN, _AS_ANOTHER = 0.8, 0.1  # of these: replaced by the mask, or by a random token; the rest stay unchanged
_SPANS = 0.3  # share of the tokens to mask for a decoder that writes the whole text


def count_to_find(tokens: list[int], special: SpecialTokens) -> int:
    """Return the number of tokens to predict: 15% of all but special tokens, and at least one if there is any."""
    real = sum(token not in special.ids for token in tokens)
    return max(round(TOKENS_TO_FIND * real), min(real, 1))


class MaskVocabulary:
    """Masks tokens of texts, with the special tokens and the size of their vocabulary. Needs a mask token."""

    def __init__(self, special: SpecialTokens, size: int) -> None:
        self.special, self.mask = torch.tensor(sorted(special.ids)), cast(int, special.mask)
        self.ordinary = torch.tensor(special.ordinary(size))

    def hide_tokens(
        self, tokens: Tensor, counts: Tensor, span: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mask tokens of texts.

        Args:
            tokens: the texts (B, S). Special tokens are never masked.
            counts: the number of tokens to predict in each text (B,).
            span: the average number of tokens in a span. A span is masked, replaced or left unchanged as a whole.
            generator: the random generator; torch's default without one.

        Returns:
            The masked texts (B, S), and a mask of the tokens to predict (B, S).
        """
        real = ~torch.isin(tokens, self.special)
        if span == 1:
            chances = torch.rand(tokens.shape, generator=generator).masked_fill(~real, 2.0)
            found = chances.argsort(1).argsort(1) < counts[:, None]
            how = torch.rand(tokens.shape, generator=generator)
        else:
            found, how = _in_spans(real, counts, span, generator)
        others = self.ordinary[torch.randint(len(self.ordinary), tokens.shape, generator=generator)]
        changed = torch.where(how < _AS_HIDDEN + _AS_ANOTHER, others, tokens).masked_fill(how < _AS_HIDDEN, self.mask)
        return torch.where(found, changed, tokens), found


def _in_spans(real: Tensor, counts: Tensor, span: float, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Draw spans of `real` tokens. Return True inside a span, and a random number shared by its tokens."""
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    begins, lengths = _spans(real.sum(1).numpy(), counts.numpy(), span, rng)
    found, how = torch.zeros_like(real), torch.zeros(real.shape)
    found[real] = torch.from_numpy(_within(begins, lengths, int(real.sum())))
    how[found] = torch.from_numpy(np.repeat(rng.random(len(lengths), np.float32), lengths))
    return found, how


def _hide_spans(texts: Ragged, mask: int, span: float, rng: np.random.Generator) -> Ragged:
    """Return texts with one mask token in place of every masked span. The texts have no special tokens.

    Of n tokens, round(0.3 n) are masked, in spans of `span` tokens on average.
    """
    n = texts.lengths
    begins, lengths = _spans(n, np.rint(_SPANS * n).astype(np.int64), span, rng)
    stays = ~_within(begins, lengths, len(texts.tokens))
    stays[begins] = True  # the mask token of a span
    tokens = np.array(texts.tokens)
    tokens[begins] = mask
    rows = np.repeat(np.arange(len(n)), n)
    return Ragged.of(tokens[stays], np.bincount(rows[stays], minlength=len(n)).astype(np.int64))


def _spans(n: IntArray, hidden: IntArray, span: float, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Draw spans in concatenated texts of `n` tokens each, and return their starts and lengths.

    `hidden` tokens of each text are inside a span. Spans have `span` tokens on average and never touch. All choices
    are equally likely.
    """
    most = n - hidden + 1  # gaps around the other tokens; each takes one span at most
    spans = np.where(hidden > 0, np.clip(np.rint(hidden / span), 1, most), 0).astype(np.int64)
    lengths = _parts(hidden, spans, rng)
    of_text = np.repeat(np.arange(len(n)), spans)
    gaps = np.flatnonzero(_choose(most, spans, rng)) - _starts(most)[of_text]
    hidden_before = np.cumsum(lengths) - lengths - _starts(hidden)[of_text]  # in the same text
    return _starts(n)[of_text] + gaps + hidden_before, lengths


def _within(begins: IntArray, lengths: IntArray, total: int) -> NDArray[np.bool_]:
    """Mark the tokens inside spans, which mustn't touch."""
    change = np.zeros(total + 1, np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, begins + lengths, -1)
    return np.cumsum(change)[:-1] == 1


def _parts(totals: IntArray, counts: IntArray, rng: np.random.Generator) -> IntArray:
    """Split each total at random into `counts` numbers of at least 1, and return them concatenated."""
    first = np.zeros(int(totals.sum()), bool)
    first[_starts(totals)[totals > 0]] = True
    begins = first.copy()
    begins[~first] = _choose(np.maximum(totals - 1, 0), np.maximum(counts - 1, 0), rng)
    return np.diff(np.append(np.flatnonzero(begins), len(begins)))


def _choose(lengths: IntArray, counts: IntArray, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose `counts` positions at random in each of the concatenated rows."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((rng.random(len(rows)), rows))
    chosen = np.zeros(len(rows), bool)
    chosen[order[np.arange(len(rows)) - _starts(lengths)[rows] < counts[rows]]] = True
    return chosen


def _starts(lengths: IntArray) -> IntArray:
    """Return the start of each row."""
    return np.cumsum(lengths) - lengths


@dataclass(frozen=True)
class PieceEncoder(ExampleEncoder):
    """Tokenizes texts and cuts them into pieces.

    Args:
        longest: maximum number of tokens in a piece, not counting special tokens.
        texts: function that returns all texts in a chunk of data.
        sides: function that returns the sources and targets for tokenized pieces.
    """

    tokenizer: Tokenizer
    longest: int
    texts: Callable[[Any], Sequence[str]]
    sides: Callable[[Ragged], tuple[Ragged, Ragged]]

    def __call__(self, data: Any) -> Encoded:
        """Cut every text into pieces. A text without tokens gives none."""
        size, found = self.longest, self.tokenizer.encode_batch(self.texts(data))
        pieces = [ids[i : i + size] for ids in found for i in range(0, len(ids), size)]
        pieces = [ids for ids in pieces if count_to_find(ids, self.tokenizer.special)]
        return Encoded(*self.sides(Ragged(pieces)), [*range(len(pieces))], [], list[Skipped]())

    def hold_out(self, data: Any, examples: Callable[[Ragged, Ragged], Examples]) -> HeldOut:
        """Prepare texts for scoring."""
        found = self(data)
        return HeldOut(examples(found.sources, found.targets), [], 0, list(self.texts(data)), [])


@dataclass(frozen=True)
class MaskedTexts(Examples):
    """Tokenized texts. The target of each text is its number of tokens to mask."""

    given: ClassVar[int] = 0
    counts_sources: ClassVar[bool] = True

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> Batches:
        """Return batches of texts of similar length. They count masked tokens as predictions.

        Args:
            max_tokens: maximum number of tokens in a batch, with padding.
            seed: seed of the order, which is different in each epoch.
            max_rows: maximum number of texts in a batch (default: no limit).
        """
        counts = np.asarray(self.targets.tokens, np.int64)
        return Batches(self.sources.lengths, counts, max_tokens, seed, max_rows, self.counts_sources)


@dataclass(frozen=True)
class DenoisingScores:
    """Scores for recovering masked tokens."""

    texts: int
    hidden_accuracy: float
    hidden_perplexity: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


# --- the tasks --------------------------------------------------------------------------------------------------------


def denoising(task: type[Task], extra_texts: Sequence[str] = ()) -> type[Task]:
    """Return a task that learns from the texts of another task and from the files in `extra_texts`.

    A decoder-only model predicts the next token, as it does without a warm start.

    Raises:
        ConfigError: the model is decoder-only and has no extra texts, so a warm start would change nothing.
    """
    topology = task.required["model.topology"]
    if topology == "decoder-only":
        return _next_token(task, extra_texts)
    base = MaskedTokens if topology == "encoder-only" else MaskedSpans
    head = {"model.head": "token", "model.n_classes": 0} if topology == "encoder-only" else {}
    texts = with_plain_texts(task.texts)
    attributes = {
        **{name: getattr(task, name) for name in _SAME},
        "form": FormWithTexts(task.form, extra_texts) if extra_texts else task.form,
        "required": {**task.required, **head},
        "defaults": {**task.defaults, "train.hidden_span": _SPAN_FOR_LABELS if task.has_labels else _SPAN},
        "derived": classmethod(lambda cls, config: task.derived(config)),
        "texts": classmethod(lambda cls, data: texts(data)),
    }
    return type(base.__name__, (base,), attributes)


def _next_token(task: type[Task], extra_texts: Sequence[str]) -> type[Task]:
    if not extra_texts:
        what = f"train.warm_start=denoise does nothing for {task.verb!r}, which learns from text anyway"
        fix = "give it more text to learn from first, with `data.texts`, or leave out train.warm_start"
        raise ConfigError(what, fix=fix, name="train.warm_start", value="denoise")
    return type(task.__name__, (task,), {"form": FormWithTexts(task.form, extra_texts, running_texts)})


def _mask_of(config: Config) -> int:
    """Return the token that masks others. Raise ConfigError if the vocabulary has none."""
    if config.model.mask_id is None:
        what = "model.mask_id=none: the vocabulary has no token that masks others"
        fix = "leave out train.warm_start, or start from a model with a mask token"
        raise ConfigError(what, expected="the id of a mask token", fix=fix, name="model.mask_id")
    return config.model.mask_id


class _Denoising(Task):
    """Base class for masked tokens and masked spans."""

    units = Units("pieces of text", "tokens", "text")
    training_data = "pieces of text"
    scores = ("loss", "hidden_accuracy")

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        super().__init__(tokenizers, config)
        self._span = config.train.hidden_span or 1.0
        self._mask = _mask_of(config)

    def numbers(self, scores: DenoisingScores) -> dict[str, float]:
        return {"loss": math.log(scores.hidden_perplexity), "hidden_accuracy": scores.hidden_accuracy}

    def _judged(
        self,
        held_out: HeldOut,
        counts: TokenCounts,
        singly: Callable[[], Mapping[str, FloatArray]] = dict[str, FloatArray],
    ) -> EvaluationResult:
        scores = DenoisingScores(len(held_out.examples), counts.accuracy, counts.perplexity)
        return EvaluationResult(scores, held_out.sources, [], [], singly)


class MaskedTokens(_Denoising):
    """An encoder that predicts 15% of the tokens, most of which are masked."""

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        super().__init__(tokenizers, config)
        self._vocabulary = MaskVocabulary(self.special, tokenizers.source.vocab_size)

    @property
    def longest(self) -> tuple[int, str]:
        """Maximum number of tokens in a piece, without BOS and EOS, and the setting that it comes from."""
        return min((self.config.data.max_len, "data.max_len"), (self.config.model.max_len - 2, "model.max_len"))

    @property
    def encoder(self) -> PieceEncoder:
        """Encodes texts as pieces. A piece ends with EOS, and begins with BOS if the task's head reads it."""
        special, begins = self.special, self.config.model.begins

        def sides(pieces: Ragged) -> tuple[Ragged, Ragged]:
            found = [pieces[i] for i in range(len(pieces))]
            counts = Ragged([[count_to_find(ids, special)] for ids in found])
            return Ragged([special.source(ids, begins=begins) for ids in found]), counts

        return PieceEncoder(self.tokenizers.source, self.longest[0], self.texts, sides)

    def examples(self, sides: tuple[Ragged, Ragged]) -> MaskedTexts:
        return MaskedTexts(*sides)

    def hold_out(self, data: Any) -> HeldOut:
        return self.encoder.hold_out(data, MaskedTexts)

    def loss(self, model: nn.Module, examples: Examples, rows: IntArray, *, smoothing: float) -> Tensor:
        """Return the cross-entropy, summed over the tokens to predict, which are drawn again in each call.

        Args:
            model: an encoder with a token head.
            examples: unmasked texts.
            rows: indices of the texts (B,).
            smoothing: amount of label smoothing, spread over the vocabulary.
        """
        masked, at, expected, _ = self._masked(examples, rows, None)
        return smoothed_cross_entropy(model(masked, at=at), expected, smoothing=smoothing, pad=self.special.pad)

    def evaluate(self, model: ModelHandle | nn.Module, held_out: HeldOut, decode: DecodeConfig) -> EvaluationResult:
        """Predict masked tokens, which are the same in each call.

        For each text, the mean of -log p in nats, and its share of the accuracy: the mean over texts is the accuracy.

        Args:
            model: a torch module or a handle of a loaded model.
            held_out: unmasked texts.
            decode: not used, as there's no search.
        """
        module, generator = as_module(model), torch.Generator().manual_seed(_SEED)
        found, right, nats = (np.zeros(len(held_out.examples)) for _ in range(3))
        with evaluation(module), torch.inference_mode():
            for rows in held_out.examples.batches(max(_SCORED, self.longest[0] + 2)).epoch(0):
                masked, at, expected, counts = self._masked(held_out.examples, rows, generator)
                logits = module(masked, at=at).float()
                log_p = log_probability_of(expected[:, None], logits.log_softmax(-1))[:, 0]
                text = np.repeat(rows, counts)  # the text of each prediction
                np.add.at(found, text, 1)
                np.add.at(right, text, (logits.argmax(-1) == expected).cpu().numpy())
                np.add.at(nats, text, -log_p.double().cpu().numpy())
        total = TokenCounts(int(found.sum()), int(right.sum()), float(nats.sum()))
        share = len(found) / found.sum()
        return self._judged(held_out, total, lambda: {"hidden_nats": nats / found, "hidden_accuracy": right * share})

    def _masked(
        self, examples: Examples, rows: IntArray, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor, IntArray]:
        """Return texts with masked tokens (B, S), the places of those to predict in the flattened batch (N,), the
        tokens there (N,), and their number in each text (B,).

        The CPU finds the places, because a GPU would make it wait for their number.
        """
        tokens = torch.from_numpy(examples.sources.padded(rows, self.special.pad))
        counts = torch.from_numpy(np.asarray(examples.targets.tokens[rows], np.int64))
        masked, found = self._vocabulary.hide_tokens(tokens, counts, self._span, generator)
        at = found.flatten().nonzero().flatten()
        device, expected = self.config.train.device, tokens.flatten()[at]
        there = [on_device(it.numpy(), device) for it in (masked, at, expected)]
        return there[0], there[1], there[2], found.sum(1).numpy()


class MaskedSpans(_Denoising):
    """An encoder that reads texts with masked spans, and a decoder that writes the whole texts."""

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        super().__init__(tokenizers, config)
        reader = TextReader(tokenizers.source, self.longest[0], config.model.begins, config)
        self._forcing = TeacherForcing(reader, config)  # from a masked text to the whole text

    @property
    def longest(self) -> tuple[int, str]:
        return longest_text(self.config)

    @property
    def encoder(self) -> PieceEncoder:
        """Encodes texts as pieces, always with the same masked spans."""
        return PieceEncoder(self.tokenizers.source, self.longest[0], self.texts, self._sides)

    def examples(self, sides: tuple[Ragged, Ragged]) -> Examples:
        return Examples(*sides)

    def each_epoch(self, examples: Examples) -> Callable[[int], Examples]:
        """Return a function that masks different spans in each epoch. They depend only on (seed, epoch)."""
        tokens, seed = np.asarray(examples.targets.tokens), self.config.train.seed
        framed = np.zeros(len(tokens), bool)  # the first input and the end token of each text
        framed[examples.targets.starts[:-1]] = framed[examples.targets.starts[1:] - 1] = True
        texts = Ragged.of(tokens[~framed], examples.targets.lengths - 2)

        def masked(epoch: int) -> Examples:
            return Examples(self._masked(texts, [seed, epoch]), examples.targets)

        return masked

    def hold_out(self, data: Any) -> HeldOut:
        return self.encoder.hold_out(data, Examples)

    def loss(self, model: nn.Module, examples: Examples, rows: IntArray, *, smoothing: float) -> Tensor:
        """Return the cross-entropy, summed over the whole texts.

        Args:
            model: an encoder-decoder.
            examples: masked texts as sources, and whole texts as targets.
            rows: indices of the texts (B,).
            smoothing: amount of label smoothing, spread over the vocabulary.
        """
        return self._forcing.loss(model, examples, rows, smoothing=smoothing)

    def evaluate(self, model: Any, held_out: HeldOut, decode: DecodeConfig) -> EvaluationResult:
        """Predict each token of the texts from the masked text and the preceding tokens.

        Args:
            model: a torch module.
            held_out: masked texts as sources, and whole texts as targets.
            decode: not used, as there's no search.
        """
        return self._judged(held_out, self._forcing.count(model, held_out.examples))

    def _sides(self, texts: Ragged) -> tuple[Ragged, Ragged]:
        """Return the masked texts as sources, and the whole texts as targets."""
        return self._masked(texts, [_SEED]), Ragged([self.special.target(texts[i]) for i in range(len(texts))])

    def _masked(self, texts: Ragged, seed: list[int]) -> Ragged:
        """Return texts with masked spans and, if the model's sources have it, EOS."""
        masked = _hide_spans(texts, self._mask, self._span, np.random.default_rng(seed))
        if not self.special.ends:
            return masked
        return Ragged.of(np.insert(masked.tokens, masked.starts[1:], self.special.eos), masked.lengths + 1)
