"""Time the first and the second call with a list of sentences in one process, against CTranslate2.

python benchmarks/second_call.py runs/demo --text pairs.tsv

Tokenisation and detokenisation are part of a call, loading the model isn't. Each turn is a process of its own, and the
contenders take turns. CTranslate2 decodes with one thread for each core, and counts with its best batch size.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from whole_file import BATCHES, CORES, sentences

CLEARHEAD = "clearhead"


def with_clearhead(folder: str, beam: int) -> Callable[[Sequence[str]], object]:
    from clearhead.api import load

    app = load(folder)
    return lambda lines: app(lines, beam=beam)


def with_ct2(folder: str, beam: int, size: int, unit: str) -> Callable[[Sequence[str]], object]:
    import ctranslate2
    import tokenizers

    source = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    other = Path(folder) / "target_tokenizer.json"
    target = tokenizers.Tokenizer.from_file(str(other)) if other.exists() else source
    translator = ctranslate2.Translator(folder, compute_type="float32", inter_threads=CORES, intra_threads=1)
    settings = {"beam_size": beam, "length_penalty": 0.6, "max_decoding_length": 100}

    def translate(lines: Sequence[str]) -> object:
        tokens = [it.tokens for it in source.encode_batch(lines, add_special_tokens=False)]
        found = translator.translate_batch(tokens, max_batch_size=size, batch_type=unit, **settings)
        return target.decode_batch([[target.token_to_id(it) for it in one.hypotheses[0]] for one in found])

    return translate


def turn(folder: str, text: str, beam: str, batches: str) -> None:
    """Print the times of two calls, as JSON."""
    lines, times = Path(text).read_text(encoding="utf-8").splitlines(), []
    call = with_ct2(folder, int(beam), *BATCHES[batches]) if batches else with_clearhead(folder, int(beam))
    for _ in range(2):
        begun = time.perf_counter()
        call(lines)
        times.append(time.perf_counter() - begun)
    print(json.dumps(times))


def compare(options: argparse.Namespace) -> None:
    """Let all contenders take turns, and print a table of medians."""
    lines, _ = sentences(options.text, options.sentences)
    with tempfile.TemporaryDirectory() as temporary:
        text, converted = Path(temporary) / "text", f"{temporary}/ct2"
        text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        export = ["export", options.folder, "--to", "ct2", "--out", converted]
        for command in (export, ["env", "--prepare"]):
            subprocess.run([sys.executable, "-m", CLEARHEAD, *command], check=True, stdout=subprocess.DEVNULL)
        print(f"{options.folder}: {len(lines):,} sentences, {CORES} cores, median of {options.turns} turns\n")
        print("| beam | contender | first call, s | second call, s | ratio of the second |\n|---|---|---|---|---|")
        for beam in (1, 4):
            times: dict[str, list[list[float]]] = {batches: [] for batches in ("", *BATCHES)}
            for _ in range(options.turns):
                for batches, found in times.items():
                    folder = converted if batches else options.folder
                    command = [sys.executable, __file__, "--turn", folder, str(text), str(beam), batches]
                    found.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
            medians = {name: [statistics.median(it) for it in zip(*found)] for name, found in times.items()}
            for name, (first, second) in medians.items():
                title = f"CTranslate2 fp32, batches of {name}" if name else CLEARHEAD
                print(f"| {beam} | {title} | {first:.3f} | {second:.3f} | {second / medians[''][1]:.2f} |")


def main() -> None:
    if sys.argv[1:2] == ["--turn"]:
        turn(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="MODEL")
    parser.add_argument("--text", type=Path, required=True, help="pairs to translate, as TSV: source, reference")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=7)
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
