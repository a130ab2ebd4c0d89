"""Runs on prompts with answers: they resume bit for bit, and a template is checked before any data is read."""

import json
from typing import Any

import pytest

from clearhead.api import load, train
from clearhead.errors import ConfigError
from tests.builders import quiet

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
    for text in ("chatlm", "{}", '{"roles": {"user": ["a", "b"]}}', '{"roles": 3}', "[1]"):
        with pytest.raises(ConfigError) as caught:
            train(toy.config(chats(toy) | {"data.template": text}), toy.folder / "run", say=quiet)
        assert (caught.value.name, caught.value.value) == ("data.template", text)
