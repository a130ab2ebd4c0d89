"""A trained model in use: what the command line, a notebook and a server call.

app = load("models/en-fr")
app("I am hungry.")              # a text for a text, a list for a list
app.results(["I am hungry."])    # with score and tokens
app.explain("I am hungry.")      # with every step of attention
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, overload

import torch

from .config import Config, DecodeConfig
from .decode.rules import Rules
from .decode.search import Hypothesis
from .errors import DataError, ModelError
from .inspection.alignment import words_of
from .inspection.explanation import Explanation
from .inspection.flow import dimension_flow
from .inspection.recorder import record
from .model.transformer import EncoderDecoder, build, evaluation
from .tasks.scores import Scores, sentence_chrf
from .tasks.translation import Translation, one_line
from .text.lines import shown
from .text.sources import Pairs
from .text.tokenizer import BOS, EOS, Tokenizers
from .training.manifest import Manifest
from .training.memory import keep_freed_memory
from .training.model_folder import WEIGHTS, load_model_folder, load_weights, save_files
from .training.recipe import choose_device
from .training.run import train

__all__ = ["App", "Result", "load", "train"]


@dataclass(frozen=True)
class Answer:
    """One translation. `score` is the log-probability over the length penalty. `logprobs` has one number a token, and
    one more for the end where the translation came to it by itself; their sum is the log-probability."""

    text: str
    score: float
    log_probability: float
    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Result(Answer):
    """The best translation of a text, and the `alternatives` to it, best first.

    `unknown` are words of the source that the model has never seen; `long` counts source tokens where they are more
    than any in training, and is 0 elsewhere; `cut` counts those beyond the longest that it can read.
    """

    source: str
    alternatives: tuple[Answer, ...] = ()
    unknown: tuple[str, ...] = ()
    long: int = 0
    cut: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format_version": 1, **asdict(self)}


@dataclass(frozen=True)
class Scored(Answer):
    """A translation that the model did not make but judged: `text` of `line` of a file, beside its `source`."""

    line: int
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format_version": 1, **asdict(self)}


@dataclass(frozen=True)
class Evaluation:
    """Scores, the lines that they were computed from, and how they came about: on which files, by which search."""

    scores: Scores
    data: list[str]
    decode: DecodeConfig
    weights: str | None  # the digest of those that were scored
    too_long: int  # pairs that perplexity and token accuracy leave out
    sources: list[str]
    translations: list[str]
    references: list[list[str]]

    def lines(self, most: int = 10) -> dict[str, list[dict[str, Any]]]:
        """The `best`, `worst` and most `typical` sentences, at most so many of each, by their own chrF."""
        scored = sentence_chrf(self.translations, self.references)
        order = sorted(range(len(scored)), key=lambda i: -scored[i])
        middle = scored[order[len(order) // 2]]
        picked = {
            "best": order[:most],
            "worst": order[::-1][:most],
            "typical": sorted(order, key=lambda i: abs(scored[i] - middle))[:most],
        }
        return {name: [{**self._line(i), "chrf": scored[i]} for i in places] for name, places in picked.items()}

    def report(self) -> str:
        """A page of text: the scores with their signatures, and the best, the worst and the most typical lines."""
        scores = self.scores
        rows = [
            f"{scores.sentences:,} sentences of {' + '.join(self.data)}",
            f"BLEU {scores.bleu:.2f}  {scores.bleu_signature}",
            f"chrF {scores.chrf:.2f}  {scores.chrf_signature}",
            f"exact match {scores.exact_match:.4f}",
        ]
        for name, lines in self.lines().items():
            rows += ["", f"The most {name}" if name == "typical" else f"The {name}"]
            for line in lines:
                rows += ["", f"chrF {line['chrf']:6.2f}  {line['source']}", f"       model  {line['translation']}"]
                rows += [f"   reference  {reference}" for reference in line["references"]]
        return "\n".join(rows) + "\n"

    def _line(self, place: int) -> dict[str, Any]:
        return {
            "source": self.sources[place],
            "translation": self.translations[place],
            "references": self.references[place],
        }

    def to_dict(self, examples: int = 10) -> dict[str, Any]:
        """The scores, what makes them reproducible, and some lines."""
        shown = [self._line(place) for place in range(min(examples, len(self.sources)))]
        search = {"beam": self.decode.beam, "alpha": self.decode.alpha, "max_extra": self.decode.max_extra}
        return {
            **self.scores.to_dict(),
            "data": self.data,
            "decode": search,
            "weights": self.weights,
            "too_long": self.too_long,
            "examples": shown,
        }


class App:
    """A model with its tokenizer and settings, ready for raw text."""

    def __init__(self, path: Path, config: Config, model: EncoderDecoder, tokenizers: Tokenizers) -> None:
        self.path, self.config, self.model, self.tokenizers = path, config, model, tokenizers
        self.task = Translation(tokenizers, config)

    @overload
    def __call__(self, text: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, text: list[str], **decode: Any) -> list[str]: ...
    def __call__(self, text: str | list[str], **decode: Any) -> str | list[str]:
        """Translate: a text gives a text, a list a list. A `prefix` and settings of `decode` may follow: `beam=1`."""
        if isinstance(text, str):
            return self.results([text], **decode)[0].text
        return [result.text for result in self.results(text, **decode)]

    def results(self, texts: Sequence[str], **decode: Any) -> list[Result]:
        """The full records, in the order of the texts; with a `prefix`, every translation begins so."""
        if isinstance(texts, str):  # it would be taken for a list of letters
            raise DataError(f"one text was given, {shown(texts)}; expected a list of texts: results([text])")
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
            text, length = texts[spoken[index]], len(sources[index]) + cut[index]
            best, *others = (self._answer(answer) for answer in hypotheses[: search.n_best])
            yield (
                spoken[index],
                Result(
                    **vars(best),
                    source=text,
                    alternatives=tuple(others),
                    unknown=tuple(self.tokenizers.source.unknown_words(text)),
                    long=length if length > self.config.data.max_len else 0,
                    cut=cut[index],
                ),
            )

    def _answer(self, answer: Hypothesis) -> Answer:
        target = self.tokenizers.target
        text, pieces = one_line(target.decode(answer.ids)), tuple(target.pieces(answer.ids))
        return Answer(text, answer.score, answer.log_probability, pieces, answer.token_log_probabilities)

    def pieces(self, text: str, *, prefix: str = "", **decode: Any) -> Iterator[str]:
        """The translation of a text in pieces, each as soon as it is known; together they are the translation.

        That asks for a search that never goes back: the likeliest token each time, or with `sample` one that is drawn.
        A source that is too long is translated from its beginning, as elsewhere.
        """
        session = self.task.session(self.model, self.decode_config(**{"beam": 1} | decode))
        [source], _ = self.task.sources([text])
        ids: list[int] = []
        said = ""
        for token in session.tokens(source, self.task.prefix(prefix)) if text.strip() else ():
            ids.append(token)
            whole = one_line(self.tokenizers.target.decode(ids))
            if not whole.endswith("\ufffd"):  # half a character, which the next token completes
                yield whole[len(said) :]
                said = whole
        rest = one_line(self.tokenizers.target.decode(ids))[len(said) :]
        if rest:
            yield rest

    def explain(self, text: str, **decode: Any) -> Explanation:
        """Translate one text, and record what attention does when the model reads it with its translation.

        A blank text, and one that is longer than the model can read, is a DataError: nothing of it is shown in part.
        """
        source, target = self.tokenizers.source, self.tokenizers.target
        [ids], [cut] = self.task.sources([text])
        if not text.strip() or cut:
            what = f"is too long for the model: {len(ids) + cut:,} tokens" if cut else "is blank"
            raise DataError(f"the text {what}; expected a sentence of at most {self.task.max_source_len:,} tokens")
        best = self.task.session(self.model, self.decode_config(**decode)).answers([ids])[0][0]
        tokens, inputs = ([*ids, EOS], [BOS, *best.ids])
        device = self.config.train.device
        with evaluation(self.model), torch.inference_mode(), record(self.model) as trace:
            self.model(torch.tensor([tokens], device=device), torch.tensor([inputs], device=device))
        return Explanation(
            text=text,
            translation=one_line(target.decode(best.ids)),
            score=best.score,
            log_probability=best.log_probability,
            source=tuple(source.pieces(tokens)),
            inputs=tuple(target.pieces(inputs)),
            outputs=tuple(target.pieces([*best.ids, EOS])),
            source_words=tuple(words_of(ids, source.decode)),
            target_words=tuple(words_of(best.ids, target.decode)),
            flow=tuple(dimension_flow(self.model, (1, len(tokens)), (1, len(inputs)))),
            trace=trace,
        )

    def evaluate(self, pairs: Pairs, **decode: Any) -> Evaluation:
        """Translate every distinct source and score it against all of its references."""
        held_out, search = self.task.hold_out(pairs), self.decode_config(**decode)
        scores, translations = self.task.evaluate(self.model, held_out, search)
        files = [str(path) for path in pairs.report.paths]
        weights = Manifest.read(self.path).files.get(WEIGHTS)
        lines = (held_out.sources, translations, held_out.references)
        return Evaluation(scores, files, search, weights, len(held_out.too_long), *lines)

    def score(self, pairs: Pairs, **decode: Any) -> list[Scored]:
        """How likely the model finds each target as a translation of its source, in the order of the pairs.

        Pairs with more tokens than the model was trained on are left out, and counted in the report of `pairs`.
        """
        examples, too_long = self.task.encode(pairs)
        for it in too_long:
            pairs.report.skip(it.line, it.reason, it.text)
        left_out = {it.line for it in too_long}
        kept = [i for i, line in enumerate(pairs.lines) if line not in left_out]
        search, target = self.decode_config(**decode), self.tokenizers.target
        penalty = Rules(end=EOS, alpha=search.alpha).penalty
        scored = []
        for place, logprobs in enumerate(self.task.log_probabilities(self.model, examples)):
            total, pieces = sum(logprobs), tuple(target.pieces(examples.targets[place][1:-1]))
            answer = Answer(
                pairs.targets[kept[place]], total / float(penalty(len(logprobs))), total, pieces, tuple(logprobs)
            )
            scored.append(Scored(**vars(answer), line=pairs.lines[kept[place]], source=pairs.sources[kept[place]]))
        return scored

    def save_evaluation(self, evaluation: Evaluation) -> Path:
        """Write `evaluation.json` into the model folder."""
        content = json.dumps(evaluation.to_dict(), indent=2, ensure_ascii=False) + "\n"
        save_files(self.path, {"evaluation.json": content.encode()})
        return self.path / "evaluation.json"

    def decode_config(self, **changes: Any) -> DecodeConfig:
        """The model's settings of the search, with some replaced; an unknown one is a ConfigError."""
        values = {f"decode.{name}": value for name, value in changes.items()}
        return self.config.override(values, origin="the call").decode


def load(path: str | Path, *, device: str = "auto", threads: int | None = None) -> App:
    """A model folder as an App; a ModelError where it is absent, damaged or not to be understood."""
    keep_freed_memory()
    folder = load_model_folder(Path(path))
    config = folder.config.override({"train.device": choose_device(device)})
    if threads is not None:
        config = config.override({"train.threads": threads})
        torch.set_num_threads(threads)
    model = build(config.model)
    if not isinstance(model, EncoderDecoder):
        raise ModelError(f"{path} is a model of topology {config.model.topology}; expected encoder-decoder")
    load_weights(model, folder.weights)
    return App(Path(path), config, model.to(config.train.device).eval(), Tokenizers.load(folder.tokenizer))
