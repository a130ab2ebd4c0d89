"""Random tiny models of other programs' classes, as oracles, and text in many scripts."""

import io
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import save_file

from clearhead.config import Config
from clearhead.exchange.huggingface import folder_files
from clearhead.exchange.import_model import read
from clearhead.exchange.imported import Imported
from clearhead.model.restore import restore

EOT = "<|endoftext|>"


@pytest.fixture(scope="session")
def hf() -> Any:
    """The transformers library, or a skip. Importing it takes many seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers", reason="needs transformers: pip install '.[hf]'")


@pytest.fixture
def float64() -> Any:
    """Make float64 the default while a test runs."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def unicode_lines(n: int = 1000, seed: int = 0) -> list[str]:
    """Lines of words in many scripts, with punctuation, digits, emoji, combining marks and odd spaces."""
    draw = random.Random(seed)
    ranges = [(0x61, 0x7A), (0x41, 0x5A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A)]
    ranges += [(0x904, 0x939), (0xE01, 0xE30), (0x3041, 0x3096), (0x4E00, 0x4FFF), (0xAC00, 0xAD00), (0x1F600, 0x1F64F)]
    marks = list(",.!?'\"-()[]{}<>@#$%&*/\\…«»“”’—0123456789\u0301\u200d\u00ad\ufe0f")
    spaces = [" "] * 20 + ["  ", "\t", "\u00a0", "\u2009", "\u3000"]

    def word() -> str:
        low, high = draw.choice(ranges)
        letters = [chr(draw.randint(low, high)) for _ in range(draw.randint(1, 8))]
        if draw.random() < 0.3:
            letters.insert(draw.randint(0, len(letters)), draw.choice(marks))
        return "".join(letters)

    lines = ["".join(word() + draw.choice(spaces) for _ in range(draw.randint(1, 12))) for _ in range(n)]
    return [line.strip() for line in lines]


def spm_model(lines: list[str], **settings: Any) -> bytes:
    """A SentencePiece model. Rare characters are unknown."""
    import sentencepiece

    out = io.BytesIO()
    general = {"vocab_size": 2500, "character_coverage": 0.98, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **(general | settings))
    return out.getvalue()


def word_piece(lines: list[str], size: int = 1700) -> tokenizers.Tokenizer:
    """A WordPiece tokenizer, as BERT has one, with special tokens in unusual places."""
    found = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    found.normalizer = tokenizers.normalizers.BertNormalizer()
    found.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    found.decoder = tokenizers.decoders.WordPiece()
    special = ["[PAD]", "[unused]", "[UNK]", "[CLS]", "[MASK]", "[SEP]"]
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    found.train_from_iterator(lines, trainer)
    ends = [(name, found.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    found.post_processor = tokenizers.processors.BertProcessing(*ends)
    return found


def shaken(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Move every weight at random, since initial ones are often zero, one or equal."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator, dtype=weight.dtype) * 0.1)
    return model.eval()


def save_exported(imported: Imported, folder: Path) -> Path:
    """Write what a model becomes in another program's form."""
    files, weights = folder_files(imported.config, imported.weights, imported.tokenizer)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    save_file({name: it.contiguous() for name, it in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture
def opened() -> Callable[[Path], tuple[Config, torch.nn.Module]]:
    """Read another program's folder; return our settings and our model, in the default precision."""

    def opened(folder: Path) -> tuple[Config, torch.nn.Module]:
        imported = read(folder)
        model = restore(imported.config.model, imported.weights)
        return imported.config, model.to(torch.get_default_dtype()).eval()

    return opened


def assert_equal_states(theirs: Any, ours: Any, tolerance: float = 1e-10) -> None:
    """Compare hidden states and logits of two encoder-decoders in float64."""
    draw = torch.Generator().manual_seed(1)
    source, target = (torch.randint(4, 300, (3, n), generator=draw) for n in (11, 20))
    states: list[torch.Tensor] = []
    stacks = (ours.encoder, ours.decoder)
    hooks = [it.register_forward_hook(lambda _, __, out: states.append(out)) for stack in stacks for it in stack.blocks]
    with torch.no_grad():
        expected = theirs(source, decoder_input_ids=target, output_hidden_states=True)
        logits = ours(source, target)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(logits, expected.logits, rtol=0, atol=tolerance)
    n = len(ours.encoder.blocks)
    for found, wanted in ((states[:n], expected.encoder_hidden_states), (states[n:], expected.decoder_hidden_states)):
        for one, other in zip(found[:-1], wanted[1:-1], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
