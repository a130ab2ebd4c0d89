"""A trained model in use: what the command line, a notebook and a server call.

app = load("models/en-fr")
app("I am hungry.")              # a text for a text, a list for a list
app.results(["I am hungry."])    # with score and tokens
app.explain("I am hungry.")      # with every step of attention
"""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, overload

import torch

from .answers import Answer, Reading, Result, Scored
from .config import Config, DecodeConfig
from .decode.rules import Rules
from .decode.search import Hypothesis
from .errors import ConfigError, DataError, ModelError, TrainingError
from .evaluation import Evaluation
from .inspection.alignment import words_of
from .inspection.explanation import Explanation
from .inspection.flow import dimension_flow
from .inspection.recorder import record
from .model.transformer import EncoderDecoder, build, evaluation
from .tasks.translation import Examples, Translation
from .text.encoding import PairEncoder
from .text.lines import shown
from .text.sources import Pairs, Report
from .text.tokenizer import BOS, EOS, Tokenizers
from .training.memory import keep_freed_memory
from .training.model_folder import TOKENIZER, load_model_folder, load_weights, save_files
from .training.recipe import choose_device
from .training.run import train
from .values import finite

__all__ = ["App", "Evaluation", "Result", "load", "train"]

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")  # what only matters where tokens are drawn
_ONE = {"n_best": 1}  # where there is room for one answer, whatever a model stores


class App:
    """A model with its tokenizer and settings, ready for raw text."""

    def __init__(
        self,
        path: Path,
        config: Config,
        model: EncoderDecoder,
        tokenizers: Tokenizers,
        *,
        weights_digest: str | None = None,
    ) -> None:
        """`weights_digest`: the SHA-256 of the file that the weights are from, which evaluations record."""
        self.path, self.config, self.model, self.tokenizers = path, config, model, tokenizers
        self.weights_digest = weights_digest
        self.task = Translation(tokenizers, config)

    @overload
    def __call__(self, text: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, text: list[str], **decode: Any) -> list[str]: ...
    def __call__(self, text: str | list[str], **decode: Any) -> str | list[str]:
        """Translate: a text gives a text, a list a list. A `prefix` and settings of `decode` may follow: `beam=1`."""
        one = _ONE | decode
        if isinstance(text, str):
            return self.results([text], **one)[0].text
        return [result.text for result in self.results(text, **one)]

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
        one = _ONE | decode
        search = self.decode_config(**one)
        if not search.sample and "beam" not in decode:
            search = self.decode_config(**one, beam=1)
        session = self.task.session(self.model, search)
        [source], _ = self.task.sources([text])
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
        source, target = self.tokenizers.source, self.tokenizers.target
        [ids], [cut] = self.task.sources([text])
        if not text.strip() or cut:
            what = f"is too long for the model: {len(ids) + cut:,} tokens" if cut else "is blank"
            raise DataError(f"the text {what}; expected a sentence of at most {self.task.max_source_len:,} tokens")
        best = self.task.session(self.model, self.decode_config(**(_ONE | decode))).answers([ids])[0][0]
        said = [*best.ids, EOS] if best.finished else list(best.ids)  # the end only where the model said it
        tokens, inputs = ([*ids, EOS], [BOS, *best.ids][: len(said)])
        device = self.config.train.device
        with evaluation(self.model), torch.inference_mode(), record(self.model) as trace:
            self.model(torch.tensor([tokens], device=device), torch.tensor([inputs], device=device))
        return Explanation(
            text=text,
            translation=self.task.text(best.ids),
            score=best.score,
            log_probability=best.log_probability,
            source=tuple(source.pieces(tokens)),
            inputs=tuple(target.pieces(inputs)),
            outputs=tuple(target.pieces(said)),
            source_words=tuple(source.word_numbers(text)),
            target_words=tuple(words_of(best.ids, target.decode)),
            flow=tuple(dimension_flow(self.model, (1, len(tokens)), (1, len(inputs)))),
            trace=trace,
        )

    def evaluate(self, pairs: Pairs, **decode: Any) -> Evaluation:
        """Translate every distinct source and score it against all of its references."""
        held_out, search = self.task.hold_out(pairs), self.decode_config(**(_ONE | decode))
        scores, translations = self.task.evaluate(self.model, held_out, search)
        files = [str(path) for path in pairs.report.paths]
        lines = (held_out.sources, translations, held_out.references)
        return Evaluation(scores, files, search, self.weights_digest, len(held_out.too_long), held_out.cut, *lines)

    def score(self, pairs: Pairs, *, alpha: float | None = None) -> tuple[list[Scored], Report]:
        """How likely the model finds each target as a translation of its source, in the order of the pairs.

        Without `alpha` the length penalty is the model's own. Pairs with more tokens than the model can read are left
        out, as `model.max_len` says; the report is that of `pairs` with them among what was skipped.
        """
        search = self.decode_config() if alpha is None else self.decode_config(alpha=alpha)
        found = PairEncoder(self.tokenizers, *self.task.readable)(pairs)
        examples, report = Examples(found.sources, found.targets), deepcopy(pairs.report)
        for it in found.skipped:
            report.skip(it.line, it.reason, it.text)
        report.used = len(examples)
        target, penalty = self.tokenizers.target, Rules(end=EOS, alpha=search.alpha).penalty
        scored = []
        for row, (place, logprobs) in enumerate(zip(found.kept, self.task.log_probabilities(self.model, examples))):
            total, pieces = sum(logprobs), tuple(target.pieces(examples.targets[row][1:-1]))
            answer = Answer(pairs.targets[place], total / float(penalty(len(logprobs))), total, pieces, tuple(logprobs))
            scored.append(Scored(**vars(answer), line=pairs.lines[place], source=pairs.sources[place]))
        return scored, report

    def save_evaluation(self, evaluation: Evaluation) -> Path:
        """Write `evaluation.json` into the model folder; a TrainingError where that cannot be."""
        if not self.path.is_dir():
            raise TrainingError(f"{self.path} is not there any more: it was moved or removed since it was loaded")
        content = json.dumps(finite(evaluation.to_dict()), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        save_files(self.path, {"evaluation.json": content.encode()})
        return self.path / "evaluation.json"

    def decode_config(self, **changes: Any) -> DecodeConfig:
        """The model's settings of the search, with some replaced.

        A ConfigError where one is unknown, or would change nothing beside the others.
        """
        values = {f"decode.{name}": value for name, value in changes.items()}
        search = self.config.override(values, origin="the call").decode
        idle = {"beam": "sample = false"} if search.sample else dict.fromkeys(_SAMPLING, "sample = true")
        if search.diverse and search.n_best == 1:
            idle["diverse"] = "n_best = 2 or more"
        for name in changes:
            if name in idle:
                raise ConfigError(
                    f"decode.{name} = {changes[name]} would change nothing here; expected decode.{idle[name]} "
                    f"beside it, or no decode.{name}"
                )
        return search


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
    tokenizers = Tokenizers.from_json(folder.tokenizer, origin=str(folder.path / TOKENIZER))
    model = model.to(config.train.device).eval()
    return App(folder.path, config, model, tokenizers, weights_digest=folder.weights_digest)
