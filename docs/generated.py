"""Parts of the reference that are written from the code while the site is built: settings and HTTP requests."""

import re
import typing
from collections.abc import Callable, Mapping
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
    """Describe every request and the objects of answers, from the OpenAPI document of a server without models."""
    from clearhead.serving.guards import Access
    from clearhead.serving.limits import RequestLimits
    from clearhead.serving.routes.open_api import open_api
    from clearhead.serving.routes_table import make_application
    from clearhead.serving.served_models import ModelShelf

    shelf = ModelShelf([], None, RequestLimits())
    document = open_api(make_application(shelf, Access(), None).routes, shelf)
    lines = list[str]()
    for path, operations in sorted(
        document["paths"].items(), key=lambda it: it[0] == "/api/page" or "/api/" not in it[0]
    ):
        about = next(iter(operations.values()))
        lines += [f"## {' or '.join(it.upper() for it in operations)} {path}", "", f"{about['summary']}", ""]
        for form, content in about.get("requestBody", {}).get("content", {}).items():
            lines += _body(f"Request, as `{form}`", content["schema"])
        for form, content in about["responses"]["200"]["content"].items():
            lines += _body(f"Answer, as `{form}`", content["schema"])
    lines += ["## Objects", "", "[Answers and scores](python.md#answers-and-scores) says what their fields mean.", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += [f"### {name}", "", *_table(schema)]
    return "\n".join(lines)


def _body(title: str, schema: Mapping[str, Any]) -> list[str]:
    return [f"{title}:", "", *_table(schema)] if "properties" in schema else [f"{title}: {_kind(schema)}.", ""]


def _table(schema: Mapping[str, Any]) -> list[str]:
    """Write the fields of an object as a table. Settings of the search are named below it."""
    needed = schema.get("required", [])
    given = {name: it for name, it in schema["properties"].items() if it is not False}
    search = [name for name, it in given.items() if f"decode.{name}" in settings() and "description" in it]
    rows = [f"| `{it}` | {_kind(given[it])}{' (required)' * (it in needed)} |" for it in given if it not in search]
    more = f"Settings of the search, as in [decoding](settings.md#settings-of-decode): {', '.join(map(_code, search))}."
    return ["| field | type |", "|---|---|", *rows, "", *[more, ""] * bool(search)]


def _code(text: Any) -> str:
    return "`null`" if text is None else f"`{text}`"


def _kind(schema: Any) -> str:
    """Write the type of a schema in words."""
    if isinstance(schema, bool):
        return "anything"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = dict.fromkeys(map(_kind, schema["anyOf"]))
        lists = {f"list of {it}" for it in kinds}
        return f"{next(iter(kinds))}, or a list of these" if lists & {*kinds} else " or ".join(kinds)
    if "enum" in schema or "const" in schema:
        return " or ".join(map(_code, schema.get("enum", [schema.get("const")])))
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(_kind({**schema, "type": it}) for it in kind)
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if kind == "object" and "properties" in schema:
        return f"object with {', '.join(map(_code, schema['properties']))}"
    return _JSON_TYPES.get(kind, kind)


_PARTS: Mapping[str, Callable[[], str]] = {"settings": _settings, "http": _http}
