"""Questions with the places of their answers: every form, every fault, and what is held out."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.data.split import spelling, split_questions
from clearhead.errors import DataError
from clearhead.readers.questions import Answer, QuestionCorpus, read_questions

from .conftest import error_of, written

CONTEXT = "Ada was born in London. London is large 😀 and old."
BORN = {"id": "q1", "question": "Where was Ada born?", "answers": [{"text": "London", "answer_start": 16}]}
WHO = {"id": "q2", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}] * 3}
OLD = {"id": "q3", "question": "How is it?", "answers": [{"text": "old", "answer_start": 46}]}
NOT = {"id": "q4", "question": "When?", "answers": [], "is_impossible": True, "plausible_answers": [{"text": "London"}]}
GOOD = [("q1", "London", 16), ("q2", "Ada", 0), ("q3", "old", 46), ("q4", None, None)]


def squad(*questions: dict, context: object = CONTEXT, title: object = "Ada") -> dict:
    return {"version": "2.0", "data": [{"title": title, "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def hugging_face(question: dict) -> dict:
    answers = {"text": [it["text"] for it in question["answers"]]}
    answers["answer_start"] = [it["answer_start"] for it in question["answers"]]
    return {
        "id": question["id"],
        "title": "Ada",
        "context": CONTEXT,
        "question": question["question"],
        "answers": answers,
    }


def read(path: Path, content: object) -> QuestionCorpus:
    return read_questions([written(path / "x", content if isinstance(content, bytes | str) else json.dumps(content))])


def refusal(path: Path, content: object) -> DataError:
    return error_of(read, path, content)


def json_lines(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def places(corpus: QuestionCorpus) -> list[tuple]:
    firsts = [(question, *question.answers[:1]) for _, question in corpus]
    return [(it[0].id, it[1].text, it[1].start) if len(it) > 1 else (it[0].id, None, None) for it in firsts]


# --- the forms


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("SQuAD", json.dumps(squad(BORN, WHO, OLD, NOT))),
        ("SQuAD", json.dumps(squad(BORN, WHO, OLD, NOT), indent=2, ensure_ascii=False).replace("\n", "\r\n")),
        ("JSON lines", json_lines(*map(hugging_face, (BORN, WHO, OLD, NOT)))),
        ("JSON", json.dumps([hugging_face(it) for it in (BORN, WHO, OLD, NOT)], indent=2)),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_form_gives_the_same_questions(tmp_path: Path, form: str, content: str, pack) -> None:
    corpus = read(tmp_path, pack(b"\xef\xbb\xbf" + content.encode()))
    assert places(corpus) == GOOD and len(corpus) == 4
    assert [len(question.answers) for _, question in corpus] == [1, 3, 1, 0]
    assert [question.impossible for _, question in corpus] == [False, False, False, True]
    assert [article.title for article in corpus.articles] == ["Ada"] and len(corpus.articles[0].paragraphs) == 1
    assert str(corpus.report) == f"{tmp_path}/x: {form}, 1 contexts of 1 article; 4 of 4 questions used"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"answer": "old"}, [Answer("old", 46)]),
        ({"answer": {"text": "old", "answer_start": 46}}, [Answer("old", 46)]),
        ({"answers": ["old", "and old"]}, [Answer("old", 46), Answer("and old", 42)]),
        ({"answers": [{"text": "old"}]}, [Answer("old", 46)]),
        ({"answer": "London"}, [Answer("London", 16)]),
        ({"answer": None}, []),
        ({"answers": []}, []),
        ({"answers": {"text": [], "answer_start": []}}, []),
        ({"answer": None, "is_impossible": True}, []),
    ],
)
def test_an_answer_without_a_place_is_looked_for(tmp_path: Path, answer: dict, expected: list[Answer]) -> None:
    corpus = read(tmp_path, json_lines({"context": CONTEXT, "question": "?", **answer}))
    ((context, question),) = corpus
    assert list(question.answers) == expected and question.id == "1"
    assert all(context[it.start : it.end] == it.text for it in question.answers)
    several = "1 answer found several times in the context: the first position is used"
    assert corpus.report.notes == ([several] if answer == {"answer": "London"} else [])


@given(
    before=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip),
    ascii=st.booleans(),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_places_are_code_points_whatever_they_are(before: str, text: str, ascii: bool, tmp_path: Path) -> None:
    answers = [{"text": text, "answer_start": len(before)}]
    document = squad({"question": "?", "answers": answers}, context=f"{before}{text} 😀")
    ((context, question),) = read(tmp_path, json.dumps(document, ensure_ascii=ascii))
    (answer,) = question.answers
    assert context[answer.start : answer.end] == text == answer.text and answer.start == len(before)


def test_files_and_folders_follow_each_other_and_articles_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    written(tmp_path / "folder" / "2.json", json.dumps(squad(OLD, title="b")))
    written(tmp_path / "folder" / "1.json", json.dumps(squad(BORN, {}, title="a")))
    other = written(tmp_path / "x", json.dumps(squad(WHO, title="b")))
    corpus = read_questions([tmp_path / "folder", other])
    assert [(it.title, len(it.paragraphs), len(it.paragraphs[0].questions)) for it in corpus.articles] == [
        ("a", 1, 1), ("b", 1, 2),
    ]  # fmt: skip
    assert f"{tmp_path}/folder/1.json question 2" in str(corpus.report)


# --- QAMR

SENTENCES = "w:news:7:0:0\tThe ship , split in two , leaks .\nw:news:7:0:1\tIt sank .\n"
ASKED = "\t".join(
    ["w:news:7:0:0", "1 3", "76", "0", "1", "What leaks? ", "0 1", "261:1", "60:0 3", "9:Invalid", "8:99"]
)


@pytest.mark.parametrize("order", [1, -1])
def test_the_two_tables_of_qamr_are_one_corpus(tmp_path: Path, order: int) -> None:
    questions = f"{ASKED}\n{ASKED.replace('0:0', '0:1', 1)}\nw:news:7:0:0\tx\n{ASKED.replace('w:', 'v:')}\n"
    paths = [written(tmp_path / "sentences", SENTENCES), written(tmp_path / "questions", questions)]
    corpus = read_questions(paths[::order])
    first, second = corpus
    assert first[0] == "The ship , split in two , leaks ." and second[0] == "It sank ."
    assert [(it.text, it.start) for it in first[1].answers] == [("The ship", 0), ("ship", 4)]
    assert first[1].text == "What leaks?" and first[1].id == "w:news:7:0:0 1-3 76 0"
    assert [article.title for article in corpus.articles] == ["w:news:7"]
    assert corpus.report.skipped == {"too few columns": 1, "no context": 1}
    assert corpus.report.notes == [
        "skipped 1 answer of questions that have others: answer with words that aren't consecutive",
        "skipped 5 answers of questions that have others: answer without word indices",
    ]


def test_tables_that_are_not_those_of_qamr_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, ASKED)
    assert error.name == f"{tmp_path}/x" and "two tables" in error.expected
    files = [written(tmp_path / "a", b"a\tb\n\xff\n"), written(tmp_path / "b", ASKED)]
    error = error_of(read_questions, files)
    assert (error.name, error.line) == (str(files[0]), 2)


# --- what cannot be used


def with_answers(*answers: dict, **changes: object) -> dict:
    return {"id": "x", "question": "Why?", "answers": list(answers)} | changes


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (with_answers({"text": "London", "answer_start": 15}), "answer not at its position"),
        (with_answers({"text": "old.", "answer_start": -4}), "answer not at its position"),
        (with_answers({"text": "old", "answer_start": 10**9}), "answer not at its position"),
        (with_answers({"text": "Paris"}), "answer not in the context"),
        (with_answers({"text": " ", "answer_start": 3}), "empty answer"),
        (with_answers({"answer_start": 3}), "empty answer"),
        (with_answers(), "no answer"),
        (with_answers({"text": "Ada", "answer_start": 0}, question=" "), "no question"),
        (with_answers({"text": "Ada", "answer_start": 0}, question=None), "no question"),
        (with_answers({"text": "Ada", "answer_start": 0}, question="a\0"), "NUL character"),
        (with_answers({"text": "Ada", "answer_start": 0}, question="a\ud800"), "half of a surrogate pair"),
        (
            with_answers({"text": "Ada", "answer_start": 0}, is_impossible=True),
            "is_impossible is true, but there's an answer",
        ),
    ],
)
def test_a_question_that_cannot_be_used_is_counted_and_shown(tmp_path: Path, question: dict, reason: str) -> None:
    corpus = read(tmp_path, squad(BORN, question, OLD))
    assert [it[0] for it in places(corpus)] == ["q1", "q3"]
    assert corpus.report.skipped == {reason: 1} and (corpus.report.used, corpus.report.lines) == (2, 3)
    assert "    question 2: " in str(corpus.report)
    if "position" in reason:
        answer = question["answers"][0]
        assert f'"Why? -> {answer["text"]}; position {answer["answer_start"]:,} has ' in str(corpus.report)
    error = refusal(tmp_path, squad(question))
    assert error.name == f"{tmp_path}/x" and error.value == {reason: 1}


def test_a_context_that_is_missing_costs_its_questions(tmp_path: Path) -> None:
    assert refusal(tmp_path, squad(BORN, OLD, context=None)).value == {"no context": 2}
    assert refusal(tmp_path, squad(BORN, context=" \n")).value == {"no context": 1}


def test_an_answer_that_is_wrong_beside_a_right_one_is_left_out(tmp_path: Path) -> None:
    right = {"text": "Ada", "answer_start": 0}
    corpus = read(tmp_path, squad(with_answers(right, {"text": "Ada", "answer_start": 1}, right)))
    assert [it.start for it in corpus.articles[0].paragraphs[0].questions[0].answers] == [0, 0]
    assert corpus.report.notes == ["skipped 1 answer of questions that have others: answer not at its position"]


def test_ids_that_come_again_are_told(tmp_path: Path) -> None:
    assert read(tmp_path, squad(BORN, WHO, BORN)).report.notes == [
        "1 question with the id of another one, possibly duplicates"
    ]


def test_an_id_of_null_is_none(tmp_path: Path) -> None:
    without = [{key: value for key, value in it.items() if key != "id"} for it in (BORN, OLD)]
    for content in (squad(*(it | {"id": None} for it in without)), squad(*without)):
        corpus = read(tmp_path, content)
        assert [it[0] for it in places(corpus)] == ["1", "2"] and not corpus.report.notes


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("", "blank line"),
        ('{"question": "?", "answer": "Ada"}', "no context"),
        ('{"context": 3, "question": "?", "answer": "Ada"}', "no string in context"),
        ('{"context": "Ada", "answer": "Ada"}', "no question"),
        ('{"context": "Ada", "question": ["?"], "answer": "Ada"}', "no string in question"),
        ('{"context": "Ada", "question": "?"}', "no answer"),
        ('{"context": "Ada", "question": "?", "answers": [], "is_impossible": false}', "no answer"),
        ('{"context": "Ada", "question": "?", "answer": "Ada", "is_impossible": "yes"}',
             "is_impossible is neither true nor false"),
        ('{"context": "Ada", "question": "?", "answer": 3}', "answers in an unknown format"),
        ('{"context": "Ada", "question": "?", "answers": {"text": ["Ada"], "answer_start": []}}',
         "answers in an unknown format"),
        ('{"context": "Ada", "question": "?", "answers": {"text": ["Ada"], "answer_start": ["0"]}}',
         "answers in an unknown format"),
        ('{"context": "Ada", "question": "?", "answers": [{"text": "Ada", "answer_start": true}]}',
         "answers in an unknown format"),
        ('{"context": "Ada", "question": "?", "answer": "ada"}', "answer not in the context"),
    ],
)  # fmt: skip
def test_so_is_a_line_of_json_lines(tmp_path: Path, line: str, reason: str) -> None:
    corpus = read(tmp_path, f"{json_lines(hugging_face(BORN))}{line}\n{json_lines(hugging_face(OLD))}")
    assert [it[0] for it in places(corpus)] == ["q1", "q3"]
    assert corpus.report.skipped == {reason: 1} and "    question 2: " in str(corpus.report)
    with pytest.raises(DataError):
        read(tmp_path, line)


def test_so_is_an_item_of_an_array_and_a_line_that_is_no_utf8(tmp_path: Path) -> None:
    assert read(tmp_path, [hugging_face(BORN), 3]).report.skipped == {"not a JSON object": 1}
    assert read(tmp_path, json_lines(hugging_face(BORN)).encode() + b"{\xff}").report.skipped == {"not UTF-8": 1}


# --- hostile files


def changed(path: str, value: object) -> dict:
    """The document with another value at a place such as data.0.paragraphs."""
    document: dict = json.loads(json.dumps(squad(BORN | {"is_impossible": False})))
    at, *keys = [int(key) if key.isdigit() else key for key in path.split(".")][::-1]
    parent: object = document
    for key in keys[::-1]:
        parent = parent[key]
    parent[at] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("data", {}, "data is an object; a list"),
        ("data", None, "data is missing; a list"),
        ("data.0", 1, "data[0] is a number"),
        ("data.0", None, "data[0] is null"),
        ("data.0.title", 1, "data[0].title is a number; a string"),
        ("data.0.paragraphs", "x", "data[0].paragraphs is a string; a list"),
        ("data.0.paragraphs.0.context", ["x"], "data[0].paragraphs[0].context is a list; a string"),
        ("data.0.paragraphs.0.qas", None, "data[0].paragraphs[0].qas is missing"),
        ("data.0.paragraphs.0.qas.0", [], "data[0].paragraphs[0].qas[0] is a list"),
        ("data.0.paragraphs.0.qas.0.question", 1.5, "qas[0].question is a fraction; a string"),
        ("data.0.paragraphs.0.qas.0.is_impossible", 1, "is_impossible is a number; true or false"),
        ("data.0.paragraphs.0.qas.0.answers", {}, "qas[0].answers is an object; a list"),
        ("data.0.paragraphs.0.qas.0.answers.0.text", 1, "answers[0].text is a number; a string"),
        ("data.0.paragraphs.0.qas.0.answers.0.answer_start", "0", "answer_start is a string; a number"),
        ("data.0.paragraphs.0.qas.0.answers.0.answer_start", True, "is true or false; a number"),
    ],
)
def test_a_wrong_type_is_refused_with_its_place(tmp_path: Path, path: str, value: object, said: str) -> None:
    error = refusal(tmp_path, changed(path, value))
    assert error.what.startswith(f"{tmp_path}/x: data") and said in f"{error.what}; {error.expected}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps(squad(BORN))[:-20], "x isn't JSON, or is cut off"),
        (json.dumps(squad(BORN), indent=1)[:99], "x isn't JSON, or is cut off"),
        ("[" * 100_000, "x isn't readable JSON"),
        ('{"data": ' + "1" * 5000 + "}", "x isn't readable JSON"),
        ("plain text\n", "(line 1, column 1)"),
        ("3", "x contains a number"),
        ('{\n"questions": []}', "x: data is missing"),
        (b'{"data": [{"title": "\xff"}]}', "x isn't UTF-8 (line 1, byte 21)"),
        (json.dumps(squad(BORN)).encode("utf-32"), "x is UTF-32"),
        (b"", "x is empty"),
        (bytes(99), "x isn't text"),
        (gzip.compress(json.dumps(squad(BORN)).encode())[:-9], "x is damaged or cut off"),
        ('{"data": []}', "no usable question in "),
    ],
)
def test_a_hostile_file_is_refused_by_name(tmp_path: Path, content: bytes | str, said: str) -> None:
    assert said in refusal(tmp_path, content).what


def test_no_file_and_no_such_file_are_told(tmp_path: Path) -> None:
    assert error_of(read_questions, []).expected == "at least one"
    assert error_of(read_questions, [tmp_path / "x"]).name == f"{tmp_path}/x"


@given(cut=st.integers(1, 400))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_that_is_cut_anywhere_gives_an_error_and_no_traceback(cut: int, tmp_path: Path) -> None:
    whole = json.dumps(squad(BORN, NOT))
    if cut < len(whole):
        assert f"{tmp_path}/x" in refusal(tmp_path, whole[:cut]).what


# --- what is held out


def corpus_of(tmp_path: Path, contexts: list[tuple[str, str]]) -> QuestionCorpus:
    rows = ({"title": title, "context": context, "question": "?", "answer": context[:1]} for title, context in contexts)
    return read(tmp_path, json_lines(*rows))


def spelled(corpus: QuestionCorpus) -> set[str]:
    return {spelling(context) for context, _ in corpus}


@given(
    contexts=st.lists(
        st.tuples(st.sampled_from([*"abcdefghijklmnopqrstuvwxyz", ""]), st.integers(0, 60)), min_size=25, max_size=80
    ),
    seed=st.integers(0, 5),
)
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_context_stands_on_both_sides_and_nothing_is_lost(contexts, seed: int, tmp_path: Path) -> None:
    corpus = corpus_of(
        tmp_path, [(title, f"Context {n}{'.' * (place % 2)}") for place, (title, n) in enumerate(contexts)]
    )
    found = split_questions(corpus, 0.3, seed)
    assert not spelled(found.train) & spelled(found.held_out)
    assert sorted(it[1].id for side in (found.train, found.held_out) for it in side) == sorted(
        it[1].id for it in corpus
    )
    assert len(found.held_out) or len(spelled(corpus)) < 20


def test_one_article_that_is_held_out_is_said_in_the_singular(tmp_path: Path) -> None:
    many = corpus_of(tmp_path, [(f"title {n // 5}", f"context {n}") for n in range(150)])
    assert split_questions(many, 0.03, 0).note == "held out 5 questions: 5 of 150 distinct contexts, all of 1 article"


def test_articles_stay_whole_where_there_are_twenty_and_contexts_else(tmp_path: Path) -> None:
    many = corpus_of(tmp_path, [(f"title {n // 5}", f"context {n}") for n in range(150)])
    found = split_questions(many, 0.1, 0)
    assert found.note == "held out 15 questions: 15 of 150 distinct contexts, all of 3 articles"
    titles = [{article.title for article in side.articles} for side in (found.train, found.held_out)]
    assert not titles[0] & titles[1] and len(titles[1]) == 3
    few = split_questions(corpus_of(tmp_path, [(f"title {n // 50}", f"context {n}") for n in range(150)]), 0.1, 0)
    assert few.note == "held out 15 questions: 15 of 150 distinct contexts"


def test_the_choice_is_the_seeds_and_not_the_orders(tmp_path: Path) -> None:
    contexts = [("", f"context {n}") for n in range(50)]
    one, again, other = (
        spelled(split_questions(corpus_of(tmp_path, rows), 0.2, seed).held_out)
        for rows, seed in ((contexts, 1), (contexts[::-1], 1), (contexts, 2))
    )
    assert one == again != other


def test_too_few_contexts_and_no_share_hold_nothing_out(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, [("a", "one"), ("a", "two")])
    assert split_questions(corpus, 0.5, 0).note == "nothing held out: only 2 distinct contexts, fewer than 20"
    found = split_questions(corpus, 0, 0)
    assert found.note == "nothing held out: data.split is 0" and not len(found.held_out) and len(found.train) == 2


# --- real files


@pytest.mark.parametrize(
    ("paths", "n_questions", "n_used"),
    [
        (["squad/dev-v1.1.articles-01-24.json.xz"], 5696, 5696),
        (["squad/xquad.de.shared-half.json.xz"], 632, 632),
        (["policyqa"], 3809, 3809),
        (["qamr"], 18908, 18863),
    ],
)
def test_public_data_sets_are_read(data_folder: Path, paths: list[str], n_questions: int, n_used: int) -> None:
    corpus = read_questions([data_folder / path for path in paths])
    assert (corpus.report.lines, corpus.report.used, len(corpus)) == (n_questions, n_used, n_used)
    assert all(context[it.start : it.end] == it.text for context, question in corpus for it in question.answers)
    assert len({question.id for _, question in corpus}) == n_used
