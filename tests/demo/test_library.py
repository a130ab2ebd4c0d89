"""The source of the standard library: what is taken, what is held out, and what gzip and xz make of it."""

import gzip
import json
import lzma
from pathlib import Path

import pytest

from clearhead.config import DataConfig
from clearhead.data.forms import TextForm
from clearhead.demo import library
from clearhead.demo.library import SourceFile
from clearhead.errors import DataError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small library, with what is to be left out of it."""
    files = {f"mod{n}.py": f"def f{n}(x):\n\treturn x + {n}\n" for n in range(60)}
    files |= {"deep/er/é.py": "# é\n", "site-packages/a.py": "a = 1\n", "unittest/test/b.py": "b = 1\n"}
    files |= {"idlelib/idle_test/c.py": "c = 1\n", "empty.py": "\n", "nul.py": "\0", "notes.txt": "no code"}
    for name, text in files.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "lib" / "latin.py").write_bytes(b"# caf\xe9\n")
    return tmp_path / "lib"


def test_all_source_is_taken_but_tests_packages_and_what_is_no_text(root: Path) -> None:
    training, held_out = library.split(root)
    paths = {it.path for it in [*training, *held_out]}
    assert paths == {f"mod{n}.py" for n in range(60)} | {"deep/er/é.py"}
    assert not {it.path for it in training} & {it.path for it in held_out}
    for part in (training, held_out):
        assert [it.path for it in part] == sorted(it.path for it in part)
        assert all(it.text == (root / it.path).read_text(encoding="utf-8") for it in part)


def test_a_file_is_held_out_by_its_path_alone_and_about_one_of_twenty() -> None:
    held_out = [SourceFile(f"{n}.py", "").is_held_out for n in range(4000)]
    assert 150 < sum(held_out) < 250
    assert held_out == [SourceFile(f"{n}.py", "other text").is_held_out for n in range(4000)]


def test_the_library_of_this_python_has_files_of_both_kinds() -> None:
    assert library.folder().is_dir() and (library.folder() / "os.py").exists()


def test_a_python_without_its_source_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        library.split(tmp_path)
    assert caught.value.name == str(tmp_path) and caught.value.value == 0


def test_the_files_are_read_back_as_they_are(root: Path, tmp_path: Path) -> None:
    training, _ = library.split(root)
    (tmp_path / "train.jsonl").write_bytes(library.as_json_lines(training))
    read = TextForm().read([str(tmp_path / "train.jsonl")], DataConfig())
    assert [piece.text for piece in read.pieces] == [it.text for it in training]
    first = json.loads((tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first == {"path": training[0].path, "text": training[0].text}


def test_the_sizes_are_those_of_gzip_and_xz_of_the_files_in_a_row(root: Path) -> None:
    training, held_out = library.split(root)
    before, text = ("".join(it.text for it in part).encode() for part in (training, held_out))
    found = library.packed(training, held_out)
    assert found.gzip == 8 * len(gzip.compress(text, 9)) / len(text)
    assert found.xz == 8 * len(lzma.compress(text, preset=9)) / len(text)
    both, alone = (len(lzma.compress(data, preset=9)) for data in (before + text, before))
    assert found.xz_after == 8 * (both - alone) / len(text)
    assert found.xz_after < found.xz  # it has seen such files
