"""What could be drawn at a step, and what is drawn, are those of the model's distribution."""

from typing import Any

import numpy as np
import pytest

from clearhead.decode.sampling import Sampling

from .conftest import opened
from .shown_numbers import texts

SET = """([temperature, k, p]) => document.querySelectorAll("#decoding .controls [type=range]").forEach((it, i) => {
  it.value = [temperature, k, p][i];
  it.dispatchEvent(new Event("input"));
})"""
ALL = 8  # the slider's last place


def shares(tab: Any) -> list[float]:
    found = [it.replace("cut off", "0").lstrip(">") for it in texts(tab, ".sampling .number")]
    return [float(it.rstrip("%")) / (100 if "%" in it else 1) for it in found]


@pytest.mark.parametrize("kind", ["translate", "generate", "sample"])
@pytest.mark.parametrize(
    ("temperature", "k", "p"), [(1, ALL, 1), (0.5, ALL, 1), (2, ALL, 1), (1, 3, 1), (0.7, 5, 0.4), (1.5, ALL, 0.6)]
)
def test_the_bars_are_what_sampling_draws(
    kind: str, temperature: float, k: int, p: float, pages: Any, tab: Any
) -> None:
    path, explanation, data = pages(kind)
    opened(tab, path, "t=1")
    tab.evaluate(SET, [temperature, k, p])
    at = data["tokens"]["begins"] + 1
    log_p = explanation.trace["decoder"].output[0, at].log_softmax(-1).numpy(force=True)
    sampling = Sampling(temperature=temperature, top_k=0 if k == ALL else k, top_p=p)
    expected = sampling.probabilities(log_p[None])[0]
    named = [i for *_, i in sorted(data["alternatives"][at], key=lambda it: -it[1])]
    whole = [*expected[named], expected.sum() - expected[named].sum()]
    assert shares(tab) == pytest.approx(whole, rel=0.02, abs=2e-3)
    assert texts(tab, ".sampling .bars > :nth-child(3n + 1)")[-1] == f"{len(log_p) - len(named)} others"


def test_draws_follow_the_bars_and_the_seed(pages: Any, tab: Any) -> None:
    opened(tab, pages("translate")[0], "t=0")

    def drawn(n: int) -> list[str]:
        """Begin with seed 3, and return what each draw said."""
        tab.get_by_label("Seed").fill("3")
        press = """n => Array.from({length: n}, () => {
          [...document.querySelectorAll(".controls button")].at(-1).click();
          return document.querySelector(".sampling .note").textContent;
        })"""
        return [str(it) for it in tab.evaluate(press, n)]

    first = drawn(400)
    assert first[:5] == drawn(5) and first[0].startswith("Draw 1 with seed 3: ")
    names, expected = texts(tab, ".sampling .bars > :nth-child(3n + 1)"), shares(tab)
    found = [np.mean([it.endswith(f": {name}.") for it in first]) for name in names[:-1]]
    assert found == pytest.approx(expected[:-1], abs=0.08) and max(found) > 0.1
    assert np.mean(["others" in it for it in first]) == pytest.approx(expected[-1], abs=0.08)
    tab.evaluate(SET, [1, 1, 1])
    assert texts(tab, ".sampling .note") == [""]  # other settings begin again
    tab.get_by_role("button", name="Sample").click()
    assert texts(tab, ".sampling .note") == [f"Draw 1 with seed 3: {names[0]}."]
    assert tab.locator(".sampling .drawn").inner_text() == names[0] and tab.locator(".sampling .cut").count() == 8


def test_log_probabilities_are_shown_on_demand(pages: Any, tab: Any) -> None:
    path, explanation, _ = pages("translate")
    opened(tab, path, "t=0")
    node, best = tab.locator("#decoding .node.best .small").first, explanation.searched.nodes[0].log_probability
    assert float(node.text_content().rstrip("%")) == pytest.approx(100 * np.exp(best), rel=6e-3)
    tab.get_by_role("button", name="Log-probabilities").click()
    assert float(node.text_content().replace("−", "-")) == pytest.approx(best, abs=6e-3)
