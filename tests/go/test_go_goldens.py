"""Go's own tests, and values that Python computes for them."""

import json
import os
import random
import subprocess
import unicodedata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import safetensors.torch
import torch

from clearhead.config import DataConfig
from clearhead.model.attention import MultiHeadAttention
from clearhead.model.positions import Relative
from clearhead.tokenization.tokenizer import Tokenizer
from tests.builders import ENGLISH, FRENCH

from .conftest import GO

KINDS = [
    {"tokenizer": "bpe", "vocab_size": 330},
    {"tokenizer": "unigram", "vocab_size": 330},
    {"tokenizer": "word"},
    {"tokenizer": "character"},
    {"tokenizer": "bpe", "vocab_size": 330, "normalise": ("NFKC", "lowercase", "whitespace")},
    {"tokenizer": "unigram", "vocab_size": 330, "normalise": ()},
    {"tokenizer": "word", "normalise": ("NFKC", "lowercase")},
    {"tokenizer": "character", "normalise": ("NFC", "lowercase")},
]
TEXTS = [
    "", " ", "  two  spaces ", "\t\r\n\x0b\x0c tabs", "\xa0non\u2003breaking\u3000", "\x1c\x1f separators",
    "l'homme qu'il", "L’HOMME JUSQU’À Lorsqu'un puisqu’elle quoiqu'on", "juſqu'à ſ'il",
    "aujourd'hui don't rock 'n' roll I'm o'clock '", "12,5 % ½ ²³ Ⅻ ٣", "</s> <s><pad> <unk>",
    "e\u0301 E\u0301\u0323 \u0344 a\u0315\u0300\u05ae\u0062", "한국어 ᄒ\u1161\u11ab",
    "ﬁ ﷺ ℌ ｱｲ ㌀", "İIıi ΣΑΣ ǅ ǰ J\u030c",
    "🙂👍🏽 👩\u200d👩\u200d👧", "中文字符。", "ไทย", "हिन्दी", "\u200b\u200d\ufeff",
    "\u0300 mark first", "a\u20dd(\u0301",
    "--- ... ?!«»", "x" * 300, "\U0010ffff\x00\x7f\x85\u2028", "'a 'à ''a’’b'",
]  # fmt: skip


def generator(name: str) -> ModuleType:
    spec = spec_from_file_location(name, GO / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mixed_unicode(lines: int) -> list[str]:
    """Lines of random characters, from blocks of which some matter more than others."""
    dice = random.Random(0)
    blocks = [
        (0x20, 0x7E),
        (0xA0, 0x24F),
        (0x300, 0x36F),
        (0x370, 0x52F),
        (0x590, 0x74F),
        (0x900, 0xDFF),
        (0x1100, 0x11FF),
    ]
    blocks += [(0x1E00, 0x2BFF), (0x3040, 0x33FF), (0xAC00, 0xD7A3), (0xF900, 0xFFFF), (0x1D100, 0x1F6FF), (0, 0x2FFFF)]
    found = []
    for _ in range(lines):
        chars = []
        for _ in range(dice.randint(1, 30)):
            char = chr(dice.randint(*dice.choice(blocks[: dice.randint(1, len(blocks))])))
            if unicodedata.category(char) not in ("Cn", "Cs"):  # unassigned: versions of Unicode differ
                chars.append(char)
        found.append("".join(chars))
    return found


def tokenizer_values() -> list[dict[str, Any]]:
    cases = []
    for kind in KINDS:
        tokenizer = Tokenizer.train([*ENGLISH, *FRENCH, *TEXTS], DataConfig(**kind))
        texts = TEXTS + mixed_unicode(1000)
        ids = [tokenizer.encode(text) for text in texts]
        broken = [random.Random(n).choices(range(tokenizer.vocab_size), k=8) for n in range(100)]
        cases.append({
            "name": "-".join(map(str, kind.values())), "tokenizer": json.loads(tokenizer.to_json()), "texts": texts,
            "ids": ids, "broken": broken, "decoded": [tokenizer.decode(it) for it in [*ids, *broken]],
            "pieces": tokenizer.vocabulary(), "unknown": [tokenizer.unknown_words(text) for text in TEXTS],
        })  # fmt: skip
    return cases


@pytest.fixture(scope="module")
def goldens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs and expected outputs for Go's tests."""
    folder, distances = tmp_path_factory.mktemp("goldens"), torch.arange(-1000, 1001)
    (folder / "tokenizers.json").write_text(json.dumps(tokenizer_values()), encoding="utf-8")
    buckets = {
        str(two_sided): Relative(1, two_sided=two_sided).bucket(distances).tolist() for two_sided in (True, False)
    }
    (folder / "buckets.json").write_text(json.dumps(buckets), encoding="utf-8")
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        attention = MultiHeadAttention(d_model=512, n_heads=8).eval()
        x = torch.randn(32, 100, 512)
        output, weights = attention(x, x, x)
    arrays = {**attention.state_dict(), "x": x, "output": output, "weights": weights[:2].contiguous()}
    safetensors.torch.save_file(arrays, folder / "attention.safetensors")
    return folder


def test_gos_own_tests_pass_with_the_values_of_python(go: str, goldens: Path) -> None:
    environment = {**os.environ, "CLEARHEAD_GOLDENS": str(goldens)}
    done = subprocess.run([go, "test", "./..."], cwd=GO, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_gofmt_and_vet_find_nothing(go: str) -> None:
    gofmt = Path(go).resolve().with_name("gofmt")
    assert subprocess.run([gofmt, "-l", "."], cwd=GO, capture_output=True, text=True, check=True).stdout == ""
    subprocess.run([go, "vet", "./..."], cwd=GO, check=True)


def test_the_defaults_are_those_of_the_settings() -> None:
    made = generator("make_defaults")
    assert made.TARGET.read_text(encoding="utf-8") == made.defaults(), "run: python go/make_defaults.py"


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the tables are those of Unicode 14.0.0")
def test_the_tables_are_those_of_unicodedata() -> None:
    made = generator("make_unicode_tables")
    assert made.TARGET.read_text(encoding="utf-8") == made.tables(), "run: python go/make_unicode_tables.py"
