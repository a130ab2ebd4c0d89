"""Files that aren't text are named as what they are."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from clearhead.readers import lines
from clearhead.readers.lines import read_blocks, read_head, read_lines, read_whole, to_utf8

from .conftest import error_of, written


def zipped(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return content.getvalue()


def tarred() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("x"))
    return content.getvalue()


TEXT = "I am hungry.\tJ'ai faim.\n" * 9


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (TEXT.encode("utf-32"), "UTF-32"),
        (b"\0\0\xfe\xff" + TEXT.encode("utf-32-be"), "UTF-32"),
        *(
            (TEXT.encode(f"utf-{name}"), f"UTF-{name.upper().replace('-', '')}")
            for name in ("16-le", "16-be", "32-le", "32-be")
        ),
        (b"%PDF-1.7\n%\xe2\xe3\n", "PDF"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "JPEG"),
        (b"GIF89a\x01\0", "GIF"),
        (zipped("a.txt"), "zip"),
        (zipped("[Content_Types].xml", "word/document.xml"), "office document"),
        (zipped("mimetype")[:38] + b"application/vnd.oasis.opendocument.text", "office document"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "old office document"),
        (tarred(), "tar"),
        (b"BZh91AY&SY rest", "bzip2"),
        (b"(\xb5/\xfd rest", "zstandard"),
        (b"7z\xbc\xaf\x27\x1c rest", "7z"),
        (b"SQLite format 3\0", "SQLite"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_text_is_named_as_what_it_is(content: bytes, kind: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x", content)
    error = error_of(list, read_lines(path))
    assert kind in error.what and error.name == str(path) and error.expected
    if kind.startswith("UTF"):
        assert error.value == kind and f"iconv -f {kind} -t UTF-8" in error.fix


@pytest.mark.parametrize(
    "text", ["PK is a pack", "ID3 tags", "PAR1 is a file", "GIFs", "BZh9 and so on", "%PDF", "MZ", "Rar!"]
)
def test_a_text_that_begins_like_a_format_is_text(text: str, tmp_path: Path) -> None:
    assert [*read_lines(written(tmp_path / "x", text))] == [text.encode()]


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf_16_with_a_byte_order_mark_is_read(mark: bytes, tmp_path: Path) -> None:
    text = "é\t🌻\n\u010a\n" * 50_000  # which is longer than a block; U+010A contains a byte 0x0A
    path = written(tmp_path / "x", mark + text.encode("utf-16-le" if mark[0] == 0xFF else "utf-16-be"))
    expected = text.encode().splitlines()
    assert [*read_lines(path)] == expected and read_whole(path) == text.encode()
    assert [line for block in read_blocks(path) for line in block] == text.encode().splitlines(keepends=True)
    half = written(tmp_path / "half", mark + "a\ud800b\nc\n".encode("utf-16-le", "surrogatepass"))
    if mark[0] == 0xFF:
        assert [lines.decode(line) for line in read_lines(half)] == [None, "c"]
    cut = written(tmp_path / "cut", path.read_bytes()[:-1])
    assert error_of(list, read_lines(cut)).name == str(cut)


def test_a_line_of_a_table_has_a_limit_and_one_of_running_text_has_none(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(lines, "MOST_BYTES", 1000)
    assert sum(map(len, read_lines(written(tmp_path / "x", b"a" * 998 + b"\n" + b"b" * 999)))) > 0
    path = written(tmp_path / "y", b"a\n" + b"b" * 5000)
    assert read_head(path) == [b"a", b"b" * 1000]
    assert list(read_blocks(path)) == [[b"a\n", b"b" * 5000]]
    error = error_of(list, read_lines(path))
    assert error.line == 2 and error.name == str(path) and error.expected and error.fix


def test_advice_on_an_encoding_names_it_or_shows_candidates() -> None:
    quoted = ["“café” costs 5 €".encode("cp1252"), b"and so on", "naïve…".encode("cp1252")]
    assert "iconv -f WINDOWS-1252 -t UTF-8" in to_utf8(quoted) and "“café” costs 5 €" in to_utf8(quoted)
    for text, encoding, name in (
        ("Привет мир", "cp1251", "WINDOWS-1251"), ("déjà vu", "latin-1", "WINDOWS-1252"),
        ("日本語のテキスト", "shift_jis", "SHIFT_JIS"), ("简体中文", "gb18030", "GB18030"),
    ):  # fmt: skip
        advice = to_utf8([text.encode(encoding)])
        assert advice.startswith("find out the file's encoding") and "iconv -f ENCODING -t UTF-8" in advice
        assert any(row.split() == [name, *f'"{text}"'.split()] for row in advice.splitlines())
    assert to_utf8([b"text"]) == ""
