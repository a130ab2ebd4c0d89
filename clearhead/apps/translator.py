"""App for translation.

app = load("models/en-fr")
app("I am hungry.")              # returns a str for one text, a list for several
app.results(["I am hungry."])    # with scores and tokens
app.explain("I am hungry.")      # with every step of attention
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast, overload

from ..decode.beams import Hypothesis
from ..decode.rules import Rules
from ..readers.pairs import Report
from ..tasks.sequences.task import Sequences
from .answers import Answer, BriefResult, Reading, Result, Scored
from .app import ONE, App
from .inputs import as_source, as_sources, as_text, as_token_ids, is_one_source

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
        texts = as_sources(texts, self.task.modalities)
        found = {
            place: BriefResult(
                **vars(self._reading(texts[place], self.task.size(source) + cut, cut)), text=self.task.text(best.ids)
            )
            for place, source, cut, [best, *_] in self._searched(texts, prefix, decode, scored=False)
        }
        return [found.get(place, BriefResult()) for place in range(len(texts))]

    def results(self, texts: Sequence[str], **decode: Any) -> list[Result]:
        """Translate texts and return full records in the same order."""
        found = dict(self.stream(texts, **decode))
        return [found[place] for place in range(len(found))]

    def stream(self, texts: Sequence[str], *, prefix: str = "", **decode: Any) -> Iterator[tuple[int, Result]]:
        """Yield (index, record) for each text as soon as it's translated. A blank text gets a blank translation.

        Args:
            prefix: text that every translation starts with.
        """
        texts = as_sources(texts, self.task.modalities)
        for place, text in enumerate(texts):
            if _is_blank(text):
                yield place, Result("", 0.0, 0.0, (), (), text)
        for place, source, cut, hypotheses in self._searched(texts, prefix, decode, scored=True):
            yield place, self.result(texts[place], source, cut, hypotheses)

    def _searched(
        self, texts: Sequence[str], prefix: str, decode: dict[str, Any], *, scored: bool
    ) -> Iterator[tuple[int, list[int], int, list[Hypothesis]]]:
        """Yield the index of each text that isn't blank, its encoded source, the tokens cut off, and the answers."""
        search, prefix = self.decode_config(**decode), as_text(prefix, "prefix")
        session, begin = self.task.session(self.loaded.handle, search), self.task.prefix(prefix)
        session.scored = scored
        filled = [place for place, text in enumerate(texts) if not _is_blank(text)]
        sources, cut = self.task.sources([texts[place] for place in filled])
        for index, hypotheses in session.stream(sources, begin):
            yield filled[index], sources[index], cut[index], hypotheses[: search.n_best]

    def result(self, text: str, source: Sequence[int], cut: int, hypotheses: Sequence[Hypothesis]) -> Result:
        """Return the record of a text, of which `source` was encoded and `cut` tokens were cut off."""
        best, *others = map(self._answer, hypotheses)
        reading = self._reading(text, self.task.size(source) + cut, cut)
        return Result(**vars(best), source=text, alternatives=tuple(others), **vars(reading))

    def reading(self, text: str) -> Reading:
        """Return the problems with a text, which each `Result` also contains."""
        if _is_blank(as_source(text, self.task.modalities)):
            return Reading()
        [ids], [cut] = self.task.sources([text])
        return self._reading(text, self.task.size(ids) + cut, cut)

    def _reading(self, text: str, length: int, cut: int) -> Reading:
        unknown = self.task.unknown_words(text)
        return Reading(unknown, length if length > self.config.data.max_len else 0, cut)

    def _answer(self, answer: Hypothesis) -> Answer:
        text, pieces = self.task.text(answer.ids), tuple(self.tokenizers.target.pieces(answer.ids))
        return Answer(text, answer.score, answer.log_probability, pieces, answer.token_log_probabilities)

    def pieces(self, text: str, *, prefix: str = "", **decode: Any) -> Iterator[str]:
        """Yield the translation of a text piece by piece as it's generated.

        By default, each token is the most likely one. With `sample=True`, tokens are sampled.
        """
        one = ONE | decode
        search = self.decode_config(**one)
        if not search.sample and "beam" not in decode:
            search = self.decode_config(**one, beam=1)
        session, prefix = self.task.session(self.loaded.handle, search), as_text(prefix, "prefix")
        [source], _ = self.task.sources([as_text(text)])
        ids: list[int] = []
        done = ""
        for token in session.tokens(source, self.task.prefix(prefix)) if text.strip() else ():
            ids.append(token)
            whole = self.task.text(ids)
            if not whole.endswith("\ufffd"):  # an incomplete character, which the next token completes
                yield whole[len(done) :]
                done = whole
        rest = self.task.text(ids)[len(done) :]
        if rest:
            yield rest

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
        pairs = self._data(pairs)
        found = self.task.reader(pairs)
        examples, report = self.task.examples((found.sources, found.targets)), deepcopy(pairs.report)
        for it in found.skipped:
            report.skip(it.line, it.reason, it.text)
        report.used = len(examples)
        report.notes += [what_was_cut(len(found.cut), self.task.units.sources)] if found.cut else []
        target, penalty = self.tokenizers.target, Rules(eos=self.task.special.eos, alpha=search.alpha).penalty
        scored = []
        for row, (place, logprobs) in enumerate(zip(found.kept, self.task.log_probabilities(self.model, examples))):
            total, pieces = sum(logprobs), tuple(target.pieces(examples.targets[row][1:-1]))
            answer = Answer(pairs.targets[place], total / float(penalty(len(logprobs))), total, pieces, tuple(logprobs))
            scored.append(Scored(**vars(answer), line=pairs.lines[place], source=pairs.sources[place]))
        return scored, report


def _is_blank(text: Any) -> bool:
    """Return whether a source is a text of spaces only."""
    return isinstance(text, str) and not text.strip()
