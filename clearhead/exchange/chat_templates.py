"""Chat templates of Hugging Face folders, which are programs in Jinja. They're never executed.

A template is recognised if it's one that `to_jinja` wrote, or equal to a known one but for spaces and for the default
system message. The known ones are stored as digests, with the template that has the same text.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..folder.manifest import read_json_object
from ..tokenization.chat_template import ASSISTANT, TEMPLATES, ChatTemplate
from .hf_tokenizers import SETTINGS, token_ids, token_roles

_FILE, _OLD_FILE, _KEY = "chat_template.jinja", "chat_template.json", "chat_template"
_UNKNOWN = (
    "the folder's chat template isn't a known one, so the model can't answer messages; `train` with `data.template` "
    "gives it another"
)
_KNOWN: Mapping[str, str] = {  # the SHA-256 of what `_plain` returns, shortened, and the template with the same text
    "e0af03005c68e8ae": "chatml",
    "6e30b78ff4df700e": "chatml",  # with a default system message
    "6435759b1b281288": "chatml",  # that sets add_generation_prompt
    "035c3c06327119d5": "chatml",  # with tools, which no message here has
    "e5342eecaee494c0": "llama-2",
    "6f83976901788438": "llama-3",
    "15d3c06b920e9be5": "llama-3",  # that sets add_generation_prompt
    "0ee0ad349d84978e": "mistral",
    "726e0f15eb20bc6c": "zephyr",
    "f99801403d8de24e": "gemma",
    "6ad7332629320d55": "phi-3",
}
_LITERAL = r"'[^']*'|\"[^\"]*\""
_SYSTEM = re.compile(r"'<\|im_start\|>system\n([^']*)<\|im_end\|>\n'")
_MARK = "{#- clearhead "


def read_template(folder: Path, model: Mapping[str, Any], tokenizer: str) -> tuple[dict[str, Any], str]:
    """Return our settings for the chat template of a folder, and a note for the user, or "".

    Args:
        tokenizer: the content of its tokenizer file.
    """
    text = _text(folder)
    if not text:
        return {}, ""
    found = recognised(text)
    if found is None:
        return {}, _UNKNOWN
    ids = token_ids(tokenizer)
    roles, names = token_roles(folder, ids), {i: name for name, i in ids.items()}
    for role in ("bos", "eos"):  # the tokenizer's files can name another token than config.json
        if (i := roles.get(role, model[f"model.{role}_id"])) != model[f"model.{role}_id"]:
            found = ChatTemplate.read(found).to_json().replace(f"{{{role}}}", names[i])
    settings: dict[str, Any] = {"data.template": found}
    ends = [model["model.eos_id"], *model["model.more_eos_ids"]]
    _, after = ChatTemplate.read(found).roles[ASSISTANT]
    special = [it["content"] for it in json.loads(tokenizer)["added_tokens"] if it["special"]]
    first = min((name for name in special if name in after), key=after.index, default="")
    if "{eos}" in after or not first or ids[first] in ends:
        return settings, ""
    settings["model.more_eos_ids"] = (*model["model.more_eos_ids"], ids[first])
    return settings, f"a text ends with {first}, too, since that ends an answer in the folder's chat template"


def _text(folder: Path) -> str:
    """Return the chat template of a folder, or ""."""
    if (folder / _FILE).is_file():
        return (folder / _FILE).read_text("utf-8", errors="replace")
    for name in (_OLD_FILE, SETTINGS):
        given = read_json_object(folder / name).get(_KEY) if (folder / name).is_file() else None
        if isinstance(given, list):  # several, by name
            given = next(
                (it.get("template") for it in given if isinstance(it, dict) and it.get("name") == "default"), ""
            )
        if given:
            return str(given)
    return ""


def recognised(text: str) -> str | None:
    """Return the name or the JSON of the template that a program in Jinja stands for, or None if it's unknown."""
    if text.startswith(_MARK):
        try:
            found = ChatTemplate.read(text.removeprefix(_MARK).partition(" #}")[0])
        except ConfigError:
            return None
        return _named(found) if to_jinja(found) == text else None
    plain, system = _plain(text), ""
    if defaults := {*_SYSTEM.findall(plain)}:
        system = defaults.pop()
        plain = plain.replace(system, "SYSTEM")
    name = None if defaults else _KNOWN.get(hashlib.sha256(plain.encode()).hexdigest()[:16])
    return _named(replace(ChatTemplate.read(name), system=system)) if name else None


def _named(template: ChatTemplate) -> str:
    """Return the name of a template if it has one, or its JSON."""
    named = (name for name in TEMPLATES if ChatTemplate.read(name).to_json() == template.to_json())
    return next(named, template.to_json())


def _plain(text: str) -> str:
    """Return a Jinja program without insignificant text.

    Spaces in tags are removed, literals that are added are joined, and \\n in a literal is a line break.
    """

    def tag(found: re.Match[str]) -> str:
        parts = re.split(f"({_LITERAL})", found[0], flags=re.DOTALL)
        parts[1::2] = [it.replace("\\n", "\n") for it in parts[1::2]]
        parts[::2] = [re.sub(r"\s+", "", it) for it in parts[::2]]
        return "".join(parts).replace("'+'", "")

    return re.sub(r"\{\{.*?\}\}|\{%.*?%\}", tag, text.strip(), flags=re.DOTALL)


def to_jinja(template: ChatTemplate) -> str:
    """Return a program in Jinja that gives the same text as a template, for Transformers' `apply_chat_template`."""
    trims, merged = template.trim, template.merged
    content = "(message['content'] | trim)" if trims else "message['content']"
    rows = [f"{_mark(template)}{{%- set ns = namespace(before='') %}}{{{{- {_sum(template.begin)} }}}}"]
    if template.system:
        first = json.dumps({"role": "system", "content": template.system}, ensure_ascii=False)
        absent = "not messages or messages[0]['role'] != 'system'"
        rows.append(f"{{%- if {absent} %}}{{%- set messages = [{first}] + messages %}}{{%- endif %}}")
    rows.append("{%- for message in messages %}")
    for n, (role, (before, after)) in enumerate(template.roles.items()):
        rows.append(f"{{%- {'elif' if n else 'if'} message['role'] == {json.dumps(role, ensure_ascii=False)} %}}")
        if merged and role == "system":
            rows.append(f"{{%- set ns.before = {_sum(before)} + message['content'] + {_sum(after)} %}}")
            continue
        whole = f"(ns.before + message['content']{'.rstrip()' * trims} if ns.before else {content})"
        rows.append(f"{{{{- {_sum(before)} + {whole if merged else content} + {_sum(after)} }}}}")
        rows += ["{%- set ns.before = '' %}"] * merged
    rows.append(
        "{%- else %}{{- raise_exception('the template has no role ' + message['role']) }}{%- endif %}{%- endfor %}"
    )
    ask = template.roles[ASSISTANT][0] if template.ask is None else template.ask
    rows.append(f"{{%- if add_generation_prompt %}}{{{{- {_sum(ask)} }}}}")
    return "".join([*rows, f"{{%- else %}}{{{{- {_sum(template.end)} }}}}{{%- endif %}}"])


def _mark(template: ChatTemplate) -> str:
    """Return the template in a comment, which `recognised` reads."""
    safe = template.to_json().replace("#", "\\u0023")
    return f"{_MARK}{safe} #}}"


def _sum(text: str) -> str:
    """Return an expression of Jinja for a text of a template."""
    names = {"{bos}": "bos_token", "{eos}": "eos_token"}
    parts = [it for it in re.split(r"(\{bos\}|\{eos\})", text) if it] or [""]
    return " + ".join(names.get(it) or json.dumps(it, ensure_ascii=False) for it in parts)
