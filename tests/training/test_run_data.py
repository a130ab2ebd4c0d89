"""The tokens of a run: made once, found again, made anew where they do not fit; in little memory."""

import io
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.api import load, train
from clearhead.config import Config
from clearhead.data import corpus, running_text
from clearhead.errors import ConfigError, DataError, TrainingError
from clearhead.folder.checkpoint import RunFolder
from clearhead.readers import documents, pairs
from clearhead.tasks.classify.task import Classification
from clearhead.tasks.examples import FreshBatches
from clearhead.tokenization.source_and_target import train_tokenizers
from clearhead.training import prepare as preparing
from clearhead.training.prepare import Prepared, prepare
from clearhead.training.run_data import _Shelf
from tests.builders import quiet

ROOT = Path(__file__).parents[2]


def stopped_at(toy, step: int, changes: dict[str, Any] | None = None) -> Config:
    """Settings of a run that was ended after this step by what looks at its steps."""

    class EndError(Exception): ...

    def end(values: Any) -> None:
        if values["step"] == step:
            raise EndError

    config = toy.config(changes)
    with pytest.raises(EndError):
        train(config, toy.folder / "run", say=quiet, on_step=end)
    return config


def again(said: list[str]) -> bool:
    return any(line.startswith("reusing the tokens of the same data and tokenizer") for line in said)


# --- in the folder of the run


def test_a_run_that_is_resumed_finds_its_tokens_and_ends_as_if_it_had_not_been_interrupted(toy, said, outcome) -> None:
    whole = outcome(train(toy.config(), toy.folder / "whole", say=quiet))
    config = stopped_at(toy, 6)
    assert (toy.folder / "run" / ".tokens" / "header.json").exists()
    assert outcome(train(config, toy.folder / "run", resume=True, say=said.append)) == whole
    assert (
        again(said)
        and any(line.startswith("held out ") for line in said)
        and any("lines used" in line for line in said)
    )
    assert not (toy.folder / "run" / ".tokens").exists() and not (toy.folder / "whole" / ".tokens").exists()


@pytest.mark.parametrize("damage", ["source.tokens", "header.json", "all"])
def test_tokens_that_are_damaged_or_gone_are_made_again_and_it_is_said(toy, said, outcome, damage: str) -> None:
    whole = outcome(train(toy.config(), toy.folder / "whole", say=quiet))
    config = stopped_at(toy, 6)
    tokens = toy.folder / "run" / ".tokens"
    for path in tokens.iterdir() if damage == "all" else [tokens / damage]:
        path.write_bytes(b"\0" * path.stat().st_size)
    assert outcome(train(config, toy.folder / "run", resume=True, say=said.append)) == whole
    assert any(line.startswith(f"the tokens in {tokens} are damaged: ") for line in said) and not again(said)
    assert any(line.endswith("; the data will be tokenized again") for line in said)


def test_data_that_have_changed_are_cut_anew_and_refused_by_name(toy, said) -> None:
    config = stopped_at(toy, 6)
    with Path(config.data.train[0]).open("a") as file:
        file.write("six six six\tsix six\n")
    with pytest.raises(TrainingError) as caught:
        train(config, toy.folder / "run", resume=True, say=said.append)
    assert caught.value.name == "the training data"
    assert not again(said)


def test_what_fails_before_the_first_step_leaves_no_folder(toy) -> None:
    for changes in ({"train.warmup": 50}, {"data.max_len": 3, "data.train": (str(long_pairs(toy.folder)),)}):
        with pytest.raises((ConfigError, DataError)):
            train(toy.config(changes), toy.folder / "run", say=quiet)
        assert not (toy.folder / "run").exists()


def long_pairs(folder: Path) -> Path:
    path = folder / "long.tsv"
    path.write_text("one one one one\tone\n")
    return path


def test_a_disk_that_is_full_is_told(toy, monkeypatch: pytest.MonkeyPatch, disk_full: OSError) -> None:
    def fail(*_: object) -> None:
        raise disk_full

    monkeypatch.setattr("clearhead.data.store._take_place", fail)
    with pytest.raises(TrainingError, match="No space left on device"):
        train(toy.config(), toy.folder / "run", say=quiet)
    assert not (toy.folder / "run").exists()


@pytest.mark.parametrize("there", [False, True], ids=["made", "found"])
@pytest.mark.parametrize("kept", [0, 10**9], ids=["read again", "kept"])
def test_data_that_are_edited_after_the_first_reading_are_refused_and_give_no_tokens(
    toy, monkeypatch: pytest.MonkeyPatch, there: bool, kept: int
) -> None:
    config = toy.config({"data.store": str(toy.folder / "tokens"), "train.steps": 1})
    path, learn = Path(config.data.train[0]), preparing._train_tokenizers
    if there:
        train(config, toy.folder / "first", say=quiet)

    def learn_and_edit(*arguments: Any) -> Any:
        learnt = learn(*arguments)
        path.write_text(path.read_text().replace("six", "one"))
        return learnt

    monkeypatch.setattr(pairs, "_KEPT", kept)
    monkeypatch.setattr(preparing, "_train_tokenizers", learn_and_edit)
    with pytest.raises(DataError, match=r"pairs\.tsv"):
        train(config, toy.folder / "run", say=quiet)
    assert len(list((toy.folder / "tokens").iterdir())) == there


def test_tokens_that_another_program_removes_at_once_are_missed(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.data.store._take_place", lambda *_: None)
    with pytest.raises(DataError, match=r"the tokens in .*run/\.tokens were removed by another program"):
        train(toy.config(), toy.folder / "run", say=quiet)


def test_a_file_in_the_place_of_the_store_is_refused(toy) -> None:
    (toy.folder / "tokens").write_text("")
    with pytest.raises(ConfigError) as caught:
        train(toy.config({"data.store": str(toy.folder / "tokens")}), toy.folder / "run", say=quiet)
    assert (caught.value.name, caught.value.value) == ("data.store", str(toy.folder / "tokens"))
    assert not (toy.folder / "run").exists()


def test_standard_input_is_read_for_one_purpose_alone(toy) -> None:
    for names in (["data.train", "data.valid"], ["data.valid", "data.test"], ["data.train", "data.valid", "data.test"]):
        with pytest.raises(DataError) as caught:
            train(toy.config(dict.fromkeys(names, ("-",))), toy.folder / "run", say=quiet)
        assert (caught.value.name, caught.value.value) == (names[1], "-")
        assert not (toy.folder / "run").exists()


# --- in a folder of their own


def test_runs_on_the_same_data_share_their_tokens(toy, said, outcome) -> None:
    store = toy.folder / "tokens"
    alone = outcome(train(toy.config(), toy.folder / "alone", say=quiet))
    for name, same in (("one", False), ("two", True)):
        said.clear()
        found = outcome(train(toy.config({"data.store": str(store)}), toy.folder / name, say=said.append))
        assert again(said) == same and len(list(store.iterdir())) == 1
        assert found["tensors"] == alone["tensors"] and found["metrics"] == alone["metrics"]
    train(toy.config({"data.store": str(store), "train.lr": 1e-3}), toy.folder / "three", say=said.append)
    assert again(said) and len(list(store.iterdir())) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"data.reverse": True},
        {"data.split": 0.2},
        {"train.seed": 1},
        {"data.max_len": 11},
        {"data.normalise": ("lowercase",)},
    ],
    ids=str,
)
def test_other_tokens_have_a_place_of_their_own(toy, said, changes: dict[str, Any]) -> None:
    store = {"data.store": str(toy.folder / "tokens"), "train.steps": 1}
    train(toy.config(store), toy.folder / "one", say=quiet)
    train(toy.config(store | changes), toy.folder / "two", say=said.append)
    assert not again(said) and len(list((toy.folder / "tokens").iterdir())) == 2


def test_tokens_of_texts_that_are_read_from_their_first_token_are_others(toy, said) -> None:
    rows = [f"{label} one two {i}\t{label}\n" for i in range(40) for label in ("bad", "good")]
    (toy.folder / "labelled.tsv").write_text("text\tlabel\n" + "".join(rows))
    values = {"data.train": (str(toy.folder / "labelled.tsv"),), "train.task": "classify", "train.steps": 1}
    values |= {"data.store": str(toy.folder / "tokens")}
    for name, pooling, same in (("a", "mean", False), ("b", "first", False), ("c", "first", True)):
        said.clear()
        train(toy.config(values | {"model.pooling": pooling}), toy.folder / name, say=said.append)
        assert again(said) == same


def test_numbers_of_other_labels_have_a_place_of_their_own() -> None:
    config = Config().override({"data.store": "tokens", "train.device": "cpu"})
    tokenizers = train_tokenizers(["a text"], [], config.data)
    tasks = (
        Classification(tokenizers, config.override({"data.labels": labels}))
        for labels in (("bad", "good"), ("bad", "fair", "good"), ("bad", "good"))
    )
    two, three, again = (_Shelf.of("digest", task, Path("run"), quiet).path for task in tasks)
    assert two == again != three


def test_pairs_that_are_too_long_are_said_of_tokens_that_were_found_too(toy, said) -> None:
    path = toy.folder / "more.tsv"
    long = "".join(f"{word} " * 30 + "\tone\n" for word in ("one", "two", "six", "one two", "two six"))
    path.write_text(Path(toy.config().data.train[0]).read_text() + long)
    changes = {
        "data.store": str(toy.folder / "tokens"),
        "data.train": (str(path),),
        "data.max_len": 20,
        "train.steps": 1,
    }
    for name, found in (("one", False), ("two", True)):
        said.clear()
        train(toy.config(changes), toy.folder / name, say=said.append)
        assert again(said) == found
        assert sum("; they're dropped" in line for line in said) == 1


def test_the_store_may_have_moved_when_a_run_is_resumed(toy, said, outcome) -> None:
    whole = outcome(train(toy.config(), toy.folder / "whole", say=quiet))
    stopped_at(toy, 6, {"data.store": str(toy.folder / "tokens")})
    (toy.folder / "tokens").rename(toy.folder / "elsewhere")
    config = toy.config({"data.store": str(toy.folder / "elsewhere")})
    resumed = outcome(train(config, toy.folder / "run", resume=True, say=said.append))
    assert again(said) and resumed["tensors"] == whole["tensors"]


# --- every form trains


def test_the_other_direction_is_learnt_from_the_same_file(toy, outcome) -> None:
    there = toy.pairs().read_text().splitlines()
    (toy.folder / "swapped.tsv").write_text("".join("\t".join(line.split("\t")[::-1]) + "\n" for line in there))
    one = outcome(train(toy.config({"data.reverse": True}), toy.folder / "one", say=quiet))
    other = toy.config({"data.train": (str(toy.folder / "swapped.tsv"),)})
    assert one["tensors"] == outcome(train(other, toy.folder / "other", say=quiet))["tensors"]


def test_standard_input_and_a_folder_of_objects_give_the_same_model(toy, outcome, monkeypatch) -> None:
    whole = outcome(train(toy.config(), toy.folder / "whole", say=quiet))
    content = toy.pairs().read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    piped = outcome(train(toy.config({"data.train": ("-",)}), toy.folder / "piped", say=quiet))
    (toy.folder / "shards").mkdir()
    lines = [dict(zip(("en", "fr"), line.split("\t"))) for line in content.decode().splitlines()]
    for number, start in enumerate(range(0, len(lines), 7)):
        shard = "".join(json.dumps({"translation": it}) + "\n" for it in lines[start : start + 7])
        (toy.folder / "shards" / f"{number}.jsonl").write_text(shard)
    sharded = toy.config({"data.train": (str(toy.folder / "shards"),)})
    assert piped["tensors"] == outcome(train(sharded, toy.folder / "x", say=quiet))["tensors"] == whole["tensors"]
    assert load(toy.folder / "piped", device="cpu").config.data.train == ("-",)


# --- subword dropout

FRESH = {"data.tokenizer": "bpe", "data.vocab_size": 280, "data.subword_dropout": 0.3, "data.max_len": 40}
FRESH |= {"data.batch_tokens": 128}


@pytest.mark.parametrize("accumulate", [1, 5, pytest.param(40, marks=pytest.mark.slow)])
def test_a_run_with_subword_dropout_is_resumed_exactly_whatever_epochs_a_step_spans(toy, outcome, accumulate) -> None:
    changes = FRESH | {"train.accumulate": accumulate, "train.save_every": 1}
    whole = outcome(train(toy.config(changes), toy.folder / "whole", say=quiet))
    config = stopped_at(toy, 6, changes)
    assert outcome(train(config, toy.folder / "run", resume=True, say=quiet)) == whole
    without = outcome(train(toy.config(changes | {"data.subword_dropout": 0.0}), toy.folder / "without", say=quiet))
    assert (
        without["tensors"] != whole["tensors"]
        and without["files"]["tokenizer.json"] == whole["files"]["tokenizer.json"]
    )


def test_every_epoch_has_every_text_once_in_its_own_tokens(toy) -> None:
    with RunFolder.create(toy.folder / "x", say=quiet) as folder:
        it = prepare(folder, toy.config(FRESH), quiet)
    batches = FreshBatches.of(it.examples, it.task.each_epoch(it.examples), it.examples.batches(128), slots=2)
    decode = it.task.tokenizers.source.decode
    seen: list[dict[int, list[int]]] = []
    plans = [batches.epoch(epoch) for epoch in (4, 5)]
    for rows_of_epoch in plans:
        tokens = {}
        for rows in rows_of_epoch:
            examples, places = batches.at(rows)
            assert batches.target_lengths[rows].tolist() == (examples.targets.lengths[places] - 1).tolist()
            assert batches.source_lengths[rows].tolist() == examples.sources.lengths[places].tolist()
            tokens |= {place: examples.sources[place] for place in places.tolist()}
        assert sorted(tokens) == list(range(len(it.examples)))
        assert all(decode(ids) == decode(it.examples.sources[place]) for place, ids in tokens.items())
        seen.append(tokens)
    assert seen[0] != seen[1]
    again = FreshBatches.of(it.examples, it.task.each_epoch(it.examples), it.examples.batches(128), slots=3)
    assert [rows.tolist() for rows in again.epoch(5)] == [
        (rows + (5 % 3 - 5 % 2) * len(it.examples)).tolist() for rows in plans[1]
    ]


# --- memory


def prepared(toy, name: str, path: Path, **changes: Any) -> Prepared:
    with RunFolder.create(toy.folder / name, say=quiet) as folder:
        return prepare(folder, toy.config({"data.train": (str(path),), "data.split": 0.001} | changes), quiet)


def test_that_a_tokenizer_learns_from_a_part_of_a_long_text_is_said(toy, said, monkeypatch: pytest.MonkeyPatch) -> None:
    path = toy.folder / "text.txt"
    path.write_text("".join(f"line {number:04}\n" for number in range(1000)))
    monkeypatch.setattr(documents, "_PIECE", 100)
    monkeypatch.setattr(running_text, "_LEARN", 1000)
    values = {"train.task": "generate", "data.train": (str(path),), "data.tokenizer": "character", "train.steps": 1}
    train(toy.config(values), toy.folder / "run", say=said.append)
    assert "the tokenizer is trained on 11.1% of the text, sampled evenly" in said


def test_one_reading_and_several_in_small_chunks_give_the_same_tokens(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    path = toy.pairs(200)
    kept = prepared(toy, "kept", path)
    monkeypatch.setattr(pairs, "_KEPT", 0)
    monkeypatch.setattr(corpus, "_CHUNK", 7)
    read = prepared(toy, "read", path)
    assert kept.constants == read.constants and kept.digest == read.digest
    assert [list(side) for side in (read.examples.sources, read.examples.targets)] == [
        list(side) for side in (kept.examples.sources, kept.examples.targets)
    ]
    assert read.examples.sources.tokens.dtype == np.uint16


def peak_of_preparing(toy, n_pairs: int) -> int:
    """The most memory that Python and numpy hold at a time."""
    path = toy.folder / "many.tsv"
    path.write_text("".join(f"one {'two ' * (i % 7)}{i % 999} {i % 1001}\tsix {i % 997}\n" for i in range(n_pairs)))
    tracemalloc.start()
    try:
        prepared(toy, f"run-{n_pairs}", path, **{"data.batch_tokens": 4096})
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_of_a_pair_some_bytes_are_kept_in_memory_and_not_its_text(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "_KEPT", 0)
    monkeypatch.setattr(corpus, "_CHUNK", 1000)
    few, many = (peak_of_preparing(toy, n_pairs) for n_pairs in (10_000, 60_000))
    assert (many - few) / 50_000 < 150  # the texts of a pair alone would be some 250


@pytest.mark.slow
def test_five_million_pairs_are_trained_on_within_one_and_a_half_gigabytes() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "store.py"), "--pairs", "5000000", "--tokens", "5"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=3000)
    peak = int(done.stdout.split("so far, ")[1].split(" MiB overall")[0].replace(",", ""))
    assert peak * 2**20 < 1.5e9


def test_there_is_no_pair_left_where_all_are_too_long(toy) -> None:
    with pytest.raises(DataError, match="the only one is longer than 3 tokens"):
        prepared(toy, "run", long_pairs(toy.folder), **{"data.max_len": 3})
