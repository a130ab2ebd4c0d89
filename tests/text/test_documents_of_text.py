"""Running text: files, folders, JSON lines, and what is held out of it."""

import errno
import gzip
import io
import json
import lzma
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.text.documents import Document, Documents, split_documents

from .conftest import written

any_text = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    .filter(lambda text: text.strip() and not text.startswith(("\ufeff", "PK\x03\x04", "BZh")))
    .filter(lambda text: "\n" in text or "\r" not in text)
)


def read(*paths: Path | str, **options: object) -> tuple[list[tuple[str, str]], str]:
    with Documents(paths, DataConfig(**options)) as documents:
        found = [(it.name, it.text) for it in documents]
        assert [(it.name, it.text) for it in documents] == found
        return found, str(documents.report)


def refusal(*paths: Path | str, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read(*paths, **options)
    return str(caught.value)


# --- files and folders


@given(text=any_text, pack=st.sampled_from([bytes, gzip.compress, lzma.compress]), mark=st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_text_comes_as_it_stands_in_the_file(text: str, pack, mark: bool, tmp_path: Path) -> None:
    path = written(tmp_path / "x", pack(("\ufeff" * mark + text).encode()))
    assert read(path)[0] == [(str(path), text)]


def test_a_folder_is_read_with_all_that_is_in_it_in_natural_order(tmp_path: Path) -> None:
    for name in ("b/part-10.txt", "b/part-2.txt", "a.py", "c/d/e", ".hidden", ".git/x", "b/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        written(tmp_path / name, "" if "init" in name else f"{name}\r\n\n")
    written(tmp_path / "z.gz", gzip.compress(b"packed\n", mtime=0))
    written(tmp_path / "cover.png", bytes(range(256)) * 9)
    os.mkfifo(tmp_path / "pipe")
    found, said = read(tmp_path)
    names = ("a.py", "b/part-2.txt", "b/part-10.txt", "c/d/e")
    assert found == [*((f"{tmp_path}/{name}", f"{name}\r\n\n") for name in names), (f"{tmp_path}/z.gz", "packed\n")]
    n_letters = sum(len(text) for _, text in found)
    assert said == (
        f"{tmp_path} (5 files): text, {n_letters} characters in 5 documents; 9 of 9 lines used\n"
        "  passed over 2 of 7 files:\n"
        f"    {tmp_path}/b/__init__.py is empty; expected lines of text\n"
        f"    {tmp_path}/cover.png is no text in UTF-8: 10 of its 10 lines cannot be read; "
        "to convert: iconv -f LATIN1 -t UTF-8"
    )


def test_several_files_follow_each_other_and_standard_input_is_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from the pipe\n")))
    path = written(tmp_path / "x", "one\n")
    assert read(path, "-")[0] == [(str(path), "one\n"), ("standard input", "from the pipe\n")]


def test_the_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = written(tmp_path / "x", "one\n")
    first = Documents([path]).digest()
    assert Documents([path]).digest() == first != Documents([written(path, "two\n")]).digest()


# --- what is left out


def test_lines_that_cannot_be_read_are_left_out_counted_and_shown(tmp_path: Path) -> None:
    written(tmp_path / "a", b"one\n\xff two\nthree\r\nfo\0ur" + 96 * b"." + b"\n five\n\xff")
    written(tmp_path / "b", b"six\nse\xffven\neight\n")
    found, said = read(tmp_path)
    assert [text for _, text in found] == ["one\nthree\r\n five\n", "six\neight\n"]
    assert said.splitlines() == [
        f"{tmp_path} (2 files): text, 27 characters in 2 documents; 5 of 9 lines used",
        "  skipped 3: not UTF-8",
        f'    {tmp_path}/a line 2: "\\xff two"',
        f'    {tmp_path}/a line 6: "\\xff"',
        f'    {tmp_path}/b line 2: "se\\xffven"',
        "  skipped 1: NUL character",
        f'    {tmp_path}/a line 4: "fo\\x00ur{74 * "."}…"',
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; expected lines of text"),
        ("café\n".encode("latin-1") * 3, "is no text in UTF-8: 3 of its 3 lines cannot be read; to convert: iconv"),
        ("text\n".encode("utf-16"), "is UTF-16; expected UTF-8"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (gzip.compress(b"text\n" * 99, mtime=0)[:-9], "is damaged or cut off"),
        (b'{"title": "a"}\n', "has JSON objects without a string in text"),
    ],
)
def test_what_is_no_text_is_refused_if_named_and_passed_over_in_a_folder(
    tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "folder").mkdir()
    path = written(tmp_path / "folder" / "x", content)
    assert said in refusal(path)
    with pytest.raises(DataError, match="x"):
        read(tmp_path / "folder")
    other = written(tmp_path / "folder" / "y", "text\n")
    found, report = read(tmp_path / "folder")
    assert found == [(str(other), "text\n")] and "passed over 1 of 2 files" in report and said in report
    assert said in refusal(other, path)


def test_links_are_followed_once_and_those_to_nothing_are_told(tmp_path: Path) -> None:
    for name in ("elsewhere", "data/own"):
        (tmp_path / name).mkdir(parents=True)
    written(tmp_path / "elsewhere" / "x", "far\n")
    written(tmp_path / "data" / "own" / "y", "near\n")
    data = tmp_path / "data"
    for name, target in (("circle", data), ("own/up", data), ("far", tmp_path / "elsewhere"), ("again", data / "own"),
                         ("file", tmp_path / "elsewhere" / "x"), ("nothing", tmp_path / "none")):  # fmt: skip
        (data / name).symlink_to(target)
    found, said = read(data)
    assert found == [
        (f"{data}/{name}", text) for name, text in (("far/x", "far\n"), ("file", "far\n"), ("own/y", "near\n"))
    ]
    assert said.endswith(f"\n  passed over 1 of 4 files:\n    {data}/nothing is a link to nothing")
    assert Documents([data]).digest()


def test_a_list_of_objects_is_learnt_as_it_stands_which_is_said(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for content in ('[{"text": "one"}, {"text": "two"}]\n', '[\n  {\n "text": "one"}\n]\n'):
        path = written(tmp_path / "folder" / "x.json", content)
        found, said = read(path)
        assert found == [(str(path), content)]
        assert said.endswith(
            f"\n  {path} is a list of JSON, learnt as it stands; for the texts in it: jq -c '.[]' FILE"
        )
        assert "list of JSON" not in read(tmp_path / "folder")[1], "in a folder of sources it is one of them"
    assert "list of JSON" not in read(written(tmp_path / "y", "[1] see {x}\n"))[1]


def test_where_there_is_no_text_that_is_said(tmp_path: Path) -> None:
    assert refusal() == "no text is named; expected a file of text, a folder of such, or - for standard input"
    assert refusal("-", "-") == "standard input, -, was named twice; it is read to its end by the first of them"
    assert refusal(tmp_path) == f"{tmp_path} is a folder without files; expected files of text in it"
    assert "does not exist; expected a file of text" in refusal(tmp_path / "no")
    assert refusal(written(tmp_path / "x", " \n\n")).startswith(f"no text in {tmp_path}/x\n")


def test_a_folder_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch) -> None:
    def refuse(path: str) -> None:  # root could read a folder of any mode
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert refusal(tmp_path) == f"{tmp_path} cannot be read: Permission denied"


def test_a_file_that_ends_too_early_is_an_error_once_some_of_it_was_given(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": os.urandom(999).hex()}) + "\n" for _ in range(999)).encode()
    written(tmp_path / "a.jsonl.gz", gzip.compress(rows, mtime=0)[:-999])
    written(tmp_path / "b", "text\n")
    assert "a.jsonl.gz is damaged or cut off" in refusal(tmp_path)


# --- JSON lines


@given(texts=st.lists(any_text, min_size=1), ascii=st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_of_json_lines_each_is_a_document(texts: list[str], ascii: bool, tmp_path: Path) -> None:
    rows = "".join(json.dumps({"id": 1, "text": text}, ensure_ascii=ascii) + "\n" for text in texts)
    path = written(tmp_path / "x.jsonl", rows)
    assert read(path)[0] == [(f"{path} line {number}", text) for number, text in enumerate(texts, 1)]


def test_the_key_can_be_named_and_faults_are_counted(tmp_path: Path) -> None:
    rows = ['{"a": {"b": "yes"}, "text": "no"}'] * 9
    rows += [
        '{"a": {}}',
        '{"a": {"b": 1}}',
        '{"a": {"b": " "}}',
        '{"a": {"b": "x\\u0000"}}',
        '{"a": {"b": "\\ud800"}}',
        "{",
        "",
    ]
    path = written(tmp_path / "x", "\n".join(rows))
    with Documents([path], DataConfig(source_column="a.b")) as documents:
        assert {it.text for it in documents} == {"yes"}
        assert documents.report.skipped == {
            "no key a.b": 1, "no string in a.b": 1, "empty text": 1, "NUL character": 1, "half of a surrogate pair": 1,
            "not JSON": 1,
        }  # fmt: skip
        assert (documents.report.used, documents.report.lines) == (9, 15)
    assert refusal(path, source_column="c") == (
        f"{path} has JSON objects without a string in c; expected one on each line, "
        f'{{"c": "…"}}, or: --source-column KEY\n  the first: "{rows[0]}"'
    )


def test_a_text_in_which_some_lines_are_objects_is_a_text(tmp_path: Path) -> None:
    text = '{"text": "a"}\nand so on\n'
    assert read(written(tmp_path / "x", text))[0][0][1] == text


# --- what is held out


def joined(documents: list[Document]) -> str:
    return "".join(document.text for document in documents)


@given(
    texts=st.lists(st.text(st.sampled_from("ab\n"), min_size=1), min_size=1),
    share=st.floats(0, 1, exclude_max=True),
)
@settings(deadline=None)
def test_both_parts_are_the_whole_and_the_second_begins_with_a_line(texts: list[str], share: float) -> None:
    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    found, whole = split_documents(documents, share), "".join(texts)
    assert joined(found.train) + joined(found.held_out) == whole
    if not share or len(whole) < 2:
        assert not found.held_out and found.note.startswith("nothing held out")
        return
    assert joined(found.train) and joined(found.held_out)
    last = found.train[-1]
    whole_document = last.text == texts[int(last.name)]
    assert last.text.endswith("\n") or whole_document or ("\n" not in whole[:-1] and len(texts) == 1)


@given(lines=st.lists(st.integers(0, 20), min_size=2, max_size=50), share=st.floats(0.01, 0.99))
@settings(deadline=None)
def test_the_cut_is_the_next_line_end(lines: list[int], share: float) -> None:
    text = "".join("x" * length + "\n" for length in lines)
    train = joined(split_documents([Document("x", text)], share).train)
    place = min(max(1, len(text) - round(share * len(text))), len(text) - 1)
    ends = [end + 1 for end, letter in enumerate(text[:-1]) if letter == "\n"]
    assert len(train) == min((end for end in ends if end >= place), default=ends[-1])


def test_the_words_say_where() -> None:
    documents = [Document("a", "1\n2\n3\n4\n"), Document("b", "5\n6\n")]
    assert split_documents(documents, 0.5).note == "held out the last 6 of 12 characters, from a line 4 on"
    assert split_documents(documents, 0.33).note == "held out the last 4 of 12 characters, from b on"
    assert split_documents(documents, 0).note == "nothing held out: no share is asked for"
    assert split_documents([Document("a", "1")], 0.5).note == "nothing held out: the text has 1 character"
    assert joined(split_documents([Document("a", "0123456789")], 0.1).held_out) == "9"


def test_a_public_text_is_cut_at_its_last_tenth(data_folder: Path) -> None:
    with Documents([data_folder / "tinyshakespeare" / "input.txt.xz"]) as documents:
        found = split_documents(list(documents), 0.1)
    assert 0.0995 < len(joined(found.held_out)) / 1_115_394 <= 0.1
