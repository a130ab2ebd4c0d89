"""From files to a model folder."""

import io
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import load, train
from clearhead.cli.folder_summary import summarize_folder
from clearhead.config import Config, messages, preset
from clearhead.data.split import split
from clearhead.errors import ConfigError, DataError, TrainingError
from clearhead.folder.checkpoint import RunFolder, read_checkpoint
from clearhead.folder.manifest import Manifest
from clearhead.folder.model_folder import load_model_folder
from clearhead.readers.pairs import read_pairs
from clearhead.tasks.translate import Translation
from clearhead.training.prepare import Prepared, prepare
from clearhead.training.report.metrics import read_metrics
from clearhead.training.signals import StoppedError
from tests.builders import quiet


def run(toy, changes: dict[str, Any] | None = None, *, name: str = "run", say: Any = quiet) -> Path:
    return train(toy.config(changes), toy.folder / name, say=say)


def prepared(toy, changes: dict[str, Any] | None = None, say: Any = quiet) -> Prepared:
    with RunFolder.create(toy.folder / "prepared", replace=True, say=quiet) as folder:
        return prepare(folder, toy.config(changes), say)


def pairs_file(folder: Path, *lines: str) -> tuple[str]:
    (folder / "own.tsv").write_text("".join(f"{line}\n" for line in lines))
    return (str(folder / "own.tsv"),)


def records(folder: Path, name: str) -> list[Any]:
    return [record[name] for record in read_metrics(folder / "metrics.jsonl") if name in record]


# --- the whole way


def test_files_alone_are_enough(toy, said, monkeypatch) -> None:
    """Everything else is chosen, said, and written down; only the steps are given, since a thousand would take long."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0}, raising=False)  # other tests run beside this one
    files = (str(toy.pairs(200)),)
    folder = train(Config().override({"data.train": files, "train.steps": 2}), toy.folder / "run", say=said.append)
    config = json.loads((folder / "config.json").read_bytes())
    assert (config["train"]["preset"], config["data"]["vocab_size"], config["data"]["batch_tokens"]) == (
        "nano",
        1000,
        1024,
    )
    for name in ("train.preset", "data.vocab_size", "data.batch_tokens", "train.warmup", "train.lr", "train.threads"):
        section, key = name.split(".")
        assert any(line.startswith(f"{name} = {config[section][key]}: ") for line in said)
        assert f"- {name} = {config[section][key]}: " in (folder / "README.md").read_text()
    assert any("parameters; 196 pairs" in line and "2 steps; about" in line for line in said)
    assert said[-2].startswith("validation: BLEU ")
    assert Manifest.read(folder).finished == 2
    assert isinstance(load(folder)("one two"), str)


def test_a_preset_s_warm_up_is_shortened_whether_it_comes_by_name_or_by_value(toy) -> None:
    for number, values in enumerate((preset("nano"), {"train.preset": "nano"})):
        asked = Config().override(values | {"data.train": (str(toy.pairs(100)),), "train.steps": 6})
        folder = train(asked, toy.folder / f"{number}", say=lambda _: None)
        assert json.loads((folder / "config.json").read_bytes())["train"]["warmup"] == 2


def test_a_toy_language_is_learnt(toy) -> None:
    changes = {"data.train": (str(toy.pairs(900)),), "train.steps": 350, "data.batch_tokens": 256, "train.lr": 1e-2}
    changes |= {"train.eval_every": 350, "train.save_every": 350, "train.log_every": 50, "model.dropout": 0.0}
    folder = run(toy, changes)
    losses = records(folder, "loss")
    assert losses[-1] < losses[0] / 2
    assert records(folder, "valid_exact_match")[-1] > 0.95
    app = load(folder, device="cpu")
    assert app(["one two three", "six five"]) == ["three two one", "five six"]


def test_equal_seeds_give_equal_folders_and_others_do_not(toy, outcome) -> None:
    first, same, other = (
        outcome(run(toy, {"train.seed": seed}, name=name)) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == same
    assert first["tensors"] != other["tensors"]
    assert records(toy.folder / "a", "loss") != records(toy.folder / "c", "loss")


@pytest.mark.parametrize("best", ["bleu", "loss", "newest"])
def test_the_folder_has_the_weights_that_were_best(toy, monkeypatch, best: str) -> None:
    monkeypatch.setattr("clearhead.training.trainer.KEPT", 50)
    changes = {"train.eval_every": 1, "train.save_every": 1, "train.best": best, "train.lr": 0.1}
    folder = run(toy, changes | {"train.schedule": "constant", "train.seed": 3, "train.optimizer": "adam"})
    values = records(folder, "valid_bleu" if best == "bleu" else "valid_loss")
    lowest, newest_highest = values.index(min(values)) + 1, 12 - values[::-1].index(max(values))
    chosen = {"loss": lowest, "bleu": newest_highest, "newest": 12}[best]
    weights = read_checkpoint(folder / "checkpoints" / f"step-{chosen:08d}").tensors["model"]
    written = load_model_folder(folder).weights
    assert weights.keys() == written.keys()
    assert all(torch.equal(weights[name], written[name]) for name in weights)
    assert summarize_folder(folder)[1]["validation"]["step"] == chosen
    assert best == "bleu" or lowest < 12  # a rate that is too high: the last weights are not the best


def test_an_evaluation_is_a_translation_of_the_held_out_sentences(toy) -> None:
    valid = toy.pairs(30, name="valid.tsv")
    folder = run(toy, {"data.valid": (str(valid),), "train.eval_every": 12, "train.steps": 60, "train.best": "loss"})
    evaluation = load(folder, device="cpu").evaluate(read_pairs([valid]), beam=1)
    assert records(folder, "valid_bleu")[-1] == evaluation.scores.bleu > 0
    assert records(folder, "valid_exact_match")[-1] == evaluation.scores.exact_match
    best = min(records(folder, "valid_loss"))
    assert best == pytest.approx(math.log(evaluation.scores.perplexity), rel=1e-12)


def test_afterwards_it_says_how_to_use_the_model(toy) -> None:
    said: list[str] = []
    out = toy.folder / "my models"
    train(toy.config({"train.steps": 2}), out, say=said.append)
    assert said[-1] == f"use it: clearhead translate '{out}' \"a sentence\""


def test_a_test_file_is_scored_once_after_training(toy, said) -> None:
    test = toy.pairs(25, name="test.tsv")
    folder = run(toy, {"data.test": (str(test),)}, say=said.append)
    scores = load(folder, device="cpu").evaluate(read_pairs([test])).scores
    assert (
        f"| test | 25 | {scores.bleu:.2f} | {scores.chrf:.2f} | {scores.exact_match:.4f} |"
        in (folder / "README.md").read_text()
    )
    assert said[-2].startswith(f"test: BLEU {scores.bleu:.2f}  chrF {scores.chrf:.2f}")


def test_data_that_repeats_the_training_data_is_reported(toy, said) -> None:
    rows = toy.pairs().read_text().splitlines()
    seen = toy.folder / "seen.tsv"
    seen.write_text("\n".join([*(row.upper() + "!" for row in rows[:7]), "nine nine\tnine nine"]) + "\n")
    folder = run(toy, {"data.valid": (str(seen),), "data.test": (str(seen),), "train.steps": 1}, say=said.append)
    for what in ("validation", "test"):
        assert any(it.startswith(f"7 of 8 {what} sources are also in the training data") for it in said)
    app = load(folder, device="cpu")
    assert app.evaluate([str(seen)]).seen.startswith("7 of 8 test sources are")
    assert app.evaluate([str(toy.pairs())]).seen.startswith("this is the training data")
    assert app.evaluate([("nine", "nine")]).seen == ""
    (toy.folder / "pairs.tsv").rename(toy.folder / "moved.tsv")
    assert app.evaluate([str(seen)]).seen == ""
    assert app.evaluate([str(toy.folder / "moved.tsv")]).seen.startswith("this is the training data")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_both_precisions_learn(toy, precision: str) -> None:
    folder = run(toy, {"train.precision": precision, "train.steps": 60, "train.eval_every": 60, "train.save_every": 60})
    losses = records(folder, "loss")
    assert losses[-1] < losses[0] - 0.3
    assert {tensor.dtype for tensor in load_model_folder(folder).weights.values()} == {torch.float32}


def test_progress_and_messages_go_to_stderr(toy, capsys) -> None:
    run(toy, {"train.steps": 1}, say=messages.say)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 step; about" in captured.err and "step 1/1  epoch 1  loss" in captured.err


@pytest.mark.parametrize("through", ["the command line", pytest.param("the demo", marks=pytest.mark.slow)])
def test_training_whose_messages_nobody_reads_is_stopped_as_a_failure(through: str, tmp_path: Path) -> None:
    """With stdout and stderr in one pipe whose reader has gone, as `2>&1 | head -1` has it."""
    (tmp_path / "pairs.tsv").write_text("".join(f"number {n}\tnombre {n}\n" for n in range(40)))
    arguments = ["train", "pairs.tsv", "--out", "x", "--preset", "nano", "--threads", "1", "--train.steps=3"]
    if through == "the demo":
        arguments = ["demo", "--out", "x"]
    few = {"train.steps": 3, "train.eval_every": 3, "train.save_every": 3, "train.warmup": 1, "train.threads": 1}
    hasty = f"from clearhead.demo import phrasebook_demo as demo; demo.SETTINGS |= {few}; "
    hasty += "phrases = demo.split(); demo.split = lambda: (phrases[0][:200], phrases[1][:12]); demo.everyday = list; "
    script = f"{hasty} import sys; from clearhead.cli import main; sys.exit(main({arguments}))"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, stdout=writing, stderr=writing)
    os.close(writing)
    assert done.returncode == 1
    assert (tmp_path / "x" / "config.json").exists()  # training had begun
    assert not (tmp_path / "x" / "model.safetensors").exists()


def test_messages_that_nobody_reads_are_said_to_have_stopped_it(toy, monkeypatch) -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Gone())
    with pytest.raises(TrainingError) as caught:
        run(toy, say=messages.say)
    assert "resume=True" in caught.value.fix


@pytest.mark.parametrize("which", ["on_step", "on_eval"])
def test_a_pipe_of_the_caller_that_breaks_is_the_caller_s(toy, which: str) -> None:
    broken = BrokenPipeError("of a dashboard")

    def observe(_record: dict[str, Any]) -> None:
        raise broken

    with pytest.raises(BrokenPipeError) as caught:
        train(toy.config(), toy.folder / "run", say=quiet, **{which: observe})
    assert caught.value is broken


def test_without_stderr_training_says_nothing_and_ends_well(toy, capsys, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", None)
        folder = run(toy, {"train.steps": 1}, say=messages.say)
    assert capsys.readouterr() == ("", "") and Manifest.read(folder).finished == 1


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ConfigError("matplotlib is missing", fix="install it"), "matplotlib is missing"),
        (MemoryError("no room\nfor it"), "MemoryError: no room"),
    ],
)
def test_the_loss_is_drawn_and_where_it_cannot_be_that_is_said(
    toy, said, monkeypatch, error: Exception, why: str
) -> None:
    from clearhead.pictures.figures import loss_curve

    monkeypatch.setattr("clearhead.training.run.loss_curve", loss_curve)
    assert (run(toy, name="drawn") / "loss.png").read_bytes().startswith(b"\x89PNG")

    def missing(*_: Any) -> None:
        raise error

    monkeypatch.setattr("clearhead.training.run.loss_curve", missing)
    folder = run(toy, say=said.append)
    assert said[-2] == f"no picture of the training: {why}"
    assert Manifest.read(folder).finished == 12


def test_a_run_stopped_while_its_picture_is_drawn_draws_it_when_resumed(toy, monkeypatch) -> None:
    from clearhead.pictures.figures import loss_curve

    def stop(*_: Any) -> None:
        raise StoppedError("stopped by SIGTERM", 143)

    monkeypatch.setattr("clearhead.training.run.loss_curve", stop)
    with pytest.raises(StoppedError):
        run(toy)
    monkeypatch.setattr("clearhead.training.run.loss_curve", loss_curve)
    folder = train(toy.config(), toy.folder / "run", say=quiet, resume=True)
    assert (folder / "loss.png").exists() and Manifest.read(folder).finished == 12


def test_the_process_keeps_its_number_of_threads_to_what_the_run_wrote_down(toy) -> None:
    run(toy, {"train.steps": 1, "train.threads": 3})
    assert torch.get_num_threads() == 3


# --- what is held out


def test_without_a_split_the_newest_weights_are_kept_and_it_is_said(toy, said) -> None:
    for name, changes in (("loss", {"train.best": "loss"}), ("bleu", {"train.best": "bleu"})):
        folder = run(toy, changes | {"data.split": 0.0}, name=name, say=said.append)
        newest = read_checkpoint(folder / "checkpoints" / "step-00000012").tensors["model"]
        written = load_model_folder(folder).weights
        assert all(torch.equal(newest[key], written[key]) for key in newest)
        assert records(folder, "valid_loss") == []
        assert "None, because no data was held out." in (folder / "README.md").read_text()
    assert "nothing held out: data.split is 0" in said
    assert "the newest weights are kept, and their quality isn't measured" in said


def test_without_a_folder_the_model_is_in_runs_model(toy, monkeypatch) -> None:
    monkeypatch.chdir(toy.folder)
    steps, scores = list[dict[str, Any]](), list[dict[str, Any]]()
    found = train(toy.config(), on_step=steps.append, on_eval=scores.append)
    assert found == Path("runs/model") and load(found).config.train.steps == len(steps) == 12
    assert [it["step"] for it in scores] == [5, 10, 12] and all("bleu" in it for it in scores)


def test_of_fewer_than_twenty_sources_none_is_held_out_and_it_is_said(toy, said) -> None:
    folder = run(toy, {"data.train": (str(toy.pairs(19)),)}, say=said.append)
    assert "nothing held out: only 19 distinct sources, fewer than 20" in said
    assert "only 19 pairs to learn from: the model will memorise the data, and answer nothing else well" in said
    assert "the newest weights are kept, and their quality isn't measured" in said
    assert records(folder, "valid_loss") == []


def test_an_evaluation_decodes_a_sample_and_not_the_first_of_a_sorted_file(toy) -> None:
    changes = {"data.train": (str(toy.pairs(250)),), "data.split": 0.5, "train.eval_sentences": 25}
    valid = prepared(toy, changes).valid
    pairs = read_pairs(changes["data.train"])
    held_out = pairs.take(split(pairs.sources, 0.5, 0).held.nonzero()[0].tolist(), "held out")
    references = dict(zip(held_out.sources, held_out.targets))
    assert len(valid.sources) == 25 < len(references)
    assert [references[source] for source in valid.sources] == [texts[0] for texts in valid.references]
    lengths = [len(source.split()) for source in valid.sources]
    assert max(lengths) == max(len(source.split()) for source in references)
    assert lengths == sorted(lengths)  # still in the order of the file
    assert len(valid.examples) == sum(source in set(valid.sources) for source in held_out.sources)
    assert prepared(toy, changes).valid.sources == valid.sources
    assert prepared(toy, changes | {"train.seed": 1}).valid.sources != valid.sources


def test_a_validation_file_is_used_instead_of_a_split(toy) -> None:
    it = prepared(toy, {"data.valid": (str(toy.pairs(7, name="valid.tsv")),), "data.split": 0.5})
    assert len(it.examples) == 60 and len(it.valid.sources) == 7


# --- data that are few, long, or wrong


@pytest.mark.parametrize("steps", [1, 3])
def test_one_pair_is_enough(toy, steps: int) -> None:
    folder = run(toy, {"data.train": pairs_file(toy.folder, "one two\ttwo one"), "train.steps": steps})
    assert records(folder, "tokens")[-1] > 0
    assert load(folder, device="cpu")("one two") is not None


def test_one_pair_is_learnt_by_heart(toy) -> None:
    changes = {"data.train": pairs_file(toy.folder, "one two\ttwo one"), "train.steps": 60, "train.lr": 1e-2}
    changes |= {"train.save_every": 60, "train.eval_every": 60, "model.dropout": 0.0}
    assert load(run(toy, changes), device="cpu")("one two") == "two one"


def test_training_may_end_within_its_first_epoch(toy, outcome) -> None:
    state = outcome(run(toy, {"train.steps": 2}))["state"]["state"]
    assert (state["epoch"], state["batch"]) == (0, 2)


def test_a_batch_that_cannot_hold_the_longest_sentence_is_refused(toy) -> None:
    with pytest.raises(ConfigError, match=r"data\.batch_tokens=12"):
        run(toy, {"data.max_len": 12, "data.batch_tokens": 12})


def test_a_batch_that_holds_just_one_sentence_is_enough(toy) -> None:
    folder = run(toy, {"data.max_len": 4, "data.batch_tokens": 5})
    assert max(records(folder, "tokens")) <= 2 * 5  # of two steps


def test_pairs_that_are_too_long_are_counted_and_shown(toy, said) -> None:
    short, long = "one\tone", "one two three four\tfour three two one"
    prepared(toy, {"data.train": pairs_file(toy.folder, short, long, short, long), "data.max_len": 3}, said.append)
    reason = "pairs longer than 3 tokens (data.max_len); they're dropped"
    text = "one two three four"
    assert f'  skipped 2: {reason}\n    line 2: "{text}"\n    line 4: "{text}"' in said


def test_validation_and_test_pairs_that_are_too_long_are_counted_and_shown(toy, said) -> None:
    lines = ("one\tone", "one two three four\tfour three two one", "two\ttwo")
    some = pairs_file(toy.folder, *lines)
    it = prepared(toy, {"data.valid": some, "data.test": some, "data.max_len": 3}, said.append)
    assert it.valid is not None and it.test is not None
    start, shown = "  skipped 1: pairs longer than 3 tokens (data.max_len); ", '\n    line 2: "one two three four"'
    assert sum(line.startswith(start) and line.endswith(shown) for line in said) == 2
    for held_out in (it.valid, it.test):
        assert (len(held_out.examples), len(held_out.sources), len(held_out.too_long)) == (2, 3, 1)


def test_validation_sources_whose_end_cannot_be_read_are_counted(toy, said) -> None:
    some = pairs_file(toy.folder, "one\tone", "one two three four\tfour", "one\tone two three four", "two\ttwo")
    it = prepared(toy, {"data.valid": some, "data.max_len": 3, "model.max_len": 4}, said.append)
    assert it.valid is not None and (len(it.valid.too_long), it.valid.cut) == (2, 1)
    assert "1 sentence too long for the model: only the beginning is read" in said


def test_a_large_validation_file_is_sampled_by_its_sources(toy) -> None:
    lines = [f"{word}\t{word} {n}" for word in ["one", "two", "three", "four", "five", "six"] for n in range(3)]
    it = prepared(toy, {"data.valid": pairs_file(toy.folder, *lines), "train.eval_sentences": 2})
    assert it.valid is not None
    assert (len(it.valid.sources), len(it.valid.examples)) == (2, 6)  # the loss is of the same sentences


def test_where_every_pair_is_too_long_it_is_said_and_nothing_is_left_behind(toy) -> None:
    changes = {"data.train": pairs_file(toy.folder, "one two three\tthree", "one\tone two three"), "data.max_len": 2}
    with pytest.raises(DataError) as caught:
        run(toy, changes)
    assert caught.value.value == 2 and "longer than 2 tokens (data.max_len)" in caught.value.what
    assert not (toy.folder / "run").exists()


def test_a_validation_file_that_is_all_too_long_is_refused(toy) -> None:
    long = pairs_file(toy.folder, "one two three four\tfour three two one")
    with pytest.raises(DataError, match="the only validation pair is longer than 3 tokens"):
        run(toy, {"data.valid": long, "data.max_len": 3})


def test_a_split_that_is_all_too_long_holds_nothing_out_and_it_is_said(toy, said, outcome) -> None:
    lines = [f"{word}\t{word}" for word in ("one two three four five six seven eight nine ten " * 3).split()]
    long = [f"{'long ' * 9}{n}\tlong" for n in range(22)]
    it = prepared(
        toy, {"data.train": pairs_file(toy.folder, *lines, *long), "data.max_len": 3, "data.split": 0.03}, said.append
    )
    assert it.valid is None
    start = "nothing is held out: the only validation pair is longer than 3 tokens (data.max_len)"
    assert any(line.startswith(start) for line in said)


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_a_file_that_is_missing_is_noticed_before_training(toy, name: str) -> None:
    with pytest.raises(DataError, match=r"absent\.tsv"):
        run(toy, {f"data.{name}": (str(toy.folder / "absent.tsv"),)})
    assert not (toy.folder / "run").exists()


def test_no_file_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        train(Config(), "never")
    assert caught.value.name == "data.train"


def test_two_files_are_read_as_one_of_two_columns(toy, outcome) -> None:
    for side, name in enumerate(("a.en", "a.fr")):
        lines = [line.split("\t")[side] for line in toy.pairs().read_text().splitlines()]
        (toy.folder / name).write_text("".join(f"{line}\n" for line in lines))
    two = outcome(run(toy, {"data.train": (str(toy.folder / "a.en"), str(toy.folder / "a.fr"))}, name="two"))
    assert two["tensors"] == outcome(run(toy))["tensors"]


# --- two vocabularies


def test_two_vocabularies_share_no_matrix(toy, said) -> None:
    folder = run(toy, {"data.joint": False}, say=said.append)
    config = json.loads((folder / "config.json").read_bytes())
    assert config["model"]["tie"] == "target"
    assert any(line.startswith("tokenizer: 10 and 10 tokens in") for line in said)
    assert load(folder, device="cpu")("one") is not None


def test_a_shared_matrix_that_is_asked_for_with_two_vocabularies_is_said_to_be_none(toy, said) -> None:
    run(toy, {"data.joint": False, "model.tie": "all"}, say=said.append)
    assert "model.tie = target: source and target have separate vocabularies" in said


# --- what is not a number


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_rate_that_is_far_too_high_ends_with_a_reason_and_saves_nothing(toy, precision: str) -> None:
    changes = {"train.lr": 1e38, "train.warmup": 0, "train.save_every": 1, "train.precision": precision}
    with pytest.raises(TrainingError, match="after step 1") as caught:
        run(toy, changes)
    assert caught.value.name == "encoder.embedding.weight"
    assert not (toy.folder / "run" / "checkpoints").exists()
    with pytest.raises(TrainingError, match="at step 2") as caught:
        run(toy, changes | {"train.save_every": 4}, name="other")
    assert caught.value.name == "encoder.embedding.weight"


# --- memory

WATCH = """
import sys
from pathlib import Path
from clearhead.config import Config
from clearhead.training.report.progress import Progress
from clearhead.api import train

resident = []

def update(self, *, step, **values):
    status = Path("/proc/self/status").read_text()
    resident.append(int(status.partition("VmRSS:")[2].split()[0]))  # kB

Progress.update = update
train(Config.from_toml(Path(sys.argv[1])), sys.argv[2], say=lambda message: None)
print(*resident)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells it there")
@pytest.mark.parametrize("steps", [8_000])
def test_resident_memory_does_not_grow_after_the_first_epochs(toy, steps: int) -> None:
    changes = {"data.train": (str(toy.pairs(200)),), "data.batch_tokens": 128, "train.save_every": max(steps // 20, 50)}
    config = toy.config(changes | {"train.steps": steps, "train.eval_every": 100, "train.log_every": 10})
    (toy.folder / "config.toml").write_text(config.to_toml())
    arguments = [sys.executable, "-c", WATCH, str(toy.folder / "config.toml"), str(toy.folder / "run")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=3000)
    resident = [int(number) for number in done.stdout.split()]
    assert len(resident) == steps
    after_two_evaluations = resident[220]
    assert max(resident[220:]) < 1.05 * after_two_evaluations


@pytest.mark.parametrize(
    "settings", [{"decode.n_best": 3}, {"decode.diverse": True, "decode.n_best": 2}, {"decode.sample": True}], ids=str
)
def test_evaluations_are_greedy_whatever_the_search_of_the_model_is(toy, settings: dict[str, Any]) -> None:
    records: list[dict[str, Any]] = []
    train(toy.config({"train.steps": 5, **settings}), toy.folder / "run", say=quiet, on_eval=records.append)
    plain: list[dict[str, Any]] = []
    train(toy.config({"train.steps": 5}), toy.folder / "plain", say=quiet, on_eval=plain.append)
    assert [{**it, "seconds": 0} for it in records] == [{**it, "seconds": 0} for it in plain] != []


def test_the_last_scores_are_those_of_one_answer_whatever_the_model_stores(toy, monkeypatch) -> None:
    searches, evaluate = [], Translation.evaluate

    def watched(self: Translation, model: Any, held_out: Any, decode: Any) -> Any:
        searches.append(decode)
        return evaluate(self, model, held_out, decode)

    monkeypatch.setattr(Translation, "evaluate", watched)
    run = train(toy.config({"train.steps": 5, "decode.n_best": 3}), toy.folder / "run", say=quiet)
    assert (searches[-1].beam, searches[-1].n_best, load(run).config.decode.n_best) == (4, 1, 3)


def test_a_search_that_cannot_be_is_refused_before_the_first_step(toy) -> None:
    steps: list[dict[str, Any]] = []
    with pytest.raises(DataError, match="'qqq'"):
        train(toy.config({"decode.suppress": ("qqq",)}), toy.folder / "run", say=quiet, on_step=steps.append)
    assert not steps


def test_the_mean_of_checkpoints_is_named_where_its_scores_are(toy) -> None:
    said: list[str] = []
    run = train(toy.config({"train.average": 2, "train.best": "loss"}), toy.folder / "run", say=said.append)
    assert load(run).config.train.average == 2
    assert any(re.search(r"^validation: .*, (mean of 2 checkpoints|step \d+)\)$", line) for line in said)


def test_patience_without_anything_held_out_is_said_to_change_nothing(toy) -> None:
    said: list[str] = []
    train(toy.config({"data.split": 0.0, "train.patience": 2}), toy.folder / "run", say=said.append)
    assert "train.patience has no effect: nothing is held out for validation" in said


@pytest.mark.parametrize("topology", ["decoder-only", "encoder-only"])
def test_a_topology_that_does_not_learn_from_pairs_is_refused_before_anything_is_written(toy, topology: str) -> None:
    expected = f"^model.topology='{topology}' "
    with pytest.raises(ConfigError, match=expected):
        run(toy, {"model.topology": topology})
    assert not (toy.folder / "run").exists()


def test_labels_that_are_none_are_refused_before_a_tokenizer_learns(toy, said: list[str]) -> None:
    (path := toy.folder / "texts.tsv").write_text("text\tlabel\n" + "one two\tgood\n" * 40)
    with pytest.raises(DataError, match='1 label \\("good"\\)'):
        train(toy.config({"data.train": (str(path),), "train.task": "classify"}), toy.folder / "out", say=said.append)
    assert said and not any(line.startswith("tokenizer:") for line in said)
