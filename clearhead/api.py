"""A trained model in use: what the command line, a notebook and a server call.

app = load("models/en-fr")
app("I am hungry.")              # a text for a text, a list for a list
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .apps.answerer import Answerer
from .apps.answers import Result
from .apps.app import App
from .apps.classifier import Classifier
from .apps.evaluation import Evaluation
from .apps.language_model import LanguageModel
from .apps.summarizer import Summarizer
from .apps.translator import Translator
from .config import Config, messages
from .errors import ModelError
from .folder.model_folder import TOKENIZER, load_model_folder
from .model.restore import restore
from .tasks.registry import app_of, task_of
from .tokenization.tokenizer import Tokenizers
from .training.choices.recipe import choose_device
from .training.memory import keep_freed_memory

__all__ = [
    "Answerer",
    "App",
    "Classifier",
    "Evaluation",
    "LanguageModel",
    "Result",
    "Summarizer",
    "Translator",
    "load",
    "train",
]


def train(
    config: Config,
    out: str | Path = "runs/model",
    *,
    resume: bool = False,
    replace: bool = False,
    say: Callable[[str], None] = messages.say,
    on_step: Callable[[dict[str, Any]], object] | None = None,
    on_eval: Callable[[dict[str, Any]], object] | None = None,
    began: float | None = None,
) -> Path:
    """Train a model into the folder `out`, and return the folder.

    Args:
        config: all settings; `data.train` names the files to learn from.
        out: the model folder to make.
        resume: continue the run in `out` after its last checkpoint.
        replace: replace the run in `out`.
        say: receives messages for the user (default: print them to stderr).
        on_step: called after each update with {"step", "epoch", "loss", "lr", "grad_norm", "tokens", "seconds"}.
        on_eval: called after each evaluation with {"step", "epoch", "seconds"} and the scores, such as "loss". With a
            warm start, both hear of the last stage only. An exception that they raise ends training.
        began: the time, by `time.monotonic`, from which a budget counts (default: now).

    Raises:
        ConfigError, DataError, TrainingError: a setting, the data or the folder doesn't allow it.
        StoppedError: a signal stopped the run. It can be resumed.
    """
    from .training import run
    from .training.warm_start import request, stages

    options = run.RunOptions(resume, replace, say, on_step, on_eval, began)
    start = stages.train if request.is_warm_start(config, out, options) else run.train
    return start(config, out, options)


def load(path: str | Path, *, device: str = "auto", threads: int | None = None) -> App:
    """A model folder as an App; a ModelError where it is absent, damaged or not to be understood."""
    keep_freed_memory()
    folder = load_model_folder(Path(path))
    config = folder.config.assign({"train.device": choose_device(device)}, "machine")
    if threads is not None:
        config = config.assign({"train.threads": threads}, "user")
        torch.set_num_threads(threads)
    task = task_of(config)
    for name, value in task.required.items():
        if config.value(name) != value:
            raise ModelError(f"{path} has {name} = {config.value(name)}; one that learnt to {task.verb} has {value}")
    tokenizers = Tokenizers.from_json(folder.tokenizer, origin=str(folder.path / TOKENIZER))
    tokenizers.check_sizes(config.model, origin=str(folder.path / TOKENIZER))
    model: nn.Module = restore(config.model, folder.weights)
    model = model.to(config.train.device).eval()
    app: App = app_of(config)(folder.path, config, model, tokenizers, weights_digest=folder.weights_digest)
    return app
