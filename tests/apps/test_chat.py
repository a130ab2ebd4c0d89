"""Chats: the app, the command line and explanations read messages alike."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead import load
from clearhead.apps.language_model import LanguageModel
from clearhead.errors import ConfigError, DataError
from tests.serving.small_models import make

HELLO = [{"role": "user", "content": "She sings."}]
GREEDY: dict[str, Any] = {"sample": False, "beam": 1}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    found = load(make(tmp_path_factory.mktemp("chat"), "chat"))
    assert isinstance(found, LanguageModel)
    return found


def test_an_answer_follows_the_conversation(app: LanguageModel) -> None:
    encode, prompt = app.tokenizers.target.encode, app.writer().prompt(HELLO)
    assert prompt == [1, *encode("user\nShe sings."), 2, 1, *encode("assistant\n")]
    answer = app.chat(HELLO, max_len=6, **GREEDY)
    stream = app.chat_pieces(HELLO, max_len=6, **GREEDY)
    assert "".join(stream) == answer == stream.continuation.text
    [[record]] = app.continuations([HELLO], max_len=6, n_best=1, **GREEDY)
    assert record.text == answer and record.unread == 0
    if len(answer) > 2:
        assert app.chat(HELLO, max_len=6, stop=[answer[2]], **GREEDY) == answer.partition(answer[2])[0]


def test_an_answer_is_trimmed_if_the_template_trims(app: LanguageModel, tmp_path: Path) -> None:
    template = {"roles": {"user": ["", "\n"], "assistant": ["", "END"]}, "trim": True}
    folder = make(tmp_path, "chat")
    other = load(folder)
    other = type(other)(other.loaded.override({"data.template": json.dumps(template)}))
    assert other.answering()["stop"] == ("END",)
    whole = other.chat(HELLO, max_len=12, sample=True, seed=1)
    assert whole == whole.strip() and "END" not in whole
    stream = other.chat_pieces(HELLO, max_len=12, sample=True, seed=1)
    assert "".join(stream) == whole


@pytest.mark.parametrize("wrong", ["hello", [], [{}], [{"role": "user"}], [{"role": "user", "content": 3}], 3, None,
                                   [{"role": "tool", "content": "x"}]])  # fmt: skip
def test_what_is_no_conversation_is_an_error(app: LanguageModel, wrong: Any) -> None:
    with pytest.raises(DataError) as caught:
        app.chat(wrong)
    assert caught.value.name == "messages" and caught.value.expected


def test_a_model_without_a_template_has_no_chat(tmp_path: Path) -> None:
    plain = load(make(tmp_path, "generate"))
    for ask in (plain.chat, plain.chat_pieces, lambda it: plain.continuations([it]), plain.explain):
        with pytest.raises(ConfigError) as caught:
            ask(HELLO)
        assert caught.value.name == "data.template"


def test_a_chat_is_explained_and_its_page_opens(app: LanguageModel, tmp_path: Path) -> None:
    explanation = app.explain(HELLO, max_len=4, **GREEDY)
    shown = "user: She sings.\n"
    assert explanation.text == shown
    assert explanation.answer == shown + app.chat(HELLO, max_len=4, **GREEDY)
    assert explanation.draw_page is not None and "She sings." in explanation.draw_page(explanation)


def test_the_promises_of_a_model_that_answers_are_checked(app: LanguageModel) -> None:
    prompts = [{"prompt": f"She sings {n}:", "completion": " They sleep."} for n in range(20)]
    for data in (None, prompts):
        found = app.verify(data)
        assert found.passed, found


def test_data_of_another_form_is_an_error_that_states_what_was_expected(app: LanguageModel, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("Once upon a time.\n" * 9)
    with pytest.raises(DataError) as caught:
        app.evaluate(tmp_path / "book.txt")
    assert caught.value.line == 1 and "prompt" in (caught.value.expected or "")
