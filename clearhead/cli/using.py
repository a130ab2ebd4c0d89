"""What the verbs that use a trained model have in common."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..config import Config, settings
from .parser import Options, Parser, UsageError, add_settings, given_settings

if TYPE_CHECKING:
    from ..app import App

_SHORT = {
    "train.device": ["--device"],
    "train.threads": ["--threads"],
}
# Settings of the search are needed often: --beam for --decode.beam, --n-best for --decode.n_best.
_SHORT |= {name: [f"--{name.split('.')[1].replace('_', '-')}"] for name in settings() if name.startswith("decode.")}


NO_FOLDER = "no model folder is given; expected one that `clearhead train` made, before options that take several words"


def add_model_options(parser: Parser, search: Sequence[str] | None = None) -> None:
    """The folder of the model, where it runs, and how it searches, by all settings or by those of `search`."""
    parser.add_argument("folder", nargs="?", metavar="DIR", help="a model folder")
    add_search_options(parser, search)


def add_search_options(parser: Parser, search: Sequence[str] | None = None) -> None:
    """Where a model runs, and how it searches."""
    if search is None:
        search = [name for name in settings() if name.startswith("decode.")]
    add_settings(parser, ["train.device", "train.threads", *search], _SHORT, show_defaults=False)


def open_model(options: Options) -> tuple["App", dict[str, Any]]:
    """The model, and the settings of the search that were given, as `App.results` takes them."""
    if options.folder is None:
        raise UsageError(NO_FOLDER)
    (app,), decode = open_models([options.folder], options)
    return app, decode


def open_models(folders: list[str], options: Options) -> tuple[list["App"], dict[str, Any]]:
    """The same of several models, on the same device and with the same search."""
    given = given_settings(options)
    config = Config().override(given)  # refuses wrong values before anything is loaded
    decode = {name.split(".")[1] for name in given if name.startswith("decode.")}
    from ..app import load

    apps = [load(folder, device=config.train.device, threads=config.train.threads) for folder in folders]
    return apps, {name: getattr(config.decode, name) for name in sorted(decode)}
