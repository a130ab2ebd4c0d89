"""Make the parts of a subject of `verify`: a few inputs, a loss, a search, engines, and a way to save and load."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...config import DecodeConfig, ModelConfig
from ...data.forms import PairForm
from ...decode.beams import Hypothesis
from ...decode.engine import StepEngine
from ...decode.model_handle import as_handle
from ...decode.registry import IN_MEMORY, float32_engines, open_engine, step_engines
from ...errors import ModelError
from ...folder.manifest import read_json_object, read_verified
from ...folder.model_folder import WEIGHTS, load_weights, model_files, read_config, save_files, weights_from_bytes
from ...inspection.promises.subject import Inputs, Subject, SubjectSearch
from ...loading import LoadedModel
from ...model.transformer import build
from ...readers.pairs import Pairs
from ...readers.skipped import Report
from ...tasks.base import Task
from ...tokenization.ragged import Ragged

LOSS_TEXTS = 3  # finite differences compute their loss hundreds of times
PROMPTS = 3
ANSWER_TOKENS = 16
TEXTS = 6
LONGEST = 24  # tokens
_SAMPLED = 200  # maximum number of examples to sample from the data
_ROOM = 4  # tokens of the context window to leave for padding


@dataclass(frozen=True)
class SubjectMaker:
    """Makes a subject of a loaded model.

    Attributes:
        task: the model's task, on the CPU.
        data: data from the task's reader, or None.
        seed: random seed for choosing texts, or for making random ones.
    """

    task: Task
    loaded: LoadedModel
    decode: DecodeConfig
    data: Any
    seed: int

    @property
    def model(self) -> ModelConfig:
        """The settings of the model."""
        return self.loaded.config.model

    @property
    def most(self) -> int:
        """The maximum length of a text in tokens, including special tokens."""
        return max(2, min(LONGEST, self.model.max_len - _ROOM))

    def sample(self) -> tuple[Any, str]:
        """Return a sample of the data or of the last evaluation, and a description; (None, "") without either."""
        if self.data is not None:
            sample, _ = self.task.form.sample(self.data, _SAMPLED, self.seed)
            return sample, f"texts of {' + '.join(map(str, self.data.report.paths))}"
        path = self.loaded.path / "evaluation.json"
        pairs = _evaluated(path) if isinstance(self.task.form, PairForm) else []
        return (Pairs.of(pairs, Report((str(path),))), "texts of its evaluation.json") if pairs else (None, "")

    def examples(self) -> tuple[Any, str]:
        """Return the encoded examples of `sample`, and its description; (None, "") if there are none."""
        sample, found = self.sample()
        examples = None if sample is None else self.task.hold_out(sample).examples
        return (examples, found) if examples is not None and len(examples) else (None, "")

    def pick(self, examples: Any) -> list[list[list[int]]]:
        """Return a few examples, truncated, as a list for each side."""
        rows = self.choose(len(examples.sides[0]))
        return [[self.cut(side[row]) for row in rows] for side in examples.sides]

    def choose(self, count: int) -> list[int]:
        """Choose a few of `count` examples at random, and return their indices in order."""
        return sorted(np.random.default_rng(self.seed).choice(count, min(count, TEXTS), replace=False).tolist())

    def cut(self, ids: list[int]) -> list[int]:
        """Truncate a text. If it's too long, it still ends with the end token."""
        return ids if len(ids) <= self.most else [*ids[: self.most - 1], self.task.special.eos]

    def random_ids(self, vocab_size: int, most: int, side: int = 0) -> list[list[int]]:
        """Return texts of random ordinary tokens: one of `most` tokens, one of a single token, and some in between.

        Args:
            vocab_size: number of tokens to choose from, special ones included.
            most: length of the longest text, in tokens.
            side: texts of another side have other lengths and tokens.
        """
        rng = np.random.default_rng([self.seed + side, vocab_size])
        lengths = [most, 1, *rng.integers(1, most + 1, TEXTS - 2).tolist()]
        ids = np.array(self.task.special.ordinary(vocab_size))
        return [ids[rng.integers(0, len(ids), length)].tolist() for length in lengths]

    def padded(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Stack texts, padded on the right. -> int64 (B, longest)"""
        return torch.from_numpy(Ragged(rows).padded(np.arange(len(rows)), self.task.special.pad))

    def loss(self, examples: Any, rows: NDArray[np.int64] | None = None) -> Callable[[nn.Module], Tensor]:
        """Return a function that computes a model's loss on some rows, by default the first few."""
        rows = np.arange(min(len(examples), LOSS_TEXTS)) if rows is None else rows
        smoothing = self.loaded.config.train.label_smoothing
        return lambda model: self.task.loss(model, examples, rows, smoothing=smoothing)

    def search(
        self, prompts: Any, most: int, answers: Callable[[Any, DecodeConfig], list[list[Hypothesis]]]
    ) -> SubjectSearch:
        """Return a search for several answers, scored by log-probability and length penalty.

        Args:
            prompts: what the search starts from, in the form that the task reads.
            most: maximum number of tokens in an answer.
            answers: returns the answers of a model with these settings, best first, for each prompt.
        """
        beam = max(2, min(self.decode.beam, 4))
        kept = {name: getattr(self.decode, name) for name in ("no_repeat_ngram", "suppress", "suppress_special")}
        settings = DecodeConfig(beam=beam, n_best=beam, alpha=self.decode.alpha, max_len=most, engine=IN_MEMORY, **kept)
        return SubjectSearch(prompts, lambda model: answers(model, settings), settings.alpha)

    def subject(
        self,
        inputs: Inputs,
        found: str,
        *,
        texts: str = "",
        loss: Callable[[nn.Module], Tensor] | None = None,
        search: SubjectSearch | None = None,
    ) -> Subject:
        """Return a subject of the model with these inputs.

        Args:
            inputs: the batch that the checks run the model on.
            found: where the inputs come from, such as "texts of test.tsv" ("" for random ones).
            texts: a description of the inputs in place of the one made from `found`.
            loss: returns a model's loss on a few examples; without it, gradients aren't checked.
            search: a search to check, if the model has one.
        """
        if found:
            described = f"{len(inputs)} {found}, at most {LONGEST} tokens each"
        else:
            described = f"{len(inputs)} texts of random tokens (no data given, and none in the folder)"
        return Subject(
            self.loaded.model,
            inputs,
            texts or described,
            self.model.max_len,
            loss=loss,
            reload=self._reloaded,
            engines={name: partial(self._open_engine, name) for name in step_engines(self.model)},
            float32_engines=float32_engines(self.model),
            search=search,
        )

    def _open_engine(self, name: str, model: nn.Module, max_len: int) -> StepEngine:
        engine = open_engine(as_handle(model, replace(self.model, max_len=max_len)), DecodeConfig(engine=name))
        assert isinstance(engine, StepEngine)
        return engine

    def _reloaded(self, model: nn.Module, folder: Path) -> nn.Module:
        """Save the model to a folder as training does, and load it as `clearhead.load` does.

        If building from the settings gives different modules, load the weights into a blanked copy of the model.
        """
        config, tokenizer = self.loaded.config.to_record(), self.loaded.tokenizers.to_json()
        save_files(folder, model_files(config=config, tokenizer=tokenizer, weights=model.state_dict(), card=""))
        own = read_config(folder, allow_custom_code=True).model  # the caller's own model, written a line above
        weights = weights_from_bytes(folder / WEIGHTS, read_verified(folder, (WEIGHTS,))[WEIGHTS])
        with torch.random.fork_rng(devices=()):  # leaves the caller's random state alone
            fresh: nn.Module = build(own)
        if [type(part) for part in fresh.modules()] != [type(part) for part in model.modules()]:
            fresh = deepcopy(model)
            with torch.no_grad():
                for it in fresh.state_dict().values():
                    it.fill_(float("nan") if it.is_floating_point() else 0)
        fresh = fresh.to(next(model.parameters()).dtype)
        load_weights(fresh, weights)
        return fresh


def _evaluated(path: Path) -> list[tuple[int, str, str]]:
    """Return the sources of an evaluation with one reference each, or [] if the file is missing or unreadable."""
    try:
        lines = read_json_object(path)["examples"]
        return [(place, str(it["source"]), str(it["references"][0])) for place, it in enumerate(lines, 1)]
    except (ModelError, LookupError, TypeError):
        return []
