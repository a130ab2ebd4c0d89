"""The page in a browser: every view of every kind of model is opened, clicked and typed in."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.inspection.page.arrays import bits_array, bytes_array, float_array, weights_array
from clearhead.inspection.page.document import page_document, served_document

from .conftest import KINDS

VIEWS = {
    "translate": ["flow", "attention", "decoding", "layers", "words", "heads", "film"],
    "classify": ["words", "flow", "attention", "layers", "heads", "film"],
    "answer": ["words", "flow", "attention", "heads", "film"],
    "image": ["flow", "attention", "layers", "heads", "film"],
    "embed": ["flow", "attention", "film"],
}
VIEWS |= {"generate": VIEWS["translate"], "sample": VIEWS["translate"], "fill": VIEWS["classify"]}
VIEWS |= {"audio": VIEWS["image"]}
SHOWN = (
    "() => document.querySelectorAll('section').forEach(it => it.style.setProperty('content-visibility', 'visible'))"
)
# The contrast of each text with the first ground behind it, as (ratio, text).
PALE = """() => {
  const parts = text => (text.match(/[\\d.]+/g) ?? []).map(Number), clear = it => it.length === 4 && it[3] < 1;
  const light = it => { const [r, g, b] = it.map(x => ((x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, own = text.parentElement;
    if (!text.textContent.trim() || !own.checkVisibility({visibilityProperty: true}) || own.closest("svg, script, option, .hidden")) continue;
    let ground = own;
    while (ground && clear(parts(getComputedStyle(ground).backgroundColor))) ground = ground.parentElement;
    const [one, other] = [parts(getComputedStyle(own).color), parts(getComputedStyle(ground ?? document.body).backgroundColor)].map(it => light(it.slice(0, 3)));
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.49) found.push([ratio.toFixed(2), text.textContent.trim().slice(0, 30)]);
  }
  return found;
}"""
TINY = """() => [...document.querySelectorAll("body *")].filter(it => it.childNodes.length && [...it.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && it.checkVisibility() && !it.closest("script, .lines"))
  .filter(it => parseFloat(getComputedStyle(it).fontSize) < 11.5).map(it => it.textContent.slice(0, 30))"""


def opened(tab: Any, path: Path, state: str = "") -> None:
    tab.goto(f"file://{path}#{state}")
    tab.evaluate(SHOWN)


@pytest.mark.parametrize("kind", KINDS)
def test_every_view_can_be_clicked_and_typed_in(kind: str, pages: Any, tab: Any) -> None:
    path, _, data = pages(kind)
    opened(tab, path)
    assert tab.locator("section").evaluate_all("all => all.map(it => it.id)") == ["sentence", *VIEWS[kind]]
    assert tab.locator("nav a").count() == len(VIEWS[kind])
    tab.evaluate("""() => {
      for (const it of document.querySelectorAll("summary")) it.click();
      for (const it of [...document.querySelectorAll("button, [role=button], [data-s]")].slice(0, 400)) it.dispatchEvent(new MouseEvent("click", {bubbles: true}));
      for (const it of document.querySelectorAll("[data-r], [data-row], canvas")) for (const kind of ["pointerover", "pointermove", "pointerleave"]) it.dispatchEvent(new PointerEvent(kind, {bubbles: true, clientX: 400, clientY: 300}));
      for (const it of document.querySelectorAll("select")) { it.value = it.options[it.options.length - 1].value; it.dispatchEvent(new Event("change", {bubbles: true})); }
    }""")
    tab.evaluate("document.activeElement.blur()")
    for key in ("ArrowRight", "ArrowLeft", "Shift+ArrowUp", "]", "[", ".", ",", "1", "5", "t", "Space", "Escape", "?"):
        tab.keyboard.press(key)
    assert tab.locator("dialog").count() == 1
    tab.keyboard.press("Escape")
    assert tab.locator("dialog").count() == 0
    assert not tab.locator("body").inner_text().count("undefined") and "NaN" not in tab.locator("body").inner_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_fit_and_can_be_read(kind: str, theme: str, pages: Any, tab: Any) -> None:
    opened(tab, pages(kind)[0], f"theme={theme}")
    for width in (320, 390, 768, 1280, 1920) if theme == "light" else (390, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.evaluate("() => new Promise(it => requestAnimationFrame(() => requestAnimationFrame(it)))")
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.evaluate(TINY) == []
    assert tab.evaluate(PALE) == []


def test_numbers_are_those_of_the_trace(pages: Any, tab: Any) -> None:
    path, explanation, data = pages("translate")
    opened(tab, path)
    for layer, head in ((0, 0), (1, 1)):
        tab.goto(f"file://{path}#k=decoder.cross&l={layer}&h={head}")
        tab.reload()
        tab.evaluate("document.querySelector('.open details summary').click()")
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
    parts = tab.locator(".why details tbody td").all_inner_texts()
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
    path, _, data = pages("translate")
    opened(tab, path)
    tab.locator(".answer .token").nth(3).click()
    assert "t=3" in tab.url and tab.locator(".card .who").inner_text().startswith("Answer token 4 of")
    assert tab.locator(".answer [aria-pressed=true]").count() == 1
    assert tab.locator(".lens thead th.column").inner_text() == tab.locator(".answer .token span").nth(3).inner_text()
    before = tab.locator("body").inner_text()
    tab.reload()
    tab.evaluate(SHOWN)
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
    path, _, data = pages("translate")
    opened(tab, path, "t=0")
    tab.locator(".choice").first.click()
    said = tab.locator(".card .note code").inner_text()
    assert said.startswith("clearhead explain models/a 'She sings.' --prefix ") and "--html" in said


def test_data_of_another_version_is_named(tab: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_document({"kind": "page", "format_version": 99, "source": "a"}), encoding="utf-8")
    tab.goto(f"file://{path}")
    assert "format 99; expected 1" in tab.locator("body").inner_text()
