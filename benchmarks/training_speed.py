"""Measure training speed next to Hugging Face's Marian and nn.Transformer, with each technique off, and by operator.

    python benchmarks/training_speed.py --preset nano base
    python benchmarks/training_speed.py --data FILE --contenders train hf-tuned hf torch-tuned torch
    python benchmarks/training_speed.py --contenders adam --ladder
    python benchmarks/training_speed.py --contenders adam --profile --plot docs/images/step-time.png

Without --data, sentences are random and have 4 to 40 tokens; padding doesn't count. The contender `train` is the whole
of `clearhead train`: it also draws its batches, and writes its log and checkpoints. Every contender has its own
process, and they take turns with batches of the same sizes, so changes in the machine's speed affect them equally.
The tables show medians over all turns, and in the last column the share of the processors that other programs took. If
it isn't small, compare tokens per second of a processor, with --threads 1.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections import defaultdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import clearhead
from clearhead.config import Config, preset
from clearhead.folder.checkpoint import RunFolder
from clearhead.model import attention, dropout
from clearhead.model.positions import sinusoid
from clearhead.model.transformer import build
from clearhead.pictures.canvas import STRONG, drawing
from clearhead.tasks.examples import Examples
from clearhead.tasks.loss import smoothed_cross_entropy
from clearhead.tasks.sequences import TeacherForcing
from clearhead.tasks.source_reader import TextReader
from clearhead.tokenization.ragged import Ragged
from clearhead.training.memory import keep_freed_memory
from clearhead.training.prepare import prepare
from clearhead.training.update import Update

VOCABULARY, BATCH = 8000, 4096  # tokens
KINDS = {  # of operators, by parts of their names; the first kind that fits counts
    "optimizer": ("adam", "_foreach", "vector_norm"),
    "matrix products": ("mm", "linear", "matmul", "conv"),
    "softmax and exp": ("softmax", "exp"),
    "layer norms": ("layer_norm",),
    "embeddings": ("embedding",),
    "random numbers": ("random_",),
    "copies and casts": ("copy", "clone", "contiguous", "cat", "zero", "fill", "aten::to", "as_strided"),
    "arithmetic": ("add", "mul", "div", "sub", "sum", "amax", "clamp", "threshold"),
}
REST = "everything else"


def sentences() -> Ragged:
    """Return random sentences whose lengths are distributed as in Tatoeba."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.gamma(3.0, 3.4, 20_000).astype(int) + 4, 4, 40)
    return Ragged([rng.integers(4, VOCABULARY, n).tolist() for n in lengths])


def settings(options: argparse.Namespace) -> Config:
    """Return the settings that a contender trains with."""
    values: dict[str, Any] = preset(options.preset) | {"model.dropout": 0.1, "train.device": "cpu", "train.seed": 0}
    values |= {"data.vocab_size": VOCABULARY, "data.batch_tokens": BATCH, "train.steps": 1_000_000}
    values |= {"train.optimizer": "muon" if options.contender == "muon" else "adam"}
    values |= {"train.precision": options.precision, "train.threads": options.threads}
    values |= {"data.train": [options.data]} if options.data else {}
    return Config().override(values)


def data(options: argparse.Namespace) -> tuple[Config, Examples]:
    """Return settings with the sizes of the vocabularies, and the examples: those of --data, or random ones."""
    config = settings(options)
    if not options.data:
        both = sentences()
        sizes = {f"model.{side}_vocab_size": VOCABULARY for side in ("src", "tgt")}
        return config.override(sizes), Examples(both, both)
    with tempfile.TemporaryDirectory() as folder, RunFolder.create(Path(folder) / "run", say=print) as run:
        prepared = prepare(run, config, say=print)
        sides = [
            Ragged([side[i] for i in range(len(side))]) for side in prepared.examples.sides
        ]  # the folder will be gone
        return prepared.config, Examples(*sides)


class Contender:
    """A model with its optimizer. `step` trains on one batch."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(options.threads)
        self.config, self.examples = data(options)
        self.batches, self.steps, self.done = self.examples.batches(BATCH).epoch(0), options.batches, 0

    def step(self, rows: np.ndarray, step: int) -> None:
        raise NotImplementedError

    def turn(self) -> tuple[int, float, float]:
        """Take the next steps. Return their target tokens, and seconds of wall clock and of the processors."""
        begun, used, tokens = time.perf_counter(), time.process_time(), 0
        for _ in range(self.steps):  # on new batches, since kernels are compiled for each shape
            rows = self.batches[self.done % len(self.batches)]
            self.done += 1
            self.step(rows, self.done)
            tokens += int(self.examples.targets.lengths[rows].sum()) - len(rows)
        return tokens, time.perf_counter() - begun, time.process_time() - used


class Clearhead(Contender):
    """The training step of `clearhead train`."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        keep_freed_memory()
        model = self.config.model
        reader = TextReader(cast(Any, None), model.max_len, model.begins, self.config)  # of tokens, not of text
        self.forcing = TeacherForcing(reader, self.config)
        self.update = Update(build(self.config.model), self.loss, self.config.train)

    def loss(self, model: nn.Module, rows: np.ndarray) -> Tensor:
        """Return the loss of copying the sentences."""
        return self.forcing.loss(model, self.examples, rows, smoothing=0.1)

    def loss_of_logits(self, model: nn.Module, rows: np.ndarray) -> Tensor:
        """Return the same loss, from the logits of the whole batch."""
        batch = self.forcing.batch(self.examples, rows)
        logits = self.forcing.logits(model, batch).flatten(0, 1)
        return smoothed_cross_entropy(logits, batch.outputs.flatten(), smoothing=0.1)

    def step(self, rows: np.ndarray, step: int) -> None:
        n_tokens = int(self.examples.targets.lengths[rows].sum()) - len(rows)
        self.update([rows], n_tokens, step=step, lr=1e-4)


class PlainLoop(Contender):
    """Another program's model in a plain training loop. Tuned, it keeps freed memory and has a fused optimizer, too."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        tuned = options.contender.endswith("tuned")
        if tuned:
            os.environ |= {"LRU_CACHE_CAPACITY": "1024", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "1024"}  # the defaults
            keep_freed_memory()
        self.model = self.build().train()
        train = self.config.train
        adam: dict[str, Any] = {"betas": train.adam[:2], "eps": train.adam[2], "lr": 1e-4}
        self.optimizer = torch.optim.Adam(self.model.parameters(), **adam, **({"fused": True} if tuned else {}))

    def build(self) -> nn.Module:
        """Return the model."""
        raise NotImplementedError

    def logits(self, sources: Tensor, inputs: Tensor) -> Tensor:
        """Return the logits of the next tokens. Padding is 0."""
        raise NotImplementedError

    def step(self, rows: np.ndarray, step: int) -> None:
        torch.manual_seed(step)
        sources, targets = (torch.from_numpy(side.padded(rows, 0)) for side in self.examples.sides)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.config.train.precision == "bf16"):
            logits, outputs = self.logits(sources, targets[:, :-1]).flatten(0, 1), targets[:, 1:].flatten()
            loss = F.cross_entropy(logits.float(), outputs, ignore_index=0, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.train.clip or 1e9)
        self.optimizer.step()
        self.optimizer.zero_grad()


class HuggingFace(PlainLoop):
    """Marian."""

    def build(self) -> nn.Module:
        """Return the model."""
        import transformers

        model = self.config.model
        sizes = {"encoder": model.n_encoder_layers, "decoder": model.n_decoder_layers}
        shape = {f"{side}_layers": n for side, n in sizes.items()}
        shape |= {f"{side}_attention_heads": model.n_heads for side in sizes}
        shape |= {f"{side}_ffn_dim": model.d_ff for side in sizes}
        shape |= {"vocab_size": VOCABULARY, "d_model": model.d_model, "max_position_embeddings": 64}
        rates = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), model.dropout)
        special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
        found = transformers.MarianConfig(**shape, **rates, **special, activation_function="relu", scale_embedding=True)
        found._attn_implementation = "eager"  # faster than the fused kernel on short sentences
        return cast(nn.Module, transformers.MarianMTModel(found))

    def logits(self, sources: Tensor, inputs: Tensor) -> Tensor:
        """Return the logits of the next tokens."""
        found = self.model(sources, attention_mask=sources != 0, decoder_input_ids=inputs, use_cache=False)
        return cast(Tensor, found.logits)


class TorchTransformer(PlainLoop):
    """nn.Transformer, with embeddings that are shared with the output projection."""

    def build(self) -> nn.Module:
        """Return the model."""
        model = self.config.model
        d_model, layers = model.d_model, (model.n_encoder_layers, model.n_decoder_layers)
        parts = {
            "embedding": nn.Embedding(model.tgt_vocab_size, d_model, padding_idx=0),
            "dropout": nn.Dropout(model.dropout),
        }
        parts["body"] = nn.Transformer(d_model, model.n_heads, *layers, model.d_ff, model.dropout, batch_first=True)
        self.table = sinusoid(64, d_model)
        return nn.ModuleDict(parts)

    def logits(self, sources: Tensor, inputs: Tensor) -> Tensor:
        """Return the logits of the next tokens."""
        parts = cast(dict[str, Any], self.model)
        source, target = (
            parts["dropout"](parts["embedding"](ids) * self.config.model.d_model**0.5 + self.table[: ids.shape[1]])
            for ids in (sources, inputs)
        )
        future, padding = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1]).isinf(), sources == 0
        masks = {"tgt_mask": future, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
        return F.linear(parts["body"](source, target, tgt_is_causal=True, **masks), parts["embedding"].weight)


CONTENDERS: dict[str, Any] = {"adam": Clearhead, "muon": Clearhead}
CONTENDERS |= {f"{name}{tuned}": kind for name, kind in (("hf", HuggingFace), ("torch", TorchTransformer))
               for tuned in ("", "-tuned")}  # fmt: skip
WHOLE = "train"

# --- the ladder: each technique switched off alone ------------------------------------------------------------------

LADDER = ("bfloat16", "kept memory", "sorted batches", "fused Adam", "cheap dropout", "loss with projection",
          "written-out attention")  # fmt: skip


def contender(options: argparse.Namespace) -> Contender:
    """Return the contender that `options` name, without one of the techniques."""
    off, these = options.without, globals()
    if off == "bfloat16":
        options.precision = "fp32"
    if off == "kept memory":
        these["keep_freed_memory"] = lambda: False
    if off == "cheap dropout":
        dropout.dropout = attention.drop = F.dropout
    found = CONTENDERS[options.contender](options)
    if not isinstance(found, Clearhead):
        return found
    if off == "sorted batches":
        rows = np.random.default_rng(1).permutation(np.concatenate(found.batches))
        found.batches = np.array_split(rows, len(found.batches))
    if off == "fused Adam":
        for group in found.update.optimizer.param_groups:
            group["fused"], group["foreach"] = False, True
    if off == "loss with projection":
        found.loss = found.loss_of_logits  # type: ignore[method-assign]
        found.update = Update(found.update.model, found.loss, found.config.train)
    if off == "written-out attention":
        for part in found.update.model.modules():
            if isinstance(part, attention.Attend):
                part.fused_from = 0
    return found


# --- processes that take turns --------------------------------------------------------------------------------------


def work(options: argparse.Namespace, connection: Connection) -> None:
    """Take a turn for each message, and answer with its result."""
    if options.contender == WHOLE:
        work_in_run(options, connection)
    else:
        own = contender(options)
        while connection.recv():
            connection.send(own.turn())


def work_in_run(options: argparse.Namespace, connection: Connection) -> None:
    """Do the same from inside `clearhead.train`, after every few steps. The first turn begins with the second step."""
    seconds, used, tokens = 0.0, 0.0, 0

    def on_step(record: dict[str, Any]) -> None:
        nonlocal seconds, used, tokens
        tokens += record["tokens"]
        if (record["step"] - 1) % options.batches:
            return
        if record["step"] > 1:
            connection.send((tokens, time.perf_counter() - seconds, time.process_time() - used))
        if not connection.recv():
            raise SystemExit
        seconds, used, tokens = time.perf_counter(), time.process_time(), 0

    with tempfile.TemporaryDirectory() as folder:
        clearhead.train(settings(options), Path(folder) / "run", say=print, on_step=on_step)


def busy() -> float:
    """Return the seconds that all processors have worked since the machine started."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def race(entries: dict[str, argparse.Namespace], turns: int) -> None:
    """Let all entries take turns, and print a table."""
    context, lines, results = multiprocessing.get_context("spawn"), {}, defaultdict(list)
    workers = []
    for name, options in entries.items():
        lines[name], there = context.Pipe()
        workers.append(context.Process(target=work, args=(options, there), daemon=True))
        workers[-1].start()
        there.close()  # so that the end of a process ends the race
    for turn in range(turns + 1):
        for name, line in lines.items():
            begun = busy()
            line.send(True)
            tokens, seconds, used = line.recv()
            others = (busy() - begun - used) / (seconds * (os.cpu_count() or 1))
            if turn:  # the first one warms up
                results[name].append((tokens / seconds, tokens / used, max(others, 0.0)))
    for line in lines.values():
        line.send(False)
    for worker in workers:
        worker.join()
    first = [*zip(*next(iter(results.values())))]
    print(
        "| | target tokens/s | of the first | per second of a processor | of the first | others |\n" + "|---" * 6 + "|"
    )
    for name, result in results.items():
        columns = [*zip(*result)]
        rate, per_processor, others = map(statistics.median, columns)
        ratios = [statistics.median(a / b for a, b in zip(*it)) for it in zip(columns[:2], first)]
        print(f"| {name} | {rate:,.0f} | {ratios[0]:.2f} | {per_processor:,.0f} | {ratios[1]:.2f} | {others:.0%} |")


# --- operators ------------------------------------------------------------------------------------------------------


class Operators(TorchDispatchMode):
    """Adds up calls and processor seconds of operators by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)

    def __torch_dispatch__(self, operator: Any, _types: Any, args: Any = (), options: Any = None) -> Any:
        begun = time.thread_time()
        found = operator(*args, **(options or {}))
        name = str(operator)
        kind = next((kind for kind, words in KINDS.items() if any(word in name for word in words)), REST)
        self.seconds[kind] += time.thread_time() - begun
        self.calls[kind] += 1
        return found


def profile(options: argparse.Namespace) -> dict[str, float]:
    """Print a step's time by kind of operator, on one thread, and return the milliseconds."""
    own = contender(options)
    own.turn()
    steps, own.done = options.turns * own.steps, 0
    whole = sum(own.turn()[2] for _ in range(options.turns))
    own.done = 0
    with Operators() as found:
        for _ in range(options.turns):
            own.turn()
    found.seconds[REST] += max(whole - sum(found.seconds.values()), 0.0)  # between operators
    spent = sorted(((kind, seconds * 1000 / steps) for kind, seconds in found.seconds.items()), key=lambda it: -it[1])
    print("| operators | calls per step | ms per step | share |\n|---|---|---|---|")
    for kind, value in spent:
        print(f"| {kind} | {found.calls[kind] / steps:,.0f} | {value:.1f} | {value / sum(it for _, it in spent):.0%} |")
    return dict(spent)


def draw(shares: dict[str, float], path: Path, title: str) -> None:
    """Draw the table of operators."""
    with drawing(path, again="run the script again") as figure:
        figure.set_size_inches(7.2, 2.8)
        axes = figure.subplots()
        axes.barh(list(shares), list(shares.values()), color=STRONG)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set(title=title, xlabel="milliseconds")


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", nargs="+", default=["nano"])
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument(
        "--data", metavar="FILE", help="pairs to learn to translate (default: random sentences to copy)"
    )
    parser.add_argument("--contenders", nargs="+", choices=[*CONTENDERS, WHOLE], default=list(CONTENDERS))
    parser.add_argument("--ladder", action="store_true", help="also run the first contender without each technique")
    parser.add_argument("--profile", action="store_true", help="measure operators of the first contender instead")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the operators")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--batches", type=int, default=6, help="steps of a turn")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if WHOLE in options.contenders and not options.data:
        parser.error("the contender train needs --data")
    if options.profile:
        options.threads = 1
    for name, value in {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "10000"}.items():  # as the command line does
        os.environ.setdefault(name, value)
    for name in options.preset:

        def entry(contender: str, without: str = "", name: str = name) -> argparse.Namespace:
            return argparse.Namespace(**vars(options) | {"preset": name, "contender": contender, "without": without})

        print(f"\n{name}, {options.precision}, {options.threads} threads\n")
        if options.profile:
            shares = profile(entry(options.contenders[0]))
            if options.plot:
                draw(shares, options.plot, f"Time of a step of {name}, {sum(shares.values()):,.0f} ms")
            continue
        entries = {it: entry(it) for it in options.contenders}
        if options.ladder:
            entries |= {f"without {it}": entry(options.contenders[0], it) for it in LADDER}
        race(entries, options.turns)


if __name__ == "__main__":
    main()
