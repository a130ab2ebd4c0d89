from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from clearhead.inspection.views.text_columns import WIDTH, cut, folded, left, right, wrapped

TEXTS = st.text(st.sampled_from("ab .漢字は🙂e\u0301قط"), max_size=40)


@given(text=TEXTS, width=st.integers(2, 30))
def test_a_text_has_the_columns_that_it_was_given(text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width and cell_len(left(text, width)) == cell_len(right(text, width)) == width
    if cell_len(text) <= width:
        assert cut(text, width) == text
    else:
        assert cut(text, width).endswith("…")


@given(words=st.lists(TEXTS.map(lambda it: it.replace(" ", "") or "x"), max_size=30))
def test_words_are_wrapped_and_none_is_lost(words: list[str]) -> None:
    lines = list(wrapped("they are: ", words, 60))
    assert [word for line in lines for word in line.removeprefix("they are:").split(" ") if word] == words
    assert all(cell_len(line) <= 60 or len(line.split()) == 1 for line in lines)
    assert all(line.startswith(" " * len("they are: ")) for line in lines[1:])


@given(text=TEXTS.map(lambda it: it * 5))
@example(text="\u0301 aaaaaaはははは" * 5)  # an accent alone is a word without columns
def test_a_long_text_is_folded_and_a_line_stays_a_line(text: str) -> None:
    lines = folded("text    ", text)
    assert max(map(cell_len, lines)) <= WIDTH
    assert "".join(it[8:] for it in lines).replace(" ", "") == text.replace(" ", "")
    assert [it[8:] for it in folded("text    ", "one\n two")] == ["one", " two"]
