"""Compare decoding engines with each other and with CTranslate2, in target tokens per second.

python -m venv /tmp/peers && /tmp/peers/bin/pip install -r benchmarks/peers.txt
python benchmarks/decoding.py models/en-fr --text val.tsv --peers /tmp/peers/bin/python

Every contender is a process of its own and decodes the same token ids with the same weights. They take turns in every
cell, after a warm-up. A turn in which other programs used more than 8% of the processor is repeated, and counted as
disturbed if that doesn't help. A batch of 1 means that every sentence is decoded alone; several streams may decode
different sentences at the same time. The column "all cores" is the rate per second of the contender's own processor
time, times the cores: on a busy machine, it's a fairer measure than the clock.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CORES = len(os.sched_getaffinity(0))
CELLS = {"greedy, 1": (1, 1), "beam 4, 1": (4, 1), "greedy, 32": (1, 32), "beam 4, 32": (4, 32)}  # beam, batch
ARRANGEMENTS = {"torch": [(1, CORES)], "loops": [(CORES, 1)], "ct2": [(CORES, 1), (1, CORES)]}  # streams, threads
SHARED = 0.08  # share of the processor that others may use during a turn


# --- in the process of a contender


def ours(folder: str, engine: str, precision: str, streams: int, threads: int):
    """Return a function that decodes sentences with one of our engines."""
    import clearhead

    app = clearhead.load(folder)
    loaded = app.loaded.override({"decode.engine": engine, "train.threads": threads})
    sessions = {}

    def decode(sentences, beam, batch):
        if beam not in sessions:
            settings = {"decode.beam": beam, "decode.batch_tokens": 10**6}
            settings |= {} if precision == "fp32" else {"decode.precision": precision}
            other = loaded.override(settings)
            sessions[beam] = other.task.session(other.handle, other.config.decode)
        with ThreadPoolExecutor(streams) as pool:
            found = pool.map(
                sessions[beam].answers, [sentences[i : i + batch] for i in range(0, len(sentences), batch)]
            )
            return [(list(best.ids), len(best.token_log_probabilities)) for some in found for best, *_ in some]

    return decode


def ct2(folder: str, precision: str, streams: int, threads: int):
    """Return a function that translates sentences with CTranslate2."""
    import ctranslate2

    kind = {"fp32": "float32", "int8": "int8_float32", "bf16": "bfloat16"}[precision]
    translator = ctranslate2.Translator(folder, compute_type=kind, inter_threads=streams, intra_threads=threads)
    vocabulary = json.loads((Path(folder) / "shared_vocabulary.json").read_text(encoding="utf-8"))
    ids = {token: i for i, token in enumerate(vocabulary)}

    def decode(sentences, beam, batch):
        texts = [[vocabulary[i] for i in sentence] for sentence in sentences]
        found = translator.translate_batch(
            texts, max_batch_size=batch, beam_size=beam, length_penalty=0.6, max_decoding_length=100
        )
        return [([ids[it] for it in one.hypotheses[0]], len(one.hypotheses[0]) + 1) for one in found]

    return decode


def serve(engine: str, folder: str, precision: str, streams: int, threads: int) -> None:
    """Read jobs as lines of JSON, and answer each with the time it took, the processor time and the answers."""
    make = ct2 if engine == "ct2" else lambda folder, *rest: ours(folder, engine, *rest)
    decode = make(folder, precision, streams, threads)
    for line in sys.stdin:
        sentences, beam, batch = json.loads(line)
        used, begun = time.process_time(), time.perf_counter()
        answers = decode(sentences, beam, batch)
        took, used = time.perf_counter() - begun, time.process_time() - used
        print(json.dumps([took, used, answers]), flush=True)


# --- in the process that compares


class Contender:
    """A process that decodes, and the rates it reached in each cell."""

    def __init__(self, python: str, engine: str, folder: str, precision: str, streams: int, threads: int) -> None:
        self.name = f"{engine} {precision}"
        self.arrangement = f"{streams}x{threads}"
        command = [python, __file__, "--serve", engine, folder, precision, str(streams), str(threads)]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True, bufsize=1)
        self.rates: list[tuple[float, float]] = []  # by the clock, by the processor time
        self.answers: list[list[int]] = []
        self.disturbed = 0

    def ask(self, job: list) -> tuple[float, float, list]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} stopped")
        return tuple(json.loads(line))

    def turn(self, job: list, retries: int = 2) -> None:
        """Decode once and record the rate."""
        while True:
            before = busy()
            took, used, answers = self.ask(job)
            others = (busy() - before - used) / (took * CORES)
            if others <= SHARED or not retries:
                break
            retries -= 1
            time.sleep(0.5)
        self.disturbed += others > SHARED
        tokens = sum(n for _, n in answers)
        self.rates.append((tokens / took, tokens / used * CORES))
        self.answers = [ids for ids, _ in answers]

    def reset(self) -> None:
        self.rates, self.disturbed = [], 0


def busy() -> float:
    """Return the seconds of processor time that all programs have used so far."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, soft, steal = map(int, fields[:8])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def prepare(folder: str, text: Path, n: int, target: Path) -> tuple[list[list[int]], list[str]]:
    """Write the model in CTranslate2's form, and return the tokens of n sentences and their references."""
    import numpy as np

    import clearhead
    from clearhead.exchange.ct2 import ct2_files

    app = clearhead.load(folder)
    loaded = app.loaded
    sides = [loaded.tokenizers.source.vocabulary(), loaded.tokenizers.target.vocabulary()]
    for name, data in ct2_files(loaded.config.model, loaded.handle.weights(), sides).items():
        (target / name).write_bytes(data)
    pairs = dict(line.split("\t")[:2] for line in text.read_text(encoding="utf-8").splitlines())
    chosen = np.random.default_rng(0).permutation(len(pairs))[:n]
    sources = [list(pairs)[i] for i in chosen]
    tokens = [loaded.tokenizers.source.encode(it) for it in sources]
    order = sorted(range(n), key=lambda i: -len(tokens[i]))
    return [tokens[i] for i in order], [pairs[sources[i]] for i in order]


def bleu(folder: str, answers: list[list[int]], references: list[str]) -> float:
    import sacrebleu

    import clearhead

    texts = clearhead.load(folder).loaded.tokenizers.target.decode_batch(answers)
    return sacrebleu.corpus_bleu(texts, [references]).score


def compare(options: argparse.Namespace, folder: str) -> None:
    """Let all contenders decode in turns, and print a table."""
    with tempfile.TemporaryDirectory() as temporary:
        sentences, references = prepare(folder, options.text, options.sentences, Path(temporary))
        contenders = []
        for name in options.contenders:
            engine, _, precision = name.partition("-")
            python, where = (options.peers, temporary) if engine == "ct2" else (sys.executable, folder)
            for streams, threads in ARRANGEMENTS[engine]:
                contenders.append(Contender(python, engine, where, precision or "fp32", streams, threads))
        print(f"{folder}: {processor()}, {CORES} cores; {len(sentences)} sentences, {options.turns} turns\n")
        titles = ("cell", "contender", "streams x threads", "best", "median", "all cores, median")
        titles += ("equal to the first", "BLEU", "disturbed")
        print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
        for cell in options.cells:
            beam, batch = CELLS[cell]
            for turn in range(options.turns + 1):
                for contender in contenders:
                    contender.turn([sentences, beam, batch])
                    if turn == 0:
                        contender.reset()  # warm-up
            for it in contenders:
                equal = sum(a == b for a, b in zip(it.answers, contenders[0].answers)) / len(sentences)
                score = bleu(folder, it.answers, references)
                clock, processor_time = zip(*it.rates)
                rates = (max(clock), statistics.median(clock), statistics.median(processor_time))
                shown = " | ".join(f"{rate:,.0f}" for rate in rates)
                row = f"{cell} | {it.name} | {it.arrangement} | {shown} | {equal:.1%} | {score:.2f} | {it.disturbed}"
                print(f"| {row} |", flush=True)
                it.reset()
        for contender in contenders:
            contender.process.kill()


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown processor")


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        engine, folder, precision, streams, threads = sys.argv[2:]
        serve(engine, folder, precision, int(streams), int(threads))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="MODEL")
    parser.add_argument("--text", type=Path, required=True, help="pairs to translate, as TSV: source, reference")
    parser.add_argument("--peers", default=sys.executable, help="Python of the environment with the peers")
    parser.add_argument("--contenders", nargs="+", default=["torch", "loops", "ct2", "loops-int8", "ct2-int8"])
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    for folder in options.folders:
        compare(options, folder)


if __name__ == "__main__":
    main()
