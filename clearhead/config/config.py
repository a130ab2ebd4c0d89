"""All settings of a run, addressed by dotted name (train.steps), with the source of each value.

Settings that default to None or "auto" are open: `training.prepare` chooses them before the first step, to suit the
data and the machine, which makes a `Recipe` of the configuration. It's written to the model folder and reused when the
run resumes.
"""

import dataclasses
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from ..errors import ConfigError, suggestion
from .custom_code import check_consent
from .data_config import DataConfig
from .decode_config import DecodeConfig
from .model_config import ModelConfig
from .model_settings import FOUND_IN_DATA, SHAPE
from .presets import PRESETS, Origin, Origins, check_fits, is_origin, may_replace, origin_of, preset
from .renamed import carried_over, renamed
from .task_spec import TASKS
from .train_config import TrainConfig
from .values import invalid, is_text, read_toml, read_value, require, spell, within

_EITHER_OR = (  # pairs of settings that exclude each other, and why
    ("train.steps", "train.epochs", "each follows from the other"),
    ("train.steps", "train.budget", "a budget chooses the steps"),
    ("train.epochs", "train.budget", "a budget chooses the steps"),
    ("train.warm_steps", "train.budget", "a budget chooses the steps"),
    ("train.warm_start", "train.init_from", "each gives the initial weights"),
    ("train.preset", "train.init_from", "that model already has a shape"),
)
SECTIONS: dict[str, type[Any]] = {
    "model": ModelConfig,
    "data": DataConfig,
    "train": TrainConfig,
    "decode": DecodeConfig,
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of a run, as stored in `config.json` in a model folder.

    `origins` says where each value came from (see `presets`). A value that differs from its default and
    has no recorded origin counts as the user's.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    origins: Origins = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Fill in missing origins, and reject settings that contradict each other."""
        kinds: dict[str, type[Any]] = {**SECTIONS, "origins": dict}
        for name, kind in kinds.items():
            value = getattr(self, name)
            require(isinstance(value, kind), name, value, f"a {kind.__name__}", what="isn't valid")
        object.__setattr__(self, "origins", {**self._assumed_origins(), **self.origins})
        for one, other, why in _EITHER_OR:
            if all(self.is_users(name) and self.value(name) for name in (one, other)):
                what = f"and {other}={spell(self.value(other))} contradict each other"
                raise invalid(one, self.value(one), what, expected=f"one of them, since {why}")
        for name in ("data.replay", "data.check"):
            what, fix = "needs a model to start from", "name one with train.init_from"
            require(
                not self.value(name) or bool(self.train.init_from), name, self.value(name), "none", what=what, fix=fix
            )
        joint = self.data.joint or not self.model.copy
        what = "needs one vocabulary for source and target, and data.joint=false gives two"
        require(joint, "model.copy", self.model.copy, "data.joint=true", what=what, fix="set model.copy=false")

    def value(self, name: str) -> Any:
        """Return the value of the setting with this dotted name."""
        section, key = name.split(".")
        return getattr(getattr(self, section), key)

    def origin(self, name: str) -> Origin:
        """Return where the value of a setting came from."""
        return self.origins.get(name, "default")

    def is_users(self, name: str) -> bool:
        """Return whether the user set this value."""
        return self.origin(name) == "user"

    def accepts(self, name: str, origin: Origin) -> bool:
        """Return whether `choose` may replace this setting: True if it's None or its origin isn't stronger."""
        return self.value(name) is None or may_replace(origin, self.origin(name))

    def by_origin(self) -> dict[Origin, dict[str, Any]]:
        """Return the settings whose origin isn't "default", grouped by origin, starting with the user's."""
        found: dict[Origin, dict[str, Any]] = {"user": {}}
        for name in settings():
            if name in self.origins:
                found.setdefault(self.origins[name], {})[name] = self.value(name)
        return {origin: values for origin, values in found.items() if values}

    # --- changes

    def choose(self, values: Mapping[str, Any], origin: Origin) -> Self:
        """Return a copy with these values, except for settings with a stronger origin."""
        return self.assign({name: value for name, value in values.items() if self.accepts(name, origin)}, origin)

    def assign(self, values: Mapping[str, Any], origin: Origin) -> Self:
        """Return a copy with these values, regardless of their origin."""
        return self._with(values, dict.fromkeys(values, origin))

    def override(self, values: Mapping[str, Any], *, source: str = "") -> Self:
        """Return a copy with the user's values, such as {"train.steps": 300}. Strings are converted to the right type.

        Setting `train.task` also sets the model that the task needs, and `train.preset` also sets the preset's values,
        except where the user overrides them. `override(preset("nano"))` and `override({"train.preset": "nano"})` do
        the same.

        Raises:
            ConfigError: a name is unknown or a value is invalid. The message starts with `source`, if given.
        """
        if not isinstance(values, Mapping):
            raise ConfigError(f"{values!r} can't override settings", expected="a dictionary such as "
                              "{'train.steps': 300}", value=values)  # fmt: skip
        given = {name: read_setting(name, value, source) for name, value in values.items()}
        merged: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        task = given.get("train.task", self.train.task) or ""
        check_fits(given.get("train.preset", self.train.preset), task, _needs(task))
        name, of_preset = given.get("train.preset") or "", _of_preset(given)
        brought: dict[Origin, dict[str, Any]] = {"task": self._of_task(given), origin_of(name): of_preset}
        for origin, group in brought.items():
            for name, value in group.items():
                if self.accepts(name, origin):
                    merged[name], origins[name] = value, origin
        by_value = of_preset.keys() <= given.keys()  # the caller passed what `preset` returns
        for name, value in given.items():
            if not (name in merged and merged[name] == value and (by_value or origins[name] == "task")):
                merged[name], origins[name] = value, "data" if name in FOUND_IN_DATA else "user"
        return self._with(merged, origins)

    def _with(self, values: Mapping[str, Any], origins: Origins) -> Self:
        sections: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            section, key = name.split(".")
            sections.setdefault(section, {})[key] = tuple(value) if isinstance(value, list) else value
        changed = {section: replace(getattr(self, section), **new) for section, new in sections.items()}
        merged = {name: it for name, it in {**self.origins, **origins}.items() if it != "default"}
        return replace(self, **changed, origins=merged)

    def _of_task(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model settings of the given task, or {} if the user's contradict them (training then fails)."""
        own = _needs(given.get("train.task"))
        said = {name: given.get(name, self.value(name)) for name in own if name in given or self.is_users(name)}
        return {} if any(own[name] != value for name, value in said.items()) else dict(own)

    def _assumed_origins(self) -> dict[str, Origin]:
        """Return origins for non-default values that have none. All settings of the model's shape get the same one."""
        brought, found = PRESETS.get(self.train.preset or "", {}), dict[str, Origin]()
        for section, default in _default_sections().items():
            if getattr(self, section) == default:
                continue
            for key, value in vars(getattr(self, section)).items():
                name = f"{section}.{key}"
                if name not in self.origins and value != getattr(default, key):
                    found[name] = origin_of(self.train.preset or "") if brought.get(name) == value else "user"
        if not brought and any(name in SHAPE for name in found):
            found |= {name: "user" for name in SHAPE if name not in self.origins}
        return found

    # --- files

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the values as nested dictionaries, one for each section."""
        return {section: dataclasses.asdict(getattr(self, section)) for section in SECTIONS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, source: str = "the configuration") -> Self:
        """Return the defaults overridden by nested dictionaries. Error messages start with `source`."""
        return cls().override(_flatten(values, source), source=source)

    def to_record(self) -> dict[str, dict[str, Any]]:
        """Return the values and their origins in the form stored in a model folder."""
        return {**self.to_dict(), "origins": dict(self.origins)}

    @classmethod
    def from_record(
        cls, record: Mapping[str, Any], *, source: str, allow_custom_code: bool | Collection[str] = False
    ) -> Self:
        """Read the result of `to_record`. In a record without origins, non-default values get the origin "unknown".

        A record can come from anywhere, so it may only name custom parts that are allowed (see `check_consent`).

        Args:
            record: nested settings, such as a parsed JSON file.
            source: the file or folder it comes from, for error messages.
            allow_custom_code: True to allow all custom parts, or the names of the allowed ones (default: none).
        """
        config = cls._from_record(record, source)
        check_consent(config, source, allow_custom_code)
        return config

    @classmethod
    def _from_record(cls, record: Mapping[str, Any], source: str) -> Self:
        values = _flatten(carried_over({name: it for name, it in record.items() if name != "origins"}), source)
        values = {name: read_setting(name, value, source) for name, value in values.items()}
        origins = record.get("origins")
        if origins is None:
            differing = [name for name, value in values.items() if value != settings()[name].default]
            return cls()._with(values, dict.fromkeys(differing, "unknown"))
        if not isinstance(origins, Mapping):
            error = invalid("origins", origins, "isn't a table", expected="a table of settings and origins")
            raise within(source, error)
        known: dict[str, Origin] = {}
        for name, origin in origins.items():
            name = renamed(name) or name
            if name in settings() and is_origin(origin) and may_replace(origin, known.get(name, "default")):
                known[name] = origin
        return cls()._with(values, known)

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a TOML file with the optional sections [model], [data], [train] and [decode]."""
        usable = isinstance(path, str | Path) and is_text(str(path))
        require(usable, "path", path, "the path of a TOML file", what="isn't valid")
        return cls.from_dict(carried_over(read_toml(Path(path)), whole=False), source=str(path))

    def to_toml(self) -> str:
        """Return all settings as TOML. Only the user's are active; the others are comments that show their origin."""
        import tomli_w

        tables = []
        for section, values in self.to_dict().items():
            rows = [f"[{section}]"]
            for key, value in values.items():
                if value is not None:
                    row, origin = tomli_w.dumps({key: value}).rstrip(), self.origin(f"{section}.{key}")
                    row = " ".join(line.strip() for line in row.splitlines())
                    origin_text = f"preset {self.train.preset}" if origin in ("preset", "family") else origin
                    rows.append(row if origin == "user" else f"# {row}  # {origin_text}")
            tables.append("\n".join(rows) + "\n")
        return "\n".join(tables)


def _needs(task: str | None) -> Mapping[str, Any]:
    """Return the settings that a built-in task needs."""
    return TASKS[task].needs if task in TASKS else {}


def _of_preset(given: Mapping[str, Any]) -> dict[str, Any]:
    name = given.get("train.preset")
    return {} if name is None else {key: value for key, value in preset(name).items() if key != "train.preset"}


# --- registry of settings


@dataclass(frozen=True)
class Setting:
    """Name, type, default and help text of a setting, or of a fact: what the data or a vocabulary decide."""

    name: str
    type: Any
    default: Any
    help: str
    fact: bool = False


@cache
def settings() -> Mapping[str, Setting]:
    """Return all settings, keyed by dotted name, in the order of the sections."""
    found = {}
    for section, kind in SECTIONS.items():
        types = typing.get_type_hints(kind)
        for it in dataclasses.fields(kind):
            name = f"{section}.{it.name}"
            found[name] = Setting(name, types[it.name], it.default, it.metadata["help"], "fact" in it.metadata)
    return found


@cache
def _default_sections() -> Mapping[str, Any]:
    """Return all sections with their default values, keyed by name."""
    return {section: kind() for section, kind in SECTIONS.items()}


def read_setting(name: str, value: Any, source: str) -> Any:
    """Convert a value to the type of a setting.

    Args:
        name: dotted name of the setting, such as train.steps.
        value: a value of that type, or text to parse as on the command line.
        source: where the value comes from; error messages start with it.

    Raises:
        ConfigError: there's no such setting, or it doesn't accept the value.
    """
    if name not in settings():
        if new := renamed(name):
            error = ConfigError(f"{name} is now part of {new}", fix=f"set {new}: {settings()[new].help}", name=name)
            raise within(source, error)
        fix, expected = suggestion(str(name), settings()), "a setting such as train.steps or decode.beam"
        raise within(source, ConfigError(f"unknown setting {name!r}", expected=expected, fix=fix, name=str(name)))
    return read_value(value, settings()[name].type, name, source=source)


def _flatten(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Flatten nested dictionaries into one keyed by dotted name. Error messages start with `source`."""
    flat: dict[str, Any] = {}
    if not isinstance(values, Mapping):
        expected = "a dictionary of sections, such as {'train': {'steps': 300}}"
        raise ConfigError(f"{source} is {spell(values)}", expected=expected, name=source, value=values)
    for section, table in values.items():
        if section not in SECTIONS:
            fix = suggestion(str(section), SECTIONS)
            expected = f"one of {', '.join(f'[{it}]' for it in SECTIONS)}"
            error = ConfigError(f"unknown section [{section}]", expected=expected, fix=fix, name=section)
            raise within(source, error)
        if not isinstance(table, Mapping):
            what, expected = f"{section}={spell(table)} isn't a section", f"[{section}] with settings below it"
            raise within(source, ConfigError(what, expected=expected, name=section, value=table))
        flat |= {f"{section}.{key}": value for key, value in table.items()}
    return flat


# --- recipes


@dataclass(frozen=True, kw_only=True)
class DataRecipe(DataConfig):
    """Settings of the data. The ones listed have been chosen."""

    batch_tokens: int


@dataclass(frozen=True, kw_only=True)
class TrainRecipe(TrainConfig):
    """Settings of training. The ones listed have been chosen."""

    steps: int
    optimizer: Literal["adam", "adamw", "muon"]
    lr: float
    schedule: Literal["paper", "cosine", "linear", "constant"]
    warmup: int
    eval_every: int
    save_every: int
    precision: Literal["fp32", "bf16"]
    device: str
    threads: int


_CHOSEN = [f"{section}.{key}" for section, kind in (("data", DataRecipe), ("train", TrainRecipe))
           for key in kind.__annotations__]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Recipe(Config):
    """The settings of a run, with everything chosen that a `Config` may leave open."""

    data: DataRecipe
    train: TrainRecipe

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the settings as a recipe. Raise ConfigError if one of them is still open."""
        for name in _CHOSEN:
            if (value := config.value(name)) in (None, "auto"):
                what = f"{name} is still open"
                raise ConfigError(what, expected="a value that training has chosen", name=name, value=value)
        data, train = DataRecipe(**vars(config.data)), TrainRecipe(**vars(config.train))
        return cls(model=config.model, data=data, train=train, decode=config.decode, origins=config.origins)
