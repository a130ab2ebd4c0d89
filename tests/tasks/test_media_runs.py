"""Toys of images, recordings and transcripts are learnt in seconds, resumed bit for bit, evaluated and used."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.api import load, train
from clearhead.cli.entry import main
from clearhead.config import Config
from clearhead.config.front_geometry import position_samples
from clearhead.errors import ConfigError, DataError, TrainingError
from clearhead.model.fronts.frames import Frames
from clearhead.tasks.registry import task_of
from clearhead.tasks.source_reader import Recordings
from clearhead.training.signals import StoppedError
from tests.builders import write_wave

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("soundfile")

QUICK = {
    "model.d_model": 32, "model.n_heads": 2, "model.d_ff": 64, "model.n_encoder_layers": 1, "train.threads": 1,
    "train.precision": "fp32", "train.log_every": 5, "data.split": 0.2, "model.dropout": 0.0,
}  # fmt: skip
SEEN = {**QUICK, "train.steps": 40, "train.lr": 0.01, "model.patch_size": 4, "train.eval_every": 40}
SAID = {**QUICK, "data.max_len": 60,
        "model.n_decoder_layers": 1, "train.steps": 150, "train.lr": 0.01, "data.batch_tokens": 256,
        "model.augment": ("speed=0.1",), "train.eval_every": 75}  # fmt: skip
RATE = 4000


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
    monkeypatch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
    monkeypatch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
    monkeypatch.setattr("clearhead.tasks.classify.task.draw_confusion", lambda *_: None)
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)
    yield
    torch.set_num_threads(threads)
    torch.random.set_rng_state(generator)


def images(n: int, seed: int = 0) -> list[tuple[np.ndarray, str]]:
    """Noise with a bright bar, which lies or stands."""
    dice, found = np.random.default_rng(seed), []
    for i in range(n):
        pixels, at = dice.integers(0, 80, (16, 16)).astype(np.uint8), dice.integers(2, 12)
        label = ("lies", "stands")[i % 2]
        pixels[(slice(at, at + 3), slice(None)) if label == "lies" else (slice(None), slice(at, at + 3))] += 150
        found.append((pixels, label))
    return found


def recording(notes: str, dice: np.random.Generator) -> np.ndarray:
    """A tone for each letter: a, b or c."""
    times = np.arange(RATE // 5) / RATE
    parts = [
        0.4 * np.sin(2 * np.pi * {"a": 300, "b": 700, "c": 1400}[it] * dice.uniform(0.95, 1.05) * times) for it in notes
    ]
    return np.concatenate(parts) + 0.02 * dice.standard_normal(len(times) * len(notes))


def recordings(n: int, seed: int = 0, notes: int = 1) -> list[tuple[tuple[np.ndarray, int], str]]:
    dice = np.random.default_rng(seed)
    said = ["".join(dice.choice(list("abc"), notes)) if notes > 1 else "ab"[i % 2] for i in range(n)]
    return [((recording(it, dice), RATE), it) for it in said]


def write(folder: Path, data: Any) -> Path:
    """The same data as a folder for each label."""
    for n, (source, label) in enumerate(data):
        path = folder / label / f"{n}.{'wav' if isinstance(source, tuple) else 'png'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(source, tuple):
            Image.fromarray(source).save(path)
            continue
        write_wave(path, source[0], RATE)
    return folder


def config(values: dict[str, Any], *paths: object) -> Config:
    return Config().override({**values, **({"data.train": list(map(str, paths))} if paths else {})})


def run(values: dict[str, Any], out: Path, data: Any = None, *paths: object) -> tuple[Path, str]:
    said: list[str] = []
    return train(config(values, *paths), out, data=data, say=said.append), "\n".join(said)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that labels images. Not to be written to."""
    folder = tmp_path_factory.mktemp("seen")
    return run(SEEN, folder / "model", None, write(folder / "data", images(80)))[0]


def test_images_are_learnt_from_arrays_and_files_alike(tmp_path: Path) -> None:
    out, said = run(SEEN, tmp_path / "arrays", images(80))
    assert "images" in said and "texts" not in said and "vocab" not in said and "pairs" not in said
    app, held_out = load(out), images(40, seed=1)
    evaluation = app.evaluate(held_out)
    assert evaluation.scores.to_dict()["accuracy"] >= 0.95 and evaluation.scores.to_dict()["images"] == 40
    both = np.stack([it for it, _ in held_out]), [label for _, label in held_out]
    assert app.evaluate(both).scores.to_dict() == evaluation.scores.to_dict()
    opened = [Image.fromarray(it) for it, _ in held_out]
    labels = app(both[0])
    assert labels == app(opened) == app([it for it, _ in held_out]) and app(opened[0]) == labels[0]
    again, _ = run(SEEN, tmp_path / "files", None, write(tmp_path / "data", held_out))
    assert load(again).evaluate(str(tmp_path / "data")).scores.to_dict()["images"] == 40
    assert "texts" not in (out / "README.md").read_text() and "bpe" not in (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("size", "given", "found"),
    [(8, None, ("shift=1",)), (8, ("shift=2",), ("shift=2",)), (28, None, ("shift=2",))],
)
def test_small_images_are_shifted_less(
    size: int, given: tuple[str, ...] | None, found: tuple[str, ...], tmp_path: Path
) -> None:
    rows = [(np.resize(pixels, (size, size)), label) for pixels, label in images(30)]
    values = {**SEEN, "train.steps": 1, "model.patch_size": 2} | ({"model.augment": given} if given else {})
    assert load(run(values, tmp_path / "model", rows)[0]).config.model.augment == found


def test_recordings_are_learnt(tmp_path: Path) -> None:
    values = {**SEEN, "model.augment": ("speed=0.1",), "train.steps": 30, "train.eval_every": 30}
    del values["model.patch_size"]
    out, said = run(values, tmp_path / "model", recordings(80))
    assert "recordings" in said and "texts" not in said and "vocab" not in said and "pairs" not in said
    assert load(out).evaluate(recordings(40, seed=1)).scores.to_dict()["accuracy"] >= 0.95


def test_transcripts_are_learnt(tmp_path: Path) -> None:
    out, said = run({**SAID, "train.task": "transcribe"}, tmp_path / "model", recordings(120, notes=3))
    assert "recordings" in said and "sentences" not in said and "pairs" not in said
    app, held_out = load(out), recordings(30, seed=1, notes=3)
    scores = app.evaluate(held_out).scores.to_dict()
    assert scores["cer"] <= 0.03 and scores["recordings"] == 30
    samples, text = held_out[0]
    assert app(samples) == text and app([samples, samples]) == [text, text]
    (right, wrong), _ = app.score([(samples, text), (samples, text[::-1] + text[0])])
    assert right.text == text and right.score > wrong.score


# --- resume


def outcome(folder: Path) -> list[bytes]:
    last = max((folder / "checkpoints").iterdir())
    return [(folder / "model.safetensors").read_bytes(), (last / "optimizer.safetensors").read_bytes()]


@pytest.mark.parametrize("kind", ["images", "recordings", "transcripts"])
def test_a_stopped_run_resumes_bit_for_bit(tmp_path: Path, kind: str) -> None:
    data = {"images": images(40), "recordings": recordings(40), "transcripts": recordings(40, notes=2)}[kind]
    values = {**SAID, "model.dropout": 0.2, "train.steps": 12, "train.save_every": 5, "train.eval_every": 6}
    values |= {
        "train.task": "transcribe" if kind == "transcripts" else "classify",
        "model.augment": ("spec_augment=0.2", "speed=0.1"),
    }
    if kind == "images":
        del values["data.max_len"]
        values["model.augment"] = ("shift=2", "flip")
    expected = outcome(run(values, tmp_path / "whole", data)[0])

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 7:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedError):
        train(config(values), tmp_path / "run", data=data, say=lambda _: None, on_step=stop)
    said: list[str] = []
    train(config(values), tmp_path / "run", data=data, resume=True, say=said.append)  # in other temporary files
    assert outcome(tmp_path / "run") == expected and any("reusing" in it for it in said)


def test_a_file_that_changed_before_a_resume_is_noticed(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", images(40))
    values = {**SEEN, "train.steps": 8, "train.save_every": 4, "train.eval_every": 4}

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 5:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedError):
        train(config(values, folder), tmp_path / "run", say=lambda _: None, on_step=stop)
    moved = shutil.copytree(folder, tmp_path / "moved")
    copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
    train(config(values, moved), copy, resume=True, say=lambda _: None)
    shutil.copy(folder / "lies" / "0.png", folder / "stands" / "1.png")
    with pytest.raises(TrainingError):
        train(config(values, folder), tmp_path / "run", resume=True, say=lambda _: None)


# --- files that can't be read


def test_broken_files_are_counted_in_training_and_evaluation(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", images(40))
    (folder / "lies" / "text.png").write_text("no image")
    (folder / "stands" / "1.png").write_bytes((folder / "stands" / "1.png").read_bytes()[:60])
    (folder / "stands" / "empty.png").touch()
    values = {**SEEN, "train.steps": 4, "data.valid": (str(folder),)}
    out, said = run(values, tmp_path / "model", None, folder)
    assert "images that can't be read; they aren't scored\n    file " in said
    for name in ("text.png", "1.png", "empty.png"):
        assert name in said
    evaluation = load(out).evaluate(str(folder))
    assert evaluation.scores.to_dict()["images"] == 39 and evaluation.too_long == 0
    assert "text.png" in evaluation.unread and "1.png" in evaluation.unread and evaluation.unread in evaluation.report()


@pytest.mark.parametrize("split", [0.0, 0.2])
def test_where_nothing_can_be_read_there_is_a_clear_error(tmp_path: Path, seen: Path, split: float) -> None:
    for n in range(30):
        (tmp_path / "data" / "ab"[n % 2]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "ab"[n % 2] / f"{n}.png").write_text(f"no image {n}")
    values = {**SEEN, "data.split": split, "model.image_size": 16, "model.image_channels": 1}
    with pytest.raises(DataError) as caught:
        run(values, tmp_path / "model", None, tmp_path / "data")
    assert caught.value.expected
    with pytest.raises(DataError) as caught:
        load(seen).evaluate(str(tmp_path / "data"))
    assert caught.value.value == 30 and caught.value.name == str(tmp_path / "data")


def test_a_store_of_one_size_is_not_used_for_another(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", images(40))
    values = {**SEEN, "train.steps": 1, "data.store": str(tmp_path / "store")}
    assert "reusing" not in run(values, tmp_path / "a", None, folder)[1]
    assert "reusing" not in run({**values, "model.image_size": 8}, tmp_path / "b", None, folder)[1]
    assert "reusing the pixels" in run(values, tmp_path / "c", None, folder)[1]


# --- the command line


def test_classify_answers_for_all_files_but_those_that_cannot_be_read(seen: Path, tmp_path: Path, capsys) -> None:
    folder = write(tmp_path, images(2, seed=3))
    good = [str(folder / "lies" / "0.png"), str(folder / "stands" / "1.png")]
    missing = str(tmp_path / "missing.png")
    assert main(["classify", str(seen), *good]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert main(["classify", str(seen), good[0], missing, good[1]]) == 1
    found = capsys.readouterr()
    assert found.out.splitlines() == [first, "", second]
    assert f"error: {missing} doesn't exist" in found.err and "1 of 3 images" in found.err
    assert main(["classify", str(seen), "--json", missing, good[1]]) == 1
    error, answer = map(json.loads, capsys.readouterr().out.splitlines())
    assert error["text"] == missing and error["error"] and answer["label"] == second


def test_evaluate_says_what_was_not_read(seen: Path, tmp_path: Path, capsys) -> None:
    model = shutil.copytree(seen, tmp_path / "model")
    folder = write(tmp_path / "data", images(8, seed=3))
    (folder / "lies" / "text.png").write_text("no image")
    assert main(["evaluate", str(model), "--data", str(folder)]) == 0
    found = capsys.readouterr()
    assert "text.png" in found.err and found.out.startswith("images ") and "texts" not in found.out


def test_wrong_values_are_clear_errors_in_python(seen: Path) -> None:
    app = load(seen)
    for wrong in (3, None, [3], {"a": 1}, np.zeros((4, 4)), [np.zeros((4, 4, 2), np.uint8)], b"x"):
        with pytest.raises(DataError) as caught:
            app(wrong)
        assert caught.value.expected


@pytest.mark.parametrize(("speed", "max_len"), [(0.1, 12), (0.3, 12), (0.3, 11), (0.0, 3)])
def test_recordings_that_fill_the_model_still_fit_when_slowed_down(tmp_path: Path, speed: float, max_len: int) -> None:
    values = {
        **QUICK,
        "train.task": "classify",
        "data.modality": "audio",
        "model.augment": ("spec_augment=0.2", f"speed={speed}"),
    }
    config = task_of(Config().override(values)).settle(Config().override({**values, "model.max_len": max_len}))
    length, setting = Recordings().longest(config)
    assert setting == "model.max_len" and length >= 1
    front = Frames(8, RATE, speed=speed)
    longest = torch.zeros(50, position_samples(length, RATE), dtype=torch.int16)
    assert front.mask(front.augment(longest)).size(-1) <= max_len
    again = task_of(config).settle(Config().override({**values, "data.max_len": length}))
    assert again.model.max_len <= max_len and Recordings().longest(again) == (length, "data.max_len")


def test_a_model_too_short_for_any_recording_is_an_error() -> None:
    values = {"train.task": "transcribe", "data.modality": "audio", "model.max_len": 2}
    with pytest.raises(ConfigError) as caught:
        task_of(config := Config().override(values)).settle(config)
    assert (caught.value.name, caught.value.value) == ("model.max_len", 2) and caught.value.expected


def test_a_batch_holds_one_image(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", images(40))
    values = {**SEEN, "model.patch_size": 4, "model.pooling": "first", "train.steps": 1}
    with pytest.raises(ConfigError) as caught:
        run({**values, "data.batch_tokens": 16}, tmp_path / "small", None, folder)
    error = caught.value
    assert (error.name, error.value, error.expected) == ("data.batch_tokens", 16, "17 or more") and error.fix
    assert "16 patches" in error.what and "max_len" not in error.what
    run({**values, "data.batch_tokens": 17}, tmp_path / "enough", None, folder)


def test_a_model_of_images_is_fine_tuned_with_other_augmentation_but_not_on_recordings(
    seen: Path, tmp_path: Path
) -> None:
    begun = {**SEEN, "train.init_from": str(seen), "train.steps": 2}
    out, _ = run({**begun, "model.augment": ("flip",)}, tmp_path / "again", images(40))
    model = load(out).config.model
    assert (model.augment, model.image_size) == (("flip",), load(seen).config.model.image_size)
    with pytest.raises(ConfigError) as caught:
        values = {name: value for name, value in begun.items() if name != "model.patch_size"}
        run(values, tmp_path / "heard", recordings(20))
    assert (caught.value.name, caught.value.value) == ("train.init_from", str(seen))
    assert caught.value.expected == "a model trained on recordings"
    assert not (tmp_path / "heard").exists()
