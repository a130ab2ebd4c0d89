"""A trained model in use: what the command line, a notebook and a server call.

app = load("models/en-fr")
app("I am hungry.")              # a text for a text, a list for a list
"""

from pathlib import Path

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
from .errors import ModelError
from .folder.model_folder import TOKENIZER, load_model_folder
from .model.restore import restore
from .tasks.registry import app_of, task_of
from .tokenization.tokenizer import Tokenizers
from .training.choices.recipe import choose_device
from .training.memory import keep_freed_memory
from .training.warm_start.warm_start import train

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
