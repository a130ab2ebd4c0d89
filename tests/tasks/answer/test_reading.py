import io
import json
import sys
from pathlib import Path

import pytest

from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.readers.questions import QuestionCorpus
from clearhead.tasks.answer.reading import QuestionForm, QuestionSource

FORM, DATA = QuestionForm(), DataConfig()


def write(path: Path, n_articles: int = 30) -> Path:
    """Two texts an article, and two questions a text, one without an answer in every tenth article."""
    articles = []
    for n in range(n_articles):
        paragraphs = []
        for part in range(2):
            context = f"Text {part} of article {n} says yes."
            asked = [{"id": f"{n}-{part}-a", "question": f"What says {n}?", "answers": [{"text": "yes", "answer_start":
                     context.index("yes")}]}]  # fmt: skip
            asked.append({"id": f"{n}-{part}-b", "question": "Why?", "is_impossible": n % 10 == 3, "answers":
                          [] if n % 10 == 3 else [{"text": "Text", "answer_start": 0}]})  # fmt: skip
            paragraphs.append({"context": context, "qas": asked})
        articles.append({"title": f"title {n}", "paragraphs": paragraphs})
    path.write_text(json.dumps({"version": "2.0", "data": articles}), encoding="utf-8")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "questions.json")


def ids(corpus: QuestionCorpus) -> list[str]:
    return [question.id for _, question in corpus]


def test_no_text_and_no_article_stands_on_both_sides(path: Path) -> None:
    with FORM.open([str(path)], DATA) as source:
        data = FORM.divide(source, 0.2, seed=0)
        held, trained = data.held_out(), [question for chunk in data.chunks() for question in ids(chunk)]
    assert len(trained) == len(data) and {*trained} | {*ids(held)} == {*ids(FORM.read([str(path)], DATA))}
    assert not {it.split("-")[0] for it in trained} & {it.split("-")[0] for it in ids(held)}
    assert len(held.articles) == 6 and "all of 6 articles" in data.note


def test_a_tokenizer_learns_from_each_text_once_and_from_the_questions(path: Path) -> None:
    with FORM.open([str(path)], DATA) as source:
        data = FORM.divide(source, 0.2, seed=0)
        one, other = data.texts()
    assert len(one) == 24 * 2 + 24 * 4 and not other
    assert len({text for text in one if text.startswith("Text")}) == 48
    assert FORM.extent(data) == (sum(map(len, one)) // 60, f"{sum(map(len, one)):,} characters")


def test_whether_some_questions_have_no_answer_is_found_in_what_is_learnt_from(tmp_path: Path) -> None:
    found = []
    for n in (3, 4):  # the article with the number 3 has such questions
        with FORM.open([str(write(tmp_path / "some.json", n))], DATA) as source:
            found.append(FORM.divide(source, 0.0, seed=0).unanswerable)
    assert found == [False, True]


def test_a_sample_is_drawn_by_the_seed_in_the_order_of_the_files(path: Path) -> None:
    everything = FORM.read([str(path)], DATA)
    sample, said = FORM.sample(everything, 30, seed=1)
    assert len(sample) == 30 and said == "30 of 120 questions, drawn at random (train.eval_sentences)"
    order = ids(everything)
    assert [order.index(it) for it in ids(sample)] == sorted(order.index(it) for it in ids(sample))
    assert ids(FORM.sample(everything, 30, seed=1)[0]) == ids(sample) != ids(FORM.sample(everything, 30, seed=2)[0])
    assert all(article.paragraphs and all(it.questions for it in article.paragraphs) for article in sample.articles)
    assert FORM.sample(everything, 120, seed=1) == (everything, "")


def test_notes_hold_everything_and_are_plain_json(path: Path) -> None:
    corpus = FORM.read([str(path)], DATA)
    again = FORM.from_notes(json.loads(json.dumps(FORM.to_notes(corpus))), corpus.report)
    assert again == corpus
    numbers = [question.number for _, question in corpus]
    assert numbers == [question.number for _, question in again] == [*range(1, 121)]


def test_a_folder_is_named_as_such_and_its_files_are_counted(path: Path) -> None:
    write(path.parent / "more.json", 2)
    corpus = FORM.read([str(path.parent)], DATA)
    assert len(corpus) == 128 and corpus.report.paths == (str(path.parent),)
    assert str(corpus.report).startswith(f"{path.parent} (2 files): SQuAD, 64 contexts of 32 articles; 128 of 128")


def test_standard_input_is_read_as_often_as_wanted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    with QuestionSource(["-"]) as source:
        digest = source.digest()
        assert len(source.read()) == len(source.read()) == 120
        source.expect_digest(digest)
        assert source.report.paths == ("standard input",)


def test_standard_input_twice_is_an_error() -> None:
    with pytest.raises(DataError) as caught:
        QuestionSource(["-", "-"])
    assert caught.value.value == ["-", "-"]


def test_a_file_that_changes_meanwhile_is_an_error(path: Path) -> None:
    with QuestionSource([str(path)]) as source:
        digest = source.digest()
        source.expect_digest(digest)
        write(path, 31)
        with pytest.raises(DataError, match="changed while being read"):
            source.expect_digest(digest)
