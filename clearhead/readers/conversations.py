"""Prompts with answers, and conversations, from JSON Lines. Each line has one of these forms:

    {"prompt": "...", "completion": "..."}
    {"instruction": "...", "input": "...", "output": "..."}                      "input" may be missing or empty
    {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}

An example is a pair of a prompt and an answer. The prompt is JSON: a string, which the answer continues, or the list of
the messages before the answer.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import Any

from ..config import DataConfig
from ..errors import DataError
from ..tokenization.chat_template import ASSISTANT, fault_of
from .column_roles import Roles
from .files import Input, inputs
from .json_lines import BRACKET, half_a_character, parsed_json, read_object, value_at
from .lines import controls_note, count_controls, read_lines, undecodable
from .skipped import Report
from .source import Rows, Source, as_paths
from .tables import Pair

PROMPTS = Roles("prompt", "answer", files="", aligned="", plural=("prompts", "answers"))
EXPECTED = (
    'on each line, {"prompt": "…", "completion": "…"}, {"instruction": "…", "output": "…"} or '
    '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}'
)
_FORMS = {
    ("prompt", "completion"): "a prompt and a completion",
    ("instruction", "output"): "an instruction and an output",
}
_NO_ANSWER = f'the last message isn\'t an answer (role "{ASSISTANT}")'


class Conversations(Source):
    """Prompts and answers of files or folders, which can be read repeatedly, one by one.

    `data.source_column` and `data.target_column` can name other keys than "prompt" and "completion".

    Raises:
        DataError: no line can be used.
    """

    roles = PROMPTS

    def __init__(self, data_or_paths: Any, data: DataConfig | None = None) -> None:
        paths, data = as_paths(data_or_paths), data or DataConfig()
        self._named = bool(data.source_column or data.target_column)
        super().__init__(paths, [[file for path in paths for file in inputs(path)]])
        self._keys = tuple(
            (asked or usual).split(".")
            for asked, usual in ((data.source_column, "prompt"), (data.target_column, "completion"))
        )

    def __iter__(self) -> Iterator[Pair]:
        report, n_controls, [files] = Report(self.report.paths, "JSON lines with prompts and answers"), 0, self.sides
        if files and isinstance(files[0], Rows):
            report.unit, report.item = "rows", "row"
        for file in files:
            if len(files) > 1:
                report.files.append((file.name, report.lines))
            for line in read_lines(file):
                values, why = read_object(line)
                if why == BRACKET:
                    continue
                report.lines += 1
                prompt, answer, wrong = ("", "", why) if values is None else self._example(values)
                text = "" if wrong else plain_text(prompt, answer)
                wrong = wrong or half_a_character(line, text) or PROMPTS.fault("a prompt", answer) or ""
                if wrong:
                    report.skip(report.lines, wrong, undecodable(line))
                elif "\0" in text:
                    report.skip(report.lines, "NUL character", undecodable(line))
                else:
                    report.used, n_controls = report.used + 1, n_controls + bool(count_controls(text))
                    yield report.lines, prompt, answer
        if n_controls:
            report.notes.append(controls_note(n_controls, "examples"))
        if not report.used:
            name, first = " and ".join(report.paths), report.examples[0].line if report.examples else None
            what = f"no prompt with an answer in {name}\n  {report}"
            raise DataError(what, expected=EXPECTED, name=name, value=report.skipped, line=first)
        self.report = report

    def _example(self, values: dict[str, Any]) -> tuple[str, str, str]:
        """Return prompt, answer and "", or two empty texts and the reason why there are none."""
        if "messages" in values and not self._named:
            wrong = fault_of(values["messages"])
            if not wrong and values["messages"][-1]["role"] != ASSISTANT:
                wrong = _NO_ANSWER
            if wrong:
                return "", "", wrong
            *before, answer = values["messages"]
            return json.dumps(before, ensure_ascii=False), answer["content"], ""
        if "instruction" in values and not self._named:
            parts = [values["instruction"], values.get("input") or ""]
            answer, wrong = values.get("output"), 'no string in "instruction", "input" or "output"'
            if not all(isinstance(it, str) for it in (*parts, answer)):
                return "", "", wrong
            user = {"role": "user", "content": "\n\n".join(filter(str.strip, parts))}
            return json.dumps([user], ensure_ascii=False), str(answer), "" if user["content"] else "empty instruction"
        (prompt, why), (answer, other) = (value_at(values, key) for key in self._keys)
        missing = [".".join(key) for key, it in zip(self._keys, (prompt, answer)) if not isinstance(it, str)]
        wrong = why or other or (f"no string in {missing[0]}" if missing else "")
        return ("", "", wrong) if wrong else (json.dumps(prompt, ensure_ascii=False), answer, "")


def messages_of(prompt: str, answer: str | None = None) -> list[dict[str, str]]:
    """Return the messages of a prompt that isn't a text, and the answer to it if it's given."""
    return [*json.loads(prompt), *([] if answer is None else [{"role": ASSISTANT, "content": answer}])]


def is_text(prompt: str) -> bool:
    """Return whether a prompt is a text, which the answer continues, and not messages."""
    return prompt.startswith('"')


def plain_text(prompt: str, answer: str) -> str:
    """Return the text of an example, to read or to learn a tokenizer from. Each role is on a separate line."""
    if is_text(prompt):
        return str(json.loads(prompt)) + answer
    return "\n".join(chain(*((it["role"], it["content"]) for it in messages_of(prompt, answer or None))))


def answers_in(values: Mapping[str, Any]) -> str:
    """Return what an object has if it's a prompt with an answer, as a phrase, or ""."""
    if isinstance(values.get("text"), str):  # a document
        return ""
    if isinstance(values.get("messages"), list):
        return "messages"
    for keys, phrase in _FORMS.items():
        if all(isinstance(values.get(key), str) for key in keys):
            return phrase
    return ""


def read_chats(path: str) -> list[list[dict[str, str]]]:
    """Return the conversations to answer in a file: JSON Lines, or one JSON value.

    A conversation is a list of messages, or an object with the list under "messages".

    Raises:
        DataError: the file can't be read, or has something else.
    """
    with closing(Input(path)) as file:
        lines = [*enumerate(read_lines(file), 1)]
    try:
        whole = parsed_json("".join(map(undecodable, (line for _, line in lines))))
        several = isinstance(whole, list) and not (whole and isinstance(whole[0], dict) and "role" in whole[0])
        found = [(1, it) for it in (whole if several else [whole])]
    except (ValueError, RecursionError):
        found = [(number, _parsed(path, number, line)) for number, line in lines if line.strip()]
    chats = list[list[dict[str, str]]]()
    for number, it in found:
        messages: Any = it.get("messages") if isinstance(it, dict) else it
        if wrong := fault_of(messages):
            raise _no_chat(path, number, wrong)
        chats.append(messages)
    if not chats:
        raise _no_chat(path, 1, "there is no conversation")
    return chats


def _parsed(path: str, number: int, line: bytes) -> Any:
    try:
        return parsed_json(undecodable(line))
    except (ValueError, RecursionError):
        raise _no_chat(path, number, "not JSON") from None


def _no_chat(path: str, number: int, wrong: str) -> DataError:
    expected = '[{"role": "user", "content": "…"}], or {"messages": […]}, on each line'
    return DataError(f"{path} line {number:,}: {wrong}", expected=expected, name=path, line=number)
