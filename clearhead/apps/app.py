"""What all models in use have in common: where they are from, how good they are on a file, how they search."""

import json
from collections.abc import Iterable, Mapping, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from torch import nn

from ..config import Config, DecodeConfig
from ..config.values import finite
from ..errors import ConfigError, DataError, TrainingError
from ..folder.model_folder import save_files
from ..inspection.ablation.ablation_report import Ablation
from ..inspection.ablation.study import Watch
from ..inspection.promises.check import Verification
from ..inspection.promises.subject import Subject
from ..inspection.promises.verification import verify
from ..inspection.record.parts import count_parameters
from ..inspection.record.switches import without
from ..inspection.views.explanation import Explanation
from ..readers.lines import shown
from ..tasks.base import Task
from ..tasks.registry import task_of
from ..tokenization.tokenizer import Tokenizers
from .ablating import Asked, ablate
from .evaluation import Evaluation
from .notebook import page

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")  # what only matters where tokens are drawn
_WIDTH = 80  # letters of what is no text, in a message
ONE = {"n_best": 1}  # where there is room for one answer, whatever a model stores


def as_texts(texts: Any, what: str = "text") -> list[str]:
    """The texts as a list; a DataError where they are one text, or hold something else."""
    if isinstance(texts, str):  # it would be taken for a list of letters
        raise DataError(f"one {what} was given, {shown(texts)}; expected a list of {what}s")
    in_order = isinstance(texts, Iterable) and not isinstance(texts, Mapping | Set)
    if not in_order or len(getattr(texts, "shape", (0,))) != 1:  # of a table one would get the names of its columns
        raise DataError(f"{_said(texts)}, was given; expected a {what}, or a list of {what}s")
    found = list(texts)
    for place, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(
                f"{what} {place} is {text!r}, a {type(text).__name__}; expected a list of {what}s, each a str"
            )
    return [str(text) for text in found]  # those of numpy, too


def as_text(text: Any, what: str = "text") -> str:
    """One text as it is; a DataError where it is something else."""
    if not isinstance(text, str):
        raise DataError(f"{_said(text)}, was given; expected one {what}, a str")
    return text


def _said(value: Any) -> str:
    """What is no text, in a message: itself, cut, and its type."""
    return f"{' '.join(repr(value).split())[:_WIDTH]}, a {type(value).__name__}"


def _the_one(inputs: tuple[Any, ...]) -> Any:
    if len(inputs) != 1:
        what = f"{len(inputs)} inputs were given"
        raise DataError(what, expected="one text, or one list of texts", name="inputs", value=len(inputs))
    return inputs[0]


class App:
    """A model with its tokenizer and settings, ready for raw text."""

    task: Task

    def __init__(
        self,
        path: Path,
        config: Config,
        model: nn.Module,
        tokenizers: Tokenizers,
        *,
        weights_digest: str | None = None,
    ) -> None:
        """`weights_digest`: the SHA-256 of the file that the weights are from, which evaluations record."""
        self.path, self.config, self.model, self.tokenizers = path, config, model, tokenizers
        self.weights_digest = weights_digest
        self.task = task_of(config)(tokenizers, config)

    def __call__(self, *inputs: Any, **decode: Any) -> Any:
        """Answer a text with a text, or a list with a list, through the task. Tasks with other inputs override this.

        Settings of `decode` may follow: `app("a text", beam=1)`.
        """
        texts, search = _the_one(inputs), self.decode_config(**(ONE | decode))
        found = self.task.answers(self.model, [texts] if isinstance(texts, str) else as_texts(texts), search)
        return found[0] if isinstance(texts, str) else found

    def explain(self, *inputs: Any, **decode: Any) -> Explanation:
        """Answer one text through the task, and record every step. Tasks with other inputs override this."""
        return self.task.explain(self.model, as_text(_the_one(inputs)), self.decode_config(**(ONE | decode)))

    def evaluate(self, data: Any, **decode: Any) -> Evaluation:
        """Answer all data, and score the answers: those of a file, or of several (`app.evaluate("test.tsv")`), read as
        those of training were, or what `read_pairs` gave."""
        data = self._data(data)
        held_out, search = self.task.hold_out(data), self.decode_config(**(ONE | decode))
        judged = self.task.evaluate(self.model, held_out, search)
        files = [str(path) for path in data.report.paths]
        counts = (len(held_out.too_long), held_out.cut)
        return Evaluation(judged, files, search, self.weights_digest, *counts, self.task.units.answer)

    def subject(self, data: Any = None, *, seed: int = 0) -> Subject:
        """What the promises of the model are tried on: some of the data, as the task's reader gives them, or else of
        what the folder keeps, or random tokens.

        Raises:
            ConfigError: the task has none.
        """
        what = f"a model for {self.task.verb!r} can't be verified"
        raise ConfigError(what, name="train.task", value=self.config.train.task)

    def verify(self, data: Any = None, *, seed: int = 0) -> Verification:
        """Prove on this model and this machine that the promises of the code hold, on data as for `evaluate`."""
        return verify(self.subject(None if data is None else self._data(data), seed=seed))

    def save_evaluation(self, evaluation: Evaluation) -> Path:
        """Write `evaluation.json` into the model folder; a TrainingError where that cannot be."""
        if not self.path.is_dir():
            raise TrainingError(f"{self.path} is not there any more: it was moved or removed since it was loaded")
        content = json.dumps(finite(evaluation.to_dict()), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        save_files(self.path, {"evaluation.json": content.encode()})
        return self.path / "evaluation.json"

    def without(self, *names: str) -> AbstractContextManager[None]:
        """The model without some of its parts inside the `with` block: `app.without("decoder.1.self.head.3")`.

        A name that is none is a ConfigError, which says what there is.
        """
        return without(self.model, *names)

    def ablate(
        self,
        data: Any,
        *,
        parts: str = "all",
        limit: int | None = 200,
        score: str | None = None,
        keep: bool = True,
        watch: Watch = lambda *_: None,
        **decode: Any,
    ) -> Ablation:
        """Score data, as for `evaluate`, with the model, and without each of its parts alone: which of them matter, and
        how much.

        `parts` are heads, attentions, feed-forwards, or all. Of the data at most `limit` texts are taken, at random but
        always the same; None: all. `score` is one that models are compared by; without it, the most telling one. With
        `keep` every result stays in the model's folder as soon as it is there, and is not measured again. `watch` is
        told of every measurement before it begins: the part, how many are done, and how many there will be.
        """
        asked = Asked(parts, limit, score, keep)
        return ablate(self, self._data(data), asked, self.decode_config(**(ONE | decode)), watch)

    def _data(self, data: Any) -> Any:
        """Of files all that they hold; what a reader of the task gave is that already."""
        paths = [data] if isinstance(data, str | Path) else data
        if isinstance(paths, list | tuple) and paths and all(isinstance(it, str | Path) for it in paths):
            return self.task.form.read([str(it) for it in paths], self.config.data)
        if not isinstance(data, self.task.form.holds):
            raise DataError(
                f"{_said(data)}, is no data to `{self.task.verb}`; expected the path of a file, or several in a list"
            )
        return data

    def decode_config(self, **changes: Any) -> DecodeConfig:
        """The model's settings of the search, with some replaced.

        A ConfigError where one is unknown, or would change nothing beside the others.
        """
        values = {f"decode.{name}": value for name, value in changes.items()}
        search = self.config.override(values, source="the call").decode
        if "unknown" in changes and self.task.verb != "generate":
            raise ConfigError(
                f"decode.unknown = {changes['unknown']} would change nothing: what the vocabulary lacks is always read "
                "with <unk>, but by `generate`; expected no decode.unknown"
            )
        idle = {"beam": "sample = false"} if search.sample else dict.fromkeys(_SAMPLING, "sample = true")
        if search.diverse and search.n_best == 1:
            idle["diverse"] = "n_best = 2 or more"
        for name in changes:
            if self.task.verb == "generate" and f"decode.{name}" in self.task.unused:
                raise ConfigError(
                    f"decode.{name} = {changes[name]} would change nothing: a text that goes on has no source to be "
                    f"measured by; expected decode.max_len or decode.min_len"
                )
            if name in idle:
                raise ConfigError(
                    f"decode.{name} = {changes[name]} would change nothing here; expected decode.{idle[name]} "
                    f"beside it, or no decode.{name}"
                )
        return search

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {count_parameters(self.model)['total']:,} parameters)"

    def _repr_html_(self) -> str:
        """For notebooks: the task, the sizes, the scores that are known, and the parameters of every part."""
        return page(self)
