"""`clearhead demo generate`: what it prints and leaves behind, and what it never replaces."""

import json
import re
from pathlib import Path

import pytest

from clearhead import TrainingError, load
from clearhead.demo import code_demo, library
from clearhead.demo.code_demo import run_code_demo
from clearhead.training.signals import StoppedError

SMALL = {"model.d_model": 32, "model.d_ff": 32, "model.n_decoder_layers": 1, "model.n_heads": 2, "data.vocab_size": 270}
SMALL |= {"data.max_len": 32, "data.batch_tokens": 128, "train.threads": 1, "train.budget": "", "train.steps": 3}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A demo of three steps over a small library, which is returned."""
    monkeypatch.setattr(code_demo, "SETTINGS", code_demo.SETTINGS | SMALL)
    monkeypatch.setattr(code_demo, "CONTINUED", code_demo.CONTINUED | {"chars": 20})
    monkeypatch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
    monkeypatch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
    root = tmp_path / "lib"
    root.mkdir()
    for n in range(60):
        (root / f"mod{n}.py").write_text(f"def f{n}(x):\n\treturn x + {n}\n")
    monkeypatch.setattr(library, "folder", lambda: root)
    return root


def test_it_prints_bits_a_byte_beside_gzip_and_xz_and_goes_on_with_three_beginnings(
    hasty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs" / "code"
    for _ in range(2):  # it replaces its own
        run_code_demo(out)
    told = capsys.readouterr()
    training, held_out = library.split(hasty)
    assert f"{hasty} has {len(training)} files to train on and {len(held_out)} held out." in told.err
    evaluation = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["characters"] == sum(len(it.text) for it in held_out)
    packed = library.packed(training, held_out)
    report = told.out.split("Bits per byte of unseen files")[2]
    assert re.findall(r"^  (\d+\.\d{3})  (.*)$", report, flags=re.MULTILINE) == [
        (f"{evaluation['bits_per_byte']:.3f}", "this model"),
        (f"{packed.gzip:.3f}", "gzip -9"),
        (f"{packed.xz:.3f}", "xz -9"),
        (f"{packed.xz_after:.3f}", "xz -9, primed with the training files"),
    ]
    for prompt in code_demo.PROMPTS:
        assert "\n" + "\n".join(f"  {line}".rstrip() for line in prompt.splitlines()) in report
    assert f"generate {out} " in told.err
    assert len((out / "library" / "train.jsonl").read_text().splitlines()) == len(training)
    assert len(load(out)("def", chars=9)) == 12


def test_the_held_out_files_are_no_part_of_what_it_learns_from(hasty: Path, tmp_path: Path) -> None:
    run_code_demo(tmp_path / "code")
    learnt, held_out = (
        {json.loads(line)["path"] for line in (tmp_path / "code" / "library" / name).read_text().splitlines()}
        for name in ("train.jsonl", "held-out.jsonl")
    )
    assert learnt and held_out and not learnt & held_out
    assert load(tmp_path / "code").config.data.train == (str(tmp_path / "code" / "library" / "train.jsonl"),)


def test_it_never_replaces_what_is_not_its_own_nor_the_other_demo(hasty: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(TrainingError, match="isn't an earlier demo"):
        run_code_demo(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_one_that_is_stopped_says_how_to_begin_it_anew(
    hasty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise StoppedError("stopped by SIGINT: go on with --resume", 130)

    monkeypatch.setattr("clearhead.demo.demo_folder.train", stopped)
    with pytest.raises(StoppedError, match="run the same command"):
        run_code_demo(tmp_path / "code")


@pytest.mark.slow
def test_the_demo_packs_better_than_programs_that_know_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_code_demo(tmp_path / "code")
    told = capsys.readouterr().out
    model, gzip, *_ = (float(number) for number in re.findall(r"^  (\d+\.\d{3})  ", told, flags=re.MULTILINE))
    assert model < gzip
