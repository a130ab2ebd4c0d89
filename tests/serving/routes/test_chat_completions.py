"""/v1/chat/completions answers as the app does, for OpenAI's own client."""

from pathlib import Path
from typing import Any

import openai
import pytest

from clearhead import load

from ..small_models import make

MESSAGES = [{"role": "user", "content": "She sings.</s>"}]
ASK: dict[str, Any] = {"model": "chat", "messages": MESSAGES, "max_tokens": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("chat"), "chat")


@pytest.fixture(scope="module")
def served(serve, folder, model_folder, tmp_path_factory):
    with serve(f"chat={folder}", f"letters={make(tmp_path_factory.mktemp('generate'), 'generate')}") as served:
        yield served


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_an_answer_is_that_of_the_app(client, folder) -> None:
    app = load(folder)
    found = client.chat.completions.create(**ASK, temperature=0)
    assert (found.object, found.model) == ("chat.completion", "chat")
    assert found.choices[0].message.role == "assistant"
    assert found.choices[0].message.content == app.chat(MESSAGES, sample=False, beam=1, max_len=8)
    assert found.choices[0].finish_reason in ("stop", "length")
    assert found.usage.prompt_tokens == len(app.writer().prompt(MESSAGES))
    assert 0 < found.usage.completion_tokens <= 9
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    whole = client.chat.completions.create(model="chat", messages=MESSAGES, temperature=0).choices[0].message.content
    assert whole == app.chat(MESSAGES, sample=False, beam=1, max_len=1000)


def test_seeds_choices_and_stops(client) -> None:
    def ask(**more: Any) -> list[str]:
        return [it.message.content for it in client.chat.completions.create(**ASK, **more).choices]

    assert ask(seed=1, top_p=0.9) == ask(seed=1, top_p=0.9) != ask(seed=2, top_p=0.9)
    several = ask(seed=5, n=3)
    assert several == [*ask(seed=5), *ask(seed=6), *ask(seed=7)]
    text = next(it for it in several if len(it) > 3)
    assert ask(seed=5 + several.index(text), stop=text[2]) == [text.partition(text[2])[0]]
    shorter = client.chat.completions.create(model="chat", messages=MESSAGES, max_completion_tokens=2, seed=5)
    assert shorter.usage.completion_tokens <= 3


def test_a_stream_has_the_same_text_and_ends_with_reason_and_usage(client) -> None:
    whole = client.chat.completions.create(**ASK, seed=3, n=2)
    texts, roles, reasons, usage = {0: "", 1: ""}, set(), {}, None
    for event in client.chat.completions.create(
        **ASK, seed=3, n=2, stream=True, stream_options={"include_usage": True}
    ):
        assert event.object == "chat.completion.chunk"
        usage = event.usage or usage
        for choice in event.choices:
            texts[choice.index] += choice.delta.content or ""
            roles |= {choice.index} if choice.delta.role == "assistant" else set()
            reasons |= {choice.index: choice.finish_reason} if choice.finish_reason else {}
    assert [texts[0], texts[1]] == [it.message.content for it in whole.choices]
    assert reasons == {it.index: it.finish_reason for it in whole.choices} and roles == {0, 1}
    assert usage == whole.usage


@pytest.mark.parametrize(
    ("changes", "status", "param"),
    [
        ({"model": "letters"}, 404, "model"),
        ({"model": "other"}, 404, "model"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "tool", "content": "a"}]}, 400, "messages"),
        ({"messages": [{"role": "tool", "content": "a"}], "stream": True}, 400, "messages"),
        ({"messages": [{"role": "user"}]}, 400, "messages"),
        ({"messages": [{"role": "user", "content": "a" * 5001}]}, 400, "messages"),
        ({"max_completion_tokens": 1001}, 400, "max_completion_tokens"),
        ({"logit_bias": {"1": 1.0}}, 400, "logit_bias"),
        ({"n": 9}, 400, "n"),
        ({"tools": []}, 400, "tools"),
    ],
)
def test_errors_name_the_field(served, changes, status, param) -> None:
    found = served.post("/v1/chat/completions", ASK | changes)
    error = found.json()["error"]
    assert found.status == status and error["message"]
    assert param in (error["param"] or error["message"])


def test_a_long_conversation_is_one_text(served) -> None:
    turns = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}] * 51
    assert served.post("/v1/chat/completions", ASK | {"messages": [*turns, *MESSAGES]}).status == 200
