"""Write what is learnt from, questions of QAMR, of PolicyQA and of SQuAD's articles 1 to 20, into OUT/train, and what
is scored on, its articles 21 to 24, to OUT/squad-21-24.json.

    python benchmarks/questions.py $CLEARHEAD_DATA --out runs/questions
    clearhead train runs/questions/train --task answer --out runs/answers
    clearhead evaluate runs/answers --data runs/questions/squad-21-24.json
"""

import argparse
import json
import lzma
import shutil
from pathlib import Path

FIRST = 20  # articles to learn from


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with the data sets")
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
