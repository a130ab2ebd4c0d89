"""Options for model folders, devices, decoding and data files, and opening the models and data that they name."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..config import DataConfig, settings
from ..config.messages import say
from ..errors import ConfigError, ModelError
from .parser import Options, Parser, UsageError
from .setting_options import add_settings, given_settings

if TYPE_CHECKING:
    from ..api import App

SEARCH = [name for name in settings() if name.startswith("decode.")]
WATCHED = [
    name for name in SEARCH if name not in ("decode.unknown", "decode.engine", "decode.precision")
]  # recording needs the torch engine
_SHORT = {"train.device": ["--device"], "train.threads": ["--threads"]}
_SHORT |= {name: [f"--{name.split('.')[1].replace('_', '-')}"] for name in SEARCH}  # --n-best for --decode.n_best
_COMMON = {
    "train.device", "decode.beam", "decode.n_best", "decode.max_len", "decode.sample", "decode.temperature",
    "decode.top_p", "decode.seed", "decode.engine", "decode.precision",
}  # fmt: skip
NO_FOLDER = "name a folder that `clearhead train` has written, or demo, before options that take several values"
FILES = "a TSV, CSV, JSON or text file, a folder of texts, images or audio, two aligned files, or - for stdin"
READING = {
    "data.source_column": ["--source-column", "--text"],
    "data.target_column": ["--target-column", "--label"],
    "data.separator": ["--separator"],
    "data.quoting": [],
    "data.reverse": ["--reverse"],
}


def add_model_options(parser: Parser, search: Sequence[str] | None = None, **more: Any) -> None:
    """Add the model folder argument and the options of `add_search_options`.

    Args:
        search: dotted names of the search settings to offer; see `add_search_options`.
        more: other arguments of `add_search_options`.
    """
    parser.add_argument("folder", nargs="?", metavar="DIR", help="model folder")
    add_search_options(parser, search, **more)


def add_search_options(
    parser: Parser,
    search: Sequence[str] | None = None,
    helps: Mapping[str, str] | None = None,
    *,
    several_adapters: bool = False,
) -> None:
    """Add the options for the device, the search, adapters and trust.

    Args:
        search: dotted names of the search settings to offer (default: all but decode.unknown, which only `generate`
            uses).
        helps: help texts that replace those of the settings.
        several_adapters: True if `--adapter` can be given several times, each for all models.
    """
    if search is None:
        search = [name for name in SEARCH if name != "decode.unknown"]  # only for `generate`
    names = ["train.device", "train.threads", *search]
    rare = set(names) - _COMMON
    add_settings(parser, names, _SHORT, rare=rare, helps=helps, show_defaults=False)
    text = "read names of an imported model's special tokens in texts, such as <|im_start|>, as tokens"
    parser.add_flag("--special-tokens", parser.rare(text))
    if several_adapters:
        text = "serve the model also with this adapter, as MODEL+ADAPTER; NAME=DIR names it; can be repeated"
        parser.add_repeatable("--adapter", "DIR", text)
    else:
        add_adapter(parser)
    add_consent(parser)


def add_adapter(parser: Parser) -> None:
    """Add `--adapter`."""
    parser.add_value("--adapter", "DIR", parser.rare("adapter of the model, from `clearhead train --adapter lora`"))


def add_consent(parser: Parser) -> None:
    """Add `--allow-custom-code`."""
    text = "import custom classes named in the model folder; use only with folders you trust"
    parser.add_flag("--allow-custom-code", parser.rare(text))


def add_greedy(parser: Parser) -> None:
    """Add `--greedy`, for models that sample by default."""
    parser.add_flag("--greedy", "always take the most likely token instead of sampling")


def apply_greedy(options: Options) -> None:
    """Translate `--greedy` into search settings. Raise UsageError if those are given too."""
    if not options.greedy:
        return
    given = vars(options)
    if "decode.sample" in given or "decode.beam" in given:
        raise UsageError("--greedy can't be combined with --sample or --beam", fix="use one of them")
    given |= {"decode.sample": False, "decode.beam": 1}


def open_model(options: Options, *verbs: str, one_answer: bool) -> tuple[Any, dict[str, Any]]:
    """Return the app of the folder in the options, without weights yet, and the search settings to pass to its methods.

    Args:
        verbs: verbs of the accepted tasks (default: all tasks).
        one_answer: search for one answer, regardless of the model's own `n_best`.

    Raises:
        UsageError: no folder is given.
        ModelError: the model has a different task.
    """
    apps, decode = open_models([options.folder] if options.folder else [], options, one_answer=one_answer)
    if verbs:
        expect_task(apps[0], *verbs)
    return apps[0], decode


def open_models(folders: Sequence[str], options: Options, *, one_answer: bool) -> tuple[list["App"], dict[str, Any]]:
    """Open several model folders for the same search, like `open_model`.

    Args:
        folders: the model folders, at least one.
        options: the parsed options, with those of `add_search_options`.
        one_answer: search for one answer, regardless of a model's own `n_best`.

    Raises:
        UsageError: no folder is given.
        ConfigError: a search setting is invalid for one of the models, or has no effect.
    """
    if not folders:
        raise UsageError("no model folder is given", fix=NO_FOLDER)
    given = given_settings(options)
    asked = {name.split(".")[1]: value for name, value in given.items() if name.startswith("decode.")}
    apps, decode = [], asked
    for folder in folders:
        app = load_app(folder, options, options.adapter)
        with _named(folder, folders):
            decode = {"n_best": 1, **asked} if one_answer else asked
            search = app.decode_config(**decode)
        apps.append(app)
    return apps, {name: getattr(search, name) for name in decode}


def load_app(folder: str, options: Options, adapter: str | None = None) -> "App":
    """Open a model folder with the options for the device and for trust.

    Args:
        folder: the model folder.
        options: the parsed options; the device, the threads, special tokens and consent to custom code are taken from
            them.
        adapter: the folder of an adapter to merge (default: none).
    """
    from ..api import load

    given = given_settings(options)
    return load(
        folder,
        device=given.get("train.device", "auto"),
        threads=given.get("train.threads"),
        allow_custom_code=options.allow_custom_code,
        specials=options.special_tokens,
        adapter=adapter,
    )


def expect_task(app: "App", *verbs: str) -> None:
    """Raise ModelError unless the model has the task of one of the verbs."""
    from ..tasks.base import example_of

    if app.task.verb not in verbs:
        what = f"{app.path} is a model for `{app.task.verb}`"
        expected = f"a model for {' or '.join(f'`{verb}`' for verb in verbs)}"
        fix = f"use it with: {example_of(app.task, str(app.path), app.config)}"
        raise ModelError(what, expected=expected, fix=fix, name=str(app.path), value=app.task.verb)


@contextmanager
def _named(folder: str, folders: Sequence[str]) -> Iterator[None]:
    """Prefix a ConfigError with the folder if there are several folders."""
    try:
        yield
    except ConfigError as error:
        if len(folders) == 1:
            raise
        raise error.within(folder) from error


# --- data files


def add_reading_options(parser: Parser) -> None:
    """Add the options that control how data files are read. They default to the settings used in training."""
    add_settings(parser, READING, READING, show_defaults=False)


def read_as_trained(
    apps: "Sequence[App]", files: Sequence[str], options: Options, references: Sequence[str] = ()
) -> Any:
    """Read files with the settings that the models were trained with, unless options override them.

    Args:
        apps: the models, which must have the same task and columns.
        files: the data, as paths.
        options: the parsed options, with those of `add_reading_options`.
        references: files with additional references for the same sources.

    Raises:
        ConfigError: the models have different tasks, or were trained on different columns.
    """
    from ..data.forms import PairForm
    from ..readers.references import read_with_references

    given = {name: value for name, value in given_settings(options).items() if name in READING}
    first = apps[0]
    configs = [app.config.override(given, source="the command line") for app in apps]
    for app, config in zip(apps, configs):
        _expect_same(first, app, configs[0].data, config.data)
    data, defaults = configs[0].data, DataConfig()
    kept = [name for name in READING if name not in given and _value(data, name) != _value(defaults, name)]
    if kept:
        settings = ", ".join(f"{name}={_value(data, name)}" for name in kept)
        say(f"reading the data as in the training of {first.path}: {settings} (override with --{kept[0]}=...)")
    form = first.task.form
    if not references:
        return form.read(files, data)
    if not isinstance(form, PairForm) or form.roles.labels:
        what = f"--references doesn't apply to a model for `{first.task.verb}`"
        raise ConfigError(what, fix="leave it out", name="--references")
    return read_with_references(files, references, data, form.roles, own_separator="data.separator" in given)


def _expect_same(first: "App", other: "App", data: DataConfig, its_data: DataConfig) -> None:
    """Raise ConfigError unless two models have the same task and read the same columns."""
    if type(other.task) is not type(first.task):
        what = f"{first.path} is a model for `{first.task.verb}`, and {other.path} for `{other.task.verb}`"
        raise ConfigError(what, expected="models for one task", name=str(other.path), value=other.task.verb)
    for name in READING:
        if _value(its_data, name) != _value(data, name):
            one, its = _value(data, name), _value(its_data, name)
            what = f"{first.path} was trained with {name}={one}, and {other.path} with {name}={its}"
            expected, fix = "models trained on the same columns", f"set --{name}=... for all of them"
            raise ConfigError(what, expected=expected, fix=fix, name=name, value=its)


def _value(data: DataConfig, name: str) -> str:
    value = getattr(data, name.split(".")[1])
    return str(value).lower() if isinstance(value, bool) else repr(value)
