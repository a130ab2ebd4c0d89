"""The Flow starts at the first step, plays, and says what each step does with the numbers of the trace."""

import re
from typing import Any

import pytest

from .conftest import opened

STEPS = """() => {
  const slider = document.querySelector("#flow input"), said = [];
  for (slider.value = 0; ; slider.stepUp()) {
    slider.dispatchEvent(new Event("input"));
    said.push(document.querySelector("#flow .told").textContent.replaceAll("−", "-"));
    if (slider.value === slider.max) return said;
  }
}"""


def numbers(text: str) -> list[float]:
    return [float(it) for it in re.findall(r"-?\d+\.\d\d\b", text.replace("−", "-"))]


@pytest.mark.parametrize("kind", ["translate", "generate", "classify", "image", "answer", "fill", "embed"])
def test_each_step_is_told_with_the_values_of_the_trace(kind: str, pages: Any, tab: Any) -> None:
    path, explanation, data = pages(kind)
    opened(tab, path, "t=0")
    told, trace = tab.evaluate(STEPS), explanation.trace
    begins, names = data["tokens"]["begins"], [it["name"] for it in data["parts"]]
    assert len(told) == len(names) + (kind != "embed") and all("undefined" not in it and "NaN" not in it for it in told)
    for name, said, before in zip(names, told, [None, *names]):
        (stack, *_), kind_of = name.split("."), name.split(".")[-1]
        row, expected = begins if stack == "decoder" else 0, list[float]()
        made = trace[name].output[0, row] if kind_of not in ("self", "cross", "head") else None
        if kind_of == "embedding":
            assert said.startswith(f"{trace[name].output.size(1)} tokens") or "media" in data
            expected = made[:3].tolist()
        elif kind_of == "embedded":
            expected = [*trace[f"{stack}.embedding"].output[0, row, :3].tolist(), *made[:3].tolist()]
        elif kind_of in ("self", "cross"):
            weights = trace[name].weights.values[0, :, row].mean(0)
            share = re.search(r"looks most at (.+) \(>?([\d.]+)%, the mean", said)
            assert share and float(share[2]) == pytest.approx(100 * float(weights.max()), rel=6e-3)
            continue
        elif "add_norm" in kind_of:
            found = trace.parts.get(f"{before}.out") or trace.parts[before]
            expected = [float(it[0]) for it in (trace[name].inputs[0][0, row], found[-1].output[0, row], made)]
        elif kind_of == "feed_forward":
            assert "from 16 numbers to 32 and back" in said
            expected = made[:3].tolist()
        elif kind_of == "projection":
            expected = [float(made.max())]
        elif data.get("labels"):
            expected = [float(trace["head"].output[0, i]) for _, _, i, _ in data["labels"]]
        elif data["task"] == "answer":
            expected = trace["head"].output[0, 0].tolist()
        assert numbers(said) == pytest.approx(expected, abs=1.1e-2), said


def test_it_starts_at_the_first_step_and_plays_to_the_last(pages: Any, browser: Any) -> None:
    path = pages("translate")[0]
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.clock.install()
    tab.goto(f"file://{path}#step=99")
    assert (
        tab.locator("#flow .step").inner_text() == "step 1 of 26"
        and tab.evaluate("document.getAnimations().length") == 0
    )
    tab.keyboard.press("Space")
    assert tab.locator("#flow .play").inner_text() == "Pause"
    tab.clock.run_for(2700)
    assert tab.locator("#flow .step").inner_text() == "step 3 of 26" and "step=2" in tab.url
    drawn = "document.getAnimations().map(it => it.animationName).sort()"
    assert {"rows", "drawn"} >= set(tab.evaluate(drawn)) > set()
    tab.keyboard.press("Space")
    tab.clock.run_for(9000)
    assert "step=2" in tab.url and tab.locator("#flow .play").inner_text() == "Play"
    tab.locator("#flow .play").click()
    tab.locator("#flow [aria-label='Step back']").click()  # the reader takes over
    tab.clock.run_for(9000)
    assert "step=2" in tab.url and tab.locator("#flow .play").inner_text() == "Play"
    tab.locator("#flow input").focus()
    tab.keyboard.press("End")
    assert "step=25" in tab.url
    tab.keyboard.press("Space")  # from the end, it starts again
    assert "step=0" in tab.url
    tab.clock.run_for(25 * 2600)
    assert "step=25" in tab.url and tab.locator("#flow .play").inner_text() == "Play"
    tab.close()


def test_a_step_moves_no_box_and_a_hovered_box_is_previewed(pages: Any, tab: Any) -> None:
    path, explanation, _ = pages("translate")
    opened(tab, path, "step=1")
    first = tab.evaluate("window.first = document.querySelector('#flow .part')") is not None
    tab.keyboard.press(".")
    assert first and tab.evaluate(
        "window.first === document.querySelector('#flow .part')"
    )  # classes change, nothing is drawn again
    before = tab.locator("#flow .about").inner_text()
    tab.locator("#flow .part[data-step='4']").dispatch_event("pointerover")
    shown = tab.locator("#flow .about").inner_text()
    assert "max(0, xW₁ + b₁)W₂ + b₂" in shown and "encoder.0.feed_forward" in shown and "4 × 16 → 4 × 16" in shown
    values = explanation.trace["encoder.0.feed_forward"].output[0, 0, :8].tolist()
    assert numbers(shown.split("out:")[1]) == pytest.approx(values, abs=1.1e-2)
    assert "step=2" in tab.url
    tab.locator("#flow .figure").dispatch_event("pointerleave")
    assert tab.locator("#flow .about").inner_text() == before


def test_layers_and_heads_are_counted_from_1_and_commands_keep_their_names(pages: Any, tab: Any) -> None:
    opened(tab, pages("translate")[0], "k=decoder.cross&l=1&h=0&step=14&off=decoder.1.cross.head.0")
    text = tab.locator("body").inner_text()
    assert not re.search(r"(?i)\b(layer|head) 0", text) and "layer 2" in text
    assert "Decoder, cross layer 2, head 1" in tab.locator(".open figcaption").first.inner_text()
    assert tab.locator("#flow .about b").inner_text() == "Cross-attention, decoder layer 1"
    assert "decoder.0.cross" in tab.locator("#flow .about").inner_text()
    assert not tab.locator("[aria-label*='layer 0'], [aria-label*='head 0']").count()
    assert tab.locator(".facts").inner_text().startswith("a · 2 + 2 layers")
