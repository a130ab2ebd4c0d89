"""Time a file of sentences from pressing return to the last line, against CTranslate2 with the same model.

T=$CLEARHEAD_DATA/tatoeba/eng-fra.train.tsv.xz
clearhead train $T --preset small --budget 10m --data.vocab_size 8000 --out models/small
python benchmarks/whole_file.py models/small --text $T

Each contender is a command that reads lines from standard input and writes their translations: `clearhead translate`
with beam 4, and a script with CTranslate2 and the `tokenizers` library, in several settings. They take turns, after a
warm-up that also compiles and converts. The time of CTranslate2 is that of its fastest setting. `--peers` names the
Python of another environment for it.
"""

import argparse
import json
import lzma
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
BATCHES = {"32 sentences": (32, "examples"), "128 sentences": (128, "examples"), "2,048 tokens": (2048, "tokens")}


def ct2(folder: str, precision: str, size: int, unit: str) -> None:
    """Translate the lines of standard input with CTranslate2. One batch per core is decoded at a time."""
    import ctranslate2
    import tokenizers

    path = Path(folder)
    source = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
    other = path / "target_tokenizer.json"
    target = tokenizers.Tokenizer.from_file(str(other)) if other.exists() else source
    kind = {"fp32": "float32", "int8": "int8_float32"}[precision]
    translator = ctranslate2.Translator(folder, compute_type=kind, inter_threads=CORES, intra_threads=1)
    lines = sys.stdin.read().splitlines()
    tokens = [it.tokens for it in source.encode_batch(lines, add_special_tokens=False)]
    found = translator.translate_batch(
        tokens, max_batch_size=size, batch_type=unit, beam_size=4, length_penalty=0.6, max_decoding_length=100
    )
    ids = [[target.token_to_id(it) for it in one.hypotheses[0]] for one in found]
    sys.stdout.write("".join(f"{text}\n" for text in target.decode_batch(ids)))


def sentences(path: Path, n: int) -> tuple[list[str], list[str]]:
    """Return n distinct sources at random, and one reference for each."""
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        pairs = dict(line.rstrip("\n").split("\t")[:2] for line in file)
    sources = list(pairs)
    chosen = np.random.default_rng(0).permutation(len(sources))[:n]
    return [sources[i] for i in chosen], [pairs[sources[i]] for i in chosen]


def turn(command: list[str], text: Path) -> tuple[float, float, list[str]]:
    """Run a command, and return its time, its processor time and the lines it wrote."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with text.open("rb") as file:
        done = subprocess.run(command, stdin=file, stdout=subprocess.PIPE, check=True)
    took, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, used, done.stdout.decode().splitlines()


def commands(options: argparse.Namespace, converted: str) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "clearhead", "translate", options.folder, "--beam", "4", "--engine", options.engine]
    found = {f"clearhead --engine {options.engine}": ours}
    for name, (size, unit) in BATCHES.items():
        script = [options.peers, __file__, "--ct2", converted, options.precision, str(size), unit]
        found[f"CTranslate2 {options.precision}, batches of {name}"] = script
    return found


def prepare(options: argparse.Namespace, converted: str) -> None:
    """Convert the model, compile our engine if there is a compiler, and say which one will be chosen."""
    clearhead = [sys.executable, "-m", "clearhead"]
    export = [*clearhead, "export", options.folder, "--to", "ct2", "--out", converted]
    subprocess.run([*export, "--precision", options.precision], check=True)
    subprocess.run([*clearhead, "translate", options.folder, "a", "--engine", "loops"], stdout=subprocess.DEVNULL)
    info = subprocess.run([*clearhead, "info", options.folder, "--json"], capture_output=True, check=True)
    print(f"auto chooses {json.loads(info.stdout)['engine']}")


def compare(options: argparse.Namespace) -> None:
    """Let all contenders translate the file in turns, and print a table."""
    import sacrebleu

    sources, references = sentences(options.text, options.sentences)
    with tempfile.TemporaryDirectory() as temporary:
        text = Path(temporary) / "text"
        text.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        prepare(options, converted := str(Path(temporary) / "ct2"))
        contenders = commands(options, converted)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        answers: dict[str, list[str]] = {}
        for number in range(options.turns + 1):
            for name, command in contenders.items():
                took, used, answers[name] = turn(command, text)
                times[name] += [(took, used)] if number else []
    print(f"{options.folder}: {len(sources):,} sentences, {CORES} cores, {options.turns} turns\n")
    titles = ("contender", "best s", "median s", "median processor s", "lines equal to the first", "BLEU")
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    first, *others = contenders
    for name, each in times.items():
        clock, processor = zip(*each)
        equal = np.mean([a == b for a, b in zip(answers[name], answers[first])])
        score = sacrebleu.corpus_bleu(answers[name], [references]).score
        rates = f"{min(clock):.2f} | {statistics.median(clock):.2f} | {statistics.median(processor):.2f}"
        print(f"| {name} | {rates} | {equal:.1%} | {score:.2f} |")
    medians = {name: [statistics.median(it) for it in zip(*each)] for name, each in times.items()}
    fastest = min(others, key=lambda name: medians[name][0])
    clock, processor = (theirs / ours for theirs, ours in zip(medians[fastest], medians[first]))
    print(f"\nspeed of clearhead by that of {fastest}: {clock:.2f} by the clock, {processor:.2f} by processor time")


def main() -> None:
    if sys.argv[1:2] == ["--ct2"]:
        folder, precision, size, unit = sys.argv[2:]
        ct2(folder, precision, int(size), unit)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="MODEL")
    parser.add_argument("--text", type=Path, required=True, help="pairs to translate, as TSV: source, reference")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "int8"], help="of CTranslate2")
    parser.add_argument("--peers", default=sys.executable, help="Python of the environment with CTranslate2")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=3)
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
