"""What the engine of plain loops supports. Asking imports neither numba nor the loops."""

import importlib.util
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, ClassVar

from ....config import DecodeConfig, ModelConfig
from ....errors import ConfigError
from ...engine import cpu_obstacle, engine_threads
from ...model_handle import ModelHandle
from .machine_code import cache_obstacle, failure, is_compiled, is_preparing, prepare, prepare_later

if TYPE_CHECKING:
    from .loops_engine import LoopsEngine

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu")
POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "alibi")


class LoopsOpener:
    """Opens a `LoopsEngine`."""

    only_float32: ClassVar[bool] = True
    precisions: ClassVar[tuple[str, ...]] = ("fp32", "int8")

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        if found := cls.lacks() or cpu_obstacle(device):
            return found
        for setting, supported in (
            ("topology", config.topology != "encoder-only"),
            ("front", config.front == "tokens" or config.topology == "decoder-only"),
            ("copy", not config.copy),
            ("attention", config.attention == "softmax"),
            ("positions", config.positions in POSITIONS),
            ("feed_forward", config.feed_forward in ACTIVATIONS),
            ("norm", config.norm in ("layer", "rms")),
        ):
            if not supported:
                return f"it doesn't support model.{setting}={getattr(config, setting)!r}"
        return cache_obstacle()

    @classmethod
    def lacks(cls) -> str:
        """Return what isn't installed, or ""."""
        return "" if importlib.util.find_spec("numba") else "it needs numba: pip install numba"

    @classmethod
    def waits(cls, decode: DecodeConfig, is_converted: Callable[[str], bool]) -> str:
        if is_compiled():
            return ""
        return f"it can't be compiled here: {reason}" if (reason := failure()) else "it isn't compiled here yet"

    @classmethod
    def prepare(cls) -> None:
        """Compile it. Raise ConfigError if that's impossible here."""
        if reason := cls.lacks() or cache_obstacle():
            raise ConfigError(f"the engine loops can't be compiled: {reason}", name="decode.engine", value="loops")
        prepare()

    @classmethod
    def prepare_later(cls) -> None:
        """Let a process of low priority compile it."""
        prepare_later()

    @classmethod
    def is_preparing(cls) -> bool:
        """Return whether the process that `prepare_later` has started is compiling it."""
        return is_preparing()

    @classmethod
    def open(cls, model: ModelHandle, precision: str = "fp32") -> "LoopsEngine":
        """Return an engine for the model. It uses all cores, or OMP_NUM_THREADS."""
        from .loops_engine import LoopsEngine

        return LoopsEngine(model, engine_threads(), precision)
