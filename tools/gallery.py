"""Train small models and write the pages of the gallery, docs/gallery/*.html. Run `make gallery`.

Models that runs/gallery already contains aren't trained again. All takes about fifteen minutes on two idle cores.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from clearhead import Config, train
from clearhead.demo.phrasebook import everyday, split
from clearhead.demo.phrasebook_demo import REPEATS, SETTINGS

ROOT = Path(__file__).parent.parent
PAGES, MODELS = ROOT / "docs" / "gallery", ROOT / "runs" / "gallery"
_SMALL = ["--model.d_model=64", "--model.n_heads=4", "--model.d_ff=128", "--train.precision=fp32", "--data.split=0.01"]
_ENCODER = [*_SMALL, "--model.n_encoder_layers=2", "--model.n_decoder_layers=0"]
_PEOPLE, _PLACES = ("Ann", "Bob", "Carol", "Dan", "Eva", "Frank"), ("Rome", "Oslo", "New York", "Cape Town", "Paris")
_VERBS, _TIMES = {"fly": "flew", "walk": "walked", "drive": "drove"}, ("June", "May", "March", "August")


def clearhead(*arguments: str) -> None:
    """Run the command line of this checkout in the folder of the models, so that pages show short paths."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}"}
    subprocess.run([sys.executable, "-m", "clearhead", *arguments], cwd=MODELS, env=environment, check=True)


def make() -> None:
    """Train the models that are missing, and write all pages."""
    MODELS.mkdir(parents=True, exist_ok=True)
    phrases = [*split()[0], *everyday() * REPEATS]
    random.Random(0).shuffle(phrases)
    sentences = [it.english for it in phrases]
    texts = {
        "translation.tsv": (f"{it.english}\t{it.french}" for it in phrases),
        "language.txt": sentences,
        "labels.tsv": map(_labelled, sentences),
        "answers.json": [json.dumps(_questions())],
    }
    for name, lines in texts.items():
        (MODELS / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if not (MODELS / "translation").exists():  # the demo's, but smaller, since its page contains it
        values = {**SETTINGS, "model.d_model": 80, "model.d_ff": 160, "data.train": (f"{MODELS / 'translation.tsv'}",)}
        train(Config().override({**values, "data.split": 0.01}), MODELS / "translation")
    for name, demo in {"image": "see", "sound": "hear"}.items():
        if not (MODELS / name).exists():
            clearhead("demo", demo, "--out", name)
    _train(
        "language.txt",
        "generate",
        *_SMALL,
        "--model.n_decoder_layers=2",
        "--model.d_model=48",
        "--data.vocab_size=1000",
        "--train.steps=1500",
    )
    _train("labels.tsv", "classify", *_ENCODER, "--data.vocab_size=1500", "--train.steps=600")
    _train("answers.json", "answer", *_ENCODER, "--data.tokenizer=word", "--train.steps=1500")
    for name in ("translation", "language"):  # these pages contain the model, and answer any text
        page = PAGES / f"{name}.html"
        page.unlink(missing_ok=True)
        clearhead("export", name, "--to", "page", "--precision", "int8", "--out", f"{page}")
    _explain("labels", "does the old woman want to buy a small car")
    (MODELS / "story.txt").write_text("Ann flew to Rome in June. Bob walked to New York in May.\n", encoding="utf-8")
    _explain("answers", "Where did Bob walk?", "--context", "story.txt")
    _explain("image", "image/images/held-out.npy#0")
    _explain("sound", "sound/keys/held-out-20dB/0005.wav")
    _photograph()


def _photograph() -> None:
    """Take a picture of the upper half of each page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 800}, device_scale_factor=0.5)
        for page in sorted(PAGES.glob("*.html")):
            tab.goto(f"{page.as_uri()}{'#q=The+old+woman' * (page.stem == 'language')}")
            tab.wait_for_timeout(3000)  # until everything is drawn
            tab.screenshot(path=page.with_suffix(".jpg"), type="jpeg", quality=75)


def _train(data: str, task: str, *settings: str) -> None:
    name = Path(data).stem
    if not (MODELS / name).exists():
        clearhead("train", data, "--task", task, "--out", name, *settings)


def _explain(name: str, *given: str) -> None:
    clearhead("explain", name, *given, "--html", f"{PAGES / name}.html")


def _labelled(sentence: str) -> str:
    """Return a sentence without capital and mark, and its kind: only the order of words tells a question."""
    kind = "question" if sentence.endswith("?") else "denial" if re.search(r"\bnot\b|n't\b", sentence) else "statement"
    return f"{sentence[0].lower()}{sentence[1:].rstrip('.?!')}\t{kind}"


def _questions(n: int = 4000) -> dict[str, object]:
    """Return questions about two journeys each, in the format of SQuAD."""
    dice = random.Random(0)
    return {"version": "1.1", "data": [{"title": f"{it}", "paragraphs": [_journeys(dice, it)]} for it in range(n)]}


def _journeys(dice: random.Random, number: int) -> dict[str, object]:
    choices: Iterable[tuple[str, str, str, str]] = zip(
        dice.sample(_PEOPLE, 2), dice.sample([*_VERBS], 2), dice.sample(_PLACES, 2), dice.sample(_TIMES, 2)
    )
    told, asked = "", list[tuple[str, int, str]]()  # each question, with the place of its answer and the answer
    for who, verb, place, time in choices:
        begin = len(told) + bool(told)
        told = f"{told} {who} {_VERBS[verb]} to {place} in {time}.".strip()
        place_at, time_at = told.index(place, begin), told.index(time, begin)
        asked += [(f"Where did {who} {verb}?", place_at, place), (f"When did {who} {verb}?", time_at, time)]
        asked += [(f"Who {_VERBS[verb]}?", told.index(who, begin), who)]
    answers = [
        {"id": f"{number}-{n}", "question": question, "answers": [{"text": text, "answer_start": at}]}
        for n, (question, at, text) in enumerate(asked)
    ]
    return {"context": told, "qas": answers}


if __name__ == "__main__":
    make()
