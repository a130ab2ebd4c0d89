"""A tokenizer as the scripts of a page read it."""

import json
from typing import Any

from ...errors import ModelError
from ...tokenization.learning import SPECIALS
from ...tokenization.tokenizer import Tokenizer

_STEPS = {"NFC": "NFC", "NFKC": "NFKC", "Lowercase": "lowercase", "Replace": "fold", "Strip": "strip"}
_SPLITS = {"bpe": "subwords", "unigram": "subwords", "word": "words", "character": "characters"}


def page_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the steps and the vocabulary of a tokenizer that Clearhead trained.

    Raises:
        ModelError: it's another program's.
    """
    if tokenizer.is_foreign:
        raise ModelError(
            "the tokenizer is another program's, which a page can't run",
            expected="a tokenizer that Clearhead trained",
            name="tokenizer.json",
            value=tokenizer.kind,
        )
    file = json.loads(tokenizer.to_json())
    steps = [it["type"] for it in file["normalizer"]["normalizers"]]
    model, merges, scores = file["model"], list[list[int]](), list[float]()
    if tokenizer.kind == "unigram":
        pieces, scores = [it[0] for it in model["vocab"]], [it[1] for it in model["vocab"]]
    else:
        pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if tokenizer.kind == "bpe":
        ids = {piece: i for i, piece in enumerate(pieces)}
        pairs = [it.split(" ") if isinstance(it, str) else it for it in model["merges"]]
        merges = [[ids[left], ids[right], ids[left + right]] for left, right in pairs]
    return {
        "normalizers": ["prepend" if it == "Prepend" else _STEPS[it] for it in steps],
        "split": _SPLITS[tokenizer.kind],
        "kind": tokenizer.kind if tokenizer.kind in ("bpe", "unigram") else "whole",
        "pieces": [*SPECIALS, *pieces[len(SPECIALS) :]],
        "scores": scores,
        "merges": merges,
    }
