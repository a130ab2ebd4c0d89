"""Check the lines of training data: read them in parts, and look for faults in each part."""

import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ..config import Config
from ..data.corpus import almost_alike
from ..data.forms import PairForm, TextForm
from ..data.split import spelling
from ..errors import DataError
from ..readers.documents import Piece
from ..readers.lines import shown
from ..tasks.detect import find_task, with_modality, with_task
from ..tasks.registry import task_of
from .clean_files import Change, expect_outputs, write_clean
from .findings import KINDS, DataCheck, Finding
from .label_noise import label_noise
from .languages import Column, copies, language_faults
from .misalignment import alignment_faults
from .near_duplicates import near_duplicates
from .repair import repaired
from .text_faults import boilerplate, decoding_faults, personal_data, rare_characters

_MOST, _CELLS = 50_000, 16_000_000  # examples of a part, and products of the lengths of source and target in words
_FIRST, _RARELY = 5000, 500  # lines for a first look, of which more than one in 500 have to be faulty
_WORD = 5  # letters of a word, about
_LONGEST = 600  # letters of a side that count
_ENOUGH = 20  # minimum letters of a line of running text that may not be repeated

Example = tuple[int, str, str]  # line, text, target or label; running text has no target
Seen = dict[tuple[int, int], int]  # the line on which an example was seen first, in any part, by its hashes


@dataclass
class Faults:
    """The faults of some examples, by their index: {index: {kind: reason}}."""

    found: dict[int, dict[str, str]] = field(default_factory=dict)
    partners: dict[int, int] = field(default_factory=dict)  # the examples that have the targets of shifted ones

    def add(self, kind: str, faults: Iterable[tuple[int, str]]) -> None:
        """Add faults of a kind, as (index, reason). The first reason of an example is kept."""
        for place, reason in faults:
            self.found.setdefault(place, {}).setdefault(kind, reason)

    def dropped(self) -> set[int]:
        """Return the examples that a clean file leaves out."""
        return self.places(*(kind for kind, it in KINDS.items() if not it.kept))

    def places(self, *kinds: str) -> set[int]:
        """Return the examples that have a fault of these kinds."""
        return {place for place, found in self.found.items() if not found.keys().isdisjoint(kinds)}


def first_look(examples: Iterable[Example], *, of_pairs: bool) -> str:
    """Return a sentence on what's wrong with the first lines of training data, or "" if at most one in 500 is.

    It finds what's quick to find: texts that were decoded wrongly, and targets that are copies of their sources.
    """
    first = [*islice(examples, _FIRST)]
    sources, targets = [it[1] for it in first], [it[2] for it in first]
    faults = Faults()
    faults.add("wrong decoding", decoding_faults(sources))
    if of_pairs:
        faults.add("wrong decoding", decoding_faults(targets))
        faults.add("copied", copies(sources, targets))
    if len(faults.found) <= len(first) / _RARELY:
        return ""
    kinds = Counter(kind for found in faults.found.values() for kind in found)
    named = ", ".join(f"{kind}: {count:,}" for kind, count in kinds.items())
    some = f"{len(faults.found):,} of the first {len(first):,} lines look{'s' * (len(faults.found) == 1)} faulty"
    return f"{some} ({named}); `clearhead check` finds all of them"


def check_data(
    config: Config,
    say: Callable[[str], None],
    out: Sequence[Path] = (),
    dropped: Path | None = None,
    *,
    repair: bool = False,
) -> DataCheck:
    """Look for faulty lines in data.train, and for leaks from data.valid and data.test.

    Args:
        config: settings for reading; the task is detected if it isn't set.
        say: receives messages.
        out: files for the lines that aren't faulty, one for each side of aligned files (see `write_clean`).
        dropped: a file for the others.
        repair: write lines whose fault can be undone with certainty to `out`, too.

    Raises:
        DataError: the data can't be read, or isn't text, pairs of texts, or texts with labels.
    """
    if config.train.task is None:
        config = with_task(config, say)
    else:
        config = with_modality(config)
        say(str(find_task(config.data.train, config.data, task=config.train.task)))
    task = task_of(config)
    config = task.settle(config)
    form: Any = task.form
    if type(form) not in (PairForm, TextForm):
        what = f"{' and '.join(config.data.train)} has data for `{task.verb}`, which can't be checked"
        raise DataError(what, expected="pairs of texts, texts with labels, or running text", value=task.verb)
    held_out = {name: _texts(form, paths, config) for name, paths in _held_out(config).items()}
    findings, lines, notes, n_parts, seen = list[Finding](), array("q"), dict[str, None](), 0, Seen()
    changed = dict[int, Change]()
    with form.open(config.data.train, config.data) as source:
        expect_outputs(source, out)
        source.report.most = sys.maxsize  # every unusable line
        kind = "texts" if isinstance(form, TextForm) else "labels" if form.roles.labels else "pairs"
        for part in _parts(_lines(source) if kind == "texts" else source, kind):
            n_parts += 1
            lines.extend(line for line, *_ in part)
            faults, said = _check(part, kind, config, seen, held_out)
            notes |= dict.fromkeys(said)
            new = _repaired(part, faults, kind, config, seen, held_out) if repair else {}
            changed |= {part[place][0]: (part[place][1:], it) for place, it in new.items()}
            for place, found in sorted(faults.found.items()):
                line, *sides = part[place]
                text, better = (
                    "" if "personal" in found else "\t".join(filter(None, it)) for it in (sides, new.get(place, ()))
                )
                put = better if place in new else None
                findings += [Finding(line, name, reason, text, put) for name, reason in found.items()]
        report = source.report
        findings += [Finding(it.line, "unreadable", it.reason, it.text) for it in report.examples]
        if n_parts > 1:
            notes[f"checked in {n_parts:,} parts, each for itself, except for repeated lines"] = None
        report = replace(report, examples=[], skipped={})
        check = DataCheck(report, kind, lines, sorted(findings, key=lambda it: it.line), [*notes], repair)
        if out or dropped:
            check = check.without_repair(write_clean(source, check, out, dropped, changed))
    return check


def _held_out(config: Config) -> dict[str, Sequence[str]]:
    named = {"validation": config.data.valid, "test": config.data.test}
    return {name: paths for name, paths in named.items() if paths}


def _texts(form: Any, paths: Sequence[str], config: Config) -> dict[str, str]:
    """Return every source, or every longer line of running text, by its spelling."""
    with form.open(paths, config.data) as source:
        texts = (text for _, text, _ in (_lines(source) if isinstance(form, TextForm) else source))
        return {key: text for text in texts if len(key := spelling(text)) >= _ENOUGH * isinstance(form, TextForm)}


def _lines(pieces: Iterable[Piece]) -> Iterator[Example]:
    """Yield the lines of running text that aren't blank. A text in JSON is one line."""
    for piece in pieces:
        lines = [piece.text] if piece.escaped else [line.removesuffix("\r") for line in piece.text.split("\n")]
        yield from ((piece.line + number, line, "") for number, line in enumerate(lines) if line.strip())


def _parts(examples: Iterable[Example], kind: str) -> Iterator[list[Example]]:
    """Yield parts that fit into memory, none of which is much smaller than the others."""
    part, cost, cut = list[Example](), 0.0, 0
    for example in examples:
        _, text, target = example
        part.append(example)
        cost += min(len(text), _LONGEST) * min(len(target), _LONGEST) / _WORD**2 if kind == "pairs" else len(text)
        if not cut and (len(part) == _MOST or cost >= _CELLS):
            cut, cost = len(part), 0.0
        elif cut and len(part) >= 1.5 * cut:
            yield part[:cut]
            part, cut = part[cut:], 0
    if part:
        yield part


def _check(
    part: list[Example], kind: str, config: Config, seen: Seen, held_out: dict[str, dict[str, str]]
) -> tuple[Faults, list[str]]:
    """Return the faults of one part, and notes on what wasn't checked."""
    faults, texts = Faults(), [text for _, text, _ in part]
    sides = [texts, [target for *_, target in part]] if kind == "pairs" else [texts]
    for side in sides:
        faults.add("encoding", decoding_faults(side))
        faults.add("boilerplate", boilerplate(side))
        faults.add("characters", rare_characters(side))
        faults.add("personal", ((i, why) for i, text in enumerate(side) if (why := personal_data(text))))
        longest = config.data.max_len if kind == "pairs" else 1 << 62
        faults.add("long", ((i, f"more than {longest} words") for i, it in enumerate(side) if _is_long(it, longest)))
    keys = [spelling(text) for text in texts]
    for name, known in held_out.items():
        faults.add("leak", ((i, f"also in the {name} data") for i, key in enumerate(keys) if key in known))
    near = _near_leaks(dict(zip(reversed(keys), reversed(texts))), held_out) if held_out else {}
    faults.add("leak", ((i, f"nearly as in the {near[key]} data") for i, key in enumerate(keys) if key in near))
    faults.add("duplicate", _repeated(part, keys, kind, seen))
    notes = _model_faults(faults, part, sides, kind)
    notes += [
        f"only the first {_MOST:,} texts of the {name} data were compared with lines that differ"
        for name, known in held_out.items()
        if len(known) > _MOST
    ]
    if kind == "labels":
        labels = [label for *_, label in part]
        faults.add("conflict", _conflicts(keys, labels))
        faults.add("spelling", _spellings(labels))
    return faults, notes


def _near_leaks(texts: dict[str, str], held_out: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return which texts, by their spelling, nearly repeat one of the held-out data, and the name of that data."""
    of = {key: name for name, known in reversed(held_out.items()) for key in islice(known, _MOST)}
    keys = [*texts, *of]
    columns = [Column([*texts.values(), *(held_out[of[key]][key] for key in of)])]
    return {keys[one]: of[keys[other]] for one, other in near_duplicates(columns, len(texts))}


def _repaired(
    part: list[Example], faults: Faults, kind: str, config: Config, seen: Seen, held_out: dict[str, dict[str, str]]
) -> dict[int, tuple[str, str]]:
    """Return repaired sources and targets by index: those without a fault in the clean file that they're part of."""
    new = repaired(part, faults.found, faults.partners)
    dropped = faults.dropped().difference(new)
    kept = [place for place in range(len(part)) if place not in dropped]
    clean = [(part[place][0], *new.get(place, part[place][1:])) for place in kept]
    wrong = {kept[it] for it in _check(clean, kind, config, seen, held_out)[0].dropped()} if new else set[int]()
    return {place: it for place, it in new.items() if place not in wrong}


def _model_faults(faults: Faults, part: list[Example], sides: list[list[str]], kind: str) -> list[str]:
    """Add the faults that models of the data find, and return notes on checks that weren't possible."""
    columns = [Column(side) for side in sides]
    found = language_faults(columns, faults.places("encoding"))
    faults.add("swapped", found.swapped)
    faults.add("copied", found.copied)
    faults.add("language", found.language)
    if kind != "texts":
        labels = [label for *_, label in part] if kind == "labels" else [""] * len(part)
        near = [(one, other) for one, other in near_duplicates(columns) if labels[one] == labels[other]]
        faults.add("duplicate", ((one, f"nearly as line {part[other][0]:,}") for one, other in near))
    if kind == "labels":
        wrong, notes = label_noise(sides[0], labels)
        faults.add("label", wrong)
        return [*found.notes, *notes]
    if kind == "texts":
        return found.notes
    shunned = faults.places("encoding", "swapped", "copied", "language")
    pairs = alignment_faults([line for line, *_ in part], sides[0], sides[1], shunned)
    faults.add("shifted", pairs.shifted)
    faults.add("mismatched", pairs.unrelated)
    faults.add("length", pairs.odd)
    faults.partners = pairs.partners
    return [*found.notes, *pairs.notes]


def _is_long(text: str, most: int) -> bool:
    return len(text) > most and len(text.split()) > most


def _repeated(part: list[Example], keys: list[str], kind: str, seen: Seen) -> Iterator[tuple[int, str]]:
    for place, ((line, text, target), key) in enumerate(zip(part, keys)):
        if kind == "texts" and len(text) < _ENOUGH:
            continue
        other = target if kind == "labels" else spelling(target)
        first = seen.setdefault((hash(key), hash(other)), line)
        if first != line:
            yield place, f"as line {first:,}"


def _conflicts(keys: list[str], labels: list[str]) -> Iterator[tuple[int, str]]:
    """Yield texts with another label than most copies of the text."""
    of = defaultdict[str, Counter[str]](Counter)
    for key, label in zip(keys, labels):
        of[key][label] += 1
    for place, (key, label) in enumerate(zip(keys, labels)):
        if len(of[key]) > 1 and 2 * of[key][label] <= of[key].total():
            yield place, f"others are {', '.join(shown(it, 30) for it in of[key] if it != label)}"


def _spellings(labels: list[str]) -> Iterator[tuple[int, str]]:
    """Yield labels that are rarer than another one with almost the same spelling."""
    counts = Counter(labels)
    usual = {it: max(group, key=lambda it: counts[it]) for group in almost_alike(counts) for it in group}
    for place, label in enumerate(labels):
        if usual.get(label, label) != label:
            yield place, f"usually {shown(usual[label], 30)}"
