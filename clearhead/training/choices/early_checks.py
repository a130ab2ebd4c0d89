"""Checks of settings that need neither data nor a model, so that errors are reported before anything is read."""

from ...config import Config
from ...decode.registry import check_name, choose_engine
from ...tasks.base import check_best, check_patience
from ...tasks.detect import with_modality
from ...tasks.registry import TASKS, task_named, task_of
from .recipe import choose_device


class AnyFormat:
    """Every format that a model could be converted to. The real ones are only known when a model is used."""

    def __contains__(self, name: object) -> bool:
        return True


def check_early(config: Config) -> None:
    """Check the device, the decoding engine and the score to choose weights by, as far as the task is known.

    Raises:
        ConfigError: one of them is invalid.
    """
    choose_device(config.train.device)
    check_name(config.decode.engine)
    if config.train.task is not None:
        config = with_modality(config)
        check_search(task_of(config).settle(config))
    elif config.is_users("train.best"):
        scores = [name for task in TASKS for name in task_named(task).scores]
        check_best(config, scores, "any task")
        check_patience(config, [*dict.fromkeys(scores)])


def check_search(config: Config) -> None:
    """Check that the decoding engine can run the model with these settings, if the model generates text.

    Raises:
        ConfigError: it can't.
    """
    if config.model.topology != "encoder-only":
        choose_engine(config.model, config.decode, choose_device(config.train.device), AnyFormat())
