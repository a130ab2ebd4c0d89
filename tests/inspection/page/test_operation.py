"""The page as it's used: with the keyboard, a finger or a screen reader, and in states without much to show."""

import importlib.util
import json
import re
import wave
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.inspection.page.document import page_document, served_document

from .conftest import KINDS, ask, explained, opened, page_of
from .expected_sentences import in_words
from .shown_numbers import rows

COUNTED = """() => {
  const own = window.requestAnimationFrame.bind(window);
  window.frames_asked = 0;
  window.requestAnimationFrame = act => { window.frames_asked += 1; return own(act); };
}"""


def written(path: Path, data: dict[str, Any]) -> Path:
    path.write_text(page_document(data), encoding="utf-8")
    return path


def test_the_softmax_of_the_printed_scores_gives_the_printed_weights(pages: Any, tab: Any) -> None:
    opened(tab, pages("translate")[0], "k=decoder.cross&l=0&h=1")
    weights, scores = np.array(ask(tab, "scores")).T
    np.testing.assert_allclose(np.exp(scores) / np.exp(scores).sum(), weights, atol=0.01)
    assert len(weights) > 2 and weights.sum() == pytest.approx(1, abs=1e-3)


def test_a_chosen_word_is_marked_in_every_view_at_once(pages: Any, tab: Any) -> None:
    opened(tab, pages("translate")[0], "t=0")
    time, name, *marked = ask(tab, "chosen")
    assert marked == ["true", name, name, name, 1, True]
    assert time < 50


def test_a_cell_is_chosen_with_a_finger_or_the_arrow_keys(pages: Any, tab: Any) -> None:
    path, explanation, _ = pages("translate")
    opened(tab, path, "k=decoder.cross&l=1&h=0&t=0")
    weights = explanation.trace["decoder.1.cross"].weights.values[0, 0]
    said = tab.locator(".open figcaption").nth(1)
    tab.locator(".matrix [data-r='1'][data-c='2']").dispatch_event("click")
    assert said.inner_text().endswith(f"{weights[1, 2]:.4f}")
    tab.locator(".matrix .scroll").press("ArrowDown")
    tab.locator(".matrix .scroll").press("ArrowLeft")
    assert said.inner_text().endswith(f"{weights[2, 1]:.4f}") and said.get_attribute("aria-live") == "polite"
    call = explanation.trace["decoder.1.cross"]
    products = [float(it[1]) for it in rows(tab, "The products as a table")]
    expected = (call.q[0, 0, 2] * call.k[0, 0, 1] / call.q.size(-1) ** 0.5).tolist()
    assert products == pytest.approx(expected, abs=0.05)


def test_a_finger_moves_from_one_position_of_an_image_to_the_next(pages: Any, tab: Any) -> None:
    tab.set_viewport_size({"width": 390, "height": 900})
    opened(tab, pages("image")[0], "s=4")
    named = {8: "row 3, column 1", 9: "row 3, column 2", 5: "row 2, column 2", 4: "row 2, column 1", 0: "top left"}
    for way, s in (("Down", 8), ("Next", 9), ("Up", 5), ("Previous", 4), ("Up", 0), ("Up", 0)):
        tab.locator("#sentence").get_by_label(way, exact=True).click()
        assert f"s={s}&" in tab.url and tab.locator(".steps .note").first.inner_text().startswith(f"{named[s]}, ")


def lit(tab: Any) -> list[float]:
    """How much each position of the opened head's picture is lit, compared with the most."""
    opacity = "all => all.map(it => Number(it.style.fillOpacity))"
    found = np.array(tab.locator(".open .patch").evaluate_all(opacity))
    return (found / found.max()).tolist()


def test_an_opened_head_lights_what_the_chosen_patch_looks_at(pages: Any, tab: Any) -> None:
    path, explanation, _ = pages("image")
    opened(tab, path, "k=encoder.self&l=1&h=1&s=4")
    weights = explanation.trace["encoder.1.self"].weights.values[0, 1]
    assert tab.locator(".open .thread").count() == 0
    for s in (4, 9):
        tab.locator(f".open .patch[data-s='{s}']").press("Enter")
        assert lit(tab) == pytest.approx((weights[s] / weights[s].max()).tolist(), abs=3e-3)
        said = tab.locator(".open figcaption").nth(1).inner_text()
        where = in_words(explanation.tokens["encoder"][int(weights[s].argmax())])
        assert f"looks at {where}" in said and said.endswith(f"{weights[s].max():.4f}")


def test_a_recording_is_played_under_its_times(pages: Any, tab: Any) -> None:
    path, explanation, data = pages("transcribe")
    opened(tab, path, "k=decoder.cross&l=0&h=1&t=2")
    with wave.open(BytesIO(b64decode(data["media"]["sound"]["b64"]))) as sound:
        samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
        assert sound.getframerate() == 8000 and samples.tolist() == explanation.forward.inputs[0][0].tolist()
    marks = tab.locator("#sentence .clock span")
    at = marks.evaluate_all("all => all.map(it => [parseFloat(it.textContent), parseFloat(it.style.left)])")
    assert len(at) > 3 and all(left == pytest.approx(100 * time / explanation.input.seconds) for time, left in at)
    tab.locator("#sentence .patch[data-s='5']").press("Enter")
    tab.wait_for_function("document.querySelector('audio').duration > 0")
    times = tab.evaluate("[document.querySelector('audio').duration, document.querySelector('audio').currentTime]")
    assert times == pytest.approx([explanation.input.seconds, 0.2], abs=0.02)
    weights = explanation.trace["decoder.0.cross"].weights.values[0, 1]
    t = int(tab.locator(".answer [aria-pressed=true]").get_attribute("data-i"))
    assert lit(tab) == pytest.approx((weights[t] / weights[t].max()).tolist(), abs=3e-3)


def test_what_a_model_speaks_is_heard_and_seen_over_time(pages: Any, tab: Any) -> None:
    path, explanation, data = pages("speak")
    opened(tab, path, "t=0")
    spoken, codes = data["spoken"], [it for it in data["tokens"]["outputs"] if it["kind"] == "text"]
    assert spoken["seconds"] == pytest.approx(0.04 * len(codes)) and tab.locator("audio").count() == 1
    tab.locator("#sentence .patch[data-s='1']").press("Enter")
    assert "t=1" in tab.url and tab.locator(".steps .note").inner_text() == "0.04 s"
    tab.locator(".source .token").nth(1).click()
    cross = explanation.trace["decoder.1.cross"].weights.values[0].mean(0)[: len(codes), 1]
    shown = tab.locator("#sentence .patch").evaluate_all("all => all.map(it => Number(it.style.fillOpacity))")
    assert (np.array(shown) / max(shown)).tolist() == pytest.approx((cross / cross.max()).tolist(), abs=5e-3)
    assert violations(tab, path, "dark") == []


def test_the_flow_is_walked_with_the_keyboard(pages: Any, tab: Any) -> None:
    opened(tab, pages("translate")[0], "step=3")
    tab.locator("#flow .part.on").focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    assert "step=4" in tab.url and tab.evaluate("document.activeElement.dataset.step") == "4"


def test_with_reduced_motion_nothing_moves(pages: Any, tab: Any) -> None:
    opened(tab, pages("translate")[0])
    tab.evaluate(COUNTED)
    ask(tab, "touch")
    assert tab.evaluate("[window.frames_asked, document.getAnimations().length]") == [0, 0]
    moving = "[...document.all].filter(it => parseFloat(getComputedStyle(it).transitionDuration) > 0).length"
    assert (
        tab.evaluate(moving) == 0
        and tab.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    )


def test_an_empty_answer_an_unknown_word_and_a_cut_answer_are_named(pages: Any, tab: Any, tmp_path: Path) -> None:
    _, explanation, data = pages("translate")
    words = [it for it in explanation.choice.pieces(range(data["vocabulary"])) if not it.startswith("<")]
    _, data = page_of(*explained("translate", "She zzz.", **{"decode.suppress": tuple(words)}))
    assert data["text"] == ""
    opened(tab, written(tmp_path / "empty.html", data))
    said = tab.locator(".say").inner_text()
    assert "The answer is empty." in said and "The vocabulary lacks zzz; the model reads ‹unk› there." in said
    assert tab.locator(".answer .token").all_inner_texts()[0].startswith("■ end")
    assert tab.locator(".source .unknown").inner_text() == "zzz"
    ask(tab, "touch")
    opened(tab, pages("generate")[0])
    assert "The answer was stopped at 20 tokens." in tab.locator(".say").inner_text()


def test_characters_in_parts_and_whitespace_can_be_read(tab: Any, tmp_path: Path) -> None:
    subwords = {"data.tokenizer": "bpe", "data.vocab_size": 300, "data.normalise": ("NFC",)}
    _, data = page_of(*explained("generate", "We 5€\n\tare", **subwords))
    opened(tab, written(tmp_path / "bytes.html", data))
    names = tab.locator(".source .token").all_inner_texts()
    parts = ["€ (1 of 3)", "€ (2 of 3)", "€ (3 of 3)"]
    assert "".join(names) == "We␣5" + "".join(parts) + "↵⇥are"
    assert tab.locator(".source .unknown").all_inner_texts() == parts
    assert "The model reads € in parts." in tab.locator(".say").inner_text()


def test_a_film_is_played_and_an_unwatched_run_says_how_to_record_one(pages: Any, tab: Any, tmp_path: Path) -> None:
    opened(tab, pages("translate")[0])
    assert tab.locator("#film pre").inner_text() == "clearhead train DATA --out MODEL --watch 'She sings.'"
    frames = [
        {
            "step": 10 * n,
            "text": "She sings.",
            "answer": f"answer {n}",
            "scores": {"loss": 3.0 - n},
            "weights": {"decoder.0.cross": np.full((2, 3, 3), n / 2)},
            "lens": {"embedded": ["a"], "layer 0": ["b"]},
            "probability": n / 4,
        }
        for n in range(3)
    ]
    _, data = page_of(*explained("translate"), film=frames)
    opened(tab, written(tmp_path / "film.html", data), "frame=1&k=decoder.cross&l=0&h=0")
    assert tab.locator("#film .answer").inner_text() == "answer 1"
    tab.locator("#film button").click()  # motion is reduced: Play is one step
    assert tab.locator("#film .answer").inner_text() == "answer 2" and "frame=2" in tab.url
    tab.locator("#film input").press("ArrowLeft")
    assert tab.locator("#film .answer").inner_text() == "answer 1"
    curves, said = (
        tab.locator("#film .scroll > svg"),
        "loss 2, from 3 to 1; probability of its answer 0.25, from 0 to 0.5",
    )
    said += "; entropy of Cross 1 · head 1 in bits 1.5, from 0 to 0"
    assert curves.get_attribute("aria-label") == f"Step 10: {said}"
    box = curves.bounding_box()
    tab.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 20)  # the nearest frame
    assert tab.locator("#film .answer").inner_text() == "answer 2"
    tab.locator("#film input").press("ArrowLeft")
    assert "frame=1" in tab.url and curves.get_attribute("aria-label").startswith("Step 10: ")
    tab.locator("#film input").blur()
    tab.keyboard.press("]")
    assert "entropy of Cross 1 · head 2" in curves.get_attribute("aria-label")
    assert [it[:2] for it in rows(tab, "The evaluations as a table")] == [["0", "3"], ["10", "2"], ["20", "1"]]
    assert ask(tab, "untold") == [] and ask(tab, "pale") == []


def test_a_view_is_shared_as_a_link_and_as_a_picture(pages: Any, window: Any, tab: Any) -> None:
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(tab, pages("translate")[0], "t=1&k=decoder.cross&l=1&h=1&theme=dark")
    tab.locator("#attention").scroll_into_view_if_needed()
    tab.evaluate("document.querySelector('#attention').scrollIntoView()")
    tab.get_by_role("button", name="Share").press("Enter")
    said = tab.locator("dialog").inner_text()
    word = tab.locator(".card h2").inner_text()
    assert "models/a · “She sings.” → “" in said
    assert f"Attention · chosen: {word} · Decoder, cross layer 2, head 2" in said
    tab.get_by_role("button", name="Copy link").click()
    tab.get_by_text("The link is copied.").wait_for()
    link = tab.evaluate("navigator.clipboard.readText()")
    assert link == tab.get_by_label("Link").input_value() and "t=1&" in link and link.endswith("v=attention")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save picture").click()
    tab.get_by_text("Saved as attention.png.").wait_for()
    assert download.value.suggested_filename == "attention.png"
    image = pytest.importorskip("PIL.Image").open(download.value.path()).convert("RGB")
    width, height = (tab.locator("#attention").bounding_box()[it] for it in ("width", "height"))
    assert image.width == 2 * (round(width) + 48) and 0.5 * height < image.height / 2 < height + 100
    colours = {colour for _, colour in image.getcolors(1 << 24)}
    assert {(15, 19, 25), (255, 138, 56)} <= colours and len(colours) > 100  # the ground, what's chosen, and heads
    assert tab.locator("body").count() == 1
    tab.get_by_role("button", name="Close").click()
    tab.goto("about:blank")
    opened(tab, pages("translate")[0], link.split("#")[1])
    assert tab.locator(".card h2").inner_text() == word and tab.evaluate("scrollY") > 300


def failed(tab: Any, message: str, press: str) -> None:
    """Press something that fails: it's said where it can be seen, and nothing looks as if it had happened."""
    tab.locator(press).first.click()
    tab.locator(".status.wrong").wait_for()
    said = tab.locator(".status")
    assert message in said.inner_text() and said.locator("button").inner_text() == "Retry"
    for width in (390, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.locator(press).first.scroll_into_view_if_needed()
        box = said.bounding_box()
        assert box["y"] >= 48 and box["y"] + box["height"] <= 900
    assert tab.locator(".switch[aria-pressed=true]").count() == 0 and not re.search("off=|beam=", tab.url)


def test_a_served_page_asks_its_first_example_and_offers_the_others(pages: Any, tab: Any) -> None:
    model = {"name": "a", "task": "translate", "reads": "text", "examples": ["She sings.", "We are <b>."]}
    tab.add_init_script(
        f"""window.asked = [];
        window.fetch = async (path, {{body}}) => {{
          if (path !== "api/page") return new Response("", {{status: 503}});
          window.asked.push(JSON.parse(body).text);
          return new Response(JSON.stringify({json.dumps(pages("translate")[2])}));
        }};"""
    )
    tab.route("http://page.test/", lambda it: it.fulfill(body=served_document([model]), content_type="text/html"))
    tab.goto("http://page.test/")
    tab.locator(".answer .token").first.wait_for()
    tab.locator(".tries button").last.click()
    tab.locator(".asking[aria-busy=false]").wait_for()
    tab.wait_for_function("window.asked.length == 2")
    assert tab.evaluate("window.asked") == model["examples"]
    assert tab.locator("textarea").first.input_value() == "We are <b>."
    assert tab.locator(".tries button").all_inner_texts() == model["examples"]


def test_what_a_server_fails_at_did_not_happen_and_can_be_asked_again(pages: Any, tab: Any) -> None:
    model = {"name": "models/a", "task": "translate", "reads": "text"}
    tab.route("http://page.test/", lambda it: it.fulfill(body=served_document([model]), content_type="text/html"))
    tab.goto("http://page.test/")
    tab.evaluate(
        """answer => {
      window.state = "lost";
      window.fetch = async (_, {body}) => {
        if (window.state === "lost") throw new TypeError();
        if (window.state === "cut") return new Response(new ReadableStream({pull: it => it.error(new TypeError())}));
        const {off, prefix} = JSON.parse(body), error = {message: "Too many parts. Switch some on."};
        return new Response(JSON.stringify(window.state === "full" ? {error} : {...answer, off, prefix}));
      };
    }""",
        pages("translate")[2],
    )
    lost = "The server doesn't answer. Check that it's running, then try again."
    tab.locator("textarea").first.fill("She sings.")
    failed(tab, lost, ".asking .main")
    tab.evaluate("window.state = 'cut'")  # within an answer
    failed(tab, lost, ".asking .main")
    assert tab.locator("textarea").first.input_value() == "She sings."
    tab.evaluate("window.state = 'back'")
    tab.locator(".status button").click()
    tab.locator(".answer .token").first.wait_for()
    tab.evaluate("window.state = 'lost'")
    failed(tab, lost, ".choice")
    failed(tab, lost, "#heads .switch")
    assert tab.locator(".answer .token").count() == len(pages("translate")[2]["tokens"]["outputs"])
    tab.evaluate("window.state = 'full'")
    failed(tab, "Too many parts. Switch some on.", "#heads .switch")
    tab.evaluate("window.state = 'back'")
    tab.locator(".status button").click()
    tab.locator(".switch[aria-pressed=true]").wait_for()
    assert tab.locator(".status").inner_text() == "" and "off=" in tab.url
    tab.keyboard.press("Escape")  # which clears what is chosen, and asks for the whole model again
    tab.locator(".switch[aria-pressed=true]").wait_for(state="detached")
    tab.locator(".asking[aria-busy=false]").wait_for()
    assert "off=" not in tab.url and "Nothing is switched off." in tab.locator(".became").inner_text()


def violations(tab: Any, path: Path, theme: str) -> list[str]:
    """What axe-core finds in a page with every table open."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None:
        pytest.skip("needs axe-playwright-python, which `make setup-dev` installs")
    opened(tab, path, f"theme={theme}")
    tab.locator("summary").evaluate_all("all => all.forEach(it => it.click())")
    tab.locator("details[open] .scroll").last.wait_for()
    tab.evaluate((Path(found.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8"))
    result = tab.evaluate("axe.run({preload: false, resultTypes: ['violations']})")
    return [f"{it['id']}: {it['nodes'][0]['html']}" for it in result["violations"]]


def test_axe_finds_nothing(pages: Any, tab: Any) -> None:
    assert violations(tab, pages("fill")[0], "light") == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_in_any_kind_of_page(kind: str, theme: str, pages: Any, tab: Any) -> None:
    assert violations(tab, pages(kind)[0], theme) == []


@pytest.mark.parametrize(
    ("kind", "stops"), [("translate", 11), ("sample", 11), ("classify", 8), ("answer", 8), ("embed", 5)]
)
def test_a_tour_stops_at_every_view_and_can_be_left(kind: str, stops: int, pages: Any, tab: Any) -> None:
    opened(tab, pages(kind)[0], "t=0" if kind != "embed" else "")
    tab.get_by_role("button", name="Take the tour").press("Enter")
    box, said = tab.get_by_role("region", name="Tour"), list[str]()
    for n in range(stops):
        text = box.inner_text()
        assert f"{n + 1} of {stops}" in text and "undefined" not in text and "NaN" not in text
        top = tab.locator(".stop").bounding_box()
        assert top["y"] < 900 and top["y"] + top["height"] > 0
        said.append(box.locator("p").inner_text())
        if n == 1:
            assert tab.evaluate("document.activeElement.textContent") == "Next" and ask(tab, "pale") == []
        tab.keyboard.press("Enter")
    assert len(set(said)) == stops and not box.is_visible()
    tab.keyboard.press("Enter")
    assert box.is_visible()
    tab.keyboard.press("Escape")
    assert not box.is_visible() and tab.locator(".stop").count() == 0
    assert tab.evaluate("document.activeElement.textContent") == "Take the tour"
