"""Settings of earlier versions that became part of others. Model folders and TOML files may still have them.

They're carried over where such a file is read. Everywhere else, an earlier name is an error that says the new one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from .messages import say
from .notations import OFF


@dataclass(frozen=True)
class _Merged:
    """Settings of a section that became one.

    Attributes:
        into: the key of the new setting.
        old: the earlier keys, and the defaults that they had.
        value: returns the value of the new setting from those of the earlier ones, in this order.
        joined: True if every earlier key has a part in the value, or may forbid it, so that none may be missing.
    """

    section: str
    into: str
    old: Mapping[str, Any]
    value: Callable[..., Any]
    joined: bool = True

    def carry_over(self, values: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
        """Return the settings of the section with the new one in place of the earlier ones."""
        gone = {key for key in self.old if key != self.into}
        number = self.into in self.old and isinstance(values.get(self.into), int)  # one of two now
        if not number and (not gone & values.keys() or (self.into in values and self.into not in self.old)):
            return dict(values)
        if self.joined and not whole and not self.old.keys() <= values.keys():
            return dict(values)  # the new setting would replace what the task or a preset says about the missing parts
        found = self.value(*(values.get(key, default) for key, default in self.old.items()))
        kept = {key: value for key, value in values.items() if key not in self.old}
        return {**kept, self.into: found}


def _augment(*values: Any) -> tuple[str, ...]:
    given = {name: value for (name, off), value in zip(OFF.items(), values) if value != off}
    return tuple(name if value is True else f"{name}={value}" for name, value in given.items())


def _rotary(base: Any, scaling: Any) -> str:
    base = int(base) if isinstance(base, float) and base.is_integer() else base
    return f"{base}" if scaling == "none" else f"{base}:{scaling}"


def _normalise(form: Any, whitespace: Any, lowercase: Any) -> tuple[Any, ...]:
    return (*([form] * (form != "none")), *["lowercase"] * bool(lowercase), *["whitespace"] * bool(whitespace))


def _feed_forward(activation: Any, other: Any) -> Any:
    if activation is not None and ":" in str(other):  # a class, which used to be told the activation
        say(f"model.activation={activation} has no effect on model.feed_forward={other}")
    return other or activation or "relu"


_MERGED = (
    _Merged("model", "feed_forward", {"activation": None, "feed_forward": None}, _feed_forward, joined=False),
    _Merged("model", "augment", OFF, _augment),
    _Merged("model", "head_layer", {"pooler": "none", "token_transform": False},
            lambda layer, norm: "norm" if norm else layer),
    _Merged("model", "rotary", {"rotary_base": 10_000.0, "rotary_scaling": "none"}, _rotary),
    _Merged("model", "relative_buckets", {"relative_buckets": 32, "relative_distance": 128}, lambda *both: both),
    _Merged("train", "adam", {"beta1": 0.9, "beta2": 0.98, "eps": 1e-9}, lambda *numbers: numbers),
    _Merged("train", "average", {"average": 0, "ema": 0.0, "keep": 2},
            lambda count, decay, keep: decay or count, joined=False),
    _Merged("data", "label_kind", {"label_separator": ""}, lambda mark: f"several:{mark}" if mark else ""),
    _Merged("data", "normalise", {"unicode": "NFC", "whitespace": True, "lowercase": False}, _normalise),
)  # fmt: skip
_NEW = {f"{it.section}.{key}": f"{it.section}.{it.into}" for it in _MERGED for key in it.old if key != it.into}


def renamed(name: str) -> str:
    """Return the setting that an earlier one is part of now, or ""."""
    return _NEW.get(name, "")


def carried_over(sections: Mapping[str, Any], *, whole: bool = True) -> dict[str, Any]:
    """Return the sections of a file with the settings of this version. Values aren't checked.

    What no longer has an effect is reported.

    Args:
        sections: the sections of the file.
        whole: True for a model folder's file, which has all settings of its version. In another file, an earlier
            setting stays if the new one needs others that the file lacks; reading it raises an error.

    Raises:
        ConfigError: the earlier settings describe a model that this version can't build.
    """
    found, model, train = dict(sections), sections.get("model"), sections.get("train")
    if isinstance(model, Mapping) and model.get("token_transform") and model.get("feed_forward") is not None:
        what, fix = "can't be carried over to this version next to model.feed_forward", "use the version that wrote it"
        raise ConfigError(f"model.token_transform {what}", fix=fix, name="model.token_transform", value=True)
    if isinstance(train, Mapping) and "keep" in train and not whole:
        say(f"train.keep={train['keep']} has no effect: as many checkpoints are kept as train.average needs, or two")
        found["train"] = {key: value for key, value in train.items() if key != "keep"}
    for it in _MERGED:
        if isinstance(values := found.get(it.section), Mapping):
            found[it.section] = it.carry_over(values, whole=whole)
    return found
