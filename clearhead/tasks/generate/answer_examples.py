"""Prompts with answers as tokens, and the spans of tokens that a language model learns to predict."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile

import numpy as np

from ...data.batches import Batches
from ...data.encoding import Encoded
from ...errors import DataError
from ...readers.conversations import is_text, messages_of, plain_text
from ...readers.pairs import Pairs
from ...readers.skipped import Skipped
from ...tokenization.chat_template import DEFAULT, ChatEncoder, ChatTemplate
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import Tokenizer
from ..examples import ExampleEncoder, Examples

_NAMED = 3  # unknown words of an example that a message lists
_UNKNOWN = "examples with words or characters missing from the vocabulary, which become <unk>"


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
            Skipped(int(pairs.lines[i]), _UNKNOWN, ", ".join(self.tokenizer.unknown_words(text)[:_NAMED]))
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
