import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.decode.continuation import StopChecker, StoppingCriteria
from clearhead.errors import ConfigError
from clearhead.tokenization.tokenizer import StreamingDetokenizer, Tokenizer

LETTERS = st.text("ab\né", max_size=12)
ENDS = st.builds(
    StoppingCriteria,
    stop=st.lists(st.text("ab\né", min_size=1, max_size=4), max_size=3).map(tuple),
    chars=st.none() | st.integers(1, 9),
)


def letter_by_letter(ends: StoppingCriteria, text: str) -> tuple[str, str | None]:
    """The same by the definition: after each letter, look."""
    for length in range(1, len(text) + 1):
        so_far = text[:length]
        cuts = [so_far.removesuffix(stop) for stop in ends.stop if so_far.endswith(stop)]
        if cuts:
            return min(cuts, key=len), "stop"
        if length == ends.chars:
            return so_far, "chars"
    return text, None


@given(ENDS, LETTERS)
def test_a_text_is_cut_as_if_it_had_come_letter_by_letter(ends, text) -> None:
    assert ends.cut(text) == letter_by_letter(ends, text)


@given(ENDS, LETTERS)
def test_what_is_known_of_a_text_stays_whatever_follows_and_no_more_of_it_does(ends, text) -> None:
    known = ends.settled(text)
    endings = ["", *ends.stop, *(stop[n:] for stop in ends.stop for n in range(len(stop)))]
    cuts = [ends.cut(text + ending)[0] for ending in endings]
    assert all(cut[:known] == text[:known] for cut in cuts)
    nested = any(one != other and one in other for one in ends.stop for other in ends.stop)
    if ends.chars is None and not nested:  # else what is held back may turn out to be no beginning that can be finished
        assert any(len(cut) == known for cut in cuts)


@functools.cache
def tokenizer() -> Tokenizer:
    texts = ["ab ab aab é é\n\na abba baab"] * 3
    return Tokenizer.train(texts, DataConfig(tokenizer="bpe", vocab_size=270, normalise=()))


@given(ENDS, st.lists(st.integers(0, 10**6), max_size=14), st.text("ab é", max_size=3))
def test_tokens_are_enough_as_soon_as_their_text_is_whatever_splits_it(ends, numbers, prompt) -> None:
    token_bytes = tokenizer().token_bytes
    usual = [[i] for i, it in enumerate(token_bytes) if it and set(it.decode(errors="replace")) <= set(" abé\n")]
    usual.append([token_bytes.index(bytes([byte])) for byte in "é".encode()])
    ids = np.array([i for number in numbers for i in usual[number % len(usual)]], np.int64)
    before = tokenizer().encode(prompt) if prompt else []
    enough = StopChecker(ends, tokenizer()).after(before)
    for length in range(1, len(ids) + 1):
        text = StreamingDetokenizer(tokenizer(), before).add(ids[:length].tolist())
        expected = letter_by_letter(ends, text)[1] is not None
        assert enough(ids[:length]) == expected
        if expected:  # where a search ends
            return


@pytest.mark.parametrize("stop", ["é", "abba", "é\na é"])
def test_a_stop_string_of_single_bytes_is_complete_with_its_last_one(stop) -> None:
    ids = np.array([tokenizer().token_bytes.index(bytes([byte])) for byte in f"bb{stop}".encode()])
    enough = StopChecker(StoppingCriteria(stop=["never", stop]), tokenizer()).after([])
    assert [enough(ids[:length]) for length in range(1, len(ids) + 1)] == [False] * (len(ids) - 1) + [True]


def test_half_a_surrogate_pair_stops_nothing() -> None:
    assert not StopChecker(StoppingCriteria(stop=["\ud800"]), tokenizer()).after([])(np.array(tokenizer().encode("ab")))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"stop": "END"}, "is a single string"),
        ({"stop": ["a", ""]}, "contains an empty string, which matches everywhere"),
        ({"stop": None}, "can't be used"),
        ({"stop": ["a", 5]}, "contains 5, a int"),
        *(({"chars": value}, "isn't a valid number of characters") for value in (0, "5", 2.5, True)),
    ],
)
def test_invalid_criteria_are_rejected(values, problem) -> None:
    with pytest.raises(ConfigError, match=rf"{problem}\n") as caught:
        StoppingCriteria(**values)
    [(name, value)] = values.items()
    given = tuple(value) if isinstance(value, list) else value
    assert (caught.value.name, caught.value.value) == (name, given) and caught.value.expected
    assert ("['END']" in caught.value.fix) == (value == "END")


def test_stop_strings_may_come_from_what_is_read_once() -> None:
    ends = StoppingCriteria(stop=(stop for stop in ("the", "man")), chars=np.int64(9))
    enough = StopChecker(ends, tokenizer()).after([])
    assert ends == StoppingCriteria(stop=("the", "man"), chars=9)
    assert ends.cut("a man, the") == ends.cut("a man") == ("a ", "stop")
    assert enough(np.array(tokenizer().encode("a man"))) and not enough(np.array(tokenizer().encode("a ma")))
