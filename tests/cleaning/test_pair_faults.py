"""Faults planted in pairs of two invented languages, whose words translate one another."""

import random

import pytest

from clearhead.cleaning.languages import Column, LanguageFaults
from clearhead.cleaning.languages import language_faults as faults_of_columns
from clearhead.cleaning.misalignment import alignment_faults
from clearhead.cleaning.near_duplicates import near_duplicates

N = 600


def words(seed: int, syllables: str, count: int = 150) -> list[str]:
    """Words of an invented language."""
    draw, parts = random.Random(seed), syllables.split()
    return ["".join(draw.choices(parts, k=draw.randint(2, 3))) for _ in range(count)]


ONE, OTHER, THIRD = (
    words(1, "ka to mi re su na lo"),
    words(2, "schu grei bron telf zig wurp"),
    words(3, "ö qua xix yy phé"),
)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    """Sentences whose words are translated one by one, frequent words more often than rare ones."""
    draw, found = random.Random(0), []
    for _ in range(N):
        chosen = [min(int(draw.paretovariate(0.5)) - 1, len(ONE) - 1) for _ in range(draw.randint(4, 9))]
        found.append((" ".join(ONE[it] for it in chosen), " ".join(OTHER[it] for it in chosen)))
    return found


def sides(pairs: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [source for source, _ in pairs], [target for _, target in pairs]


def language_faults(sources: list[str], targets: list[str], shunned: set[int]) -> LanguageFaults:
    return faults_of_columns([Column(sources), Column(targets)], shunned)


def places(faults: list[tuple[int, str]]) -> list[int]:
    return sorted(place for place, _ in faults)


def test_clean_pairs_have_no_faults(pairs: list[tuple[str, str]]) -> None:
    found = language_faults(*sides(pairs), set())
    assert not (found.swapped or found.copied or found.language or found.notes)
    shifted, unrelated, odd, notes = alignment_faults(range(N), *sides(pairs), set())
    assert not (shifted or unrelated or odd or notes)


def test_swapped_copied_and_foreign_pairs_are_told_apart(pairs: list[tuple[str, str]]) -> None:
    faulty = [*pairs]
    for place in (10, 250):
        faulty[place] = faulty[place][::-1]
        faulty[place + 1] = (faulty[place + 1][0],) * 2
    draw, foreign = random.Random(5), [*range(300, 318)]
    for place in foreign:
        faulty[place] = (faulty[place][0], " ".join(draw.choices(THIRD[:30], k=6)))
    found = language_faults(*sides(faulty), set())
    assert places(found.swapped) == [10, 250]
    assert places(found.copied) == [11, 251]
    assert places(found.language) == foreign


def test_a_block_of_shifted_targets_is_found_with_the_lines_they_belong_to(pairs: list[tuple[str, str]]) -> None:
    sources, targets = sides(pairs)
    block = range(100, 112)
    targets[block.start : block.stop] = [*targets[block.start + 1 : block.stop], targets[block.start]]
    shifted, unrelated, _, _ = alignment_faults(range(1, N + 1), sources, targets, set())
    assert {*places(shifted), *places(unrelated)} <= {*block} and len(shifted) >= len(block) - 1
    assert dict(shifted)[105] == "its target is on line 105"  # that of line 106 is one line above


def test_a_cut_target_is_too_short(pairs: list[tuple[str, str]]) -> None:
    sources, targets = sides(pairs)
    long = [place for place, text in enumerate(sources) if len(text.split()) == 9 and place > 500][:3]
    for place in long:
        targets[place] = " ".join(targets[place].split()[:3])
    shifted, unrelated, odd, _ = alignment_faults(range(N), sources, targets, set())
    assert not shifted and not unrelated and places(odd) == long


def test_few_pairs_and_columns_of_one_language_are_said_not_to_be_checked(pairs: list[tuple[str, str]]) -> None:
    few = sides(pairs[:50])
    assert "fewer than 200" in language_faults(*few, set()).notes[0] + alignment_faults(range(50), *few, set())[3][0]
    sources, _ = sides(pairs)
    found = language_faults(sources, sources[1:] + sources[:1], set())
    assert not found.swapped and "in one language" in found.notes[0]
    notes = alignment_faults(range(N), sources, random.Random(0).sample(sources, N), set())[3]
    assert "alignment wasn't checked" in notes[0]
    copies = language_faults(sources, sources, set())  # such as a task of copying
    assert not copies.copied


def test_near_duplicates_have_a_word_less_or_a_typing_error_but_no_other_word(pairs: list[tuple[str, str]]) -> None:
    sources, targets = sides(pairs)
    longest = sorted(range(N), key=lambda it: -len({*sources[it].split()}))[:4]
    first, *rest = sources[longest[0]].split()
    sources += [" ".join(rest), sources[longest[1]].replace(first, first), sources[longest[2]], sources[longest[3]]]
    wrong = targets[longest[1]].split()
    wrong[-1] = wrong[-1][:-3] + "xqj"
    other = targets[longest[2]].split()
    other[0] = next(it for it in OTHER if it not in other)
    targets += [targets[longest[0]], " ".join(wrong), " ".join(other), " ".join(targets[longest[3]].split()[::-1])]
    found = dict(near_duplicates([Column(sources), Column(targets)]))
    assert {place: found.get(place) for place in (N, N + 1, N + 3)} == {
        N: longest[0],
        N + 1: longest[1],
        N + 3: longest[3],
    }
    assert N + 2 not in found
