"""Measure a model in a page: the size of the file, its agreement with `translate`, and the time of an answer.

    python benchmarks/page_model.py runs/demo runs/demo/phrasebook/held-out.tsv

Headless Chromium runs the page's own scripts on the first sentences of a file. The time of an answer is that of the
search and of one pass over its result. "Shown" is the time from pressing Enter until the page is drawn, "complete"
until it has also measured the words that mattered and the answer without each part. All times but that of opening
the page are medians.
"""

import argparse
import json
import re
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

import clearhead
from clearhead.exchange.page.page_file import SCRIPTS
from clearhead.exchange.targets import export
from clearhead.inspection.page.document import joined_scripts

LAB = f"{joined_scripts('embedded/answer', SCRIPTS)}\nglobalThis.Session = embedded_session_js.Session;"
ANSWERS = """async ([about, weights, beam, texts, shown]) => {
  about.decode.beam = beam;
  const session = new Session(about, weights), found = [];
  for (const text of texts) {
    const start = performance.now(), it = await session.answer(text), taken = performance.now() - start;
    const logits = found.length < shown ? Array.from(it.watch.parts.get("decoder.projection").output.data) : null;
    found.push({text: session.text(text, it, it.best.ids), logits, taken});
  }
  return found;
}"""
SHOWN = """text => new Promise(done => {
  const form = document.querySelector(".asking"), start = performance.now();
  let shown = 0;
  const watch = new MutationObserver(() => {
    const now = performance.now() - start, drawn = document.querySelector(".answer");
    if (!shown && drawn) requestAnimationFrame(() => { shown ||= performance.now() - start; });
    if (!shown || form.getAttribute("aria-busy") === "true") return;
    watch.disconnect();
    done([shown, now]);
  });
  watch.observe(document.body, {childList: true, attributes: true, subtree: true});
  form.querySelector("textarea").value = text;
  form.requestSubmit();
})"""


def contents(page: Path) -> list[Any]:
    """Return all that a page knows about its model, and the weights."""
    blocks = dict(re.findall(r'<script type="[^"]*" id="(\w+)">([^<]*)', page.read_text(encoding="utf-8")))
    return [json.loads(blocks["data"]), blocks["weights"]]


def measure(app: Any, browser: Any, page: Path, texts: list[str], shown: int) -> str:
    """Return a row of the table for one page."""
    expected, lab, model = app(texts), browser.new_page(), contents(page)
    lab.add_script_tag(content=LAB, type="module")
    lab.wait_for_function("Boolean(globalThis.Session)")
    found = {beam: lab.evaluate(ANSWERS, [*model, beam, texts, shown]) for beam in (1, app.config.decode.beam)}
    searched = found[app.config.decode.beam]
    equal = sum(it["text"] == text for it, text in zip(searched, expected))
    apart = 0.0
    for text, it in zip(texts[:shown], searched):
        logits = app.explain(text).trace["decoder.projection"].output[0].numpy().ravel()
        if len(logits) == len(it["logits"]):
            apart = max(apart, float(np.abs(logits - it["logits"]).max()))
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(f"file://{page}")
    opens = tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    seen = [tab.evaluate(SHOWN, text) for text in texts[:shown]]
    times = [statistics.median(it["taken"] for it in some) for some in found.values()]
    times += [statistics.median(column) for column in zip(*seen)] + [opens]
    size = page.stat().st_size / 1e6
    cells = [f"{size:.1f} MB", f"{equal} of {len(texts)}", f"{apart:.1e}", *(f"{it:.0f} ms" for it in times)]
    return " | ".join(cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="sentences, one a line, up to the first tab")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--shown", type=int, default=50, help="sentences to draw, and to compare the logits of")
    options = parser.parse_args()
    lines = options.data.read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0] for line in lines][: options.sentences]
    app = clearhead.load(options.model, device="cpu")
    print("| weights | file | texts equal | logits differ by | beam 1 | model's beam | shown | complete | opens |")
    print("|---|---|---|---|---|---|---|---|---|")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for precision in ("fp32", "int8"):
            page = Path(folder) / f"{precision}.html"
            export(app.loaded, "page", page, precision=precision)
            print(f"| {precision} | {measure(app, browser, page, texts, options.shown)} |", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
