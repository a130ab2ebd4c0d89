"""Settle the settings of a run: those that its task requires, has as defaults or derives, and checks of the user's."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..config import FAMILIES, NEWEST, Config, PublishedModel, settings
from ..config.notations import AUDIO, IMAGES
from ..config.presets import check_fits
from ..config.values import invalid, require, spell
from ..errors import ConfigError, suggestion
from .examples import Units

_READS = {"tokens": "text", "patches": "image", "frames": "audio"}  # the modality that a front end is for
_OWN = {  # settings of a front end that no other uses
    "patches": ("image_size", "image_channels", "patch_size"),
    "frames": ("sample_rate", "n_mels"),
}
_AUGMENTATIONS = {"patches": IMAGES, "frames": AUDIO}


class Declared(Protocol):
    """The declarations of a task; see `Task`."""

    verb: str
    units: Units
    modalities: Sequence[str]
    required: Mapping[str, Any]
    defaults: Mapping[str, Any]
    unused: Sequence[str]
    scores: Sequence[str]
    subword_dropout: bool
    has_labels: bool
    has_prompts: bool
    answers_text: bool

    def derived(self, config: Config) -> Mapping[str, Any]: ...


def settle(task: Declared, config: Config) -> Config:
    """Return `config` with the required, default and derived settings of a task; see `Task.settle`."""
    _check_given(task, config)
    _check_support(task, config)
    family = FAMILIES.get(config.train.preset or "")
    _check_family(task, config, family)
    if config.train.task is None:
        config = config.assign({"train.task": task.verb}, "data")
    parts = family.settings(task.required.get("model.head", config.model.head)) if family else {}
    parts = {name: value for name, value in parts.items() if config.accepts(name, "family")}
    config = config.assign({**parts, **task.required}, "task").assign(parts, "family")  # a head needs its parts
    config = config.choose({name: it for name, it in task.defaults.items() if name not in task.required}, "task")
    check_patience(config, task.scores)
    if name := _without_effect(task, config):
        why = f" and model.front={spell(config.model.front)}"
        raise _misfit(task, name, config, why=why, fix=f"leave out {name}")
    config = config.choose(task.derived(config), "task")
    if "data.max_len" not in task.unused:
        longest = config.data.max_len
        config.data.expect_room(longest + 1, f"an example of data.max_len={longest} tokens")  # and the end token
    return config


def _check_given(task: Declared, config: Config) -> None:
    for name, value in task.required.items():
        if config.is_users(name) and config.value(name) != value:
            raise _misfit(task, name, config, expected=spell(value))
    for name in task.unused:
        if config.is_users(name) and config.value(name) != settings()[name].default:
            raise _misfit(task, name, config, fix=f"leave out {name}")
    if config.is_users("model.front") and not _reads(config.model.front, task.modalities):
        raise _misfit(task, "model.front", config, fix="leave out model.front")


def _check_family(task: Declared, config: Config, family: PublishedModel | None) -> None:
    """Raise ConfigError if the published model that the user chose doesn't fit the task or its data."""
    check_fits(config.train.preset, task.verb, task.required)
    fits = family is None or _reads(family.parts.get("model.front", ""), task.modalities)
    what = f"can't read data.modality={config.data.modality!r}"
    expected, fix = f"a preset for {task.units.sources}, such as bert-base", "choose another preset, or leave it out"
    require(fits, "train.preset", config.train.preset, expected, what=what, fix=fix)


def _check_support(task: Declared, config: Config) -> None:
    check_best(config, task.scores, repr(task.verb))
    for name, supported, why, off in (
        ("data.subword_dropout", task.subword_dropout, "", "0"),
        ("train.warm_start", "text" in task.modalities, ", which aren't texts", ""),
        ("train.watch", task.answers_text, ", which needs more than a text", ""),
        ("data.label_kind", task.has_labels, ", which has no labels", ""),
        ("train.balance", task.has_labels, ", which has no labels", "false"),
        ("train.loss_on", task.has_prompts, ", which has no prompts with answers", ""),
        ("data.template", task.has_prompts, ", which isn't a language model", ""),
        ("train.r_drop", task.has_labels, ", which has no labels", "0"),
    ):
        if config.value(name) and not supported:
            raise _misfit(task, name, config, why=why, expected=off, fix="" if off else f"leave out {name}")


def _misfit(
    task: Declared, name: str, config: Config, *, why: str = "", expected: str = "", fix: str = ""
) -> ConfigError:
    on = "" if "text" in task.modalities else f" on {task.units.sources}"
    what = f"doesn't work with task {task.verb!r}{on}{why}"
    return invalid(name, config.value(name), what, expected=expected, fix=fix)


def _reads(front: str, modalities: Sequence[str]) -> bool:
    """Return whether a front end reads one of these modalities. A custom class is assumed to do so."""
    return _READS.get(front, modalities[0]) in modalities


def _without_effect(task: Declared, config: Config) -> str:
    """Return a setting of the user's that neither the front end nor the task uses, or ""."""
    front = config.model.front
    if front not in _READS:  # a custom class may use any of them
        return ""
    others = (f"model.{name}" for kind, names in _OWN.items() if kind != front for name in names)
    fitting = _AUGMENTATIONS.get(front, ())
    if config.is_users("model.augment") and any(it.partition("=")[0] not in fitting for it in config.model.augment):
        return "model.augment"
    others = (it for it in others if it not in task.defaults)
    given = (it for it in others if config.is_users(it) and config.value(it) != settings()[it].default)
    return next(given, "")


def check_best(config: Config, scores: Sequence[str], of: str) -> None:
    """Raise ConfigError if train.best is none of the scores."""
    best, known = config.train.best, [*dict.fromkeys((*scores, NEWEST))]
    what, fix = f"isn't a score for {of}", suggestion(best, known)
    require(best in known, "train.best", best, _listed(known), what=what, fix=fix)


def check_patience(config: Config, scores: Sequence[str]) -> None:
    """Raise ConfigError if train.patience has no score to watch."""
    if config.train.best == NEWEST and (patience := config.train.patience):
        what = f"needs a score to watch, but train.best={NEWEST!r} has none"
        expected = f"train.patience=0, or train.best set to {_listed(scores)}"
        raise invalid("train.patience", patience, what, expected=expected)


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
