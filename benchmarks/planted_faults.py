"""Plant faults in clean data, run `clearhead check`, and print recall and precision for each kind.

    python benchmarks/planted_faults.py $CLEARHEAD_DATA
    python benchmarks/planted_faults.py $CLEARHEAD_DATA --seeds 11 12 13 --pair deu
    python benchmarks/planted_faults.py $CLEARHEAD_DATA --train FOLDER --seeds 41 42 43 [--times 3]

Clean data has faults and duplicates of its own, so precision is given twice: counting only planted lines as right, and
counting what the clean file already reports, too. `--train` trains a model on the clean and the faulty file, and what
`clearhead check` keeps of both, with and without `--repair`, and prints their BLEU on the validation data and the
differences from the faulty file. It keeps files and logs in the folder, and continues with what's missing.
"""

import argparse
import json
import lzma
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

Pairs = list[tuple[str, str]]
N = 20_000
FLIPPED = 0.05
ARMS = {  # the file that is checked, if any, and options
    "clean": ("clean",),
    "clean, checked": ("clean", "--out"),
    "faulty": ("faulty",),
    "faulty, checked": ("faulty", "--out"),
    "faulty, repaired": ("faulty", "--repair", "--out"),
}
TRAINING = [
    *("--preset", "nano", "--steps", "1000", "--threads", "1", "--train.eval_every=1000"),
    *("--train.eval_sentences=1502", "--train.precision=bf16", "--data.vocab_size=4000"),
]


def lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Return the lines of an xz file."""
    return lzma.decompress(path.read_bytes()).decode(encoding).rstrip("\n").split("\n")


def tatoeba(data: Path, language: str, n: int, seed: int) -> Pairs:
    """Return a random sample of sentence pairs."""
    rows = [line.split("\t")[:2] for line in lines(data / "tatoeba" / f"eng-{language}.train.tsv.xz")]
    return [(source, target) for source, target in random.Random(seed).sample(rows, n)]


def edited(text: str, draw: random.Random) -> str:
    """Return a text with a small change that keeps its meaning, or a typing error."""
    words, at = text.split(" "), draw.randrange(1, max(2, len(text) - 2))
    ways = [
        text.lower() if text.lower() != text else f"{text} .",
        text.rstrip(".!? ") + draw.choice(["", " .", "!!", "..."]),
        text[:at] + text[at - 1 :],
        text[:at] + text[at : at + 2][::-1] + text[at + 2 :],
    ]
    if len(words) > 4:
        dropped = draw.randrange(1, len(words))
        ways.append(" ".join(words[:dropped] + words[dropped + 1 :]))
    return draw.choice(ways)


def mojibake(text: str, draw: random.Random) -> str:
    """Return UTF-8 read as another encoding."""
    try:
        return text.encode().decode(draw.choice(["cp1252", "latin-1"]))
    except UnicodeDecodeError:
        return text.encode().decode("latin-1")


def plant(pairs: Pairs, foreign: list[str], seed: int, times: float = 1) -> tuple[Pairs, dict[int, str]]:
    """Return pairs with planted faults, `times` as many as usual, and the kind of each faulty line, from 1."""
    draw, faulty, kinds, free = random.Random(seed), [*pairs], dict[int, str](), {*range(len(pairs))}

    def take(share: float, usable: Callable[[int], bool] = lambda _: True) -> list[int]:
        chosen = draw.sample([it for it in sorted(free) if usable(it)], round(times * share * len(pairs)))
        free.difference_update(chosen)
        return chosen

    def put(place: int, kind: str, pair: tuple[str, str]) -> None:
        faulty[place], kinds[place + 1] = pair, kind

    left = round(times * 0.02 * len(pairs))
    while left >= 5:
        size = min(left, draw.randint(5, 40))
        first, step = draw.randrange(len(pairs) - size), draw.choice([1, 1, 1, 2, -1])
        block = range(first, first + size)
        if free.issuperset(block):
            free.difference_update(block)
            for place in block:
                of = first + (place - first + step) % size
                put(place, "shifted", (pairs[place][0], pairs[of][1]))
            left -= size
    for place in take(0.01):
        put(place, "swapped", pairs[place][::-1])
    for place in take(0.01):
        put(place, "copied", (pairs[place][draw.random() < 0.3],) * 2)
    for place, stranger in zip(take(0.01), foreign):
        put(place, "language", (pairs[place][0], stranger))
    for place in take(0.005, lambda it: not pairs[it][1].isascii()):
        put(place, "encoding", (pairs[place][0], mojibake(pairs[place][1], draw)))
    for place in take(0.01, lambda it: it > len(pairs) // 50):
        of = draw.choice([it for it in draw.sample(range(place), min(place, 40)) if it in free])
        way = draw.randrange(3)
        source, target = (text if way == side else edited(text, draw) for side, text in enumerate(pairs[of]))
        put(place, "duplicate", (source, target))
    return faulty, kinds


def flipped(rows: Pairs, seed: int) -> tuple[Pairs, dict[int, str]]:
    """Return labelled texts with some labels replaced by others, and the lines of these, from 1."""
    draw, names = random.Random(seed), sorted({label for _, label in rows})
    places = {*draw.sample(range(len(rows)), round(FLIPPED * len(rows)))}
    new = [
        (text, draw.choice([it for it in names if it != label]) if place in places else label)
        for place, (text, label) in enumerate(rows)
    ]
    return new, {place + 1: "label" for place in places}


def labelled(data: Path) -> dict[str, Pairs]:
    """Return TREC and AG News: texts with their labels."""
    trec = lines(data / "trec" / "train.txt.xz", "latin-1")
    news = lines(data / "agnews" / "train-subset.tsv.xz")
    questions = [line.split(" ", 1) for line in trec]
    return {
        "trec": [(text, label.split(":")[0]) for label, text in questions],
        "agnews": [(text, label) for label, text in (line.split("\t", 1) for line in news)],
    }


def check(path: Path, *options: str) -> tuple[set[tuple[int, str]], float]:
    """Run the check in a process of its own. Return (line, kind) of each finding, and the seconds that it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "clearhead", "check", str(path), "--json", *options]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {(it["line"], it["kind"]) for it in found["findings"]}, time.monotonic() - began


def write(path: Path, rows: Pairs) -> Path:
    path.write_text("".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    return path


def compare(name: str, clean: Path, faulty: Path, kinds: dict[int, str], *options: str) -> None:
    """Print a row for each kind."""
    (before, _), (found, seconds) = check(clean, *options), check(faulty, *options)
    for kind in dict.fromkeys(kinds.values()):
        planted = {line for line, it in kinds.items() if it == kind}
        old, new = ({line for line, it in findings if it == kind} for findings in (before, found))
        recall, precision, with_old = (
            len(it) / max(1, len(of))
            for it, of in ((new & planted, planted), (new & planted, new), (new & (planted | old), new))
        )
        counts = f"{name:10} {kind:10} {len(planted):5} {len(new):5}"
        print(f"{counts} {recall:8.3f} {precision:9.3f} {with_old:9.3f} {len(old):6}")
    print(f"{name:10} {seconds:.0f} s")


def trained(path: Path, valid: Path, seed: int) -> float:
    """Return the BLEU of a model trained on a file. The log next to the file says whether it's known already."""
    log = path.with_suffix(".log")
    if not log.exists() or "validation: BLEU" not in log.read_text(encoding="utf-8"):
        command = [sys.executable, "-m", "clearhead", "train", str(path), "--valid", str(valid), *TRAINING]
        with tempfile.TemporaryDirectory() as folder, log.open("w", encoding="utf-8") as file:
            command += [f"--train.seed={seed}", "--out", f"{folder}/model"]
            subprocess.run(command, check=True, stdout=file, stderr=subprocess.STDOUT)
    return float(re.findall(r"validation: BLEU ([\d.]+)", log.read_text(encoding="utf-8"))[-1])


def gain(options: argparse.Namespace) -> None:
    """Print the scores of each seed, and the mean differences from the faulty file with their standard errors."""
    folder, scores = options.train, dict[str, list[float]]((arm, []) for arm in ARMS)
    folder.mkdir(exist_ok=True)
    held_out = [line.split("\t")[:2] for line in lines(options.data / "tatoeba" / f"eng-{options.pair}.val.tsv.xz")]
    valid = write(folder / "valid.tsv", [(source, target) for source, target in held_out])
    for seed in options.seeds:
        rows = tatoeba(options.data, options.pair, N, seed)
        other = tatoeba(options.data, {"fra": "deu", "deu": "fra"}[options.pair], N // 20, seed)
        faulty, _ = plant(rows, [target for _, target in other], seed, options.times)
        of = {
            name: write(folder / f"{name}-{options.times:g}-{seed}.tsv", it)
            for name, it in (("clean", rows), ("faulty", faulty))
        }
        for arm, (name, *how) in ARMS.items():
            path = folder / f"{arm.replace(', ', '-')}-{options.times:g}-{seed}.tsv"
            if how and not path.exists():
                check(of[name], *how, str(path))
            scores[arm].append(trained(path, valid, seed))
            print(f"seed {seed}  {arm:17} {scores[arm][-1]:.2f}", flush=True)
    for arm, each in scores.items():
        differences = [one - other for one, other in zip(each, scores["faulty"])]
        error = statistics.stdev(differences) / len(each) ** 0.5 if len(each) > 1 else float("nan")
        print(f"{arm:17} {statistics.mean(each):.2f}  {statistics.mean(differences):+.2f} ± {error:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12])
    parser.add_argument("--pair", choices=("fra", "deu"), default="fra")
    parser.add_argument("--train", type=Path, metavar="FOLDER")
    parser.add_argument("--times", type=float, default=1, help="how many times as many faults, with --train")
    options = parser.parse_args()
    if options.train:
        gain(options)
        return
    folder = Path(tempfile.mkdtemp())
    print("data       kind      planted found   recall precision with clean's  clean")
    for seed in options.seeds:
        rows = tatoeba(options.data, options.pair, N, seed)
        other = tatoeba(options.data, {"fra": "deu", "deu": "fra"}[options.pair], N // 50, seed)
        faulty, kinds = plant(rows, [target for _, target in other], seed)
        paths = write(folder / "clean.tsv", rows), write(folder / "faulty.tsv", faulty)
        compare(f"{options.pair} {seed}", *paths, kinds)
        for name, texts in labelled(options.data).items():
            flips, kinds = flipped(texts, seed)
            paths = write(folder / f"{name}.tsv", texts), write(folder / f"{name}-flipped.tsv", flips)
            compare(f"{name} {seed}", *paths, kinds, "--task", "classify", "--text", "1", "--label", "2")


if __name__ == "__main__":
    main()
