"""Files that aren't text are named as what they are."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from clearhead.readers.lines import read_lines

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
        *((TEXT.encode(name), name.upper()) for name in ("utf-16", "utf-32")),
        *(
            (mark + TEXT.encode(f"utf-{bits}-be"), f"UTF-{bits}")
            for bits, mark in ((16, b"\xfe\xff"), (32, b"\0\0\xfe\xff"))
        ),
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
