"""The guided tour answers ten questions about each kind of model: each answer is on the screen at its stop."""

from typing import Any

import numpy as np
import pytest

from clearhead.inspection.views.explanation import Explanation

from .conftest import explained, opened
from .shown_numbers import probabilities
from .test_page_data import numbers

# What can be read on the screen: texts inside the window that nothing clips or hides.
ON_SCREEN = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  const range = document.createRange();
  while (walker.nextNode()) {
    const own = walker.currentNode.parentElement;
    range.selectNodeContents(walker.currentNode);
    const {top, bottom, height} = range.getBoundingClientRect();
    if (height && top >= 0 && bottom <= innerHeight && own.checkVisibility() && !own.closest("script")) {
      found.push(walker.currentNode.textContent);
    }
  }
  return found.join("").replaceAll("−", "-").replace(/\\s+/g, " ");
}"""


def percent(p: Any) -> str:
    """A probability as the page writes it."""
    return f"{100 * float(p):#.3g}%"


def walked(tab: Any) -> dict[str, str]:
    """Take the tour. Returns, for each stop's text, all that is on the screen there."""
    tab.get_by_role("button", name="Take the tour").click()
    box, found = tab.get_by_role("region", name="Tour"), dict[str, str]()
    while box.is_visible():
        found[box.locator("p").inner_text().replace("−", "-")] = tab.evaluate(ON_SCREEN)
        tab.get_by_role("button", name="Finish" if "Finish" in box.inner_text() else "Next").click()
    return found


def names_of(data: dict[str, Any], key: str) -> list[str]:
    """The names of tokens on the page."""
    shown = {"end": "■ end", "start": "start", "unknown": "‹unk›"}
    return [it.get("written") or shown.get(it["kind"], it["text"].removeprefix("▁")) for it in data["tokens"][key]]


def part_title(name: str, *, short: bool = False) -> str:
    """The name of a part in words."""
    stack, layer, kind, *head = name.split(".")
    if short:
        word = {"self": "Self", "cross": "Cross", "feed_forward": "Feed-forward"}.get(kind)
        return f"{word} {int(layer) + 1}" + (f" · head {int(head[1]) + 1}" if head else "")
    masked = "Masked self-attention" if stack == "decoder" else "Self-attention"
    word = {"self": masked, "cross": "Cross-attention", "feed_forward": "Feed-forward"}[kind]
    return f"{word}, {stack} layer {int(layer) + 1}" + (f", head {int(head[1]) + 1}" if head else "")


def heads_of(explanation: Explanation) -> list[tuple[float, str]]:
    """The entropy and the name of each head."""
    found = []
    for name, calls in explanation.trace.calls.items():
        stack, layer, kind = name.split(".")
        weights = calls[-1].weights.values[0].double()
        entropy = -(weights * weights.clamp(min=1e-300).log2()).sum(-1).mean(-1)
        place = f"{stack.capitalize()}, {kind} layer {int(layer) + 1}"
        found += [(float(it), f"{place}, head {head + 1}") for head, it in enumerate(entropy)]
    return found


def questions(kind: str, explanation: Explanation, data: dict[str, Any], t: int) -> dict[str, list[str]]:
    """The questions, each with the view of its stop and what has to be on the screen there."""
    trace, writes = explanation.trace, bool(explanation.said)
    p, begins = probabilities(explanation, data).flatten().tolist(), data["tokens"]["begins"]
    names = names_of(data, "outputs")[begins:] if writes else [it[0] for it in data.get("labels", [])] or [data["text"]]
    least, answer = int(np.argmin(p)) if writes else 0, names[t]
    falls = explanation.words.falls[:, min(t, explanation.words.falls.size(1) - 1)]
    hidden = int(falls.argmax())
    read = names_of(data, "decoder" if kind == "generate" else "encoder")
    change, needed = min((it["change"], name) for name, it in data["without"].items())
    entropy, sharpest = min(heads_of(explanation))
    found = {
        "Which token is the answer, or its least certain one, and how likely is it?": [
            "Your input",
            names[least],
            percent(p[least]),
        ],
        "Through how many steps does it go?": ["Flow", f"{len(data['parts']) + 1} steps lead from your input"],
        "How many parameters are there?": [
            "Flow",
            f"{sum(it.numel() for it in explanation.model.parameters()):,} parameters",
        ],
        "Which head is the sharpest?": ["Attention", f"The sharpest is {sharpest}"],
        "How sharp is it?": ["Attention", f"an entropy of {entropy:.2f} bits"],
        "Which word matters most?": ["Words", f"Without {read[hidden]}, the probability of"],
        "How likely would the answer be without that word?": [
            "Words",
            f"goes from {percent(p[t])} to {percent(p[t] * float((-falls[hidden]).exp()))}",
        ],
        "Which part does the answer need most?": ["Heads off", f"this one most: {part_title(needed)}. Without it"],
        "How far does the log-probability change without it?": ["Heads off", f"changes by {change:+.2f}"],
    }
    if writes:
        cross = kind == "translate"
        name = f"decoder.{explanation.alignment_layer}.cross" if cross else list(trace.calls)[-1]
        looked = trace[name].weights.values[0, :, begins + t].mean(0)
        keys = names_of(data, "encoder" if cross else "decoder")
        logits = trace["decoder"].output[0, begins + t].log_softmax(-1)
        said = explanation.said[begins + t]
        other = max((float(it), i) for i, it in enumerate(logits) if i != said)
        greedy = explained(kind, **{"decode.beam": 1})[0].answer
        greedy = "the same" if greedy == data["text"] else greedy
        [next_best] = explanation.choice.pieces([other[1]])
        next_best = next_best.removeprefix("▁").replace("</s>", "■ end")
        source = keys[int(looked.argmax())]
        rank = explanation.lens.layers[0].ranks[begins + t] + 1
        ordinal = f"{rank}{'th' if 10 < rank % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(rank % 10, 'th')}"
        found |= {
            "Which word did it look at most?": ["Your input", f"looked most at {source} ({percent(looked.max())}"],
            "What would beam 1 have said?": ["Decoding", "With one beam, the answer would be", greedy],
            "What was the next best token?": ["Decoding", f"{answer} is {next_best}, at {percent(np.exp(other[0]))}"],
            "Which rank did the input give it?": ["Layers", f"{answer} would rank {ordinal} of {data['vocabulary']}"],
        }  # fmt: skip
    elif kind == "classify":
        found["What was the second choice, and how likely?"] = [
            "Your input",
            f"second choice was {names[1]}, at {percent(p[1])}",
        ]
    else:
        best = max(data["spans"]["best"], key=lambda it: it["logp"]) if "best" in data.get("spans", {}) else None
        found["Which of all answers is the most likely?"] = [
            "Answers",
            best["name"] if best else "is the most likely, at",
        ]
    if "why" in data:
        row = begins + t if writes else 0
        ids = [it[2] for it in (data["labels"] if "labels" in data else data["alternatives"][row])]
        column = ids.index(explanation.said[row] if writes else data["labels"][t][2])
        values = numbers(data["why"]["parts"], "<f4")[:, row, column]
        most = int(np.abs(values).argmax())
        part = data["why"]["names"][most]
        shown = part_title(part, short=True) if part.split(".")[1].isdigit() else ""
        found["Which part contributes most?"] = [
            "Layers",
            f"{shown} contributes most to {answer}: {values[most]:+.2f} to its logit",
        ]
    return found


@pytest.mark.parametrize("kind", ["translate", "generate", "classify", "answer"])
def test_the_tour_answers_ten_questions(kind: str, pages: Any, tab: Any) -> None:
    path, explanation, data = pages(kind)
    t = 1 if explanation.said else 0
    opened(tab, path, f"t={t}")
    stops, asked = walked(tab), questions(kind, explanation, data, t)
    assert len(asked) >= 10 and 8 <= len(stops) <= 12
    for question, (view, *answers) in asked.items():
        screens = [screen for told, screen in stops.items() if told.startswith(view)]
        assert any(all(it in screen for it in answers) for screen in screens), (question, answers, screens)
