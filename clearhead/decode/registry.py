"""Registry of decoding engines. To add one, write its class and list it in `ENGINES`.

engine = open_engine(as_handle(model, config.model), config.decode)
"""

import importlib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from ..config import DecodeConfig, ModelConfig
from ..errors import ConfigError, unknown
from .engine import Engine, check_support, unsupported
from .model_handle import ModelHandle

AUTO = "auto"
IN_MEMORY = "torch"  # runs the torch module itself, so it's the engine for training, recording and ablation

# The "module:Class" of each engine, by name and supported topology, fastest in fp32 first. It's imported when needed.
# `auto` picks the fastest engine that can run the model, has the answers of torch with these settings, and is ready.
ENGINES: dict[str, dict[str, str]] = {
    "loops": {
        "encoder-decoder": "clearhead.decode.engines.loops.machine_code:LoopsOpener",
        "decoder-only": "clearhead.decode.engines.loops.machine_code:LoopsOpener",
    },
    "ct2": {
        "encoder-decoder": "clearhead.decode.engines.ct2_engine:Ct2Engine",
        "decoder-only": "clearhead.decode.engines.ct2_engine:Ct2Engine",
    },
    "torch": {
        "encoder-decoder": "clearhead.decode.engines.torch_engine:TorchEngine",
        "decoder-only": "clearhead.decode.engines.torch_engine:TextEngine",
    },
    "packed": {
        "encoder-decoder": "clearhead.decode.engines.packed_engine:PackedEngine",
        "decoder-only": "clearhead.decode.engines.packed_engine:PackedTextEngine",
    },
}


@dataclass(frozen=True)
class EngineChoice:
    """The engine for a model and its decoding settings.

    Attributes:
        name: its name in `ENGINES`.
        passed_over: the faster engines that `auto` didn't choose, with the reasons.
        waiting: those of them that could run this search after a long first use.
    """

    name: str
    passed_over: Mapping[str, str]
    waiting: tuple[str, ...] = ()


def open_engine(model: ModelHandle, decode: DecodeConfig) -> Engine:
    """Return an engine ready to decode with the model. A handle keeps its engines, so each is opened once.

    Args:
        model: a handle; `as_handle` makes one from a torch module.
        decode: the decoding settings. `decode.engine` is a key of `ENGINES`, or "auto" for the fastest engine that has
            the answers of torch and is ready.

    Raises:
        ConfigError: the name is unknown, or the engine can't run the model or doesn't support a setting.
    """
    choice = choice_for(model, decode)
    _prepare_later(choice, model.config)
    name, key = choice.name, f"{choice.name} {decode.precision}"
    opened: Engine | None = model.engines.get(key)
    if opened is None:
        engine = _engine_class(name, model.config)
        opened = engine.open(model) if decode.precision == "fp32" else engine.open(model, decode.precision)
        model.engines[key] = opened  # only now, since reading the weights closes the engines
    return opened


def with_one_engine(model: ModelHandle, decode: DecodeConfig) -> DecodeConfig:
    """Return the settings with the name of the engine that `open_engine` chooses now, for answers that belong together.

    If a faster one has to be prepared, another process does that for later answers.
    """
    choice = choice_for(model, decode)
    _prepare_later(choice, model.config)
    return replace(decode, engine=choice.name)


def prepare(model: ModelHandle, decode: DecodeConfig) -> None:
    """Open the fastest engine that `auto` passes over for its long first use, so that it's chosen from now on."""
    for name in choice_for(model, decode).waiting[:1]:
        open_engine(model, replace(decode, engine=name))


def prepare_later(config: ModelConfig, decode: DecodeConfig, device: str) -> None:
    """Let another process prepare the fastest engine for a model that doesn't exist yet, if that takes long.

    Args:
        config: the architecture of the model.
        decode: settings of its first answers. Nothing is prepared unless the engine is "auto".
        device: a torch device, such as "cpu" or "cuda".
    """
    if decode.engine == AUTO and usable_engines(config, device):
        _prepare_later(_choose(config, decode, device, (), lambda _: False), config)


def is_preparing(model: ModelHandle) -> bool:
    """Return whether another process prepares an engine that will replace the open one, which is always in fp32."""
    faster = list(takewhile(lambda name: f"{name} fp32" not in model.engines, ENGINES))
    if len(faster) == len(ENGINES):
        return False
    engines = [_engine_class(name, model.config) for name in faster if model.config.topology in ENGINES[name]]
    return any(it.is_preparing() for it in engines if hasattr(it, "is_preparing"))


def prepare_engines() -> None:
    """Do what the first use of an engine would do on this machine, for any model.

    Raises:
        ConfigError: an engine can't be prepared here.
    """
    for engine in {ENGINES[name][topology] for name in ENGINES for topology in ENGINES[name]}:
        found = _imported(engine)
        if hasattr(found, "prepare"):
            found.prepare()


def _prepare_later(choice: EngineChoice, config: ModelConfig) -> None:
    for name in choice.waiting[:1]:
        engine = _engine_class(name, config)
        if hasattr(engine, "prepare_later"):
            engine.prepare_later()


def choice_for(model: ModelHandle, decode: DecodeConfig) -> EngineChoice:
    """Return the choice that `open_engine` makes, without loading any weights."""
    if decode.engine == AUTO and decode.precision == "fp32" and model.needs_module:
        decode = replace(decode, engine=IN_MEMORY)
    return _choose(model.config, decode, model.device, model.formats, model.is_converted, model.engines)


def choose_engine(config: ModelConfig, decode: DecodeConfig, device: str = "cpu", formats: Container[str] = ()) -> str:
    """Return the name of the engine for a model that isn't converted to any format yet.

    Args:
        formats: formats that the model can be converted to.
    """
    return _choose(config, decode, device, formats, lambda _: False).name


def _choose(
    config: ModelConfig,
    decode: DecodeConfig,
    device: str,
    formats: Container[str],
    is_converted: Callable[[str], bool],
    opened: Container[str] = (),
) -> EngineChoice:
    """Return the choice. Engines that are open, by name and precision, have no obstacle and are converted."""
    check_name(decode.engine)
    if decode.engine != AUTO:
        return EngineChoice(_checked(config, decode, device, formats), {})
    passed_over: dict[str, str] = {}
    waiting: list[str] = []
    for name in _fastest_first(decode.precision, opened):
        is_open = f"{name} {decode.precision}" in opened
        reason = "" if is_open else _obstacle(config, name, device, formats)
        if not (reason := reason or _difference(_engine_class(name, config), decode)):
            reason = _wait(_engine_class(name, config), decode, (lambda _: True) if is_open else is_converted)
            if not reason:
                return EngineChoice(name, passed_over, tuple(waiting))
            waiting.append(name)
        passed_over[name] = reason
    if not waiting:
        raise _no_engine(config, decode, device, formats)
    return EngineChoice(waiting[0], dict(takewhile(lambda it: it[0] != waiting[0], passed_over.items())))


def _fastest_first(precision: str, opened: Container[str]) -> list[str]:
    """Return the names of all engines. In other precisions than fp32, all others are faster than torch.

    Engines round differently in these precisions, so one that's open stays the first choice.
    """
    if precision == "fp32":
        return list(ENGINES)
    return sorted(ENGINES, key=lambda name: (f"{name} {precision}" not in opened, name == IN_MEMORY))


def _difference(engine: Any, decode: DecodeConfig) -> str:
    """Return the setting with which an engine can't be chosen automatically, as a reason, or ""."""
    if decode.precision not in _precisions(engine):
        return f"it can't compute in {decode.precision}"
    if not _is_batch(engine):
        return ""
    if name := unsupported(engine.settings, decode):
        return f"it doesn't support decode.{name}={getattr(decode, name)!r}"
    if name := unsupported(getattr(engine, "exact", engine.settings), decode):
        return f"some of its answers differ with decode.{name}={getattr(decode, name)!r}"
    return ""


def _wait(engine: Any, decode: DecodeConfig, is_converted: Callable[[str], bool]) -> str:
    """Return what an engine has to do first, if that takes long, or ""."""
    return engine.waits(decode, is_converted) if hasattr(engine, "waits") else ""


def _no_engine(config: ModelConfig, decode: DecodeConfig, device: str, formats: Container[str]) -> ConfigError:
    usable = [_engine_class(name, config) for name in usable_engines(config, device, formats)]
    if usable and not any(decode.precision in _precisions(engine) for engine in usable):
        return _precision_error(decode, "no decoding engine for this model here", "decode.precision='fp32'")
    what = f"no decoding engine supports model.topology={config.topology!r} with these settings"
    return ConfigError(what, name="decode.engine")


def check_name(name: str) -> None:
    """Raise ConfigError if there's no such engine."""
    if name not in (known := (AUTO, *ENGINES)):
        raise unknown(f"decode.engine={name!r} isn't a decoding engine", name, known, "decode.engine")


def usable_engines(config: ModelConfig, device: str = "cpu", formats: Container[str] = ()) -> list[str]:
    """Return the names of the engines that can run the model, in registry order.

    Args:
        config: the architecture of the model.
        device: a torch device, such as "cpu" or "cuda".
        formats: formats that the model can be converted to (default: none, as for a model in memory).
    """
    return [name for name in ENGINES if not _obstacle(config, name, device, formats)]


def precisions_of(name: str, config: ModelConfig) -> tuple[str, ...]:
    """Return the precisions that an engine computes in, fp32 first."""
    return _precisions(_engine_class(name, config))


def step_engines(config: ModelConfig, device: str = "cpu") -> list[str]:
    """Return the names of the step engines that can run a model in memory, in registry order."""
    return [name for name in usable_engines(config, device) if not _is_batch(_engine_class(name, config))]


def float32_engines(config: ModelConfig) -> list[str]:
    """Return the names of the engines that can run a model and compute in float32, whatever precision it sets."""
    return [name for name in usable_engines(config) if getattr(_engine_class(name, config), "only_float32", False)]


def _checked(config: ModelConfig, decode: DecodeConfig, device: str, formats: Container[str]) -> str:
    """Return the named engine. Raise ConfigError if it can't run the model with these settings."""
    name = decode.engine
    if obstacle := _obstacle(config, name, device, formats):
        what = f"decode.engine={name!r} can't run this model: {obstacle}"
        fix = "set decode.engine='auto' to use an engine that can"
        raise ConfigError(what, fix=fix, name="decode.engine", value=name)
    engine = _engine_class(name, config)
    if decode.precision not in (known := _precisions(engine)):
        raise _precision_error(decode, f"decode.engine={name!r}", ", ".join(known))
    if _is_batch(engine):
        check_support(name, engine.settings, decode)
    return name


def _obstacle(config: ModelConfig, name: str, device: str, formats: Container[str]) -> str:
    """Return the reason why an engine can't run the model, or "" if it can."""
    if config.topology not in ENGINES[name]:
        return f"it doesn't support model.topology={config.topology!r}"
    return _engine_class(name, config).obstacle(config, device, formats)


def _precisions(engine: Any) -> tuple[str, ...]:
    """Return the precisions that an engine computes in."""
    return getattr(engine, "precisions", ("fp32",))


def _precision_error(decode: DecodeConfig, who: str, expected: str) -> ConfigError:
    """Return the error for a precision that an engine, or every engine, lacks."""
    what = f"{who} can't compute in decode.precision={decode.precision!r}"
    fix = "leave out `decode.precision`, or choose another engine"
    return ConfigError(what, expected=expected, fix=fix, name="decode.precision", value=decode.precision)


def _is_batch(engine: Any) -> bool:
    return hasattr(engine, "settings")


def _engine_class(name: str, config: ModelConfig) -> Any:
    """Return the class of an engine: an `EngineClass`, with `settings` if it's a batch engine."""
    return _imported(ENGINES[name][config.topology])


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
