"""Comparisons of the numbers that a page shows with those of the trace, one for each view."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.inspection.record.parts import part_rows
from clearhead.inspection.views.contrast import Labels
from clearhead.inspection.views.explanation import Explanation
from clearhead.tasks.answer.windows import best_spans


def rows(tab: Any, summary: str, within: str = "body") -> list[list[str]]:
    """The cells of a table that a summary opens, with plain minus signs."""
    box = tab.locator(f"{within} details", has=tab.locator("summary", has_text=summary)).first
    if box.get_attribute("open") is None:
        box.locator("summary").evaluate("it => it.click()")
    box.locator("tbody tr").first.wait_for(state="attached")
    found = box.locator("tbody tr").evaluate_all("all => all.map(it => [...it.children].map(it => it.textContent))")
    return [[it.replace("−", "-").replace(",", "") for it in row] for row in found]


def texts(tab: Any, selector: str) -> list[str]:
    """The texts of some elements, with plain minus signs."""
    return [it.replace("−", "-") for it in tab.locator(selector).all_text_contents()]


def probabilities(explanation: Explanation, data: dict[str, Any]) -> Any:
    """The probability of each part of the answer, from the trace."""
    trace, begins = explanation.trace, data["tokens"]["begins"]
    if isinstance(explanation.choice, Labels):
        return trace["head"].output[0].softmax(-1).sort(descending=True).values
    if explanation.said:
        said = torch.tensor(explanation.said)[begins:, None]
        return trace["decoder"].output[0].softmax(-1)[begins:].gather(-1, said)[:, 0]
    if "filled" in data:
        return (
            trace["head.projection"]
            .output.softmax(-1)
            .gather(-1, torch.tensor(explanation.forward.targets)[:, None])[:, 0]
        )
    return explanation.words.whole.exp() if data["task"] == "answer" else torch.zeros(0)


def check_answer(tab: Any, explanation: Explanation, data: dict[str, Any]) -> None:
    found = [float(it.rstrip("%")) / 100 for it in texts(tab, ".answer .token small")]
    expected = probabilities(explanation, data)
    assert found == pytest.approx(expected.tolist(), rel=6e-3)
    if found:
        chosen = int(tab.locator(".answer [aria-pressed=true]").get_attribute("data-i"))
        shown = re.match(r">?([\d.e-]+)%? likely", texts(tab, ".card .sub")[0])
        assert shown and float(shown[1]) / 100 == pytest.approx(float(expected[chosen]), rel=6e-3)


def check_parts(tab: Any, explanation: Explanation, data: dict[str, Any]) -> None:
    parts = part_rows(explanation.model, explanation.trace)
    for (_, size, parameters, _), part in zip(rows(tab, "The parts as a table"), parts, strict=True):
        assert size == " × ".join(map(str, part.shape[1:])) and int(parameters) == part.parameters


def check_heads(tab: Any, explanation: Explanation, data: dict[str, Any]) -> None:
    minis = tab.locator(".mini[data-k]").evaluate_all(
        "all => all.map(it => [it.dataset.k, it.dataset.l, it.dataset.h, it.textContent, it.ariaPressed])"
    )
    for place, layer, head, shown, pressed in minis:
        stack, kind = place.split(".")
        weights = explanation.trace[f"{stack}.{layer}.{kind}"].weights.values[0, int(head)].double()
        entropy = -(weights * weights.clamp(min=1e-300).log2()).sum(-1).mean()
        assert float(shown) == pytest.approx(float(entropy), abs=6e-3)
        if pressed == "true":
            table = [[float(it.replace("–", "0")) for it in row[1:]] for row in rows(tab, "This head as a table")]
            np.testing.assert_allclose(table, weights, atol=7e-5)
            np.testing.assert_allclose(np.sum(table, 1), 1, atol=1e-3)


def check_search(tab: Any, explanation: Explanation, data: dict[str, Any]) -> None:
    if explanation.search is None:
        return
    searched = [it.log_probability for it in explanation.searched.nodes]
    assert [float(it[2]) for it in rows(tab, "The search as a table")] == pytest.approx(searched, abs=6e-3)


def check_layers(tab: Any, explanation: Explanation, data: dict[str, Any]) -> None:
    trace, begins = explanation.trace, data["tokens"]["begins"]
    if explanation.said:
        norms = [after for name, _, after in trace.residuals() if name.startswith("decoder")]
        assert [float(it[1]) for it in rows(tab, "Residual norms")] == pytest.approx(norms, abs=6e-4)
        lens = texts(tab, ".lens tbody tr:first-child small")
        found = [float(it.replace("★", "").split("%")[0]) / 100 for it in lens]
        best = trace["decoder"].output[0].softmax(-1).max(-1).values[begins:]
        assert found == pytest.approx(best.tolist(), rel=6e-3)
    if "why" in data:
        chosen = int(tab.locator(".answer [aria-pressed=true]").get_attribute("data-i"))
        if explanation.said:
            logit = trace["decoder.projection"].output[0, begins + chosen, explanation.said[begins + chosen]]
        elif isinstance(explanation.choice, Labels):
            logit = trace["head"].output[0, data["labels"][chosen][2]]
        else:
            logit = trace["head.projection"].output[0, explanation.forward.targets[0]]
        parts = [float(it[1]) for it in rows(tab, "All parts as a table", "#layers")]
        assert sum(parts) == pytest.approx(float(logit), abs=2e-3)


def check_words(tab: Any, explanation: Explanation, data: dict[str, Any]) -> None:
    if "words" not in data:
        return
    cells = tab.locator("#words tbody tr").evaluate_all(
        "all => all.map(it => [...it.querySelectorAll('td')].map(it => it.textContent))"
    )
    shaded = tab.locator("#words .shaded span").evaluate_all("all => all.map(it => [it.title.split(': ').pop()])")
    found = np.array([[float(it.replace("−", "-")) for it in row] for row in cells or shaded])
    np.testing.assert_allclose(found, explanation.words.falls.numpy(), atol=6e-3)


def check_spans(tab: Any, explanation: Explanation, data: dict[str, Any]) -> None:
    if "spans" not in data:
        return
    scores, allowed = explanation.trace["head"].output, [it is not None for it in explanation.in_context]
    p = scores[0].softmax(0)[[s for s, it in enumerate(allowed) if it or s == 0]]
    shown = [[float(it.rstrip("%")) / 100 for it in row[1:]] for row in rows(tab, "Start and end as a table")]
    np.testing.assert_allclose(shown, p, rtol=6e-3)
    bars = tab.locator(".ends i").evaluate_all("all => all.map(it => parseFloat(it.style.height))")
    np.testing.assert_allclose(bars, 100 * p.flatten(), rtol=1e-4)
    [best] = best_spans(scores, torch.tensor([allowed]), 6)
    named = [explanation.context[explanation.in_context[a][0] : explanation.in_context[b][1]] for _, (a, b) in best]
    found = zip(texts(tab, "#answers .choice"), texts(tab, "#answers .number"))
    found = [(name, float(it.split()[-1])) for name, it in found if name != "no answer"]
    assert [it[0] for it in found] == named[: len(found)] and len(found) >= 5
    assert [it[1] for it in found] == pytest.approx([it[0] for it in best[: len(found)]], abs=6e-3)


def check_switches(tab: Any, explanation: Explanation, data: dict[str, Any]) -> None:
    changes = {name: it["change"] for name, it in data.get("without", {}).items()}
    found = tab.locator(".switch").evaluate_all("all => all.map(it => [it.dataset.off, it.lastChild.textContent])")
    assert {name: float(it.replace("−", "-")) for name, it in found} == pytest.approx(changes, abs=6e-3)


def check_media(tab: Any, explanation: Any, data: dict[str, Any]) -> None:
    if "media" not in data:
        return
    place = explanation.main_place
    maps = [explanation.maps(place, layer)[:, 0] for layer in range(explanation.n_layers(place))]
    expected = np.vstack([explanation.rollout(place)[:1], *maps]).T
    shown = [[float(it) for it in row[1:]] for row in rows(tab, "Attention to each position as a table")]
    np.testing.assert_allclose(shown, expected, atol=7e-5)
    lost = [float(it[1]) for it in rows(tab, "What hiding each part costs")]
    assert lost == pytest.approx(explanation.occlusion.falls[0].tolist(), abs=6e-5)


CHECKS = (
    check_answer,
    check_parts,
    check_heads,
    check_search,
    check_layers,
    check_words,
    check_spans,
    check_switches,
    check_media,
)
