import json
from pathlib import Path
from urllib.parse import urlencode

import pytest
from libretranslatepy import LibreTranslateAPI

from clearhead import load

TEXTS = ["I am hungry.", "You are late.", "She sings."]
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def expected(model_folder: Path) -> list[str]:
    return load(model_folder)(TEXTS)


def test_one_text_gives_one_translation_and_a_list_gives_a_list(translator, expected) -> None:
    one = translator.post("/translate", {"q": TEXTS[0], "source": "en", "target": "fr"})
    several = translator.post("/translate", {"q": TEXTS, "source": "en", "target": "fr"})
    assert one.status == several.status == 200
    assert one.json() == {"translatedText": expected[0]}
    assert several.json() == {"translatedText": expected}


def test_a_form_is_answered_like_json(translator, expected) -> None:
    body = urlencode({"q": TEXTS[0], "source": "en", "target": "fr"}).encode()
    assert translator.post("/translate", body, Content_Type=FORM).json() == {"translatedText": expected[0]}


def test_each_line_is_translated_by_itself_and_blank_ones_stay(translator, expected) -> None:
    found = translator.post("/translate", {"q": f"{TEXTS[0]}\n\n{TEXTS[1]}", "source": "en", "target": "fr"})
    assert found.json() == {"translatedText": f"{expected[0]}\n\n{expected[1]}"}


def test_a_text_of_line_breaks_alone_needs_no_model(translator) -> None:
    found = translator.post("/translate", {"q": "\n" * 4_000, "source": "en", "target": "fr"})
    assert found.json() == {"translatedText": "\n" * 4_000}


def test_alternatives_follow_the_best_translation(translator, model_folder) -> None:
    found = translator.post("/translate", {"q": TEXTS[0], "source": "en", "target": "fr", "alternatives": 2}).json()
    [result] = load(model_folder).results([TEXTS[0]], n_best=3)
    assert found["translatedText"] == result.text
    assert found["alternatives"] == [it.text for it in result.alternatives]


def test_the_source_language_is_found_where_it_is_left_to_the_server(translator) -> None:
    found = translator.post("/translate", {"q": TEXTS[0], "source": "auto", "target": "fr"}).json()
    assert found["detectedLanguage"] == {"confidence": 100.0, "language": "en"}


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"q": "a", "source": "de", "target": "fr"}, 400, "en to fr"),
        ({"q": "a", "source": "en", "target": "de"}, 400, "en to fr"),
        ({"q": "a", "source": "en", "target": "fr", "format": "html"}, 400, "format"),
        ({"q": 3}, 400, "q"),
        ({"source": "en"}, 400, "q"),
        ({"q": ["a"] * 101, "source": "en", "target": "fr"}, 400, "101"),
        ({"q": "a" * 5001, "source": "en", "target": "fr"}, 400, "5,001"),
        ({"q": "a", "source": "en", "target": "fr", "alternatives": 8}, 400, "alternatives"),
        ({"q": "a", "source": "en", "target": "fr", "alternatives": -1}, 400, "alternatives"),
    ],
)
def test_what_cannot_be_translated_is_an_error_in_libretranslates_form(translator, body, status, word) -> None:
    found = translator.post("/translate", body)
    assert found.status == status
    assert list(found.json()) == ["error"] and word in found.json()["error"]


def test_the_real_client_translates_detects_and_lists(translator, expected) -> None:
    client = LibreTranslateAPI(translator.url)
    assert client.translate(TEXTS[0], "en", "fr") == expected[0]
    assert client.detect(TEXTS[0]) == [{"confidence": 100.0, "language": "en"}]
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["fr"]}]


def test_with_two_translators_the_languages_choose(serve, model_folder, word_model_folder) -> None:
    with serve(f"en-fr={model_folder}", f"fr-en={word_model_folder}") as served:
        body = {"q": "Elle chante.", "source": "fr", "target": "en"}
        assert served.post("/translate", body).json() == {"translatedText": load(word_model_folder)("Elle chante.")}
        languages = {it["code"]: it["targets"] for it in served.ask("GET", "/languages").json()}
        assert languages == {"en": ["fr"], "fr": ["en"]}
        first, second = served.post("/detect", {"q": "I am hungry."}).json()
        assert {first["language"], second["language"]} == {"en", "fr"}
        assert first["confidence"] >= second["confidence"]
        assert served.post("/translate", {"q": "a", "source": "fr", "target": "fr"}).status == 400


def test_unknown_languages_accept_any(serve, model_folder, expected) -> None:
    with serve(f"mine={model_folder}") as served:
        body = {"q": TEXTS[0], "source": "xx", "target": "yy"}
        assert served.post("/translate", body).json() == {"translatedText": expected[0]}
        assert served.ask("GET", "/languages").json() == [{"code": "und", "name": "Undetermined", "targets": ["und"]}]
        assert served.post("/detect", {"q": "a"}).status == 404


@pytest.mark.parametrize(
    "body", [b'{"q": "\\ud800"}', b'{"q": NaN}', b'{"x": ' + b"[" * 100_000, b"", b'{"q": "\xed\xa0\x80"}']
)
def test_what_is_not_strict_json_is_an_error(translator, body: bytes) -> None:
    found = translator.post("/translate", body, Content_Type="application/json")
    assert found.status == 400 and "JSON" in json.loads(found.body)["error"]
