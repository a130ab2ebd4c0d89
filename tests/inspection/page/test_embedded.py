"""A model in a page computes in the browser what it computes in Python, and its page works without a server."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.api import load, train
from clearhead.apps.pages import page_values
from clearhead.config import Config, DataConfig
from clearhead.demo.phrasebook import split
from clearhead.demo.phrasebook_demo import SETTINGS
from clearhead.exchange.page.page_file import SCRIPTS, page_tokenizer
from clearhead.exchange.targets import export
from clearhead.folder.model_folder import save_files
from clearhead.inspection.page.document import joined_scripts, page_document
from clearhead.tokenization.offsets import unknown_texts
from clearhead.tokenization.tokenizer import Tokenizer
from tests.builders import ENGLISH, FRENCH

from ...go.conftest import make_folder
from ...go.test_go_goldens import KINDS, TEXTS, mixed_unicode
from .conftest import ask, opened
from .expected_sentences import same
from .test_hostile_texts import hostile

TEXT = "You are late, aren't you?"
MODEL = {"model.n_heads": 2, "model.d_model": 16, "decode.max_extra": 3, "data.tokenizer": "word"}
GENERATE = {"model.topology": "decoder-only", "train.task": "generate", "decode.unknown": "unk", "decode.max_len": 6}
VARIANTS: list[dict[str, Any]] = [
    {"data.tokenizer": "bpe", "model.tie": "all", "decode.no_repeat_ngram": 2, "decode.repetition_penalty": 1.5},
    {
        "model.positions": "rotary", "model.rotary": "10000:yarn:4:10:40", "model.norm": "rms",
        "model.pre_norm": True, "model.feed_forward": "swiglu", "model.n_kv_heads": 2, "model.bias": False,
        "model.tie": "target", "data.tokenizer": "unigram", "model.attention_scale": 0.7, "model.logit_scale": 0.6,
    },
    {
        "model.positions": "relative", "model.feed_forward": "geglu", "model.d_head": 6, "model.embedding_norm": True,
        "model.window": 3, "model.tie": "none", "data.tokenizer": "word", "decode.suppress": ["."],
    },
    {
        "model.positions": "alibi", "model.feed_forward": "gelu", "model.n_heads": 3, "model.d_model": 18,
        "model.tie": "embeddings", "data.tokenizer": "character", "decode.min_len": 5, "decode.max_ratio": 0.5,
        "model.begin": True,
    },
    {**GENERATE, "model.positions": "learned", "model.feed_forward": "silu", "model.begin": True, "decode.beam": 3},
    {
        **GENERATE, "model.positions": "sinusoidal_halves", "model.feed_forward": "gelu_tanh", "model.pre_norm": True,
        "decode.sample": True, "decode.beam": 1, "model.window": 4, "model.embedding_scale": 1.5,
    },
]  # fmt: skip
LAB = "globalThis.lab = {...embedded_session_js, ...embedded_answer_js, ...embedded_tokenizer_js}"
ANSWER = """async ([about, weights, text, off, prefix]) => {
  const session = new lab.Session(about, weights), found = await session.answer(text, {off, prefix});
  return {
    text: session.text(text, found, found.best.ids), score: found.best.score,
    logits: Array.from(found.watch.parts.get("decoder.projection").output.data),
  };
}"""

REFUSAL = """([about, weights, text]) =>
  new lab.Session(about, weights).answer(text).then(() => "answered", error => error.message)"""


@pytest.fixture
def lab(tab: Any) -> Any:
    """A tab with the scripts that run a model."""
    tab.add_script_tag(content=f"{joined_scripts('embedded/answer', SCRIPTS)}\n{LAB};", type="module")
    tab.wait_for_function("globalThis.lab")
    return tab


def made(path: Path, values: dict[str, Any]) -> tuple[Any, Path]:
    """A tiny model, and its page."""
    app = load(make_folder(path / "model", values), device="cpu")
    export(app.loaded, "page", path / "page.html")
    return app, path / "page.html"


def contents(path: Path) -> list[Any]:
    """All that a page knows about its model, and the weights."""
    blocks = dict(re.findall(r'<script type="[^"]*" id="(\w+)">([^<]*)', path.read_text(encoding="utf-8")))
    return [json.loads(blocks["data"]), blocks["weights"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A model of words, and its page."""
    return made(tmp_path_factory.mktemp("embedded"), MODEL)


@pytest.mark.parametrize("values", VARIANTS, ids=lambda values: values.get("model.positions", "default"))
def test_logits_and_texts_are_those_of_python(values: dict[str, Any], lab: Any, tmp_path: Path) -> None:
    app, path = made(tmp_path, values)
    search = {"sample": False} if values.get("decode.sample") else {}
    expected = app.explain(TEXT, **search)
    found = lab.evaluate(ANSWER, [*contents(path), TEXT, [], []])
    logits = expected.trace["decoder.projection"].output[0].numpy()
    np.testing.assert_allclose(np.reshape(found["logits"], logits.shape), logits, atol=1e-4)
    assert found["text"] == expected.answer
    assert found["score"] == pytest.approx(expected.values["score"], abs=1e-4)


@pytest.mark.slow
def test_at_least_499_of_500_texts_are_those_of_translate(lab: Any, tmp_path: Path) -> None:
    training, held_out = split()
    steps = {"train.steps": 200, "train.eval_every": 200, "train.save_every": 200, "train.watch": ""}
    config = Config().override({**SETTINGS, **steps, "train.threads": 1})
    pairs = [(it.english, it.french) for it in training[:20_000]]
    app = load(train(config, tmp_path / "model", data=pairs, say=lambda _: None), device="cpu")
    export(app.loaded, "page", tmp_path / "page.html")
    texts = [it.english for it in held_out[:500]]
    found = lab.evaluate(
        """async ([about, weights, texts]) => {
          const session = new lab.Session(about, weights), found = [];
          for (const text of texts) {
            const it = await session.answer(text);
            found.push(session.text(text, it, it.best.ids));
          }
          return found;
        }""",
        [*contents(tmp_path / "page.html"), texts],
    )
    assert sum(one == other for one, other in zip(found, app(texts), strict=True)) >= 499


def test_texts_become_the_tokens_of_python(lab: Any) -> None:
    for kind in KINDS:
        tokenizer = Tokenizer.train([*ENGLISH, *FRENCH, *TEXTS], DataConfig(**kind))
        texts = [*TEXTS, *mixed_unicode(100)]
        found = lab.evaluate(
            """([table, texts]) => {
              const it = new lab.Tokenizer(table), ids = texts.map(text => it.encode(text));
              const spelled = table.pieces.map((_, id) => it.spell(id));
              const unknown = texts.map(text => it.unknown(text));
              return {ids, decoded: ids.map(some => it.decode(some)), spelled, unknown};
            }""",
            [page_tokenizer(tokenizer), texts],
        )
        expected = [tokenizer.encode(it) for it in texts]
        assert [(text, ids) for text, ids in zip(texts, found["ids"])] == list(zip(texts, expected))
        assert found["decoded"] == [tokenizer.decode(it) for it in expected]
        assert found["spelled"] == tokenizer.vocabulary()
        some = TEXTS if "NFKC" in kind.get("normalise", ()) else texts  # with NFKC, a character can be in two words
        assert found["unknown"][: len(some)] == [unknown_texts(tokenizer, it) for it in some]


def decoded(array: dict[str, Any]) -> Any:
    """An array of the page's data, whether Python made it or the page."""
    if "values" in array:
        return np.reshape(array["values"], array["shape"])
    raw, kind = base64.b64decode(array["b64"]), {"u16": "<u2", "f32": "<f4", "i8": "i1", "bit": "u1"}[array["dtype"]]
    values = np.frombuffer(raw, kind)
    if array["dtype"] == "bit":
        values = np.unpackbits(values, bitorder="little")[: np.prod(array["shape"])]
    values = values.reshape(array["shape"]) / array["scale"]
    return values / decoded(array["steps"])[..., None] if "steps" in array else values


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    """Compare two pages: numbers within rounding, all else exactly."""
    if isinstance(expected, dict) and {"b64", "shape"} <= expected.keys():
        one, other = decoded(found), decoded(expected)
        largest = np.abs(other).max(initial=1e-3)
        np.testing.assert_allclose(one, other, atol=largest / 200 if "steps" in expected else 1e-4, err_msg=where)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name in expected:
            assert_same(found[name], expected[name], f"{where}.{name}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for i, (one, other) in enumerate(zip(found, expected)):
            assert_same(one, other, f"{where}[{i}]")
    elif isinstance(expected, float) and not where.endswith("milliseconds"):
        assert found == pytest.approx(expected, abs=2e-4, rel=1e-3), where
    elif not isinstance(expected, float):
        assert found == expected, where


@pytest.mark.parametrize("off", [[], ["encoder.0.feed_forward", "decoder.0.self", "decoder.1.cross.head.0"]], ids=len)
def test_the_page_of_an_answer_is_that_of_python(off: list[str], lab: Any, model: tuple[Any, Path]) -> None:
    app, path = model
    with app.without(*off):
        explanation = app.explain("She sings 12 songs.")
        expected = page_values(app.loaded, explanation, live=True)
    expected["search"].pop("greedy")  # the page's tour leaves out what one beam would have said
    found = lab.evaluate(
        """async ([about, weights, text, off]) => {
          const page = await lab.answerer(new lab.Session(about, weights))({text, off, prefix: []}, null, () => {});
          return JSON.parse(JSON.stringify(page, (_, it) => (ArrayBuffer.isView(it) ? Array.from(it) : it)));
        }""",
        [*contents(path), "She sings 12 songs.", off],
    )
    assert found.pop("left_out")[0]["what"] == "integrated gradients" and expected.pop("left_out") == []
    missing = {"span", "values", "command", "model"}
    for name in ("nothing", "gradients", "error"):
        expected["words"].pop(name)
    for it in (*found["without"].values(), *expected["without"].values()):
        it["text"] = None  # the page asks for it when a part is switched off
    for values in (found, expected):
        for name in off:  # what a part computes while it's off isn't compared
            values["parts"] = [it for it in values["parts"] if not it["name"].startswith(name)]
    assert_same(
        {k: v for k, v in found.items() if k not in missing}, {k: v for k, v in expected.items() if k not in missing}
    )
    assert found["model"] == {**expected["model"], "name": "model"}


def asked(tab: Any, text: str) -> None:
    """Type a text into the page's box, and wait for the answer or the error."""
    tab.locator("textarea").first.fill(text)
    tab.keyboard.press("Enter")
    tab.locator(".asking[aria-busy=false]").wait_for()


def test_a_page_translates_and_switches_heads_off_without_a_server(model: tuple[Any, Path], tab: Any) -> None:
    app, path = model
    opened(tab, path)
    assert "without a network" in tab.locator("main").inner_text()
    asked(tab, TEXT)
    ask(tab, "show")
    whole = app.explain(TEXT)
    said = tab.locator(".answer .token > span").all_inner_texts()
    assert said == [{"</s>": "■ end"}.get(it, it.lstrip("▁")) for it in whole.outputs]
    views = ["Flow", "Attention", "Decoding", "Layers", "Words", "Heads off", "Film"]
    assert tab.locator("nav a").all_inner_texts() == views
    assert "integrated gradients (a model in a page can't compute gradients)" in tab.locator("footer").inner_text()
    tab.locator("[data-off='decoder.1.cross']").click()
    tab.locator("[data-off='decoder.1.cross'][aria-pressed=true]").wait_for()
    tab.locator(".asking[aria-busy=false]").wait_for()
    with app.without("decoder.1.cross"):
        without = app.explain(TEXT)
    said = tab.locator(".answer .token > span").all_inner_texts()
    assert said == [{"</s>": "■ end"}.get(it, it.lstrip("▁")) for it in without.outputs]
    assert whole.answer in tab.locator(".became").inner_text()
    shown = tab.locator("body").inner_text()
    assert "undefined" not in shown and "NaN" not in shown


@pytest.mark.parametrize("hash", ["", "beam=7", "off=decoder.1.cross.head.0,encoder.0.self&beam=9"])
def test_the_sentences_are_those_of_the_file(hash: str, model: tuple[Any, Path], tab: Any, tmp_path: Path) -> None:
    app, path = model
    opened(tab, path, f"q=She+zzz+sings.&{hash}")
    tab.locator("#words").wait_for()
    tab.locator(".asking[aria-busy=false]").wait_for()
    warmer = """() => {
      const it = document.querySelector(".controls input");
      it.value = 2;
      it.dispatchEvent(new Event("input"));
    }"""
    tab.evaluate(warmer)
    found = ask(tab, "walk")
    asked = dict(it.split("=") for it in hash.split("&") if it)
    off, prefix = (
        [it for it in asked.get("off", "").split(",") if it],
        [int(it) for it in asked.get("beam", "").split()],
    )
    with app.without(*off):
        explanation = app.explain("She zzz sings.", prefix=prefix)
        (tmp_path / "page.html").write_text(page_document(page_values(app.loaded, explanation)), encoding="utf-8")
    opened(tab, tmp_path / "page.html")
    tab.evaluate(warmer)
    assert found[0]["drawn"] and "The vocabulary lacks [zzz]" in found[0]["say"]
    for one, other in zip(found, ask(tab, "walk"), strict=True):
        same(json.dumps(one, ensure_ascii=False), json.dumps(other, ensure_ascii=False))


def test_an_answer_is_shown_while_it_is_being_written(model: tuple[Any, Path], lab: Any) -> None:
    app, path = model
    written = lab.evaluate(
        """async ([about, weights, text]) => {
          const written = [];
          await new lab.Session(about, weights).answer(text, {}, async () => {}, it => written.push(it));
          return written;
        }""",
        [*contents(path), TEXT],
    )
    steps = max(it.step for it in app.explain(TEXT).searched.nodes)
    assert len(written) == steps - 1 and [len(it.split()) for it in written] == sorted(
        len(it.split()) for it in written
    )


def test_the_address_asks_and_forces_tokens(model: tuple[Any, Path], tab: Any) -> None:
    app, path = model
    opened(tab, path, "q=She+sings.")
    tab.locator("#decoding").wait_for()
    tab.locator(".answer .token").first.click()
    tab.locator(".choice").first.click()
    tab.wait_for_url(lambda url: "beam=" in url)
    tab.locator(".asking[aria-busy=false]").wait_for()
    first = int(re.search(r"beam=(\d+)", tab.url)[1])
    expected = app.explain("She sings.", prefix=[first]).outputs
    said = tab.locator(".answer .token > span").all_inner_texts()
    assert said == [{"</s>": "■ end"}.get(it, it.lstrip("▁")) for it in expected]


def test_what_can_t_be_read_gets_a_clear_message(model: tuple[Any, Path], tab: Any) -> None:
    opened(tab, model[1])
    for text, message in (
        ("  ", "The text is blank"),
        ("a \ud800 b", "contains U+D800, a lone surrogate (half of a character), at position 3"),
        ("a " * 60, "has 60 tokens; this page reads at most 59"),
    ):
        tab.evaluate("text => { document.querySelector('textarea').value = text; }", text)
        tab.locator(".asking .button.main").click()
        tab.locator(".status.wrong").wait_for()
        tab.wait_for_function("it => document.querySelector('.status').textContent.includes(it)", arg=message)
    asked(tab, "She sings.")
    assert tab.locator(".status").inner_text() == ""


def test_a_language_model_says_what_it_can_t_continue(lab: Any, tmp_path: Path) -> None:
    strict = {"decode.unknown": "error", "data.tokenizer": "word", "model.n_decoder_layers": 1}
    about, weights = contents(made(tmp_path, {**GENERATE, **strict})[1])
    nan = base64.b64encode(b"\xff" * len(base64.b64decode(weights))).decode()
    for asked_of, numbers, text, message in (
        (about, weights, "She xyzzy.", "The model doesn’t know “xyzzy”"),
        (about, weights, "sings " * 57, "The text has 57 tokens; with 6 more, that exceeds the model’s 60"),
        (
            {**about, "longest": 9999},
            weights,
            "sings " * 2001,
            "this page reads at most 2,000. The model can read more",
        ),
        (about, nan, "She sings.", "The model’s probabilities for token 1 aren’t numbers"),
    ):
        assert message in lab.evaluate(REFUSAL, [asked_of, numbers, text])


@pytest.mark.parametrize(
    ("content", "watched", "expected"),
    [
        (
            {"examples": [{"source": it} for it in ("Hm.", "", "I am hungry and you are late. " * 2, "a " * 99)]},
            "",
            ["I am hungry and you are late. " * 2, "Hm."],
        ),
        ({"examples": [{"source": "She sings."}] * 2}, "We are here.", ["We are here.", "She sings."]),
        ({"examples": [{"source": None}]}, "", []),
        ({}, "", []),
    ],
)
def test_a_page_opens_with_texts_of_the_folder(
    content: dict[str, Any], watched: str, expected: list[str], tmp_path: Path
) -> None:
    folder = make_folder(tmp_path / "model", {**MODEL, "train.watch": watched})
    save_files(folder, {"evaluation.json": json.dumps(content).encode()})
    export(load(folder, device="cpu").loaded, "page", tmp_path / "page.html")
    assert contents(tmp_path / "page.html")[0]["models"][0]["examples"] == expected


def has_lone_surrogate(text: str) -> bool:
    """Whether a browser, whose texts are UTF-16, has half a character in this one."""
    try:
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return True
    return False


@pytest.mark.parametrize("n", [2, pytest.param(300, marks=pytest.mark.slow)])
def test_hostile_texts_are_only_texts(n: int, model: tuple[Any, Path], tab: Any) -> None:
    opened(tab, model[1])
    for text in hostile(1000)[-n:]:
        tab.evaluate("text => { document.querySelector('textarea').value = text; }", text)
        tab.locator(".asking .button.main").click()
        tab.locator(".asking[aria-busy=false]").wait_for()
        wrong = tab.locator(".status.wrong").count() == 1
        assert wrong == (not text.strip() or has_lone_surrogate(text))
    assert tab.evaluate("window.hit") is None and tab.locator("img, iframe, object").count() == 0
    assert tab.evaluate("[document.scripts.length, document.documentElement.scrollWidth]") == [0, 1280]


def test_what_a_browser_can_t_measure_is_named(model: tuple[Any, Path], tab: Any, tmp_path: Path) -> None:
    page = re.sub(r'"parameters":\d+,"beam"', '"parameters":1000000000000,"beam"', model[1].read_text(encoding="utf-8"))
    (tmp_path / "large.html").write_text(page, encoding="utf-8")
    opened(tab, tmp_path / "large.html", "q=She+sings.")
    tab.locator("#heads").wait_for()
    tab.locator(".asking[aria-busy=false]").wait_for()
    assert "Words" not in tab.locator("nav").inner_text() and tab.locator("[data-sort=worth]").count() == 0
    left_out = tab.locator("footer").inner_text()
    assert "words that mattered (it takes too long in a browser" in left_out
    assert "the change of the score without each part" in left_out
    assert set(tab.locator(".switch b").all_inner_texts()) == {"–"}


@pytest.mark.slow
def test_everything_can_be_pressed(model: tuple[Any, Path], tab: Any) -> None:
    opened(tab, model[1], "q=She+sings.")
    tab.locator("#words").wait_for()
    ask(tab, "touch")
    tab.locator(".asking[aria-busy=false]").wait_for()
    shown = tab.locator("body").inner_text()
    assert "undefined" not in shown and "NaN" not in shown


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_empty_page_fits_and_can_be_read(theme: str, model: tuple[Any, Path], tab: Any) -> None:
    opened(tab, model[1], f"theme={theme}")
    for width in (320, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert ask(tab, "tiny") == [] and ask(tab, "pale") == []
