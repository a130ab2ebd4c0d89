import json
import logging
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import DataError
from clearhead.scoring.translation_scores import Scores, TokenCounts, bleu, chrf, exact_match, score

words = st.lists(st.sampled_from("abcd"), min_size=1, max_size=9).map(" ".join)
corpora = st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=3)), min_size=1, max_size=5)


def ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def bleu_written_out(corpus: Sequence[tuple[str, Sequence[str]]]) -> float:
    """100 BP exp(mean of log p_n), n = 1 to 4; the k-th p_n of zero counts as 1 / (2^k total)."""
    correct, total, length, closest = [0] * 5, [0] * 5, 0, 0
    for hypothesis, references in corpus:
        tokens, lists = hypothesis.split(), [reference.split() for reference in references]
        length += len(tokens)
        closest += min((abs(len(r) - len(tokens)), len(r)) for r in lists)[1]
        for n in range(1, 5):
            most = Counter[tuple[str, ...]]()
            for reference in lists:
                most |= ngrams(reference, n)  # the highest count in any one reference
            correct[n] += (ngrams(tokens, n) & most).total()
            total[n] += ngrams(tokens, n).total()
    if not any(correct) or not all(total[1:]):
        return 0.0
    logs, misses = 0.0, 0
    for n in range(1, 5):
        misses += not correct[n]
        logs += math.log(correct[n] / total[n] if correct[n] else 1 / (2**misses * total[n]))
    return 100 * min(1.0, math.exp(1 - closest / length)) * math.exp(logs / 4)


def chrf_written_out(corpus: Sequence[tuple[str, Sequence[str]]]) -> float:
    """F2 of the mean precision and the mean recall of n-grams, n = 1 to 6; a sentence counts its best reference."""

    def counts(hypothesis: str, reference: str) -> list[tuple[int, int, int]]:
        pairs = [(ngrams(hypothesis.replace(" ", ""), n), ngrams(reference.replace(" ", ""), n)) for n in range(1, 7)]
        return [(h.total() if r else 0, r.total(), (h & r).total()) for h, r in pairs]

    def f2(orders: list[tuple[int, int, int]]) -> float:
        used = [(match / h, match / r) for h, r, match in orders if h and r]
        precision, recall = (sum(values) / len(used) for values in zip(*used)) if used else (0.0, 0.0)
        if not precision + recall:
            return 0.0
        return 100 * (5 * precision * recall / (4 * precision + recall))  # rounded as sacrebleu's: two may be as good

    sums = [(0, 0, 0)] * 6
    for hypothesis, references in corpus:
        best = max((counts(hypothesis, reference) for reference in references), key=f2)
        sums = [tuple(a + b for a, b in zip(one, other)) for one, other in zip(sums, best)]
    return f2(sums)


@given(corpora)
@settings(deadline=None)
def test_bleu_is_the_formula_with_any_number_of_references_a_sentence(corpus) -> None:
    hypotheses, references = zip(*corpus)
    assert math.isclose(bleu(hypotheses, references).score, bleu_written_out(corpus), rel_tol=1e-9, abs_tol=1e-9)


@given(corpora)
@settings(deadline=None)
def test_chrf_is_the_formula_with_any_number_of_references_a_sentence(corpus) -> None:
    hypotheses, references = zip(*corpus)
    assert math.isclose(chrf(hypotheses, references).score, chrf_written_out(corpus), rel_tol=1e-9, abs_tol=1e-9)


def test_a_perfect_translation_scores_100_and_an_empty_one_0() -> None:
    texts = ["Il fait très beau aujourd'hui.", "J'ai faim, et toi ?"]
    assert bleu(texts, [[text] for text in texts]).score == pytest.approx(100)
    assert chrf(texts, [[text] for text in texts]).score == pytest.approx(100)
    assert bleu(["", ""], [[text] for text in texts]).score == chrf(["", ""], [[text] for text in texts]).score == 0


def test_a_signature_says_whether_the_number_of_references_varies() -> None:
    assert "nrefs:1|case:mixed" in bleu(["a"], [["b"]]).signature
    assert "nrefs:2|" in chrf(["a"], [["b", "c"]]).signature
    assert "nrefs:var|" in bleu(["a", "b"], [["b"], ["a", "b"]]).signature
    assert "|tok:13a|" in bleu(["a"], [["b"]]).signature


def test_sacrebleu_gives_no_advice_about_sentences_that_end_in_a_separate_full_stop(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        bleu(["a b ."] * 200, [["a b ."]] * 200)
    assert not caplog.records


def test_any_reference_may_match_exactly_and_case_counts() -> None:
    assert exact_match(["a", "b", "C"], [["x", "a"], ["x"], ["c"]]) == pytest.approx(1 / 3)


def test_unicode_form_and_kinds_of_white_space_do_not_count() -> None:
    assert exact_match(["Ça va ?"], [["Ça\u202fva\u00a0?\t"]]) == 1
    assert exact_match(["Ça va ?"], [["C\u0327a va ?"]]) == 1
    assert exact_match(["Ça va ?"], [["Çava ?"]]) == 0


def test_counts_add_up_to_the_accuracy_and_perplexity_of_the_whole() -> None:
    parts = [TokenCounts(4, 1, 4 * math.log(2)), TokenCounts(12, 5, 12 * math.log(2))]
    whole = sum(parts, TokenCounts())
    assert whole.accuracy == pytest.approx(6 / 16)
    assert whole.perplexity == pytest.approx(2), "a fair coin at every token"
    assert TokenCounts(1, 0, 1e6).perplexity == math.inf


def test_scores_are_one_json_object_without_what_was_not_measured() -> None:
    hypotheses, references = ["a b", "c"], [["a b"], ["d", "e"]]
    found = score(hypotheses, references)
    assert found.to_dict() == {
        "sentences": 2,
        "bleu": bleu(hypotheses, references).score,
        "bleu_signature": bleu(hypotheses, references).signature,
        "chrf": chrf(hypotheses, references).score,
        "chrf_signature": chrf(hypotheses, references).signature,
        "exact_match": 0.5,
    }
    counted = score(hypotheses, references, TokenCounts(2, 1, 2.0))
    assert Scores(**json.loads(json.dumps(counted.to_dict()))) == counted
    assert (counted.token_accuracy, counted.perplexity) == (0.5, pytest.approx(math.e))


def test_importing_the_scores_does_not_import_sacrebleu() -> None:
    program = "import sys, clearhead.scoring.translation_scores; "
    program += "sys.exit('sacrebleu' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("metric", [bleu, chrf, exact_match, score])
def test_what_cannot_be_scored_is_said(metric) -> None:
    with pytest.raises(DataError, match="there are no hypotheses to score"):
        metric([], [])
    with pytest.raises(DataError, match="2 hypotheses, but references for 1 sentences"):
        metric(["a", "b"], [["a"]])
    with pytest.raises(DataError, match="sentence 2 has no reference"):
        metric(["a", "b"], [["a"], []])
    with pytest.raises(DataError, match="references of sentence 1 are a single text, 'ab'"):
        metric(["a"], ["ab"])


def test_no_tokens_have_no_accuracy_and_no_perplexity() -> None:
    for name in ("accuracy", "perplexity"):
        with pytest.raises(DataError, match="no tokens to score"):
            getattr(TokenCounts(), name)
