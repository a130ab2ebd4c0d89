"""Hiding parts of texts: how much, which, and that it can be undone."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import SpecialTokens
from clearhead.tasks.denoise import MaskVocabulary, _hide_spans, count_to_find
from clearhead.tokenization.ragged import Ragged

BOS, EOS, PAD, UNK = 1, 2, 0, 3  # the special tokens of a new vocabulary

VOCABULARY, SPECIAL = 50, SpecialTokens()
MASKS = MaskVocabulary(SPECIAL, VOCABULARY)
SPANS = (1, 1.5, 3, 50)


def hidden_often(times: int = 400, span: float = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A text of 40 tokens between BOS and EOS, with an unknown one and padding, many times over."""
    text = [BOS, *range(4, 43), UNK, EOS, PAD, PAD]
    tokens = torch.tensor([text] * times)
    generator = torch.Generator().manual_seed(0)
    return tokens, *MASKS.hide_tokens(tokens, torch.full((times,), count_to_find(text, SPECIAL)), span, generator)


def test_of_every_text_as_many_tokens_are_to_be_found_as_were_counted() -> None:
    assert count_to_find([BOS, *range(4, 43), UNK, EOS], SPECIAL) == round(0.15 * 39) == 6
    for span in SPANS:
        assert (hidden_often(span=span)[2].sum(1) == 6).all()


def test_a_text_with_a_token_has_one_to_find_and_special_tokens_alone_have_none() -> None:
    assert count_to_find([7], SPECIAL) == count_to_find([BOS, 7, EOS], SPECIAL) == 1
    assert count_to_find([BOS, UNK, EOS, PAD], SPECIAL) == count_to_find([], SPECIAL) == 0


def test_special_tokens_are_neither_hidden_nor_to_be_found_and_others_stand_as_they_were() -> None:
    for span in SPANS:
        tokens, shown, found = hidden_often(span=span)
        special = tokens < 4
        assert not found[special].any()
        assert (shown == tokens)[~found].all()


def test_every_place_is_chosen_about_as_often() -> None:
    tokens, _, found = hidden_often(2000)
    often = found[:, (tokens[0] >= 4)].double().mean(0)
    torch.testing.assert_close(often, torch.full((39,), 6 / 39, dtype=torch.float64), atol=0.04, rtol=0)


def test_of_what_is_to_be_found_four_fifths_are_hidden_a_tenth_is_another_token_and_a_tenth_stays() -> None:
    for span in SPANS:
        tokens, shown, found = hidden_often(4000, span)
        hidden, same = (shown == UNK)[found].double().mean(), (shown == tokens)[found].double().mean()
        assert abs(hidden - 0.8) < 0.02
        assert abs(same - (0.1 + 0.1 / (VOCABULARY - 4))) < 0.02  # another token may be the same by chance
        assert (shown[found] >= UNK).all() and (shown < VOCABULARY).all()


def test_spans_of_an_encoder_are_as_long_as_asked_in_the_mean_do_not_touch_and_are_treated_as_a_whole() -> None:
    tokens, shown, found = hidden_often(4000, span=3)
    real = tokens[0] >= 4
    found, hidden = found[:, real], (shown == UNK)[:, real]
    edges = found.int().diff(dim=1, prepend=torch.zeros(len(found), 1)) > 0
    assert (edges.sum(1) == 2).all()  # spans of the six tokens
    within = found[:, 1:] & found[:, :-1]
    assert (hidden[:, 1:] == hidden[:, :-1])[within].all()
    lengths = found.int().cumsum(1)[edges]  # of the first span 1; of the second one more than the first is long
    assert set((lengths[lengths > 1] - 1).tolist()) == {1, 2, 3, 4, 5}
    often = found.double().mean(0)
    assert abs(often[5:-5] - 6 / 39).max() < 0.03  # at the ends less often, where fewer spans fit


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.floats(1, 9), st.integers(0, 100))
def test_whatever_the_texts_and_spans_as_many_tokens_are_to_be_found(
    lengths: list[int], span: float, seed: int
) -> None:
    texts = [[*range(4, 4 + n), EOS] for n in lengths]
    tokens = torch.tensor([ids + [PAD] * (13 - len(ids)) for ids in texts])
    counts = torch.tensor([count_to_find(ids, SPECIAL) for ids in texts])
    shown, found = MASKS.hide_tokens(tokens, counts, span, torch.Generator().manual_seed(seed))
    assert torch.equal(found.sum(1), counts)
    assert (shown == tokens)[~found].all()


def test_the_choice_is_that_of_the_generator_or_of_torch_itself() -> None:
    tokens, counts = torch.arange(4, 44)[None], torch.tensor([6])

    def hide(seed: int, own: bool, span: float) -> torch.Tensor:
        torch.manual_seed(seed)
        return MASKS.hide_tokens(tokens, counts, span, torch.Generator().manual_seed(0) if own else None)[1]

    for span in SPANS[:3]:
        assert torch.equal(hide(1, own=True, span=span), hide(2, own=True, span=span))
        assert torch.equal(hide(1, own=False, span=span), hide(1, own=False, span=span))
        assert not torch.equal(hide(1, own=False, span=span), hide(2, own=False, span=span))


def spans_of(text: list[int], shown: list[int]) -> list[list[int]]:
    """What each <unk> stands for; the tokens of a text are all different, so that there is only one answer."""
    spans, place = [], 0
    for i, token in enumerate(shown):
        if token == UNK:
            end = text.index(shown[i + 1]) if i + 1 < len(shown) else len(text)
            spans.append(text[place:end])
            place = end
        else:
            assert text[place] == token
            place += 1
    assert place == len(text)
    return spans


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 100))
def test_what_is_shown_and_the_spans_are_the_text_and_the_share_is_exact(lengths: list[int], seed: int) -> None:
    texts = [list(range(10 * row + 4, 10 * row + 4 + n)) for row, n in enumerate(lengths)]
    shown = _hide_spans(Ragged(texts), UNK, 3, np.random.default_rng(seed))
    for row, text in enumerate(texts):
        spans = spans_of(text, shown[row])
        hidden = round(0.3 * len(text))
        assert sum(map(len, spans)) == hidden and all(spans)
        assert len(spans) == (max(round(hidden / 3), 1) if hidden else 0)
        assert len(shown[row]) == len(text) - hidden + len(spans)


def test_spans_are_three_tokens_long_in_the_mean_and_anywhere() -> None:
    text = list(range(4, 104))
    shown = _hide_spans(Ragged([text] * 500), UNK, 3, np.random.default_rng(0))
    spans = [span for row in range(500) for span in spans_of(text, shown[row])]
    assert sum(map(len, spans)) / len(spans) == 3
    assert {1, 2, 3, 4, 5, 6} <= {len(span) for span in spans}
    often = np.bincount([token for span in spans for token in span], minlength=104)[4:] / 500
    assert abs(often[6:-6] - 0.3).max() < 0.08
    assert abs(often[[0, -1]] - 10 / 71).max() < 0.05  # only the span in the outermost of 71 gaps, of which 10 have one


def test_spans_follow_from_the_generator() -> None:
    text = Ragged([list(range(4, 44))])
    first, again, other = (_hide_spans(text, UNK, 3, np.random.default_rng(seed))[0] for seed in (1, 1, 2))
    assert first == again != other
