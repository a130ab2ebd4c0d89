"""The base class of text-to-text tasks, which train an encoder-decoder on pairs."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ...config import DecodeConfig
from ...data.encoding import PairEncoder
from ...decode.model_handle import ModelHandle, as_handle, as_module
from ...decode.registry import IN_MEMORY, open_engine
from ...decode.session import Session
from ...errors import DataError
from ...readers.lines import one_line, shown
from ...readers.media.media_in_memory import source_name
from ...readers.pairs import Pairs, references
from ...readers.skipped import Skipped
from ...scoring.translation_scores import TokenCounts
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.subword_dropout import SubwordDropout
from ..base import EvaluationResult, Task, check_filled
from ..examples import Examples, HeldOut
from ..transfer import on_device, tokens_on_device
from .examples import PairBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from ...inspection.views.explanation import Explanation
    from ...model.transformer import EncoderDecoder

_SCORED = 1024  # maximum tokens per side in a batch without gradients


class Sequences(Task):
    """Base class of text-to-text tasks. A subclass adds the scores.

    Training skips pairs that are too long on either side. With `cuts`, the name of the targets, long sources are
    truncated instead, and only pairs with a long target are skipped.
    """

    subword_dropout = True
    cuts: ClassVar[str] = ""

    @property
    def readable(self) -> tuple[int, str]:
        """Maximum number of source tokens that the model can read, without BOS and EOS, and where it comes from.

        Position tables end there. Other position schemes have no limit, but memory would run out.
        """
        return self._context

    @property
    def _context(self) -> tuple[int, str]:
        return self.config.model.max_len - 1 - self._begins, "model.max_len"

    @property
    def _begins(self) -> bool:
        """True if a source begins with BOS."""
        return self.config.model.begins

    @property
    def max_source_len(self) -> int:
        """Maximum number of source tokens, without BOS and EOS. Longer sources are truncated."""
        return self.readable[0]

    @property
    def longest(self) -> tuple[int, str]:
        """Maximum number of tokens per side in training, and the setting that it comes from."""
        return min((self.config.data.max_len, "data.max_len"), self._context)

    @property
    def encoder(self) -> PairEncoder:
        """The encoder for training, limited to the maximum length in training."""
        return PairEncoder(self.tokenizers, *self.longest, cuts=self.cuts, begins=self._begins)

    @property
    def reader(self) -> PairEncoder:
        """The encoder for a trained model, limited to the length that it can read."""
        return PairEncoder(self.tokenizers, *self.readable, cuts=self.cuts, begins=self._begins)

    def encode(self, pairs: Pairs) -> tuple[Examples, list[Skipped]]:
        """Return the tokenized pairs, and the pairs that are too long to train on."""
        found = self.encoder(pairs)
        return Examples(found.sources, found.targets), found.skipped

    def examples(self, sides: tuple[Ragged, Ragged]) -> Examples:
        """Return the examples of a store."""
        return Examples(*sides)

    def each_epoch(self, examples: Examples) -> Callable[[int], Examples] | None:
        """Return a function that tokenizes the examples differently in each epoch, if data.subword_dropout is set.

        The tokens depend only on (seed, epoch).
        """
        p, seed, longest = self.config.data.subword_dropout, self.config.train.seed, self.longest[0]
        if not p:
            return None
        source, target = (SubwordDropout(it, p) for it in (self.tokenizers.source, self.tokenizers.target))

        def resegmented(epoch: int) -> Examples:
            sources = source(examples.sources, longest, seed=f"source {seed} {epoch}")
            return Examples(sources, target(examples.targets, longest, seed=f"target {seed} {epoch}"))

        return resegmented

    def hold_out(self, data: Pairs) -> HeldOut:
        """Prepare pairs for scoring. All sources are answered; the loss leaves out pairs that are too long."""
        found = self.encoder(data)
        _, cut = self.sources(list({it.text for it in (*found.skipped, *found.cut)}))  # no others are truncated
        examples = Examples(found.sources, found.targets)
        return HeldOut(examples, found.skipped, sum(map(bool, cut)), *references(data))

    # --- teacher forcing

    def batch(self, examples: Examples, rows: IntArray) -> PairBatch:
        """Return the tensors of the examples in these rows."""
        n_tokens, device = int(examples.targets.lengths[rows].sum()) - len(rows), self.config.train.device
        read, pad, sizes = self.padded(examples.sources, rows), self.special.pad, self.config.model
        is_text = self.config.data.modality == "text"
        source = tokens_on_device(read, device, sizes.src_vocab_size, pad) if is_text else on_device(read, device)
        target = tokens_on_device(examples.targets.padded(rows, pad), device, sizes.tgt_vocab_size, pad)
        ragged = int(examples.sources.lengths[rows].min()) < source.size(1)
        return PairBatch(source, ragged, target[:, :-1], target[:, 1:], n_tokens)

    def padded(self, sources: Ragged, rows: IntArray) -> "NDArray[Any]":
        """Return what the front end reads of some sources. (B,) -> (B, S)"""
        return sources.padded(rows, self.special.pad)

    def logits(self, model: "nn.Module", batch: PairBatch, *, states: bool = False) -> "Tensor":
        """Return the logits of a batch (B, T, V), or the `states` that the projection reads (B, T, D).

        In training, the front end may change its sources at random.
        """
        front, source = cast("EncoderDecoder", model).encoder.embedding, batch.source
        if model.training:
            source = front.augment(source)
        changed = source is not batch.source
        mask = front.mask(source) if batch.ragged or changed else None
        found: Tensor = model(source, batch.inputs, source_mask=mask, states=states)
        return found

    def loss(self, model: "nn.Module", examples: Examples, rows: IntArray, *, smoothing: float) -> "Tensor":
        """Return the cross-entropy, summed over the real target tokens of the examples in these rows."""
        from ..loss import projected_cross_entropy, smoothed_cross_entropy

        batch, decoder, pad = self.batch(examples, rows), cast("EncoderDecoder", model).decoder, self.special.pad
        outputs, copies = batch.outputs.flatten(), decoder.pointer is not None
        found = self.logits(model, batch, states=not copies).flatten(0, 1)
        if copies:
            return smoothed_cross_entropy(found, outputs, smoothing=smoothing, pad=pad)
        return projected_cross_entropy(found, decoder.projection, outputs, smoothing=smoothing, pad=pad)

    def count(self, model: "EncoderDecoder", examples: Examples) -> TokenCounts:
        """Count tokens, correct tokens and the negative log-likelihood, without dropout and label smoothing."""
        import torch

        from ...model.transformer import evaluation
        from ..loss import smoothed_cross_entropy

        counts, pad = TokenCounts(), self.special.pad
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(self._scored_together).epoch(0):
                batch = self.batch(examples, rows)
                logits = self.logits(model, batch).flatten(0, 1)
                outputs = batch.outputs.flatten()
                right = int(((logits.argmax(-1) == outputs) & (outputs != pad)).sum())
                counts += TokenCounts(batch.n_tokens, right, float(smoothed_cross_entropy(logits, outputs, pad=pad)))
        return counts

    def log_probabilities(self, model: "EncoderDecoder", examples: Examples) -> list[list[float]]:
        """Return the log-probability of every target token, EOS included, for each example."""
        import torch

        from ...model.transformer import evaluation
        from ..loss import log_probability_of

        found: list[list[float]] = [[] for _ in range(len(examples))]
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(self._scored_together).epoch(0):
                batch = self.batch(examples, rows)
                logits = self.logits(model, batch)
                log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
                taken = log_probability_of(batch.outputs[..., None], log_p)[..., 0].tolist()
                for row, values in zip(rows.tolist(), taken):
                    found[row] = values[: int(examples.targets.lengths[row]) - 1]
        return found

    @property
    def _scored_together(self) -> int:
        """Maximum number of tokens per side in a batch without gradients.

        The logits are float32 here, so a larger batch would need more memory than training does, and the process
        would keep it.
        """
        return min(self.config.data.batch_tokens or _SCORED, _SCORED)

    # --- answers

    def session(self, model: "ModelHandle | nn.Module", decode: DecodeConfig) -> Session:
        """Return a decoding session that runs the model in the engine `decode.engine`.

        Raises:
            ConfigError: the engine can't run the model, or doesn't support one of the settings.
            DataError: a token to suppress isn't in the vocabulary.
        """
        suppress = self.tokenizers.target.suppressed(decode)
        engine = open_engine(as_handle(model, self.config.model), decode)
        longest = self.config.model.max_len
        special = self.special
        return self.new_session(engine, decode, special, max_len=longest, suppress=suppress, detokenize=self.text)

    @property
    def new_session(self) -> Callable[..., Session]:
        """The kind of session that decodes sources of this task."""
        return Session

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of an answer's tokens."""
        return one_line(self.tokenizers.target.decode(ids))

    def sources(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Return up to `max_source_len` tokens of each text, and how many of its tokens were cut off.

        Sources include BOS if the model's texts begin with it, but not EOS.
        """
        encoded, longest = self.tokenizers.source.encode_batch(texts), self.max_source_len
        first = [self.special.bos] * self._begins
        return [[*first, *ids[:longest]] for ids in encoded], [max(len(ids) - longest, 0) for ids in encoded]

    def encoder_input(self, source: Sequence[int]) -> "Tensor":
        """Return an encoded source as the encoder reads it: with EOS, if the model's sources have it. -> (1, S)"""
        import torch

        return torch.tensor([self.special.source(source)])

    def size(self, source: Sequence[int]) -> int:
        """Return the positions of an encoded source in the encoder, without EOS."""
        return len(source)

    def unknown_words(self, source: Any) -> tuple[str, ...]:
        """Return the words of a source that the vocabulary lacks."""
        return tuple(self.tokenizers.source.unknown_words(source))

    def prefix(self, text: str) -> list[int]:
        """Return the tokens that every answer must start with.

        Raises:
            DataError: some of the words aren't in the vocabulary.
        """
        if unknown := self.tokenizers.target.unknown_words(text):
            raise DataError(
                f"the prefix has words that the model can't write: {', '.join(map(shown, unknown))}",
                expected="words from the training data",
                name="prefix",
                value=text,
            )
        return self.tokenizers.target.encode(text) if text.strip() else []

    def answers(self, model: "ModelHandle | nn.Module", texts: Sequence[str], decode: DecodeConfig) -> list[str]:
        """Return the best answer to each text. Texts that are too long are truncated."""
        session = self.session(model, decode)
        session.scored = False
        answers = session.answers(self.sources(texts)[0])
        return [one_line(text) for text in self.tokenizers.target.decode_batch([found[0].ids for found in answers])]

    def explain(
        self, model: "EncoderDecoder", text: str, decode: DecodeConfig, prefix: Sequence[int] = ()
    ) -> "Explanation":
        """Answer one text or recording and record every step. The answer starts with the tokens of `prefix`.

        Raises:
            DataError: the source is blank, longer than the model can read, or a file that can't be read.
        """
        import torch

        from ...inspection.explaining import explain
        from ...inspection.record.forward_pass import Pass
        from ...inspection.views.contrast import Words
        from ...inspection.views.search_tree import SearchTree

        ids, target, device = self._readable(text), self.tokenizers.target, self.config.train.device
        session = self.session(model, replace(decode, engine=IN_MEMORY))  # recording watches torch modules
        tree = SearchTree.of(session, target.pieces)
        with tree.watching(model):
            [hypotheses] = session.answers([ids], tree.observe, prefix)

        def again() -> tuple[str, float]:
            [[first, *_]] = session.answers([ids], prefix=prefix)
            return self.text(first.ids), first.score

        best, longest = hypotheses[0], session.request(ids, prefix).max_len
        said = [*best.ids, *best.last(self.special.eos)]
        inputs = torch.tensor([[self.special.start, *best.ids][: len(said)]], device=device)
        read, answer = self.encoder_input(ids).to(device), self.text(best.ids)
        forward = Pass(model=model, inputs=(read, inputs), pieces=self.tokenizers.pieces, targets=said,
                       said=target.pieces(said), hidden=self.special.unk, answer=again)  # fmt: skip
        return explain(
            forward,
            self.tokenizers,
            replace(self.config, decode=decode),
            text,
            answer,
            {"score": best.score, "log_probability": best.log_probability},
            choice=Words.of_text(answer, best.ids, said, target),
            search=None if session.diverse else tree.finish(hypotheses, self.text),
            prefix=prefix,
            forced=[n for n in range(len(said)) if n < len(prefix) or n == longest],
        )

    def _readable(self, source: Any) -> Sequence[int]:
        """Return an encoded source. Raise a DataError if it's blank, or longer than the model can read."""
        check_filled(source)
        [ids], [cut] = self.sources([source])
        what, unit = (
            ("the text", "tokens") if "text" in self.modalities else (source_name(source), "positions of 40 ms")
        )
        if cut:
            raise DataError(
                f"{what} has {self.size(ids) + cut:,} {unit}, more than the model can read",
                expected=f"at most {self.max_source_len:,} {unit}",
                name="text",
                value=self.size(ids) + cut,
            )
        return ids

    def check_search(self, model: "nn.Module") -> None:
        """Raise an error if the decoding settings don't fit the model and its vocabulary."""
        self.session(model, replace(self.config.decode, engine=IN_MEMORY))

    # --- scores

    def evaluate(self, model: "ModelHandle | nn.Module", held_out: HeldOut, decode: DecodeConfig) -> EvaluationResult:
        """Answer each distinct source and score the answers. There is no loss if all pairs are too long for it."""
        examples = held_out.examples
        counts = self.count(cast("EncoderDecoder", as_module(model)), examples) if len(examples) else None
        return self.judge(held_out, self.answers(model, held_out.sources, decode), counts)

    @abstractmethod
    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> EvaluationResult:
        """Score answers. `counts` adds token accuracy and perplexity, if given."""


def token_numbers(scores: Any) -> dict[str, float]:
    """Return the loss and the token accuracy for the training log, if `scores` has them."""
    if scores.perplexity is None or scores.token_accuracy is None:
        return {}
    return {"loss": math.log(scores.perplexity), "token_accuracy": scores.token_accuracy}
