"""What tests of several rooms build: small models with random weights, their folders, tokenizers and damaged files."""

import io
import itertools
import operator
import random
import wave
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from clearhead.config import Config, ModelConfig

ENGLISH = ["I am hungry.", "You are late.", "She sings.", "We are here.", "They sleep well."]
FRENCH = ["J'ai faim.", "Tu es en retard.", "Elle chante.", "Nous sommes ici.", "Ils dorment bien."]


def model_config(topology: str = "encoder-decoder", *, vocab: int = 13, **settings: Any) -> ModelConfig:
    """Settings of a model with two blocks a side, four heads and 20 positions, or as given."""
    sizes = {"d_model": 16, "n_heads": 4, "d_ff": 32, "n_decoder_layers": 2, "max_len": 20}
    sizes |= {"n_encoder_layers": 0 if topology == "decoder-only" else 2}
    return ModelConfig(
        topology=topology, **{"src_vocab_size": vocab, "tgt_vocab_size": vocab, **sizes, **settings}
    )  # fmt: skip


def small_model(
    topology: str = "encoder-decoder", *, seed: int = 0, moved_by: float = 0.0, times: float = 1.0, **settings: Any
) -> Any:
    """A model of `model_config` in evaluation mode.

    Its weights are multiplied by `times` (far from uniform answers, beams cross) and moved at random by `moved_by`
    (no weight stays 0 or 1, where it would change nothing).
    """
    import torch

    from clearhead.model.transformer import build

    torch.manual_seed(seed)
    return moved(build(model_config(topology, **settings)), by=moved_by, times=times)


def moved(net: Any, *, by: float = 0.2, times: float = 1.0) -> Any:
    """The same module in evaluation mode with every weight multiplied, then moved at random."""
    import torch

    with torch.no_grad():
        for parameter in net.parameters() if by or times != 1 else ():
            parameter.mul_(times).add_(by * torch.randn(parameter.shape))
    return net.eval()


def make_model_folder(path: Path, *, tokenizer: str, **settings: object) -> Path:
    """A model of random weights that reads at most 39 source tokens and answers in few; see `make_encoder_folder`."""
    from clearhead.tokenization.source_and_target import train_tokenizers

    values = {"data.tokenizer": tokenizer, "data.vocab_size": 300, "data.train": ["pairs.tsv"], "decode.max_extra": 4}
    values |= {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32, "model.max_len": 40}
    values |= {"model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "data.batch_tokens": 1024}
    values |= {f"model.{name}": value for name, value in settings.items()}
    config = Config().override(values)
    return save_untrained(path, config, train_tokenizers(ENGLISH, FRENCH, config.data))


def make_encoder_folder(path: Path, *, task: str, tokenizer: str = "bpe", **settings: object) -> Path:
    """An encoder of random weights that fills masks or embeds texts. `settings` are those of the model."""
    from clearhead.tasks.registry import task_named
    from clearhead.tokenization.source_and_target import train_tokenizers

    values = {"train.task": task, "data.tokenizer": tokenizer, "data.vocab_size": 300, "model.max_len": 40}
    values |= {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32, "model.n_encoder_layers": 1}
    values |= {f"model.{name}": value for name, value in settings.items()}
    config = Config().assign({**task_named(task).required, **values}, "model")
    return save_untrained(path, config, train_tokenizers(ENGLISH, (), config.data))


def save_untrained(path: Path, config: Config, made: Any) -> Path:
    """Save a model of these settings and tokenizers with random weights; the state of PyTorch's dice stays."""
    import torch

    from clearhead.folder.model_folder import model_files, save_files
    from clearhead.model.transformer import build

    size = made.source.vocab_size
    config = config.assign({"model.src_vocab_size": size, "model.tgt_vocab_size": size}, "model")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = build(config.model).state_dict()
    save_files(path, model_files(config=config.to_dict(), tokenizer=made.to_json(), weights=weights, card="# A"))
    return path


def make_adapter_folder(path: Path, base: Path, *, seed: int = 0, rank: int = 2, size: float = 0.3) -> Path:
    """An adapter of random numbers for every matrix in the blocks of a model."""
    from clearhead.folder.adapters import ADAPTER, Adapter
    from clearhead.folder.model_folder import load_model_folder, model_files, save_files
    from clearhead.model.linear import block_layers
    from clearhead.model.restore import restore

    folder, dice = load_model_folder(base), np.random.default_rng(seed)
    weights = {}
    for name, layer in block_layers(restore(folder.config.model, folder.weights)).items():
        shapes = {"lora_a": (rank, layer.in_features), "lora_b": (layer.out_features, rank)}
        weights |= {f"{name}.{part}": size * dice.standard_normal(shape) for part, shape in shapes.items()}
    files = model_files(config=folder.config.to_record(), tokenizer=folder.tokenizer, weights=tensors(weights))
    path.mkdir(parents=True)
    adapter = Adapter.of(path, base, folder.weights_digest, 0.5)
    save_files(path, {**files, ADAPTER: adapter.to_bytes()})
    return path


def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The arrays as tensors in float32."""
    import torch

    return {name: torch.tensor(it, dtype=torch.float32) for name, it in arrays.items()}


def byte_level(lines: Iterable[str], size: int = 400, special: Sequence[str] = ("<|endoftext|>",)) -> Any:
    """A byte-level BPE tokenizer of the library, as GPT-2 has one."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=list(special), show_progress=False
    )
    made.train_from_iterator(lines, trainer)
    return made


def make_questions(n: int, seed: int = 0, *, lacking: bool = False) -> dict:
    """Articles of one short text each, as SQuAD has them, with five kinds of questions, whose answers have one token or
    two. What is asked with `lacking` is not always in the text."""
    dice, articles = random.Random(seed), []
    for number in range(n):
        said = {
            "Who was there?": dice.choice(["Ann", "Bob", "Cid", "Dan", "Eva", "Fay"]),
            "Which birds came?": dice.choice(["ten", "two", "six"]) + dice.choice([" owls", " swans"]),
            "Where was it?": dice.choice(["Rome", "New York", "Oslo", "Cape Town"]),
            "When was it?": dice.choice(["June", "May", "March"]),
        }
        absent = dice.choice(list(said)) if lacking else None
        parts = [said[asked] for asked in said if asked != absent]
        context = " and ".join(dice.sample(parts, len(parts))) + "."
        questions = [
            {"id": f"{number}-{i}", "question": asked, "is_impossible": asked == absent,
             "answers": [] if asked == absent else [{"text": text, "answer_start": context.index(text)}]}
            for i, (asked, text) in enumerate(said.items())
        ]  # fmt: skip
        articles.append({"title": f"Article {number}", "paragraphs": [{"context": context, "qas": questions}]})
    return {"version": "2.0" if lacking else "1.1", "data": articles}


def write_wave(path: Path, samples: np.ndarray, rate: int = 8000) -> Path:
    """A 16-bit WAV file of samples from -1 to 1: (N,) or (N, channels)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).round().astype("<i2").tobytes())
    return path


def tone(frequency: float, seconds: float = 0.25, rate: int = 8000, volume: float = 0.5) -> np.ndarray:
    """A pure tone, (N,)."""
    return volume * np.sin(2 * np.pi * frequency * np.arange(int(rate * seconds)) / rate)


def pairwise(*columns: Iterable[Any]) -> list[tuple[Any, ...]]:
    """A few of all combinations, in which any two values of different columns meet.

    Each begins with two values that haven't met, and takes from every other column the value that adds most pairs.
    """
    cells = [[(at, value) for value in column] for at, column in enumerate(columns)]
    missing = dict.fromkeys(pair for two in itertools.combinations(cells, 2) for pair in itertools.product(*two))
    chosen = []
    while missing:
        row = dict(next(iter(missing)))
        for column in cells:
            if column[0][0] not in row:
                at, value = max(column, key=lambda cell: len(missing.keys() & _pairs([*row.items(), cell])))
                row[at] = value
        chosen.append(tuple(row[at] for at in range(len(columns))))
        for pair in itertools.combinations(enumerate(chosen[-1]), 2):
            missing.pop(pair, None)
    return chosen


def _pairs(cells: list[tuple[int, Any]]) -> set[Any]:
    return {*itertools.combinations(sorted(cells, key=operator.itemgetter(0)), 2)}


def all_combinations(*columns: Iterable[Any]) -> list[Any]:
    """Parameters of a test: every combination, of which all but those of `pairwise` are slow."""
    columns = tuple(map(tuple, columns))
    fast = {*pairwise(*columns)}
    rows = itertools.product(*columns)
    return [
        pytest.param(*row, id="-".join(map(str, row)), marks=() if row in fast else pytest.mark.slow) for row in rows
    ]


def damage(path: Path) -> None:
    """Flip the last bit of a file."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def quiet(_message: str) -> None:
    """What a run says is not the test's business."""


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True
