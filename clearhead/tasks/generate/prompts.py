"""Language modelling on prompts with answers: the loss counts the answers only, unless train.loss_on is "all"."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ...config import Config, DataConfig
from ...data.batches import Batches
from ...data.corpus import LEARN, Corpus, SpacedTexts
from ...data.encoding import Encoded
from ...data.forms import PairForm
from ...errors import DataError
from ...readers.conversations import PROMPTS, Conversations, is_text, messages_of, plain_text
from ...readers.pairs import Pairs
from ...readers.skipped import Skipped
from ...scoring.bootstrap import FloatArray
from ...tokenization.chat_template import DEFAULT, ChatEncoder, ChatTemplate
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import Tokenizer
from ..base import Units
from ..examples import ExampleEncoder, Examples
from ..source_reader import tokens_on_device
from .examples import HeldOutText
from .task import SCORED, Generation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ...model.transformer import Decoder


@dataclass(frozen=True)
class AnswerBatches(Batches):
    """Batches of examples of similar length. Of their tokens, only some are predicted."""

    predicted: IntArray = field(kw_only=True)

    def predictions(self, rows: IntArray) -> int:
        return int(self.predicted[rows].sum())


class AnswerExamples(Examples):
    """Token sequences, as targets. Their sources are the spans to predict, as begin and end of each."""

    given = 0

    @property
    def source_sizes(self) -> IntArray:
        return self.targets.lengths

    def batches(self, max_tokens: int, seed: int = 0, max_rows: int | None = None) -> AnswerBatches:
        """Return the batches of each epoch. Of their tokens, only those in the spans count as predictions.

        Args:
            max_tokens: maximum number of tokens in a batch, with padding.
            seed: seed of the order, which is different in each epoch.
            max_rows: maximum number of examples in a batch (default: no limit).
        """
        lengths, places = self.targets.lengths, self.sources.tokens
        predicted = np.concatenate([[0], np.cumsum(places[1::2] - places[::2])])[self.sources.starts // 2]
        return AnswerBatches(lengths, lengths, max_tokens, seed, max_rows, predicted=np.diff(predicted))

    def places(self, rows: IntArray, width: int) -> IntArray:
        """Return the places of all predicted tokens in a padded batch without its first column: (B, width), flat."""
        found = [n * width + at - 1 for n, row in enumerate(rows.tolist()) for at in self._predicted(row)]
        return np.concatenate(found)

    def predicted_tokens(self, row: int) -> list[int]:
        """Return the tokens of an example that are predicted."""
        tokens = self.targets.array(row)
        return [it for at in self._predicted(row) for it in tokens[at].tolist()]

    def _predicted(self, row: int) -> list[IntArray]:
        """Return the positions of each span of an example."""
        return [np.arange(*it) for it in self.sources.array(row).reshape(-1, 2).tolist()]


@dataclass(frozen=True)
class AnswerEncoder(ExampleEncoder):
    """Tokenizes prompts with answers, and skips examples with too many tokens.

    A prompt that is a text is read as `generate` reads it, and its answer continues it and ends with EOS. Messages are
    read with the chat template; each message of the assistant is an answer.

    Args:
        longest: maximum number of tokens of an example.
        limit: name of the setting that `longest` comes from.
        template: the chat template.
        begins: True if every prompt begins with BOS.
        loss_on: "answer", or "all" to predict prompts as well.
    """

    tokenizer: Tokenizer
    longest: int
    limit: str
    template: str
    begins: bool
    loss_on: str

    def __call__(self, pairs: Pairs) -> Encoded:
        texts, chats = list[int](), dict[int, list[str]]()
        skipped = list[Skipped]()
        encoder = ChatEncoder(ChatTemplate.read(self.template or DEFAULT), self.tokenizer)
        for i, (prompt, answer) in enumerate(zip(pairs.sources, pairs.targets)):
            try:
                if is_text(prompt):
                    texts.append(i)
                else:
                    chats[i] = encoder.spans(messages_of(prompt, answer))
            except DataError as error:
                skipped.append(self._skipped(pairs, i, f"that don't fit the chat template: {error.what}"))
        found = dict(zip(texts, self._texts(pairs, texts)))
        ids = iter(encoder.encode(list(chain.from_iterable(chats.values()))))
        found |= {i: self._spans(*islice(ids, len(parts))) for i, parts in chats.items()}
        for i in [i for i, (_, spans) in found.items() if spans[::2] == spans[1::2]]:  # a template can lack all markers
            skipped.append(self._skipped(pairs, i, "without a token after the first to predict"))
            del found[i]
        kept = [i for i in sorted(found) if len(found[i][0]) <= self.longest]
        reason = f"longer than {self.longest} tokens ({self.limit})"
        skipped += [self._skipped(pairs, i, reason) for i in sorted(found.keys() - {*kept})]
        unknown = [
            Skipped.with_unknown(int(pairs.lines[i]), "examples", self.tokenizer.unknown_words(text))
            for i in kept
            if self.tokenizer.special.unk in found[i][0] and (text := plain_text(pairs.sources[i], pairs.targets[i]))
        ]
        return Encoded(Ragged([found[i][1] for i in kept]), Ragged([found[i][0] for i in kept]), kept, skipped, unknown)

    def _texts(self, pairs: Pairs, rows: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the tokens and the spans of prompts that are texts."""
        special, prompts = self.tokenizer.special, [json.loads(pairs.sources[i]) for i in rows]
        for i, prompt, ids in zip(rows, prompts, self.tokenizer.encode_batch(prompts)):
            start = [special.bos] * (self.begins or not ids) + ids
            answer = self.tokenizer.encode_after(prompt, pairs.targets[i])
            tokens = [*start, *answer, special.eos]
            yield tokens, [1 if self.loss_on == "all" else len(start), len(tokens)]

    def _spans(self, whole: list[int], *parts: list[int]) -> tuple[list[int], list[int]]:
        """Return the tokens and the spans of a conversation.

        Args:
            whole: the tokens of the conversation.
            parts: the tokens before each answer, and those up to its end, in turn. A tokenizer may join the first or
                last token of an answer with what's around it, so an answer is what's between the common beginnings.
        """
        if self.loss_on == "all":
            return whole, [1, len(whole)]
        return whole, [max(_n_common(whole, part), 1) for part in parts]

    def _skipped(self, pairs: Pairs, i: int, reason: str) -> Skipped:
        return Skipped(int(pairs.lines[i]), reason, plain_text(pairs.sources[i], pairs.targets[i]))


def _n_common(tokens: Sequence[int], others: Sequence[int]) -> int:
    """Return how many tokens two sequences begin with in common."""
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(tokens, others)))


# --- the task ---------------------------------------------------------------------------------------------------------


class ConversationCorpus(Corpus):
    """Prompts with answers. The tokenizer learns from their plain text."""

    def texts(self, most: int = LEARN) -> tuple[SpacedTexts, tuple[()]]:
        return SpacedTexts(self, most, lambda it: plain_text(it[1], it[2])), ()

    @property
    def has_messages(self) -> bool:
        """True if a prompt consists of messages."""
        return any(not is_text(prompt) for _, prompt, _ in self)


class ConversationForm(PairForm):
    """Prompts with answers."""

    def __init__(self) -> None:
        super().__init__(PROMPTS)

    def open(self, paths: Any, data: DataConfig) -> Conversations:  # type: ignore[override]
        return Conversations(paths, data)

    def read(self, paths: Any, data: DataConfig) -> Pairs:
        with self.open(paths, data) as source:
            return Pairs.read(source)

    def divide(self, source: Any, share: float, seed: int) -> ConversationCorpus:
        """Hold out a share of the examples.

        Args:
            source: prompts with answers.
            share: share of the examples to hold out, from 0 to 1.
            seed: picks the examples that are held out.
        """
        return ConversationCorpus.of(source, share, seed)

    def preview(self, data: Pairs) -> Iterator[dict[str, str]]:
        yield from ({"prompt": plain_text(it, ""), "answer": to} for it, to in zip(data.sources, data.targets))


class AnswerGeneration(Generation):
    """Answer prompts, with a decoder-only model."""

    form = ConversationForm()  # type: ignore[assignment]
    units = Units("examples", "tokens", "answer", "prompts")
    usage = '"a prompt"'
    training_data = "prompts with answers"
    unused: ClassVar[Sequence[str]] = (
        *(name for name in Generation.unused if name != "data.target_column"),
        *("train.warm_start", "data.texts"),  # a run on texts, and another one from its model, is a warm start
    )
    defaults: ClassVar[dict[str, Any]] = {**Generation.defaults, "train.loss_on": "answer"}

    @classmethod
    def settle(cls, config: Config) -> Config:
        if config.data.template:
            ChatTemplate.read(config.data.template)  # raises an error before any data is read
        return super().settle(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        """Return the default chat template if there are messages, and neither user nor model has another."""
        return {"data.template": DEFAULT} if not config.data.template and data.has_messages else {}

    @classmethod
    def texts(cls, data: Pairs) -> Sequence[str]:
        return list(map(plain_text, data.sources, data.targets))

    @property
    def stored_as(self) -> tuple[str, str]:
        return "<i4", super().stored_as[1]  # spans and tokens

    @property
    def encoder(self) -> AnswerEncoder:  # type: ignore[override]
        config, (longest, limit) = self.config, self.longest
        return AnswerEncoder(
            self.tokenizers.target,
            longest,
            limit,
            template=config.data.template,
            begins=config.model.begins,
            loss_on=config.train.loss_on or "answer",
        )

    def examples(self, sides: tuple[Ragged, Ragged]) -> AnswerExamples:  # type: ignore[override]
        return AnswerExamples(*sides)

    def hold_out(self, data: Pairs) -> HeldOutText:  # type: ignore[override]
        encoded, tokenizer = self.encoder(data), self.tokenizers.target
        examples = AnswerExamples(encoded.sources, encoded.targets)
        predicted = [examples.predicted_tokens(row) for row in range(len(examples))]
        text = "".join(tokenizer.decode_batch(predicted))
        unknown = sum(ids.count(self.special.unk) for ids in predicted if self.special.unk is not None)
        return HeldOutText(
            examples,
            encoded.skipped,
            0,
            [plain_text(data.sources[i], "") for i in encoded.kept],
            (),
            characters=max(1, len(text) + unknown),  # decoding leaves unknown characters out
            bytes=max(1, len(text.encode()) + unknown),
            unknown=unknown,
        )

    def loss(self, model: "nn.Module", examples: AnswerExamples, rows: IntArray, *, smoothing: float) -> "Tensor":  # type: ignore[override]
        """Return the cross-entropy, summed over the tokens in the spans to predict.

        Args:
            model: a decoder-only model.
            examples: prompts with answers, and the spans to predict.
            rows: indices of the examples (B,).
            smoothing: amount of label smoothing, spread over the vocabulary.
        """
        import torch

        from ..loss import projected_cross_entropy

        text, places = self._batch(examples, rows)
        states, outputs = model(text[:, :-1], states=True).flatten(0, 1), text[:, 1:].flatten()
        index = torch.from_numpy(places).to(text.device)
        projection, pad = cast("Decoder", model).projection, self.special.pad
        return projected_cross_entropy(states[index], projection, outputs[index], smoothing=smoothing, pad=pad)

    def losses(self, model: "nn.Module", examples: AnswerExamples) -> tuple[FloatArray, int, int]:  # type: ignore[override]
        """Return -log p of the answers of each example, the number of tokens, and how many are predicted correctly."""
        import torch

        from ...model.transformer import evaluation
        from ..loss import log_probability_of

        n_tokens, right, found = 0, 0, np.zeros(len(examples))
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(SCORED).epoch(0):
                text, places = self._batch(examples, rows)
                index = torch.from_numpy(places).to(text.device)
                logits = model(text[:, :-1]).flatten(0, 1)[index].float()
                outputs = text[:, 1:].flatten()[index]
                log_p = log_probability_of(outputs[:, None], logits.log_softmax(-1))[:, 0].double().cpu().numpy()
                np.subtract.at(found, rows[places // (text.size(1) - 1)], log_p)
                n_tokens, right = n_tokens + len(places), right + int((logits.argmax(-1) == outputs).sum())
        return found, n_tokens, right

    def _batch(self, examples: AnswerExamples, rows: IntArray) -> tuple["Tensor", IntArray]:
        """Return the tokens of examples, and the predicted ones' indices in text[:, 1:]. (B, T + 1), (N,)

        Nothing attends to the padding on the right, since a token only attends to earlier ones.
        """
        padded = examples.targets.padded(rows, self.special.pad)
        device, size = self.config.train.device, self.config.model.tgt_vocab_size
        text = tokens_on_device(padded, device, size, self.special.pad)
        return text, examples.places(rows, padded.shape[1] - 1)
