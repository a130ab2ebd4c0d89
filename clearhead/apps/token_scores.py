"""Continuations with the scores of their tokens, and of those of the prompt."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import TypeAlias

from ..decode.beams import Hypothesis
from ..decode.continuation import Continuation, TextGenerator
from ..decode.writer import Grow, Read, Writer
from ..tokenization.chat_template import Messages
from ..tokenization.offsets import encode_with_offsets
from ..tokenization.tokenizer import StreamingDetokenizer

_Score = tuple[float | None, dict[int, float] | None]  # a token's log-probability, and those of the most likely ones
_NOTHING = Hypothesis((), 0.0, 0.0, (), False)
_KEPT = 16  # prompts whose scores are kept for their other answers


@dataclass(frozen=True)
class TokenScores:
    """Tokens of a text, with their log-probabilities and the most likely alternatives, and where they begin in it.

    The first token of a text has neither, unless the model reads a token before it.
    """

    tokens: tuple[str, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    alternatives: tuple[Mapping[str, float] | None, ...] = ()
    offsets: tuple[int, ...] = ()


_Scoring: TypeAlias = Generator[None, None, TokenScores]


@dataclass
class _SharedScores:
    """Scores that several records wait for. The record that is asked next takes the next step."""

    steps: _Scoring
    scores: TokenScores | None = None
    error: Exception | None = None
    waiting: int = 0

    def wait(self) -> _Scoring:
        """Return the scores. Raises the error of an earlier step."""
        while self.scores is None:
            if self.error is not None:
                raise self.error
            try:
                next(self.steps)
            except StopIteration as end:
                self.scores = end.value
            except Exception as error:
                self.error = error
            else:
                yield
        return self.scores


@dataclass(frozen=True)
class Completed:
    """A continuation, with the scores of its tokens if they were asked for, after those of the prompt."""

    continuation: Continuation
    prompt_tokens: int
    scores: TokenScores


class CompletionWriter(Writer[Completed]):
    """Writes the best continuation of each prompt, with the scores of its tokens.

    Args:
        writer: writes the continuations.
        top: number of alternatives per token; None means no scores.
        echo: also score the tokens of the prompt.
        writes: False if nothing is added to the prompt.
    """

    def __init__(self, writer: TextGenerator, *, top: int | None, echo: bool, writes: bool) -> None:
        self._writer, self._top, self._echo, self._writes = writer, top, echo, writes
        self.session = writer.session
        self._prompts: dict[str, _SharedScores] = {}

    def read(self, texts: Sequence[str | Messages]) -> list[Read]:
        return [replace(read, writes=self._writes) for read in self._writer.read(texts)]

    def grow(self, read: Read) -> Grow:
        return self._writer.grow(read)

    def record(self, read: Read, answers: Sequence[Hypothesis]) -> Completed:
        making = self.finish(read, answers)
        while True:
            try:
                next(making)
            except StopIteration as end:
                return end.value

    def best(self, record: Completed) -> Continuation:
        return record.continuation

    def finish(self, read: Read, answers: Sequence[Hypothesis]) -> Generator[None, None, Completed]:
        """Score the tokens of the prompt and of the best continuation, one in each step."""
        found = self._writer.continuation(read, next(iter(answers), _NOTHING))
        if self._top is None:
            return Completed(found, len(read.source), TokenScores())
        parts = [(yield from self._of_prompt(read))] if self._echo else []
        parts.append((yield from self._of_answer(read, found, self._top)))
        joined = [tuple(chain(*(getattr(it, field.name) for it in parts))) for field in fields(TokenScores)]
        return Completed(found, len(read.source), TokenScores(*joined))

    def _of_prompt(self, read: Read) -> _Scoring:
        """Return the scores of the tokens of a prompt. All its answers share them."""
        if read.text not in self._prompts:
            if len(self._prompts) == _KEPT:
                del self._prompts[next(iter(self._prompts))]  # the oldest
            self._prompts[read.text] = _SharedScores(self._scored_prompt(read))
        shared = self._prompts[read.text]
        shared.waiting += 1
        try:
            return (yield from shared.wait())
        finally:
            shared.waiting -= 1
            if not shared.waiting and shared.scores is None and self._prompts.get(read.text) is shared:
                del self._prompts[read.text]  # nobody wants them any more

    def _scored_prompt(self, read: Read) -> _Scoring:
        source, n = read.source, len(self._writer.start)
        scores: list[_Score] = [] if n else [(None, None)]
        for score in self.session.successors(source[:1], source[1:], self._top or 0):
            scores.append(score)
            yield
        offsets, text = self._offsets([], source[n:])
        if text != read.text:  # a normalised text is decoded
            offsets = encode_with_offsets(self._writer.tokenizer, read.text).starts
        return self._scores(source[n:], scores[: len(source)], offsets)

    def _of_answer(self, read: Read, found: Continuation, top: int) -> _Scoring:
        """Return the scores of the tokens whose text isn't cut off by a stop string."""
        offsets, _ = self._offsets(read.source, found.ids)
        n = sum(it < len(found.text) for it in offsets) if found.why == "stop" else len(offsets)
        ids, most = found.ids[:n], list[dict[int, float]]()
        for _, it in self.session.successors(read.source, ids, top) if top else ():
            most.append(it)
            yield
        most = most or [{}] * n
        return self._scores(ids, list(zip(found.logprobs, most)), [len(read.text) + it for it in offsets[:n]])

    def _offsets(self, before: Sequence[int], ids: Sequence[int]) -> tuple[list[int], str]:
        """Return how many characters are complete before each token, and the text of all tokens."""
        detokenizer, offsets, text = StreamingDetokenizer(self._writer.tokenizer, before), list[int](), ""
        for token in ids:
            offsets.append(len(text))
            text += detokenizer.add([token])
        return offsets, text

    def _scores(self, ids: Sequence[int], scores: Sequence[_Score], offsets: list[int]) -> TokenScores:
        def spelled(most: dict[int, float] | None) -> Mapping[str, float] | None:
            return None if most is None else {self._spelled(token): log_p for token, log_p in most.items()}

        logprobs, alternatives = (it for it, _ in scores), (spelled(most) for _, most in scores)
        return TokenScores(tuple(map(self._spelled, ids)), tuple(logprobs), tuple(alternatives), tuple(offsets))

    def _spelled(self, token: int) -> str:
        return self._writer.tokenizer.token_bytes[token].decode("utf-8", "backslashreplace")
