"""Tones are learnt from letters in seconds, and each error says what is wrong."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.api import load, train
from clearhead.apps.translator import Speaker
from clearhead.config import Config
from clearhead.errors import ClearheadError, ConfigError, DataError, ModelError
from clearhead.tasks.detect import with_modality
from clearhead.tasks.registry import task_of
from clearhead.tasks.speak import Speech
from clearhead.training.signals import StoppedError
from tests.builders import tone, write_wave
from tests.serving.small_models import make

RATE, NOTE = 4000, 0.16  # samples per second, and seconds of a note
NOTES = {"a": 300, "b": 700, "c": 1400}
QUICK = {
    "train.task": "speak", "model.d_model": 32, "model.n_heads": 2, "model.d_ff": 64, "model.n_encoder_layers": 1,
    "model.n_decoder_layers": 1, "model.n_mels": 20, "model.dropout": 0.0, "model.pre_norm": True, "data.split": 0.1,
    "data.vocab_size": 32, "data.max_len": 60, "data.batch_tokens": 256, "train.threads": 1, "train.precision": "fp32",
    "train.label_smoothing": 0.0, "train.steps": 160, "train.lr": 0.01, "train.eval_every": 160, "decode.beam": 1,
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng():
        threads = torch.get_num_threads()
        patch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
        patch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
        patch.setattr("os.fsync", lambda _descriptor: None)
        yield
        torch.set_num_threads(threads)


def sound(text: str) -> np.ndarray:
    """A tone for each letter, which fades, so that the codes tell how much of it is left."""
    tones = [tone(NOTES[it], NOTE, RATE) for it in text]
    return np.concatenate([it * np.geomspace(1, 0.02, len(it)) for it in tones])


def spoken(n: int, seed: int = 0) -> list[tuple[str, tuple[np.ndarray, int]]]:
    dice = np.random.default_rng(seed)
    texts = ["".join(dice.choice(list("abc"), dice.integers(1, 4))) for _ in range(n)]
    return [(text, (sound(text), RATE)) for text in texts]


def heard(samples: np.ndarray) -> str:
    """The tone that is loudest in each note."""
    size = int(RATE * NOTE)
    found = ""
    for start in range(size // 4, len(samples) - size // 2, size):
        power = np.abs(np.fft.rfft(samples[start : start + size // 2].astype(float), 4096))
        loudest = power.argmax() * RATE / 4096
        found += min(NOTES, key=lambda it: abs(NOTES[it] - loudest))
    return found


def run(out: Path, data: Any, **values: Any) -> tuple[Path, str]:
    said: list[str] = []
    settings = QUICK | {name.replace("__", "."): value for name, value in values.items()}
    return train(Config().override(settings), out, data=data, say=said.append), "\n".join(said)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A model that speaks, and what its training said. Not to be written to."""
    return run(tmp_path_factory.mktemp("speak") / "model", spoken(150))


@pytest.fixture
def app(trained: tuple[Path, str]) -> Speaker:
    found = load(trained[0])
    assert isinstance(found, Speaker)
    return found


def test_a_short_text_can_have_a_long_recording(app: Speaker) -> None:
    limit = app.task.config.decode
    assert limit.max_extra == 60  # data.max_len: nothing is cut because its text is short
    assert limit.max_len == 18  # half as much again as three notes, in codes


def test_texts_are_spoken(app: Speaker) -> None:
    for text in ("bca", "cba"):
        samples, rate = app(text)
        assert rate == RATE and samples.dtype == np.int16 and heard(samples) == text
    (first, _), (second, _) = app(["bca", "cba"])
    np.testing.assert_array_equal(first, app("bca")[0])
    np.testing.assert_array_equal(second, samples)


def test_training_names_texts_and_codes(trained: tuple[Path, str]) -> None:
    said = trained[1]
    assert "distinct texts, with all their recordings" in said and " codes per epoch" in said
    assert "sentences" not in said
    assert "speak" in said and "model.sample_rate" not in said
    config = load(trained[0]).config
    assert (config.model.sample_rate, config.data.modality, config.model.tie) == (RATE, "text", "target")


def test_the_score_is_the_distortion_compared_with_the_recordings(app: Speaker) -> None:
    evaluation = app.evaluate(spoken(12, seed=1))
    scores = evaluation.scores.to_dict()
    assert scores["mel_distortion"] < 3 and scores["token_accuracy"] > 0.9 and scores["texts"] <= 12
    assert "mel distortion" in evaluation.report() and evaluation.lines()["best"][0]["mel_distortion"] < 3
    wrong = app.evaluate([(text[::-1] + "a", sound) for text, sound in spoken(12, seed=1)]).scores.to_dict()
    assert wrong["mel_distortion"] > 2 * scores["mel_distortion"]
    (right, worse), _ = app.score([("abc", (sound("abc"), RATE)), ("cba", (sound("abc"), RATE))])
    assert right.score > worse.score


def test_no_codes_count_as_silence(app: Speaker, tmp_path: Path) -> None:
    path = str(write_wave(tmp_path / "a.wav", sound("a"), RATE))
    task = app.task
    silent = task._distortion("", [path])
    assert np.isfinite(silent) and silent > task._distortion(
        task.codebook.decode(task.codebook.codes(np.int16(32767 * sound("a")))), [path]
    )


def test_an_explanation_follows_the_codes(app: Speaker) -> None:
    found = app.explain("ab")
    assert found.answer == app.results(["ab"])[0].text
    assert found.render_alignment().count("\n0.04s ") == 1 and "ab" in found.render_alignment()
    assert app.results(["ab"])[0].tokens == tuple(found.outputs[: len(found.answer.split())])


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda app: app(" "), "text"),
        (lambda app: app(["ab", ""]), "text"),
        (lambda app: app(3), "text"),
    ],
)
def test_what_cannot_be_spoken_is_an_error(app: Speaker, use: Any, name: str) -> None:
    with pytest.raises(DataError) as caught:
        use(app)
    assert caught.value.name == name


def test_recordings_that_are_too_long_or_broken_are_skipped(tmp_path: Path) -> None:
    data = [*spoken(30), ("abc", (sound("abc" * 10), RATE)), ("a" * 30, (sound("a"), RATE))]
    (tmp_path / "broken.wav").write_bytes(b"RIFF, but no more")
    data.append(("a", tmp_path / "broken.wav"))
    _, said = run(tmp_path / "model", data, data__max_len=20, train__steps=1, train__eval_every=1)
    assert "skipped 1: texts with a recording longer than 20 codes of 40 ms (data.max_len); they're dropped" in said
    assert "skipped 1: texts longer than 20 tokens (data.max_len); they're dropped" in said
    assert "broken.wav" in said


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"data.modality": "audio"}, "data.modality"),
        ({"data.joint": True}, "data.joint"),
        ({"data.reverse": True}, "data.reverse"),
        ({"train.warm_start": "denoise"}, "train.warm_start"),
        ({"model.copy": True}, "model.copy"),
        ({"data.subword_dropout": 0.1, "data.tokenizer": "bpe"}, "data.subword_dropout"),
    ],
)
def test_settings_that_make_no_sense_are_errors(values: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Speech.settle(Config().override({"train.task": "speak", **values}))
    assert caught.value.name == name


def test_the_rate_and_the_bands_of_the_codes_can_be_set() -> None:
    found = Speech.settle(Config().override({"train.task": "speak", "model.sample_rate": 16_000, "model.n_mels": 80}))
    assert (found.model.sample_rate, found.model.n_mels) == (16_000, 80)


def test_a_table_of_texts_and_recordings_is_found_to_fit(tmp_path: Path) -> None:
    write_wave(tmp_path / "0.wav", sound("a"), RATE)
    (tmp_path / "a.csv").write_text("text,path\na,0.wav\n")
    config = with_modality(Config().override({"train.task": "speak", "data.train": (str(tmp_path / "a.csv"),)}))
    assert config.data.modality == "audio" and task_of(config) is Speech


def test_a_model_of_another_task_cannot_speak(tmp_path: Path) -> None:
    folder = make(tmp_path / "model", "transcribe")
    task = Speech(load(folder).tokenizers, Speech.settle(Config()))
    with pytest.raises(ModelError, match="codebook"):
        task.samples("1 2")


def test_a_stopped_run_resumes_bit_for_bit(tmp_path: Path) -> None:
    few, data = {"train__steps": 6, "train__save_every": 2, "train__eval_every": 3, "model__dropout": 0.2}, spoken(80)
    expected = run(tmp_path / "whole", data, **few)[0] / "model.safetensors"

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 3:
            signal.raise_signal(signal.SIGTERM)

    settings = Config().override(QUICK | {name.replace("__", "."): value for name, value in few.items()})
    with pytest.raises(StoppedError):
        train(settings, tmp_path / "run", data=data, say=lambda _: None, on_step=stop)
    said: list[str] = []
    found = train(settings, tmp_path / "run", data=data, resume=True, say=said.append) / "model.safetensors"
    assert found.read_bytes() == expected.read_bytes() and any("reusing" in it for it in said)


@pytest.mark.parametrize(("kind", "task"), [("text", "speak"), ("speak", "translate")])
def test_a_model_that_speaks_starts_only_from_one_that_speaks(
    tmp_path: Path, model_folder: Path, trained: tuple[Path, str], kind: str, task: str
) -> None:
    start = {"text": model_folder, "speak": trained[0]}[kind]
    data = spoken(30) if task == "speak" else [(text, text) for text, _ in spoken(30)]
    settings = {"train.task": task, "train.init_from": str(start)}
    with pytest.raises(ConfigError) as caught:
        train(Config().override(settings), tmp_path / "model", data=data, say=lambda _: None)
    assert caught.value.name == "train.init_from" and "speak" in caught.value.expected


def test_data_of_which_nothing_can_be_scored_is_an_error(app: Speaker) -> None:
    with pytest.raises(DataError, match="longer than 60 codes of 40 ms") as caught:
        app.evaluate([("abc", (sound("abc" * 10), RATE))])
    assert caught.value.name == "data"


def test_texts_without_recordings_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClearheadError) as caught:
        run(tmp_path / "model", [("a", "b"), ("b", "c")])
    assert "recordings" in str(caught.value)


def voices(folder: Path, rows: list[str], name: str = "strings.csv") -> Path:
    """A table, and a recording for each letter."""
    for letter in NOTES:
        write_wave(folder / f"{letter}.wav", sound(letter), RATE)
    table = folder / name
    table.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return table


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("strings.csv", ["path,speaker,text", "a.wav,theo,a", "b.wav,anna,b b", "c.wav,,c", "a.wav,a b,a"]),
        (
            "strings.jsonl",
            [
                '{"Voice": "theo", "text": "a", "path": "a.wav"}',
                '{"Voice": "anna", "text": "b b", "path": "b.wav"}',
                '{"Voice": "", "text": "c", "path": "c.wav"}',
                '{"Voice": "a b", "text": "c", "path": "c.wav"}',
            ],
        ),
    ],
)
def test_a_column_of_voices_comes_before_the_text(name: str, rows: list[str], tmp_path: Path) -> None:
    with Speech.form.open(voices(tmp_path, rows, name), Config().data) as source:
        assert [text for _, text, _ in source] == ["theo a", "anna b b"]
        assert source.has_voices and sum(source.report.skipped.values()) == 2
        column = "speaker" if name.endswith("csv") else "Voice"
        assert {*source.report.skipped} == {f"empty {column}", f"{column} of several words"}
    with Speech.form.open(
        voices(tmp_path, rows, name), Config().override({"data.source_column": "text"}).data
    ) as source:
        assert [text for _, text, _ in source][:2] == ["a", "b b"] and not source.has_voices


def test_voices_without_a_text_are_an_error(tmp_path: Path) -> None:
    table = voices(tmp_path, ["path,voice,said", "a.wav,theo,a a a", "b.wav,anna,b b"])
    with pytest.raises(DataError) as error:
        Speech.form.open(table, Config().data)
    assert error.value.name == "data.source_column"


def test_a_model_knows_its_voices(app: Speaker, tmp_path: Path) -> None:
    rows = ["path,voice,text", *(f"{it}.wav,{voice},{it}" for it in NOTES for voice in ("theo", "anna"))]
    folder, _ = run(tmp_path / "model", voices(tmp_path, rows), train__steps=1, train__eval_every=1, data__split=0.5)
    known = load(folder)
    assert known.voices == ("anna", "theo") and known.voiced("a", "theo") == "theo a"
    with pytest.raises(ConfigError) as error:
        known.voiced("a", "thea")
    assert error.value.value == "thea" and "anna, theo" in error.value.expected and "theo" in error.value.fix
    assert app.voices == ()
    with pytest.raises(ConfigError, match="no voices"):
        app.voiced("a", "theo")
