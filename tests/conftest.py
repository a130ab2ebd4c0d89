"""What many tests need: small model folders with random weights, and the folder of the public data sets."""

import os
from pathlib import Path

import pytest

from clearhead.config import Config

ENGLISH = ["I am hungry.", "You are late.", "She sings.", "We are here.", "They sleep well."]
FRENCH = ["J'ai faim.", "Tu es en retard.", "Elle chante.", "Nous sommes ici.", "Ils dorment bien."]


def make_model_folder(path: Path, *, tokenizer: str) -> Path:
    """A model of random weights that reads at most 39 source tokens and answers in few."""
    import torch

    from clearhead.model.transformer import build
    from clearhead.text.tokenizer import train_tokenizers
    from clearhead.training.model_folder import model_files, save_files

    values = {"data.tokenizer": tokenizer, "data.vocab_size": 300, "data.train": ["pairs.tsv"], "decode.max_extra": 4}
    values |= {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32, "model.max_len": 40}
    values |= {"model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "data.batch_tokens": 1024}
    config = Config().override(values)
    tokenizers = train_tokenizers(ENGLISH, FRENCH, config.data)
    size = tokenizers.source.vocab_size
    config = config.override({"model.src_vocab_size": size, "model.tgt_vocab_size": size})
    generator = torch.random.get_rng_state()
    torch.manual_seed(0)
    weights = build(config.model).state_dict()
    torch.random.set_rng_state(generator)
    save_files(path, model_files(config=config.to_dict(), tokenizer=tokenizers.to_json(), weights=weights, card="# A"))
    return path


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder as training leaves it, with subword tokens. Not to be written to."""
    return make_model_folder(tmp_path_factory.mktemp("model"), tokenizer="bpe")


@pytest.fixture(scope="session")
def word_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a vocabulary of words, so that there are unknown ones. Not to be written to."""
    return make_model_folder(tmp_path_factory.mktemp("words"), tokenizer="word")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of the public data sets; a test that needs it is skipped where there is none."""
    named = os.environ.get("CLEARHEAD_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no data sets: {folder} is no folder; name it with CLEARHEAD_DATA")
    return folder
