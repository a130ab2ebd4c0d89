"""Train a classifier and a translator, and measure how well their confidence tells right answers from wrong ones.

    python benchmarks/trust.py WORK [--steps 2000] [--pairs 500]

Needs $CLEARHEAD_DATA. Models in WORK are reused. The confidence is measured on the part of the training data that's
held out, and tried on another file: half of AG News' test data, and Tatoeba's validation pairs.

The first table has the error of all answers, and that of the half with the highest confidence. For labels, the error is
the share of wrong ones; for translations, 1 - chrF. The second table ranks translations by one signal each, and the
third one their words.
"""

import argparse
import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

import clearhead
from clearhead.api import Classifier, Translator
from clearhead.inspection.record.recorder import record
from clearhead.inspection.views.alignment import alignment_layer
from clearhead.scoring.confidence import quality_of
from clearhead.scoring.summary_scores import common_subsequence
from clearhead.scoring.translation_scores import sentence_chrf
from clearhead.tokenization.tokenizer import words_of

DATA = Path(os.environ.get("CLEARHEAD_DATA", "data"))
PASSES = 8  # with dropout


def unpacked(name: str, work: Path) -> Path:
    path = work / Path(name).stem
    if not path.exists():
        path.write_bytes(lzma.decompress((DATA / name).read_bytes()))
    return path


def trained(data: Path, out: Path, options: Sequence[str]) -> Path:
    if not (out / "confidence.json").exists():
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, "-m", "clearhead", "train", str(data), "--out", str(out), *options]
        subprocess.run(command, check=True)
    return out


def halves(error: np.ndarray, signal: np.ndarray) -> tuple[float, float, float]:
    """Return the mean error, that of the half with the highest signal, and the area under the risk-coverage curve."""
    ranked = error[np.argsort(-signal, kind="stable")]
    area = float((np.cumsum(ranked) / np.arange(1, len(ranked) + 1)).mean())
    return float(error.mean()), float(ranked[: len(ranked) // 2].mean()), area


def show(name: str, error: np.ndarray, signal: np.ndarray) -> None:
    every, half, area = halves(error, signal)
    print(f"| {name} | {len(error):,} | {every:.4f} | {half:.4f} | {half / every:.2f} | {area:.4f} |", flush=True)


def confidence_of(app: Classifier | Translator, data: Path, name: str) -> None:
    judged = app.evaluate(data).judged
    found, confidence = quality_of(judged.singly()), app.confidence
    assert found is not None and confidence is not None and judged.certainty is not None
    sure = np.array([confidence(it) for it in judged.certainty.tolist()])
    show(name, 1 - found[1], judged.certainty)
    between = f"mean gap between confidence and {found[0]}, in tenths"
    print(f"|   {between}: {gap(sure, found[1]):.4f} | | | | | |", flush=True)


def gap(sure: np.ndarray, quality: np.ndarray) -> float:
    """Return the mean gap between confidence and quality, in tenths of the confidence."""
    tenths = [own for low in range(10) if (own := (10 * sure).astype(int).clip(max=9) == low).any()]
    return float(sum(own.mean() * abs(sure[own].mean() - quality[own].mean()) for own in tenths))


def signals(app: Translator, data: Path, count: int) -> None:
    """Rank translations by one signal each."""
    pairs = clearhead.read_pairs([data])
    texts, references = list(pairs.sources[:count]), [[it] for it in pairs.targets[:count]]
    found = app.results(texts, beam=4, n_best=4)
    error = 1 - np.array(sentence_chrf([it.text for it in found], references)) / 100
    means = np.array([it.log_probability / len(it.logprobs) for it in found])
    show("mean log-probability", error, means)
    show("log-probability", error, np.array([it.log_probability for it in found]))
    show("lowest log-probability of a token", error, np.array([min(it.logprobs) for it in found]))
    others = [[one.text for one in it.alternatives] or [it.text] for it in found]
    agreement = [
        float(np.mean(sentence_chrf([it.text] * len(own), [[one] for one in own]))) for it, own in zip(found, others)
    ]
    show("agreement of four beams (chrF)", error, np.array(agreement))
    answers = clearhead.read_pairs([(text, it.text or ".") for text, it in zip(texts, found)])
    show("coverage of the source by attention", error, coverage(app, answers))
    dropped = dropout(app, answers)
    show(f"mean log-probability of {PASSES} passes with dropout", error, dropped.mean(0))
    show("their agreement (- standard deviation)", error, -dropped.std(0))
    mixed = [(it - it.mean()) / it.std() for it in (means, dropped.mean(0), np.array(agreement))]
    show("mean of the first, beams and dropout, standardised", error, np.sum(mixed, axis=0))


def words_of_answers(app: Translator, data: Path) -> None:
    """Rank the words of translations by one signal each. A word is right if the reference has it, in this order."""
    held_out = app.task.hold_out(clearhead.read_pairs([data]))
    found, target = app.results(list(held_out.sources)), app.tokenizers.target
    signals: dict[str, list[float]] = {"product": [], "lowest": [], "mean": [], "product, and half the sentence": []}
    right: list[bool] = []
    for it, references in zip(found, held_out.references):
        said = it.text.split()
        common = max((common_subsequence(said, text.split()) for text in references), key=len)
        places = words_of([target.token_id(token) for token in it.tokens], target.decode)
        for number in range(len(said)):
            own = [log_p for place, log_p in zip(places, it.logprobs) if place == number]
            half = it.log_probability / len(it.logprobs) / 2
            for values, value in zip(signals.values(), (sum(own), min(own), np.mean(own), sum(own) + half)):
                values.append(float(value))
            right.append(number in common)
    ok, confidence = np.array(right), app.confidence and app.confidence.words
    print(f"\n| {len(ok):,} words ({ok.mean():.1%} right), by | area under ROC | calibration error |\n|---|---|---|")
    for name, values in signals.items():
        print(f"| {name} | {roc_area(ok, np.array(values)):.4f} | {gap(np.exp(values), ok):.4f} |", flush=True)
    sure = np.array([*map(confidence, signals["product"])])
    print(f"| confidence | {roc_area(ok, sure):.4f} | {gap(sure, ok):.4f} |", flush=True)


def roc_area(right: np.ndarray, signal: np.ndarray) -> float:
    """Return the chance that a right word has a higher signal than a wrong one. Ties count half."""
    wrong = np.sort(signal[~right])
    below = sum(np.searchsorted(wrong, signal[right], side) for side in ("left", "right"))
    return float(below.mean() / 2 / len(wrong))


def coverage(app: Translator, answers: Any) -> np.ndarray:
    """Return the mean log of the attention that each source token gets, at most 1 (Wu et al. 2016, equation 14)."""
    task, model = app.task, cast(Any, app.model)
    found, layer = [], alignment_layer(app.config.model.n_decoder_layers)
    encoded = task.scorer(answers)
    examples = task.examples((encoded.sources, encoded.targets))
    for row in range(len(examples)):
        batch = task.forcing.batch(examples, np.array([row]))
        with torch.inference_mode(), record(model, limit=None) as trace:
            task.forcing.logits(model, batch)
        weights = trace[f"decoder.{layer}.cross"].weights.values[0].mean(0)  # (T, S)
        found.append(float(weights.sum(0).clamp(1e-9, 1).log().mean()))
    return np.array(found)


def dropout(app: Translator, answers: Any) -> np.ndarray:
    """Return the mean log-probability of each answer in some passes with dropout (Fomicheva et al. 2020). (P, N)"""
    task, model, found = app.task, app.model, []
    encoded = task.scorer(answers)
    examples = task.examples((encoded.sources, encoded.targets))
    torch.manual_seed(0)
    with torch.inference_mode():
        for _ in range(PASSES):
            own = []
            for start in range(0, len(examples), 32):
                model.train()
                batch = task.forcing.batch(examples, np.arange(start, min(start + 32, len(examples))))
                log_p = task.forcing.logits(model, batch).float().log_softmax(-1)
                taken = log_p.gather(-1, batch.outputs[..., None].long())[..., 0]
                real = batch.outputs != app.config.model.pad_id
                own += ((taken * real).sum(1) / real.sum(1)).tolist()
            found.append(own)
    model.eval()
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--steps", default=2000, type=int, help="steps of the translator, a `nano`")
    parser.add_argument("--pairs", type=int, default=500, help="pairs for the second table")
    options = parser.parse_args()
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    news, pairs = unpacked("agnews/train-subset.tsv.xz", work), unpacked("tatoeba/eng-deu.train.tsv.xz", work)
    topics = clearhead.load(trained(news, work / "topics", ["--task=classify"]))
    german = clearhead.load(
        trained(pairs, work / "german", ["--preset=nano", f"--steps={options.steps}", "--threads=1"])
    )
    assert isinstance(topics, Classifier) and isinstance(german, Translator)
    valid = unpacked("tatoeba/eng-deu.val.tsv.xz", work)
    print("| answers, by confidence | count | error | most trusted half | ratio | area under risk and coverage |")
    print("|---|---|---|---|---|---|")
    confidence_of(topics, unpacked("agnews/test-public-half.tsv.xz", work), "AG News")
    confidence_of(german, valid, f"Tatoeba English-German, {options.steps:,} steps")
    print("\n| translations, by | count | error | most trusted half | ratio | area under risk and coverage |")
    print("|---|---|---|---|---|---|")
    signals(german, valid, options.pairs)
    words_of_answers(german, valid)


if __name__ == "__main__":
    main()
