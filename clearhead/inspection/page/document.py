"""Put the page's data, style and scripts into one HTML file that opens from disk and loads no other files.

The scripts are ES modules that a browser can also load one by one. Here each becomes a function that returns what it
exports, in the order of their imports.
"""

import hashlib
import html
import json
import posixpath
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

STATIC = (files(__package__) / "static",)
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "(\.[a-z_./]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|function|async function) (\w+))", re.MULTILINE)
_UNSAFE = {ord(it): f"\\u{ord(it):04x}" for it in "<>&\u2028\u2029"}  # markup, or line ends in old JavaScript


def page_document(data: Mapping[str, Any]) -> str:
    """Return the HTML of a page that shows `data`, what `page_data` returns."""
    return document("file", data, str(data["source"]))


def served_document(models: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML of a page that asks a server for answers, with `POST api/page`. See docs/architecture.md.

    Args:
        models: the `name` and `task` of each, what it `reads`: "text", "image" or "audio", and `examples` of texts.
    """
    return document(
        "served", {"models": list(models)}, " · ".join(it["name"] for it in models), allowed="connect-src 'self'; "
    )


def framed(document: str) -> str:
    """Return a page as a frame for a notebook, which can't reach the notebook around it."""
    about = 'title="What the model did" sandbox="allow-scripts allow-downloads"'
    return f'<iframe {about} style="width:100%;height:820px;border:0" srcdoc="{html.escape(document)}"></iframe>'


def document(
    entry: str,
    data: Mapping[str, Any],
    about: str,
    *,
    allowed: str = "",
    blocks: Mapping[str, str] = MappingProxyType({}),
    folders: Sequence[Traversable] = STATIC,
) -> str:
    """Return the HTML of a page.

    Args:
        entry: the script that opens the page.
        data: the page's data, as plain values.
        allowed: what the page may ask for, as part of its content security policy.
        blocks: more texts in the page, by the id of their element.
        folders: where the scripts are, the first that has one first.
    """
    style, script = _static("page.css"), joined_scripts(entry, folders)
    content = json.dumps(_storable(data), ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)
    policy = (
        f"default-src 'none'; {allowed}img-src data:; media-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    title = html.escape(f"{about} · Clearhead".encode("utf-8", "replace").decode())
    parts = {"policy": policy, "title": title, "style": style, "data": content, "script": script}
    parts["blocks"] = "".join(f'\n<script type="text/plain" id="{name}">{it}</script>' for name, it in blocks.items())
    return Template(_static("page.html")).substitute(parts)


def joined_scripts(entry: str, folders: Sequence[Traversable] = STATIC) -> str:
    """Return an entry script and all scripts that it needs as one, each after those that it imports."""
    found: dict[str, str] = {}

    def add(name: str) -> None:
        source, folder = _static(f"{name}.js", folders), posixpath.dirname(name)

        def path(imported: str) -> str:
            return posixpath.normpath(posixpath.join(folder, imported))

        for _, needed in _IMPORT.findall(source):
            if path(needed) not in found:
                add(path(needed))
        body = _IMPORT.sub(lambda it: f"const {it[1].replace(' as ', ': ')} = {_variable(path(it[2]))};", source)
        exported = f"return {{{', '.join(_EXPORT.findall(source))}}};"
        found[name] = f"const {_variable(name)} = (() => {{\n{_EXPORT.sub('', body)}\n{exported}\n}})();\n"

    add(entry)
    return "\n".join(found.values())


def _variable(name: str) -> str:
    """Return the name of the variable with what a script exports."""
    return f"{name.replace('/', '_')}_js"


def _static(name: str, folders: Sequence[Traversable] = STATIC) -> str:
    return next(path for it in folders if (path := it.joinpath(name)).is_file()).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _storable(value: Any) -> Any:
    """Replace what JSON or UTF-8 can't store: numbers that aren't finite by null, lone surrogates by escapes."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, str):
        return "".join(it if not "\ud800" <= it <= "\udfff" else f"\ufffd{ord(it):x}" for it in value)
    if isinstance(value, Mapping):
        return {_storable(str(key)): _storable(it) for key, it in value.items()}
    return [_storable(it) for it in value] if isinstance(value, list | tuple) else value


# --- arrays inside JSON: base64 of little-endian numbers, in as few bytes as the page needs


def weights_array(values: ArrayLike) -> dict[str, Any]:
    """Encode numbers from 0 to 1 in 16 bits, exact to 0.0000077."""
    found = np.asarray(values, np.float64)
    return _array(np.rint(found.clip(0, 1) * 65535).astype("<u2"), "u16", 65535)


def shades_array(values: ArrayLike) -> dict[str, Any]:
    """Encode numbers from 0 to 1 in 8 bits, exact to 0.002: enough for a small picture."""
    return _array(np.rint(np.asarray(values, np.float64).clip(0, 1) * 255).astype("u1"), "u8", 255)


def float_array(values: ArrayLike) -> dict[str, Any]:
    """Encode numbers in float32."""
    return _array(np.asarray(values).astype("<f4"), "f32", 1)


def counts_array(values: ArrayLike) -> dict[str, Any]:
    """Encode counts in 16 bits; those above 65,535 become that."""
    return _array(np.asarray(values).clip(0, 65535).astype("<u2"), "u16", 1)


def bytes_array(values: ArrayLike) -> dict[str, Any]:
    """Encode rows of numbers in 8 bits, each row with its own scale, exact to a 254th of the row's largest number."""
    found = np.asarray(values, np.float64)
    largest = np.abs(found).max(-1, initial=0.0)
    steps = 127 / np.where(largest == 0, 1.0, largest)
    rounded = np.rint(found * steps[..., None]).astype("i1")
    return _array(rounded, "i8", 1) | {"steps": float_array(steps)}


def bits_array(values: ArrayLike) -> dict[str, Any]:
    """Encode truth values in a bit each, the first in the lowest bit of the first byte."""
    found = np.asarray(values, np.bool_)
    packed = np.packbits(found.ravel(), bitorder="little")
    return {"shape": list(found.shape), "dtype": "bit", "scale": 1, "b64": b64encode(packed.tobytes()).decode()}


def _array(values: Any, dtype: str, scale: int) -> dict[str, Any]:
    data = b64encode(np.ascontiguousarray(values).tobytes()).decode()
    return {"shape": list(values.shape), "dtype": dtype, "scale": scale, "b64": data}
