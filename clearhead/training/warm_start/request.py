"""Recognize a warm start, and record its settings so that it can resume.

While a warm start is in progress, its folder contains two hidden files: the settings it began with, and the digest of
the model that it will replace, if any.
"""

import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from ...config import Config
from ...config.values import spell
from ...errors import ConfigError, ModelError, TrainingError
from ...folder.atomic import write_file, writing
from ...folder.manifest import MANIFEST, digest, parse_json_object, read_bytes
from ...folder.model_folder import CONFIG, read_config
from ..open_run import RunOptions
from ..prepare import PLACES, refuse_contradictions

OF_WARM_START = ("train.warm_steps", "train.hidden_span", "train.soup")  # settings that only a warm start uses
_REQUEST, _OLD_MODEL = ".asked.json", ".replaced"


def is_warm_start(config: Config, out: str | Path, options: RunOptions) -> bool:
    """Return whether to train with a warm start: the settings request one, or the run to resume is one.

    Raises:
        ConfigError: a setting needs a warm start, but this run isn't one.
        TrainingError: the folder contains a warm start in progress, and neither `resume` nor `replace` is set.
    """
    out = Path(out)
    if config.train.warm_start or (options.resume and _was_warm_start(out, options.allowed(config))):
        return bool(config.data.train)
    for name in ("data.texts", *OF_WARM_START):
        if (value := config.value(name)) not in (None, ()):
            raise ConfigError(
                f"{name}={spell(value)} has no effect without a warm start",
                fix="set train.warm_start=denoise as well",
                name=name,
                value=value,
            )
    if not (options.resume or options.replace) and was_requested(out):
        raise TrainingError(
            f"{out} is occupied: it contains a warm start in progress",
            fix="continue it with `resume=True`, or choose another folder with `out`",
            name=str(out),
        )
    return False


def was_requested(out: Path) -> bool:
    """Return whether a folder contains a warm start in progress."""
    return (out / _REQUEST).exists()


def write_request(out: Path, config: Config) -> None:
    """Record the settings that a warm start begins with."""
    with writing(out):
        write_file(out / _REQUEST, json.dumps(config.to_record(), indent=1).encode() + b"\n")


def read_request(out: Path, config: Config, allowed: bool | Collection[str]) -> Config:
    """Return the settings that the warm start in a folder began with, updated with the file paths in `config`.

    The user may now set values that were left open. The stages check them.

    Raises:
        ConfigError: the user changed a setting.
        ModelError: the file is damaged, or names custom code that isn't allowed.
    """
    path = out / _REQUEST
    record = parse_json_object(path, read_bytes(path))
    begun = Config.from_record(record, source=str(path), allow_custom_code=allowed)
    asked = {name for name in config.by_origin().get("user", ()) if name not in PLACES}
    new = {name for name in asked if not begun.is_users(name) and begun.value(name) in (None, "auto")}
    refuse_contradictions(out, begun, config, asked - new)
    places = {name for name in PLACES if config.value(name)}
    return begun.override({name: config.value(name) for name in new | places})


def mark_old_model(out: Path) -> None:
    """Mark the model in a folder as the one to replace. It stays until the last stage begins."""
    manifest = out / MANIFEST
    if manifest.exists():
        with writing(out):
            write_file(out / _OLD_MODEL, digest(read_bytes(manifest)).encode())


def forget_old_model(out: Path) -> None:
    """Remove the mark after the model has been replaced."""
    (out / _OLD_MODEL).unlink(missing_ok=True)


def holds_old_model(out: Path) -> bool:
    """Return whether the model in a folder is still the one to replace."""
    mark, manifest = out / _OLD_MODEL, out / MANIFEST
    return mark.exists() and manifest.exists() and read_bytes(mark) == digest(read_bytes(manifest)).encode()


def forget_request(out: Path) -> None:
    """Remove the settings of a warm start that is complete, or hasn't begun."""
    (out / _REQUEST).unlink(missing_ok=True)


def _was_warm_start(out: Path, allowed: bool | Collection[str]) -> bool:
    if was_requested(out):
        return True
    if (out / CONFIG).exists() and not holds_old_model(out):
        with suppress(ModelError):  # opening the run reports it
            return bool(read_config(out, allow_custom_code=allowed).train.warm_start)
    return False
