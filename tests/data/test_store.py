"""Tokens on disk are those that went there, or none."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.data.store import Store, new_store, token_digest, token_type
from clearhead.errors import DataError
from clearhead.tokenization.ragged import Ragged

in_place = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
KEY = {"data": "abc", "longest": (7, "data.max_len")}
EXAMPLES = [([1, 2, 65_535], [3]), ([], [4, 5]), ([6], [])]
examples = st.lists(st.tuples(*[st.lists(st.integers(0, 65_535), max_size=5)] * 2), max_size=20)


def fill(path: Path, rows: Sequence, *, key=KEY, chunk: int = 2, vocab_size: int = 65_536) -> None:
    with new_store(path, key, dtypes=(token_type(vocab_size),) * 2) as writer:
        for start in range(0, len(rows), chunk):
            part = rows[start : start + chunk]
            writer.add(Ragged([source for source, _ in part]), Ragged([target for _, target in part]))
        writer.notes["said"] = ["é"]


def rows_of(store: Store) -> list:
    return list(zip(*map(list, store.sides)))


@given(rows=examples, chunk=st.integers(1, 30), vocab_size=st.sampled_from([65_536, 65_537]))
@in_place
def test_examples_come_back_whatever_the_chunks_and_the_type_of_number(rows, chunk, vocab_size, tmp_path) -> None:
    shutil.rmtree(tmp_path / "s", ignore_errors=True)
    fill(tmp_path / "s", rows, chunk=chunk, vocab_size=vocab_size)
    store = Store.open(tmp_path / "s", KEY)
    assert store is not None and rows_of(store) == rows and store.notes == {"said": ["é"]}
    kept = tuple(Ragged([row[side] for row in rows]) for side in (0, 1))
    assert store.digest == token_digest(kept)
    picked = np.arange(len(rows))[::-2]
    for side, whole in zip(store.sides, kept):
        assert side.padded(picked, -1).tolist() == whole.padded(picked, -1).tolist()
        assert side.padded(picked, -1).dtype == np.int64


def test_a_token_takes_two_bytes_where_the_vocabulary_allows(tmp_path: Path) -> None:
    for vocab_size, width in ((65_536, 2), (65_537, 4)):
        fill(tmp_path / str(width), EXAMPLES, vocab_size=vocab_size)
        assert (tmp_path / str(width) / "source.tokens").stat().st_size == 4 * width


def test_the_digest_is_of_every_token_and_of_where_sequences_end() -> None:
    several = [([[1, 2], [3]], [[4]]), ([[1], [2, 3]], [[4]]), ([[1, 2], [4]], [[4]]), ([[1, 2]], [[3], [4]])]
    assert len({token_digest([Ragged(side) for side in sides]) for sides in several}) == 4


def test_there_is_no_store_of_another_key_or_format_or_none_at_all(tmp_path: Path) -> None:
    assert Store.open(tmp_path / "s", KEY) is None
    fill(tmp_path / "s", EXAMPLES)
    assert Store.open(tmp_path / "s", KEY | {"data": "abd"}) is None
    assert Store.open(tmp_path / "s", KEY) is not None
    header = json.loads((tmp_path / "s" / "header.json").read_text())
    (tmp_path / "s" / "header.json").write_text(json.dumps(header | {"format_version": 1}))
    assert Store.open(tmp_path / "s", KEY) is None


@pytest.mark.parametrize("name", ["header.json", "source.tokens", "source.lengths", "target.tokens", "target.lengths"])
def test_every_byte_that_is_changed_cut_off_or_missing_is_noticed(name: str, tmp_path: Path) -> None:
    fill(tmp_path / "whole", EXAMPLES)
    content = (tmp_path / "whole" / name).read_bytes()
    wrong = [content[:-1], content + b"\0", b"", b"\xff" * 9]
    wrong += [content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :] for i in range(0, len(content), 3)]
    for damaged in wrong:
        shutil.copytree(tmp_path / "whole", tmp_path / "s")
        (tmp_path / "s" / name).write_bytes(damaged)
        try:
            found = Store.open(tmp_path / "s", KEY)
        except DataError as error:
            assert str(error).startswith(f"the tokens in {tmp_path / 's'} are damaged: ")
        else:
            assert found is None and name == "header.json"  # of another format or key, as it seems
        shutil.rmtree(tmp_path / "s")
    (tmp_path / "whole" / name).unlink()
    with pytest.raises(DataError, match="are damaged: a file is missing"):
        Store.open(tmp_path / "whole", KEY)


def test_what_fails_leaves_the_earlier_store_and_nothing_beside_it(tmp_path: Path) -> None:
    fill(tmp_path / "s", EXAMPLES)
    with pytest.raises(KeyboardInterrupt), new_store(tmp_path / "s", {"other": 1}, dtypes=("<u2", "<u2")) as writer:
        writer.add(Ragged([[1]]), Ragged([[2]]))
        raise KeyboardInterrupt
    store = Store.open(tmp_path / "s", KEY)
    assert store is not None and rows_of(store) == EXAMPLES
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_new_store_takes_the_place_of_an_old_one_that_is_still_in_use(tmp_path: Path) -> None:
    fill(tmp_path / "s", EXAMPLES)
    old = Store.open(tmp_path / "s", KEY)
    fill(tmp_path / "s", EXAMPLES[:1], key={"other": 1})
    new = Store.open(tmp_path / "s", {"other": 1})
    assert old is not None and rows_of(old) == EXAMPLES
    assert new is not None and rows_of(new) == EXAMPLES[:1]
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_process_that_dies_at_any_moment_leaves_the_old_store_or_the_new_one(tmp_path: Path, crash_points) -> None:
    fill(tmp_path / "s", EXAMPLES)
    for _ in crash_points(lambda: fill(tmp_path / "s", EXAMPLES[:2], key={"new": 1})):
        found = [Store.open(tmp_path / "s", key) for key in (KEY, {"new": 1})]
        assert sum(it is not None for it in found) <= 1  # between two names there is none for a moment
    assert Store.open(tmp_path / "s", {"new": 1}) is not None


def test_two_that_write_at_once_do_not_touch_what_the_other_writes(tmp_path: Path) -> None:
    sides = [Ragged([row[side] for row in EXAMPLES]) for side in (0, 1)]
    with new_store(tmp_path / "s", KEY, dtypes=("<u2", "<u2")) as one:
        one.add(*sides)
        with new_store(tmp_path / "s", KEY, dtypes=("<u2", "<u2")) as other:  # numbers of processes may be the same
            other.add(*sides)
    store = Store.open(tmp_path / "s", KEY)
    assert store is not None and rows_of(store) == EXAMPLES
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_complete_store_of_the_same_key_keeps_its_place_and_a_damaged_one_does_not(tmp_path: Path) -> None:
    fill(tmp_path / "s", EXAMPLES)
    first = (tmp_path / "s").stat().st_ino
    fill(tmp_path / "s", EXAMPLES)
    assert (tmp_path / "s").stat().st_ino == first
    (tmp_path / "s" / "source.tokens").write_bytes(b"")
    fill(tmp_path / "s", EXAMPLES)
    assert (tmp_path / "s").stat().st_ino != first
    assert Store.open(tmp_path / "s", KEY) is not None


def test_a_store_that_another_process_made_in_the_meantime_is_kept(tmp_path: Path, monkeypatch) -> None:
    replace = Path.replace

    def late(path: Path, target: Path) -> Path:
        if target.name == "s" and not target.exists():
            fill_other()
        return replace(path, target)

    def fill_other() -> None:
        monkeypatch.setattr(Path, "replace", replace)
        fill(tmp_path / "s", EXAMPLES)

    monkeypatch.setattr(Path, "replace", late)
    fill(tmp_path / "s", EXAMPLES)
    store = Store.open(tmp_path / "s", KEY)
    assert store is not None and rows_of(store) == EXAMPLES
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_what_was_left_half_written_a_day_ago_is_removed_and_what_is_new_stays(tmp_path: Path) -> None:
    for name in (".s.1.partial", ".s.2.partial", ".other.1.partial"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / ".s.1.partial", (time.time() - 100_000,) * 2)
    os.utime(tmp_path / ".other.1.partial", (time.time() - 100_000,) * 2)
    fill(tmp_path / "s", EXAMPLES)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.1.partial", ".s.2.partial", "s"]


def test_a_disk_that_is_full_passes_through_and_leaves_nothing(tmp_path: Path, disk_full, monkeypatch) -> None:
    def fail(*_: object, **_named: object) -> None:
        raise disk_full

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fail)
        with pytest.raises(OSError, match="No space left"):
            fill(tmp_path / "s", EXAMPLES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["header.json", "source.tokens", "source.lengths"])
def test_a_pipe_in_place_of_a_file_does_not_block(name: str, tmp_path: Path) -> None:
    fill(tmp_path / "s", EXAMPLES)
    (tmp_path / "s" / name).unlink()
    os.mkfifo(tmp_path / "s" / name)
    with pytest.raises(DataError, match="isn't a regular file"):
        Store.open(tmp_path / "s", KEY)
