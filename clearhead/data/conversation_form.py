"""The data of models that answer prompts: conversations, which are split and stored like pairs."""

from collections.abc import Iterator
from typing import Any

from ..config import DataConfig
from ..readers.pairs import Pairs
from ..readers.prompts.conversations import PROMPTS, Conversations, is_text, plain_text
from .corpus import LEARN, Corpus, SpacedTexts
from .forms import PairForm


class ConversationCorpus(Corpus):
    """Prompts with answers. The tokenizer learns from their plain text."""

    def texts(self, most: int = LEARN) -> tuple[SpacedTexts, tuple[()]]:
        return SpacedTexts(self, most, lambda it: plain_text(it[1], it[2])), ()

    @property
    def has_messages(self) -> bool:
        """True if a prompt consists of messages."""
        return any(not is_text(prompt) for _, prompt, _ in self)


class ConversationForm(PairForm):
    """Prompts with answers."""

    def __init__(self) -> None:
        super().__init__(PROMPTS)

    def open(self, paths: Any, data: DataConfig) -> Conversations:  # type: ignore[override]
        return Conversations(paths, data)

    def read(self, paths: Any, data: DataConfig) -> Pairs:
        with self.open(paths, data) as source:
            pairs = Pairs.of(source, source.report)
            return Pairs(pairs.sources, pairs.targets, pairs.lines, source.report)

    def divide(self, source: Any, share: float, seed: int) -> ConversationCorpus:
        return ConversationCorpus.of(source, share, seed)

    def preview(self, data: Pairs) -> Iterator[dict[str, str]]:
        yield from ({"prompt": plain_text(it, ""), "answer": to} for it, to in zip(data.sources, data.targets))
