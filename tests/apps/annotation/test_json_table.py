"""JSON Lines that get new keys and stay the same otherwise."""

import json

import pytest

from clearhead.apps.annotation.json_table import JsonTable
from clearhead.errors import DataError

from .conftest import Open, answered, texts_of

LINES = b'{"id":1, "text" : "a \\u00e9" }\r\n\r\n  {"text": null, "n": 1.10}\n{}\n{"text": 1.10, "list": [{"a": 1}]}'


def test_new_keys_follow_the_bytes_of_each_object(opened: Open) -> None:
    table = opened(LINES, "text", name="table.jsonl")
    assert isinstance(table, JsonTable) and texts_of(table) == ["a \u00e9", "", "", "1.10"]
    assert answered(table) == (
        b'{"id":1, "text" : "a \\u00e9", "length": 3 }\r\n\r\n  {"text": null, "n": 1.10, "length": null}\n'
        b'{"length": null}\n{"text": 1.10, "list": [{"a": 1}], "length": 4}'
    )
    assert all(json.loads(line) for line in answered(table).splitlines() if line.strip())


def test_an_array_with_an_element_per_line_stays_one(opened: Open) -> None:
    content = b'\xef\xbb\xbf[\n{"text": "a"},\n{"text": "bc"}\n]\n'
    assert (
        answered(opened(content, "text"))
        == b'\xef\xbb\xbf[\n{"text": "a", "length": 1},\n{"text": "bc", "length": 2}\n]\n'
    )
    assert json.loads(answered(opened(b'[{"text": "a"},\n{"text": "bc"}]', "text"))) == [
        {"text": "a", "length": 1}, {"text": "bc", "length": 2}
    ]  # fmt: skip


def test_a_key_of_any_line_makes_the_new_one_another(opened: Open) -> None:
    content = b'{"text": "a"}\n' * 300 + b'{"text": "b", "length": "x"}\n'
    assert answered(opened(content, "text")).endswith(b'{"text": "b", "length": "x", "length_2": 1}\n')


def test_keys_are_nested_joined_rare_or_detected(opened: Open) -> None:
    content = b'{"a": {"b": "x y"}, "c": ["d", "e"]}\n{"a": {}}\n{"c": "f", "rare": "g"}\n'
    assert texts_of(opened(content, "a.b,c")) == ["x y d e", "", "f"]
    assert texts_of(opened(content, "rare")) == ["", "", "g"]
    assert texts_of(opened(b'{"id": "7", "review": "fine"}\n')) == ["fine"]
    assert texts_of(opened(b'{"": 7, "review": "fine"}\n')) == ["fine"]


@pytest.mark.parametrize(
    ("content", "columns", "line"),
    [
        (b'{"text": "a"}\n{"text": "b"\n', "text", 2),
        (b'{"text": "a"}\n\n{"text": {"a": 1}}\n', "text", 3),
        (b'{"text": "a"}\n{"text": "caf\xe9"}\n', "text", 2),
        (b'{"text": "a"}\n{"text": "a", "text": "b"}\n', "text", 2),
        (b'{"text": "a"}\n[1]\n', "text", 2),
        (b'{\n"text": "a"\n}\n', "text", None),
        (b'{"text": "a"}\n', "no", None),
        (b'{"a": "the dog sat", "b": "the cat sat"}\n', "", None),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_line(opened: Open, content, columns, line) -> None:
    with pytest.raises(DataError) as caught:
        answered(opened(content, columns))
    assert caught.value.line == line


def test_half_of_a_character_is_read_as_a_replacement(opened: Open) -> None:
    [row] = opened(b'{"text": "a \\ud800"}\n', "text").rows()
    assert row.texts == ("a \ufffd",) and row.damaged


def test_an_answer_has_no_line_breaks_of_unicode(opened: Open) -> None:
    table = opened(b'{"text": "a"}\n', "text")
    written = table.start({"new": "text"}) + table.written([*table.rows()], [["b\u2028c"]])
    assert written == b'{"text": "a", "new": "b\\u2028c"}\n' and json.loads(written)["new"] == "b\u2028c"
