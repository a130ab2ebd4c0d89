"""Prepare the data of the question-answering benchmark.

    python benchmarks/questions.py $CLEARHEAD_DATA --out runs/questions
    clearhead train runs/questions/train --task answer --out runs/answers
    clearhead evaluate runs/answers --data runs/questions/squad-21-24.json

Training questions come from QAMR, PolicyQA and articles 1 to 20 of SQuAD. Articles 21 to 24 are kept for scoring.
"""

import argparse
import json
import lzma
import shutil
from pathlib import Path

FIRST = 20  # number of articles for training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    training = options.out / "train"
    training.mkdir(parents=True, exist_ok=True)
    with lzma.open(options.data / "squad" / "dev-v1.1.articles-01-24.json.xz") as file:
        squad = json.load(file)
    parts = {training / "squad.json": squad["data"][:FIRST], options.out / "squad-21-24.json": squad["data"][FIRST:]}
    for path, part in parts.items():
        path.write_text(json.dumps(squad | {"data": part}, ensure_ascii=False), "utf-8")
        questions = sum(len(paragraph["qas"]) for article in part for paragraph in article["paragraphs"])
        print(f"{path}: {len(part)} articles, {questions:,} questions")
    shutil.copy(options.data / "policyqa" / "dev-as-train.json.xz", training / "policyqa.json.xz")
    for name in ("dev-as-train.tsv.xz", "dev-as-train.sentences.tsv.xz"):
        shutil.copy(options.data / "qamr" / name, training / f"qamr-{name}")


if __name__ == "__main__":
    main()
