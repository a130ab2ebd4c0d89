"""Windows over a text: every token of it and every answer stand in one, where the window says."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.readers.questions import Answer, Article, Paragraph, Question, QuestionCorpus
from clearhead.readers.skipped import Report
from clearhead.tasks.answer.windows import (
    ANSWER_TOKENS,
    NO_ANSWER,
    QuestionEncoder,
    Window,
    WindowCutter,
    read_paragraph,
)
from clearhead.tokenization.tokenizer import Tokenizer

BOS, EOS = 1, 2  # the special tokens of a new vocabulary

WORDS = ["where", "is", "the", "red", "cat", "now", "?", "it", "sat", "on", "a", "mat", "in", "Rome", "."]
TOKENIZER = Tokenizer.train([" ".join(WORDS)], DataConfig(tokenizer="word"))
texts = st.integers(1, 90).map(lambda n: [*range(10, 10 + n)])  # each token another one, so that it can be found again
questions = st.integers(1, 20).map(lambda n: [9] * n)
lengths = st.integers(16, 40)


def cutter(longest: int = 24) -> WindowCutter:
    return WindowCutter(TOKENIZER, longest)


def part(window: Window) -> list[int]:
    """The tokens of the text in a window."""
    return window.tokens[window.begins : -1]


@given(lengths, questions, texts)
def test_a_window_is_bos_question_eos_text_eos_and_never_too_long(longest, question, text) -> None:
    cut = cutter(longest)
    read, left_out = cut.question(question)
    assert len(read) + left_out == len(question) and len(read) <= longest // 3
    for window in cut.windows(read, text):
        assert len(window.tokens) <= longest
        assert window.tokens == [BOS, *read, EOS, *text[window.first : window.last + 1], EOS]
        assert part(window) == text[window.first : window.last + 1] != []


def test_a_window_can_have_several_eos_between_question_and_text() -> None:
    cut = WindowCutter(TOKENIZER, 16, separators=2)
    first, *_, last = cut.windows([9, 9], [*range(10, 30)])
    assert first.tokens == [BOS, 9, 9, EOS, EOS, *range(10, 20), EOS]
    assert len(last.tokens) == 16 and last.last == 19
    assert first.span(*first.positions((3, 4))) == (3, 4) and first.tokens[first.positions((3, 4))[0]] == 13


@given(lengths, questions, texts)
def test_windows_cover_the_text_in_order_and_overlap_by_a_half(longest, question, text) -> None:
    cut = cutter(longest)
    read, _ = cut.question(question)
    windows = cut.windows(read, text)
    room = longest - len(read) - 3
    assert windows[0].first == 0 and windows[-1].last == len(text) - 1
    assert len(windows) == 1 or all(len(part(window)) == room for window in windows)
    for before, after in itertools.pairwise(windows):
        assert before.first < after.first
        assert len({*part(before)} & {*part(after)}) >= room // 2


@given(lengths, questions, texts, st.data())
@settings(deadline=None)
def test_every_answer_of_half_a_window_stands_in_one_and_its_positions_lead_back_to_it(
    longest, question, text, data
) -> None:
    cut = cutter(longest)
    read, _ = cut.question(question)
    room = longest - len(read) - 3
    first = data.draw(st.integers(0, len(text) - 1))
    last = data.draw(st.integers(first, min(first + room - room // 2 - 1, len(text) - 1)))
    holding = [window for window in cut.windows(read, text) if window.positions((first, last)) != NO_ANSWER]
    assert holding
    for window in holding:
        start, end = window.positions((first, last))
        assert window.tokens[start : end + 1] == text[first : last + 1]
        assert window.span(start, end) == (first, last)


@given(lengths, questions, texts, st.integers(0, 9), st.data())
@settings(deadline=None)
def test_what_is_learnt_from_is_every_window_with_the_answer_and_one_without(
    longest, question, text, draw, data
) -> None:
    cut = cutter(longest)
    read, _ = cut.question(question)
    room = longest - len(read) - 3
    first = data.draw(st.integers(0, len(text) - 1))
    last = data.draw(st.integers(first, len(text) - 1))
    lessons = cut.training_windows(read, text, (first, last), draw)
    if last - first >= room:
        assert not lessons, "no window has room for it"
        return
    regular = cut.windows(read, text)
    having = [window for window in regular if window.positions((first, last)) != NO_ANSWER]
    without = [window for window in regular if window not in having]
    own = [window for window in lessons if window.positions((first, last)) != NO_ANSWER]
    assert own and (own == having or not having)
    others = [window for window in lessons if window not in own]
    assert others == ([without[draw % len(without)]] if without else [])
    assert part(own[0])[first - own[0].first : last - own[0].first + 1] == text[first : last + 1]


def test_a_question_without_an_answer_is_learnt_from_in_one_window() -> None:
    text = [*range(10, 60)]
    windows = cutter().windows([9], text)
    assert len(windows) > 3
    for draw in range(2 * len(windows)):
        assert cutter().training_windows([9], text, None, draw) == [windows[draw % len(windows)]]


def corpus(*asked: tuple[str, str | None], context: str = "It  sat on\na mat in Rome.") -> QuestionCorpus:
    questions = []
    for number, (text, answer) in enumerate(asked, 7):
        answers = () if answer is None else (Answer(answer, context.index(answer)),)
        questions.append(Question(f"q{number}", text, answers, number))
    return QuestionCorpus((Article("", (Paragraph(context, tuple(questions)),)),), Report(("a.json",)))


def test_an_encoder_gives_the_answers_places_in_the_window_as_tokens() -> None:
    found = QuestionEncoder(cutter(32), "data.max_len")(corpus(("where is it ?", "a mat"), ("where ?", None)))
    assert len(found.sources) == len(found.targets) == 2 and not found.skipped
    start, end = found.targets[0]
    assert TOKENIZER.decode(found.sources[0][start : end + 1]) == "a mat"
    assert found.targets[1] == [*NO_ANSWER]
    context = TOKENIZER.encode("It  sat on\na mat in Rome.")
    assert found.sources[1] == [BOS, *TOKENIZER.encode("where ?"), EOS, *context, EOS]


def test_texts_are_read_once_for_all_questions_about_them() -> None:
    [paragraph] = corpus(("where ?", "Rome"), ("where is it ?", "mat")).paragraphs()
    first, second = read_paragraph(cutter(), paragraph)
    assert first.text is second.text
    for asked, answer in ((first, "Rome"), (second, "mat")):
        assert asked.answer is not None
        start, end = asked.text.span_of(*asked.answer)
        assert paragraph.context[start:end] == answer


def test_a_question_of_more_than_a_third_is_cut_and_counted_and_an_answer_without_room_is_left_out() -> None:
    long = "where is the red cat now ?"
    context = "it sat on a mat in Rome now and it sat on a mat in Rome"
    found = QuestionEncoder(cutter(16), "data.max_len")(corpus((long, "Rome"), ("where ?", context), context=context))
    reason = "with answers that don't fit into 16 tokens (data.max_len)"
    assert [(it.line, it.reason, it.text) for it in found.skipped] == [(8, reason, "where ?")]
    [cut] = found.cut
    assert (cut.line, cut.text) == (7, long)
    assert cut.reason == "with questions longer than 5 tokens, a third of data.max_len"
    assert all(found.sources[row][1:7] == [*TOKENIZER.encode(long)[:5], EOS] for row in range(len(found.sources)))


def test_words_of_a_question_that_the_vocabulary_lacks_are_named() -> None:
    found = QuestionEncoder(cutter(), "data.max_len")(corpus(("where is Zed ?", "Rome")))
    [noticed] = found.unknown
    assert noticed.text == "Zed" and noticed.reason.endswith("which become <unk>")


def test_an_answer_that_is_longer_than_any_that_is_given_is_learnt_and_told() -> None:
    context = " ".join(["it sat on a mat"] * 8)  # 40 tokens
    fits, longer = (" ".join(context.split()[:n]) for n in (ANSWER_TOKENS, ANSWER_TOKENS + 1))
    found = QuestionEncoder(cutter(64), "data.max_len")(corpus(("where ?", fits), ("is it ?", longer), context=context))
    [noticed] = found.unknown
    assert (noticed.line, noticed.text) == (8, longer) and not found.skipped
    assert noticed.reason.startswith("questions with answers of more than 30 tokens; ")
    assert found.targets[1][1] - found.targets[1][0] == ANSWER_TOKENS, "learnt as a whole"


@pytest.mark.parametrize("processes", [1, 4])
def test_chunks_give_what_the_whole_gives(processes: int) -> None:
    encoder = QuestionEncoder(cutter(), "data.max_len")
    one, other = corpus(("where ?", "Rome")), corpus(("is it now ?", "mat"))
    found = list(encoder.each([one, other], 2, processes))
    assert [list(it.sources) for it in found] == [list(encoder(it).sources) for it in (one, other)]
