"""Long and hostile texts on the page, and a page that asks a server."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.inspection.page.document import (
    bits_array,
    bytes_array,
    float_array,
    page_document,
    served_document,
    weights_array,
)

from .conftest import ask, opened

PIECES = [
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "</script>",
    "<!--",
    "]]>",
    "&amp;",
]
PIECES += ["\u202e", "\u2066", "\u200b", "\u200d", "\ud800", "\udfff", "שלום", "مرحبا", "Z" + "\u0301" * 40]
PIECES += [
    "javascript:window.hit=1",
    "${window.hit = 1}",
    "`",
    "\u2028",
    "\x00",
    "'\"><b>",
    "\U0001f9d1\u200d\U0001f680",
]
PIECES += ["W" * 300, "\n", ""]


def hostile(n: int) -> list[str]:
    dice = random.Random(0)
    return ["".join(dice.choices(PIECES, k=dice.randint(1, 3))) for _ in range(n)]


def recorded(n: int, t: int, layers: int, heads: int, width: int = 16) -> dict[str, Any]:
    """Attention of random heads, of which the first is a diagonal."""
    dice, found = np.random.default_rng(0), dict[str, Any]()
    for layer in range(layers):
        for name, rows, columns in (("encoder.{}.self", n, n), ("decoder.{}.self", t, t), ("decoder.{}.cross", t, n)):
            weights = dice.dirichlet(np.full(columns, 0.1), (heads, rows))
            weights[0] = np.eye(rows, columns)
            found[name.format(layer)] = {
                "weights": weights_array(weights),
                "entropy": [1.0] * heads,
                "q": bytes_array(dice.normal(size=(heads, rows, width))),
                "k": bytes_array(dice.normal(size=(heads, columns, width))),
                "lse": float_array(np.ones((heads, rows))),
                **({"mask": bits_array(np.tri(t, dtype=bool))} if name == "decoder.{}.self" else {}),
            }
    return found


def synthetic(sources: list[str], answers: list[str], layers: int = 0, heads: int = 8) -> dict[str, Any]:
    """The data of a page that no model made."""
    n, t, size = len(sources), len(answers), 50
    off = [
        f"{it}.{layer}.self.head.{h}" for it in ("encoder", "decoder") for layer in range(layers) for h in range(heads)
    ]
    model = {"name": sources[0], "layers": {"encoder": layers, "decoder": layers}, "heads": heads, "d_model": 64}
    part = {"name": "encoder.embedding", "stack": "encoder", "shape": [1, n, 64], "class": "A", "code": "def forward"}
    falls = float_array(np.random.default_rng(1).normal(size=(n, t)))
    said = [{"text": it, "id": i % size, "kind": "text"} for i, it in enumerate(answers)]
    return {
        "format_version": 1,
        "kind": "page",
        "task": "translate",
        "command": answers[0],
        "source": " ".join(sources),
        "text": " ".join(answers),
        "prefix": [],
        "off": [],
        "model": model | {"d_head": 8, "d_ff": 128, "pre_norm": False, "parameters": 1234},
        "tokens": {
            "encoder": [{"text": it, "id": 9, "kind": "text"} for it in sources],
            "decoder": said,
            "outputs": said,
            "begins": 0,
        },
        "logprobs": [-0.5] * t,
        "vocabulary": size,
        "alternatives": [[[it, -0.5, i % size], [sources[i % n], -2.0, 1]] for i, it in enumerate(answers)],
        "parts": [part | {"parameters": 5, "milliseconds": 0.1, "values": [[0.5] * 8], "inputs": []}],
        "without": {it: {"logprobs": [-1.0] * t, "change": -0.5, "text": answers[-1], "score": -1.0} for it in off},
        "words": {"whole": float_array(np.ones(t)), "nothing": float_array(np.zeros(t)), "error": 0.0}
        | {"falls": falls, "gradients": falls},
        "attention": recorded(n, t, layers, heads),
        "alignment_layer": max(0, layers - 1),
        "left_out": [{"what": sources[0], "why": answers[0]}],
    }


def written(path: Path, data: dict[str, Any]) -> Path:
    path.write_text(page_document(data), encoding="utf-8")
    return path


def test_a_thousand_hostile_texts_are_only_texts(tab: Any, tmp_path: Path) -> None:
    texts = hostile(1000)
    opened(tab, written(tmp_path / "page.html", synthetic(texts[:700], texts[700:])))
    assert tab.evaluate("window.hit") is None and tab.locator("img, iframe, object, b b").count() == 0
    assert tab.evaluate("[document.scripts.length, document.documentElement.scrollWidth]") == [0, 1280]
    shown = tab.locator(".source .token").all_text_contents()
    assert len(shown) == 700
    for text, found in zip(texts, shown):
        expected = "".join(it if not "\ud800" <= it <= "\udfff" else f"\ufffd{ord(it):x}" for it in text) or "\u2423"
        assert found == expected
    ask(tab, "touch")
    assert tab.evaluate("window.hit") is None


def test_ten_thousand_tokens_are_shown(tab: Any, tmp_path: Path) -> None:
    opened(tab, written(tmp_path / "page.html", synthetic([f"t{n}" for n in range(10_000)], ["a", "b"])))
    assert tab.locator(".source .token").count() == 10_000
    assert tab.evaluate("document.documentElement.scrollWidth") == 1280


def spent_by(meter: Any) -> float:
    """Seconds that the page's thread was busy."""
    metrics = meter.send("Performance.getMetrics")["metrics"]
    return next(it["value"] for it in metrics if it["name"] == "TaskDuration")


def test_a_long_text_through_many_heads_stays_fast(tab: Any, tmp_path: Path) -> None:
    data = synthetic([f"s{n}" for n in range(60)], [f"t{n}" for n in range(60)], layers=6)
    meter = tab.context.new_cdp_session(tab)
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = spent_by(meter)
    tab.goto(f"file://{written(tmp_path / 'page.html', data)}")
    assert 0 < spent_by(meter) - before < 2  # until it's ready
    ask(tab, "show")
    times = ask(tab, "times")
    assert max(times.values()) < 50, times
    share = """it => {
      const {width, height} = it, pixels = it.getContext("2d").getImageData(0, 0, width, height).data;
      const lit = [...Array(width).keys()].filter(n => pixels[4 * (width * Math.min(height - 1, n) + n)] < 60);
      return lit.length / width;
    }"""
    assert tab.locator(".mini[data-h='0'] canvas").first.evaluate(share) > 0.9  # the diagonal is there at every pixel
    assert tab.locator(".mini[data-h='0'] canvas").first.bounding_box()["width"] > 60  # more than a pixel a cell
    assert tab.locator(".ribbon").count() == 0  # they would cross words
    assert tab.locator(".matrix .mark").bounding_box()["width"] == 60 * 14  # the row that is chosen, as a whole
    for box, *labels in ((".matrix .scroll", ".across", ".down"), ("#words .scroll", "thead th", "tbody th")):
        moved = tab.locator(box).evaluate("it => { it.scrollTo(100, 100); return [it.scrollLeft, it.scrollTop]; }")
        assert moved == [100, 100]
        edges = tab.locator(box).bounding_box(), *(tab.locator(f"{box} {it}").last.bounding_box() for it in labels)
        assert (
            abs(edges[1]["y"] - edges[0]["y"]) <= 1 and abs(edges[2]["x"] - edges[0]["x"]) <= 4
        )  # labels stay in sight
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.locator("nav.more").wait_for()  # more views than fit
    tab.locator("nav").evaluate("it => it.scrollTo(999, 0)")
    tab.locator("nav:not(.more)").wait_for()


def test_the_views_off_the_screen_follow_a_choice(tab: Any, tmp_path: Path) -> None:
    tab.goto(f"file://{written(tmp_path / 'page.html', synthetic(['a', 'b'], ['c', 'd', 'e'], layers=2))}")
    tab.locator(".answer .token").nth(1).click()
    assert tab.locator(".card h2").text_content() == "d"
    tab.wait_for_function("document.querySelector('#words thead .column')?.textContent === 'd'")


NOTE_DRAFTS = """() => {
  window.drafts = [];
  const note = () => window.drafts.push(document.querySelector(".draft")?.textContent);
  new MutationObserver(note).observe(document.querySelector(".status"), {childList: true});
}"""


def test_a_served_page_asks_its_server(pages: Any, tab: Any) -> None:
    asked, drafts, data = list[dict[str, Any]](), list[tuple[str, Any]](), pages("translate")[2]

    def answer(route: Any) -> None:
        if route.request.method != "POST":
            model = {"name": "models/a", "task": "translate", "reads": "text"}
            return route.fulfill(body=served_document([model]), content_type="text/html")
        if not route.request.url.endswith("/page"):
            drafts.append((route.request.url.rpartition("/")[2], route.request.post_data_json))
            pieces = [{"index": 0, "piece": it} for it in ("Elle", " <b>", "chante.")]
            return route.fulfill(body="".join(f"data: {json.dumps(it)}\n\n" for it in pieces))
        asked.append(route.request.post_data_json)
        if asked[-1]["text"] == "wrong":
            return route.fulfill(json={"error": {"message": "the text is blank"}})
        return route.fulfill(json=data | {"off": asked[-1]["off"], "prefix": asked[-1]["prefix"]})

    tab.route("http://page.test/**", answer)
    tab.goto("http://page.test/")
    tab.evaluate(NOTE_DRAFTS)
    tab.locator("textarea").first.fill("She sings.")
    tab.keyboard.press("Enter")
    tab.locator("#heads .switch").first.wait_for()
    assert asked[-1] == {"model": "models/a", "text": "She sings.", "context": "", "prefix": [], "off": []}
    assert drafts == [("translate", {"model": "models/a", "text": "She sings.", "stream": True})]
    assert "Elle <b>chante." in tab.evaluate("window.drafts")
    tab.locator(".answer .token").nth(1).click()
    tab.locator(".choice").first.click()
    tab.locator(".asking[aria-busy=false]").wait_for()
    first, second = (it["id"] for it in data["tokens"]["outputs"][:2])
    assert asked[-1]["prefix"] == [first, next(i for *_, i in data["alternatives"][1] if i != second)]
    tab.go_back()
    tab.wait_for_url(lambda url: "beam=" not in url)
    tab.locator(".asking[aria-busy=false]").wait_for()
    names = list(data["without"])[:2]
    for name in names:
        tab.locator(f"[data-off='{name}']").click()
        tab.locator(f"[data-off='{name}'][aria-pressed=true]").wait_for()
        tab.locator(".asking[aria-busy=false]").wait_for()
    assert asked[-1]["off"] == names and asked[-1]["prefix"] == []
    tab.locator("textarea").first.fill("wrong")
    tab.keyboard.press("Enter")
    tab.locator(".status.wrong").wait_for()
    assert "the text is blank" in tab.locator(".status").inner_text()
    assert tab.locator("#heads .switch").count() == len(data["without"])


def test_a_notebook_shows_the_page_in_a_frame(pages: Any, tab: Any, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><body>{pages('translate')[1]._repr_html_()}</body>", encoding="utf-8")
    tab.goto(f"file://{path}")
    inside = tab.frame_locator("iframe")
    inside.locator(".answer .token").nth(2).click()
    assert inside.locator(".card .who").inner_text().startswith("Answer token 3 of")
