"""Parts of the reference that are written from the code while the site is built: settings and HTTP requests."""

import re
import typing
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Any

from clearhead.config import Setting, settings

_OF_SECTION = {
    "model": "Shape and parts of the model. They're fixed once training has started.",
    "data": "How files are read, split and turned into tokens.",
    "train": "What training does, and for how long.",
    "decode": "How answers are searched or sampled. Every command that answers takes them.",
}

_JSON_TYPES = {"string": "text", "integer": "whole number", "boolean": "`true` or `false`", "null": "`null`"}


def fill_in(page: str) -> str:
    """Replace each line such as `<!-- settings -->` by what it names."""
    return re.sub(r"^<!-- (\w+) -->$", lambda it: _PARTS[it[1]]() if it[1] in _PARTS else it[0], page, flags=re.M)


def _settings() -> str:
    """Describe every setting, by section."""
    lines, section = list[str](), ""
    for name, it in settings().items():
        if section != (section := name.split(".")[0]):
            lines += [f"## Settings of `{section}`", "", _OF_SECTION[section], ""]
        default = _value(it.default)
        lines += [f"::::{{confval}} {name}", f":type: {_type(it.type)}"]
        lines += [f":default: {default}"] if default else []
        lines += ["", _described(it), "::::", ""]
    return "\n".join(lines)


def _described(setting: Setting) -> str:
    text = _escaped(setting.help[0].upper() + setting.help[1:]) + "."
    return text + " Not an option: it follows from the data." * setting.fact


def _escaped(text: str) -> str:
    """Escape what Markdown would read as markup."""
    return re.sub(r"([*_<>\[\]`^$|\\])", r"\\\1", text)


def _value(value: Any) -> str:
    """Write a default as in a TOML file; None and empty values have none."""
    if value is None or value in ("", ()):
        return ""
    text = (
        str(value).lower()
        if isinstance(value, bool)
        else ", ".join(map(str, value))
        if isinstance(value, tuple)
        else value
    )
    return f"`{text}`"


def _type(kind: Any) -> str:
    """Write a type in words."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in (UnionType, typing.Union):
        return " or ".join(_type(it) if it is not type(None) else "nothing" for it in arguments)
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{it}`" if it else "nothing" for it in arguments)
    if typing.get_origin(kind) is tuple:
        return f"list of {_type(arguments[0])}s"
    return {int: "whole number", float: "number", bool: "`true` or `false`", str: "text"}.get(kind, kind.__name__)


def _http() -> str:
    """Describe every request, from the OpenAPI document of a server without models."""
    from clearhead.serving.guards import Access
    from clearhead.serving.limits import RequestLimits
    from clearhead.serving.routes.open_api import open_api
    from clearhead.serving.routes_table import make_application
    from clearhead.serving.served_models import ModelShelf

    shelf = ModelShelf([], None, RequestLimits())
    app = make_application(shelf, Access(), None)
    document = open_api(app.routes, shelf)
    lines = list[str]()
    for path, operations in document["paths"].items():
        about = next(iter(operations.values()))
        methods = " or ".join(it.upper() for it in operations)
        lines += [f"## {methods} {path}", "", about["summary"], ""]
        for form, content in about.get("requestBody", {}).get("content", {}).items():
            lines += [f"Request, as `{form}`:", "", *_fields(content["schema"], document), ""]
        for form, content in about["responses"]["200"]["content"].items():
            lines += [f"Answer, as `{form}`:", "", *_fields(content["schema"], document), ""]
    return "\n".join(lines)


def _fields(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    """Write the fields of an object as a table, or another schema in a word."""
    schema = _resolved(schema, document)
    fields = schema.get("properties", {})
    if not fields:
        yield f"{_kind(schema, document)[:1].upper()}{_kind(schema, document)[1:]}."
        return
    needed, given = schema.get("required", []), {name: it for name, it in fields.items() if it is not False}
    about = {name: _escaped(_resolved(it, document).get("description", "")) for name, it in given.items()}
    columns = ["field", "type"] + ["meaning"] * any(about.values())
    yield from (f"| {' | '.join(columns)} |", "|---" * len(columns) + "|")
    for name, it in given.items():
        kind = _kind(it, document) + ", required" * (name in needed)
        yield f"| {' | '.join([f'`{name}`', kind, about[name]][: len(columns)])} |"


def _resolved(schema: Any, document: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(schema, bool):
        return {}
    if "$ref" in schema:
        return document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _kind(schema: Any, document: Mapping[str, Any]) -> str:
    """Write the type of a schema in words."""
    if schema is True or schema is False:
        return "anything"
    if "$ref" in schema:
        return f"object `{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(it, document) for it in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join("`null`" if it is None else f"`{it}`" for it in values)
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(_kind({**schema, "type": it}, document) for it in kind)
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}), document)}"
    return _JSON_TYPES.get(kind, kind)


_PARTS: Mapping[str, Callable[[], str]] = {"settings": _settings, "http": _http}
