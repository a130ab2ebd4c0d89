"""Measure the page of a `base` model (6 + 6 layers, 8 heads, d_model 512, random weights): a click and a playing Flow.

    python benchmarks/page_frames.py

Headless Chromium opens the page of a text of 60 tokens with its answer of 60. A click chooses a word; its time is that
from the click until after the next frame, by `performance.now`. Then Flow plays for some seconds, and the times between
frames are those of `requestAnimationFrame`.
"""

import argparse
import random
import shutil
import statistics
import tempfile
from pathlib import Path

import torch
from playwright.sync_api import sync_playwright

from clearhead.config import Config
from clearhead.inspection.page.document import page_document
from clearhead.inspection.page.page_data import page_data
from clearhead.model.transformer import build
from clearhead.tasks.registry import task_named, task_of
from clearhead.tokenization.source_and_target import train_tokenizers

SHAPE = {"model.d_model": 512, "model.n_heads": 8, "model.d_ff": 2048, "model.max_len": 200}
SHAPE |= {"model.n_encoder_layers": 6, "model.n_decoder_layers": 6, "data.tokenizer": "word", "train.device": "cpu"}
AFTER = "const it = new MessageChannel(); it.port1.onmessage = done; it.port2.postMessage(0);"
CLICKS = f"""async n => {{
  const next = () => new Promise(done => requestAnimationFrame(() => {{ {AFTER} }})), found = [];
  const tokens = document.querySelectorAll(".answer .token");
  for (let i = 0; i < n; i++) {{
    await new Promise(done => setTimeout(done, 300));
    const start = performance.now();
    tokens[(7 * i + 3) % tokens.length].click();
    await next();
    found.push(performance.now() - start);
  }}
  return found;
}}"""
PLAY = """seconds => new Promise(done => {
  const found = [];
  let before = 0;
  document.querySelector("#flow .play").click();
  requestAnimationFrame(function frame(now) {
    if (before) found.push(now - before);
    before = now;
    if (found.reduce((a, b) => a + b, 0) < 1000 * seconds) requestAnimationFrame(frame); else done(found);
  });
})"""


def page(tokens: int) -> str:
    """Return the page of a text of some tokens."""
    words = [f"w{n}" for n in range(tokens)]
    lengths = {"decode.max_len": tokens, "decode.min_len": tokens - 1}
    config = Config().assign(
        {**task_named("translate").required, **SHAPE, **lengths, "train.task": "translate"}, "model"
    )
    tokenizers = train_tokenizers([" ".join(words)], [" ".join(words)], config.data)
    sizes = {"model.src_vocab_size": tokenizers.source.vocab_size, "model.tgt_vocab_size": tokenizers.target.vocab_size}
    config = config.assign(sizes, "model")
    torch.manual_seed(0)
    random.Random(0).shuffle(words)
    found = task_of(config)(tokenizers, config).explain(build(config.model).eval(), " ".join(words[1:]), config.decode)
    return page_document(page_data(found, config, name="base"))


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--clicks", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=15, help="how long Flow plays")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page(options.tokens), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for width in (1280, 390):
            tab = browser.new_page(viewport={"width": width, "height": 900})
            tab.goto(f"file://{path}")
            times = tab.evaluate(CLICKS, options.clicks)
            print(f"{width} px: a click takes {statistics.median(times):.0f} ms (median), {max(times):.0f} ms at most")
            frames = tab.evaluate(PLAY, options.seconds)
            late = sum(it > 1000 / 60 * 1.5 for it in frames)
            print(f"{width} px: {1000 / statistics.mean(frames):.1f} frames a second, {late} of {len(frames)} late")
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()
