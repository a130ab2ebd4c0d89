"""What the verbs that use a trained model have in common."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import Config, TrainConfig, settings
from ..errors import ConfigError, ModelError
from .parser import Options, Parser, UsageError, add_settings, given_settings

if TYPE_CHECKING:
    from ..api import App

_SHORT = {
    "train.device": ["--device"],
    "train.threads": ["--threads"],
}
SEARCH = [name for name in settings() if name.startswith("decode.")]
WATCHED = [name for name in SEARCH if name not in ("decode.unknown", "decode.engine")]  # always runs in torch's engine
# They are needed often: --beam for --decode.beam, --n-best for --decode.n_best.
_SHORT |= {name: [f"--{name.split('.')[1].replace('_', '-')}"] for name in SEARCH}


NO_FOLDER = "no model folder is given; expected one that `clearhead train` made, before options that take several words"


def add_model_options(
    parser: Parser, search: Sequence[str] | None = None, helps: Mapping[str, str] | None = None
) -> None:
    """The folder of the model, where it runs, and how it searches, by those of `search`, or what suits most."""
    parser.add_argument("folder", nargs="?", metavar="DIR", help="a model folder")
    add_search_options(parser, search, helps)


def add_search_options(
    parser: Parser, search: Sequence[str] | None = None, helps: Mapping[str, str] | None = None
) -> None:
    """Where a model runs, and how it searches; `helps` has other sentences for some of that."""
    if search is None:
        search = [name for name in SEARCH if name != "decode.unknown"]  # of a text that goes on alone
    add_settings(parser, ["train.device", "train.threads", *search], _SHORT, show_defaults=False, helps=helps)


def add_greedy(parser: Parser) -> None:
    """For models that draw their tokens, unless they are told otherwise."""
    parser.add_argument("--greedy", action="store_true", help="the likeliest token each time, instead of a drawn one")


def settle_greedy(options: Options) -> None:
    """Make settings of the search of it; a UsageError beside those."""
    if not options.greedy:
        return
    given = vars(options)
    if "decode.sample" in given or "decode.beam" in given:
        raise UsageError("--greedy beside --sample or --beam; expected one of them")
    given |= {"decode.sample": False, "decode.beam": 1}


def open_model(options: Options, *verbs: str, one_answer: bool) -> tuple[Any, dict[str, Any]]:
    """The model, and the settings of the search that were given, as `Translator.results` takes them.

    It is one that learnt for one of the `verbs`; others are a ModelError that names their own.

    `one_answer`: there is room for one, whatever `n_best` the model stores.
    """
    if options.folder is None:
        raise UsageError(NO_FOLDER)
    here, decode = check_options([options.folder], options, one_answer=one_answer)
    expect_task(options.folder, *verbs)
    (app,) = open_models([options.folder], here, decode)
    return app, decode


def expect_task(folder: str, *verbs: str) -> None:
    """A ModelError, before any weights are read, where the model of a folder did not learn for one of the verbs."""
    from ..folder.model_folder import read_config
    from ..tasks.registry import task_of

    task = task_of(read_config(Path(folder)))
    if task.verb not in verbs:
        wanted = " or ".join(f"`{verb}`" for verb in verbs)
        raise ModelError(
            f"{folder} is a model that learnt to {task.verb}; expected one for {wanted}. "
            f"What it can do: {task.example(folder)}"
        )


def open_models(folders: list[str], here: TrainConfig, decode: dict[str, Any]) -> list["App"]:
    """Several models on the same device and for the same search, as `check_options` gives both."""
    from ..api import load

    apps = [load(folder, device=here.device, threads=here.threads) for folder in folders]
    for folder, app in zip(folders, apps):
        with _of_several(folders, folder):
            app.decode_config(**decode)  # refuses what would change nothing
    return apps


def check_options(
    folders: list[str], options: Options, *, one_answer: bool = False
) -> tuple[TrainConfig, dict[str, Any]]:
    """Where the models are to run, and the settings of the search that were given, for `one_answer` with its `n_best`.

    A ConfigError where one of the models, with its own settings beside these, cannot search so. No weights are read.
    """
    given = given_settings(options)
    search = {name: value for name, value in given.items() if name.startswith("decode.")}
    here = Config().override({name: value for name, value in given.items() if name not in search}).train
    search = {"decode.n_best": 1, **search} if one_answer else search
    from ..folder.model_folder import read_config

    configs = []
    for folder in folders:
        with _of_several(folders, folder):
            configs.append(read_config(Path(folder)).override(search))
    return here, {name.split(".")[1]: configs[0].value(name) for name in sorted(search)}


@contextmanager
def _of_several(folders: Sequence[str], folder: str) -> Iterator[None]:
    """Say which of several models it is that refuses."""
    try:
        yield
    except ConfigError as error:
        if len(folders) == 1:
            raise
        raise ConfigError(f"{folder}: {error}") from error
