"""Files are read with threads, in order, a bounded number at a time; those that can't be read are reported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.config import DataConfig
from clearhead.data import media_encoding
from clearhead.data.forms import IMAGES, MediaForm
from clearhead.data.media_encoding import AudioLoader, ImageLoader, MediaEncoder, read_files
from clearhead.data.store import Store, new_store
from clearhead.readers.pairs import Pairs
from clearhead.readers.skipped import UNREADABLE, Report

LOADER = ImageLoader(4, 1, 2, class_token=False)


def pairs(*rows: tuple[Any, str]) -> Pairs:
    return Pairs.of(((line, source, target) for line, (source, target) in enumerate(rows, 1)), Report(("x",)))


def encoder(**options: Any) -> MediaEncoder:
    return MediaEncoder(
        LOADER, lambda labels: [None if it == "?" else [ord(it)] for it in labels], "unknown", **options
    )


def grey(value: int) -> np.ndarray:
    return np.full((4, 4), value, np.uint8)


@pytest.mark.parametrize("threads", [1, 3])
def test_files_are_read_in_order_and_bad_ones_reported(tmp_path: Path, threads: int) -> None:
    rows = [(grey(n), "a" if n % 7 else "?") for n in range(100)]
    rows[5] = (str(tmp_path / "missing.png"), "a")
    found = list(encoder().each([pairs(*rows[:60]), pairs(*rows[60:])], 100, threads))
    values = np.concatenate([it.sources.tokens.reshape(-1, 16)[:, 0] for it in found])
    assert values.tolist() == [n for n in range(100) if n % 7 and n != 5]
    skipped = [it for each in found for it in each.skipped]
    assert [it.reason for it in skipped].count(UNREADABLE) == 1 and len(skipped) == 16
    assert [it.text for it in skipped if it.reason == UNREADABLE] == [f"{tmp_path / 'missing.png'} doesn't exist"]
    assert encoder()(pairs(*rows)).kept == [n for n in range(100) if n % 7 and n != 5]


def test_a_label_that_cannot_be_trained_on_is_reported_with_its_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", grey(1)[None])
    [skipped] = encoder()(pairs((grey(0), "a"), (str(tmp_path / "x.npy#0"), "?"))).skipped
    assert skipped.reason == "unknown" and skipped.text == f"?: {tmp_path / 'x.npy#0'}"


def test_only_so_many_bytes_are_in_memory_at_once(monkeypatch) -> None:
    monkeypatch.setattr(media_encoding, "_BYTES", 5 * 16)
    waiting = most = 0

    class Counting:
        dtype = "u1"

        def __call__(self, source: Any) -> tuple[np.ndarray, int]:
            nonlocal waiting, most
            waiting += 1
            most = max(most, waiting)
            return np.zeros(16, np.uint8), 0

    slow = MediaEncoder(Counting(), lambda labels: [[0]] * len(labels))  # type: ignore[arg-type]
    sizes = []
    for each in slow.each([pairs(*[("x", "a")] * 200)], 200, 2):
        waiting -= len(each.sources)
        sizes.append(len(each.sources))
    assert max(sizes) == 6 and sum(sizes) == 200 and most <= 6 + 2 * 4 + 2


def test_long_recordings_are_cut_or_dropped() -> None:
    loader = AudioLoader(8000, 2)  # two positions: 80 ms
    short, long = (np.zeros(640, np.int16), 8000), (np.zeros(1600, np.int16), 8000)
    for cuts in (True, False):
        found = MediaEncoder(loader, lambda it: [[0]] * len(it), "", "too long", cuts=cuts)(
            pairs((short, "a"), (long, "a"))
        )
        assert [len(it) for it in found.sources] == [640, 640][: 1 + cuts]
        assert [it.line for it in (found.cut if cuts else found.skipped)] == [2]


def test_reading_files_leaves_out_what_cannot_be_read(tmp_path: Path) -> None:
    found = read_files(LOADER, pairs((grey(3), "a"), (str(tmp_path / "no.png"), "a"), (grey(4), "a")), threads=2)
    assert found.places == [0, 2] and [it.line for it in found.unread] == [2]
    assert found.arrays.tokens.reshape(2, 16)[:, 0].tolist() == [3, 4] and not found.cut.any()
    assert not read_files(LOADER, pairs()).places


def test_a_store_maps_pixels_into_memory(tmp_path: Path) -> None:
    found = encoder()(pairs((grey(3), "a"), (grey(200), "b")))
    with new_store(tmp_path / "store", {"a": 1}, dtypes=("u1", "<i4")) as writer:
        writer.add(found.sources, found.targets)
    store = Store.open(tmp_path / "store", {"a": 1})
    assert store is not None and (tmp_path / "store" / "source.tokens").stat().st_size == 32  # a byte a pixel
    base: Any = store.sides[0].tokens
    while not isinstance(base, np.memmap):
        base = base.base
    assert LOADER.batch(store.sides[0], np.array([1])).tolist() == [[grey(200).tolist()]]


@pytest.mark.parametrize("seed", range(3))
def test_copies_of_an_image_stay_on_one_side(tmp_path: Path, seed: int) -> None:
    image = pytest.importorskip("PIL.Image")
    for copy in "abc":
        (tmp_path / copy).mkdir()
        for n in range(30):
            image.fromarray(grey(n)).save(tmp_path / copy / f"{copy}{n}.png")
    form = MediaForm(IMAGES, "image")
    with form.open(str(tmp_path), DataConfig()) as source:
        corpus = form.divide(source, 0.3, seed)
        held, kept = ({Path(it).stem[1:] for it in part.sources} for part in (corpus.held_out(), next(corpus.chunks())))
        assert len(held) == 9 and len(kept) == 21 and not held & kept
        assert len(corpus.held_out()) == 27 and "27 images" in corpus.note and "21 images have" in corpus.note
