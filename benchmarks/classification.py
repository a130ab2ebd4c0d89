"""Compare Clearhead, with and without a warm start, with TF-IDF plus logistic regression on the same splits.

    python benchmarks/classification.py $CLEARHEAD_DATA --sets sst2 trec agnews polarity --warm

Data sets without a test set (TREC and sentence polarity) use five-fold cross-validation, so every text is scored once.
`p` comes from a paired bootstrap against TF-IDF over the scored texts. The script needs
`pip install '.[sklearn]'`. To change a setting, add it as in `--set train.epochs=10`.
"""

import argparse
import csv
import lzma
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import clearhead
from clearhead.api import Classifier
from clearhead.scoring.bootstrap import compare_means
from clearhead.training.warm_start import OF_WARM_START

Texts = list[tuple[str, str]]  # (text, label)
FOLDS = 5


def lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Return the lines of an xz file."""
    return lzma.open(path, "rt", encoding=encoding).read().splitlines()


def sst2(data: Path) -> Iterator[tuple[Texts, Texts]]:
    """Yield SST-2: phrases of film reviews for training, whole sentences for scoring, good or bad."""

    def read(name: str) -> Texts:
        rows = (line.rsplit("\t", 1) for line in lines(data / "sst2" / name)[1:])
        return [(text, label) for text, label in rows]

    yield read("train.tsv.xz"), read("glue-dev.tsv.xz")


def agnews(data: Path) -> Iterator[tuple[Texts, Texts]]:
    """Yield AG News: world, sports, business or science."""

    def read(name: str) -> Texts:
        rows = (line.split("\t", 1) for line in lines(data / "agnews" / name))
        return [(text, label) for label, text in rows]

    yield read("train-subset.tsv.xz"), read("test-public-half.tsv.xz")


def trec(data: Path) -> Iterator[tuple[Texts, Texts]]:
    """Yield the folds of TREC: questions by the kind of answer they expect."""
    rows = (line.split(" ", 1) for line in lines(data / "trec" / "train.txt.xz", "latin-1"))
    yield from folds([(text, label.split(":")[0]) for label, text in rows])


def polarity(data: Path) -> Iterator[tuple[Texts, Texts]]:
    """Yield the folds of sentence polarity: sentences of film reviews, good or bad."""
    found = []
    with zipfile.ZipFile(data / "pang-lee" / "sentence_polarity.zip") as packed:
        for label in ("neg", "pos"):
            text = packed.read(f"sentence_polarity/rt-polarity.{label}").decode("latin-1")
            found += [(line, label) for line in text.split("\n") if line.strip()]
    yield from folds(found)


def folds(texts: Texts) -> Iterator[tuple[Texts, Texts]]:
    """Split texts for cross-validation, always in the same way."""
    order = np.random.default_rng(0).permutation(len(texts))
    for k in range(FOLDS):
        held_out = order[k::FOLDS]
        rest = np.setdiff1d(order, held_out)
        yield [texts[i] for i in rest], [texts[i] for i in held_out]


def by_words(training: Texts, held_out: Texts) -> list[str]:
    """Predict labels with TF-IDF over words and word pairs, plus logistic regression."""
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    model = make_pipeline(words, LogisticRegression(C=10, max_iter=1000))
    model.fit([text for text, _ in training], [label for _, label in training])
    return [str(label) for label in model.predict([text for text, _ in held_out])]


def by_model(training: Texts, held_out: Texts, settings: dict[str, str]) -> list[str]:
    """Predict labels with a model that is trained as `clearhead train` would."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.tsv"
        with file.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, delimiter="\t").writerows([("text", "label"), *training])
        config = clearhead.Config().override({"train.task": "classify", "data.train": (str(file),), **settings})
        clearhead.train(config, Path(folder) / "model", say=lambda _: None)
        return cast(Classifier, clearhead.load(Path(folder) / "model"))([text for text, _ in held_out])


def main() -> None:
    sets = {it.__name__: it for it in (sst2, trec, agnews, polarity)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--sets", nargs="+", choices=sets, default=[*sets])
    parser.add_argument("--warm", action="store_true", help="also train with a warm start")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="training setting; may be repeated"
    )
    parser.add_argument("--folds", type=int, default=FOLDS, help="number of folds to run (default: all five)")
    options = parser.parse_args()
    settings = dict(it.split("=", 1) for it in options.set)
    alone = {name: value for name, value in settings.items() if name not in (*OF_WARM_START, "data.texts")}
    contenders = {"scratch": alone} | ({"warm": settings | {"train.warm_start": "denoise"}} if options.warm else {})
    print(f"{'set':10}{'':10}{'accuracy':>10}{'difference':>12}{'p':>8}{'seconds':>10}   texts", flush=True)
    for name in options.sets:
        right: dict[str, list[bool]] = {it: [] for it in ("tf-idf", *contenders)}
        seconds = dict.fromkeys(right, 0.0)
        for _, (training, held_out) in zip(range(options.folds), sets[name](options.data)):
            truth = [label for _, label in held_out]
            for who in right:
                begun = time.perf_counter()
                if who in contenders:
                    found = by_model(training, held_out, contenders[who])
                else:
                    found = by_words(training, held_out)
                seconds[who] += time.perf_counter() - begun
                right[who] += [a == b for a, b in zip(found, truth)]
        compared = compare_means([(who, np.array(each, np.float64)) for who, each in right.items()])
        for it in compared:
            difference = "" if it.p_value is None else f"{100 * (it.score - compared[0].score):+12.2f}{it.p_value:8.3f}"
            taken = f"{seconds[it.system]:10.0f}   {len(right[it.system]):,}"
            print(f"{name:10}{it.system:10}{100 * it.score:10.2f}{difference:20}{taken}", flush=True)


if __name__ == "__main__":
    main()
