"""Chat templates: how the messages of a conversation become one text. No template language is executed.

A template is plain data. What comes before and after each message is written as text, in which {bos} and {eos} stand
for these tokens, and the names of other special tokens for themselves:

    {"roles": {"user": ["{bos}user\\n", "{eos}"], "assistant": ["{bos}assistant\\n", "{eos}"]}}

Only a template writes special tokens. Where their names occur in a message, they're ordinary text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain
from typing import Any, Self, TypeAlias

from ..config.values import invalid
from ..errors import DataError, suggestion
from .normalise import NEVER
from .tokenizer import Tokenizer

Messages: TypeAlias = Sequence[Mapping[str, str]]
"""Messages of a conversation, each with a "role" and a "content"."""
ASSISTANT = "assistant"
"""The role of the model."""
_SYSTEM, _USER = "system", "user"
_NAME = "data.template"
_EXPECTED = '{"roles": {"user": ["before", "after"], "assistant": ["before", "after"]}}, or the name of a template'


def fault_of(messages: Any) -> str:
    """Return the reason why a value isn't a list of messages, or ""."""
    if not isinstance(messages, list) or not messages:
        return '"messages" isn\'t a list of messages'
    for number, it in enumerate(messages, 1):
        if not isinstance(it, dict) or not all(isinstance(it.get(key), str) for key in ("role", "content")):
            return f'message {number} has no strings "role" and "content"'
        if others := sorted(it.keys() - {"role", "content"}):
            return f"message {number} has {json.dumps(others[0])}, which isn't read"
    return ""


@dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """The text around the messages of a conversation.

    Attributes:
        roles: the text before and after the content of each role's messages.
        begin: the text before the first message.
        end: the text after the last message, unless an answer follows.
        ask: the text that asks for an answer (default: the text before an answer).
        trim: True if whitespace around a content is removed.
        system: a system message for conversations that have none.
        merged: True if the system message is part of the first message of the user.
        turns: True if messages of user and assistant have to alternate, beginning with the user.
    """

    roles: Mapping[str, Sequence[str]]
    begin: str = ""
    end: str = ""
    ask: str | None = None
    trim: bool = False
    system: str = ""
    merged: bool = False
    turns: bool = False

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the template with a name, or the one that `to_json` wrote.

        Raises:
            ConfigError: it isn't a template.
        """
        if text in TEMPLATES:
            return cls(**TEMPLATES[text])
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            fix = suggestion(text, TEMPLATES)
            raise invalid(_NAME, text, "isn't a chat template", expected=_EXPECTED, fix=fix) from None
        if wrong := _fault(values):
            raise invalid(_NAME, text, wrong, expected=_EXPECTED)
        return cls(**values)

    def to_json(self) -> str:
        """Return the template as JSON, without empty fields."""
        empty = {it.name: it.default for it in fields(self)}
        return json.dumps({name: it for name, it in asdict(self).items() if it != empty[name]}, ensure_ascii=False)

    def parts(self, messages: Messages, *, asks: bool) -> list[tuple[str, bool]]:
        """Return the parts of a conversation's text, each with True if it's the content of a message.

        Args:
            asks: True if an answer follows.

        Raises:
            DataError: the template has no such message.
        """
        if self.system and not _begins_with_system(messages):
            messages = [{"role": _SYSTEM, "content": self.system}, *messages]
        self._check(messages)
        found, before = [(self.begin, False)], list[tuple[str, bool]]()
        for message in messages:
            content, (start, stop) = message["content"], self.roles[message["role"]]
            if self.merged and message["role"] == _SYSTEM:
                before = [(start, False), (content, True), (stop, False)]
                continue
            if self.trim:  # the system message and the user's are one content
                content = content.rstrip() if before else content.strip()
            found += [(start, False), *before, (content, True), (stop, False)]
            before = []
        ask = self.roles[ASSISTANT][0] if self.ask is None else self.ask
        return [part for part in (*found, (ask if asks else self.end, False)) if part[0]]

    def _check(self, messages: Messages) -> None:
        """Raise DataError for messages that the template can't express."""
        for number, message in enumerate(messages):
            if (role := message["role"]) not in self.roles:
                raise _unfit(f"the chat template has no role {role!r}", f"one of {', '.join(self.roles)}", role)
            if role == _SYSTEM and number and (self.merged or self.turns):
                raise _unfit("a system message isn't the first message", "it at the start of a conversation", role)
        turns = [it["role"] for it in messages if it["role"] != _SYSTEM]
        if self.merged and _begins_with_system(messages) and turns[:1] != [_USER]:
            raise _unfit("no message of the user follows the system message", "one, which it becomes part of", turns)
        if self.turns and any(role != (_USER, ASSISTANT)[i % 2] for i, role in enumerate(turns)):
            raise _unfit("user and assistant don't take turns", "messages of user, assistant, user, and so on", turns)


def _begins_with_system(messages: Messages) -> bool:
    return bool(messages) and messages[0]["role"] == _SYSTEM


def _unfit(what: str, expected: str, value: Any) -> DataError:
    return DataError(what, expected=expected, name="messages", value=value)


def _fault(values: Any) -> str:
    """Return what is wrong with the values of a template, or ""."""
    if not isinstance(values, dict):
        return "isn't a JSON object"
    known = {it.name: it.type for it in fields(ChatTemplate)}
    if unknown := [name for name in values if name not in known]:
        return f"has {unknown[0]!r}, which no template has"
    roles = values.get("roles")
    if not isinstance(roles, dict) or not {_USER, ASSISTANT} <= roles.keys():
        return "lacks the roles user and assistant"
    for name, it in roles.items():
        if not isinstance(it, list) or len(it) != 2 or not all(isinstance(text, str) for text in it):
            return f"has no two texts for the role {name!r}"
    flags = ("trim", "merged", "turns")
    for name, it in values.items():
        if name != "roles" and not isinstance(it, bool if name in flags else str):
            return f"has {name}={it!r}, which isn't {'true or false' if name in flags else 'a text'}"
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate, which UTF-8 can't encode"
    return ""


class ChatEncoder:
    """Turns conversations into token ids, as Transformers' `apply_chat_template` does.

    Args:
        tokenizer: the tokenizer of the model. The names of its special tokens in the template become single ids.
    """

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        self.template, self.tokenizer = template, tokenizer
        written = "\0".join([template.begin, template.end, template.ask or "", *chain(*template.roles.values())])
        markers = filter(str.strip, tokenizer.added_names)  # tokens of spaces can stand in messages, too
        self._used = tuple(name for name in markers if name in written)
        names = sorted({*tokenizer.special_names, *self._used}, key=len, reverse=True)
        self._name = re.compile("|".join(map(re.escape, names)))

    def text(self, messages: Messages, *, asks: bool) -> str:
        """Return the text of a conversation, in which special tokens are marked; see `Tokenizer.encode_marked`.

        Args:
            asks: True if an answer follows.

        Raises:
            DataError: the template has no such message.
        """
        parts = self.template.parts(messages, asks=asks)
        return "".join(it.replace(NEVER, "\ufffd") if is_content else self._marked(it) for it, is_content in parts)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts that `text` returned."""
        return self.tokenizer.encode_marked(texts, self._used)

    def spans(self, messages: Messages) -> list[str]:
        """Return the text of a whole conversation; and for each answer, the text before it and that up to its end.

        The end of an answer is the first special token after it, or all of the text after it in the template.
        """
        after, found = self._after_answer()
        end, stop = self._marked(self.template.end), after[: found.end()] if found else after
        texts = [self.text(messages, asks=False)]
        for number, it in enumerate(messages):
            if it["role"] == ASSISTANT:
                until = self.text(messages[: number + 1], asks=False).removesuffix(after + end)
                texts += [self.text(messages[:number], asks=True), until + stop]
        return texts

    @property
    def stop(self) -> tuple[str, str]:
        """The special token that ends an answer and "", or "" and the text that does."""
        after, found = self._after_answer()
        return (found[1], "") if found else ("", after.strip() or after)

    @property
    def stop_id(self) -> int | None:
        """The id of the special token that ends an answer, or None if a text does."""
        name, _ = self.stop
        return self.encode([NEVER + name])[0][0] if name else None

    def _after_answer(self) -> tuple[str, re.Match[str] | None]:
        """Return the text after an answer, and the first special token in it."""
        after = self._marked(self.template.roles[ASSISTANT][1])
        return after, re.search(f"{NEVER}({self._name.pattern})", after)

    def _marked(self, text: str) -> str:
        name, special = self.tokenizer.name_of, self.tokenizer.special
        text = text.replace("{bos}", name(special.bos)).replace("{eos}", name(special.eos))
        return self._name.sub(lambda found: NEVER + found[0], text)


_SAME = {"user": "user", ASSISTANT: ASSISTANT, _SYSTEM: _SYSTEM}


def _alike(before: str, after: str, names: Mapping[str, str] = _SAME) -> dict[str, list[str]]:
    """Return the texts of roles that differ only in a name."""
    return {role: [before.format(name), after] for role, name in names.items()}


_CHATML = _alike("<|im_start|>{}\n", "<|im_end|>\n")
_INSTRUCT = {"user": ["[INST] ", " [/INST]"], ASSISTANT: ["", "{eos}"]}
_LLAMA_2 = {_SYSTEM: ["<<SYS>>\n", "\n<</SYS>>\n\n"], "user": ["{bos}[INST] ", " [/INST]"], ASSISTANT: [" ", " {eos}"]}
TEMPLATES: Mapping[str, dict[str, Any]] = {
    "default": {"roles": _alike("{{bos}}{}\n", "{eos}")},
    "chatml": {"roles": _CHATML},
    "llama-2": {"roles": _LLAMA_2, "ask": "", "trim": True, "merged": True, "turns": True},
    "llama-3": {
        "begin": "{bos}",
        "roles": _alike("<|start_header_id|>{}<|end_header_id|>\n\n", "<|eot_id|>"),
        "trim": True,
    },
    "mistral": {"begin": "{bos}", "roles": _INSTRUCT, "turns": True},
    "zephyr": {"roles": _alike("<|{}|>\n", "{eos}\n")},
    "gemma": {
        "begin": "{bos}",
        "roles": _alike("<start_of_turn>{}\n", "<end_of_turn>\n", {"user": "user", ASSISTANT: "model"}),
        "trim": True,
        "turns": True,
    },
    "phi-3": {"roles": _alike("<|{}|>\n", "<|end|>\n"), "end": "{eos}"},
}
"""The templates that have a name. Models that are trained here use the first one, whose tokens every vocabulary has."""
DEFAULT = "default"
"""The template of models that are trained here on messages, unless the user or the model to start from has another."""
