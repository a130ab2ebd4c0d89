"""The scores of all tasks in words: one table of their labels, for terminals, model cards and messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..pictures.figures import BLEU, Curve


@dataclass(frozen=True)
class Label:
    """How a score is shown: its name, its digits, and what it is."""

    name: str
    digits: str
    note: str
    usual: bool = True  # in a line of few words, and on a model card
    lower: bool = False  # is better
    of_tokens: bool = False  # counts what was read as tokens, which may be too long

    def number(self, value: float) -> str:
        """The value, as wide as it is."""
        return f"{value:{self.digits}}"


LABELS = {
    "bleu": Label("BLEU", ".2f", "n-grams of words in common with the references"),
    "chrf": Label("chrF", ".2f", "n-grams of letters in common with the references"),
    "exact_match": Label("exact match", ".4f", "share of answers that equal a reference"),
    "f1": Label("F1", ".4f", "words in common with the reference that suits best"),
    "rouge1": Label("ROUGE-1", ".2f", "F1 of the words in common with the reference"),
    "rouge2": Label("ROUGE-2", ".2f", "F1 of the pairs of words"),
    "rougeL": Label("ROUGE-L", ".2f", "F1 of the words in the same order"),
    "bits_per_byte": Label("bits a byte", ".4f", "what a byte of the text takes", lower=True),
    "nats_per_character": Label("nats a character", ".4f", "-log p of a character", lower=True),
    "accuracy": Label("accuracy", ".4f", "share of texts that get their label"),
    "macro_f1": Label("macro F1", ".4f", "mean over the labels of 2 P R / (P + R), precision and recall"),
    "negative_log_likelihood": Label("nats a text", ".4f", "-log p of the right label", lower=True),
    "calibration_error": Label(
        "calibration", ".4f", "how far probabilities are from the share of right labels, in 15 bins", False, lower=True
    ),
    "unseen_labels": Label("unseen labels", ",d", "texts whose label training did not have: they are wrong", False),
    "right_probability": Label("p", ".4f", "probability of the right label", usual=False),
    "hidden_accuracy": Label("hidden tokens", ".4f", "share of the tokens of texts with a part hidden that are found"),
    "hidden_perplexity": Label("perplexity of them", ".2f", "a token", lower=True),
    "token_accuracy": Label("token accuracy", ".4f", "given the reference so far", usual=False, of_tokens=True),
    "perplexity": Label("perplexity", ".2f", "a token", usual=False, of_tokens=True),
    "unknown": Label("unknown tokens", ",d", "read as <unk>: what they stand for is in no score", usual=False),
}
BASELINES = {  # answers without a model
    "first_3": "the first 3 sentences or turns",
    "longest_3": "the longest 3 sentences or turns",
    "no_answer": "no answer to any question",
    "first_sentence": "the first sentence",
    "closest_sentence": "the sentence with most words of the question",
    "closest_window": "four words near those of the question",
}
_COUNTS = ("sentences", "documents", "characters", "questions", "texts")  # of what was scored, by its name


def count(scores: Mapping[str, Any]) -> tuple[str, int]:
    """What was scored, and how many of them: "sentences", 500."""
    name = next(name for name in _COUNTS if name in scores)
    return name, scores[name]


def count_of(scores: Mapping[str, Any]) -> str:
    """The same in words: "500 sentences"."""
    name, number = count(scores)
    return f"{number:,} {name if number != 1 else name.removesuffix('s')}"


def usual(scores: Mapping[str, Any]) -> dict[str, str]:
    """The most telling scores that are there, by their labels."""
    return {label.name: label.number(scores[key]) for key, label in LABELS.items() if label.usual and key in scores}


def spoken(scores: Mapping[str, Any]) -> str:
    """The same in one line."""
    return "  ".join(f"{name} {number}" for name, number in usual(scores).items())


def rows(scores: Mapping[str, Any], too_long: int = 0) -> list[tuple[str, str, str]]:
    """Every score that is there: its label, its value and what it is, or the signature with which others reproduce it.

    Those of tokens do not count `too_long` examples.
    """
    found = []
    for key, label in LABELS.items():
        if key in scores:
            note = scores.get(f"{key}_signature", label.note)
            without = f", without the {too_long:,} longest examples" if too_long and label.of_tokens else ""
            found.append((label.name, label.number(scores[key]), note + without + _within(label, scores, key)))
    return found


def _within(label: Label, scores: Mapping[str, Any], key: str) -> str:
    """Where 95% of resampled scores lie, where that was found."""
    low, high = scores.get(f"{key}_interval", (None, None))
    return "" if low is None else f"; 95%: {label.number(low)} to {label.number(high)}"


def beside(scores: Mapping[str, Any]) -> list[str]:
    """What can be had without a model, a line each, where that was scored, too."""
    return [f"{BASELINES[name]}: {spoken(values)}" for name, values in scores.get("baselines", {}).items()]


def curve(records: Sequence[Mapping[str, Any]], best: str) -> Curve:
    """What is drawn beside the loss: the score that weights are chosen by, otherwise the most telling one that the
    records of `metrics.jsonl` have."""
    for name in (best, *LABELS):
        if name in LABELS and any(f"valid_{name}" in record for record in records):
            return Curve(name, LABELS[name].name, LABELS[name].digits, LABELS[name].lower)
    return BLEU


def what_was_cut(number: int, sources: str = "sources") -> str:
    """In words, for people, of those whose end the model cannot read; `sources` is what they are called."""
    name = sources if number != 1 else sources.removesuffix("s")
    return f"{number:,} {name} too long for the model: only the beginning is read"


def signatures(scores: Mapping[str, Any]) -> list[str]:
    """What makes scores reproducible."""
    return [str(value) for key, value in scores.items() if key.endswith("_signature")]
