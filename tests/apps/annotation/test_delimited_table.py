"""CSV and TSV files that get new columns and stay the same otherwise."""

import csv
import gzip
import io
import random
import tracemalloc
from functools import partial
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from clearhead.apps.annotation import table_file
from clearhead.apps.annotation.open_table import open_table
from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.readers.column_roles import SENTENCES
from clearhead.readers.files import Input

from .conftest import Open, answered, texts_of

QUOTED = b'id,text,note\r\n1,"a, ""b""\r\nc",x\r\n\r\n2,"d","  y "\r\n3,,z'


def test_new_cells_follow_the_bytes_of_each_row(opened: Open) -> None:
    table = opened(QUOTED, "text")
    assert texts_of(table) == ['a, "b"\r\nc', "d", ""]
    assert (
        answered(table, "label", "probability")
        == b'id,text,note,label,probability\r\n1,"a, ""b""\r\nc",x,9,9\r\n\r\n2,"d","  y ",1,1\r\n3,,z,,'
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfid;text\n1;a b\n", b"\xef\xbb\xbfid;text;length\n1;a b;3\n"),
        (b"sep=;\nid;text\n1;a b\n", b"sep=;\nid;text;length\n1;a b;3\n"),
        (b'id\ttext\n1\t"a\n2\tb"c\n', b'id\ttext\tlength\n1\t"a\t2\n2\tb"c\t3\n'),
        (b"id,text\n1,a\n\n \n2,b\n\n\n", b"id,text,length\n1,a,1\n\n \n2,b,1\n\n\n"),
        (b"text\na b\nc\n", b"text,length\na b,3\nc,1\n"),
        (b'text\n"a, b"\n"c, d"\n', b'text,length\n"a, b",4\n"c, d",4\n'),
        (b"id,text\n", b"id,text,length\n"),
        (b"id,text", b"id,text,length"),
        (b'text\n""\n\n" "\na\n', b'text,length\n"",\n\n" ",\na,1\n'),
        (b"text\n", b"text,length\n"),
        ("id,text,\xe9\n1,a,".encode() + b"\xe9\xff\n", "id,text,\xe9,length\n1,a,".encode() + b"\xe9\xff,1\n"),
        (b"id,text,length\n1,a b,x\n", b"id,text,length,length_2\n1,a b,x,3\n"),
        (b"id,text,Length,length_2\n1,a b,x,y\n", b"id,text,Length,length_2,length_3\n1,a b,x,y,3\n"),
        (b"n,text,n\n1,a b,2\n", b"n,text,n,length\n1,a b,2,3\n"),
        (b"text,n\na,1\nbc,2\n".replace(b"text,n", b"text,n,"), None),
    ],
)
def test_whatever_a_table_has_stays(opened: Open, content: bytes, expected: bytes | None) -> None:
    if expected is None:
        with pytest.raises(DataError):
            answered(opened(content, "text"))
    else:
        assert answered(opened(content, "text")) == expected


def test_a_table_of_r_without_a_name_for_its_row_numbers(opened: Open) -> None:
    content = b"text\tn\n" + b"".join(b"%d\ta word or %d\t5\n" % (n, n) for n in range(1, 5))
    assert answered(opened(content, "text")).splitlines()[:2] == [b"text\tn\tlength", b"1\ta word or 1\t5\t11"]


def test_columns_are_joined_and_chosen_by_number_or_detected(opened: Open) -> None:
    content = b"id,subject,body\n1,a,b c\n2,,d\n"
    assert texts_of(opened(content, "subject,body")) == ["a b c", "d"]
    assert texts_of(opened(content, "3")) == ["b c", "d"] and opened(content, "3").used == ["body"]
    assert texts_of(opened(content)) == ["b c", "d"]  # a body is a text
    rows = b"".join(b"%d,the dog and the cat %d\n" % (n, n) for n in range(5))
    assert texts_of(opened(rows))[0] == "the dog and the cat 0" and opened(rows).used == ["2"]
    assert answered(opened(rows)).splitlines()[0] == b"0,the dog and the cat 0,21"


@pytest.mark.parametrize(
    ("content", "columns", "line"),
    [
        (b"id,text\n1,a\n2,b,c\n", "text", 3),
        (b"id,text\n1,a\n2\n", "text", 3),
        (b'id,text\n1,"a\nb"\n2,"c\n3,d\n', "text", 4),
        (b'id,text\n1,a\n\n2,"a"b\n', "text", 4),
        (b"text,text\na,b\n", "text", 1),
        (b"only words\nin lines\n", "", 1),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_line(opened: Open, content, columns, line) -> None:
    with pytest.raises(DataError) as caught:
        answered(opened(content, columns, name="table.csv" if columns else "table.txt"))
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("content", "columns"),
    [(b"a,b\n1,2\n", "c"), (b"a,b\n1,2\n", ""), (b"a,b\nthe dog sat,the cat sat\n", ""), (b"a,b\n1,2\n", ",")],
)
def test_columns_that_are_not_there_or_not_clear_are_errors_that_list_them(opened: Open, content, columns) -> None:
    with pytest.raises(DataError, match="columns") as caught:
        opened(content, columns)
    assert "a" in str(caught.value) and "b" in str(caught.value)


def test_an_empty_file_is_an_error(opened: Open) -> None:
    with pytest.raises(DataError, match="empty"):
        opened(b"")


def test_one_of_two_columns_with_the_same_name_is_chosen_by_number(opened: Open) -> None:
    assert texts_of(opened(b"text,text\na,b\n", "2")) == ["b"]


def test_the_separator_of_the_training_is_only_used_if_the_table_has_it(opened: Open) -> None:
    assert texts_of(opened(b"id|text\n1|a,b\n", "text", separator="|")) == ["a,b"]
    assert texts_of(opened(b"id,text\n1,a\n", "text", separator="|")) == ["a"]
    with pytest.raises(DataError) as caught:
        open_table(opened(b"id,text\n1,a\n", "text").file, DataConfig(separator="|"), own_separator=True)
    assert (caught.value.name, caught.value.value) == ("data.separator", "|")


def test_bytes_that_are_not_utf_8_are_read_as_replacements_and_stay(opened: Open) -> None:
    table = opened(b"id,text\n1,caf\xe9\n", "text")
    [row] = table.rows()
    assert row.texts == ("caf\ufffd",) and row.damaged
    assert answered(table) == b"id,text,length\n1,caf\xe9,4\n"


def test_gzip_and_utf_16_are_written_as_plain_utf_8(opened: Open) -> None:
    assert answered(opened(gzip.compress(b"id,text\n1,a\n"), "text")) == b"id,text,length\n1,a,1\n"
    assert answered(opened("id,text\n1,\xe9\n".encode("utf-16"), "text")) == "id,text,length\n1,\xe9,1\n".encode()


def test_a_cell_may_have_ten_million_letters_and_lines(opened: Open) -> None:
    long = b"word\n" * 2_000_000
    table = opened(b'id,text\n1,"' + long + b'"\n2,b\n', "text")
    assert [len(text) for text in texts_of(table)] == [len(long), 1]
    assert answered(table) == b'id,text,length\n1,"' + long + b'",10000000\n2,b,1\n'


def test_a_quote_that_is_never_closed_does_not_fill_the_memory(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.apps.annotation.delimited_table.MOST_BYTES", 1000)
    table = opened(b'id,text\n1,a\n2,"b\n' + b"3,c\n" * 1000, "text")
    with pytest.raises(DataError) as caught:
        texts_of(table)
    assert caught.value.line == 3


def test_new_cells_are_quoted_if_they_need_it(opened: Open) -> None:
    table = opened(b"id,text\n1,a\n", "text")
    [row] = table.rows()
    new = [["yes, no", 'a "b"', "c\nd", None, 0.5, [1.0, 2.0], float("nan")]]
    assert table.written([row], new) == b'1,a,"yes, no","a ""b""","c\nd",,0.5,"[1.0, 2.0]",\n'
    table = opened(b'id\ttext\n1\t"a\n', "text")
    [row] = table.rows()
    assert table.written([row], [["a\tb", 'c "d"']]) == b'1\t"a\ta b\tc "d"\n'


CELLS = st.lists(st.sampled_from([*"ab \u00e9\"',;\t\n", "\r\n"]), max_size=8).map("".join)


@hypothesis.given(
    st.lists(st.tuples(CELLS, CELLS), min_size=1),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_every_table_of_a_csv_writer_keeps_its_bytes_and_is_read_as_it_was_written(tmp_path, rows, end, quoting):
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator=end, quoting=quoting)
    writer.writerows([("text", "other"), *rows])
    content, path = stream.getvalue().encode(), tmp_path / "table.csv"
    path.write_bytes(content)
    table = open_table(Input(path), DataConfig(source_column="text", separator=","))
    assert texts_of(table) == [text for text, _ in rows]
    read = list(csv.reader(io.StringIO(answered(table).decode(), newline="")))
    assert read == [["text", "other", "length"], *([*row, str(len(row[0])) if row[0].strip() else ""] for row in rows)]
    assert b"".join(row.content.encode() for row in table.rows()) == content.partition(end.encode())[2]


def test_memory_does_not_grow_with_the_table(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def peak(n_rows: int) -> int:
        table = opened(b"id,text\n" + b"1,a text of some length that is read\n" * n_rows, "text")
        tracemalloc.start()
        assert table.extent.rows == n_rows
        for group in table.groups():
            table.written(group, [[1]] * len(group))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    monkeypatch.setattr(table_file, "MOST_ROWS", 100)
    peak(100)
    assert peak(20_000) < 1.5 * peak(2_000)


def test_bytes_of_a_large_table_stay(tmp_path: Path) -> None:
    dice, stream = random.Random(0), io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["id", "text", "note"])
    for n in range(100_000):
        writer.writerow([n, "the dog, and" * dice.randrange(3), dice.choice(['"', "", "a\nb", "\u00e9 "])])
    path = tmp_path / "table.csv"
    path.write_text(stream.getvalue(), encoding="utf-8", newline="")
    table = open_table(Input(path), DataConfig(source_column="text"))
    written = csv.reader(io.StringIO(answered(table).decode(), newline=""))
    assert [row[:3] for row in written] == list(csv.reader(io.StringIO(stream.getvalue(), newline="")))
    assert "".join(row.content for row in table.rows()) == stream.getvalue().partition("\r\n")[2]


def test_a_model_of_the_other_direction_reads_the_second_language(opened: Open) -> None:
    content = b"en,fr\nI am here.,Je suis la.\n"
    open_sentences = partial(open_table, opened(content, "en").file, roles=SENTENCES)
    assert [texts_of(open_sentences(DataConfig(reverse=it))) for it in (False, True)] == [
        ["I am here."],
        ["Je suis la."],
    ]
    asked = DataConfig(source_column="en", target_column="fr", reverse=True)
    assert texts_of(open_sentences(asked)) == ["Je suis la."]


def test_the_extent_counts_bytes(opened: Open) -> None:
    assert opened("id,text\n1,\u0436\u0436\n2,a\n".encode(), "text").extent.text_bytes == 5
