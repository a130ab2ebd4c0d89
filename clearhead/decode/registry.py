"""Registry of decoding engines. To add one, write its class and list it in `ENGINES`.

engine = open_engine(as_handle(model, config.model), "auto")
"""

import importlib

from ..config import ModelConfig
from ..errors import ConfigError, nearest
from .engine import Engine, EngineClass
from .model_handle import ModelHandle

AUTO = "auto"

# The "module:Class" of each engine, by name and supported topology. It's imported when needed. `auto` picks the first
# engine that can run the model.
ENGINES: dict[str, dict[str, str]] = {
    "torch": {
        "encoder-decoder": "clearhead.decode.engines.torch_engine:TorchEngine",
        "decoder-only": "clearhead.decode.engines.text_engine:TextEngine",
    },
}


def open_engine(model: ModelHandle, name: str = AUTO) -> Engine:
    """Return an engine ready to decode with the model.

    Args:
        model: a handle; `as_handle` makes one from a torch module.
        name: a key of `ENGINES`, or "auto" for the first one that can run the model.

    Raises:
        ConfigError: the name is unknown, or the engine can't run the model.
    """
    return _engine_class(choose_engine(model.config, name, model.device), model.config).open(model)


def choose_engine(config: ModelConfig, name: str = AUTO, device: str = "cpu") -> str:
    """Return the name of the engine that `open_engine` would open, without loading any weights."""
    if name == AUTO:
        usable = usable_engines(config, device)
        if not usable:
            raise ConfigError(f"no decoding engine supports model.topology={config.topology!r}", name="decode.engine")
        return usable[0]
    if name not in ENGINES:
        known = [AUTO, *ENGINES]
        close = nearest(name, known)
        raise ConfigError(
            f"decode.engine={name!r} isn't a decoding engine",
            expected=", ".join(known),
            fix=f"did you mean {close!r}?" if close else "",
            name="decode.engine",
            value=name,
        )
    if obstacle := _obstacle(config, name, device):
        raise ConfigError(
            f"decode.engine={name!r} can't run this model: {obstacle}",
            fix="set decode.engine='auto' to use an engine that can",
            name="decode.engine",
            value=name,
        )
    return name


def usable_engines(config: ModelConfig, device: str = "cpu") -> list[str]:
    """Return the names of the engines that can run the model, in registry order."""
    return [name for name in ENGINES if not _obstacle(config, name, device)]


def step_engines(config: ModelConfig, device: str = "cpu") -> list[str]:
    """Return the names of the step engines that can run the model, in registry order."""
    return [name for name in usable_engines(config, device) if hasattr(_engine_class(name, config), "prefill")]


def _obstacle(config: ModelConfig, name: str, device: str) -> str:
    """Return the reason why an engine can't run the model, or "" if it can."""
    if config.topology not in ENGINES[name]:
        return f"it doesn't support model.topology={config.topology!r}"
    return _engine_class(name, config).obstacle(config, device)


def _engine_class(name: str, config: ModelConfig) -> type[EngineClass]:
    module, _, attribute = ENGINES[name][config.topology].partition(":")
    found: type[EngineClass] = getattr(importlib.import_module(module), attribute)
    return found
