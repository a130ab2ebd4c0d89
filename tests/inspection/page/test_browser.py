"""The page in a browser: every view of every kind of model is opened, clicked and typed in."""

from pathlib import Path
from typing import Any

import pytest

from clearhead.inspection.page.document import page_document

from .conftest import LABEL_KINDS, ask, opened
from .shown_numbers import CHECKS

VIEWS = {
    "translate": ["flow", "attention", "decoding", "layers", "words", "heads", "film"],
    "classify": ["words", "flow", "attention", "layers", "heads", "film"],
    "answer": ["answers", "words", "flow", "attention", "heads", "film"],
    "image": ["flow", "attention", "layers", "heads", "film"],
    "embed": ["flow", "attention", "film"],
}
VIEWS |= {"generate": VIEWS["translate"], "sample": VIEWS["translate"], "fill": VIEWS["classify"]}
VIEWS |= {"audio": VIEWS["image"]}


Shown = tuple[Any, Any, dict[str, Any]]


def resized(tab: Any, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 900})
    tab.evaluate("() => new Promise(it => requestAnimationFrame(() => requestAnimationFrame(it)))")


def test_every_view_of_a_model_is_there(kind: str, shown: Shown) -> None:
    tab = shown[0]
    assert tab.locator("section").evaluate_all("all => all.map(it => it.id)") == ["sentence", *VIEWS[kind]]
    assert tab.locator("nav a").count() == len(VIEWS[kind])
    assert ask(tab, "nameless") == []


def test_numbers_are_those_of_the_trace(shown: Shown) -> None:
    tab, explanation, data = shown
    resized(tab, 1280)
    for check in CHECKS:
        check(tab, explanation, data)


def test_texts_fit_and_can_be_read(shown: Shown) -> None:
    tab = shown[0]
    for width in (320, 390, 768, 1920, 1280):
        resized(tab, width)
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert ask(tab, "tiny") == [] and ask(tab, "cut") == []
        if width == 390:
            assert ask(tab, "pale") == []
    for _ in ("dark", "light"):
        assert ask(tab, "pale") == [] and ask(tab, "strange") == []
        tab.keyboard.press("t")


def test_a_finger_and_the_keyboard_reach_everything(shown: Shown) -> None:
    tab = shown[0]
    resized(tab, 390)
    tab.locator("details:not([open]) summary").evaluate_all("all => all.forEach(it => it.click())")
    tab.locator("details[open] .scroll").last.wait_for()
    assert ask(tab, "small") == [] and ask(tab, "untold") == [] and ask(tab, "cut") == []
    tab.keyboard.press("Tab")
    assert ask(tab, "unreachable") == []


def test_every_view_can_be_clicked_and_typed_in(shown: Shown) -> None:
    tab = shown[0]
    resized(tab, 1280)
    ask(tab, "touch")
    for key in ("ArrowRight", "ArrowLeft", "Shift+ArrowUp", "]", "[", ".", ",", "1", "5", "t", "Space", "Escape", "?"):
        tab.keyboard.press(key)
    assert tab.locator("dialog").count() == 1
    tab.keyboard.press("Escape")
    tab.locator("dialog").wait_for(state="detached")
    text = tab.locator("body").inner_text()
    assert "undefined" not in text and "NaN" not in text


def test_why_this_and_not_that_is_the_difference_of_the_logits(pages: Any, tab: Any) -> None:
    path, explanation, data = pages("translate")
    opened(tab, path, "t=1")
    others = data["alternatives"][1]
    tab.locator(".why select").nth(0).select_option("0")
    tab.locator(".why select").nth(1).select_option("3")
    logits = explanation.trace["decoder.projection"].output[0, 1]
    expected = float(logits[others[0][2]] - logits[others[3][2]])
    assert f"the logits differ by {expected:+.2f}".replace("-", "−") in tab.locator(".why h3").inner_text()


def test_a_chosen_word_is_chosen_everywhere_and_in_the_address(pages: Any, tab: Any) -> None:
    path = pages("translate")[0]
    opened(tab, path)
    tab.locator(".answer .token").nth(3).click()
    assert "t=3" in tab.url and tab.locator(".card .who").inner_text().startswith("Answer token 4 of")
    assert tab.locator(".answer [aria-pressed=true]").count() == 1
    assert tab.locator(".lens thead th.column").inner_text() == tab.locator(".answer .token span").nth(3).inner_text()
    before = tab.locator("body").inner_text()
    tab.reload()
    ask(tab, "show")
    assert tab.locator("body").inner_text() == before
    tab.locator("nav a").nth(2).click()
    assert "v=decoding" in tab.url
    tab.go_back()
    assert "v=decoding" not in tab.url and "t=3" in tab.url


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_every_label_has_its_words_and_parts(kind: str, pages: Any, tab: Any) -> None:
    path, explanation, data = pages(kind)
    unit = 1 if kind == "number" else 100
    for t, (label, _, _, _) in enumerate(data["labels"]):
        opened(tab, path, f"t={t}&method={'gradients' if t % 2 else 'falls'}")
        assert ask(tab, "nameless") == [] and ask(tab, "tiny") == [] and ask(tab, "cut") == []
        words, why = explanation.about(label).words, explanation.why(label)
        found = [float(it.replace("−", "-")) for it in titles(tab.locator("#words .shaded span"))]
        expected = words.gradients if t % 2 else words.falls
        assert found == pytest.approx(expected[:, 0].tolist(), abs=0.6 if unit == 1 else 0.01 if t % 2 else 6e-5)
        changes = {name: it["logprobs"][t] - data["labels"][t][1] for name, it in data["without"].items()}
        found = {it["name"]: float(it["change"].replace("−", "-")) for it in tab.locator(".switch").evaluate_all(
            "all => all.map(it => ({name: it.dataset.off, change: it.lastChild.textContent}))")}  # fmt: skip
        assert found == pytest.approx(changes, abs=0.06 if unit == 1 else 6e-3)
        said = tab.locator(".why h3").inner_text()
        assert f" {why.difference:+.{1 if unit == 1 else 2}f};".replace("-", "−") in said
        rivals = tab.locator(".why select").nth(1).locator("option").all_inner_texts() if unit > 1 else []
        own = [it for it, *_ in data["labels"] if kind != "targets" or it.split("=")[0] == label.split("=")[0]]
        assert rivals[1:] == (own if unit > 1 else [])
    assert "undefined" not in (text := tab.locator("body").inner_text()) and "NaN" not in text


def titles(spans: Any) -> list[str]:
    return spans.evaluate_all("all => all.map(it => it.title.split(': ').pop())")


def test_broken_addresses_are_ignored(pages: Any, tab: Any) -> None:
    path, found = pages("translate")[0], list[str]()
    for state in (
        "",
        "t=999999&l=7&h=9&k=x&step=1e9&off=a&frame=3&method=b&theme=c&v=d",
        "t=-1&s=",
        "%%%",
        "a" * 5000,
    ):
        tab.goto("about:blank")
        opened(tab, path, state)
        found.append(tab.locator("main").inner_text())
    assert set(found) == {found[0]}


def test_a_file_says_which_command_decodes_on(pages: Any, tab: Any) -> None:
    opened(tab, pages("translate")[0], "t=0")
    tab.locator(".choice").first.click()
    said = tab.locator(".card .note code").inner_text()
    assert said.startswith("clearhead explain models/a 'She sings.' --prefix ") and "--html" in said


def test_a_file_of_a_language_model_continues_its_text(pages: Any, tab: Any) -> None:
    path, _, data = pages("generate")
    opened(tab, path, "t=0")
    tab.locator(".choice").first.click()
    begins, outputs = data["tokens"]["begins"], data["tokens"]["outputs"]
    other = next(text for text, _, i in data["alternatives"][begins] if i != outputs[begins]["id"])
    said = tab.locator(".card .note code").inner_text()
    assert said == f"clearhead explain models/a '{data['source']}{other.replace('▁', ' ')}' --html page.html"


def test_data_of_another_version_is_named(tab: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_document({"kind": "page", "format_version": 99, "source": "a"}), encoding="utf-8")
    tab.goto(f"file://{path}")
    assert "format 99; expected 1" in tab.locator("body").inner_text()
