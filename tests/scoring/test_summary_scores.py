import itertools
import json
import random
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import DataError
from clearhead.scoring.sentences import words
from clearhead.scoring.summary_scores import (
    Overlap,
    common_subsequence,
    first,
    longest,
    rouge_l,
    rouge_n,
    summary_scores,
)

texts = st.lists(st.sampled_from("abcd"), max_size=9)


def test_an_example_by_hand() -> None:
    said, wanted = words("The cat sat on the mat."), words("On the mat, the cat slept!")
    assert rouge_n(said, wanted, 1) == pytest.approx((5 / 6, 5 / 6, 5 / 6)), "the, the, cat, on, mat"
    assert rouge_n(said, wanted, 2) == pytest.approx((3 / 5, 3 / 5, 3 / 5)), "the cat, on the, the mat"
    assert rouge_l(said, wanted) == pytest.approx((3 / 6, 3 / 6, 3 / 6)), "on the mat"
    assert rouge_l(["a"], ["a", "b", "c"]) == pytest.approx((1, 1 / 3, 1 / 2))
    assert rouge_n(["a"] * 3, ["a", "b"], 1) == pytest.approx((1 / 3, 1 / 2, 2 / 5)), (
        "a word counts as often as both have"
    )


@given(texts, texts)
def test_the_longest_common_subsequence_is_that_of_the_table(a: list[str], b: list[str]) -> None:
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i, j in itertools.product(range(len(a)), range(len(b))):
        table[i + 1, j + 1] = table[i, j] + 1 if a[i] == b[j] else max(table[i, j + 1], table[i + 1, j])
    found = common_subsequence(a, b)
    assert len(found) == len(common_subsequence(b, a)) == table[-1, -1]
    others = iter(b)
    assert found == sorted({*found}) and all(a[place] in others for place in found), "it occurs in this order in b"


def test_long_texts_have_no_other_subsequence_than_short_ones() -> None:
    a, b = (random.Random(seed).choices("abcdefgh", k=300) for seed in (1, 2))
    alone = common_subsequence(a, b)
    assert common_subsequence(["x", *a, "y"], ["x", *b, "y"]) == [0, *(place + 1 for place in alone), 301]
    assert common_subsequence([*a, "x", *b], [*a, "x", *b]) == [*range(601)]


@given(texts, texts)
def test_what_is_precision_one_way_is_recall_the_other_way(a: list[str], b: list[str]) -> None:
    for measure in (rouge_l, lambda x, y: rouge_n(x, y, 1), lambda x, y: rouge_n(x, y, 2)):
        one, other = measure(a, b), measure(b, a)
        assert (one.precision, one.recall) == (other.recall, other.precision) and one.f1 == pytest.approx(other.f1)
        assert min(one[:2]) <= one.f1 + 1e-12 and one.f1 <= max(one[:2]) + 1e-12 <= 1 + 1e-12
    assert rouge_l(a, b).recall <= rouge_n(a, b, 1).recall, "words in order are words"


def test_the_text_itself_scores_1_another_0_and_nothing_0() -> None:
    found = summary_scores(["A b c.", "x y", "", "a"], [["a, B; c"], ["a b"], ["a b"], ["..."]])
    for rouge in (found.rouge_1, found.rouge_2, found.rouge_l):
        assert all(measure.values.tolist() == [1, 0, 0, 0] for measure in rouge)
    assert Overlap.of(0, 0, 0) == (0, 0, 0)


def test_each_measure_takes_its_best_reference() -> None:
    found = summary_scores(["a b c d"], [["d c b a", "a b x y", "q"]])
    assert found.rouge_1.f1.mean == 1 and found.rouge_1.recall.mean == 1, "the first reference"
    assert found.rouge_2.f1.mean == pytest.approx(1 / 3), "the second"
    assert found.rouge_l.f1.mean == pytest.approx(1 / 2), "the second"
    of_one = [summary_scores(["a b c d"], [[text]]).rouge_2.f1.mean for text in ("d c b a", "a b x y", "q")]
    assert found.rouge_2.f1.mean == max(of_one)


def test_letters_of_other_scripts_count() -> None:
    found = summary_scores(["мама мыла раму"], [["Мама мыла."]])
    assert found.rouge_1.f1.mean == pytest.approx(0.8) and found.rouge_2.precision.mean == pytest.approx(0.5)


def test_the_scores_are_plain_values_and_the_interval_holds_the_mean() -> None:
    dice = random.Random(0)
    pairs = [(" ".join(dice.choices("abcdefgh", k=9)), [" ".join(dice.choices("abcdefgh", k=9))]) for _ in range(80)]
    found = summary_scores(*zip(*pairs))
    values = json.loads(json.dumps(found.to_dict()))
    assert found.documents == 80 and {*values} == {it + end for it in found.by_name for end in ("", "_interval")}
    f1 = found.rouge_l.f1
    assert (values["rougeL"], values["rougeL_interval"]) == (100 * f1.mean, [100 * f1.low, 100 * f1.high])
    for measure in found.rouge_l:
        low, high = measure.low, measure.high
        assert low < measure.mean < high and measure.mean == pytest.approx(measure.values.mean())
        # Of 80 independent values the mean has the standard error s / sqrt(80), and 95% lie within 1.96 of them.
        assert high - low == pytest.approx(2 * 1.96 * measure.values.std() / 80**0.5, rel=0.1)


@pytest.fixture(scope="module")
def scorer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports is not ours to mend
        rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
    return rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"])


others = st.text("aAbB1_-'. \n’“\u2764\ufe0f\u20e3\U0001f44d\u200d")


@given(others, others)
@settings(deadline=None)
def test_texts_without_other_letters_than_ascii_score_as_by_the_package_rouge_score(scorer, summary, reference) -> None:
    said, wanted, theirs = words(summary), words(reference), scorer.score(reference, summary)
    for name, found in (
        ("rouge1", rouge_n(said, wanted, 1)),
        ("rouge2", rouge_n(said, wanted, 2)),
        ("rougeL", rouge_l(said, wanted)),
    ):
        assert found == pytest.approx(theirs[name])


def test_a_corpus_with_several_references_scores_as_by_the_package_rouge_score(scorer) -> None:
    dice = random.Random(0)
    drawn = [[" ".join(dice.choices("abcdefg", k=dice.randint(1, 9))) for _ in range(4)] for _ in range(50)]
    found = summary_scores([texts[0] for texts in drawn], [texts[1:] for texts in drawn])
    theirs = [scorer.score_multi(texts[1:], texts[0]) for texts in drawn]
    for name, rouge in (("rouge1", found.rouge_1), ("rouge2", found.rouge_2), ("rougeL", found.rouge_l)):
        ours = np.stack([rouge.precision.values, rouge.recall.values, rouge.f1.values], axis=1)
        np.testing.assert_allclose(ours, [it[name] for it in theirs], atol=1e-12)


DIALOGUE = "Ann: Hi.\n\nBob: Hello, how are you today? I am fine.\nAnn: Good.\nBob: Bye for now, then!"


def test_the_first_and_the_longest_lines_of_a_dialogue_in_its_order() -> None:
    assert first(DIALOGUE, 2) == "Ann: Hi.\nBob: Hello, how are you today? I am fine."
    assert longest(DIALOGUE, 2) == "Bob: Hello, how are you today? I am fine.\nBob: Bye for now, then!"
    assert first(DIALOGUE, 9) == longest(DIALOGUE, 9) == DIALOGUE.replace("\n\n", "\n")


def test_the_first_and_the_longest_sentences_of_prose() -> None:
    prose = "It rained. We stayed in. Nobody came to see us."
    assert first(prose, 2) == "It rained. We stayed in."
    assert longest(prose, 2) == "We stayed in. Nobody came to see us."
    assert longest("Aa. Bb. Cc.", 1) == "Aa.", "of equally long ones the first"
    assert first("", 3) == longest(" \n", 3) == ""


def test_what_cannot_be_scored_is_said() -> None:
    with pytest.raises(DataError, match="2 hypotheses"):
        summary_scores(["a", "b"], [["a"]])
    with pytest.raises(DataError, match="sentence 1 has no reference"):
        summary_scores(["a"], [[]])
    for baseline in (first, longest):
        with pytest.raises(DataError, match="0 sentences") as caught:
            baseline("A text.", 0)
        assert caught.value.name == "n"
