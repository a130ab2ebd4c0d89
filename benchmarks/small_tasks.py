"""Train small encoders on synthetic tasks to compare numbers of heads and position schemes.

    python benchmarks/small_tasks.py heads --seeds 2
    python benchmarks/small_tasks.py positions

`heads`: each token must predict the pair of its neighbours, the left one first, so it needs to look at two places at
once. All models have one layer and the same number of parameters; only the number of heads differs.

`positions`: each token must predict the token three places earlier (`back`) or the one at the mirrored position
(`reverse`). The models train on texts of 16 tokens and are tested on texts of 16 and of 32. The table shows the mean
over seeds.

Every batch is drawn at random, so the models can't memorise anything. On one core, a seed takes about 10 seconds for
`heads` and 40 for `positions`.
"""

import argparse
from collections.abc import Callable, Iterator
from statistics import mean

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.model.positions import POSITIONS, Positions
from clearhead.model.transformer import EncoderModel, build, evaluation

LETTERS = 8  # tokens 1 to 8; 0 is padding
Task = Callable[[Tensor], tuple[Tensor, Tensor]]  # (B, S) -> answers (B, S), and which positions have one (B, S)


def neighbours(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the left and right neighbours of each token, as one of 64 pairs (tokens 9 to 72)."""
    left, right = tokens.roll(1, 1), tokens.roll(-1, 1)
    asked = torch.ones_like(tokens, dtype=torch.bool)
    asked[:, [0, -1]] = False
    return LETTERS * left + right, asked


def back(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the token three places earlier."""
    asked = torch.ones_like(tokens, dtype=torch.bool)
    asked[:, :3] = False
    return tokens.roll(3, 1), asked


def reverse(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the token at the mirrored position."""
    return tokens.flip(1), torch.ones_like(tokens, dtype=torch.bool)


def draw(lengths: range, rows: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield random batches (B, S) forever, each with one length."""
    while True:
        length = lengths[int(torch.randint(len(lengths), (), generator=generator))]
        yield torch.randint(1, LETTERS + 1, (rows, length), generator=generator)


def model(vocab_size: int, layers: int, width: int, heads: int, positions: str, seed: int) -> EncoderModel:
    """Build an encoder that predicts a class for every token."""
    torch.manual_seed(seed)
    shape = {"d_model": width, "d_ff": 2 * width, "n_heads": heads, "n_encoder_layers": layers, "n_decoder_layers": 0}
    built = build(
        ModelConfig(
            **shape, topology="encoder-only", head="token", positions=positions, tie="none", dropout=0.0, max_len=64,
            src_vocab_size=vocab_size, pre_norm=True,
        )
    )  # fmt: skip
    assert isinstance(built, EncoderModel)
    return built


def learn(learner: EncoderModel, task: Task, steps: int, lengths: range, seed: int, rows: int = 16) -> None:
    """Train with Adam: linear warmup for a tenth of the steps, then linear decay to zero."""
    optimizer = torch.optim.Adam(learner.parameters(), lr=3e-3, fused=True)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
    )
    batches = draw(lengths, rows, torch.Generator().manual_seed(seed))
    for _, tokens in zip(range(steps), batches):
        answers, asked = task(tokens)
        loss = F.cross_entropy(learner(tokens, at=asked), answers[asked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()


@torch.inference_mode()
def accuracy(learner: EncoderModel, task: Task, length: int, rows: int = 256) -> float:
    """Return the share of correct answers on new texts of this length."""
    tokens = next(draw(range(length, length + 1), rows, torch.Generator().manual_seed(10**6)))
    answers, asked = task(tokens)
    with evaluation(learner):
        said = learner(tokens, at=asked).argmax(-1)
    return float((said == answers[asked]).double().mean())


def heads(steps: int, seeds: range) -> None:
    print("| heads | head width | parameters | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean |")
    print("|" + "---|" * (len(seeds) + 4))
    for n in (1, 2, 4, 8):
        scores = []
        for seed in seeds:
            learner = model(LETTERS**2 + LETTERS + 1, 1, 32, n, "sinusoidal", seed)
            learn(learner, neighbours, steps, range(16, 17), seed)
            scores.append(accuracy(learner, neighbours, 16))
        size = sum(weight.numel() for weight in learner.parameters())
        each = " | ".join(f"{score:.1%}" for score in scores)
        print(f"| {n} | {32 // n} | {size:,} | {each} | {mean(scores):.1%} |", flush=True)


def positions(steps: int, seeds: range, schemes: list[str]) -> None:
    print("| positions | back, 16 tokens | 32 | reverse, 16 tokens | 32 |\n|---|---|---|---|---|")
    for scheme in schemes:
        cells = []
        for task in (back, reverse):
            learners = [model(LETTERS + 1, 2, 64, 4, scheme, seed) for seed in seeds]
            for seed, learner in zip(seeds, learners):
                learn(learner, task, steps, range(16, 17), seed)
            cells += [f"{mean(accuracy(it, task, length) for it in learners):.1%}" for length in (16, 32)]
        print(f"| {scheme} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["heads", "positions"])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--schemes", nargs="+", default=[*POSITIONS, "none"], help="position schemes (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    POSITIONS["none"] = Positions
    if options.question == "heads":
        heads(options.steps, range(options.seeds))
    else:
        positions(options.steps, range(options.seeds), options.schemes)


if __name__ == "__main__":
    main()
