"""Compare decoding engines with each other and with CTranslate2, in target tokens per second.

python -m venv /tmp/peers && /tmp/peers/bin/pip install -r benchmarks/peers.txt
python benchmarks/decoding.py models/en-fr --text val.tsv --peers /tmp/peers/bin/python
python benchmarks/decoding.py gpt2 --peers /tmp/peers/bin/python --contenders loops-int8 ct2-int8

The model `gpt2` is a decoder of GPT-2's shape with random weights. One stream continues a prompt of 32 tokens by 256.
The answers aren't compared, since a small difference changes everything after it.

Every contender is a process of its own and decodes the same token ids with the same weights. They take turns in every
cell, after a warm-up. A turn in which other programs used more than 8% of the processor is repeated, and counted as
disturbed if that doesn't help. A batch of 1 means that every sentence is decoded alone; several streams may decode
different sentences at the same time. The column "all threads" is the rate per second of the contender's own processor
time, times its threads: on a busy machine, it's a fairer measure than the clock.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CORES = len(os.sched_getaffinity(0))
CELLS = {"greedy, 1": (1, 1), "beam 4, 1": (4, 1), "greedy, 32": (1, 32), "beam 4, 32": (4, 32)}  # beam, batch
EITHER = [(CORES, 1), (1, CORES)]  # streams, threads
ARRANGEMENTS = {"torch": [(1, CORES)], "loops": EITHER, "ct2": EITHER}
ONE_STREAM = {"torch": [(1, CORES)], "loops": [(1, 1)], "ct2": [(1, 1), (1, CORES)]}
KINDS = {"fp32": "float32", "int8": "int8_float32", "bf16": "bfloat16"}  # in CTranslate2
GPT2, PROMPT, NEW = "gpt2", 32, 256
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
        batches = [sentences[i : i + batch] for i in range(0, len(sentences), batch)]
        found: list = [None] * len(batches)

        def stream(first):
            for place in range(first, len(batches), streams):
                found[place] = sessions[beam].answers(batches[place])

        with ThreadPoolExecutor(streams) as pool:
            list(pool.map(stream, range(streams)))
        return [(list(best.ids), len(best.token_log_probabilities)) for some in found for best, *_ in some]

    return decode


def gpt2():
    """Return a handle to the decoder of GPT-2's shape, equal in every process."""
    import torch

    from clearhead.config import ModelConfig
    from clearhead.decode.model_handle import as_handle
    from clearhead.model.transformer import build

    sizes = {"src_vocab_size": 50_257, "tgt_vocab_size": 50_257, "d_model": 768, "n_heads": 12, "d_ff": 3_072}
    kinds = {"positions": "learned", "feed_forward": "gelu_tanh", "pre_norm": True, "tie": "target"}
    config = ModelConfig(topology="decoder-only", n_decoder_layers=12, max_len=1_024, **sizes, **kinds)
    torch.manual_seed(0)
    module = build(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.02)
    return as_handle(module, config)


def ours_continued(engine: str, precision: str, threads: int):
    """Return a function that continues prompts of the decoder of GPT-2's shape with one of our engines."""
    import numpy as np
    import torch

    from clearhead.config import DecodeConfig
    from clearhead.decode.beams import Request
    from clearhead.decode.engine import Batch, SearchEngine
    from clearhead.decode.registry import open_engine
    from clearhead.decode.rules import Rules
    from clearhead.decode.search import beam_search

    torch.set_num_threads(threads)
    model, rules, requests = gpt2(), Rules(eos=2, beam=1), [Request(max_steps=NEW, min_len=NEW)]
    opened = open_engine(model, DecodeConfig(engine=engine, precision=precision))

    def decode(prompts, beam, batch):
        answers = []
        for prompt in prompts:
            job = Batch([prompt[:-1]], np.array(prompt[-1:]), requests, ())
            if isinstance(opened, SearchEngine):
                [[best, *_]] = opened.search(job, rules)
            else:
                with opened.prefill(job.sources, NEW) as decoding:
                    [[best, *_]] = beam_search(decoding, job.start, requests, rules)
            answers.append((list(best.ids), len(best.token_log_probabilities)))
        return answers

    return decode


def ct2_continued(folder: str, precision: str, threads: int):
    """Return a function that continues prompts of the same decoder with CTranslate2."""
    import ctranslate2

    generator = ctranslate2.Generator(folder, compute_type=KINDS[precision], inter_threads=1, intra_threads=threads)
    options = {"max_length": NEW, "min_length": NEW, "beam_size": 1, "include_prompt_in_result": False}

    def decode(prompts, beam, batch):
        found = generator.generate_batch([[str(token) for token in prompt] for prompt in prompts], **options)
        return [(one.sequences_ids[0], NEW) for one in found]

    return decode


def ct2(folder: str, precision: str, streams: int, threads: int):
    """Return a function that translates sentences with CTranslate2."""
    import ctranslate2

    kind = KINDS[precision]
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
    if Path(folder).name == GPT2:
        continued = engine == "ct2"
        decode = ct2_continued(folder, precision, threads) if continued else ours_continued(engine, precision, threads)
    else:
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
        self.engine, self.precision, self.name = engine, precision, f"{engine} {precision}"
        self.threads, self.arrangement = streams * threads, f"{streams}x{threads}"
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
        self.rates.append((tokens / took, tokens / used * self.threads))
        self.answers = [ids for ids, _ in answers]

    @property
    def medians(self) -> tuple[float, float]:
        """The median rates, by the clock and by the processor time."""
        clock, used = zip(*self.rates)
        return statistics.median(clock), statistics.median(used)

    def reset(self) -> None:
        self.rates, self.disturbed = [], 0


def busy() -> float:
    """Return the seconds of processor time that all programs have used so far."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, soft, steal = map(int, fields[:8])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def prepare_gpt2(target: Path) -> list[list[int]]:
    """Write the decoder of GPT-2's shape in CTranslate2's form, and return prompts."""
    import numpy as np

    from clearhead.exchange.ct2 import ct2_files

    model = gpt2()
    for name, data in ct2_files(model.config, model.weights(), [[str(i) for i in range(50_257)]]).items():
        (target / name).write_bytes(data)
    return np.random.default_rng(0).integers(4, 50_257, (1, PROMPT)).tolist()


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
        target = Path(temporary) / Path(folder).name
        target.mkdir()
        if folder == GPT2:
            sentences, references = prepare_gpt2(target), []
            cells, arrangements = {f"greedy, one stream, {PROMPT} + {NEW} tokens": (1, 1)}, ONE_STREAM
        else:
            sentences, references = prepare(folder, options.text, options.sentences, target)
            cells, arrangements = {cell: CELLS[cell] for cell in options.cells}, ARRANGEMENTS
        contenders = []
        for name in options.contenders:
            engine, _, precision = name.partition("-")
            python, where = (options.peers, str(target)) if engine == "ct2" else (sys.executable, folder)
            for streams, threads in arrangements[engine]:
                contenders.append(Contender(python, engine, where, precision or "fp32", streams, threads))
        print(f"{folder}: {processor()}, {CORES} cores; {len(sentences)} sentences, {options.turns} turns\n")
        titles = ("cell", "contender", "streams x threads", "best", "median", "all threads, median")
        titles += ("equal to the first", "BLEU", "disturbed")
        print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
        ratios = []
        for cell, (beam, batch) in cells.items():
            for turn in range(options.turns + 1):
                for contender in contenders:
                    contender.turn([sentences, beam, batch])
                    if turn == 0:
                        contender.reset()  # warm-up
            for it in contenders:
                equal = sum(a == b for a, b in zip(it.answers, contenders[0].answers)) / len(sentences)
                score = bleu(folder, it.answers, references) if references else 0
                compared = f"{equal:.1%} | {score:.2f}" if references else " | "
                shown = " | ".join(f"{rate:,.0f}" for rate in (max(clock for clock, _ in it.rates), *it.medians))
                print(f"| {cell} | {it.name} | {it.arrangement} | {shown} | {compared} | {it.disturbed} |", flush=True)
            ratios += [f"| {cell} | {row} |" for row in ratios_to_ct2(contenders)]
            for it in contenders:
                it.reset()
        print("\n| cell | loops / CTranslate2 | by the clock | by processor time |\n|---|---|---|---|")
        print("\n".join(ratios) + "\n", flush=True)
        for contender in contenders:
            contender.process.kill()


def ratios_to_ct2(contenders: Sequence[Contender]) -> Iterator[str]:
    """Yield, for each precision, the best rates of the loops divided by CTranslate2's, by each measure."""
    for precision in dict.fromkeys(it.precision for it in contenders):
        ours, theirs = (
            [it.medians for it in contenders if (it.engine, it.precision) == (engine, precision)]
            for engine in ("loops", "ct2")
        )
        if ours and theirs:
            ratios = [max(some) / max(others) for some, others in zip(zip(*ours), zip(*theirs))]
            yield " | ".join([precision, *(f"{it:.2f}" if it >= 1 else f"**{it:.2f}**" for it in ratios)])


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown processor")


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        engine, folder, precision, streams, threads = sys.argv[2:]
        serve(engine, folder, precision, int(streams), int(threads))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="MODEL", help=f"model folder, or {GPT2}")
    parser.add_argument("--text", type=Path, help="pairs to translate, as TSV: source, reference")
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
