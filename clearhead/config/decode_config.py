"""Settings for decoding."""

from dataclasses import dataclass
from typing import Literal

from .values import NOT_NEGATIVE, POSITIVE, check_types, require, setting

_MOST = {
    "alpha": 100,
    "repetition_penalty": 1000,
    "beam": 1000,
    "n_best": 1000,
}  # larger values overflow numbers or memory


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Search and sampling settings (section 6.1)."""

    engine: str = setting("auto", "decoding engine; auto picks the fastest that's ready and answers as torch does")
    precision: Literal["fp32", "bf16", "int8"] = setting(
        "fp32", "numeric precision of decoding; bf16 and int8 are faster, and change some answers"
    )
    beam: int = setting(4, "beam size; 1 means greedy search")
    alpha: float = setting(0.6, "length penalty: scores are divided by ((5 + length) / 6)^alpha")
    n_best: int = setting(1, "number of answers per text, best first; at most the beam size")
    diverse: bool = setting(False, "start each of the n_best answers with a different token")
    max_extra: int = setting(50, "maximum number of tokens by which an answer can be longer than its source")
    max_len: int | None = setting(None, "maximum length of an answer in tokens")
    min_len: int = setting(0, "minimum length of an answer in tokens")
    max_ratio: float | None = setting(None, "maximum length of an answer, as a multiple of the source length")
    min_ratio: float = setting(0.0, "minimum length of an answer, as a multiple of the source length")
    no_repeat_ngram: int = setting(0, "length of n-grams that can't repeat within an answer; 0 allows all repeats")
    repetition_penalty: float = setting(
        1.0, "factor applied to the log-probability of tokens already in the answer; above 1 discourages repetition"
    )
    suppress: tuple[str, ...] = setting((), "tokens that are never generated, spelled as in the --json output")
    suppress_special: bool = setting(True, "never generate padding, the BOS token or unknown words")
    sample: bool = setting(False, "sample tokens instead of searching for the most likely answer")
    temperature: float = setting(1.0, "sampling temperature; below 1 sharpens the distribution, above 1 flattens it")
    top_k: int = setting(0, "sample only from the k most likely tokens; 0 means all tokens")
    top_p: float = setting(
        1.0, "nucleus sampling: sample from the smallest set of top tokens whose probabilities add up to at least this"
    )
    min_p: float = setting(0.0, "sample only tokens with at least this fraction of the top token's probability")
    unknown: Literal["error", "unk"] = setting(
        "error", "how to handle prompt characters missing from the vocabulary: stop with an error, or use <unk>"
    )
    seed: int = setting(0, "random seed for sampling; the same seed and text give the same answer")
    batch_tokens: int = setting(4096, "maximum number of tokens per batch, counting every beam and padding")

    def __post_init__(self) -> None:
        check_types(self, "decode")
        for name in ("beam", "n_best", "max_extra", "batch_tokens", "repetition_penalty"):
            require(getattr(self, name) >= 1, f"decode.{name}", getattr(self, name), POSITIVE)
        for name in ("alpha", "min_len", "min_ratio", "no_repeat_ngram", "top_k", "seed"):
            require(getattr(self, name) >= 0, f"decode.{name}", getattr(self, name), NOT_NEGATIVE)
        for name, most in _MOST.items():
            require(getattr(self, name) <= most, f"decode.{name}", getattr(self, name), f"{most} or less")
        require(self.temperature > 0, "decode.temperature", self.temperature, "a number above 0")
        require(0 < self.top_p <= 1, "decode.top_p", self.top_p, "above 0, and at most 1")
        require(0 <= self.min_p <= 1, "decode.min_p", self.min_p, "a number from 0 to 1")
        self._check_lengths()
        fits = self.sample or self.n_best <= self.beam
        what = f"is larger than decode.beam={self.beam}"
        require(fits, "decode.n_best", self.n_best, f"{self.beam} or less", what=what,
                fix="increase decode.beam, or set decode.sample=true")  # fmt: skip
        clear = not (self.sample and self.diverse)
        require(clear, "decode.diverse", self.diverse, "false", what="has no effect with decode.sample=true",
                fix="set one of them to false")  # fmt: skip

    def _check_lengths(self) -> None:
        longest = self.max_len is None or self.max_len >= max(self.min_len, 1)
        expected = f"{max(self.min_len, 1)} or more (decode.min_len={self.min_len})"
        require(longest, "decode.max_len", self.max_len, expected)
        widest = self.max_ratio is None or (self.max_ratio >= self.min_ratio and self.max_ratio > 0)
        expected = f"above 0, and at least decode.min_ratio={self.min_ratio}"
        require(widest, "decode.max_ratio", self.max_ratio, expected)
