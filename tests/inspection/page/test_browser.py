"""The page in a browser: every view of every kind of model is opened, clicked and typed in."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.inspection.page.document import page_document

from .conftest import KINDS, ask, opened

VIEWS = {
    "translate": ["flow", "attention", "decoding", "layers", "words", "heads", "film"],
    "classify": ["words", "flow", "attention", "layers", "heads", "film"],
    "answer": ["words", "flow", "attention", "heads", "film"],
    "image": ["flow", "attention", "layers", "heads", "film"],
    "embed": ["flow", "attention", "film"],
}
VIEWS |= {"generate": VIEWS["translate"], "sample": VIEWS["translate"], "fill": VIEWS["classify"]}
VIEWS |= {"audio": VIEWS["image"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_view_can_be_clicked_and_typed_in(kind: str, pages: Any, tab: Any) -> None:
    path = pages(kind)[0]
    opened(tab, path)
    assert tab.locator("section").evaluate_all("all => all.map(it => it.id)") == ["sentence", *VIEWS[kind]]
    assert tab.locator("nav a").count() == len(VIEWS[kind])
    ask(tab, "touch")
    for key in ("ArrowRight", "ArrowLeft", "Shift+ArrowUp", "]", "[", ".", ",", "1", "5", "t", "Space", "Escape", "?"):
        tab.keyboard.press(key)
    assert tab.locator("dialog").count() == 1
    tab.keyboard.press("Escape")
    tab.locator("dialog").wait_for(state="detached")
    assert not tab.locator("body").inner_text().count("undefined") and "NaN" not in tab.locator("body").inner_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_fit_and_can_be_read(kind: str, theme: str, pages: Any, tab: Any) -> None:
    opened(tab, pages(kind)[0], f"theme={theme}")
    for width in (320, 390, 768, 1280, 1920) if theme == "light" else (390, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.evaluate("() => new Promise(it => requestAnimationFrame(() => requestAnimationFrame(it)))")
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert ask(tab, "tiny") == [] and ask(tab, "cut") == []
    assert ask(tab, "pale") == [] and ask(tab, "strange") == []
    assert ask(tab, "nameless") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_finger_and_the_keyboard_reach_everything(kind: str, pages: Any, tab: Any) -> None:
    tab.set_viewport_size({"width": 390, "height": 900})
    opened(tab, pages(kind)[0])
    tab.locator("summary").evaluate_all("all => all.forEach(it => it.click())")
    tab.locator("details[open] .scroll").last.wait_for()
    assert ask(tab, "small") == [] and ask(tab, "untold") == [] and ask(tab, "cut") == []
    tab.keyboard.press("Tab")
    assert ask(tab, "unreachable") == []


def test_numbers_are_those_of_the_trace(pages: Any, tab: Any) -> None:
    path, explanation, data = pages("translate")
    opened(tab, path)
    for layer, head in ((0, 0), (1, 1)):
        tab.goto(f"file://{path}#k=decoder.cross&l={layer}&h={head}")
        tab.reload()
        tab.evaluate("document.querySelector('.open details summary').click()")
        tab.locator(".open details td").first.wait_for()
        cells = tab.locator(".open details tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.querySelectorAll('td')].map(it => Number(it.textContent)))"
        )
        expected = explanation.trace[f"decoder.{layer}.cross"].weights.values[0, head].numpy()
        np.testing.assert_allclose(cells, expected, atol=6e-5)
        np.testing.assert_allclose(np.sum(cells, 1), 1, atol=1e-3)
    shown = tab.locator(".answer .token small").all_inner_texts()
    percents = [100 * np.exp(it) for it in data["logprobs"]]
    assert [float(it.rstrip("%")) for it in shown] == pytest.approx(percents, rel=6e-3)
    tab.locator(".answer .token").nth(2).click()
    assert (
        f"log-probability {data['logprobs'][2]:.2f}".replace("-0.", "−0.").replace(" -", " −")
        in tab.locator(".card .sub").inner_text()
    )
    tab.evaluate("[...document.querySelectorAll('.why details summary')].pop().click()")
    tab.locator(".why details[open] td").first.wait_for()
    parts = tab.locator(".why details[open] tbody td").all_text_contents()
    word = data["alternatives"][2]
    said = [i for *_, i in word].index(explanation.said[2])
    total = explanation.trace["decoder.projection"].output[0, 2, word[said][2]]
    assert sum(float(it.replace("−", "-")) for it in parts) == pytest.approx(float(total), abs=2e-3)


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


@pytest.mark.parametrize(
    "state", ["t=999999&l=7&h=9&k=x&step=1e9&off=a&frame=3&method=b&theme=c&v=d", "t=-1&s=", "%%%", "a" * 5000]
)
def test_broken_addresses_are_ignored(state: str, pages: Any, tab: Any) -> None:
    path = pages("translate")[0]
    opened(tab, path)
    expected = tab.locator("main").inner_text()
    tab.goto("about:blank")
    opened(tab, path, state)
    assert tab.locator("main").inner_text() == expected


def test_a_file_says_which_command_decodes_on(pages: Any, tab: Any) -> None:
    opened(tab, pages("translate")[0], "t=0")
    tab.locator(".choice").first.click()
    said = tab.locator(".card .note code").inner_text()
    assert said.startswith("clearhead explain models/a 'She sings.' --prefix ") and "--html" in said


def test_data_of_another_version_is_named(tab: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_document({"kind": "page", "format_version": 99, "source": "a"}), encoding="utf-8")
    tab.goto(f"file://{path}")
    assert "format 99; expected 1" in tab.locator("body").inner_text()
