"""Measure where the time of a decoded token goes, and what the cache of keys and values saves.

    python benchmarks/token_time.py models/en-fr
    python benchmarks/token_time.py models/en-fr --plots docs/images

Both are measured with the engine `torch`: greedily, one sentence at a time, on one thread, in processor time. The parts
are timed by hooks, which add a few percent. Without a cache, every step reads the whole answer so far again, as the
equations are written. `--plots` draws both tables.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.decode.registry import open_engine
from clearhead.decode.session import Session
from clearhead.model.transformer import evaluation
from clearhead.pictures.canvas import STRONG, WARM, drawing

EMBEDDING, SELF, CROSS, FEED_FORWARD, NORMS, PROJECTION, REST = (
    "embedding and positions", "self-attention", "cross-attention", "feed-forward", "residuals and norms",
    "projection", "encoder, search and the rest",
)  # fmt: skip
KINDS = {"embedding": EMBEDDING, "attention": SELF, "cross_attention": CROSS, "feed_forward": FEED_FORWARD,
         "projection": PROJECTION}  # fmt: skip
N_TOKENS = 32
LENGTHS = (1, 8, 16, 32, 64, 96, 128, 192, 256)  # of the answer


def part_of(name: str) -> str | None:
    """Return the part that a module of the decoder belongs to, or None if it's inside one."""
    *inside, last = name.split(".")
    if {*inside} & KINDS.keys():
        return None
    return NORMS if last.startswith("add_norm") else KINDS.get(last)


def parts(app: Any, repeats: int) -> dict[str, float]:
    """Return microseconds per token by part, of the fastest of several answers."""
    spent: dict[str, float] = defaultdict(float)
    begun: dict[str, float] = {}

    def watch(name: str, module: Any, part: str) -> list[Any]:
        def start(*_: Any) -> None:
            begun[name] = time.thread_time()

        def end(*_: Any) -> None:
            spent[part] += time.thread_time() - begun[name]

        return [module.register_forward_pre_hook(start), module.register_forward_hook(end)]

    decode, best = decoder(app), {}
    handles = []
    for name, module in app.model.decoder.named_modules():
        if part := part_of(name):
            handles += watch(name, module, part)
    for _ in range(repeats):
        spent.clear()
        start = time.thread_time()
        decode()
        total = time.thread_time() - start
        spent[NORMS] -= spent[SELF] + spent[CROSS] + spent[FEED_FORWARD]  # an AddNorm calls the layer that it adds
        if not best or total < sum(best.values()):
            best = {**spent, REST: total - sum(spent.values())}
    for handle in handles:
        handle.remove()
    order = (EMBEDDING, SELF, CROSS, FEED_FORWARD, NORMS, PROJECTION, REST)
    return {name: best[name] / N_TOKENS * 1e6 for name in order}


def decoder(app: Any) -> Callable[[], Any]:
    """Return a function that decodes one sentence to `N_TOKENS` tokens, end token included."""
    settings = {"engine": "torch", "beam": 1, "min_len": N_TOKENS - 1, "max_len": N_TOKENS - 1, "max_extra": N_TOKENS}
    loaded = app.loaded.override({f"decode.{name}": value for name, value in settings.items()})
    session = Session(open_engine(loaded.handle, loaded.config.decode), loaded.config.decode, app.task.special)
    source = [app.task.special.never_generated[-1] + 1] * 12
    return lambda: session.answers([source])


def times_by_length(app: Any, repeats: int) -> list[tuple[int, float, float]]:
    """Return the milliseconds of a token with and without a cache, by the length of the answer so far."""
    model, rows = app.model, []
    source = torch.full((1, 12), 5)
    with evaluation(model), torch.inference_mode():
        memory = model.encoder(source)
        for n in LENGTHS:
            answer, cache = torch.full((1, n), 5), model.decoder.new_cache(1, max(LENGTHS) + repeats + 1, memory=memory)
            model.decoder(answer[:, :-1], cache=cache) if n > 1 else None
            cached = fastest(lambda: model.decoder(answer[:, -1:], cache=cache), repeats)  # noqa: B023
            whole = fastest(lambda: model.decoder(answer, memory), repeats)  # noqa: B023
            rows.append((n, cached * 1e3, whole * 1e3))
    return rows


def fastest(work: Callable[[], object], repeats: int) -> float:
    """Return the least processor seconds of one call."""
    least = float("inf")
    for _ in range(repeats):
        begun = time.thread_time()
        work()
        least = min(least, time.thread_time() - begun)
    return least


def draw(spent: dict[str, float], rows: list[tuple[int, float, float]], folder: Path, name: str) -> None:
    """Draw both tables."""
    with drawing(folder / "token-time.png", again="run the script again") as figure:
        figure.set_size_inches(7.2, 2.8)
        axes = figure.subplots()
        axes.barh(list(spent), list(spent.values()), color=STRONG)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set(title=f"Time of a token of {name}, {sum(spent.values()):,.0f} µs", xlabel="microseconds")
    with drawing(folder / "cache.png", again="run the script again") as figure:
        figure.set_size_inches(7.2, 3.2)
        axes = figure.subplots()
        lengths, cached, whole = zip(*rows)
        axes.plot(lengths, whole, color=WARM, marker="o", label="every token read again")
        axes.plot(lengths, cached, color=STRONG, marker="o", label="keys and values in the cache")
        axes.set(title="Time of the next token", xlabel="tokens of the answer so far", ylabel="milliseconds")
        axes.set_ylim(bottom=0)
        axes.legend()


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of an encoder-decoder")
    parser.add_argument("--repeats", type=int, default=20, help="measurements, of which the fastest counts")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="folder for two pictures")
    options = parser.parse_args()
    app = clearhead.load(options.model, device="cpu")
    torch.set_num_threads(1)
    decoder(app)()
    spent, rows = parts(app, options.repeats), times_by_length(app, options.repeats)
    total = sum(spent.values())
    print("| part | µs per token | share |\n|---|---|---|")
    for name, value in spent.items():
        print(f"| {name} | {value:.0f} | {value / total:.0%} |")
    print("\n| tokens so far | with cache, ms | without, ms | ratio |\n|---|---|---|---|")
    for n, cached, whole in rows:
        print(f"| {n} | {cached:.2f} | {whole:.2f} | {whole / cached:.1f} |")
    if options.plots:
        draw(spent, rows, options.plots, options.model.name)


if __name__ == "__main__":
    main()
