"""Diagnoses of real runs of a few seconds, and folders that can't be diagnosed."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from clearhead.api import train
from clearhead.apps.diagnosis import all_probes, data_probes, trials
from clearhead.apps.diagnosis.all_probes import diagnose
from clearhead.apps.diagnosis.causes import ALARM
from clearhead.apps.diagnosis.diagnosed_run import opened
from clearhead.apps.diagnosis.trials import trial_probes
from clearhead.cli import main
from clearhead.config import Config
from clearhead.errors import DataError, ModelError
from clearhead.model.transformer import build
from clearhead.tasks import loss
from clearhead.training.report.floors import Floors
from tests.training.conftest import quick

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
SMALL = {
    "data.tokenizer": "word", "data.max_len": 12, "data.batch_tokens": 128, "model.d_model": 32, "model.n_heads": 2,
    "model.d_ff": 64, "model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "train.threads": 1,
    "train.precision": "fp32", "train.steps": 30, "train.eval_every": 15, "train.log_every": 5,
}  # fmt: skip
Trained = Callable[..., Path]


def pairs(seed: int = 0, n: int = 600) -> list[tuple[str, str]]:
    dice = random.Random(seed)
    sources = [" ".join(dice.choices(WORDS, k=dice.randint(2, 6))) for _ in range(n)]
    return [(it, " ".join(f"un{word}" for word in it.split())) for it in sources]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """`trained(rows, **settings)`: the folder of a short run."""

    def make(rows: list[tuple[str, ...]], task: str = "translate", **settings: Any) -> Path:
        folder = tmp_path_factory.mktemp("diagnosed")
        (folder / "pairs.tsv").write_text("".join("\t".join(it) + "\n" for it in rows), encoding="utf-8")
        values = {**SMALL, "train.task": task, "data.train": [str(folder / "pairs.tsv")]} | settings
        with quick():
            return train(Config().override(values), folder / "run", say=lambda _: None)

    return make


@pytest.fixture(autouse=True)
def _short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_STEPS", 15)
    monkeypatch.setattr(trials, "_LONG", 20)


@pytest.fixture(scope="module")
def plain(trained: Trained) -> Path:
    return trained(pairs())


def causes(folder: Path, *, tried: bool = False) -> list[str]:
    """The causes that are reported, without short trainings unless they're asked for."""
    with quick() as patch:
        probes = [it for it in all_probes.PROBES if tried or it[1] is not trial_probes]
        patch.setattr(all_probes, "PROBES", probes)
        return [it.cause for it in diagnose(folder).suspects]


def digests(folder: Path) -> dict[str, str]:
    return {str(it): hashlib.sha256(it.read_bytes()).hexdigest() for it in folder.rglob("*") if it.is_file()}


def test_a_diagnosis_changes_nothing_and_is_the_same_again(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = digests(plain)
    with quick():
        assert main(["diagnose", str(plain), "--json"]) == 0
        first = capsys.readouterr().out
        main(["diagnose", str(plain), "--json"])
        assert capsys.readouterr().out == first
    assert digests(plain) == before
    found = json.loads(first)
    probes = {it["probe"] for it in found["findings"]}
    assert {
        "training loss",
        "relation of sources and targets",
        "use of sources",
        "learning rates",
        "one batch",
    } <= probes
    assert not found["unmeasured"]


def test_shuffled_targets_come_first(trained: Trained) -> None:
    rows = pairs()
    targets = [target for _, target in rows]
    random.Random(1).shuffle(targets)
    assert causes(trained(list(zip((it for it, _ in rows), targets))))[0] == "unrelated"


def test_a_column_of_ids_is_the_wrong_one_and_the_right_one_is_named(trained: Trained) -> None:
    rows = [(*it, str(random.Random(n).randrange(10**5, 10**6))) for n, it in enumerate(pairs())]
    folder = trained(rows, **{"data.source_column": "1", "data.target_column": "3"})
    with quick():
        first = diagnose(folder).suspects[0]
    assert first.cause == "column" and "--target-column=2" in first.remedy


def test_validation_examples_from_the_training_data_come_first(trained: Trained, tmp_path: Path) -> None:
    valid = tmp_path / "valid.tsv"
    valid.write_text("".join("\t".join(it) + "\n" for it in pairs()[:50]), encoding="utf-8")
    assert causes(trained(pairs(), **{"data.valid": [str(valid)]}))[0] == "leak"


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda source, target: (source, source), "copies"),
        (lambda source, target: (source, "unone untwo"), "same_target"),
        (lambda source, target: ("one two", target), "same_source"),
    ],
)
def test_targets_that_teach_nothing_come_first(trained: Trained, change: Callable[..., Any], cause: str) -> None:
    assert causes(trained([change(*it) for it in pairs()]))[0] == cause


def test_validation_data_in_other_words_comes_first(trained: Trained, tmp_path: Path) -> None:
    valid = tmp_path / "valid.tsv"
    valid.write_text("".join(f"{it}\tsomething else {it}\n" for it, _ in pairs()[:50]), encoding="utf-8")
    assert causes(trained(pairs(), **{"data.valid": [str(valid)], "data.tokenizer": "character", "data.max_len": 90,
                                      "model.max_len": 99}))[0] == "other_validation"  # fmt: skip


def test_frozen_blocks_and_a_rate_that_is_too_high_are_to_blame(trained: Trained) -> None:
    blocks = ["encoder.blocks.0", "decoder.blocks.0"]
    assert "train.freeze" in causes(trained(pairs(), **{"train.freeze": blocks}))
    assert causes(trained(pairs(), **{"train.lr": 3.0}), tried=True)[0] == "train.lr"


def test_one_label_for_all_but_a_few_comes_first(trained: Trained) -> None:
    rows = [(it, "odd" if n % 40 == 0 else "even") for n, (it, _) in enumerate(pairs())]
    assert causes(trained(rows, "classify"))[0] == "dominant"


def test_a_classifier_that_reads_two_words_of_each_text_has_too_short_a_limit(trained: Trained) -> None:
    rows = [(it, "odd" if "seven" in it else "even") for it, _ in pairs()]
    assert causes(trained(rows, "classify", **{"data.max_len": 1, "train.label_smoothing": 0.0}))[0] == "data.max_len"


def test_the_usual_settings_of_images_have_their_size_and_no_batches_of_one(tmp_path: Path) -> None:
    numpy.save(tmp_path / "images.npy", numpy.random.default_rng(0).integers(0, 255, (60, 8, 8)).astype("u1"))
    numpy.save(tmp_path / "labels.npy", numpy.arange(60) % 2)
    files = [str(tmp_path / "images.npy"), str(tmp_path / "labels.npy")]
    shape = {name: value for name, value in SMALL.items() if not name.startswith("data.")}
    values = {**shape, "data.train": files, "train.task": "classify", "train.steps": 3, "data.batch_sentences": 1}
    with quick():
        folder = train(Config().override(values), tmp_path / "run", say=lambda _: None)
    with opened(folder, (), False) as subject:
        usual = subject.usual()
        assert usual.data.batch_sentences is None and usual.model.d_model != 32
        build(usual.model)  # an error without the image size


def test_a_training_that_beats_the_run_leaves_no_doubt() -> None:
    subject: Any = SimpleNamespace(
        unlearned=0.0, left=0.5, reached=2.0, losses=[(10, 3.0)], usual_steps=500, finished=False
    )
    assert trials._doubt(subject, 2.1) == 0.5 and trials._doubt(subject, 1.0) > 0.99
    assert trials._doubt(SimpleNamespace(unlearned=0.0, left=0.01, reached=0.02), 0.01) < 0.1  # type: ignore[arg-type]
    [found] = trials._length(SimpleNamespace(subject=subject, steps=50, own=1.0, noise=0.02))  # type: ignore[arg-type]
    assert found.blames[0].cause == "few_steps" and found.blames[0].weight > 0.9
    assert found.blames[0].remedy == "--resume"
    assert not [*trials._length(SimpleNamespace(subject=subject, steps=10))]  # type: ignore[arg-type]


def test_short_trainings_take_more_steps_if_they_get_no_further_than_frequencies(plain: Path) -> None:
    with opened(plain, (), False) as subject:
        for unigram, longer in ((1e9, False), (1e-9, True)):
            vars(subject)["floors"] = Floors(unigram, None)
            assert (trials.Trials(subject).steps > trials._STEPS) == longer


def test_a_loss_that_leaves_out_tokens_is_found_by_measuring_it_again(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = loss.projected_cross_entropy

    def some(x: Any, projection: Any, targets: Any, *, smoothing: float = 0.0, pad: int = 0) -> Any:
        return whole(x, projection, targets.where(targets < 6, pad), smoothing=smoothing, pad=pad)

    with monkeypatch.context() as patch:
        patch.setattr(loss, "projected_cross_entropy", some)
        wrong = trained(pairs())
    assert causes(wrong)[:1] == ["objective"]


def test_limits_of_a_model_are_to_blame_only_if_it_learned_little(trained: Trained) -> None:
    small = trained([(" ".join(it),) for it in pairs()], "generate", **{"model.window": 1, "data.max_len": 64})
    for share in (0.0, 1.0):
        with opened(small, (), False) as subject:
            vars(subject)["unlearned"] = share
            found = {blame.cause: blame.weight for it in trials._limits(subject) for blame in it.blames}
        assert (found["model.d_model"] > 0.4, found["model.window"] > 0.4) == (share > 0, share > 0)


def test_a_small_vocabulary_is_to_blame_if_its_tokens_are_short_and_more_so_if_the_run_learned_little(
    trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trained(pairs(), **{"data.tokenizer": "bpe", "data.vocab_size": 270, "data.max_len": 60})
    with opened(folder, (), False) as subject:
        usual = SimpleNamespace(data=SimpleNamespace(vocab_size=4000))
        monkeypatch.setattr(type(subject), "usual", lambda _: usual)
        found = {}
        for vars(subject)["unlearned"] in (0.0, 1.0):
            coverage = data_probes._coverage(subject)
            assert coverage is not None
            found[subject.unlearned] = coverage.blames[0].weight
        words = SimpleNamespace(source=SimpleNamespace(encode_batch=lambda texts: [it.split() for it in texts]))
        monkeypatch.setattr(subject.task, "tokenizers", words)
        coverage = data_probes._coverage(subject)
    assert found[0.0] < 0.7 < 0.9 < found[1.0]  # it may be a choice
    assert coverage is not None and coverage.blames[0].weight < 0.05


def test_a_number_is_blamed_before_a_kind_of_optimizer(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Any, config: Any, **__: Any) -> float:
        return 5.0 if config.train.optimizer == "adam" and not config.train.warmup else 1.0

    monkeypatch.setattr(trials.Trials, "run", run)
    with opened(plain, (), False) as subject:
        given = {"train.optimizer": "adam", "train.warmup": 0}
        vars(subject)["config"] = subject.config.assign(given, "user")
        found = {
            it.blames[0].cause: it.blames[0].weight for it in trials._settings(trials.Trials(subject)) if it.blames
        }
    assert found["train.warmup"] > ALARM > found["train.optimizer"]


def test_several_labels_in_the_wrong_order_and_their_thresholds(trained: Trained) -> None:
    dice = random.Random(0)
    rows = [(it, ";".join(sorted({*dice.choices("abc", k=2)}))) for it, _ in pairs(n=1100)]
    assert causes(trained(rows, "classify", **{"data.label_kind": "several:;"}))[:1] == ["unrelated"]


def test_hidden_tokens_arent_unknown_ones(trained: Trained) -> None:
    with opened(trained([(it,) for it, _ in pairs()], "fill"), (), False) as subject:
        found = data_probes._coverage(subject)
    assert found is not None and found.values["unknown"] < 0.05


def test_a_tokenizer_of_another_script_is_to_blame(trained: Trained) -> None:
    other = [(it.translate({n: n + 0x3D0 for n in range(97, 123)}), target) for it, target in pairs()]
    start = trained(pairs(), **{"data.tokenizer": "bpe", "data.vocab_size": 300, "data.max_len": 90})
    values = {name: it for name, it in SMALL.items() if name.startswith("train.")}
    values |= {"data.train": [str(start.parent / "other.tsv")], "train.task": "translate", "data.max_len": 90}
    (start.parent / "other.tsv").write_text("".join("\t".join(it) + "\n" for it in other), encoding="utf-8")
    with quick():
        train(Config().override(values | {"train.init_from": str(start)}), start.parent / "fine", say=lambda _: None)
    assert "vocabulary" in causes(start.parent / "fine") and "vocabulary" not in causes(start)


def test_an_unfinished_run_and_one_whose_data_is_gone_are_diagnosed(plain: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(plain, tmp_path / "run"))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "finished": None}))
    data = plain.parent / "pairs.tsv"
    moved = data.rename(tmp_path / "moved.tsv")
    try:
        with quick():
            found = diagnose(folder)
            again = diagnose(folder, [str(moved)])
    finally:
        moved.rename(data)
    assert "not finished" in found.about and "data" in found.unmeasured and "pairs.tsv" in found.unmeasured["data"]
    assert "data" not in again.unmeasured
    with pytest.raises(DataError):
        diagnose(folder, [str(tmp_path / "nothing.tsv")])


def test_other_data_than_that_of_the_run_is_reported_and_not_compared_with_the_log(plain: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tsv"
    other.write_text("".join(f"{target}\t{source}\n" for source, target in pairs(5)), encoding="utf-8")
    with quick() as patch:
        patch.setattr(all_probes, "PROBES", [it for it in all_probes.PROBES if it[1] is not trial_probes])
        found, own = diagnose(plain, [str(other)]), diagnose(plain)
    assert "data_changed" in [it.cause for it in found.suspects]
    assert "data_changed" not in [it.cause for it in own.suspects]
    assert "logged loss" in [it.probe for it in own.findings]
    assert "logged loss" not in [it.probe for it in found.findings]


def test_the_kept_step_is_that_with_the_best_score(plain: Path) -> None:
    rows = [(10, 3.0, 0.2), (20, 1.0, 0.9), (30, 0.5, 0.9), (40, 0.4, 0.1)]
    log = [{"step": step, "loss": loss, "valid_loss": loss + 1, "valid_f1": f1} for step, loss, f1 in rows]
    with opened(plain, (), False) as subject:
        for best, step, reached in (("f1", 30, 1.5), ("loss", 40, 1.4), ("newest", 40, 1.4)):
            config = subject.config.assign({"train.best": best}, "user")
            kept = replace(subject, config=config, log=log)
            assert (kept.kept_step, kept.reached) == (step, reached)


def test_frozen_weights_of_a_start_are_judged_without_data(plain: Path, tmp_path: Path) -> None:
    rows = tmp_path / "pairs.tsv"
    shutil.copy(plain.parent / "pairs.tsv", rows)
    values = {name: it for name, it in SMALL.items() if name.startswith("train.")} | {"train.task": "translate"}
    values |= {"data.train": [str(rows)], "train.init_from": str(plain), "train.freeze": ["embeddings"]}
    with quick():
        train(Config().override(values), tmp_path / "run", say=lambda _: None)
        rows.unlink()
        found = diagnose(tmp_path / "run")
    assert "changed weights" in [it.probe for it in found.findings] and "data" in found.unmeasured


def test_folders_without_a_run_are_errors(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as raised:
        diagnose(model_folder)
    assert raised.value.expected == "a folder that `clearhead train` wrote"
    with pytest.raises(ModelError):
        diagnose(tmp_path)


def test_the_verb_needs_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose"]) == 2
    assert "clearhead train" in capsys.readouterr().err
