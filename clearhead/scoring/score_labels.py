"""Display names, formats and descriptions of all scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config.values import counted
from ..pictures.figures import BLEU, Curve


@dataclass(frozen=True)
class Label:
    """Name, format and description of a score.

    Args:
        digits: number format, such as ".2f".
        note: description of what the score measures.
        usual: whether to show it on the model card and in one-line summaries.
        lower: whether lower values are better.
        of_tokens: whether it's computed over target tokens, which excludes examples that are too long.
    """

    name: str
    digits: str
    note: str
    usual: bool = True
    lower: bool = False
    of_tokens: bool = False

    def number(self, value: float) -> str:
        return f"{value:{self.digits}}"


class _Labels(dict[str, Label]):
    """Labels keyed by score. Scores of custom tasks get a default label."""

    def __missing__(self, score: str) -> Label:
        return Label(score.replace("_", " "), ".4f", "")


LABELS = _Labels(
    {
        "bleu": Label("BLEU", ".2f", "word n-grams shared with the references"),
        "chrf": Label("chrF", ".2f", "character n-grams shared with the references"),
        "cer": Label("CER", ".4f", "character error rate: edits per character of the reference", lower=True),
        "wer": Label("WER", ".4f", "word error rate: edits per word of the reference", lower=True),
        "mel_distortion": Label("mel distortion", ".2f", "dB between spectrograms, as aligned best", lower=True),
        "exact_match": Label("exact match", ".4f", "share of answers that equal a reference"),
        "f1": Label("F1", ".4f", "words shared with the best reference"),
        "rouge1": Label("ROUGE-1", ".2f", "F1 of the words shared with the reference"),
        "rouge2": Label("ROUGE-2", ".2f", "F1 of the shared bigrams"),
        "rougeL": Label("ROUGE-L", ".2f", "F1 of the longest common subsequence"),
        "bits_per_byte": Label("bits per byte", ".4f", "-log2 p per byte of text", lower=True),
        "nats_per_character": Label("nats per character", ".4f", "-log p per character", lower=True),
        "accuracy": Label("accuracy", ".4f", "share of correct labels"),
        "micro_f1": Label("micro F1", ".4f", "F1 of all decisions whether a text has a label"),
        "macro_f1": Label("macro F1", ".4f", "mean F1 of the labels"),
        "mean_average_precision": Label("mAP", ".4f", "mean area under the precision-recall curves of the labels"),
        "rmse": Label("RMSE", ".4g", "root of the mean squared error", lower=True),
        "mse": Label(
            "squared error", ".4g", "mean squared difference from the correct number", usual=False, lower=True
        ),
        "pearson": Label("Pearson", ".4f", "correlation with the correct numbers"),
        "spearman": Label("Spearman", ".4f", "correlation of the ranks"),
        "negative_log_likelihood": Label("nats per example", ".4f", "-log p of the correct label", lower=True),
        "calibration_error": Label(
            "calibration", ".4f", "mean gap between confidence and accuracy, in 15 bins", False, lower=True
        ),
        "unseen_labels": Label("unseen labels", ",d", "with a label that training lacks; they count as wrong", False),
        "mean_cost": Label("mean cost", ".4f", "of an answer, by --costs", usual=False, lower=True),
        "right_probability": Label("p", ".4f", "probability of the correct label", usual=False),
        "hidden_accuracy": Label("masked tokens", ".4f", "share of correctly predicted masked tokens"),
        "hidden_nats": Label("nats per token", ".4f", "-log p of the masked tokens", usual=False, lower=True),
        "hidden_perplexity": Label("their perplexity", ".2f", "per token", lower=True),
        "token_accuracy": Label("token accuracy", ".4f", "given the reference so far", usual=False, of_tokens=True),
        "perplexity": Label("perplexity", ".2f", "per token", usual=False, of_tokens=True),
        "unknown": Label("unknown tokens", ",d", "read as <unk>; the scores ignore what they stand for", usual=False),
    }
)
BASELINES = {  # labels of baseline answers, which need no model
    "first_3": "the first 3 sentences or turns",
    "longest_3": "the longest 3 sentences or turns",
    "no_answer": "never answering",
    "first_sentence": "the first sentence",
    "closest_sentence": "the sentence with the most words of the question",
    "closest_window": "four words near those of the question",
}
_NO_SCORES = {"loss", "step", "epoch", "seconds", "averaged"}  # other keys in the records of a run
# keys for the number of scored items
_COUNTS = ("sentences", "documents", "characters", "questions", "texts", "images", "recordings")


def count(scores: Mapping[str, Any]) -> tuple[str, int]:
    """Return the kind and the number of the scored items, such as ("sentences", 500)."""
    name = next(name for name in _COUNTS if name in scores)
    return name, scores[name]


def count_of(scores: Mapping[str, Any]) -> str:
    """Return the number of scored items as text, such as "500 sentences"."""
    name, number = count(scores)
    return counted(number, name)


def usual(scores: Mapping[str, Any]) -> dict[str, str]:
    """Return the most important scores as formatted text, keyed by display name."""
    usual = [key for key in _keys(scores) if LABELS[key].usual]
    return {_name(key, scores): LABELS[key].number(scores[key]) for key in usual}


def spoken(scores: Mapping[str, Any]) -> str:
    """Return the most important scores in one line."""
    return "  ".join(f"{name} {number}" for name, number in usual(scores).items())


def rows(scores: Mapping[str, Any], too_long: int = 0) -> list[tuple[str, str, str]]:
    """Return the label, the formatted value and a note for every score. The note is the signature, if there is one.

    Args:
        scores: plain values, as returned by `TaskScores.to_dict`.
        too_long: the number of examples excluded from token scores.
    """
    found = []
    for key in _keys(scores):
        label = LABELS[key]
        note = scores.get(f"{key}_signature", label.note)
        without = f", without the {too_long:,} longest examples" if too_long and label.of_tokens else ""
        found.append((_name(key, scores), label.number(scores[key]), note + without + _within(label, scores, key)))
    return found


def _name(key: str, scores: Mapping[str, Any]) -> str:
    """Return the display name of a score, with the noun for what is scored."""
    name = LABELS[key].name
    return name if "texts" in scores or "text" not in name.split() else name.replace("text", count(scores)[0][:-1])


def _keys(scores: Mapping[str, Any]) -> list[str]:
    """Return the names of the scores in the order of LABELS, followed by those of a custom task."""
    others = LABELS.keys() | _NO_SCORES
    custom = [key for key, value in scores.items() if type(value) is float and key not in others]
    return [key for key in LABELS if key in scores] + custom


def _within(label: Label, scores: Mapping[str, Any], key: str) -> str:
    """Return the 95% interval of a score as text, "" if unknown."""
    low, high = scores.get(f"{key}_interval", (None, None))
    return "" if low is None else f"; 95%: {label.number(low)} to {label.number(high)}"


def more_lines(scores: Mapping[str, Any]) -> list[str]:
    """Return a line for each baseline that was scored, each target of a classifier, and the cheapest rejection."""
    named = {BASELINES[name]: values for name, values in scores.get("baselines", {}).items()}
    found = [f"{name}: {spoken(values)}" for name, values in (named | scores.get("targets", {})).items()]
    return [*found, cheapest_rejection(scores["cheapest_rejection"])] if "cheapest_rejection" in scores else found


def cheapest_rejection(found: Mapping[str, float]) -> str:
    """Return a sentence on the confidence below which rejecting is cheapest; see `Costs.to_dict`."""
    share, cost = f"{found['rejected']:.1%}", LABELS["mean_cost"].number(found["mean_cost"])
    if found["rejected"] in (0, 1):
        which = "all answers" if found["rejected"] else "no answers"
        return f"it's cheapest to reject {which}, at a mean cost of {cost}"
    which = f"answers with a confidence below {found['confidence']} ({share})"
    return f"it's cheapest to reject {which}, at a mean cost of {cost}"


def curve(records: Sequence[Mapping[str, Any]], best: str) -> Curve:
    """Return the curve to draw below the loss: the score `best`, or else the most important one in the records."""
    for name in (best, *LABELS):
        if name != "loss" and any(f"valid_{name}" in record for record in records):
            label = LABELS[name]
            return Curve(name, label.name, label.digits, label.lower)
    return BLEU


def what_was_cut(number: int, sources: str = "sources") -> str:
    """Return a message about sources that are too long for the model."""
    return f"{counted(number, sources)} too long for the model: only the beginning is read"


def signatures(scores: Mapping[str, Any]) -> list[str]:
    """Return the signatures that make scores reproducible."""
    return [str(value) for key, value in scores.items() if key.endswith("_signature")]
