"""Tokenizers in folders of Transformers give its ids: with tokens from every file, their flags, BOS and EOS."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from clearhead.config import SpecialTokens
from clearhead.errors import ModelError
from clearhead.exchange.hf_tokenizers import read_tokenizer, token_ids, tokens_around
from clearhead.tokenization.source_and_target import tokenizer_from_json
from tests.builders import byte_level

from ..tokenization.test_foreign import byte_fallback, lines, unigram
from .conftest import EOT, spm_model, unicode_lines, word_piece

NAMES = ["<|im_start|>", "<|im_end|>", "<think>", "<alone>"]
FLAGS = [{"special": True}, {"special": True, "rstrip": True}, {"lstrip": True}, {"single_word": True}]
LINES = unicode_lines(300)


def qwen2() -> tokenizers.Tokenizer:
    """A byte-level BPE tokenizer that composes letters and splits digits, as Qwen2 has one."""
    found = byte_level(LINES)
    pattern = tokenizers.Regex(r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+")
    split = tokenizers.pre_tokenizers.Split(pattern, "isolated")
    letters = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    found.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, letters])
    found.normalizer = tokenizers.normalizers.NFC()
    return found


FAMILIES: dict[str, tuple[Callable[[], tokenizers.Tokenizer], dict[str, Any]]] = {
    "gpt2": (lambda: byte_level(LINES), {"eos_token": EOT}),
    "qwen2": (qwen2, {"eos_token": EOT, "add_bos_token": False}),
    "bert": (lambda: word_piece(LINES), {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}),
    "llama": (byte_fallback, {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}),
    "t5": (unigram, {"eos_token": {"content": "</s>", "__type": "AddedToken"}}),
}


def folder(path: Path, family: str) -> Path:
    """A folder in which some added tokens are only in tokenizer_config.json, with flags that differ."""
    make, settings = FAMILIES[family]
    made = make()
    made.add_tokens([tokenizers.AddedToken(NAMES[0])])
    if family in ("llama", "t5"):
        ends = [(name, made.token_to_id(name)) for name in ("<s>", "</s>") if made.token_to_id(name) is not None]
        single = "<s> $A" if family == "llama" else "$A </s>"
        made.post_processor = tokenizers.processors.TemplateProcessing(single=single, special_tokens=ends)
    made.save(str(path / "tokenizer.json"))
    listed = {made.get_vocab_size() - 1 + i: {"content": name, **FLAGS[i]} for i, name in enumerate(NAMES)}
    whole = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    (path / "tokenizer_config.json").write_text(
        json.dumps({"added_tokens_decoder": {str(i): whole | it for i, it in listed.items()}, **settings})
    )
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_equal_those_of_transformers_on_1000_lines(hf: Any, tmp_path: Path, family: str) -> None:
    theirs = hf.PreTrainedTokenizerFast.from_pretrained(folder(tmp_path, family))
    text, draw = read_tokenizer(tmp_path, family), random.Random(1)
    special = SpecialTokens(pad=9000, bos=9001, eos=9002, unk=None, mask=None, start=9001)
    ours, (before, after) = tokenizer_from_json(text, special, origin="x.json"), tokens_around(text)
    names = [*NAMES, *(it.content for it in FAMILIES[family][0]().get_added_tokens_decoder().values())]
    plain = [it for it in (*lines(500, seed=8), *LINES[:200]) if not any(name in it for name in names)]
    marked = [f"{draw.choice(names)}".join(it.split(" ", 3)) + draw.choice(["", " ", NAMES[3]]) for it in plain[:500]]
    for reader, some in ((ours.with_specials(), plain + marked), (ours, plain)):
        assert [[*before, *ids, *after] for ids in reader.encode_batch(some)] == theirs(some)["input_ids"]
    ids = token_ids(text)
    assert not {ids[name] for name in NAMES[:2]} & {i for found in ours.encode_batch(marked) for i in found}
    assert ours.decode([ids[NAMES[1]], *ours.encode("a b")]) == ours.decode(ours.encode("a b"))


def test_a_token_listed_with_another_id_is_an_error(tmp_path: Path) -> None:
    path = folder(tmp_path, "gpt2") / "tokenizer_config.json"
    path.write_text(json.dumps({"added_tokens_decoder": {"7": {"content": NAMES[0]}}}))
    with pytest.raises(ModelError) as caught:
        read_tokenizer(tmp_path)
    assert (caught.value.name, caught.value.value) == ("tokenizer_config.json", 7)


@pytest.mark.parametrize("listed", [{"x": {"content": "a"}}, {"1": 5}, {"1": {}}, [3], "x"])
def test_a_list_of_tokens_that_is_damaged_is_an_error(tmp_path: Path, listed: Any) -> None:
    folder(tmp_path, "gpt2")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": listed}))
    with pytest.raises(ModelError) as caught:
        read_tokenizer(tmp_path)
    assert caught.value.name == "tokenizer_config.json"


def vocab_and_merges(path: Path) -> dict[str, Any]:
    model: dict[str, Any] = json.loads(byte_level(LINES).to_str())["model"]
    (path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (path / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(it) + "\n" for it in model["merges"]))
    return model


@pytest.mark.parametrize(("family", "kind"), [("qwen2", "Qwen2Tokenizer"), ("gpt2", "GPT2Tokenizer")])
def test_vocabulary_and_merges_are_split_as_the_family_does(hf: Any, tmp_path: Path, family: str, kind: str) -> None:
    model = vocab_and_merges(tmp_path)
    theirs = getattr(hf, kind)(vocab=model["vocab"], merges=[tuple(it) for it in model["merges"]])
    some = [*LINES, *lines(200, seed=9), "In 2024 there were 12345 cats", "WE'LL see", "cafe\u0301 \n\n b"]
    for model_type, class_name in ((family, ""), ("llama", kind), ("llama", f"{kind}Fast")):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": class_name}))
        ours = tokenizers.Tokenizer.from_str(read_tokenizer(tmp_path, model_type))
        assert [it.ids for it in ours.encode_batch(some)] == theirs(some)["input_ids"]


def test_vocabulary_and_merges_of_a_family_that_may_split_in_another_way_are_rejected(tmp_path: Path) -> None:
    vocab_and_merges(tmp_path)
    with pytest.raises(ModelError) as caught:
        read_tokenizer(tmp_path, "llama")
    assert caught.value.name == "tokenizer.json"


@pytest.mark.parametrize(("name", "content"), [
    ("vocab.txt", b"[UNK]\n\xff\n"), ("vocab.txt", b"[PAD]\na\n"), ("vocab.txt", b""),
    ("merges.txt", b"\xff"), ("merges.txt", b"a b\n"), ("merges.txt", b"\xc3\xa9 x\n"), ("merges.txt", b"a b c d\n"),
    ("vocab.json", b'{"a": 0, "b": 0}'), ("vocab.json", b'{"a": 0, "b": 7}'), ("vocab.json", b'{"a": "0"}'),
    ("vocab.json", b'{"a": -1}'), ("vocab.json", b"[]"), ("vocab.json", b"\xff"), ("spiece.model", b"\x00\x01damaged"),
    ("tokenizer.json", b"\xff"), ("tokenizer.json", b"3"), ("tokenizer.json", b'{"model": 3}'),
])  # fmt: skip
def test_a_damaged_vocabulary_is_an_error_that_names_the_file(tmp_path: Path, name: str, content: bytes) -> None:
    if name in ("merges.txt", "vocab.json"):
        vocab_and_merges(tmp_path)
    if name == "spiece.model":
        pytest.importorskip("sentencepiece")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_tokenizer(tmp_path, "gpt2")
    assert caught.value.name == name or name in caught.value.what


def test_flipped_bytes_of_a_sentencepiece_model_work_or_are_an_error(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    whole, draw = spm_model(LINES, vocab_size=1600), random.Random(0)
    for _ in range(25):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        (tmp_path / "spiece.model").write_bytes(damaged)
        try:
            text = read_tokenizer(tmp_path, "t5")
            tokenizer_from_json(text, SpecialTokens(unk=None, mask=None), origin="x.json").encode_batch(LINES[:5])
        except ModelError:
            continue
