import json
from pathlib import Path

import numpy as np
import pytest

from clearhead.config import DataConfig
from clearhead.data.media_encoding import AudioLoader
from clearhead.data.spoken_pairs import SpokenForm, learn_codebook
from clearhead.errors import DataError
from tests.builders import tone, write_wave

FORM = SpokenForm()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for n, frequency in enumerate((300, 600, 900)):
        write_wave(tmp_path / f"{n}.wav", tone(frequency))
    path = tmp_path / "said.csv"
    path.write_text("text,path\none,0.wav\ntwo,1.wav\nthree,2.wav\nfour,missing.wav\n,1.wav\n")
    return path


def test_sources_are_texts_and_targets_are_recordings(table: Path) -> None:
    pairs = FORM.read([str(table)], DataConfig())
    assert pairs.sources == ["one", "two", "three"]
    assert pairs.targets == [str(table.with_name(f"{n}.wav")) for n in range(3)]
    assert pairs.report.skipped == {"no such file": 1, "empty text": 1}


@pytest.mark.parametrize(
    "given", [{"source_column": "said"}, {"target_column": "file"}, {"source_column": "said", "target_column": "file"}]
)
def test_columns_can_be_named(table: Path, given: dict[str, str]) -> None:
    table.write_text("note,said,file\nx,one,0.wav\ny,two,1.wav\n")
    assert FORM.read([str(table)], DataConfig(**given)).sources == ["one", "two"]


def test_a_table_without_recordings_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "said.csv"
    path.write_text("text,path\none,two\nthree,four\n")
    with pytest.raises(DataError) as caught:
        FORM.read([str(path)], DataConfig())
    assert caught.value.value == {"not an audio file by its name": 2}
    assert caught.value.expected == "a table of texts and paths of recordings"


def test_notes_are_relative_to_the_folder_and_restore_the_pairs(table: Path) -> None:
    pairs = FORM.read([str(table)], DataConfig())
    notes = FORM.to_notes(pairs)
    assert notes[0] == (pairs.lines[0], "one", "0.wav")
    again = FORM.from_notes(json.loads(json.dumps(notes)), pairs.report)
    assert (again.sources, again.targets) == (pairs.sources, pairs.targets)


def test_the_digest_and_the_contents_depend_on_the_recordings(table: Path) -> None:
    def digest() -> str:
        with FORM.open([str(table)], DataConfig()) as source:
            return source.digest()

    pairs = FORM.read([str(table)], DataConfig())
    before, contents = digest(), FORM.contents(pairs)
    write_wave(table.with_name("1.wav"), tone(601))
    after = FORM.contents(pairs)
    assert digest() != before and [a == b for a, b in zip(contents, after)] == [True, False, True]


def test_a_codebook_is_learned_from_the_recordings_that_can_be_read(table: Path) -> None:
    table.with_name("0.wav").write_bytes(b"RIFF, but no more")
    with FORM.open([str(table)], DataConfig()) as source:
        corpus = FORM.divide(source, 0.0, 0)
        codebook = learn_codebook(corpus, AudioLoader(8000, 750), 20, 12)
        assert 2 <= len(codebook.patches) <= 8 and np.isfinite(codebook.patches).all()
        for n in (1, 2):
            table.with_name(f"{n}.wav").write_bytes(b"RIFF, but no more")
        with pytest.raises(DataError, match="audio"):
            learn_codebook(corpus, AudioLoader(8000, 750), 20, 12)
