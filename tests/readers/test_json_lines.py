"""One object a line."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.readers.pairs import read_pairs

from .conftest import both

PAIRS = [("I am hungry.", "J'ai faim."), ('"Yes"\tor\nno', "Oui\u2028non"), ("é🌻", "{}")]
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).filter(str.strip)


def lines(objects, **form: object) -> str:
    return "".join(json.dumps(it, **form) + "\n" for it in objects)


@given(rows=st.lists(st.tuples(text, text), min_size=1), ascii=st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_strings_objects_hold_they_are_read(rows, ascii: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(lines([{"en": en, "fr": fr} for en, fr in rows], ensure_ascii=ascii), encoding="utf-8", newline="")
    assert both(read_pairs([path])) == rows


@pytest.mark.parametrize(
    ("make", "source", "target"),
    [
        (lambda en, fr: {"en": en, "fr": fr}, "en", "fr"),
        (lambda en, fr: {"question": en, "answer": fr}, "question", "answer"),
        (lambda en, fr: {"target": fr, "source": en}, "source", "target"),
        (lambda en, fr: {"translation": {"en": en, "fr": fr}}, "translation.en", "translation.fr"),
        (lambda en, fr: {"id": "7", "n": 7, "translation": {"en": en, "fr": fr}}, "translation.en", "translation.fr"),
        (lambda en, fr: {"id": "7", "tags": ["a"], "src": en, "tgt": fr, "by": "me"}, "src", "tgt"),
        (lambda en, fr: {"id": "x7", "text": fr, "en": en, "sh": fr, "sr": fr}, "en", "sr"),
    ],
)
def test_the_keys_are_found_by_looking(read, make, source: str, target: str) -> None:
    pairs = read(lines(make(*pair) for pair in PAIRS))
    assert both(pairs) == PAIRS
    assert pairs.report.form == f"JSON lines, source in {source}, target in {target}"
    assert list(pairs.lines) == [1, 2, 3]
    assert both(read(lines(make(*pair) for pair in PAIRS), reverse=True)) == [pair[::-1] for pair in PAIRS]


def test_keys_are_asked_for_by_name_dotted_where_they_are_nested(read) -> None:
    content = lines({"a": {"b": {"c": en}}, "x.y": fr, "z": "z"} for en, fr in PAIRS)
    assert both(read(content, source_column="a.b.c", target_column="x.y")) == PAIRS
    assert both(read(content, source_column="x.y", target_column="1")) == [pair[::-1] for pair in PAIRS]


def test_which_keys_are_meant_has_to_be_told_where_nothing_tells(refused, tmp_path: Path) -> None:
    assert str(refused(lines([{"a": "1", "b": "2", "c": "3"}]))) == (
        f"{tmp_path}/pairs has JSON objects with 3 keys of strings\n"
        '  line 1: "{"a": "1", "b": "2", "c": "3"}"\n'
        "  keys: a, b, c\n"
        "  expected: two keys, or known names\n"
        "  name the keys: `data.source_column=KEY` and `data.target_column=KEY`"
    )
    assert refused(lines([{"en": "a"}])).value == ("en",)
    assert refused(lines([{"en": 1, "fr": ["b"]}])).value == ()
    rows = lines([{"id": "1", "source": "a", "target": "b"}])
    error = refused(rows, source_column="sorce", target_column="target")
    assert error.value == "sorce" and "'source'" in error.fix


def test_every_unusable_line_is_counted_and_shown_with_number_and_reason(read) -> None:
    good = '{"en": "a", "fr": "b"}'
    bad = [
        '{"en": "a", "fr": "b"',
        '["a", "b"]',
        '{"en": "a"}',
        '{"en": "a", "fr": null}',
        '{"en": "a", "fr": 3}',
        '{"en": "", "fr": "b"}',
        '{"en": "a", "fr": " "}',
        "",
        '{"en": "a\\u0000", "fr": "b"}',
        '{"en": "a\\ud800", "fr": "b"}',
        '{"en": "a", "fr": ' + "1" * 5000 + "}",
        "[" * 100_000,
        "a\tb",
    ]
    content = "\n".join([*[good] * 20, *bad]).encode() + b'\n{"en": "\xff"}\n' + good.encode()
    pairs = read(content)
    assert len(pairs) == 21 and list(pairs.lines)[-1] == 20 + len(bad) + 2
    assert pairs.report.skipped == {
        "not JSON": 4, "not a JSON object": 1, "no key fr": 1, "no string in fr": 2, "empty source": 1,
        "empty target": 1, "blank line": 1, "NUL character": 1, "half of a surrogate pair": 1, "not UTF-8": 1,
    }  # fmt: skip
    assert '    line 24: "{"en": "a", "fr": null}"' in str(pairs.report)


def test_a_key_whose_parent_is_missing_or_no_object_is_told(read) -> None:
    rows = [*[{"translation": {"en": "a", "fr": "b"}}] * 2, {"translation": "a"}, {}]
    assert read(lines(rows)).report.skipped == {"no key translation.en": 2}


def test_json_that_is_no_json_lines_is_refused_with_the_way_to_convert_it(refused) -> None:
    rows = [{"en": "a", "fr": "b"}]
    for indent in (None, 1):
        assert "jq -c '.[]' FILE" in refused(json.dumps(rows, indent=indent)).fix
    assert "jq -c . FILE" in refused(json.dumps(rows[0], indent=1)).fix


@pytest.mark.parametrize(("begin", "end"), [("[\n", "\n]\n"), ("[", "]"), ("", ",\n"), ("[\r\n ", "]\r\n")])
def test_an_array_with_an_element_per_line_is_read(read, begin: str, end: str) -> None:
    rows = [json.dumps({"en": f"a, {n}]", "fr": f"[b{n},"}) for n in range(5)]
    pairs = read(begin + ",\n".join(rows) + end)
    assert both(pairs) == [(f"a, {n}]", f"[b{n},") for n in range(5)]
    assert pairs.report.lines == 5 and not pairs.report.skipped


def test_a_repeated_key_is_an_error(read, refused) -> None:
    twice = '{"en": "a", "fr": "b", "en": "c"}\n'
    assert "repeated key" in refused(twice * 3).what
    assert read(lines([{"en": "a", "fr": "b"}]) + twice).report.skipped == {"repeated key": 1}


def test_the_other_side_of_a_key_that_is_asked_for_is_detected(read, refused) -> None:
    rows = lines([{"id": n, "translation": {"en": f"I have {n} cats.", "fr": f"J'ai {n} chats."}} for n in range(9)])
    for asked in ({"source_column": "translation.en"}, {"target_column": "translation.fr"}, {"target_column": "2"}):
        assert both(read(rows, **asked))[0] == ("I have 0 cats.", "J'ai 0 chats.")


def test_the_line_that_is_shown_has_its_own_number(refused) -> None:
    assert refused("\n \n" + lines([{"a": "1", "b": "2", "c": "3"}])).line == 3


@pytest.mark.parametrize(
    "line",
    [
        "{'en': 'Hi.', 'fr': 'Salut %d.'}",
        '{ "en": "Hi.", "fr": "Salut %d."',
        '{"en": "so "called", "fr": "Salut %d."}',
    ],
)
def test_broken_objects_are_no_table(refused, line: str, tmp_path: Path) -> None:
    error = refused("\n" + "".join(line % i + "\n" for i in range(20)))
    assert error.line == 2 and line % 0 in error.what and "data.separator" in error.fix


def test_a_table_of_texts_that_look_like_json_is_a_table(read) -> None:
    assert both(read("{a}\tb\n[{\tc\n")) == [("{a}", "b"), ("[{", "c")]
    assert both(read('{"a": 1}\tone\n{"b": 2}\ttwo\n')) == [('{"a": 1}', "one"), ('{"b": 2}', "two")]
    assert both(read('{"a": "b"}|c\n', separator="|")) == [('{"a": "b"}', "c")]
