"""`clearhead demo generate`: its source files, what it prints and leaves behind, and what it never replaces."""

import gzip
import json
import lzma
import re
from pathlib import Path

import pytest

from clearhead import DataError, TrainingError, load
from clearhead.config import DataConfig
from clearhead.data.forms import TextForm
from clearhead.demo import code_demo
from clearhead.demo.code_demo import SourceFile, as_json_lines, library_folder, packed, run_code_demo, split
from clearhead.training.signals import StoppedError

SMALL = {"model.d_model": 32, "model.d_ff": 32, "model.n_decoder_layers": 1, "model.n_heads": 2, "data.vocab_size": 270}
SMALL |= {"data.max_len": 32, "data.batch_tokens": 128, "train.threads": 1, "train.budget": "", "train.steps": 3}


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
    training, held_out = split(root)
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
    assert library_folder().is_dir() and (library_folder() / "os.py").exists()


def test_a_python_without_its_source_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        split(tmp_path)
    assert caught.value.name == str(tmp_path) and caught.value.value == 0


def test_the_files_are_read_back_as_they_are(root: Path, tmp_path: Path) -> None:
    training, _ = split(root)
    (tmp_path / "train.jsonl").write_bytes(as_json_lines(training))
    read = TextForm().read([str(tmp_path / "train.jsonl")], DataConfig())
    assert [piece.text for piece in read.pieces] == [it.text for it in training]
    first = json.loads((tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first == {"path": training[0].path, "text": training[0].text}


def test_the_sizes_are_those_of_gzip_and_xz_of_the_files_in_a_row(root: Path) -> None:
    training, held_out = split(root)
    before, text = ("".join(it.text for it in part).encode() for part in (training, held_out))
    found = packed(training, held_out)
    assert found.gzip == 8 * len(gzip.compress(text, 9)) / len(text)
    assert found.xz == 8 * len(lzma.compress(text, preset=9)) / len(text)
    both, alone = (len(lzma.compress(data, preset=9)) for data in (before + text, before))
    assert found.xz_after == 8 * (both - alone) / len(text)
    assert found.xz_after < found.xz  # it has seen such files


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
    monkeypatch.setattr(code_demo, "library_folder", lambda: root)
    return root


def test_it_prints_bits_a_byte_beside_gzip_and_xz_and_goes_on_with_three_beginnings(
    hasty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs" / "code"
    for _ in range(2):  # it replaces its own
        run_code_demo(out)
    told = capsys.readouterr()
    training, held_out = split(hasty)
    assert f"{hasty} has {len(training)} files to train on and {len(held_out)} held out." in told.err
    evaluation = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["characters"] == sum(len(it.text) for it in held_out)
    sizes = packed(training, held_out)
    report = told.out.split("Bits per byte of unseen files")[2]
    assert re.findall(r"^  (\d+\.\d{3})  (.*)$", report, flags=re.MULTILINE) == [
        (f"{evaluation['bits_per_byte']:.3f}", "this model"),
        (f"{sizes.gzip:.3f}", "gzip -9"),
        (f"{sizes.xz:.3f}", "xz -9"),
        (f"{sizes.xz_after:.3f}", "xz -9, primed with the training files"),
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
    model, other, *_ = (float(number) for number in re.findall(r"^  (\d+\.\d{3})  ", told, flags=re.MULTILINE))
    assert model < other
