"""Every view of `explain` for an image, a recording and a transcript, with models that were trained for one step."""

import json
from pathlib import Path

import numpy as np
import pytest

from clearhead import DataError, load
from clearhead.cli import main
from tests.builders import tone, write_wave

from ..conftest import Run

RATE = 2000
TINY = ["--train.steps=1", "--train.warmup=1", "--model.d_model=16", "--model.n_heads=2", "--model.d_ff=16",
        "--model.n_encoder_layers=2", "--model.n_decoder_layers=1", "--threads=1", "--data.split=0.2"]  # fmt: skip
Kind = tuple[Path, Path]  # a model folder, and a file to explain


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    """A model that sees, one that hears and one that transcribes. Not to be written to."""
    here = tmp_path_factory.mktemp("media")
    images = np.random.default_rng(0).integers(0, 255, (20, 14, 14)).astype(np.uint8)
    np.save(here / "images.npy", images)
    np.save(here / "labels.npy", np.arange(20) % 2)
    for name in ("low", "high"):
        for n in range(6):
            write_wave(
                here / "recordings" / name / f"{n}.wav",
                tone(100 + 400 * (name == "high") + n, 1500 / RATE, RATE, 0.3),
                RATE,
            )
    rows = [f"recordings/{name}/{n}.wav,{name}" for name in ("low", "high") for n in range(6)]
    (here / "said.csv").write_text("path,text\n" + "\n".join(rows) + "\n", encoding="utf-8")
    data = {
        "see": ([here / "images.npy", here / "labels.npy"], Path(f"{here / 'images.npy'}#3")),
        "hear": ([here / "recordings"], here / "recordings" / "low" / "1.wav"),
        "write": ([here / "said.csv"], here / "recordings" / "high" / "2.wav"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
        for name, (files, seen) in data.items():
            watch = ["--watch", str(seen)]
            task = ["--task", "transcribe" if name == "write" else "classify"]
            assert main(["train", *map(str, files), *task, "--out", str(here / name), *TINY, *watch]) == 0
    return {name: (here / name, seen) for name, (_, seen) in data.items()}


VIEWS = ["", "--heads", "--heads --layer 1 --attention encoder.self", "--step attention", "--occlusion", "--json",
         "--occlusion --json", "--step attention --attention encoder.self --layer 1 --head 1"]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["see", "hear", "write"])
def test_every_view_is_printed(run: Run, kinds: dict[str, Kind], kind: str, view: str) -> None:
    folder, seen = kinds[kind]
    done = run("explain", folder, seen, *view.split())
    assert (done.code, done.err) == (0, "") and done.out
    if "--json" in view:
        assert json.loads(done.out)["source"] == str(seen)
    else:
        assert max(map(len, done.out.splitlines())) <= max(80, 8 + len(str(seen)))


@pytest.mark.parametrize("view", ["", "--layer 1 --attention encoder.self", "--occlusion"])
@pytest.mark.parametrize("kind", ["see", "hear", "write"])
def test_every_view_is_drawn(run: Run, kinds: dict[str, Kind], tmp_path: Path, kind: str, view: str) -> None:
    pytest.importorskip("matplotlib")
    folder, seen = kinds[kind]
    assert run("explain", folder, seen, *view.split(), "--png", tmp_path / "it.png").code == 0
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", ["see", "hear", "write"])
def test_the_film_of_training_is_shown(run: Run, kinds: dict[str, Kind], tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    folder, _ = kinds[kind]
    for more in ([], ["--json"], ["--png", tmp_path / "film.png"], ["--gif", tmp_path / "film.gif"]):
        assert run("explain", folder, "--film", *more).code == 0
    assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF")


def test_why_works_for_labels_and_transcripts(run: Run, kinds: dict[str, Kind]) -> None:
    for kind, (said, other) in {"see": ("0", "1"), "hear": ("low", "high")}.items():
        folder, seen = kinds[kind]
        assert run("explain", folder, seen, "--why", said, "--not", other).out.startswith(f'why "{said}"')
        found = json.loads(run("explain", folder, seen, "--why", said, "--json").out)
        assert found["error"] < 1e-4  # the parts add up to the logit


@pytest.mark.parametrize("view", ["--lens", "--decode", "--alignment"])
@pytest.mark.parametrize("kind", ["see", "hear"])
def test_a_view_that_needs_a_decoder_says_so(run: Run, kinds: dict[str, Kind], kind: str, view: str) -> None:
    folder, seen = kinds[kind]
    done = run("explain", folder, seen, view)
    assert done.code == 2 and "expected: a model" in done.err


@pytest.mark.parametrize("view", ["--lens", "--decode", "--alignment"])
def test_views_of_a_decoder_work_for_transcripts(run: Run, kinds: dict[str, Kind], view: str) -> None:
    folder, seen = kinds["write"]
    assert run("explain", folder, seen, view, "--min-len", 3).code == 0


def test_a_transcript_has_timings(run: Run, kinds: dict[str, Kind]) -> None:
    folder, seen = kinds["write"]
    done = run("transcribe", folder, seen, "--json", "--min-len", 3)
    found = json.loads(done.out)
    assert [it["token"] for it in found["timings"]] == found["tokens"]
    assert all(0 <= it["start"] < it["end"] <= 0.75 for it in found["timings"])
    explained = load(folder).explain(str(seen), min_len=3)
    assert [vars(it) for it in explained.timings()] == found["timings"]


@pytest.mark.parametrize(
    ("kind", "first", "front"),
    [("see", [2, 1, 14, 14], "patches"), ("hear", [2, 2000], "frames"), ("write", [2, 2000], "frames")],
)
def test_info_shows_the_shapes_of_what_the_front_end_reads(
    run: Run, kinds: dict[str, Kind], kind: str, first: list[int], front: str
) -> None:
    done = run("info", kinds[kind][0])
    assert (done.code, done.err) == (0, "")
    assert ("vocabulary" in done.out.split("\n\n")[0]) == ("tokenizer  " in done.out) == (kind == "write")
    flow = json.loads(run("info", kinds[kind][0], "--json").out)["flow"]
    assert flow[0]["shape"] == first and flow[1]["what"] == front


def test_what_was_read_and_answered_begins_in_one_column(run: Run, kinds: dict[str, Kind]) -> None:
    for kind in (kinds["see"], kinds["hear"]):
        first, second = run("explain", *kind).out.splitlines()[:2]
        assert first[first.index(str(kind[1])) - 1] == " "
        assert first.index(str(kind[1])) == second.index(second.split(maxsplit=1)[1])


def test_texts_have_nothing_to_hide(run: Run, model_folder: Path) -> None:
    assert run("explain", model_folder, "She sings.", "--occlusion").code == 2


def test_arrays_can_be_explained_and_anything_else_is_an_error(kinds: dict[str, Kind]) -> None:
    app = load(kinds["see"][0])
    image = np.full((14, 14), 9, np.uint8)
    assert app.explain(image).answer == app(image)
    samples = (np.zeros(900, np.int16), RATE)
    assert load(kinds["hear"][0]).explain(samples).text == "a tuple"
    for wrong in (3, [image]):
        with pytest.raises(DataError) as caught:
            app.explain(wrong)
        assert caught.value.name == "source"


def test_without_matplotlib_the_error_says_what_to_install(
    run: Run, kinds: dict[str, Kind], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.style", None)
    for kind in kinds.values():
        done = run("explain", *kind, "--png", tmp_path / "it.png")
        assert done.code in (1, 2) and "matplotlib" in done.err and "pip install" in done.err
