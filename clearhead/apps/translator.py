"""Apps with an answer for each source: translations, summaries of documents, transcripts of recordings, speech.

app = load("models/en-fr")
app("I am hungry.")              # returns a str for one text, a list for several
app.results(["I am hungry."])    # with scores and tokens
app.explain("I am hungry.")      # with every step of attention
app = load("models/calls")
app("call.wav")                             # or samples with their rate: app((samples, 16_000))
app.results(["call.wav"], timings=True)     # and when each token was said
app = load("models/voice")
samples, rate = app("3 5 7")                # the sound of a text
"""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, overload

from ..config import DecodeConfig
from ..decode.beams import Hypothesis
from ..decode.model_handle import ModelHandle
from ..decode.rules import Rules
from ..decode.writer import Grow, Read, TextStream, Writer
from ..errors import ConfigError, unknown
from ..readers.lines import one_line
from ..readers.pairs import Report
from ..scoring.confidence import Confidence
from ..tasks.base import check_filled
from ..tasks.sequences import Sequences
from ..tasks.source_reader import whole_length
from ..tokenization.tokenizer import GrowingText
from .answers import BriefResult, Reading, Result, Scored, ScoredAnswer, Word
from .app import ONE, App
from .inputs import (
    as_source,
    as_sources,
    as_text,
    as_texts,
    as_token_ids,
    check_type,
    is_blank,
    is_one_source,
    reading_data,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..inspection.views.alignment import TokenTiming
    from ..inspection.views.explanation import Explanation
    from ..tasks.speak import Speech
    from ..tasks.summarize import Summarization
    from ..tasks.transcribe import Transcription


class SequenceWriter(Writer[Result]):
    """Writes the targets of sources.

    Args:
        task: the task, with the tokenizers.
        prefix: text that every answer starts with.
        confidence: returns the calibration of the model's confidence, if there is one.
    """

    def __init__(
        self,
        task: Sequences,
        model: ModelHandle,
        search: DecodeConfig,
        prefix: str = "",
        confidence: Callable[[], Confidence | None] = lambda: None,
    ) -> None:
        self._task, self.session, self.prefix = task, task.session(model, search), task.prefix(prefix)
        self._confidence = confidence

    def read(self, texts: Sequence[Any]) -> list[Read]:
        """Encode sources. A blank text gets a blank answer."""
        return read_sources(self._task, texts)

    def grow(self, read: Read) -> Grow:
        """Return a function that turns tokens into text. It holds back an incomplete character.

        It holds back everything if the task has its own way to make a text of tokens, since more tokens could change
        how that begins.
        """
        if type(self._task).text is not Sequences.text:
            return lambda token: ""
        growing, settled = GrowingText(self._task.tokenizers.target.decode), ""

        def add(token: int) -> str:
            nonlocal settled
            text = one_line(growing.add(token))
            settled = settled if text.endswith("\ufffd") else text
            return settled

        return add

    def record(self, read: Read, answers: Sequence[Hypothesis]) -> Result:
        if not answers:
            return Result("", 0.0, 0.0, (), (), read.text)
        best, *others = map(self._answer, answers)
        calibrated = self._confidence()
        confidence = calibrated(answers[0].certainty) if calibrated else None
        words = _words(self._task, answers[0].ids, answers[0].token_log_probabilities, calibrated)
        about = vars(reading_of(self._task, read)) | {"confidence": confidence, "words": words}
        return Result(**vars(best), source=read.text, alternatives=tuple(others), **about)

    def brief(self, read: Read, answers: Sequence[Hypothesis]) -> BriefResult:
        """Return a record without scores."""
        text = self._task.text(answers[0].ids) if answers else ""
        return BriefResult(**vars(reading_of(self._task, read)), text=text)

    def best(self, record: Result) -> Result:
        """Return the record, which contains the best answer."""
        return record

    def _answer(self, answer: Hypothesis) -> ScoredAnswer:
        text, pieces = self._task.text(answer.ids), tuple(self._task.tokenizers.target.pieces(answer.ids))
        return ScoredAnswer(text, answer.score, answer.log_probability, pieces, answer.token_log_probabilities)


def _words(
    task: Sequences, ids: Sequence[int], log_probabilities: Sequence[float], calibrated: Confidence | None
) -> tuple[Word, ...]:
    """Return the words of an answer. Their confidence is None if it isn't calibrated."""
    confidence = calibrated.words if calibrated else None
    found = task.words(ids, log_probabilities)
    return tuple(Word(text, math.exp(it), confidence(it) if confidence else None) for text, it in found)


def read_sources(task: Sequences, texts: Sequence[Any]) -> list[Read]:
    """Encode the sources that aren't blank texts."""
    filled = [text for text in texts if not is_blank(text)]
    encoded = iter(zip(*task.reader.for_search(filled)))
    return [Read(text, writes=False) if is_blank(text) else Read(text, *next(encoded)) for text in texts]


def reading_of(task: Sequences, read: Read) -> Reading:
    """Return the problems with a source."""
    if not read.writes:
        return Reading()
    length = whole_length(task.reader, read.source, read.cut)
    suspicious = isinstance(read.text, str) and (read.cut or task.special.unk in read.source)
    unknown = task.reader.unknown_words(read.text) if suspicious else ()  # it encodes the text once more
    return Reading(unknown, length if length > task.config.data.max_len else 0, read.cut)


class Translator(App):
    """App that translates texts."""

    task: Sequences

    @overload
    def __call__(self, text: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **decode: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], **decode: Any) -> str | list[str]:
        """Translate one text or a list of texts. Accepts `prefix`, and search settings such as `beam=1`."""
        one = ONE | decode
        if is_one_source(text, self.task.modalities):
            return self.brief_results([cast(str, text)], **one)[0].text
        return [result.text for result in self.brief_results(text, **one)]

    def brief_results(self, texts: Sequence[str], *, prefix: str = "", **decode: Any) -> list[BriefResult]:
        """Translate texts without scores, which some engines would compute separately.

        Args:
            texts: a list of N texts. A blank one gets a blank translation.
            prefix: text that every translation starts with.
            decode: search settings that override the model's, such as `beam=1`.
        """
        texts, writer = as_sources(texts, self.task.modalities), self.writer(prefix=prefix, **decode)
        writer.session.scored = False
        reads = writer.read(texts)
        found = {place: writer.brief(reads[place], answers) for place, answers in writer.answers(reads)}
        return [found[place] for place in range(len(texts))]

    def row_results(self, rows: Sequence[Sequence[str]], **decode: Any) -> Sequence[BriefResult]:
        return self.brief_results([text for (text,) in rows], **(ONE | decode))

    def results(self, texts: Sequence[str], *, prefix: str = "", **decode: Any) -> list[Result]:
        """Translate texts and return full records in the same order.

        Args:
            texts: a list of N texts. A blank one gets a blank translation.
            prefix: text that every translation starts with.
            decode: search settings that override the model's, such as `n_best=3`.
        """
        found = dict(self.stream(texts, prefix=prefix, **decode))
        return [found[place] for place in range(len(found))]

    def stream(self, texts: Sequence[str], *, prefix: str = "", **decode: Any) -> Iterator[tuple[int, Result]]:
        """Yield (index, record) for each text as soon as it's translated. A blank text gets a blank translation.

        Args:
            prefix: text that every translation starts with.
        """
        texts, writer = as_sources(texts, self.task.modalities), self.writer(prefix=prefix, **decode)
        yield from writer.stream(writer.read(texts))

    def pieces(self, text: str, *, prefix: str = "", **decode: Any) -> TextStream:
        """Stream the translation of a text piece by piece as it's generated.

        By default, each token is the most likely one. With `sample=True`, tokens are sampled.

        Args:
            text: the text to translate.
            prefix: text that the translation starts with.
            decode: search settings that override the model's.
        """
        one = ONE | decode
        if not self.decode_config(**one).sample and "beam" not in decode:
            one["beam"] = 1
        writer = self.writer(prefix=prefix, **one)
        return writer.pieces(*writer.read([as_text(text)]))

    def writer(self, *, prefix: str = "", **decode: Any) -> SequenceWriter:
        search = self.decode_config(**decode)
        return SequenceWriter(self.task, self.loaded.handle, search, as_text(prefix, "prefix"), lambda: self.confidence)

    def words(self, answer: ScoredAnswer) -> tuple[Word, ...]:
        """Return the words of any scored answer, such as an alternative, as `Result.words` does for the best one."""
        check_type("answer", answer, ScoredAnswer)
        ids = [self.tokenizers.target.token_id(it) for it in answer.tokens]
        return _words(self.task, ids, answer.logprobs, self.confidence)

    def reading(self, text: str) -> Reading:
        """Return the problems with a text, which each `Result` also contains."""
        return reading_of(self.task, *read_sources(self.task, [as_source(text, self.task.modalities)]))

    def explain(self, text: str, *, prefix: str | Sequence[int] = "", **decode: Any) -> "Explanation":
        """Translate a text and record the model's computation.

        Args:
            prefix: text, or ids of tokens, that the translation starts with.

        Raises:
            DataError: the text is blank, or longer than the model can read.
        """
        source, search = as_source(text, self.task.modalities), self.decode_config(**(ONE | decode))
        size = self.tokenizers.target.vocab_size
        begin = self.task.prefix(prefix) if isinstance(prefix, str) else as_token_ids(prefix, size)
        return self.task.explain(self.model, source, search, begin)

    def score(self, pairs: Any, *, alpha: float | None = None) -> tuple[list[Scored], Report]:
        """Score existing translations by their log-probability given the source.

        Args:
            pairs: as for `evaluate`.
            alpha: the length penalty (default: the model's own).

        Returns:
            The scored pairs in order, and a report. Pairs that are too long for the model are reported as skipped.
        """
        search = self.decode_config() if alpha is None else self.decode_config(alpha=alpha)
        with reading_data(self.task, self.config, pairs) as read:
            return self._scored(read, search.alpha)

    def _scored(self, pairs: Any, alpha: float) -> tuple[list[Scored], Report]:
        from ..scoring.score_labels import what_was_cut

        found = self.task.scorer(pairs)
        examples, report = self.task.examples((found.sources, found.targets)), deepcopy(pairs.report)
        for it in found.skipped:
            report.skip(it.line, it.reason, it.text)
        report.used = len(examples)
        report.notes += [what_was_cut(len(found.cut), self.task.units.sources)] if found.cut else []
        target, penalty = self.tokenizers.target, Rules(eos=self.task.special.eos, alpha=alpha).penalty
        scored, of_pairs = [], self.task.forcing.log_probabilities(self.model, examples)
        for row, (place, logprobs) in enumerate(zip(found.kept, of_pairs)):
            total, pieces = sum(logprobs), tuple(target.pieces(examples.targets[row][1:-1]))
            score = total / float(penalty(len(logprobs)))
            answer = ScoredAnswer(pairs.targets[place], score, total, pieces, tuple(logprobs))
            scored.append(Scored(**vars(answer), line=pairs.lines[place], source=pairs.sources[place]))
        return scored, report


class Summarizer(Translator):
    """App that summarizes documents. It has all the methods of a translator.

    Documents longer than any in training are truncated to the longest length seen in training.
    """

    task: "Summarization"


@dataclass(frozen=True)
class Transcript(Result):
    """A transcript with the start and end of each of its tokens, in seconds."""

    timings: tuple["TokenTiming", ...] = ()


class Transcriber(Translator):
    """App that transcribes recordings, with all methods of a translator."""

    task: "Transcription"

    def results(self, texts: Sequence[Any], *, timings: bool = False, **decode: Any) -> list[Result]:
        """Transcribe recordings and return full records in the same order.

        Args:
            texts: paths, or samples with their rate.
            timings: read off the cross-attention when each token was said, and return a `Transcript` for each
                recording. The model then reads each recording once more.
            decode: search settings, and `prefix`.
        """
        found = super().results(texts, **decode)
        if not timings:
            return found
        return [Transcript(**vars(it), timings=self.task.timings(self.model, it.source, it.tokens)) for it in found]


class Speaker(Translator):
    """Speaks texts. It has all methods of a translator, whose texts are codes here, such as "17 17 203"."""

    task: "Speech"

    def __call__(self, text: str | Sequence[str], **decode: Any) -> Any:
        """Return the sound of a text: int16 samples (N,) and their rate. For a list of texts, return a list.

        Raises:
            DataError: a text is blank.
        """
        if isinstance(text, str):
            return self([text], **decode)[0]
        texts = as_texts(text)
        for source in texts:
            check_filled(source, "speak")
        return [self.sound(it.text) for it in self.brief_results(texts, **(ONE | decode))]

    @property
    def voices(self) -> tuple[str, ...]:
        """The voices of the training data, if its table had a column for them."""
        return self.loaded.config.data.labels

    def voiced(self, text: str, voice: str) -> str:
        """Return a text that is spoken with a voice.

        Raises:
            ConfigError: the model doesn't know the voice.
        """
        if not self.voices:
            what, expected = "the model has no voices to choose from", "no voice, or a text that begins with its name"
            fix = "to train such a model, add a column named voice to the table"
            raise ConfigError(what, expected=expected, fix=fix, name="voice", value=voice)
        if voice not in self.voices:
            raise unknown(f"the model has no voice {voice!r}", voice, self.voices, "voice")
        return f"{voice} {text}"

    def sound(self, codes: str) -> "tuple[NDArray[np.int16], int]":
        """Return the sound of codes, the `text` of a record: samples (N,) and their rate."""
        return self.task.samples(codes), self.task.codebook.sample_rate
