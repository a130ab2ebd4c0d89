"""App for translation.

app = load("models/en-fr")
app("I am hungry.")              # returns a str for one text, a list for several
app.results(["I am hungry."])    # with scores and tokens
app.explain("I am hungry.")      # with every step of attention
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast, overload

from ..decode.rules import Rules
from ..decode.writer import TextStream
from ..readers.pairs import Report
from ..tasks.sequences import Sequences
from .answers import BriefResult, Reading, Result, Scored, ScoredAnswer
from .app import ONE, App
from .inputs import as_source, as_sources, as_text, as_token_ids, is_one_source, read_data
from .sequence_writer import SequenceWriter, read_sources, reading_of

if TYPE_CHECKING:
    from ..inspection.views.explanation import Explanation


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
        """Translate texts without scores, which some engines would compute separately."""
        texts, writer = as_sources(texts, self.task.modalities), self.writer(prefix=prefix, **decode)
        writer.session.scored = False
        reads = writer.read(texts)
        found = {place: writer.brief(reads[place], answers) for place, answers in writer.answers(reads)}
        return [found[place] for place in range(len(texts))]

    def results(self, texts: Sequence[str], *, prefix: str = "", **decode: Any) -> list[Result]:
        """Translate texts and return full records in the same order."""
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
        """
        one = ONE | decode
        if not self.decode_config(**one).sample and "beam" not in decode:
            one["beam"] = 1
        writer = self.writer(prefix=prefix, **one)
        return writer.pieces(*writer.read([as_text(text)]))

    def writer(self, *, prefix: str = "", **decode: Any) -> SequenceWriter:
        """Return a writer of translations with these settings."""
        search = self.decode_config(**decode)
        return SequenceWriter(self.task, self.loaded.handle, search, as_text(prefix, "prefix"))

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
        begin = self.task.prefix(prefix) if isinstance(prefix, str) else as_token_ids(prefix, size, "prefix")
        return self.task.explain(self.model, source, search, begin)

    def score(self, pairs: Any, *, alpha: float | None = None) -> tuple[list[Scored], Report]:
        """Score existing translations by their log-probability given the source.

        Args:
            pairs: as for `evaluate`.
            alpha: the length penalty (default: the model's own).

        Returns:
            The scored pairs in order, and a report. Pairs that are too long for the model are reported as skipped.
        """
        from ..scoring.score_labels import what_was_cut

        search = self.decode_config() if alpha is None else self.decode_config(alpha=alpha)
        pairs = read_data(self.task, self.config, pairs)
        found = self.task.scorer(pairs)
        examples, report = self.task.examples((found.sources, found.targets)), deepcopy(pairs.report)
        for it in found.skipped:
            report.skip(it.line, it.reason, it.text)
        report.used = len(examples)
        report.notes += [what_was_cut(len(found.cut), self.task.units.sources)] if found.cut else []
        target, penalty = self.tokenizers.target, Rules(eos=self.task.special.eos, alpha=search.alpha).penalty
        scored, of_pairs = [], self.task.forcing.log_probabilities(self.model, examples)
        for row, (place, logprobs) in enumerate(zip(found.kept, of_pairs)):
            total, pieces = sum(logprobs), tuple(target.pieces(examples.targets[row][1:-1]))
            answer = ScoredAnswer(
                pairs.targets[place], total / float(penalty(len(logprobs))), total, pieces, tuple(logprobs)
            )
            scored.append(Scored(**vars(answer), line=pairs.lines[place], source=pairs.sources[place]))
        return scored, report
