"""A translator in use.

app = load("models/en-fr")
app("I am hungry.")              # a text for a text, a list for a list
app.results(["I am hungry."])    # with score and tokens
app.explain("I am hungry.")      # with every step of attention
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, overload

from ..decode.beams import Hypothesis
from ..decode.rules import Rules
from ..inspection.promises.subject import Subject
from ..inspection.views.explanation import Explanation
from ..model.transformer import EncoderDecoder
from ..readers.pairs import Report
from ..scoring.score_labels import what_was_cut
from ..tasks.examples import Examples
from ..tasks.sequences.task import Sequences
from ..tokenization.tokenizer import EOS
from .answers import Answer, Reading, Result, Scored
from .app import ONE, App, as_text, as_texts
from .subjects import of_sequences


class Translator(App):
    """A text to a text, by a search."""

    model: EncoderDecoder
    task: Sequences

    @overload
    def __call__(self, text: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **decode: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], **decode: Any) -> str | list[str]:
        """Translate: a text gives a text, a list a list. A `prefix` and settings of `decode` may follow: `beam=1`."""
        one = ONE | decode
        if isinstance(text, str):
            return self.results([text], **one)[0].text
        return [result.text for result in self.results(text, **one)]

    def results(self, texts: Sequence[str], **decode: Any) -> list[Result]:
        """The full records, in the order of the texts; with a `prefix`, every translation begins so."""
        texts = as_texts(texts)
        found = dict(self.stream(texts, **decode))
        return [found[place] for place in range(len(texts))]

    def stream(self, texts: Sequence[str], *, prefix: str = "", **decode: Any) -> Iterator[tuple[int, Result]]:
        """(place, record) of every text, as soon as it is known. A blank text has a blank translation."""
        search = self.decode_config(**decode)
        session, begin = self.task.session(self.model, search), self.task.prefix(prefix)
        spoken = [place for place, text in enumerate(texts) if text.strip()]
        for place in set(range(len(texts))).difference(spoken):
            yield place, Result("", 0.0, 0.0, (), (), texts[place])
        sources, cut = self.task.sources([texts[place] for place in spoken])
        for index, hypotheses in session.stream(sources, begin):
            text = texts[spoken[index]]
            best, *others = (self._answer(answer) for answer in hypotheses[: search.n_best])
            reading = self._reading(text, len(sources[index]) + cut[index], cut[index])
            yield spoken[index], Result(**vars(best), source=text, alternatives=tuple(others), **vars(reading))

    def reading(self, text: str) -> Reading:
        """What of a text the model cannot read as it should; `Result` says the same beside the translation."""
        if not text.strip():
            return Reading()
        [ids], [cut] = self.task.sources([text])
        return self._reading(text, len(ids) + cut, cut)

    def _reading(self, text: str, length: int, cut: int) -> Reading:
        unknown = tuple(self.tokenizers.source.unknown_words(text))
        return Reading(unknown, length if length > self.config.data.max_len else 0, cut)

    def _answer(self, answer: Hypothesis) -> Answer:
        text, pieces = self.task.text(answer.ids), tuple(self.tokenizers.target.pieces(answer.ids))
        return Answer(text, answer.score, answer.log_probability, pieces, answer.token_log_probabilities)

    def pieces(self, text: str, *, prefix: str = "", **decode: Any) -> Iterator[str]:
        """The translation of a text in pieces, each as soon as it is known; together they are the translation.

        That asks for a search that never goes back: the likeliest token each time, or with `sample` one that is drawn.
        A source that is too long is translated from its beginning, as elsewhere; `reading` tells.
        """
        one = ONE | decode
        search = self.decode_config(**one)
        if not search.sample and "beam" not in decode:
            search = self.decode_config(**one, beam=1)
        session = self.task.session(self.model, search)
        [source], _ = self.task.sources([as_text(text)])
        ids: list[int] = []
        said = ""
        for token in session.tokens(source, self.task.prefix(prefix)) if text.strip() else ():
            ids.append(token)
            whole = self.task.text(ids)
            if not whole.endswith("\ufffd"):  # half a character, which the next token completes
                yield whole[len(said) :]
                said = whole
        rest = self.task.text(ids)[len(said) :]
        if rest:
            yield rest

    def explain(self, text: str, **decode: Any) -> Explanation:
        """Translate one text, and record what attention does when the model reads it with its translation.

        A blank text, and one that is longer than the model can read, is a DataError: nothing of it is shown in part.
        """
        return self.task.explain(self.model, as_text(text), self.decode_config(**(ONE | decode)))

    def subject(self, data: Any = None, *, seed: int = 0) -> Subject:
        return of_sequences(self, data, seed)

    def score(self, pairs: Any, *, alpha: float | None = None) -> tuple[list[Scored], Report]:
        """How likely the model finds each target as a translation of its source, in the order of the pairs, which are
        those of a file, or what `read_pairs` gave.

        Without `alpha` the length penalty is the model's own. Pairs with more tokens than the model can read are left
        out, as `model.max_len` says; the report is that of `pairs` with them among what was skipped.
        """
        search = self.decode_config() if alpha is None else self.decode_config(alpha=alpha)
        pairs = self._data(pairs)
        found = self.task.reader(pairs)
        examples, report = Examples(found.sources, found.targets), deepcopy(pairs.report)
        for it in found.skipped:
            report.skip(it.line, it.reason, it.text)
        report.used = len(examples)
        report.notes += [what_was_cut(len(found.cut), self.task.units.sources)] if found.cut else []
        target, penalty = self.tokenizers.target, Rules(eos=EOS, alpha=search.alpha).penalty
        scored = []
        for row, (place, logprobs) in enumerate(zip(found.kept, self.task.log_probabilities(self.model, examples))):
            total, pieces = sum(logprobs), tuple(target.pieces(examples.targets[row][1:-1]))
            answer = Answer(pairs.targets[place], total / float(penalty(len(logprobs))), total, pieces, tuple(logprobs))
            scored.append(Scored(**vars(answer), line=pairs.lines[place], source=pairs.sources[place]))
        return scored, report
