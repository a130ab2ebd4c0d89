"""English to French by characters, in one file: load, vocabulary, loader, model, train, figure, predict.

python english_french_characters.py
python english_french_characters.py fra.txt   # your own pairs, such as a file of manythings.org/anki
"""

import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from clearhead.config import ModelConfig, TrainConfig
from clearhead.demo.phrasebook import phrases
from clearhead.errors import DataError
from clearhead.model.masks import padding_mask
from clearhead.model.transformer import EncoderDecoder, build
from clearhead.pictures.figures import loss_curve
from clearhead.readers.pairs import read_pairs
from clearhead.tasks.loss import smoothed_cross_entropy
from clearhead.training.memory import keep_freed_memory
from clearhead.training.optimizers import make_optimizer
from clearhead.training.schedule import Schedule

PAD, START, END = 0, 1, 2
LONGEST = 30  # characters a side, start and end included
BATCH = 64  # sentences

Pairs = list[tuple[str, str]]


def load(n: int | None = None, file: str | None = None) -> Pairs:
    """Return short sentence pairs from a file with two columns, or from the embedded phrasebook."""
    every: Iterable[tuple[str, str]] = ((it.english, it.french) for it in phrases())
    if file is not None:
        found = read_pairs([file])
        print(found.report)
        if found.report.licence or found.report.source:  # if a column of the file states them
            print(f"  licence: {found.report.licence}; source: {found.report.source}")
        every = zip(found.sources, found.targets)
    short = [pair for pair in every if max(map(len, pair)) <= LONGEST - 2]
    random.Random(42).shuffle(short)
    return short[:n]


def vocabulary(pairs: Pairs) -> dict[str, int]:
    """Return an id for each character of both languages; 0, 1 and 2 are padding, start and end."""
    letters = sorted({letter for pair in pairs for text in pair for letter in text})
    return {letter: number for number, letter in enumerate(letters, 3)}


def encode(text: str, numbers: dict[str, int]) -> list[int]:
    """Return the ids of a text, with start and end."""
    if unknown := [letter for letter in text if letter not in numbers]:
        raise DataError(f"{unknown[0]!r} is not among the {len(numbers)} letters of training; expected one of them")
    return [START, *(numbers[letter] for letter in text), END]


def loader(pairs: Pairs, numbers: dict[str, int], batch: int = BATCH, seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of the pairs in random order: sources (B, S) and targets (B, T).

    Args:
        pairs: source and target texts.
        numbers: the id of each character.
        batch: the number of pairs in a batch.
        seed: decides the order.
    """
    order = random.Random(seed).sample(pairs, len(pairs))
    for start in range(0, len(order), batch):
        sources, targets = zip(*order[start : start + batch])
        yield padded(sources, numbers), padded(targets, numbers)


def padded(texts: tuple[str, ...], numbers: dict[str, int]) -> Tensor:
    """Stack texts, padded on the right."""
    rows = [encode(text, numbers) for text in texts]
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def model(numbers: dict[str, int]) -> EncoderDecoder:
    """Build a small Transformer with one embedding matrix for both languages."""
    torch.manual_seed(42)
    size = len(numbers) + 3
    shape = {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.1}
    net = build(ModelConfig(src_vocab_size=size, tgt_vocab_size=size, pre_norm=True, **shape))
    assert isinstance(net, EncoderDecoder)
    return net


def train(net: EncoderDecoder, pairs: Pairs, numbers: dict[str, int], epochs: int = 9) -> list[float]:
    """Train with teacher forcing; return the mean loss of each step in nats per character.

    Args:
        net: the model, which is changed.
        pairs: source and target texts.
        numbers: the id of each character.
        epochs: how often to read all pairs.
    """
    keep_freed_memory()  # otherwise each step spends much of its time asking for it again
    steps = epochs * -(-len(pairs) // BATCH)
    optimizer = make_optimizer(net, TrainConfig(optimizer="muon"))  # learns more per step than Adam
    rate = Schedule("linear", peak=5e-3, warmup=min(200, steps // 5), steps=steps)
    history: list[float] = []
    net.train()
    for epoch in range(epochs):
        for source, target in loader(pairs, numbers, seed=epoch):
            inputs, outputs = target[:, :-1], target[:, 1:]  # what the decoder reads, and what it should predict
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
    """Draw the loss of each step."""
    loss_curve([{"step": step, "loss": loss} for step, loss in enumerate(history, 1)], path)


@torch.inference_mode()
def predict(net: EncoderDecoder, text: str, numbers: dict[str, int]) -> str:
    """Decode greedily until the end token.

    Args:
        net: the trained model.
        text: the text to translate.
        numbers: the id of each character.
    """
    letters = {number: letter for letter, number in numbers.items()}
    source, said = torch.tensor([encode(text, numbers)]), [START]
    net.eval()
    while said[-1] != END and len(said) < 2 * LONGEST:
        logits = net(source, torch.tensor([said]))  # (1, T, V)
        said.append(int(logits[0, -1].argmax()))
    return "".join(letters.get(number, "") for number in said)


def main(
    n: int | None = None, epochs: int = 9, path: Path = Path("runs/characters.png"), file: str | None = None
) -> None:
    """Run all steps.

    Args:
        n: use the first n pairs only.
        epochs: how often to read all of them.
        path: the picture to draw.
        file: see `load`.
    """
    pairs = load(n, file)
    numbers = vocabulary(pairs)
    net = model(numbers)
    print(f"{len(pairs):,} pairs, {len(numbers)} letters, {sum(p.numel() for p in net.parameters()):,} parameters")
    history = train(net, pairs, numbers, epochs)
    figure(history, path)
    print(f"the loss is drawn in {path}")
    asked = ["He is sleeping.", "She is singing.", "I am hungry.", "The cat is black.", "We are reading."]
    for text in asked if file is None else [source for source, _ in pairs[:5]]:
        print(f"{text:<20} {predict(net, text, numbers)}")


if __name__ == "__main__":
    main(file=sys.argv[1] if len(sys.argv) > 1 else None)
