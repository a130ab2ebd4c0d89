"""The tokenizers library panics on some files and texts: these are errors like any other, and stderr stays clean."""

import copy
import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from clearhead.config import SpecialTokens
from clearhead.errors import ClearheadError, ModelError
from clearhead.tokenization.backend import PanicError, as_exceptions, open_backend
from clearhead.tokenization.offsets import encode_with_offsets
from clearhead.tokenization.source_and_target import tokenizer_from_json
from clearhead.tokenization.tokenizer import Tokenizer

from .test_foreign import SPECIAL, byte_level, file, lines, unigram, wordpiece

ENDLESS = r"([\x{4e01}\x{4e02}]+)+$"  # only on texts in Chinese characters, which nobody tries


def splitting(pattern: str) -> str:
    """The file of a tokenizer that splits texts by a pattern."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    content = json.loads(file(byte_level))
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, content["pre_tokenizer"]]}
    return json.dumps(content)


@pytest.mark.parametrize("pattern", ["(a+)+$", r"(\w+\s?)+$", "(xy|xyxy)+$", r"(\d|\d\d)+$", "(", r"([.]|\.)+!"])
def test_a_pattern_that_backtracks_or_is_none_is_rejected(pattern: str, capfd) -> None:
    with pytest.raises(ModelError) as caught:
        tokenizer_from_json(splitting(pattern), SPECIAL[byte_level], origin="x.json")
    assert caught.value.name == "x.json"
    assert capfd.readouterr().err == ""


def test_a_text_on_which_a_pattern_backtracks_is_an_error(capfd) -> None:
    found = tokenizer_from_json(splitting(ENDLESS), SPECIAL[byte_level], origin="x.json")
    assert found.decode(found.encode("A fox.")) == "A fox."
    for door in (found.encode, found.encoding, found.with_specials().encode):
        with pytest.raises(ModelError) as caught:
            door("丁" * 60 + "a")
        assert caught.value.name == "tokenizer.json"
    assert capfd.readouterr().err == ""


def test_what_others_write_to_stderr_is_kept(capfd) -> None:
    with as_exceptions():
        os.write(2, b"a warning\n")
    with pytest.raises(KeyError), as_exceptions():
        os.write(2, b"another\n")
        raise KeyError
    assert capfd.readouterr().err == "a warning\nanother\n"


def test_merges_without_their_prefix_are_rejected() -> None:
    """The library cuts characters in half, and the process ends."""
    content = json.loads(file(byte_level))
    content["model"]["continuing_subword_prefix"] = "x"
    with pytest.raises(ValueError):
        open_backend(json.dumps(content), content)
    with pytest.raises(PanicError):
        content["model"]["continuing_subword_prefix"] = ""
        content["decoder"] = {"type": "Strip", "content": "a", "start": 0, "stop": 9}
        open_backend(json.dumps(content), content)


# --- files with one entry changed --------------------------------------------------------------------------

VALUES: list[Any] = [None, True, -1, 0, 10**12, 1.5, "", "x", [], {}, [1], {"a": 1}, "removed"]


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all entries, and of a few where there are many."""
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else []
    for key in keys if len(keys) < 20 else (*keys[:1], *keys[-1:]):
        yield (*path, key)
        yield from places(content[key], (*path, key))


def changed(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    new = inside = copy.deepcopy(content)
    for key in path[:-1]:
        inside = inside[key]
    if value == "removed":
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return new


def use(tokenizer: Tokenizer, texts: list[str]) -> None:
    ids = tokenizer.encode_batch(texts)
    tokenizer.decode_batch(ids)
    tokenizer.pieces(ids[0])
    tokenizer.unknown_words("a é 🦓")
    encode_with_offsets(tokenizer, texts[1])
    assert len(tokenizer.token_bytes) == len(tokenizer.vocabulary()) == tokenizer.vocab_size


@pytest.mark.parametrize("make", [byte_level, unigram, wordpiece, None], ids=lambda it: it.__name__ if it else "own")
def test_a_file_with_one_entry_changed_works_or_is_an_error(make, own_file: str, capfd) -> None:
    text, special = (file(make), SPECIAL[make]) if make else (own_file, SpecialTokens())
    content, draw, texts = json.loads(text), random.Random(0), lines(5, seed=6)
    paths = list(places(content))
    for path, value in [(draw.choice(paths), draw.choice(VALUES)) for _ in range(150)]:
        try:
            found = tokenizer_from_json(json.dumps(changed(content, path, value)), special, origin="x.json")
            if found.vocab_size < 10**6:
                use(found, texts)
        except ClearheadError:
            continue
        except BaseException as error:
            raise AssertionError(f"{path} = {value!r}") from error
    assert capfd.readouterr().err == ""


@pytest.fixture(scope="module")
def own_file() -> str:
    from clearhead.config import DataConfig

    return Tokenizer.train(lines(100, seed=7), DataConfig(vocab_size=300)).to_json()
