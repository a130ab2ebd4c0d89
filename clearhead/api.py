"""Train models, and load them for use.

clearhead.train(clearhead.Config().override({"data.train": ("pairs.tsv",)}), "models/en-fr")
app = clearhead.load("models/en-fr")
app("I am hungry.")              # returns a str for one text, a list for several
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from .apps.inputs import describe_value
from .config import Config, messages
from .config.values import is_text
from .errors import ConfigError, ModelError
from .exchange.ctranslate2.model_cache import CONVERTERS
from .folder.adapters import Adapter, expect_adapter, weights_digest
from .folder.manifest import RESTORE
from .folder.model_folder import model_path, read_config, read_settings
from .loading import LoadedModel
from .tasks.registry import task_of

if TYPE_CHECKING:
    from .apps.answerer import Answerer
    from .apps.answers import Result
    from .apps.app import App
    from .apps.classifier import Classifier
    from .apps.evaluation import Evaluation
    from .apps.language_model import LanguageModel
    from .apps.translator import Summarizer, Translator

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

_MODULES = {
    "Answerer": "answerer",
    "App": "app",
    "Classifier": "classifier",
    "Evaluation": "evaluation",
    "LanguageModel": "language_model",
    "Result": "answers",
    "Summarizer": "translator",
    "Translator": "translator",
    "Embedder": "embedder",
    "Filler": "filler",
    "Speaker": "translator",
    "Transcriber": "translator",
}  # imported on first use, since a model needs one of them
_APPS = {  # of each task; a custom task has the general App
    "answer": "Answerer",
    "classify": "Classifier",
    "embed": "Embedder",
    "fill": "Filler",
    "generate": "LanguageModel",
    "speak": "Speaker",
    "summarize": "Summarizer",
    "transcribe": "Transcriber",
    "translate": "Translator",
}
_LONGEST_NAME = 200  # of a file in a model folder, with the folders between them
_ACCELERATORS = ("nvidia*", "kfd", "dxg")  # device files of CUDA, ROCm and WSL on Linux


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".apps.{_MODULES[name]}", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def train(
    config: Config,
    out: str | Path = "runs/model",
    *,
    data: Any = None,
    resume: bool = False,
    replace: bool = False,
    say: Callable[[str], None] = messages.say,
    progress: bool = True,
    on_step: Callable[[dict[str, Any]], object] | None = None,
    on_eval: Callable[[dict[str, Any]], object] | None = None,
    began: float | None = None,
    allow_custom_code: bool = False,
) -> Path:
    """Train a model, write it to a folder and return the folder. With `train.warm_start`, this takes several runs.

    Args:
        config: all settings. `data.train` names the training files.
        out: the model folder to write.
        data: training data that replaces `data.train`: a path or several paths, a list of pairs or dicts, or a pandas
            or polars DataFrame. Images and audio in pairs can be paths, uint8 arrays, Pillow images, or tuples of
            samples and their rate.
        resume: continue the run in `out` from its last checkpoint.
        replace: replace the run in `out`.
        say: receives all messages, the scores of evaluations included; nothing is printed then (default: print them
            to stderr).
        progress: print the steps to stderr, too. False prints messages alone.
        on_step: called after each update with {"step", "epoch", "loss", "lr", "grad_norm", "tokens", "seconds"}.
        on_eval: called after each evaluation with {"step", "epoch", "seconds"} and the scores, such as "loss". With a
            warm start, both callbacks are called only in the last stage. If they raise an exception, training ends.
        began: the `time.monotonic` value at which the time budget starts (default: now).
        allow_custom_code: import custom classes named in the folder of `train.init_from`, or of the run to resume. If
            False, only those that `config` names are imported.

    Raises:
        ConfigError, DataError, TrainingError: the settings, the data or the folder can't be used.
        ModelError: a folder is damaged, or names custom code that isn't allowed.
        StoppedError: a signal stopped the run. It can be resumed.
    """
    if not isinstance(config, Config):
        what = f"config is {describe_value(config)}"
        raise ConfigError(what, expected="a clearhead.Config", name="config", value=config)
    out = _checked_path(out, "out")
    flags = {"resume": resume, "replace": replace, "progress": progress, "allow_custom_code": allow_custom_code}
    _check_options(flags, {"say": say, "on_step": on_step, "on_eval": on_eval})
    from .exchange.huggingface import lost_export
    from .training import run, warm_start
    from .training.distributed.processes import joined
    from .training.open_run import RunOptions

    with joined() as processes, _files(data) as files:
        options = RunOptions(
            resume, replace, say, on_step, on_eval, began, allow_custom_code, progress=progress, notes=lost_export
        )
        options = options.in_one_of(processes)
        if files:
            config = config.assign({"data.train": files}, "user")
        start = warm_start.train if warm_start.is_warm_start(config, out, options) else run.train
        processes.check_supports(config, warm_start=start is warm_start.train)
        return start(config, out, options)


def _check_options(flags: dict[str, Any], calls: dict[str, Any]) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is {describe_value(value)}", expected="True or False", name=name, value=value)
    for name, value in calls.items():
        if not (callable(value) or (value is None and name != "say")):
            raise ConfigError(f"{name} is {describe_value(value)}", expected="a function", name=name, value=value)


@contextmanager
def _files(data: Any) -> Iterator[tuple[str, ...]]:
    """Yield the paths of `data`, or () for None. What is in memory is in temporary files inside the `with` block."""
    if data is None:
        yield ()
        return
    from .readers.media.media_in_memory import with_whole_paths, write_media
    from .readers.source import IN_MEMORY, Rows, as_paths

    with TemporaryDirectory() as folder:
        if (manifest := write_media(data, Path(folder))) is not None:
            yield (str(manifest),)
            return
        paths = as_paths(data)
        if paths and isinstance(paths[0], Rows):
            path = Path(folder) / IN_MEMORY
            path.write_bytes(with_whole_paths(paths[0]))
            paths = [path]
        yield tuple(map(str, paths))


def load(
    path: str | Path,
    *,
    device: str = "auto",
    threads: int | None = None,
    allow_custom_code: bool = False,
    specials: bool = False,
    adapter: str | Path | None = None,
) -> "App":
    """Load a model folder and return the app for its task. The weights are read on first use.

    Args:
        path: the model folder. The folder of an adapter can be given too: it names its base. "demo" is the translator
            in the package, unless there's a folder of that name.
        device: auto, cpu, cuda or cuda:1.
        threads: number of CPU threads for torch (default: torch's own setting).
        allow_custom_code: import custom classes (`package.module:Class`) named in the folder. Use this only with
            folders you trust.
        specials: read the names of an imported model's special tokens in a text, such as `<|im_start|>`, as these
            tokens (default: as plain text). Use this only for texts you trust.
        adapter: folder of an adapter that was trained on this model. It's merged into the weights.

    Raises:
        ModelError: the folder is missing, damaged or unfinished, its settings don't fit its task, it names custom
            code that isn't allowed, or the adapter belongs to other weights.
        ConfigError: an argument has the wrong type, or the device can't be used.
    """
    folder, base, converters = model_path(_checked_path(path, "path")), None, dict(CONVERTERS)
    if adapter is not None:
        folder, base = _checked_path(adapter, "adapter"), folder
        own = folder / _checked_adapter(folder, base).base
        if not (own.exists() and own.samefile(base)):  # converters read the adapter's folder alone, and so its own base
            converters = {}
    _check_options({"allow_custom_code": allow_custom_code, "specials": specials}, {})
    stored, tokenizer = read_settings(folder, allow_custom_code=allow_custom_code)
    here = Config().override({"train.threads": threads}, source="the call").train  # checks the type and the range
    config = stored.assign({"train.device": _device(device), "train.threads": here.threads}, "machine")
    task = task_of(config)
    for name, value in task.required.items():
        if config.value(name) != value:
            what, expected = f"{path} has {name}={config.value(name)!r}", f"{value!r} for a model that can {task.verb}"
            raise ModelError(what, expected=expected, name=name, value=config.value(name))
    n_labels = len(config.data.labels)
    if task.has_labels and n_labels != config.model.n_classes:
        what = f"{path} has {n_labels:,} labels, but model.n_classes={config.model.n_classes:,}"
        raise ModelError(what, expected="a label for each class", fix=RESTORE, name="data.labels", value=n_labels)
    loaded = LoadedModel(folder, config, tokenizer, stored=stored, converters=converters, specials=specials, base=base)
    return __getattr__(_APPS.get(config.train.task or "translate", "App"))(loaded)


def _checked_adapter(folder: Path, base: Path) -> Adapter:
    """Return the adapter in a folder. Raise ModelError unless it was trained on the weights in `base`."""
    read_config(folder, allow_custom_code=True)  # imports nothing, and raises errors if it's no folder of ours
    found = expect_adapter(folder)
    read_config(found.base_folder(folder, base), allow_custom_code=True)
    found.check_base(folder, base, weights_digest(base) or "none")
    return found


def _checked_path(path: object, name: str) -> Path:
    if not isinstance(path, str | Path) or not str(path).strip() or not is_text(str(path)):
        raise ConfigError(
            f"{name}={path!r} isn't the path of a model folder", expected="a str or a Path", name=name, value=path
        )
    try:
        (Path(path) / ("x" * _LONGEST_NAME)).exists()
    except PermissionError:
        pass  # the first to read or write there says it better
    except OSError as error:
        what = f"{name} is a path of {len(str(path)):,} characters: {error.strerror}"
        raise ConfigError(what, expected="a shorter path", name=name, value=path) from error
    return Path(path)


def _device(asked: object) -> str:
    """Resolve "auto" to a device. Torch is imported only if the machine may have an accelerator."""
    if not isinstance(asked, str):
        raise ConfigError(f"device={asked!r} isn't a device", expected="auto, cpu or cuda", name="device", value=asked)
    if asked == "cpu" or (asked == "auto" and _has_no_accelerator()):
        return "cpu"
    from .training.choices.hyperparameters import choose_device

    return choose_device(asked)


def _has_no_accelerator() -> bool:
    return sys.platform == "linux" and not any(any(Path("/dev").glob(it)) for it in _ACCELERATORS)
