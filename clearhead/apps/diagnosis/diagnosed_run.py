"""A run to diagnose: its settings, log, data and weights, read without changing its folder."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...config import Config, Recipe
from ...data.batches import Plan
from ...errors import ClearheadError, ConfigError, ModelError
from ...folder.checkpoint import METRICS, FollowedFolder
from ...folder.manifest import Manifest
from ...folder.model_folder import TOKENIZER, load_model_folder, model_path, read_config, read_tokenizer
from ...model.restore import restore
from ...model.transformer import build, evaluation
from ...readers.pairs import Pairs
from ...tasks.base import Task
from ...tasks.classify.task import Classification
from ...tasks.examples import Examples
from ...tasks.registry import task_of
from ...tasks.sequences import Sequences
from ...tokenization.ragged import IntArray
from ...tokenization.source_and_target import Tokenizers
from ...training.choices.hyperparameters import choose_batch, choose_machine, choose_model, choose_schedule
from ...training.init_from import InitFrom, select_weights
from ...training.report.floors import Floors
from ...training.report.metrics import read_metrics
from ...training.run_data import RunData, encode

_SCORED, _TOKENS = 100, 3000  # held-out examples to answer, and held-out tokens in a loss
_BATCH = 1024  # tokens of a batch
_ROWS, _SAMPLED = 20_000, 3000  # of a file: rows to read, and to compare
_STORED = ("model.tie", "model.image_size", "model.image_channels", "model.patch_size", "model.sample_rate",
           "data.thresholds")  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A run. `data` is None if its data can't be read, and `why` says why."""

    path: Path
    config: Recipe
    task: Task
    log: Sequence[dict[str, Any]]
    data: RunData | None
    why: str
    rows: Pairs | None  # some examples as texts
    weights: dict[str, Tensor] | None
    start: InitFrom | None
    finished: bool
    changed: bool  # whether the data isn't that of the run

    # --- the log

    @property
    def losses(self) -> list[tuple[int, float]]:
        """Training losses by step, with dropout and label smoothing."""
        return [(it["step"], it["loss"]) for it in self.log if "loss" in it]

    @property
    def scores(self) -> list[tuple[int, float]]:
        """Validation losses by step."""
        return self._scored("loss")

    def _scored(self, name: str) -> list[tuple[int, float]]:
        key = f"valid_{name}"
        return [(it["step"], it[key]) for it in self.log if key in it and "averaged" not in it]

    @cached_property
    def kept_step(self) -> int:
        """The step whose weights are in the folder: the newest, or that with the best score so far."""
        best = self.config.train.best
        if not (scored := self._scored(best)):
            return max((it["step"] for it in self.log if "step" in it), default=0)
        sign = 1 if best == "loss" else -1
        return min(scored, key=lambda it: (not math.isfinite(it[1]), sign * it[1], -it[0]))[0]

    def logged_loss(self) -> float | None:
        """Return the highest training loss that was logged shortly before and after the step whose weights are kept."""
        kept = self.kept_step
        return max((loss for step, loss in self.losses if kept / 2 <= step <= kept * 1.2), default=None)

    # --- models and losses

    @cached_property
    def model(self) -> nn.Module:
        """The trained model."""
        assert self.weights is not None
        return restore(self.config.model, self.weights).to(self.config.train.device).eval()

    def initial(self, config: Recipe | None = None, seed: int | None = None) -> nn.Module:
        """Return a model as it was before the first step."""
        config = config or self.config
        torch.manual_seed(config.train.seed if seed is None else seed)
        model = build(config.model).to(config.train.device)
        new = self.start.give(model, config) if self.start is not None else []
        select_weights(model, config.train, new)
        return model

    @cached_property
    def held_out(self) -> Any:
        """Examples to measure losses on: those for validation, or else those for training."""
        assert self.data is not None
        valid = self.data.valid
        return valid.examples if valid is not None and len(valid.examples) else self.data.examples

    @cached_property
    def held_plan(self) -> Plan:
        """The batches of all held-out examples."""
        return self.held_out.batches(_BATCH)

    def training_loss(self) -> float:
        """Return the loss of the trained model on some training examples, as `loss` does."""
        assert self.data is not None
        plan = self.data.examples.batches(_BATCH)
        return mean_loss(self.model, self.task, self.data.examples, plan, some_batches(plan))

    @cached_property
    def held_batches(self) -> list[IntArray]:
        """Enough of these batches to measure a loss on."""
        return some_batches(self.held_plan)

    def loss(self, model: nn.Module, task: Task | None = None, examples: Any = None) -> float:
        """Return the training loss on held-out examples per prediction, without dropout and label smoothing.

        Args:
            model: the model, on the CPU.
            task: the task whose loss it is, with its settings (default: that of the run).
            examples: changed held-out examples (default: as they are).
        """
        task, examples = task or self.task, self.held_out if examples is None else examples
        return mean_loss(model, task, examples, self.held_plan, self.held_batches)

    @cached_property
    def floors(self) -> Floors | None:
        if self.data is None:
            return None
        return Floors.of(self.task, self.data.examples, self.held_out)

    @cached_property
    def reached(self) -> float | None:
        """The validation loss of the model, or else that of the last evaluation."""
        known = [loss for step, loss in self.scores if step <= self.kept_step] or [it for _, it in self.scores]
        return None if not known else known[-1] if math.isfinite(known[-1]) else math.inf

    @cached_property
    def left(self) -> float | None:
        """The loss as a share of that of frequencies, or else of wrong sources; None if either is unknown."""
        floor = self.floors.lowest if self.floors is not None else (self.use_of_sources or [0.0])[-1]
        return self.reached / floor if floor and self.reached is not None else None

    @cached_property
    def unlearned(self) -> float:
        """The share that is still to learn: 1 at the loss of frequencies, or of wrong sources, and 0 well below it."""
        return 0.5 if self.left is None else _above(self.left)

    @property
    def at_frequencies(self) -> float:
        """Like `unlearned`, but measured by token or label frequencies alone.

        Every run passes this loss in its first steps, where sources and pairs of tokens don't matter yet.
        """
        if self.floors is None or self.reached is None:
            return self.unlearned
        return _above(self.reached / self.floors.unigram)

    def can_shuffle(self) -> bool:
        """Return whether all sources differ."""
        if self.data is None:
            return False
        held = self.held_out
        return isinstance(held, Examples) and len(held) > 1 and bool(held.sources.lengths.all())

    @cached_property
    def use_of_sources(self) -> tuple[float, float] | None:
        """The loss of the model, and that with the sources of other examples of similar length; None without any."""
        if self.weights is None or not self.can_shuffle() or not isinstance(self.task, Sequences | Classification):
            return None
        others = self.held_out.with_other_sources(max(len(self.held_out) // 10, 1))
        return self.loss(self.model), self.loss(self.model, examples=others)

    # --- settings

    @cached_property
    def usual_steps(self) -> int | None:
        """The number of steps that would have been chosen for the data."""
        return None if self.data is None else self.usual("data.batch_tokens", steps=False).train.steps

    def usual(self, *kept: str, steps: bool = True) -> Recipe:
        """Return the settings that would have been chosen if the user had set only `kept`, data and steps."""
        fixed = (
            *("data.", "decode.", "train.task", "train.threads", "train.device", "train.precision"),
            *("train.init_from", "train.seed", "train.steps", "train.epochs", "train.loss_on", "model.max_len"),
        )
        given = self.config.by_origin().get("user", {})
        free = {"data.batch_tokens", "data.batch_sentences", "data.vocab_size", *_STORED}
        free |= set[str]() if steps else {"train.steps", "train.epochs"}
        values = {it: value for it, value in given.items() if it in kept or (it.startswith(fixed) and it not in free)}
        config = Config().assign({"train.task": self.config.train.task}, "user").override(values)
        config = type(self.task).settle(config.assign({"data.modality": self.config.data.modality}, "data"))
        if self.start is not None:
            config = self.start.configure(config)
        assert self.data is not None
        machine = {f"train.{it}": self.config.value(f"train.{it}") for it in ("threads", "device", "precision")}
        config, _ = choose_machine(config.assign(machine, "user"))
        examples = self.data.examples
        size = len(examples) if isinstance(examples, Examples) else examples.tokens // 15
        config, _ = choose_model(config, size)
        facts = ("model.src_vocab_size", "model.tgt_vocab_size", "model.n_classes", "model.max_len", "model.augment",
                 "data.labels", "data.label_kind", "data.number_scale", *_STORED)  # fmt: skip
        kept_facts = [it for it in facts if it not in given or it in values or it in _STORED]
        config = config.assign({it: self.config.value(it) for it in kept_facts}, "data")
        config, _ = choose_batch(config, examples.tokens, "")
        plan = examples.batches(config.data.batch_tokens or 1024, 0, config.data.batch_sentences)
        config, _ = choose_schedule(config, len(plan.epoch(0)))
        return Recipe.of(config)


def _above(share: float) -> float:
    """Return 1 for a loss that's no lower than another, 0 for one that's 15% lower, and between them in proportion."""
    return min(max((share - 0.85) / 0.15, 0.0), 1.0)


def some_batches(plan: Plan) -> list[IntArray]:
    """Return the first batches of an epoch: enough of them to measure a loss on."""
    found, count = list[IntArray](), 0
    for rows in plan.epoch(0):
        if count >= _TOKENS:
            break
        found.append(rows)
        count += plan.predictions(rows)
    return found


def mean_loss(model: nn.Module, task: Task, examples: Any, plan: Plan, batches: Iterable[IntArray]) -> float:
    """Return the training loss of some batches per prediction, without dropout and label smoothing.

    Args:
        model: the model, which is in evaluation mode meanwhile.
        task: the task whose loss it is.
        examples: the encoded examples.
        plan: knows the number of predictions of a batch.
        batches: the rows of the examples in each batch.
    """
    total, count = 0.0, 0
    with evaluation(model), torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the tokens that `fill` hides
        for rows in batches:
            total += float(task.loss(model, examples, rows, smoothing=0.0))
            count += plan.predictions(rows)
    return total / max(count, 1)


@contextmanager
def opened(path: Path, files: Sequence[str], allow_custom_code: bool) -> Iterator[Subject]:
    """Read a run for the time of the `with` block. Tokens are stored in a temporary folder.

    Args:
        files: the training data (default: the files that the run recorded).

    Raises:
        ModelError: this isn't the folder of a run, or is damaged.
        DataError: `files` can't be read.
    """
    config = read_config(path, allow_custom_code=allow_custom_code)
    if files:
        config = config.assign({"data.train": tuple(files)}, "user")
    config, _ = choose_machine(config.assign({"train.device": "auto"}, "machine"))
    try:
        recipe = Recipe.of(config)
    except ConfigError as error:
        what, expected = (
            f"{path} has no record of a training run: {error.what}",
            "a folder that `clearhead train` wrote",
        )
        raise ModelError(what, expected=expected, name=error.name) from error
    torch.set_num_threads(recipe.train.threads)
    tokenizers = Tokenizers.for_model(read_tokenizer(path), recipe.model, origin=str(path / TOKENIZER))
    if not recipe.data.labels:
        recipe = recipe.assign({"train.eval_sentences": min(recipe.train.eval_sentences, _SCORED)}, "machine")
    task = task_of(recipe)(tokenizers, recipe)
    log = read_metrics(path / METRICS) if (path / METRICS).exists() else []
    finished = Manifest.read(path).finished is not None
    with TemporaryDirectory() as folder:
        try:
            data, rows, now = _read(task, Path(folder) / "tokens")
            why, changed = "", recipe.data.digest not in ("", now)
        except ClearheadError as error:
            if files:
                raise
            data, rows, why, changed = None, None, error.what, False
        start = None
        if recipe.train.init_from and model_path(recipe.train.init_from).is_dir():
            start = InitFrom.load(Path(recipe.train.init_from), allow_custom_code=allow_custom_code)
        weights = _weights(path, allow_custom_code)
        yield Subject(path, recipe, task, log, data, why, rows, weights, start, finished, changed)


def _read(task: Task, folder: Path) -> tuple[RunData, Pairs | None, str]:
    """Return the data, some of its pairs, and its digest."""
    with task.form.open(task.config.data.train, task.config.data) as source:
        digest = source.digest()
        data = encode(task, source, digest, folder, lambda _: None)
        return data, sampled(source) if task.form.holds is Pairs else None, digest


def sampled(source: Any) -> Pairs:
    """Return some of the pairs of a file, sampled from the first ones."""
    rows = list(islice(source, _ROWS))
    chosen = np.random.default_rng(0).permutation(len(rows))[:_SAMPLED]
    return Pairs.of((rows[i] for i in sorted(chosen.tolist())), source.report)


def _weights(path: Path, allow_custom_code: bool) -> dict[str, Tensor] | None:
    """Return the weights in the folder, or else those of the newest checkpoint; None if there are none yet."""
    try:
        return load_model_folder(path, allow_custom_code=allow_custom_code).weights
    except ClearheadError:
        checkpoint = next(FollowedFolder(path).checkpoints(), None)
        return None if checkpoint is None else dict(checkpoint.tensors["model"])
