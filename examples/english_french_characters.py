"""English to French, letter by letter, in one file: load, vocabulary, loader, model, train, figure, predict.

python examples/english_french_characters.py
"""

import random
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from clearhead.config import ModelConfig, TrainConfig
from clearhead.demo.phrasebook import phrases
from clearhead.errors import DataError
from clearhead.model.masks import padding_mask
from clearhead.model.transformer import EncoderDecoder, build
from clearhead.pictures.figures import loss_curve
from clearhead.tasks.loss import smoothed_cross_entropy
from clearhead.training.memory import keep_freed_memory
from clearhead.training.optimizer import make_optimizer
from clearhead.training.schedule import Schedule

PAD, START, END = 0, 1, 2
LONGEST = 30  # letters a side, start and end included
BATCH = 64  # sentences

Pairs = list[tuple[str, str]]


def load(n: int | None = None) -> Pairs:
    """The short sentences of the embedded phrasebook with their French, or some of them."""
    short = [(it.english, it.french) for it in phrases() if max(len(it.english), len(it.french)) <= LONGEST - 2]
    random.Random(42).shuffle(short)
    return short[:n]


def vocabulary(pairs: Pairs) -> dict[str, int]:
    """A number for every letter of either language; 0, 1 and 2 are padding, start and end."""
    letters = sorted({letter for pair in pairs for text in pair for letter in text})
    return {letter: number for number, letter in enumerate(letters, 3)}


def encode(text: str, numbers: dict[str, int]) -> list[int]:
    """The numbers of a text, with start and end."""
    if unknown := [letter for letter in text if letter not in numbers]:
        raise DataError(f"{unknown[0]!r} is not among the {len(numbers)} letters of training; expected one of them")
    return [START, *(numbers[letter] for letter in text), END]


def loader(pairs: Pairs, numbers: dict[str, int], batch: int = BATCH, seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """The pairs in random order, as many at a time as a batch holds: sources (B, S) and targets (B, T)."""
    order = random.Random(seed).sample(pairs, len(pairs))
    for start in range(0, len(order), batch):
        sources, targets = zip(*order[start : start + batch])
        yield padded(sources, numbers), padded(targets, numbers)


def padded(texts: tuple[str, ...], numbers: dict[str, int]) -> Tensor:
    """Texts below each other, filled up on the right."""
    rows = [encode(text, numbers) for text in texts]
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def model(numbers: dict[str, int]) -> EncoderDecoder:
    """A small Transformer with one table of letters for both languages."""
    torch.manual_seed(42)
    size = len(numbers) + 3
    shape = {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.1}
    net = build(ModelConfig(src_vocab_size=size, tgt_vocab_size=size, pre_norm=True, **shape))
    assert isinstance(net, EncoderDecoder)
    return net


def train(net: EncoderDecoder, pairs: Pairs, numbers: dict[str, int], epochs: int = 9) -> list[float]:
    """Teacher forcing; the mean loss of every step, in nats a letter."""
    keep_freed_memory()  # or a step spends much of its time on asking for it again
    steps = epochs * -(-len(pairs) // BATCH)
    optimizer = make_optimizer(net, TrainConfig(optimizer="muon"))  # it learns more from a step than adam
    rate = Schedule("linear", peak=5e-3, warmup=min(200, steps // 5), steps=steps)
    history: list[float] = []
    net.train()
    for epoch in range(epochs):
        for source, target in loader(pairs, numbers, seed=epoch):
            inputs, outputs = target[:, :-1], target[:, 1:]  # what is read, and what is to be said after it
            logits = net(source, inputs, source_mask=padding_mask(source, PAD))
            loss = smoothed_cross_entropy(logits.flatten(0, 1), outputs.flatten(), pad=PAD) / (outputs != PAD).sum()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = rate(len(history) + 1)
            optimizer.step()
            optimizer.zero_grad()
            history.append(float(loss.detach()))
        print(f"epoch {epoch + 1}: loss {sum(history[-20:]) / len(history[-20:]):.3f}")
    return history


def figure(history: list[float], path: Path) -> None:
    """The loss of every step as a picture."""
    loss_curve([{"step": step, "loss": loss} for step, loss in enumerate(history, 1)], path)


@torch.inference_mode()
def predict(net: EncoderDecoder, text: str, numbers: dict[str, int]) -> str:
    """The likeliest next letter, again and again, until the end comes."""
    letters = {number: letter for letter, number in numbers.items()}
    source, said = torch.tensor([encode(text, numbers)]), [START]
    net.eval()
    while said[-1] != END and len(said) < 2 * LONGEST:
        logits = net(source, torch.tensor([said]))  # (1, T, V)
        said.append(int(logits[0, -1].argmax()))
    return "".join(letters.get(number, "") for number in said)


def main(n: int | None = None, epochs: int = 9, path: Path = Path("runs/characters.png")) -> None:
    """All of it, one after the other."""
    pairs = load(n)
    numbers = vocabulary(pairs)
    net = model(numbers)
    print(f"{len(pairs):,} pairs, {len(numbers)} letters, {sum(p.numel() for p in net.parameters()):,} parameters")
    history = train(net, pairs, numbers, epochs)
    figure(history, path)
    print(f"the loss is drawn in {path}")
    for text in ("He is sleeping.", "She is singing.", "I am hungry.", "The cat is black.", "We are reading."):
        print(f"{text:<20} {predict(net, text, numbers)}")


if __name__ == "__main__":
    main()
