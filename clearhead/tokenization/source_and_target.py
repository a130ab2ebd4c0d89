"""The tokenizers of a model's two sides, source and target, which may be the same."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from ..config import DataConfig, ModelConfig, SpecialTokens
from ..errors import ModelError
from .backend import as_exceptions, open_backend, patterns
from .codebook import KEY, Codebook
from .foreign import ForeignTokenizer
from .learning import SPECIALS
from .normalise import NEVER, PATTERNS
from .tokenizer import KINDS, Tokenizer

_SIDES = ("src_vocab_size", "tgt_vocab_size")
_RESTORE = "restore the folder from its source or a backup"


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of a model's two sides: the same object twice if the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """True if both sides share one vocabulary."""
        return self.source is self.target

    @property
    def pieces(self) -> dict[str, Callable[[Iterable[int]], list[str]]]:
        """Functions that convert the token ids of each stack of a model to text."""
        return {"encoder": self.source.pieces, "decoder": self.target.pieces}

    def with_specials(self) -> Self:
        """Return the tokenizers that read names of special tokens in a text; see `Tokenizer.with_specials`."""
        source = self.source.with_specials()
        return type(self)(source, source if self.joint else self.target.with_specials())

    def warning(self, say: Callable[[str], None]) -> Self:
        """Have the first text that names special tokens reported, and return the tokenizers."""
        for tokenizer in {self.source, self.target}:
            tokenizer.say = say
        return self

    def to_json(self) -> str:
        """Return the content of one file: a `tokenizers` file if joint, else {"source": ..., "target": ...}.

        If the targets are sounds, {"codebook": ...} has their patches.
        """
        if self.joint:
            return self.source.to_json()
        sides = two_sides(self.source.to_json(), self.target.to_json())
        return f"{sides[:-1]},\n{self.target.patches_json()}}}" if isinstance(self.target, Codebook) else sides

    @classmethod
    def from_json(cls, text: str, special: SpecialTokens, *, origin: str, sizes: tuple[int, int] = (0, 0)) -> Self:
        """Read what `to_json` wrote, or another program's `tokenizers` file.

        Args:
            special: the ids of the special tokens, the same on both sides.
            origin: the name of the file, for messages.
            sizes: the numbers of source and target tokens that the model has.

        Raises:
            ModelError: the file is damaged.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise bad_file(origin, "is damaged: it isn't JSON") from error
        if isinstance(content, dict) and content.keys() - {KEY} == {"source", "target"}:
            source, target = (
                tokenizer_from_json(
                    json.dumps(own := content[side]), special, origin=f"{origin} ({side})", size=size, content=own
                )
                for side, size in zip(("source", "target"), sizes)
            )
            return cls(source, _codebook(content[KEY], origin) if KEY in content else target)
        one = tokenizer_from_json(text, special, origin=origin, size=max(sizes), content=content)
        return cls(one, one)

    @classmethod
    def for_model(cls, text: str, model: ModelConfig, *, origin: str) -> Self:
        """Read the tokenizers of a model.

        Args:
            text: what `to_json` wrote, or another program's `tokenizers` file.
            model: settings of the model, with its special tokens and vocabulary sizes.
            origin: the name of the file, for messages.

        Raises:
            ModelError: the file is damaged, or belongs to another model.
        """
        source, target = (model.vocabulary_sizes.get(name, 0) for name in _SIDES)
        found = cls.from_json(text, model.special, origin=origin, sizes=(source, target))
        found.check_sizes(model, origin=origin)
        return found

    def check_sizes(self, model: ModelConfig, *, origin: str) -> None:
        """Raise ModelError if a vocabulary size differs from the model's, or lacks one of its special tokens."""
        for name, expected in model.vocabulary_sizes.items():
            tokenizer = self.source if name == _SIDES[0] else self.target
            if tokenizer.vocab_size != expected:
                size = tokenizer.vocab_size
                what = f"{origin} has {size:,} tokens, but the model was trained with {expected:,}"
                own = f"the tokenizer of this model, with model.{name}={expected}"
                raise ModelError(what, expected=own, fix=_RESTORE, name=f"model.{name}", value=size)
            beyond = [it for it in model.special.ids - {model.pad_id} if it >= expected]
            if beyond:
                what = f"the special token {max(beyond)} is beyond the vocabulary of {expected:,} tokens"
                ids = "model.bos_id, eos_id, unk_id, mask_id and start_id below the size of the vocabulary"
                raise ModelError(what, expected=ids, fix=_RESTORE, name=f"model.{name}", value=max(beyond))


def _codebook(content: Any, origin: str) -> Codebook:
    try:
        return Codebook.from_content(content)
    except Exception as error:  # anything may be in the place of anything else
        raise bad_file(origin, f"is damaged: its codebook can't be read ({error!r})") from error


def two_sides(source: str, target: str) -> str:
    """Return the content of one file with the tokenizers of both sides, from that of their `tokenizers` files."""
    return f'{{"source": {source},\n"target": {target}}}'


@dataclass(frozen=True)
class _Joint(Iterable[str]):
    """The texts of one side, then those of the other. Can be read repeatedly."""

    sources: Iterable[str]
    targets: Iterable[str]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain(self.sources, self.targets)


def train_tokenizers(sources: Iterable[str], targets: Iterable[str], data: DataConfig) -> Tokenizers:
    """Learn one vocabulary from both sides, or one per side.

    Args:
        sources: source texts; see `Tokenizer.train`.
        targets: target texts.
        data: kind, size and normalisation. `data.joint` asks for one vocabulary.
    """
    if data.joint:
        one = Tokenizer.train(_Joint(sources, targets), data)
        return Tokenizers(one, one)
    return Tokenizers(Tokenizer.train(sources, data), Tokenizer.train(targets, data))


def tokenizer_from_json(
    text: str, special: SpecialTokens, *, origin: str, size: int = 0, content: Any = None
) -> Tokenizer:
    """Read a `tokenizers` file: one that `Tokenizer.to_json` wrote, or another program's.

    Args:
        special: the ids of its special tokens.
        origin: the name of the file, for messages.
        size: the number of tokens that the model has, which may be larger in another program's model.
        content: the text as parsed JSON, if it's known. Parsing a large file takes a while.

    Raises:
        ModelError: the file is damaged.
    """
    try:
        content = json.loads(text) if content is None else content
        if special != SpecialTokens() or not _is_own(content):
            return ForeignTokenizer(text, content, special, size)
        backend = open_backend(text, content)
        with as_exceptions():
            backend.encode(NEVER)  # so that a wrong name for <unk> shows here
    except Exception as error:  # the library raises no narrower type
        raise bad_file(origin, f"is damaged, or isn't a tokenizer file ({error})") from error
    steps = (backend.normalizer, backend.pre_tokenizer, backend.decoder)
    gaps = set(range(len(SPECIALS) + 1, backend.get_vocab_size())) - set(backend.get_vocab().values())
    if None in steps or gaps or type(backend.model) not in KINDS:
        raise bad_file(origin, "lacks a part of its pipeline or vocabulary")
    return Tokenizer(backend, special)


def _is_own(content: dict[str, Any]) -> bool:
    """Return whether a file was written by `to_json`: it begins with our special tokens and splits as we do."""
    steps = (content["pre_tokenizer"] or {}).get("pretokenizers", ())
    added = [(it["id"], it["content"]) for it in content["added_tokens"]]
    types = [it["type"] for it in steps]
    return types == ["Split", "ByteLevel"] and added == [*enumerate(SPECIALS)] and patterns(steps)[0] in PATTERNS


def bad_file(origin: str, problem: str) -> ModelError:
    """Return the error for a tokenizer file that can't be used."""
    expected = "the file that training wrote"
    fix = "restore it from a copy of the model folder, or train again"
    return ModelError(f"{origin} {problem}", expected=expected, fix=fix, name=origin)
