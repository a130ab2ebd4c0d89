"""The base class of text-to-text tasks, which train an encoder-decoder on pairs by teacher forcing.

The decoder predicts each token of a target from the source and the tokens before it.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ..config import Config, DecodeConfig
from ..data.encoding import PairEncoder
from ..decode.beams import Hypothesis
from ..decode.model_handle import ModelHandle, as_handle, as_module
from ..decode.registry import IN_MEMORY, open_engine
from ..decode.session import Session
from ..errors import DataError
from ..readers.lines import one_line, shown
from ..readers.media.media_in_memory import source_name
from ..readers.pairs import Pairs, references
from ..scoring.bootstrap import FloatArray
from ..scoring.summary_scores import common_subsequence
from ..scoring.translation_scores import TokenCounts
from ..tokenization.ragged import IntArray, Ragged
from ..tokenization.subword_dropout import SubwordDropout
from ..tokenization.tokenizer import words_of
from .base import EvaluationResult, Task, check_filled
from .examples import Examples, HeldOut
from .source_reader import SourceReader, TextReader, longest_text, tokens_on_device, whole_length

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..inspection.views.explanation import Explanation
    from ..model.transformer import EncoderDecoder


_SCORED = 1024  # maximum tokens per side in a batch without gradients


@dataclass(frozen=True)
class PairBatch:
    """The tensors of one micro-batch.

    Args:
        source: source tokens (B, S), or what another front end reads.
        ragged: whether the sources have different lengths, so that there's padding to mask.
        inputs: target tokens that the decoder reads (B, T).
        outputs: the next token after each input (B, T).
        n_tokens: the number of real tokens in `outputs`.
    """

    source: "Tensor"
    ragged: bool
    inputs: "Tensor"
    outputs: "Tensor"
    n_tokens: int


@dataclass(frozen=True)
class TeacherForcing:
    """Computes the losses and log-probabilities of pairs, whose sources `reader` reads."""

    reader: SourceReader
    config: Config

    @property
    def _pad(self) -> int:
        return self.config.model.pad_id

    def batch(self, examples: Examples, rows: IntArray) -> PairBatch:
        """Return the tensors of the examples in these rows."""
        n_tokens, size = int(examples.targets.lengths[rows].sum()) - len(rows), self.config.model.tgt_vocab_size
        source = self.reader.tensor(examples.sources, rows)
        padded = examples.targets.padded(rows, self._pad)
        target = tokens_on_device(padded, self.config.train.device, size, self._pad)
        ragged = int(examples.sources.lengths[rows].min()) < source.size(1)
        return PairBatch(source, ragged, target[:, :-1], target[:, 1:], n_tokens)

    def logits(self, model: "nn.Module", batch: PairBatch, *, states: bool = False) -> "Tensor":
        """Return the logits of a batch (B, T, V), or the `states` that the projection reads (B, T, D).

        In training, the front end may change its sources at random.

        Args:
            model: an encoder-decoder, in training or evaluation mode.
            batch: what `batch` returned.
            states: return what the projection reads (default: its result).
        """
        front, source = cast("EncoderDecoder", model).encoder.embedding, batch.source
        if model.training:
            source = front.augment(source)
        changed = source is not batch.source
        mask = front.mask(source) if batch.ragged or changed else None
        return model(source, batch.inputs, source_mask=mask, states=states)

    def loss(self, model: "nn.Module", examples: Examples, rows: IntArray, *, smoothing: float) -> "Tensor":
        """Return the cross-entropy, summed over the real target tokens of the examples in these rows.

        Args:
            model: an encoder-decoder, in training or evaluation mode.
            examples: sources and targets.
            rows: indices of the examples (B,).
            smoothing: amount of label smoothing, spread over the vocabulary.
        """
        from .loss import projected_cross_entropy, smoothed_cross_entropy

        batch, decoder = self.batch(examples, rows), cast("EncoderDecoder", model).decoder
        outputs, copies = batch.outputs.flatten(), decoder.pointer is not None
        found = self.logits(model, batch, states=not copies).flatten(0, 1)
        if copies:
            return smoothed_cross_entropy(found, outputs, smoothing=smoothing, pad=self._pad)
        return projected_cross_entropy(found, decoder.projection, outputs, smoothing=smoothing, pad=self._pad)

    def count(self, model: "EncoderDecoder", examples: Examples) -> TokenCounts:
        """Count tokens, correct tokens and the negative log-likelihood, without dropout and label smoothing."""
        from .loss import smoothed_cross_entropy

        counts = TokenCounts()
        for _, batch, logits in self._predicted(model, examples):
            outputs, flat = batch.outputs.flatten(), logits.flatten(0, 1)
            right = int(((flat.argmax(-1) == outputs) & (outputs != self._pad)).sum())
            counts += TokenCounts(batch.n_tokens, right, float(smoothed_cross_entropy(flat, outputs, pad=self._pad)))
        return counts

    def log_probabilities(self, model: "EncoderDecoder", examples: Examples) -> list[list[float]]:
        """Return the log-probability of every target token, EOS included, for each example."""
        import torch

        from .loss import log_probability_of

        found: list[list[float]] = [[] for _ in range(len(examples))]
        for rows, batch, logits in self._predicted(model, examples):
            log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
            taken = log_probability_of(batch.outputs[..., None], log_p)[..., 0].tolist()
            for row, values in zip(rows.tolist(), taken):
                found[row] = values[: int(examples.targets.lengths[row]) - 1]
        return found

    def _predicted(self, model: "EncoderDecoder", examples: Examples) -> Iterator[tuple[IntArray, PairBatch, "Tensor"]]:
        """Yield the rows of each batch, its tensors and its logits, in evaluation mode.

        The logits are float32 here, so a larger batch would need more memory than training does, and the process
        would keep it.
        """
        import torch

        from ..model.transformer import evaluation

        together = min(self.config.data.batch_tokens or _SCORED, _SCORED)
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(together).epoch(0):
                batch = self.batch(examples, rows)
                yield rows, batch, self.logits(model, batch)


# --- the base class ---------------------------------------------------------------------------------------------------


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
        return self.config.model.max_len - 1 - self.config.model.begins, "model.max_len"

    @property
    def longest(self) -> tuple[int, str]:
        return longest_text(self.config)

    @cached_property
    def reader(self) -> SourceReader:
        """Reads sources. Those that are longer than `readable` are truncated."""
        return TextReader(self.tokenizers.source, self.readable[0], self.config.model.begins, self.config)

    @cached_property
    def forcing(self) -> TeacherForcing:
        """Computes the loss."""
        return TeacherForcing(self.reader, self.config)

    @property
    def encoder(self) -> PairEncoder:
        return PairEncoder(self.tokenizers, *self.longest, cuts=self.cuts, begins=self.config.model.begins)

    @property
    def scorer(self) -> PairEncoder:
        """The encoder of pairs for a trained model, limited to the length that it can read."""
        return replace(self.encoder, longest=self.readable[0], limit=self.readable[1])

    def examples(self, sides: tuple[Ragged, Ragged]) -> Examples:
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
        long = {it.text for it in (*found.skipped, *found.cut)}  # no others are truncated
        _, cut = self.reader.for_search(list(long))
        examples = Examples(found.sources, found.targets)
        return HeldOut(examples, found.skipped, sum(map(bool, cut)), *references(data))

    def loss(self, model: "nn.Module", examples: Examples, rows: IntArray, *, smoothing: float) -> "Tensor":
        """Return the cross-entropy, summed over the target tokens; see `TeacherForcing.loss`.

        Args:
            model: an encoder-decoder.
            examples: sources and targets.
            rows: indices of the examples (B,).
            smoothing: amount of label smoothing, spread over the vocabulary.
        """
        return self.forcing.loss(model, examples, rows, smoothing=smoothing)

    # --- answers

    def session(self, model: "ModelHandle | nn.Module", decode: DecodeConfig) -> Session:
        """Return a decoding session that runs the model in the engine `decode.engine`.

        Raises:
            ConfigError: the engine can't run the model, or doesn't support one of the settings.
            DataError: a token to suppress isn't in the vocabulary.
        """
        suppress = self.tokenizers.target.suppressed(decode)
        engine = open_engine(as_handle(model, self.config.model), decode)
        longest, special = self.config.model.max_len, self.special
        return self.new_session(engine, decode, special, max_len=longest, suppress=suppress, detokenize=self.text)

    @property
    def new_session(self) -> Callable[..., Session]:
        return Session

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of an answer's tokens."""
        return one_line(self.tokenizers.target.decode(ids))

    def words(self, ids: Sequence[int], log_probabilities: Sequence[float]) -> list[tuple[str, float]]:
        """Return each word of an answer with its log-probability, the sum of those of its tokens.

        Args:
            ids: the tokens of the answer.
            log_probabilities: one for each token. Those of an end token are ignored.
        """
        texts = self.text(ids).split()
        found = [0.0] * len(texts)
        for word, log_p in zip(words_of(ids, self.tokenizers.target.decode), log_probabilities):
            if word < len(found):
                found[word] += log_p
        return [*zip(texts, found)]

    def prefix(self, text: str) -> list[int]:
        """Return the tokens that every answer must start with.

        Raises:
            DataError: some of the words aren't in the vocabulary.
        """
        if unknown := self.tokenizers.target.unknown_words(text):
            what = f"the prefix has words that the model can't write: {', '.join(map(shown, unknown))}"
            raise DataError(what, expected="words from the training data", name="prefix", value=text)
        return self.tokenizers.target.encode(text) if text.strip() else []

    def answers(self, model: "ModelHandle | nn.Module", texts: Sequence[str], decode: DecodeConfig) -> list[str]:
        """Return the best answer to each text. Texts that are too long are truncated.

        Args:
            model: a torch module or a handle of a loaded model.
            texts: raw texts, or names of files.
            decode: settings of the search.
        """
        return self.texts_of(self.hypotheses(model, texts, decode))

    def hypotheses(
        self, model: "ModelHandle | nn.Module", texts: Sequence[str], decode: DecodeConfig
    ) -> list[Hypothesis]:
        """Return the best answer to each text as tokens. Their log-probabilities can be missing, but not their sum.

        Args:
            model: a torch module or a handle of a loaded model.
            texts: raw texts, or names of files.
            decode: settings of the search.
        """
        return self._searched(model, self.reader.for_search(texts)[0], decode)

    def _searched(self, model: Any, encoded: Sequence[Any], decode: DecodeConfig) -> list[Hypothesis]:
        session = self.session(model, decode)
        session.scored = False
        return [found[0] for found in session.answers(encoded)]

    def texts_of(self, answers: Sequence[Hypothesis]) -> list[str]:
        """Return the text of each answer."""
        return [one_line(text) for text in self.tokenizers.target.decode_batch([it.ids for it in answers])]

    def explain(
        self, model: "EncoderDecoder", text: str, decode: DecodeConfig, prefix: Sequence[int] = ()
    ) -> "Explanation":
        """Answer one text or recording and record every step. The answer starts with the tokens of `prefix`.

        Args:
            model: a torch module.
            text: a raw text, or the name of a recording.
            decode: settings of the search, whose engine is replaced by the one that can be recorded.
            prefix: token ids of the target.

        Raises:
            DataError: the source is blank, longer than the model can read, or a file that can't be read.
        """
        import torch

        from ..inspection.explaining import explain
        from ..inspection.record.forward_pass import Pass
        from ..inspection.views.contrast import Words
        from ..inspection.views.search_tree import SearchTree

        ids, target, device = self._readable(text), self.tokenizers.target, self.config.train.device
        session = self.session(model, replace(decode, engine=IN_MEMORY))  # recording watches torch modules
        tree = SearchTree.of(session, target.pieces)
        with tree.watching(model):
            [hypotheses] = session.answers([ids], tree.observe, prefix)

        def again(*, greedy: bool = False) -> tuple[str, float]:
            one = replace(decode, engine=IN_MEMORY, beam=1, n_best=1)
            other = self.session(model, one) if greedy else session
            [[first, *_]] = other.answers([ids], prefix=prefix)
            return self.text(first.ids), first.score

        best, longest = hypotheses[0], session.request(ids, prefix).max_len
        said = [*best.ids, *best.last(self.special.eos)]
        inputs = torch.tensor([[self.special.start, *best.ids][: len(said)]], device=device)
        read = self.reader.tensor(self.reader.joined([self.reader.ended(ids)]), np.arange(1))
        answer = self.text(best.ids)
        forward = Pass(model=model, inputs=(read, inputs), pieces=self.tokenizers.pieces, targets=said,
                       said=target.pieces(said), hidden=self.special.unk, answer=again)  # fmt: skip
        explanation = explain(
            forward,
            self.tokenizers,
            replace(self.config, decode=decode),
            text,
            answer,
            {"score": best.score, "log_probability": best.log_probability},
            choice=Words.of_text(answer, best.ids, said, target),
            search=None if session.diverse else tree.finish(hypotheses, self.text),
        )
        forced = tuple(n for n in range(len(said)) if n < len(prefix) or n == longest)
        return replace(explanation, prefix=tuple(prefix), forced=forced)

    def _readable(self, source: Any) -> Sequence[int]:
        """Return an encoded source. Raise a DataError if it's blank, or longer than the model can read."""
        check_filled(source)
        [ids], [cut] = self.reader.for_search([source])
        if not cut:
            return ids
        of_text = "text" in self.modalities
        what, unit = ("the text", "tokens") if of_text else (source_name(source), "positions of 40 ms")
        length = whole_length(self.reader, ids, cut)
        what = f"{what} has {length:,} {unit}, more than the model can read"
        raise DataError(what, expected=f"at most {self.readable[0]:,} {unit}", name="text", value=length)

    def check_search(self, model: "nn.Module") -> None:
        self.session(model, replace(self.config.decode, engine=IN_MEMORY))

    # --- scores

    def evaluate(self, model: "ModelHandle | nn.Module", held_out: HeldOut, decode: DecodeConfig) -> EvaluationResult:
        """Answer each distinct source and score the answers. There is no loss if all pairs are too long for it.

        Args:
            model: a torch module or a handle of a loaded model.
            held_out: pairs, and the distinct sources to answer.
            decode: settings of the search.
        """
        examples, encoded = held_out.examples, held_out.encoded
        counts = self.forcing.count(cast("EncoderDecoder", as_module(model)), examples) if len(examples) else None
        if encoded is None:  # a run replaces `hypotheses` to share the texts among its processes
            found = self.hypotheses(model, held_out.sources, decode)
        else:
            found = self._searched(model, encoded, decode)
        judged = self.judge(held_out, self.texts_of(found), counts)
        words = partial(self._words, found, held_out.references)
        return replace(judged, certainty=np.array([it.certainty for it in found]), words=words)

    def _words(
        self, answers: Sequence[Hypothesis], references: Sequence[Sequence[str]]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the log-probability of each word of the answers, and 1 if a reference has it. (W,) each

        A word is right if it's in the longest common subsequence of words with the reference where that's longest.
        Answers whose tokens have no log-probabilities are left out.
        """
        certainty, right = list[float](), list[bool]()
        for answer, texts in zip(answers, references):
            if len(answer.token_log_probabilities) >= len(answer.ids) > 0:
                words = self.words(answer.ids, answer.token_log_probabilities)
                said = [word for word, _ in words]
                common = max((common_subsequence(said, text.split()) for text in texts), key=len)
                certainty += [log_p for _, log_p in words]
                right += [place in common for place in range(len(said))]
        return np.array(certainty), np.array(right, np.float64)

    @abstractmethod
    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> EvaluationResult:
        """Score answers. `counts` adds token accuracy and perplexity, if given.

        Args:
            held_out: has the references.
            answers: one for each of its sources, as text.
            counts: sums over the target tokens with teacher forcing; None if all pairs are too long.
        """


def measured_tokens(scores: Any) -> dict[str, float]:
    """Return token accuracy and perplexity by name, if `scores` has them."""
    found = {"token_accuracy": scores.token_accuracy, "perplexity": scores.perplexity}
    return {name: value for name, value in found.items() if value is not None}


def token_numbers(scores: Any) -> dict[str, float]:
    """Return the loss and the token accuracy for the training log, if `scores` has them."""
    if scores.perplexity is None or scores.token_accuracy is None:
        return {}
    return {"loss": math.log(scores.perplexity), "token_accuracy": scores.token_accuracy}
