"""The Go reader, built once, and small model folders for it."""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.config import Config
from clearhead.folder.model_folder import model_files, save_files
from clearhead.model.transformer import build
from clearhead.tokenization.source_and_target import Tokenizers, train_tokenizers
from tests.builders import moved

GO = Path(__file__).parents[2] / "go"
ENGLISH = ["I am hungry.", "You are late, aren't you?", "She sings 12 songs.", "We are here.", "They sleep well."]
FRENCH = ["J'ai faim.", "Tu es en retard.", "Elle chante 12 chansons.", "Nous sommes ici.", "Qu'ils dorment bien."]
SMALL = {
    "model.d_model": 16, "model.n_heads": 4, "model.d_ff": 24, "model.n_encoder_layers": 2, "model.n_decoder_layers": 2,
    "model.max_len": 60, "data.vocab_size": 300, "data.train": ["pairs.tsv"], "decode.max_extra": 6,
}  # fmt: skip


@pytest.fixture(scope="session")
def go() -> str:
    """The go command."""
    found = shutil.which("go")
    if found is None:
        pytest.skip("Go isn't installed")
    return found


@pytest.fixture(scope="session")
def clearhead_go(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built from this checkout."""
    program = tmp_path_factory.mktemp("go") / "clearhead-go"
    subprocess.run([go, "build", "-buildvcs=false", "-o", program, "./cmd/clearhead-go"], cwd=GO, check=True)
    return program


Answer = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def answer(clearhead_go: Path) -> Answer:
    """Answer lines with the program, and return its records."""

    def answered(folder: Path, lines: Sequence[str], *options: str) -> list[dict[str, Any]]:
        command = [clearhead_go, folder, "--json", *options]
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", timeout=60)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return answered


def make_folder(path: Path, values: Mapping[str, Any], texts: Sequence[Sequence[str]] = (ENGLISH, FRENCH)) -> Path:
    """A model folder with random weights, moved from their initial values, since some start at zero."""
    config = Config().override({**SMALL, **values})
    one_sided = config.model.topology == "decoder-only"
    if config.model.tie in ("all", "embeddings") or config.model.copy or one_sided:
        config = config.override({"data.joint": True})
    tokenizers: Tokenizers = train_tokenizers(*texts, config.data)
    sizes = {"model.tgt_vocab_size": tokenizers.target.vocab_size}
    if not one_sided:
        sizes["model.src_vocab_size"] = tokenizers.source.vocab_size
    config = config.override(sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = moved(build(config.model), by=0.3)
    files = {
        "config": config.to_dict(),
        "tokenizer": tokenizers.to_json(),
        "weights": model.state_dict(),
        "card": "# A",
    }
    save_files(path, model_files(**files))
    return path
