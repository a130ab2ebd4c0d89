"""Faults planted in pairs of two invented languages, whose words translate one another."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from clearhead.cleaning.checkup import check_data
from clearhead.cleaning.languages import Column, LanguageFaults
from clearhead.cleaning.languages import language_faults as faults_of_columns
from clearhead.cleaning.misalignment import alignment_faults
from clearhead.cleaning.near_duplicates import near_duplicates
from clearhead.config import Config, DataConfig, TrainConfig

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
    shifted, unrelated, odd, notes, _ = alignment_faults(range(N), *sides(pairs), set())
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
    shifted, unrelated, _, _, partners = alignment_faults(range(1, N + 1), sources, targets, set())
    assert {*places(shifted), *places(unrelated)} <= {*block} and len(shifted) >= len(block) - 1
    assert dict(shifted)[105] == "its target is on line 105"  # that of line 106 is one line above
    assert partners[105] == 104


def test_cut_and_joined_pairs_say_less_or_more(pairs: list[tuple[str, str]]) -> None:
    sources, targets = sides(pairs)
    planted: dict[str, list[int]] = {"less": [], "more": []}
    long = [place for place, text in enumerate(sources[:-1]) if len(text.split()) == 8]
    for how, place in enumerate(long[::5]):
        how %= 4
        side = sources if how % 2 else targets
        if how < 2:
            side[place] = " ".join(side[place].split()[: len(side[place].split()) // 2])
        else:
            side[place] += f" {side[place + 1]}"
        planted["less" if how in (0, 3) else "more"].append(place)
    found = alignment_faults(range(N), sources, targets, set()).odd
    for kind, wrong in planted.items():
        n = len(wrong)
        named = {place for place, reason in found if reason.startswith(f"the target says {kind} than its source")}
        assert n > 8 and len(named.intersection(wrong)) >= 0.8 * n and len(named - {*wrong}) <= 1


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


def near(pairs: list[tuple[str, str]], *more: tuple[str, str]) -> dict[int, int]:
    """The near-duplicates among the last pairs, counted from 0, and what they repeat."""
    found = near_duplicates([Column(side) for side in sides([*pairs, *more])])
    return {place - len(pairs): of for place, of in found if place >= len(pairs)}


def test_near_duplicates_have_a_rare_word_more_a_word_twice_or_a_typing_error(pairs: list[tuple[str, str]]) -> None:
    longest = sorted(range(N), key=lambda it: -len({*pairs[it][0].split()}))[:5]
    (_, *words), (first, *rest), (*_, last) = (pairs[it][1].split() for it in longest[:3])
    more, twice, swapped, other = (
        " ".join([words[0], "new", *words[1:]]),
        " ".join([first, first, *rest]),
        pairs[longest[2]][1].replace(last, last[:2] + last[3] + last[2] + last[4:]),
        " ".join([next(it for it in OTHER if it not in pairs[longest[3]][1]), *pairs[longest[3]][1].split()[1:]]),
    )
    pairs = [*pairs[: longest[0]], (pairs[longest[0]][0], " ".join(words)), *pairs[longest[0] + 1 :]]
    copies = [(pairs[it][0], text) for it, text in zip(longest, (more, twice, swapped, other))]
    assert near(pairs, *copies) == {0: longest[0], 1: longest[1], 2: longest[2]}


def test_several_typing_errors_make_a_near_duplicate_and_another_inflection_does_not(
    pairs: list[tuple[str, str]],
) -> None:
    source, target = max(pairs, key=lambda it: len({*it[0].split()}))
    first, second, *rest = source.split()
    wrong = " ".join([f"{first[1::-1]}{first[2:]}x", second[:1] + "w" + second[2:], *rest])
    assert near(pairs, (wrong, target)) == {0: pairs.index((source, target))}
    stem, *rest = target.split()
    ended = [(source, " ".join([stem + ending, *rest])) for ending in ("", "zig")]
    assert not near([*pairs, *ended[:1]], ended[1])


def test_a_faulty_text_is_the_duplicate_even_if_it_comes_first(pairs: list[tuple[str, str]]) -> None:
    source, target = pairs[0]
    first, *rest = target.split()
    twice = source, " ".join([first, first, *rest])
    assert near(pairs[1:], twice, (source, target)) == {0: N}


@pytest.mark.parametrize("is_fluent", [True, False])
def test_without_a_frequent_word_or_in_another_order_a_fluent_text_is_another_translation(
    pairs: list[tuple[str, str]], is_fluent: bool
) -> None:
    source = max((source for source, _ in pairs), key=len)
    long, short, moved = "schu a b c d e f", "schu a b d e f", "schu a b d e c f"
    usual = [(word, word) for word in ("b c d", "b d", "e c f", "e d", "c e")] * is_fluent
    often = [(word, word) for word in ("c", "c", "c", "c", "c")]
    for text in (short, moved):
        found = near([*pairs, *usual, *often], (source, long), (source, text))
        assert found == ({} if is_fluent else {1: len(pairs) + len(often)})


def test_near_copies_between_two_parts_are_found_in_the_first_one(pairs: list[tuple[str, str]]) -> None:
    sources = [source for source, _ in pairs]
    first, *rest = sources[0].split()
    held_out = [" ".join([first, first, *rest]), sources[1] + " new"]  # a word more makes another text
    assert [*near_duplicates([Column([*sources, *held_out])], N)] == [(0, N)]
    assert not {*near_duplicates([Column([*sources, *sources[:1]])], N)}  # an exact copy is found elsewhere


def test_swapped_and_shifted_pairs_are_repaired_and_nothing_else_changes(
    pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    texts, faulty = [*map("\t".join, pairs)], [*map("\t".join, pairs)]
    block, repaired = range(100, 112), {*range(101, 111), 10, 300}
    for place in block:  # the target of the last one is lost, and that of the one before the first one occurs twice
        faulty[place] = f"{pairs[place][0]}\t{pairs[place - 1][1]}"
    faulty[10] = "\t".join(reversed(pairs[10]))
    faulty[300] = f"{pairs[300][0]}\t{pairs[300][1].replace('schu', 'schü')}".encode().decode("cp1252")
    texts[300] = texts[300].replace("schu", "schü")
    faulty[20] = "\t".join([pairs[20][0]] * 2)
    paths = [tmp_path / name for name in ("pairs.tsv", "clean.tsv", "dropped.tsv")]
    paths[0].write_text("".join(f"{it}\tid {n}\r\n" for n, it in enumerate(faulty)), "utf-8", newline="")
    data = DataConfig(train=(str(paths[0]),), source_column="1", target_column="2")
    config = Config(data=data, train=TrainConfig(task="translate"))
    check = check_data(config, lambda _: None, [paths[1]], paths[2], repair=True)
    found = {it.line - 1: it for it in check.findings if it.repaired is not None}
    assert {*found} == repaired | {100} or {*found} == repaired
    assert all(found[place].repaired == texts[place] for place in found)
    gone = {it - 1 for it in check.dropped()}
    clean = paths[1].read_text("utf-8").splitlines()
    assert clean == [f"{it}\tid {n}" for n, it in enumerate(texts) if n not in gone] and gone >= {20, 111}
    rows = [it.split("\t", 2) for it in paths[2].read_text("utf-8").splitlines()]
    assert {int(n) - 1: (why.endswith("; repaired"), text) for n, why, text in rows} == {
        place: (place in found, f"{faulty[place]}\tid {place}") for place in gone | {*found}
    }
    assert f"; {len(found)} repaired" in str(check) and '"repaired": null' in json.dumps(check.to_dict())
    again = check_data(
        replace(config, data=replace(data, train=(str(paths[1]),))), lambda _: None, [paths[0]], repair=True
    )
    assert not again.findings and paths[0].read_bytes() == paths[1].read_bytes()
