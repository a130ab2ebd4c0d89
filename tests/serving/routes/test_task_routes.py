import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clearhead import load
from tests.builders import make_encoder_folder

from ..small_models import make

TEXTS = ["I am hungry.", "You are late."]


@pytest.fixture(scope="module")
def served(serve, model_folder: Path, answer_folder: Path):
    """A translator and a model that answers questions."""
    with serve(f"en-fr={model_folder}", f"answers={answer_folder}") as served:
        yield served


def plain(records: list) -> list:
    return json.loads(json.dumps([it.to_dict() for it in records]))


def same(found: dict, expected: dict) -> None:
    """Equal but for rounding, since texts are batched differently."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
        if isinstance(value, list) and inside and isinstance(inside[0], dict):
            assert len(found[name]) == len(inside), name
            for one, other in zip(found[name], inside):
                same(one, other)
            continue
        close = bool(inside) and isinstance(inside[0], float)
        assert found[name] == (pytest.approx(value, abs=1e-5) if close else value), name


def test_translations_are_the_records_of_json_one_for_a_text_and_a_list_for_a_list(served, model_folder) -> None:
    expected = plain(load(model_folder).results(TEXTS, beam=2))
    same(served.post("/api/translate", {"text": TEXTS[0], "beam": 2}).json(), expected[0])
    for found, record in zip(served.post("/api/translate", {"text": TEXTS, "beam": 2}).json(), expected, strict=True):
        same(found, record)


def test_a_prefix_begins_the_answer(served, model_folder) -> None:
    expected = load(model_folder)("I am hungry.", prefix="Tu")
    assert served.post("/api/translate", {"text": "I am hungry.", "prefix": "Tu"}).json()["text"] == expected


def test_answers_are_the_records_of_json(served, answer_folder) -> None:
    context, question = "Ann was there and ten owls came.", "Who was there?"
    [expected] = plain(load(answer_folder).results([question], context))
    same(served.post("/api/answer", {"question": question, "context": context}).json(), expected)
    several = served.post("/api/answer", {"question": [question, ""], "context": context}).json()
    assert len(several) == 2 and several[1]["text"] == ""


def test_scores_are_the_records_of_json(served, model_folder) -> None:
    pairs = [("I am hungry.", "J'ai faim."), ("She sings.", "Elle chante.")]
    expected = [plain(load(model_folder).score([pair])[0])[0] for pair in pairs]
    found = served.post("/api/score", {"pairs": pairs, "model": "en-fr"}).json()
    for place, (one, record) in enumerate(zip(found, expected, strict=True), 1):
        same(one, record | {"line": place})
    same(served.post("/api/score", {"source": pairs[0][0], "target": pairs[0][1]}).json(), expected[0] | {"line": 1})


def test_an_explanation_is_that_of_json(served, model_folder) -> None:
    app = load(model_folder)
    explanation = app.explain("She sings.")
    expected = json.loads(json.dumps(explanation.to_dict(explanation.main_place, 0, 0)))
    found = served.post("/api/explain", {"text": "She sings.", "model": "en-fr"}).json()
    assert found.keys() == expected.keys()
    assert found["text"] == expected["text"] and found["source"] == "She sings."
    answered = served.post("/api/explain", {"text": "Who?", "context": "Ann was there.", "model": "answers"})
    assert answered.status == 200


def test_a_pair_that_cannot_be_scored_fails_alone_with_the_reason(served) -> None:
    found = served.post("/api/score", {"pairs": [["a " * 100, "b"], ["She sings.", "Elle chante."]]})
    assert found.status == 400 and found.json()["error"]["name"] == "pairs"


@pytest.mark.parametrize(
    ("path", "body", "status", "name"),
    [
        ("translate", {}, 400, "text"),
        ("translate", {"text": 3}, 400, "text"),
        ("translate", {"text": ["a", 3]}, 400, "text"),
        ("translate", {"text": "a", "beem": 3}, 400, "beem"),
        ("translate", {"text": "a", "engine": "torch"}, 400, "engine"),
        ("translate", {"text": "a", "beam": "x"}, 400, "beam"),
        ("translate", {"text": "a", "beam": 17}, 400, "beam"),
        ("translate", {"text": "a", "n_best": 9, "beam": 9}, 400, "n_best"),
        ("translate", {"text": "a", "max_len": 5000}, 400, "max_len"),
        ("translate", {"text": "a", "max_extra": 5000}, 400, "max_extra"),
        ("translate", {"text": "a", "min_len": 5000}, 400, "min_len"),
        ("translate", {"text": "a", "temperature": 0.5}, 400, "temperature"),
        ("translate", {"text": "a", "model": "en-fx"}, 404, "model"),
        ("translate", {"text": "a", "model": "answers"}, 400, "model"),
        ("translate", {"text": "a", "prefix": "a" * 5001}, 400, "prefix"),
        ("generate", {"text": "a"}, 404, "model"),
        ("classify", {"text": "a"}, 404, "model"),
        ("explain", {"text": "a"}, 400, "model"),
        ("explain", {"text": "a", "model": "answers"}, 400, "context"),
        ("explain", {"text": "a", "model": "en-fr", "context": "b"}, 400, "context"),
        ("answer", {"question": "a"}, 400, "context"),
        ("answer", {"question": "a", "context": " "}, 400, "context"),
        ("score", {"source": "a"}, 400, "pairs"),
        ("score", {"source": "a", "target": "b", "beam": 2}, 400, "beam"),
    ],
)
def test_an_error_has_its_parts_and_the_field_at_fault(served, path, body, status, name) -> None:
    found = served.post(f"/api/{path}", body)
    assert found.status == status
    error = found.json()["error"]
    assert error["name"] == name and error["what"] and error["message"].startswith(error["what"])


def test_one_bad_text_fails_no_other_request(served) -> None:
    bad = {"question": "Who?", "context": "Ann was there.", "n_best": 1}
    assert served.post("/api/answer", bad).status == 200


# --- other tasks, and uploads


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        kind: make(tmp_path_factory.mktemp(kind), kind)
        for kind in ("generate", "sample", "classify", "labels", "targets", "number", "see")
    }


@pytest.fixture(scope="module")
def others(serve, folders):
    """Models that continue texts, and label texts and images."""
    with serve(*(f"{name}={folder}" for name, folder in folders.items())) as served:
        yield served


GENERATE = {"model": "generate", "text": "She "}


def test_continuations_are_the_records_of_json(others, folders) -> None:
    options = {"max_len": 5, "n_best": 2}
    several = load(folders["generate"]).continuations(["She "], **options)[0]
    found = others.post("/api/generate", {**GENERATE, **options}).json()
    for one, expected in zip(found, several, strict=True):
        same(one, json.loads(json.dumps(expected.to_dict("She "))))
    assert others.post("/api/generate", {"model": "generate", "max_len": 2}).json()["prompt"] == ""
    assert len(others.post("/api/generate", {**GENERATE, "text": ["a", "b"], "max_len": 1}).json()) == 2
    stopped = others.post("/api/generate", {**GENERATE, "chars": 3, "stop": ["?!"], "beam": 1}).json()
    assert stopped["why"] == "chars" and len(stopped["text"]) == 3


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"text": "\u4e2d"}, "prompt"),
        ({"text": "a", "chars": 1001}, "chars"),
        ({"text": "a", "chars": 0}, "chars"),
        ({"text": "a", "stop": [""]}, "stop"),
        ({"text": "a", "suppress": ["no such token"]}, "token"),
    ],
)
def test_a_continuation_that_cannot_be_made_is_an_error(others, body, name) -> None:
    found = others.post("/api/generate", GENERATE | body)
    assert found.status == 400 and found.json()["error"]["name"] == name


def test_only_a_limit_may_be_null(others, encoders) -> None:
    for chars in ({}, {"chars": None}):
        assert others.post("/api/generate", {**GENERATE, "text": "a", "max_len": 1, **chars}).status == 200
    found = encoders[0].post("/api/fill", {"text": "I am [MASK].", "top": None})
    assert found.status == 400 and found.json()["error"]["name"] == "top"


def test_one_bad_text_of_several_fails_the_request_and_a_good_one_at_the_same_time_is_answered(others) -> None:
    assert others.post("/api/generate", {**GENERATE, "text": ["a", "\u4e2d"], "max_len": 1}).status == 400
    assert others.post("/api/generate", {**GENERATE, "text": "a", "max_len": 1}).status == 200


def test_labels_are_the_records_of_json(others, folders) -> None:
    [expected] = plain(load(folders["classify"]).results(["She sings."]))
    same(others.post("/api/classify", {"text": "She sings.", "model": "classify"}).json(), expected)


def test_several_labels_are_a_list(others, folders) -> None:
    [expected] = plain(load(folders["labels"]).results(["She sings."]))
    found = others.post("/api/classify", {"text": "She sings.", "model": "labels"}).json()
    same(found, expected)
    assert (found["label"], found["labels"]) == ("cold", ["cold"])
    components = others.ask("GET", "/openapi.json").json()["components"]["schemas"]
    assert {*components["LabelSet"]["properties"]} | {"format_version"} == {*found}


@pytest.mark.parametrize(("name", "kind"), [("labels", "several"), ("targets", "targets"), ("number", "number")])
def test_every_kind_of_classifier_is_explained(others, folders, name: str, kind: str) -> None:
    app = load(folders[name])
    explanation, [record] = app.explain("She sings."), app.results(["She sings."])
    found = others.post("/api/explain", {"text": "She sings.", "model": name}).json()
    assert found["text"] == record.label == explanation.answer
    same({it: found[it] for it in explanation.values}, explanation.values)
    page = others.post("/api/page", {"text": "She sings.", "model": name}).json()
    assert page["label_kind"] == kind and {it[0] for it in page["labels"]} == {*app.labels}


def test_targets_have_a_label_each(others, folders) -> None:
    [expected] = plain(load(folders["targets"]).results(["She sings."]))
    found = others.post("/api/classify", {"text": "She sings.", "model": "targets"}).json()
    same(found, expected)
    assert found["labels"].keys() == found["probability"].keys() == {"mood", "place"}
    components = others.ask("GET", "/openapi.json").json()["components"]["schemas"]
    assert {*components["TargetLabels"]["properties"]} | {"format_version"} == {*found}


def test_a_number_is_a_number(others, folders) -> None:
    [expected] = plain(load(folders["number"]).results(["She sings."]))
    found = others.post("/api/classify", {"text": "She sings.", "model": "number"}).json()
    same(found, expected)
    components = others.ask("GET", "/openapi.json").json()["components"]["schemas"]
    assert {*components["Numbered"]["properties"]} | {"format_version"} == {*found}


@pytest.fixture(scope="module")
def encoders(serve, tmp_path_factory: pytest.TempPathFactory):
    """Models that fill masks and embed texts."""
    folders = {
        verb: make_encoder_folder(tmp_path_factory.mktemp(verb), task=verb, tokenizer="word")
        for verb in ("fill", "embed")
    }
    with serve(*(f"{verb}={folder}" for verb, folder in folders.items())) as served:
        yield served, {verb: load(folder) for verb, folder in folders.items()}


def test_filled_masks_are_the_records_of_json(encoders) -> None:
    served, apps = encoders
    texts = [f"she {apps['fill'].mask} .", f"{apps['fill'].mask} sings ."]
    expected = [plain(apps["fill"].results([text], top=3))[0] for text in texts]  # alone, as the server does
    for one, other in zip(served.post("/api/fill", {"text": texts, "top": 3}).json(), expected, strict=True):
        same(one, other)
    same(served.post("/api/fill", {"text": texts[0], "top": 3}).json(), expected[0])
    assert "has no mask to fill" in served.post("/api/fill", {"text": "no mask"}).json()["error"]["what"]


def test_embeddings_are_the_records_of_json(encoders) -> None:
    served, apps = encoders
    texts = ["she sings .", "he sings ."]
    found = served.post("/api/embed", {"text": texts, "model": "embed", "pooling": "first", "normalize": True}).json()
    vectors = apps["embed"].embed(texts, pooling="first", normalize=True)
    assert [it["text"] for it in found] == texts
    assert np.allclose([it["embedding"] for it in found], vectors, atol=1e-6)
    one = served.post("/api/embed", {"text": texts[0], "model": "embed"}).json()
    assert np.allclose(one["embedding"], apps["embed"].embed(texts[:1])[0], atol=1e-6)
    wrong = served.post("/api/embed", {"text": "a", "model": "embed", "pooling": "last"})
    assert (wrong.status, wrong.json()["error"]["name"]) == (400, "model.pooling")


def test_a_model_without_encoder_embeds_nothing(others) -> None:
    found = others.post("/api/embed", {"text": "a", "model": "generate"})
    assert found.status == 400 and "encoder" in found.json()["error"]["what"]


def multipart(files: dict[str, bytes], **fields: str) -> dict:
    """The arguments of a request with a form."""
    parts = [f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items()]
    for name, content in files.items():
        head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        parts += [head.encode(), content, b"\r\n"]
    return {"body": b"".join([*parts, b"--x--\r\n"]), "Content_Type": "multipart/form-data; boundary=x"}


def png(seed: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (8, 8), np.uint8)).save(buffer, "png")
    return buffer.getvalue()


def test_uploaded_images_are_labelled_under_the_names_that_the_client_gave(others, folders, tmp_path) -> None:
    (tmp_path / "a.png").write_bytes(png(0))
    [expected] = plain(load(folders["see"]).results([str(tmp_path / "a.png")]))
    one = others.post("/api/classify", **multipart({"a.png": png(0)}, model="see")).json()
    same(one, expected | {"text": "a.png"})
    two = others.post("/api/classify", **multipart({"../../b.png": png(1), "a.png": png(0)}, model="see")).json()
    assert [it["text"] for it in two] == ["b.png", "a.png"]
    same(two[1], one)


def test_a_file_that_is_no_image_is_an_error_that_names_it_and_no_path_of_the_server(others) -> None:
    found = others.post("/api/classify", **multipart({"a.png": b"no image"}, model="see"))
    message = found.json()["error"]["message"]
    assert found.status == 400 and "a.png" in message and "/" not in message.split("\n")[0]


def test_a_small_file_with_many_pixels_is_rejected_before_it_is_decoded(others, monkeypatch) -> None:
    buffer, limits = io.BytesIO(), others.shelf.models["see"].limits
    Image.new("1", (8_000, 2_001)).save(buffer, "png")
    assert len(buffer.getvalue()) < 10_000 and limits.pixels == 16_000_000
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("decoded"))
    found = others.post("/api/classify", **multipart({"a.png": buffer.getvalue()}, model="see"))
    asked = {"model": "see", "file": {"name": "a.png", "b64": base64.b64encode(buffer.getvalue()).decode()}}
    for reply in (found, others.post("/api/page", asked)):
        assert reply.status == 413 and reply.json()["error"]["what"].startswith("a.png has 8,000 x 2,001")


def test_a_path_in_json_is_never_read(others, tmp_path) -> None:
    (tmp_path / "a.png").write_bytes(png(0))
    found = others.post("/api/classify", {"text": str(tmp_path / "a.png"), "model": "see"})
    assert found.status == 400 and found.json()["error"]["name"] == "model"


@pytest.mark.parametrize(
    ("files", "fields", "status"),
    [
        ({}, {"model": "see"}, 400),
        ({"a.png": b""}, {"model": "see"}, 400),
        ({"a.png": b"x"}, {"model": "classify"}, 400),
        ({"a.png": b"x"}, {"model": "none"}, 404),
        ({"a.png": b"x"}, {"model": "see", "beam": "2"}, 400),
        ({f"{n}.png": b"x" for n in range(101)}, {"model": "see"}, 400),
    ],
)
def test_uploads_that_cannot_be_read_are_errors(others, files, fields, status) -> None:
    found = others.post("/api/classify", **multipart(files, **fields))
    assert found.status == status and found.json()["error"]["what"]


def test_a_form_that_is_cut_off_is_an_error(others) -> None:
    form = multipart({"a.png": png(0)}, model="see")
    assert others.post("/api/classify", **(form | {"body": form["body"][:60]})).status == 400


def events(body: bytes) -> list[dict]:
    return [json.loads(it.removeprefix("data: ")) for it in body.decode().strip().split("\n\n")]


@pytest.mark.parametrize(
    ("body", "plainly"),
    [
        ({"model": "en-fr", "text": "I am hungry."}, {"beam": 1}),
        ({"model": "generate", "text": "She ", "max_len": 6}, {"beam": 1}),
        ({"model": "generate", "text": "She ", "max_len": 6, "sample": True, "seed": 3}, {}),
        ({"model": "sample", "text": "She ", "max_len": 6, "temperature": 0.5}, {}),
        ({"model": "sample", "text": "She ", "max_len": 6, "sample": False}, {"beam": 1}),
    ],
)
def test_a_stream_has_the_pieces_and_then_the_record_of_the_models_own_search(served, others, body, plainly) -> None:
    server, path = (served, "/api/translate") if body["model"] == "en-fr" else (others, "/api/generate")
    *pieces, last = events(server.post(path, body | {"stream": True}).body)
    assert "".join(it["piece"] for it in pieces) == last["record"]["text"]
    assert {it["index"] for it in (*pieces, last)} == {0}
    assert last["record"]["text"] == server.post(path, body | plainly).json()["text"]


def test_a_stream_with_beams_is_an_error_since_the_best_is_known_at_the_end(served) -> None:
    found = served.post("/api/translate", {"text": "a", "stream": True, "beam": 4})
    assert found.status == 400 and found.json()["error"]["name"] == "beam"


def test_a_stream_for_no_texts_is_empty(served) -> None:
    found = served.post("/api/translate", {"text": [], "stream": True})
    assert found.status == 200 and found.body == b""


def test_a_form_with_a_file_is_an_error_where_texts_are_read(served) -> None:
    found = served.post("/api/translate", **multipart({"a.txt": b"I am hungry."}, model="en-fr"))
    assert found.status == 400 and found.json()["error"]["name"] == "body"


def test_a_task_without_a_model_says_what_the_models_do(served) -> None:
    found = served.post("/api/fill", {"text": "a"})
    assert found.status == 404 and "en-fr (translate), answers (answer)" in found.json()["error"]["fix"]


def test_files_in_another_field_are_an_error(others) -> None:
    form = multipart({"a.png": png(0)}, model="see")
    found = others.post("/api/classify", **(form | {"body": form["body"].replace(b'"file"', b'"other"')}))
    assert found.status == 400 and found.json()["error"]["name"] == "other"


def test_a_model_of_images_does_not_ask_for_an_upload_where_none_is_accepted(others) -> None:
    for path, word in (("classify", "upload"), ("embed", "text")):
        error = others.post(f"/api/{path}", {"text": "a.png", "model": "see"}).json()["error"]
        assert error["name"] == "model" and word in error["expected"]


def test_another_method_is_an_error_that_names_the_right_one(served) -> None:
    found = served.ask("GET", "/api/translate")
    assert found.status == 405 and found.json()["error"]["expected"] == "POST"
