"""Tokenizers from the files that Transformers wrote before there was tokenizer.json."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from clearhead.errors import ModelError
from clearhead.exchange.hf_tokenizers import read_tokenizer, token_ids, token_roles, tokens_around
from tests.builders import byte_level

from .conftest import unicode_lines, word_piece

LINES = unicode_lines()
BYTES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
MASKED = ["A [MASK] b", "A <mask> b", "[CLS] a </s>"]


@pytest.fixture(scope="module")
def pieces() -> list[str]:
    """WordPiece's tokens in the order of their ids, with some capitals and accents."""
    vocab = word_piece(LINES[:300]).get_vocab()
    return [*sorted(vocab, key=vocab.__getitem__), "A", "É", "##É"]


def settings(folder: Path, **values: Any) -> Path:
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    return folder


@pytest.mark.parametrize("options", [
    {}, {"do_lower_case": False}, {"strip_accents": False}, {"do_lower_case": False, "strip_accents": True},
    {"tokenize_chinese_chars": False},
])  # fmt: skip
def test_wordpiece_from_a_list_of_tokens_gives_the_ids_of_its_class(hf, pieces, tmp_path, options) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    ours = tokenizers.Tokenizer.from_str(read_tokenizer(settings(tmp_path, **options)))
    theirs = hf.BertTokenizer(vocab={it: i for i, it in enumerate(pieces)}, **options)
    lines = [*LINES, *MASKED, "ÉA Éa"]
    assert [it.ids for it in ours.encode_batch(lines)] == theirs(lines)["input_ids"]


@pytest.mark.parametrize("space", [False, True])
def test_byte_level_merges_give_the_ids_of_their_class(hf, tmp_path, space) -> None:
    model = json.loads(byte_level(LINES[:300], 400, BYTES).to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(it) + "\n" for it in model["merges"]))
    ours = tokenizers.Tokenizer.from_str(text := read_tokenizer(settings(tmp_path, add_prefix_space=space), "roberta"))
    merges = [tuple(it) for it in model["merges"]]
    mask = tokenizers.AddedToken("<mask>", lstrip=True)  # as in RoBERTa's own files
    theirs = hf.RobertaTokenizer(vocab=model["vocab"], merges=merges, add_prefix_space=space, mask_token=mask)
    lines = [*LINES, *MASKED]
    assert [it.ids for it in ours.encode_batch(lines)] == theirs(lines)["input_ids"]
    assert tokens_around(text) == ([0], [2])


def test_special_tokens_can_have_other_names(pieces, tmp_path) -> None:
    other = ["<start>" if it == "[CLS]" else it for it in pieces]
    (tmp_path / "vocab.txt").write_text("\n".join(other))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"cls_token": {"content": "<start>"}}))
    text = read_tokenizer(tmp_path)
    ids = token_ids(text)
    assert token_roles(tmp_path, ids) == {"cls": ids["<start>"]}
    assert tokens_around(text)[0] == [other.index("<start>")]


def test_tokens_that_were_added_later_keep_their_ids(pieces, tmp_path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"zzyzx": len(pieces)}))
    found = tokenizers.Tokenizer.from_str(read_tokenizer(tmp_path))
    assert found.encode("a zzyzx b", add_special_tokens=False).ids[1] == len(pieces)


def test_added_tokens_that_do_not_continue_the_vocabulary_are_an_error(pieces, tmp_path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"zzyzx": len(pieces) + 5}))
    with pytest.raises(ModelError) as caught:
        read_tokenizer(tmp_path)
    assert (caught.value.name, caught.value.value) == ("added_tokens.json", len(pieces) + 5)


def test_a_vocabulary_without_its_pre_tokenizer_is_an_error(pieces, tmp_path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    with pytest.raises(ModelError) as caught:
        read_tokenizer(settings(tmp_path, do_basic_tokenize=False))
    assert (caught.value.name, caught.value.value) == ("do_basic_tokenize", False)


def test_a_folder_without_a_tokenizer_is_an_error(tmp_path) -> None:
    with pytest.raises(ModelError, match=r"vocab\.txt"):
        read_tokenizer(tmp_path)
