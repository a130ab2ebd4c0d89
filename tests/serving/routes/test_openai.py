import base64
import io
import json
import wave
from pathlib import Path

import numpy as np
import openai
import pytest
import torch

from clearhead import load
from tests.builders import make_model_folder

from ..small_models import make
from .test_task_routes import multipart


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("generate"), "generate")


@pytest.fixture(scope="module")
def served(serve, folder, model_folder, tmp_path_factory):
    """Language models of characters and bytes, a translator and a transcriber."""
    kinds = {"calls": "transcribe", "bytes": "bytes", "voice": "speak"}
    others = [f"{name}={make(tmp_path_factory.mktemp(kind), kind)}" for name, kind in kinds.items()]
    with serve(f"letters={folder}", f"en-fr={model_folder}", *others) as served:
        yield served


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


ASK = {"model": "letters", "prompt": "She ", "max_tokens": 8}


def test_a_greedy_completion_is_the_continuation(client, folder) -> None:
    found = client.completions.create(**ASK, temperature=0)
    [[expected]] = load(folder).continuations(["She "], max_len=8, beam=1, n_best=1)
    assert (found.object, found.model) == ("text_completion", "letters")
    assert found.choices[0].text == expected.text
    assert found.choices[0].finish_reason == ("length" if expected.why == "tokens" else "stop")
    assert found.usage.prompt_tokens == 3  # a space at the end is no token
    assert found.usage.completion_tokens == len(expected.logprobs)
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens


def test_a_seed_gives_the_same_again_and_none_gives_another(client) -> None:
    one, same, other = (client.completions.create(**ASK, seed=seed).choices[0].text for seed in (1, 1, 2))
    assert one == same != other
    assert len({client.completions.create(**ASK).choices[0].text for _ in range(4)}) > 1


def test_several_prompts_and_choices_come_in_order(client) -> None:
    two = ["She ", "They "]
    found = client.completions.create(model="letters", prompt=two, n=2, seed=3, max_tokens=6, echo=True)
    assert [it.index for it in found.choices] == [0, 1, 2, 3]
    assert [it.text[:4] for it in found.choices] == ["She ", "She ", "They", "They"]
    assert found.choices[0].text != found.choices[1].text
    assert found.usage.prompt_tokens == 3 + 4  # a space at the end is no token
    single = client.completions.create(model="letters", prompt="They ", seed=3, max_tokens=6)
    assert found.choices[2].text == "They " + single.choices[0].text


def test_log_probabilities_add_up_and_the_alternatives_are_the_most_likely(client, folder) -> None:
    logprobs = client.completions.create(**ASK, temperature=0, logprobs=3).choices[0].logprobs
    [[expected]] = load(folder).continuations(["She "], max_len=8, beam=1, n_best=1)
    assert "".join(logprobs.tokens) == expected.text
    assert logprobs.token_logprobs == pytest.approx(expected.logprobs[: len(logprobs.tokens)], abs=1e-5)
    assert logprobs.text_offset == list(range(4, 4 + len(logprobs.tokens)))
    for token, value, most in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
        assert len(most) == 3
        assert max(most.values()) == pytest.approx(most[token], abs=1e-5) == pytest.approx(value, abs=1e-5)
    sampled = client.completions.create(**ASK, seed=5, logprobs=1).choices[0].logprobs
    for token, most in zip(sampled.tokens, sampled.top_logprobs, strict=True):
        assert token in most and len(most) in (1, 2)
    assert client.completions.create(**ASK, logprobs=0).choices[0].logprobs.top_logprobs is None


@pytest.mark.parametrize("max_tokens", [0, 2])
@pytest.mark.parametrize("n_top", [0, 2])
def test_an_echo_has_the_log_probabilities_of_the_prompt(client, folder, max_tokens, n_top) -> None:
    ask = {"model": "letters", "prompt": "She sings", "max_tokens": max_tokens, "temperature": 0}
    [found] = client.completions.create(**ask, echo=True, logprobs=n_top).choices
    app = load(folder)
    ids = app.tokenizers.target.encode("She sings")
    with torch.no_grad():
        every = app.model(torch.tensor([ids])).log_softmax(-1)[0]
    right = [every[place, token].item() for place, token in enumerate(ids[1:])]
    scores = found.logprobs
    assert "".join(scores.tokens) == found.text and scores.text_offset == list(range(len(found.text)))
    assert scores.token_logprobs[0] is None and scores.token_logprobs[1 : len(ids)] == pytest.approx(right, abs=1e-5)
    if n_top:
        assert scores.top_logprobs[0] is None
        for place, most in enumerate(scores.top_logprobs[1 : len(ids)]):
            assert sorted(most.values())[-n_top:] == pytest.approx(sorted(every[place].tolist())[-n_top:], abs=1e-5)
            assert most[scores.tokens[place + 1]] == pytest.approx(right[place], abs=1e-5)
    alone = client.completions.create(**ask, logprobs=n_top)
    assert scores.tokens[len(ids) :] == alone.choices[0].logprobs.tokens
    assert alone.usage.completion_tokens == max_tokens and found.finish_reason == "length"


def test_the_offset_of_a_token_inside_a_character_is_that_of_the_character(client) -> None:
    prompt = "ïf \u65e5\u672c\U0001f469 \u0301e"
    [found] = client.completions.create(model="bytes", prompt=prompt, max_tokens=0, echo=True, logprobs=0).choices
    content = prompt.encode()
    starts = [len(content[:n].decode(errors="ignore")) for n in range(len(content))]
    assert found.text == prompt and len(found.logprobs.tokens) == len(content) + 1 > len(prompt) + 1
    assert found.logprobs.text_offset == [0, *starts]  # a space before the text, then a token for each byte


def test_a_stop_string_ends_the_text_before_it(client) -> None:
    whole = client.completions.create(**ASK, seed=1).choices[0]
    stop = whole.text[3:5]
    cut = client.completions.create(**ASK, seed=1, stop=[stop], logprobs=0).choices[0]
    assert cut.text == whole.text[: whole.text.index(stop)] and cut.finish_reason == "stop"
    assert "".join(cut.logprobs.tokens) == cut.text


@pytest.mark.parametrize("n", [1, 2])
def test_a_stream_is_the_completion_in_pieces(client, n) -> None:
    whole = client.completions.create(**ASK, seed=4, n=n, logprobs=1)
    options = {"include_usage": True}
    events = list(client.completions.create(**ASK, seed=4, n=n, logprobs=1, stream=True, stream_options=options))
    for number in range(n):
        parts = [choice for event in events for choice in event.choices if choice.index == number]
        assert "".join(it.text for it in parts) == whole.choices[number].text
        assert len(parts) > 2
        assert [it.finish_reason for it in parts if it.finish_reason] == [whole.choices[number].finish_reason]
        assert parts[-1].logprobs.tokens == whole.choices[number].logprobs.tokens
    assert events[-1].usage == whole.usage and events[-1].choices == []


def test_a_stream_ends_with_done_and_an_echo_begins_it(served) -> None:
    found = served.post("/v1/completions", {**ASK, "stream": True, "echo": True, "seed": 4})
    assert found.headers["content-type"].startswith("text/event-stream")
    lines = found.body.decode().strip().split("\n\n")
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[0].removeprefix("data: "))["choices"][0]["text"] == "She "


@pytest.mark.parametrize("form", ["float", "base64", None])
def test_embeddings_are_those_of_the_model(served, client, model_folder, form) -> None:
    app, texts = load(model_folder), ["I am hungry.", "She sings."]
    options = {} if form is None else {"encoding_format": form}  # the client asks for base64, and decodes it
    found = client.embeddings.create(model="en-fr", input=texts, **options)
    expected = app.embed(texts)
    assert [it.index for it in found.data] == [0, 1]
    for it, vector in zip(found.data, expected, strict=True):
        decoded = np.frombuffer(base64.b64decode(it.embedding), "<f4") if form == "base64" else it.embedding
        assert np.allclose(decoded, vector, atol=1e-6)
    n_tokens = sum(len(app.tokenizers.source.encode(text)) for text in texts)
    assert found.usage.prompt_tokens == found.usage.total_tokens == n_tokens
    assert np.allclose(
        client.embeddings.create(model="en-fr", input=texts[1]).data[0].embedding, expected[1], atol=1e-6
    )
    for wrong in ({"input": []}, {"input": [1, 2]}, {"input": "a" * 5001}, {"input": ["a"] * 101}):
        error = served.post("/v1/embeddings", {"model": "en-fr", **wrong})
        assert error.status == 400 and error.json()["error"]["param"] == "input"
    assert served.post("/v1/embeddings", {"model": "calls", "input": "a.wav"}).status == 400


@pytest.mark.parametrize("framing", [{"end": False}, {"begin": True}, {"begin": True, "end": False}])
def test_tokens_are_counted_without_those_that_frame_a_text(serve, tmp_path, framing) -> None:
    folder, texts = make_model_folder(tmp_path, tokenizer="word", **framing), ["She sings.", "", "They " * 99]
    with serve(f"framed={folder}") as served:
        usage = served.post("/v1/embeddings", {"model": "framed", "input": texts}).json()["usage"]
    assert usage == {"prompt_tokens": 3 + 0 + 99, "total_tokens": 3 + 0 + 99}


def test_models_are_listed_and_described(client) -> None:
    assert [it.id for it in client.models.list()] == ["letters", "en-fr", "calls", "bytes", "voice"]
    assert client.models.retrieve("letters").id == "letters"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


@pytest.mark.parametrize(
    ("changes", "status", "param"),
    [
        ({"model": "other"}, 404, "model"),
        ({"model": "en-fr"}, 400, "model"),
        ({"prompt": [1, 2]}, 400, "prompt"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": "\u4e2d"}, 400, "prompt"),
        ({"prompt": "\u4e2d", "stream": True}, 400, "prompt"),
        ({"prompt": "a" * 5001}, 400, "prompt"),
        ({"max_tokens": -1}, 400, "max_tokens"),
        ({"max_tokens": 1001}, 400, "max_tokens"),
        ({"n": 9}, 400, "n"),
        ({"n": 2, "prompt": ["a"] * 51}, 400, "prompt"),
        ({"best_of": 3}, 400, "best_of"),
        ({"temperature": -1}, 400, "temperature"),
        ({"top_p": 0}, 400, "top_p"),
        ({"logprobs": 6}, 400, "logprobs"),
        ({"presence_penalty": 1}, 400, "presence_penalty"),
        ({"logit_bias": {"1": 2}}, 400, "logit_bias"),
        ({"suffix": "a"}, 400, "suffix"),
        ({"stop": ["a"] * 5}, 400, "stop"),
        ({"stop": ""}, 400, "stop"),
        ({"surprise": 1}, 400, None),
    ],
)
def test_an_error_has_openais_form(served, changes, status, param) -> None:
    found = served.post("/v1/completions", ASK | changes)
    assert found.status == status
    error = found.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


def test_an_error_reaches_the_real_client_as_its_own_exception(client) -> None:
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        client.completions.create(**ASK | {"max_tokens": 5000})


def sound() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(1000)
        file.writeframes(np.random.default_rng(0).integers(-9000, 9000, 300).astype("<i2").tobytes())
    return buffer.getvalue()


def test_a_recording_is_transcribed(served, client, tmp_path) -> None:
    (tmp_path / "a.wav").write_bytes(sound())
    expected = served.shelf.models["calls"].app(str(tmp_path / "a.wav"))
    found = client.audio.transcriptions.create(model="calls", file=("a.wav", sound()))
    assert found.text == expected
    as_text = served.post("/v1/audio/transcriptions", **multipart({"a.wav": sound()}, response_format="text"))
    assert as_text.body.decode() == expected + "\n"


@pytest.mark.parametrize(
    ("files", "fields", "status"),
    [
        ({"a.wav": b"none"}, {}, 400),
        ({}, {"model": "calls"}, 400),
        ({"a.wav": b"none"}, {"model": "letters"}, 400),
        ({"a.wav": b"none"}, {"response_format": "srt"}, 400),
        ({"a.wav": b"none", "b.wav": b"none"}, {}, 400),
    ],
)
def test_what_cannot_be_transcribed_is_an_error(served, files, fields, status) -> None:
    assert served.post("/v1/audio/transcriptions", **multipart(files, **fields)).status == status


def test_a_transcription_needs_an_upload(served) -> None:
    assert served.post("/v1/audio/transcriptions", {"model": "calls"}).status == 415


def test_a_text_is_spoken(served, client) -> None:
    samples, rate = served.shelf.models["voice"].app("She sings.")
    found = client.audio.speech.create(model="voice", input="She sings.", voice="alloy", response_format="wav").read()
    with wave.open(io.BytesIO(found)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (rate, 1, 2)
        np.testing.assert_array_equal(np.frombuffer(file.readframes(file.getnframes()), "<i2"), samples)
    reply = served.post("/v1/audio/speech", {"model": "voice", "input": "She sings."})
    assert (reply.status, reply.headers["content-type"], reply.body) == (200, "audio/wav", found)


def test_a_voice_is_chosen_by_its_name(served, monkeypatch) -> None:
    monkeypatch.setattr(type(served.shelf.models["voice"].app), "voices", ("She", "anna"))
    body = {"model": "voice", "input": "sings."}
    chosen, plain, unknown = (
        served.post("/v1/audio/speech", body | it)
        for it in ({"voice": "She"}, {"input": "She sings."}, {"voice": "alloy"})
    )
    assert chosen.status == 200 and chosen.body == plain.body
    assert unknown.status == 400 and json.loads(unknown.body)["error"]["param"] == "voice"


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        ({"model": "voice", "input": " "}, 400, "input"),
        ({"model": "voice", "input": "a" * 6000}, 400, "input"),
        ({"model": "voice", "input": "Go!", "response_format": "mp3"}, 400, "response_format"),
        ({"model": "voice", "input": "Go!", "speed": 2}, 400, None),
        ({"model": "letters", "input": "Go!"}, 400, "model"),
        ({"model": "none", "input": "Go!"}, 404, "model"),
    ],
)
def test_what_cannot_be_spoken_is_an_error(served, body, status, name) -> None:
    reply = served.post("/v1/audio/speech", body)
    assert reply.status == status and json.loads(reply.body)["error"]["param"] == name
