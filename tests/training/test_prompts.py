"""Runs on prompts with answers: they resume bit for bit, and a template is checked before any data is read."""

import json
import random
from typing import Any

import numpy as np
import pytest

from clearhead.api import load, train
from clearhead.config import Config
from clearhead.errors import ConfigError
from clearhead.tasks.registry import task_named
from clearhead.tokenization.source_and_target import Tokenizers
from tests.builders import byte_level, quiet, save_untrained

from .test_run_data import stopped_at

WORDS = ["one", "two", "three", "four", "five", "six"]


def chats(toy: Any) -> dict[str, Any]:
    path = toy.folder / "chats.jsonl"
    rows = [
        {"messages": [{"role": "user", "content": f"{a} {b}"}, {"role": "assistant", "content": f"{b} {a}"}]}
        for a in WORDS
        for b in WORDS
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"data.train": (str(path),), "data.tokenizer": "bpe", "data.vocab_size": 300, "data.max_len": 40,
            "data.batch_tokens": 100}  # fmt: skip


@pytest.mark.parametrize("task", [None, "generate"])
def test_a_run_resumes_bit_for_bit(toy: Any, said: Any, outcome: Any, task: str | None) -> None:
    changes = chats(toy) | {"train.task": task}
    whole = train(toy.config(changes), toy.folder / "whole", say=quiet)
    config = stopped_at(toy, 6, changes)
    assert outcome(train(config, toy.folder / "run", resume=True, say=said.append)) == outcome(whole)
    app = load(whole)
    assert app.config.data.template == "default" and app.config.train.loss_on == "answer"
    assert isinstance(app.chat([{"role": "user", "content": "one two"}], max_len=3), str)
    again = train(
        toy.config(changes | {"train.init_from": str(whole), "data.template": "zephyr"}), toy.folder / "z", say=quiet
    )
    assert load(again).config.data.template == "zephyr"


def test_a_template_that_is_none_is_an_error_before_any_data_is_read(toy: Any) -> None:
    half = r'{"roles": {"user": ["", ""], "assistant": ["\udc80", ""]}}'
    for text in ("chatlm", "{}", '{"roles": {"user": ["a", "b"]}}', '{"roles": 3}', "[1]", half):
        with pytest.raises(ConfigError) as caught:
            train(toy.config(chats(toy) | {"data.template": text}), toy.folder / "run", say=quiet)
        assert (caught.value.name, caught.value.value) == ("data.template", text)


@pytest.mark.parametrize("task", [None, "generate"])
def test_a_warm_start_is_an_error_before_the_first_stage(toy: Any, task: str | None) -> None:
    changes = chats(toy) | {"train.warm_start": "denoise", "train.task": task}
    with pytest.raises(ConfigError) as caught:
        train(toy.config(changes), toy.folder / "run", say=quiet)
    assert caught.value.name == "train.warm_start" and not (toy.folder / "run").exists()


def test_a_model_of_running_text_learns_to_answer_and_keeps_its_vocabulary(toy: Any) -> None:
    (toy.folder / "book.txt").write_text(" ".join(WORDS * 60) + "\n")
    changes = chats(toy)
    book = {"data.train": (str(toy.folder / "book.txt"),), "train.task": "generate"}
    first = train(toy.config(changes | book), toy.folder / "book", say=quiet)
    after = {"train.init_from": str(first), "data.train": changes["data.train"]}
    config = Config().override({"train.steps": 3, "train.threads": 1, "data.max_len": 40} | after)
    app = load(train(config, toy.folder / "run", say=quiet))
    assert app.tokenizers.to_json() == load(first).tokenizers.to_json()
    assert app.config.train.loss_on == "answer" and load(first).config.train.loss_on is None
    back = load(train(config.override(book), toy.folder / "back", say=quiet))
    assert back.config.train.loss_on is None


@pytest.mark.parametrize("pad", [None, 2])
def test_the_token_that_ends_an_answer_in_another_template_ends_a_text(toy: Any, pad: int | None) -> None:
    """Also if the model to start from has it for padding, which is never predicted."""
    library = byte_level(WORDS * 5, 300, ("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    size = library.get_vocab_size()
    ids = {"bos_id": 0, "eos_id": 0, "pad_id": size if pad is None else pad, "unk_id": None, "mask_id": None}
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_decoder_layers": 1, "max_len": 40, "begin": False}
    settings = {f"model.{name}": value for name, value in {**ids, **sizes}.items()}
    config = Config().assign({**task_named("generate").required, "train.task": "generate", **settings}, "model")
    special = config.override({"model.src_vocab_size": size, "model.tgt_vocab_size": size}).model.special
    base = save_untrained(toy.folder / "base", config, Tokenizers.from_json(library.to_str(), special, origin="it"))
    row = {"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]}
    data = toy.folder / "chats.jsonl"
    data.write_text(f"{json.dumps(row)}\n" * 40)
    given = {"train.init_from": str(base), "data.train": (str(data),), "data.template": "chatml", "train.steps": 40}
    given |= {"train.lr": 1e-2, "train.threads": 1, "data.max_len": 40, "train.precision": "fp32"}
    app = load(train(Config().override(given), toy.folder / "run", say=quiet))
    assert app.config.model.more_eos_ids == (2,) and app.config.model.pad_id == size
    [[answer]] = app.continuations([row["messages"][:1]], **app.answering(sample=False, beam=1, n_best=1))
    assert (answer.text, answer.why) == ("two", "end")


NOUNS = [
    "red",
    "blue",
    "cat",
    "dog",
    "sun",
    "moon",
    "tree",
    "fish",
    "bird",
    "rock",
    "sand",
    "wind",
    "rain",
    "snow",
    "fire",
]
ORDERS = {"Reverse": lambda it: it[::-1], "Copy": list, "Upper-case": lambda it: [word.upper() for word in it]}


def instructions(draw: random.Random, count: int, lengths: tuple[int, int]) -> dict[tuple[str, ...], dict[str, str]]:
    """So many different instructions, each with its answer."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    while len(found) < count:
        order, words = draw.choice(list(ORDERS)), draw.choices(NOUNS, k=draw.randint(*lengths))
        answer = {"input": " ".join(words), "output": " ".join(ORDERS[order](words))}
        found[order, *words] = {"instruction": f"{order} the words."} | answer
    return found


@pytest.mark.slow
def test_instructions_are_followed_on_combinations_that_were_not_seen(tmp_path: Any) -> None:
    """Takes a few minutes of processor time."""
    draw = random.Random(0)
    seen = instructions(draw, 5000, (1, 4))
    others = instructions(draw, 1000, (3, 4))
    (tmp_path / "seen.jsonl").write_text("".join(json.dumps(row) + "\n" for row in seen.values()))
    config = Config().override(
        {"data.train": (str(tmp_path / "seen.jsonl"),), "train.preset": "nano", "train.steps": 500, "train.threads": 1}
    )
    app = load(train(config, tmp_path / "model", say=quiet))
    rows = [row for key, row in others.items() if key not in seen]
    chats = [[{"role": "user", "content": f"{row['instruction']}\n\n{row['input']}"}] for row in rows]
    writer = app.writer(**app.answering(sample=False, beam=1, n_best=1, max_len=40))
    answers = [best.text for best, *_ in writer.records(writer.read(chats))]
    assert len(rows) > 300 and np.mean([it == row["output"] for it, row in zip(answers, rows)]) >= 0.95
