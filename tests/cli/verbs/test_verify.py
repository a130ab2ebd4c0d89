import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.apps.checks.promise_subjects import subject_of
from clearhead.config import Config
from clearhead.decode.rules import Rules
from clearhead.folder.model_folder import model_files, save_files
from tests.builders import ENGLISH, FRENCH, make_questions

from ..conftest import Run

TINY = {
    "train.steps": 2, "train.warmup": 1, "train.threads": 1, "train.precision": "fp32", "data.vocab_size": 300,
    "model.d_model": 16, "model.n_heads": 2, "model.d_ff": 16, "model.n_encoder_layers": 1, "model.n_decoder_layers": 1,
    "train.device": "cpu",
}  # fmt: skip


def write(folder: Path, task: str) -> Path:
    """A little that a task can be learnt from."""
    path = folder / {"generate": "book.txt", "answer": "questions.json", "summarize": "texts.jsonl"}.get(
        task, "pairs.tsv"
    )
    pairs = [f"{source}\t{target}\n" for source, target in zip(ENGLISH, FRENCH)]
    texts = {
        "translate": "".join(f"{n} {line}" for n, line in enumerate(pairs * 8)),
        "classify": "".join(f"{n} {source}\t{(n % 2 and 'odd') or 'even'}\n" for n, source in enumerate(ENGLISH * 8)),
        "generate": "Once upon a time there was a number.\nThe end!\n" * 40,
        "answer": json.dumps(make_questions(20)),
        "summarize": "".join(
            json.dumps({"document": f"{n}. {' '.join(ENGLISH)}", "summary": f"{n}. {ENGLISH[0]}"}) + "\n"
            for n in range(40)
        ),
    }
    path.write_text(texts[task], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """A model of a task after two steps, and what it learnt from; each made once. Not to be written to."""
    made: dict[str, tuple[Path, Path]] = {}

    def of(task: str) -> tuple[Path, Path]:
        if task not in made:
            folder = tmp_path_factory.mktemp(task)
            data = write(folder, task)
            threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
                patch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
                patch.setattr("clearhead.scoring.class_scores.confusion_matrix", lambda *_: None)
                config = Config().override({**TINY, "train.task": task, "data.train": [str(data)], "data.split": 0.1})
                clearhead.train(config, folder / "model", say=lambda _: None)
            torch.set_num_threads(threads)
            torch.random.set_rng_state(generator)
            made[task] = folder / "model", data
        return made[task]

    return of


@pytest.mark.parametrize(
    "task", ["translate", "generate", "classify", "answer", pytest.param("summarize", marks=pytest.mark.slow)]
)
def test_the_models_of_all_tasks_keep_every_promise_on_data_and_without(
    task: str, trained: Callable[[str], tuple[Path, Path]], run: Run
) -> None:
    folder, data = trained(task)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    alone = run("verify", folder)
    assert alone.code == 0, alone
    assert max(map(len, alone.out.splitlines())) <= 80 and "0 failed" in alone.out
    done = run("verify", folder, data, "--json", "--seed", 3)
    assert done.code == 0 and "used" in done.err, done
    values = json.loads(done.out)
    assert values["passed"] and values["model"] == str(folder) and str(data) in values["texts"]
    skipped = [check["name"] for check in values["checks"] if check["status"] == "skipped"]
    writes = task not in ("classify", "answer")
    others = ["cached = full", "no leak from the future", "beam's scores = rescoring"]
    expected = set() if writes else {"engine = engine", *others}
    expected |= set() if task == "generate" else {"window = full"}
    expected |= set() if clearhead.load(folder).config.model.copy else {"pointer sums to 1"}
    assert set(skipped) == expected
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_texts_are_those_of_data_of_the_last_evaluation_or_random_and_it_is_said_which(
    model_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(model_folder, tmp_path / "model")
    app = clearhead.load(folder)
    assert (
        subject_of(app.loaded, app.decode_config()).texts
        == "6 texts of random tokens (no data given, and none in the folder)"
    )
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in zip(ENGLISH, FRENCH)), encoding="utf-8")
    pairs = clearhead.read_pairs([data])
    assert subject_of(app.loaded, app.decode_config(), pairs).texts == f"5 texts of {data}, at most 24 tokens each"
    app.save_evaluation(app.evaluate(pairs))
    assert subject_of(app.loaded, app.decode_config()).texts == "5 texts of its evaluation.json, at most 24 tokens each"
    (folder / "evaluation.json").write_text('{"examples": [1]}', encoding="utf-8")
    assert subject_of(app.loaded, app.decode_config()).texts.startswith("6 texts of random tokens")


def test_a_broken_promise_is_exit_code_1_after_the_whole_page(
    model_folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rules, "penalty", lambda self, length: 1.0 + 0.0 * length)
    for options in ((), ("--json",)):
        done = run("verify", model_folder, *options)
        assert done.code == 1
        assert f"error: {model_folder} fails 1 check: beam's scores = rescoring" in done.err
    assert json.loads(done.out)["counts"]["failed"] == 2  # in float64, and in the precision that is used
    assert "FAILED  beam's scores = rescoring" in run("verify", model_folder).out


def test_what_is_wrongly_used_is_exit_code_2(model_folder: Path, run: Run, tmp_path: Path) -> None:
    assert run("verify").code == 2
    done = run("verify", model_folder, "--seed", "-1")
    assert done.code == 2 and "--seed -1" in done.err
    assert run("verify", model_folder, "--beam", "3").code == 2
    assert run("verify", tmp_path / "none").code == 1
    assert run("verify", model_folder, tmp_path / "none.tsv").code == 1


def test_a_part_that_no_setting_describes_is_saved_and_loaded_too(model_folder: Path) -> None:
    app = clearhead.load(model_folder)

    class Own(type(app.model.decoder.blocks[0].attention.attend)):
        pass

    app.model.decoder.blocks[0].attention.attend = Own()
    state = torch.random.get_rng_state()
    found = app.verify()
    assert found.passed, found.render()
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("attention", "code"), [("LinearAttention", 0), ("LeakyAttention", 1)])
def test_an_attention_of_ones_own_is_marked_and_what_it_breaks_is_said_in_words(
    attention: str, code: int, model_folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "clearhead" / "examples")
    app = clearhead.load(model_folder)
    config = app.config.override({"model.attention": f"own_attention:{attention}"}).to_dict()
    files = model_files(
        config=config, tokenizer=app.tokenizers.to_json(), weights=app.model.state_dict(), card="# its own"
    )
    save_files(tmp_path / "own", files)
    assert run("verify", tmp_path / "own").code == 1 and run("info", tmp_path / "own").code == 1  # without consent
    allowed = ("verify", tmp_path / "own", "--allow-custom-code")
    done, values = run(*allowed), json.loads(run(*allowed, "--json").out)
    assert done.code == code and values["passed"] is (code == 0)
    if code == 0:
        assert values["broken_by"] == {} and "passed  reported weights = used" in done.out
        return
    said = "LeakyAttention breaks causality, padding and the cache"
    assert said in done.out.splitlines() and said in done.err
    assert "no leak from the future" in done.err and max(map(len, done.out.splitlines())) <= 80
    assert values["broken_by"] == {"LeakyAttention": ["causality", "padding", "the cache"]}
    [check] = [
        it for it in values["checks"] if it["name"] == "no leak from the future" and it["precision"] == "float64"
    ]
    assert "LeakyAttention (decoder.0.self) sees later tokens (by " in check["detail"]
