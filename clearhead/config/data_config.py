"""Settings of the data."""

from dataclasses import dataclass
from typing import Literal

from .values import FRACTION, POSITIVE, check_types, fact, none_is_empty, require, setting

SEPARATORS = {
    "tab": "\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
}  # names, because some are hard to type in a shell

_SEVERAL = "|"  # separates the labels of a text, unless the setting has another mark
_NORMALISATIONS = ("NFC", "NFKC", "lowercase", "whitespace")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Data files, and settings for tokenization and batching."""

    train: tuple[str, ...] = setting(
        (), "training data: a file, a folder of files, two line-aligned files, or - for standard input"
    )
    valid: tuple[str, ...] = setting((), "validation data (default: a held-out split of the training data)")
    test: tuple[str, ...] = setting((), "test data, scored once after training")
    replay: tuple[str, ...] = setting(
        (),
        "with train.init_from, data to train on in every second batch, so that the model forgets less",
    )
    check: tuple[str, ...] = setting(
        (), "with train.init_from, data to score before and after training; the model card has the gain and the loss"
    )
    texts: tuple[str, ...] = setting(
        (), "additional unlabelled text for train.warm_start: one text per line, or JSON Lines with one text per object"
    )
    modality: Literal["text", "image", "audio"] = setting(
        "text", "modality of the sources: text, image or audio (default: detected from the data)"
    )
    source_column: str = setting("", "source column: header name, JSON key or 1-based index (default: detected)")
    target_column: str = setting("", "target column: header name, JSON key or 1-based index (default: detected)")
    separator: str = setting(
        "", "column separator: one character, or tab, comma, semicolon or pipe (default: detected)"
    )
    quoting: Literal["auto", "csv", "none"] = setting(
        "auto",
        "quotes in a table: csv for quotes around cells, as in RFC 4180; none for ordinary characters (default: auto, "
        "which is csv, except for a TSV without cells that need quotes)",
    )
    label_kind: str = setting(
        "",
        "several for any number of labels per text, or several:MARK if a character other than | separates them; "
        "targets if each of several columns has one label; number for numbers to predict (default: detected; "
        "otherwise one label)",
    )
    reverse: bool = setting(False, "swap source and target")
    store: str = setting("", "folder that keeps the encoded data for later runs (default: delete it after the run)")
    split: float = setting(
        0.02, "fraction of the distinct sources to hold out for validation without data.valid, at most 10,000"
    )
    tokenizer: Literal["bpe", "unigram", "word", "character"] = setting("bpe", "tokenizer algorithm")
    vocab_size: int | None = setting(
        None, "maximum vocabulary size, including special tokens (default: depends on the amount of data)"
    )
    joint: bool = setting(True, "share one vocabulary between source and target")
    subword_dropout: float = setting(
        0.0, "probability of skipping a BPE merge during training, so that each epoch splits words differently"
    )
    normalise: tuple[str, ...] = setting(
        ("NFC", "whitespace"),
        "how texts are normalised: NFC or NFKC (Unicode forms), lowercase, and whitespace (collapse runs of it to one "
        "space and strip both ends); or none",
    )
    max_len: int = setting(
        250, "maximum length of a source or target in tokens; longer examples are dropped or truncated, and reported"
    )
    batch_tokens: int | None = setting(
        None,
        "maximum number of source or target tokens per batch, including padding (default: depends on the amount of "
        "data)",
    )
    batch_sentences: int | None = setting(
        None, "maximum number of examples per batch (default: limited only by data.batch_tokens)"
    )
    template: str = setting(
        "", "chat template of a language model: a name, such as chatml, or JSON (default: depends on the data)"
    )
    unanswerable: bool = fact(
        False, "whether some training questions have no answer in their text (default: detected from the data)"
    )
    labels: tuple[str, ...] = fact(
        (), "all labels of the training data, or all voices (default: detected from the data)"
    )
    thresholds: tuple[float, ...] = fact(
        (), "probability from which a text has each label, if it can have several (chosen after training; default: 0.5)"
    )
    number_scale: tuple[float, ...] = fact(
        (),
        "mean and standard deviation of the training data's numbers, if data.label_kind is number (default: 0 and 1)",
    )
    digest: str = fact("", "SHA-256 of the training data (recorded by training)")
    name: str = setting("", "name of the data set, for the model card")
    source: str = setting("", "origin of the data, for the model card")
    licence: str = setting("", "licence of the data, for the model card")

    def __post_init__(self) -> None:
        check_types(self, "data")
        none_is_empty(self, "normalise")
        object.__setattr__(self, "normalise", tuple(sorted(self.normalise)))  # their order doesn't matter
        known = {*self.normalise} <= {*_NORMALISATIONS} and not {"NFC", "NFKC"} <= {*self.normalise}
        expected = f"none, or some of {', '.join(_NORMALISATIONS)}, with at most one Unicode form"
        require(known, "data.normalise", self.normalise, expected, what="isn't valid")
        fits = self.separator in ("", *SEPARATORS) or (len(self.separator) == 1 and self.separator not in '"\r\n')
        names = f"one character other than a quote or line break, or one of {', '.join(SEPARATORS)}"
        require(fits, "data.separator", self.separator, names, what="isn't a column separator")
        kind, colon, mark = self.label_kind.partition(":")
        fits = kind in ("", "several", "targets", "number") and (
            not colon or bool(kind == "several" and mark.strip(" \r\n"))
        )
        names = "several, several:MARK with a character such as ; that no label contains, targets, or number"
        require(fits, "data.label_kind", self.label_kind, names, what="isn't a kind of label")
        if mark == _SEVERAL:
            object.__setattr__(self, "label_kind", kind)
        fits = len(self.thresholds) in (0, len(self.labels)) and all(0 <= it <= 1 for it in self.thresholds)
        expected = f"a number from 0 to 1 for each of the {len(self.labels):,} labels, or none"
        require(fits, "data.thresholds", self.thresholds, expected)
        fits = not self.number_scale or (len(self.number_scale) == 2 and self.number_scale[1] > 0)
        require(fits, "data.number_scale", self.number_scale, "a mean and a deviation above 0, or none")
        require(0 <= self.split < 1, "data.split", self.split, FRACTION)
        enough = self.vocab_size is None or self.vocab_size >= 5
        require(enough, "data.vocab_size", self.vocab_size, "5 or more, since there are 4 special tokens")
        require(self.max_len >= 1, "data.max_len", self.max_len, POSITIVE)
        require(0 <= self.subword_dropout < 1, "data.subword_dropout", self.subword_dropout, FRACTION)
        merges = self.tokenizer == "bpe" or not self.subword_dropout
        what = f"needs BPE merges, but data.tokenizer={self.tokenizer!r} has none"
        require(merges, "data.subword_dropout", self.subword_dropout, "0", what=what,
                fix="set data.tokenizer=bpe, or data.subword_dropout=0")  # fmt: skip
        positive = self.batch_sentences is None or self.batch_sentences >= 1
        require(positive, "data.batch_sentences", self.batch_sentences, POSITIVE)
        positive = self.batch_tokens is None or self.batch_tokens >= 1
        require(positive, "data.batch_tokens", self.batch_tokens, POSITIVE)

    @property
    def label_separator(self) -> str:
        """The separator of the labels of a text, or "" if there's only one."""
        kind, _, mark = self.label_kind.partition(":")
        return mark or _SEVERAL if kind in ("several", "targets") else ""

    def expect_room(self, longest: int, what: str, fix: str = "") -> None:
        """Raise a ConfigError if a batch is too small for an example of `longest` tokens.

        Args:
            longest: the number of tokens that must fit into `data.batch_tokens`.
            what: a description of the example for the error message, such as "a recording of 30 seconds".
            fix: what to do instead of setting a larger value (default: nothing else).
        """
        holds = self.batch_tokens is None or self.batch_tokens >= longest
        what = f"is too small for {what}"
        require(holds, "data.batch_tokens", self.batch_tokens, f"{longest} or more", what=what, fix=fix)
