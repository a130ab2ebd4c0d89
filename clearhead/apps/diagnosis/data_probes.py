"""Probes of the data: tokens, lengths, copies, and whether sources and targets belong together."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import settings
from ...errors import ClearheadError
from ...readers.columns import is_number
from ...tasks.classify.examples import LabelledExamples
from ...tasks.classify.task import Classification
from ...tasks.examples import Examples
from ...tasks.generate.examples import Blocks
from ...tasks.sequences import Sequences as TextToText
from ...tokenization.ragged import Ragged
from ...training.report.floors import Floors, surprisal_gaps
from .causes import Blame, Finding, certainty
from .diagnosed_run import Subject, sampled

_COMPARED, _WORDS, _SHUFFLES = 3000, 150, 10  # examples and frequent words to compare, and permutations of the targets
_FEWEST_WORDS, _MANY = 10, 150  # fewer frequent words in so many different texts say too little
_SURE = 1000  # examples whose relation would show if there was one
_WINDOW = 16  # tokens of running text that count as the same passage
_FEW = 400  # different examples
_SAMPLES = 1 << 14  # of a recording
_ROWS = 50_000  # texts whose tokens are counted


def data_probes(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about the data."""
    for probe in (_changed, _relation, _leak, _distinct, _labels, _coverage, _lengths):
        if (found := probe(subject)) is not None:
            yield found


def _changed(subject: Subject) -> Finding | None:
    if not subject.changed:
        return None
    return Finding("training data", "it isn't the data that the run read", {}, [Blame("data_changed", 0.5)])


# --- do sources and targets belong together? ------------------------------------------------------------------------


def _relation(subject: Subject) -> Finding | None:
    rows, examples = subject.rows, subject.data.examples if subject.data else None
    if not isinstance(examples, Examples):
        return None
    if subject.config.data.modality != "text":
        return _relation_of_media(subject, examples)
    if rows is None or "text" not in type(subject.task).modalities:
        return None
    ratio, doubt = relation(rows.sources, rows.targets)
    if not ratio:
        return None
    measured = f"words of sources and targets occur together {ratio:.2f} times as strongly as in shuffled data"
    numbers = {"strength": ratio, "doubt": doubt}
    if doubt < 0.05:
        return Finding("relation of sources and targets", measured, numbers)
    doubt *= min(len(rows) / _SURE, 1.0)
    numeric = [sum(map(is_number, side)) / len(side) for side in (rows.sources, rows.targets)]
    if subject.config.data.label_kind == "number":
        numeric[1] = 0.0  # as they should be, so that says nothing about the column
    better = _other_column(subject)
    blames = [Blame("unrelated", doubt)]
    side = "--label" if isinstance(examples, LabelledExamples) else "--target-column"
    if better or max(numeric) > 0.9:
        which = "--source-column" if numeric[0] > 0.9 else side
        blames.append(Blame("column", doubt, f"{which}={better or 'NAME'}"))
        measured += f"; {max(numeric):.0%} of the {'sources' if numeric[0] > 0.9 else 'targets'} are numbers" * (
            max(numeric) > 0.5
        )
        measured += f"; column {better} does belong to the other side" if better else ""
    return Finding("relation of sources and targets", measured, numbers | {"numbers": numeric}, blames)


def relation(sources: Sequence[str], targets: Sequence[str]) -> tuple[float, float]:
    """Return how much more often words of both sides occur together than in shuffled data, and the uncertainty of that.

    See `relation_of`. Lengths count as a word.
    """
    one, other = (text_features(list(side)[:_COMPARED]) for side in (sources, targets))
    return relation_of(one, other)


def relation_of(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Compare the sum of all squared correlations between features of both sides with that for shuffled targets.

    (N, F), (N, G) -> their ratio, and a doubt: 1 if data is like the shuffled one, and 0 if it's surely related.
    Returns (0, 0) if one side is always the same.
    """
    if not one.shape[1] or not other.shape[1] or len(one) < 50:
        return 0.0, 0.0
    dice = np.random.default_rng(0)
    strength = float(((one.T @ other) ** 2).sum())
    chance = [float(((one.T @ other[dice.permutation(len(other))]) ** 2).sum()) for _ in range(_SHUFFLES)]
    mean, spread = float(np.mean(chance)), float(np.std(chance, ddof=1))
    z = (strength - mean) / max(spread, 1e-3 * mean)
    return strength / mean, math.exp(-((max(z, 0.0) / 6) ** 2))


def text_features(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return which frequent words each text has, and its length, with mean 0 and norm 1 in each column. (N, F)"""
    words = [frozenset(_words(text)) | {text} for text in texts]
    numeric, place = all(map(is_number, texts)), _frequent(words)
    if len(place) < _FEWEST_WORDS and not numeric and len({*texts}) > _MANY:  # as in dates and codes
        words = [it | {text[n : n + 2] for n in range(len(text))} for it, text in zip(words, texts)]
        place = _frequent(words)
    found = np.zeros((len(texts), len(place) + 1))
    for row, it in enumerate(words):
        for word in it & place.keys():
            found[row, place[word]] = 1
    found[:, -1] = [float(text) if numeric else math.log(1 + len(text)) for text in texts]
    return _normalised(found)


def _frequent(words: Sequence[frozenset[str]]) -> dict[str, int]:
    """Number the words that are in the most texts, but not in almost all."""
    counts = Counter(word for it in words for word in it)
    common = sorted((it for it, n in counts.items() if 3 <= n <= 0.9 * len(words)), key=lambda it: (-counts[it], it))
    return {word: n for n, word in enumerate(common[:_WORDS])}


def _normalised(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give each column the mean 0 and the norm 1, and leave out constant ones. (N, F)"""
    features = features - features.mean(0)
    norms = np.linalg.norm(features, axis=0)
    return features[:, norms > 1e-9] / norms[norms > 1e-9]


def _relation_of_media(subject: Subject, examples: Examples) -> Finding | None:
    """Compare the brightness of parts of an image, or the spectrum of a recording, with the labels or words.

    They may be related in another way. So there's no blame if the model loses by the sources of other examples.
    """
    if not isinstance(subject.task, TextToText | Classification):
        return None
    rows = np.random.default_rng(0).permutation(len(examples))[:_COMPARED]
    sources = media_features([examples.sources.array(i) for i in rows], subject.config.data.modality)
    targets = [" ".join(map(str, examples.targets.array(i))) for i in rows]
    ratio, doubt = relation_of(sources, text_features(targets))
    if not ratio:
        return None
    own, other = subject.use_of_sources or (1.0, 1.0)
    doubt *= min(len(rows) / _SURE, 1.0) * (1 - certainty(other / max(own, 1e-9) - 1, 0.1))
    measured = (
        f"simple properties of sources and targets occur together {ratio:.2f} times as strongly as in shuffled data"
    )
    numbers = {"strength": ratio, "doubt": doubt}
    return Finding("relation of sources and targets", measured, numbers, [Blame("unrelated", doubt)])


def media_features(arrays: Sequence[NDArray[Any]], modality: str) -> NDArray[np.float64]:
    """Return the brightness of 64 parts of each image, or the energy of each recording in 32 bands. (N, F)"""
    if modality == "audio":
        arrays = [np.abs(np.fft.rfft(it[:_SAMPLES], _SAMPLES)) for it in arrays]
    parts = [[float(part.mean()) for part in np.array_split(it, 32 if modality == "audio" else 64)] for it in arrays]
    return _normalised(np.log1p(parts))


def _words(text: str) -> Sequence[str]:
    """Return the words of a text, or its characters if its script has no spaces."""
    words = text.casefold().replace("'", " ").split()
    return [*text] if len(text) > 12 * len(words) else words


def _other_column(subject: Subject) -> str:
    """Return the first target column, by its number, whose texts belong to the sources; "" if there's none."""
    for number in range(1, 9):
        data = replace(subject.config.data, target_column=str(number), labels=(), thresholds=())
        try:
            with subject.task.form.open(data.train, data) as source:
                pairs = sampled(source)
        except ClearheadError:
            continue
        if sum(a == b for a, b in zip(pairs.sources, pairs.targets)) > 0.5 * len(pairs):
            continue
        ratio, doubt = relation(pairs.sources, pairs.targets)
        if ratio and doubt < 0.05:
            return str(number)
    return ""


# --- the same examples twice ----------------------------------------------------------------------------------------


def _leak(subject: Subject) -> Finding | None:
    assert subject.data is not None
    examples, held = subject.data.examples, subject.held_out
    if held is examples:
        return None
    if isinstance(examples, Blocks):
        known, new = (_passages(it.documents.tokens) for it in (examples, held))
    elif isinstance(examples, Examples):
        known, new = (_rows(it) for it in (examples, held))
        if subject.config.data.modality == "text":  # unknown words and truncation can make texts the same
            longest = subject.task.longest[0] if isinstance(examples, LabelledExamples) else math.inf
            texts, unk = held.sides[0], subject.config.model.special.unk
            new = [it for n, it in enumerate(new) if texts.lengths[n] <= longest and unk not in texts.array(n)]
    else:
        return None
    seen = {*known}
    share = sum(it in seen for it in new) / max(len(new), 1)
    what = "passages" if isinstance(examples, Blocks) else "examples"
    measured = f"{share:.0%} of {len(new):,} validation {what} are also in the training data"
    numbers: dict[str, Any] = {"share": share}
    blames = [Blame("leak", certainty(share, 0.25))]
    labels = subject.floors if subject.floors is not None and subject.floors.bigram is None else None
    if labels is not None and (own := Floors.of(subject.task, examples, examples)) is not None:
        numbers |= {"unigram_in_training": own.unigram, "unigram": labels.unigram}
        measured += (
            f"; by frequencies, the loss of its labels is {labels.unigram:.2f}, and {own.unigram:.2f} in training"
        )
        blames.append(Blame("other_validation", certainty(labels.unigram - own.unigram - 0.2, 0.4)))
    if (gaps := _surprisal_gaps(subject)) is not None:
        tokens, pairs = gaps
        numbers |= {"unigram_gap": tokens, "bigram_gap": pairs}
        measured += f"; surprisal is {tokens:.2f} nats higher than in training data for tokens, {pairs:.2f} for pairs"
        blames.append(Blame("other_validation", certainty(_strangeness(gaps) - 0.45, 0.25)))
    return Finding("validation data", measured, numbers, blames)


def _surprisal_gaps(subject: Subject) -> tuple[float, float] | None:
    """Return how much more validation texts surprise, on the side where it's more; None for short ones."""
    assert subject.data is not None
    known = _tokens(subject, subject.data.examples, distinct=True)
    both = zip(known, _tokens(subject, subject.held_out))
    found = [surprisal_gaps(known, new) for known, new in both if len(known) > 1000 and len(new) > 100]
    return max(found, key=_strangeness, default=None)


def _tokens(subject: Subject, examples: Any, *, distinct: bool = False) -> Sequence[NDArray[Any]]:
    """Return the tokens of each side that has texts. Other targets are numbers, such as those of labels or places.

    Args:
        distinct: leave out texts that were there before.
    """
    if isinstance(examples, Blocks):
        return [np.asarray(examples.documents.tokens)]
    from_text, to_text = subject.config.data.modality == "text", isinstance(subject.task, TextToText)
    sides = [it for it, is_text in zip(examples.sides, (from_text, to_text)) if is_text]
    if not distinct:
        return [np.asarray(it.tokens) for it in sides]
    texts = ((np.asarray(it.array(n)) for n in range(min(len(it), _ROWS))) for it in sides)
    return [np.concatenate([*{text.tobytes(): text for text in side}.values()]) for side in texts]


def _strangeness(gaps: tuple[float, float]) -> float:
    """Weigh rare tokens, and rare pairs at most as much: texts that are in the training file twice make others rare."""
    tokens, pairs = gaps
    return tokens + min(pairs / 2, tokens)


def _passages(tokens: Any) -> list[bytes]:
    flat = np.asarray(tokens, np.int64)[:500_000]
    return [flat[i : i + _WINDOW].tobytes() for i in range(len(flat) - _WINDOW)]


def _rows(examples: Any) -> list[bytes]:
    sides: tuple[Ragged, Ragged] = examples.sides
    return [b"|".join(np.asarray(side.array(i), np.int64).tobytes() for side in sides) for i in range(len(examples))]


def _distinct(subject: Subject) -> Finding | None:
    assert subject.data is not None
    examples = subject.data.examples
    if not isinstance(examples, Examples):
        return None
    count, copies = len({*_rows(examples)}), 0.0
    if subject.rows is not None and subject.config.data.modality == "text":  # truncated texts can be the same by that
        count = max(count, len({*zip(subject.rows.sources, subject.rows.targets)}))
    measured = f"{count:,} of {len(examples):,} training examples are different"
    blames = [Blame("few_examples", certainty(math.log2(_FEW / max(count, 1)), 1.5))]
    if (rows := subject.rows) is not None and len(rows):
        copies = sum(a.strip() == b.strip() for a, b in zip(rows.sources, rows.targets)) / len(rows)
        measured += f"; {copies:.0%} have a target that equals the source"
        blames.append(Blame("copies", certainty(copies, 0.4)))
        sides = [("source", rows.sources, 0.4, 0.2), ("target", rows.targets, 0.0, 0.3)]
        for side, texts, some, enough in sides[: 1 + isinstance(subject.task, TextToText)]:
            same = Counter(texts).most_common(1)[0][1] / len(rows)
            measured += f"; {same:.0%} have the most common {side}"
            blames.append(Blame(f"same_{side}", certainty(same - some, enough)))
    if subject.config.data.split > 0.3 and not subject.config.data.valid:
        title = f"data.split={subject.config.data.split} leaves few examples to train on"
        blames.append(Blame("data.split", certainty(subject.config.data.split - 0.3, 0.3), "--split=0.02", title))
    numbers = {"different": count, "examples": len(examples), "copies": copies}
    return Finding("different examples", measured, numbers, blames)


def _labels(subject: Subject) -> Finding | None:
    assert subject.data is not None
    examples = subject.data.examples
    if not isinstance(examples, LabelledExamples) or subject.config.data.label_kind:
        return None
    shares = np.bincount(examples.numbers) / len(examples)
    label = subject.config.data.labels[int(shares.argmax())]
    measured = (
        f"the most common of {len(subject.config.data.labels)} labels, {label}, has {shares.max():.0%} of the examples"
    )
    weight = 0.0 if subject.config.train.balance else certainty(shares.max() - 0.8, 0.1)
    return Finding("labels", measured, {"largest": float(shares.max())}, [Blame("dominant", weight)])


# --- tokens and lengths ---------------------------------------------------------------------------------------------


def _coverage(subject: Subject) -> Finding | None:
    rows, task = subject.rows, subject.task
    if subject.config.data.modality != "text" or not subject.config.model.vocabulary_sizes:
        return None
    assert subject.data is not None
    flat, unk = [it[:500_000] for it in _tokens(subject, subject.data.examples)], subject.config.model.special.unk
    unknown = max((float((it == unk).mean()) for it in flat if len(it)), default=0.0)
    numbers: dict[str, Any] = {"unknown": unknown}
    measured = f"{unknown:.1%} of the tokens are unknown"
    blames, size = [], subject.config.data.vocab_size
    usual = subject.usual().data.vocab_size if size is not None else None
    fix = f"--data.vocab_size={usual}" if usual and size and usual > size else "--data.tokenizer=bpe"
    if rows is not None and len(rows):
        words = sum(len(it.split()) for it in rows.sources)
        pieces = sum(map(len, task.tokenizers.source.encode_batch(rows.sources)))
        numbers["tokens_per_word"] = pieces / max(words, 1)
        numbers["tokens_per_character"] = pieces / max(sum(map(len, rows.sources)), 1)
        measured += f", and a word of a source has {numbers['tokens_per_word']:.1f} tokens on average"
    if size is not None and usual is not None:
        measured += f"; the vocabulary has {size:,} tokens ({usual:,} are usual)"
    small = certainty(math.log2(usual / size) - 1, 1.5) if usual and size and size < usual else 0.0
    small *= subject.config.data.tokenizer in ("bpe", "unigram")
    small *= certainty(numbers.get("tokens_per_character", 1.0) - 0.3, 0.25)  # hardly longer than single characters?
    small *= 0.7 + 0.3 * subject.unlearned  # it may be a choice if the run learned much
    foreign = certainty(numbers.get("tokens_per_character", 0.0) - 1, 0.4)  # bytes, where there were no such texts
    if subject.config.train.init_from:
        fix = "leave out --init-from, or start from a model of such texts"
    blames.append(Blame("vocabulary", 1 - (1 - certainty(unknown, 0.15)) * (1 - small) * (1 - foreign), fix))
    return Finding("vocabulary", measured, numbers, blames)


def _lengths(subject: Subject) -> Finding | None:
    rows, task, limit = subject.rows, subject.task, subject.config.data.max_len
    if rows is None:
        assert subject.data is not None
        if not isinstance(subject.data.examples, Blocks):
            return None
        default = type(task).defaults.get("data.max_len", limit)
        weight = certainty(math.log2(default / limit) - 2, 1.5) if limit < default else 0.0
        measured = f"a block has {limit} tokens ({default} are usual)"
        return Finding(
            "lengths",
            measured,
            {"block": limit},
            [Blame("data.max_len", weight, f"--data.max_len={default}", _short(limit))],
        )
    found = task.encoder(rows)
    dropped = len(found.skipped) / max(len(rows), 1)
    noticed = (*found.cut, *found.unknown)  # where a classifier reports texts that it truncates
    cut = len([it for it in noticed if "longer" in it.reason]) / max(len(rows), 1)
    measured = f"{dropped:.0%} of the examples are dropped as too long, and {cut:.0%} are truncated"
    usual = type(task).defaults.get("data.max_len", settings()["data.max_len"].default)
    harm = cut * certainty(math.log2(usual / limit), 1.0) if limit < usual else 0.0  # beginnings may say enough
    blame = Blame(
        "data.max_len", certainty(dropped + harm, 0.4), f"--data.max_len={max(usual, 2 * limit)}", _short(limit)
    )
    return Finding("lengths", measured, {"dropped": dropped, "cut": cut, "limit": limit}, [blame])


def _short(limit: int) -> str:
    return f"data.max_len={limit} is too short for the texts"
