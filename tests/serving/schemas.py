"""Values that follow a JSON schema, and a check whether one does. Both know what the server's document uses."""

import re
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

Schema = Any
ABSENT = object()
_TYPES = {
    "string": str, "array": list, "object": dict, "boolean": bool, "number": (int, float), "integer": int,
    "null": type(None),
}  # fmt: skip


def both(one: Schema, other: Schema) -> Schema:
    """The schema of values that follow both."""
    if one is False or other is False:
        return False
    merged = {**one, **other}
    for name, choose in (("minimum", max), ("minLength", max), ("maximum", min), ("maxLength", min)):
        if name in one and name in other:
            merged[name] = choose(one[name], other[name])
    for name in one.keys() & other.keys():
        if name in ("anyOf", "allOf"):
            merged["allOf"] = [*merged.pop("allOf", []), *({name: it[name]} for it in (one, other))]
            merged.pop(name, None) if name == "anyOf" else None
        elif name == "required":
            merged[name] = [*{*one[name], *other[name]}]
        elif name == "properties":
            names = {*one[name], *other[name]}
            merged[name] = {it: both(one[name].get(it, {}), other[name].get(it, {})) for it in names}
        elif name == "items":
            merged[name] = both(one[name], other[name])
    return merged


@st.composite
def values(draw: st.DrawFn, schema: Schema) -> Any:
    """A value that follows a schema."""
    assume(schema is not False)
    rest = {name: it for name, it in schema.items() if name not in ("anyOf", "allOf")}
    for it in [*schema.get("allOf", []), *([{"anyOf": schema["anyOf"]}] if "anyOf" in schema else [])]:
        while "anyOf" in it and it.keys() == {"anyOf"}:
            it = draw(st.sampled_from(it["anyOf"]))
            assume(it is not False)
        rest = both(rest, it)
    if schema.get("additionalProperties") is False:
        rest["properties"] = {name: it for name, it in rest["properties"].items() if name in schema["properties"]}
    if {"anyOf", "allOf"} & rest.keys():
        return draw(values(rest))
    if "const" in rest:
        return rest["const"]
    if "enum" in rest:
        return draw(st.sampled_from(rest["enum"]))
    kind = rest.get("type", "object" if "properties" in rest else "null")
    made = _of_type(kind, rest)
    assume(not made.is_empty)
    return draw(made)


def _of_type(kind: str, schema: Schema) -> st.SearchStrategy[Any]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if None not in (least, most) and least > most:
        return st.nothing()
    if kind == "string":
        size = {"min_size": schema.get("minLength", 0), "max_size": schema["maxLength"]}
        if "pattern" not in schema:
            return st.text(st.characters(codec="utf-8"), **size)
        inside = st.from_regex(schema["pattern"], fullmatch=True)
        return inside.filter(lambda it: len(it) <= size["max_size"] and it.isprintable())
    if kind == "array":
        return st.lists(values(schema["items"]), min_size=schema.get("minItems", 0), max_size=schema["maxItems"])
    if kind == "integer":
        return st.integers(least, most)
    if kind == "number":
        return st.floats(schema.get("exclusiveMinimum", least), most, exclude_min="exclusiveMinimum" in schema)
    return {"boolean": st.booleans(), "null": st.none(), "object": _objects(schema)}[kind]


@st.composite
def _objects(draw: st.DrawFn, schema: Schema) -> dict[str, Any]:
    found = {}
    for name, it in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or (it is not False and draw(st.booleans())):
            found[name] = draw(values(it))
    return found


def follows(value: Any, schema: Schema, components: dict[str, Schema]) -> bool:
    """Whether a value follows a schema."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        return follows(value, components[schema["$ref"].rpartition("/")[2]], components)
    kinds = schema.get("type", [])
    if kinds and not any(_is_a(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        inside = (follows(it, known.get(name, others), components) for name, it in value.items())
        if not {*schema.get("required", ())} <= value.keys() or not all(inside):
            return False
    if isinstance(value, list) and not all(follows(it, schema.get("items", True), components) for it in value):
        return False
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return False
    options = schema.get("anyOf", [True])
    fits = schema.get("const", value) == value and value in schema.get("enum", [value])
    return fits and any(follows(value, it, components) for it in options)


def _is_a(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and not (isinstance(value, bool) and kind in ("number", "integer"))
