"""Fillings of the masks in a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...tokenization.tokenizer import Tokenizer
from ..examples import Record


@dataclass(frozen=True)
class Candidate:
    """A token that could fill a mask. `text` is the token without the space before it."""

    token: str
    text: str
    probability: float


@dataclass(frozen=True)
class Filled(Record):
    """A text whose masks are filled with the most probable tokens.

    Attributes:
        filled: the text with the masks replaced.
        masks: for each mask, the most probable tokens, best first. Each mask is filled on its own.
        unknown: words that aren't in the vocabulary.
        long, cut: always 0, because a text that's too long is an error.
    """

    text: str
    filled: str
    masks: tuple[tuple[Candidate, ...], ...] = ()
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: ClassVar[int] = 0


def spelling(tokenizer: Tokenizer, token: int) -> str:
    """Return what a token adds to a text, with the space before it if it has one."""
    return tokenizer.token_bytes[token].decode("utf-8", "replace")


def fill(tokenizer: Tokenizer, text: str, tokens: Sequence[int]) -> str:
    """Replace the masks of a text with one token each. A token without a space joins the word before it.

    Args:
        tokenizer: knows the mask's name, and how tokens are spelled.
        text: a text with masks.
        tokens: one token id per mask, in order.
    """
    first, *rest = text.split(tokenizer.mask_name)
    filled = first
    for token, after in zip(tokens, rest):
        added = spelling(tokenizer, token)
        if added.startswith(" ") and (not filled or filled[-1].isspace()):
            added = added[1:]
        elif added and not added.startswith(" ") and tokenizer.kind != "character":
            filled = filled.removesuffix(" ")
        filled += added + after
    return filled
