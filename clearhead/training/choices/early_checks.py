"""Checks of settings that need neither data nor a model, so that errors are reported before anything is read."""

from ...config import TASKS, Config, settings
from ...config.values import spell
from ...decode.registry import check_name, choose_engine
from ...errors import ConfigError
from ...tasks.detect import with_modality
from ...tasks.registry import task_named, task_of
from ...tasks.settling import check_best, check_patience
from ..compilation import check_compiler
from .hyperparameters import choose_device


class AnyFormat:
    """Every format that a model could be converted to. The real ones are only known when a model is used."""

    def __contains__(self, name: object) -> bool:
        return True


def check_early(config: Config) -> None:
    """Check special tokens, device, compiler, decoding engine and the score to choose weights by, as far as possible.

    Raises:
        ConfigError: one of them is invalid.
    """
    _check_special(config)
    device = choose_device(config.train.device)
    if config.train.compile:
        check_compiler(device)
    check_name(config.decode.engine)
    if config.train.task is not None:
        config = with_modality(config)
        check_search(task_of(config).settle(config))
    elif config.is_users("train.best"):
        scores = [name for task in TASKS for name in task_named(task).scores]
        check_best(config, scores, "any task")
        check_patience(config, [*dict.fromkeys(scores)])


def _check_special(config: Config) -> None:
    """Raise ConfigError if the user chose the id of a special token in a vocabulary that training is about to learn."""
    if config.train.init_from:
        return
    for name, it in settings().items():
        value, default = config.value(name), it.default
        if it.fact and config.is_users(name) and value != default:
            raise ConfigError(
                f"{name}={spell(value)} doesn't fit a new vocabulary, whose special tokens have fixed ids",
                expected=f"{spell(default)}, or train.init_from with a model that has this id",
                fix=f"leave out {name}",
                name=name,
                value=value,
            )


def check_search(config: Config) -> None:
    """Check that the decoding engine can run the model with these settings, if the model generates text.

    Raises:
        ConfigError: it can't.
    """
    if config.model.topology != "encoder-only":
        choose_engine(config.model, config.decode, choose_device(config.train.device), AnyFormat())
