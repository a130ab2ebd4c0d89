"""Prompts with answers in JSON Lines: what is read, and what is said about lines that can't be."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.readers.conversations import Conversations, is_text, messages_of, plain_text, read_chats

USER, ANSWER = {"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Good day."}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def read(path: Path, **data: Any) -> tuple[list[Any], Any]:
    with Conversations(path, DataConfig(**data)) as source:
        return list(source), source.report


def test_all_forms_can_stand_in_one_file(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "a.jsonl",
        {"prompt": "Say hello:", "completion": " Good day."},
        {"instruction": "Greet.", "input": "Bob", "output": "Good day, Bob.", "id": 3},
        {"instruction": "Greet.", "input": "", "output": "Good day."},
        {"messages": [USER, ANSWER, USER, ANSWER]},
    )
    found, report = read(path)
    assert [line for line, _, _ in found] == [1, 2, 3, 4] and report.used == report.lines == 4
    assert is_text(found[0][1]) and found[0][1] == '"Say hello:"'
    assert [messages_of(prompt) for _, prompt, _ in found[1:]] == [
        [{"role": "user", "content": "Greet.\n\nBob"}],
        [{"role": "user", "content": "Greet."}],
        [USER, ANSWER, USER],
    ]
    assert [answer for _, _, answer in found] == [" Good day.", "Good day, Bob.", "Good day.", "Good day."]
    assert plain_text(*found[0][1:]) == "Say hello: Good day."
    assert plain_text(*found[2][1:]) == "user\nGreet.\nassistant\nGood day."
    alone, _ = read(lines(tmp_path / "c.jsonl", {"messages": [ANSWER]}))
    assert messages_of(*alone[0][1:]) == [ANSWER] and plain_text(alone[0][1], "") == ""
    both = lines(tmp_path / "d.jsonl", {"instruction": "Greet.", "output": "Good day."})
    assert read(both, source_column="instruction", target_column="output")[0] == [(1, '"Greet."', "Good day.")]
    named, _ = read(
        lines(tmp_path / "b.jsonl", {"q": "One?", "a": {"b": "Two."}}), source_column="q", target_column="a.b"
    )
    assert named == [(1, '"One?"', "Two.")]


BAD = {
    "not JSON": "{",
    "no key completion": {"prompt": "Say hello:"},
    "no string in completion": {"prompt": "Say hello:", "completion": 3},
    'no string in "instruction", "input" or "output"': {"instruction": "Greet.", "output": None},
    "empty instruction": {"instruction": " ", "output": "Good day."},
    '"messages" isn\'t a list of messages': {"messages": []},
    'message 2 has no strings "role" and "content"': {"messages": [USER, {"role": "assistant"}]},
    'message 2 has "weight", which isn\'t read': {"messages": [USER, ANSWER | {"weight": 0}]},
    'the last message isn\'t an answer (role "assistant")': {"messages": [USER, ANSWER, USER]},
    "empty answer": {"messages": [USER, ANSWER | {"content": " "}]},
    "NUL character": {"prompt": "Say\0hello:", "completion": "Good day."},
    "half of a surrogate pair": '{"prompt": "\\ud800", "completion": "Good day."}',
}


@pytest.mark.parametrize("reason", BAD)
def test_a_line_that_cannot_be_used_is_counted_with_the_reason(tmp_path: Path, reason: str) -> None:
    path = lines(tmp_path / "a.jsonl", {"prompt": "Say hello:", "completion": "Good day."}, BAD[reason])
    found, report = read(path)
    assert len(found) == 1 and report.skipped == {reason: 1} and report.examples[0].line == 2


def test_a_file_without_a_usable_line_is_an_error_with_the_number_of_the_first(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(lines(tmp_path / "a.jsonl", "", {"messages": [USER]}))
    assert caught.value.line == 1 and caught.value.expected.startswith('on each line, {"prompt"')


@pytest.mark.parametrize(
    "content",
    [json.dumps([USER]), json.dumps({"messages": [USER]}), json.dumps([[USER]]), json.dumps([USER], indent=1),
     json.dumps([USER]) + "\n\n", json.dumps([{"messages": [USER]}])],
)  # fmt: skip
def test_conversations_to_answer_are_read_from_json_and_json_lines(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    assert read_chats(str(tmp_path / "a.json")) == [[USER]]
    many = lines(tmp_path / "b.jsonl", [USER], {"messages": [USER, ANSWER, USER]})
    assert read_chats(str(many)) == [[USER], [USER, ANSWER, USER]]


@pytest.mark.parametrize(("content", "line"), [("[]", 1), ("[{}]", 1), ("3", 1), ("[[]]\n{", 2), ('{"a": 1}', 1)])
def test_what_is_no_conversation_is_an_error_with_its_line(tmp_path: Path, content: str, line: int) -> None:
    first = json.dumps([USER]) if content.startswith("[[]]") else ""
    (tmp_path / "a.jsonl").write_text(content.replace("[[]]", first) if first else content)
    with pytest.raises(DataError) as caught:
        read_chats(str(tmp_path / "a.jsonl"))
    assert caught.value.line == line
