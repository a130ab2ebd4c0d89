"""`clearhead serve`: serve models over HTTP, with the page."""

import importlib.util
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.messages import say
from ...errors import ConfigError
from ...serving.limits import RequestLimits
from ..models import NO_FOLDER, add_search_options, load_app
from ..parser import Options, Parser, UsageError, Verb
from ..setting_options import given_settings

if TYPE_CHECKING:
    from ...api import App

_PACKAGES = "starlette uvicorn msgspec prometheus-client python-multipart"
_LIBRARIES = _PACKAGES.replace("-", "_").split()  # as Python imports them
_SETTINGS = ("decode.engine", "decode.precision", "decode.batch_tokens")
_LOCAL = ("127.0.0.1", "localhost", "::1")


def _add_options(parser: Parser) -> None:
    parser.add_inputs("models", "DIR", "model folder; NAME=DIR names the model in requests")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, for this machine only)"
    )
    parser.add_number("--port", "port; 0 means any free one (default: 8765)", most=65_535, default=8765)
    parser.add_value("--api-key-file", "FILE", "file with one key per line; every request then needs one of them")
    text = "languages of translators whose names don't end with them, such as en-fr"
    parser.add_value("--languages", "PAIR", text, "")
    text = "accept requests to this host name; can be repeated (default: localhost and IP addresses)"
    parser.add_repeatable("--allow-host", "NAME", text)
    parser.add_repeatable("--cors", "ORIGIN", "let scripts of this website use the server; can be repeated")
    parser.add_flag("--log-texts", "write the texts of requests to the access log")
    defaults = RequestLimits()
    for limit in fields(defaults):
        text = f"{limit.metadata['help']} (default: {limit.default:,})"
        parser.add_number(f"--max-{limit.name}", parser.rare(text), least=1, default=getattr(defaults, limit.name))
    add_search_options(parser, _SETTINGS, several_adapters=True)


def _run(options: Options) -> None:
    if not options.models:
        raise UsageError("no model folder is given", fix=NO_FOLDER)
    if missing := [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"serving needs {missing[0]}", fix=f"install it: pip install {_PACKAGES}", name=missing[0])
    from ...serving.guards import Access
    from ...serving.served_models import ModelName, ModelShelf, with_adapters
    from ...serving.server import Address, serve

    address = Address(host=options.host, port=options.port)
    access = Access(_keys(options.api_key_file), [name.lower() for name in options.allow_host], options.cors)
    names = [ModelName.read(it, options.languages) for it in options.models]
    for name in names:
        _check(_load(name.folder, options))
    adapted = with_adapters(names, [ModelName.read(it) for it in options.adapter])
    for name in adapted[len(names) :]:
        _load(name.folder, options, name.adapter)

    def load(folder: str, adapter: str | None = None) -> "App":
        return _prepared(_load(folder, options, adapter))

    limits = RequestLimits(**{limit.name: getattr(options, f"max_{limit.name}") for limit in fields(RequestLimits)})
    shelf = ModelShelf(adapted, load, limits)
    if options.host not in _LOCAL:
        say(f"--host {options.host}: other machines can send requests, and texts travel unencrypted")
        if not options.api_key_file:
            say("  anyone who reaches this port can use the models; restrict access with --api-key-file FILE")
    serve(shelf, address, access, log_texts=options.log_texts)


def _load(folder: str, options: Options, adapter: str | None = None) -> "App":
    """Load a model with the settings of the command line."""
    given = given_settings(options)
    return load_app(folder, options, adapter).override({name: given[name] for name in _SETTINGS if name in given})


def _check(app: "App") -> None:
    """Raise errors in the choice of the engine before anything is served."""
    from ...decode.registry import choice_for

    if app.config.model.topology != "encoder-only":
        choice_for(app.loaded.handle, app.decode_config())


def _prepared(app: "App") -> "App":
    """Prepare the fastest engine for the model, even if that takes some seconds once: a server runs for long."""
    from ...decode.registry import prepare

    if app.config.model.topology != "encoder-only":
        prepare(app.loaded.handle, app.decode_config())
    return app


def _keys(name: str | None) -> list[str]:
    """Return the keys of a file, one per line. Raise ConfigError if the file can't be read, or has no keys."""
    if name is None:
        return []
    try:
        lines = Path(name).read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it has characters outside ASCII"
        raise ConfigError(f"can't read the keys in {name}: {reason}", name="--api-key-file", value=name) from error
    keys = [line.strip() for line in lines if line.strip()]
    if not keys:
        raise ConfigError(f"{name} has no keys", expected="one key per line", name="--api-key-file", value=name)
    return keys


VERB = Verb(
    name="serve",
    summary="serve models over HTTP: a page, and APIs like LibreTranslate's and OpenAI's",
    usage="DIR [DIR ...] [options]",
    examples=(
        "clearhead serve models/en-fr",
        "clearhead serve models/en-fr models/fr-en --port 8000",
        "clearhead serve models/en-fr --adapter formal=adapters/formal --adapter adapters/legal",
        "clearhead serve topics=runs/model --host 0.0.0.0 --api-key-file keys.txt",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="serve fewer models, or lower --batch-tokens to use less",
)
