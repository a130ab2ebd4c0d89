"""What is to be learnt of files, found by looking."""

import json
import os
from pathlib import Path

import pytest

from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.tasks.detect import find_task
from clearhead.tasks.registry import task_named

TEXT = "The quick brown fox jumps over the lazy dog, and then it sleeps for a while"
SENTENCES = [f"{TEXT} {n}." for n in range(60)]


def lines(path: Path, *rows: str) -> str:
    path.write_text("".join(f"{row}\n" for row in rows))
    return str(path)


def found(*paths: str, **data: object) -> str:
    """The task, or "doubt" where the columns have to be named."""
    try:
        return find_task(paths, DataConfig(**data)).verb  # type: ignore[arg-type]
    except DataError as error:
        assert isinstance(error.value, tuple) and len(error.value) > 1 and "data.target_column" in error.fix
        return "doubt"


def test_two_columns_of_different_texts_are_pairs(tmp_path: Path) -> None:
    assert (
        found(lines(tmp_path / "a.tsv", *(f"{it}\tEt en français {n}" for n, it in enumerate(SENTENCES))))
        == "translate"
    )
    assert found(lines(tmp_path / "b.tsv", "a\tb", "c\td")) == "translate"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_column_whose_few_values_come_again_holds_labels(tmp_path: Path, order: tuple[int, int]) -> None:
    rows = [(it, ("sports", "world", "business")[n % 3]) for n, it in enumerate(SENTENCES)]
    assert found(lines(tmp_path / "a.tsv", *("\t".join(row[i] for i in order) for row in rows))) == "classify"


@pytest.mark.parametrize(("distinct", "verb"), [(10, "classify"), (11, "translate")])
def test_labels_are_a_quarter_as_many_as_rows_at_most(tmp_path: Path, distinct: int, verb: str) -> None:
    rows = [f"{SENTENCES[n % len(SENTENCES)]} {n}\tlabel {n % distinct}" for n in range(41)]  # one more: a header
    assert found(lines(tmp_path / "a.tsv", *rows)) == verb


def test_few_rows_tell_nothing_of_labels(tmp_path: Path) -> None:
    assert found(lines(tmp_path / "a.tsv", *(f"{it}\tyes" for it in SENTENCES[:10]))) == "translate"


@pytest.mark.parametrize("header", ["text,label", "id,sentence,sentiment", "Category,Title"])
def test_a_header_that_names_text_and_label_is_enough_where_labels_come_again(tmp_path: Path, header: str) -> None:
    labels = {"label", "sentiment", "Category"}
    cells = [
        [str(n % 2) if name in labels else str(n) if name == "id" else it for name in header.split(",")]
        for n, it in enumerate(SENTENCES)
    ]
    rows = [",".join(f'"{cell}"' for cell in row) for row in cells]
    assert found(lines(tmp_path / "a.csv", header, *rows)) == "classify"


@pytest.mark.parametrize(("rows", "labels"), [(60, 40), (3, 2)])
def test_where_text_and_label_are_named_the_labels_may_be_many_or_the_rows_few(
    tmp_path: Path, rows: int, labels: int
) -> None:
    body = [f"{it}\t{n % labels}" for n, it in enumerate(SENTENCES[:rows])]
    assert found(lines(tmp_path / "a.tsv", "text\tcategory", *body)) == "classify"
    distinct = [f"{it}\t{n}" for n, it in enumerate(SENTENCES[:rows])]
    assert found(lines(tmp_path / "b.tsv", "text\tcategory", *distinct)) == ("doubt" if rows > 3 else "translate")
    assert (
        found(lines(tmp_path / "c.tsv", "sentence\ttarget", *body)) == "translate"
    )  # which may be two sides of a pair


ONE_TEXT = [
    ["PhraseId\tSentenceId\tPhrase\tSentiment", "{n}\t{n}\t{text}\t{kind}"],
    ["tweet_id\tairline_sentiment\treason\tname\ttext", "{n}\t{kind}\t\tsomebody{n}\t{text}"],
    ["v1\tv2\t\t", "{kind}\t{text}\t\t"],
    ["", "{n}\t{text}\t{kind}"],
    ["", "gj04\t{kind}\t\t{text}"],
]


@pytest.mark.parametrize(("header", "row"), ONE_TEXT)
def test_one_column_of_sentences_among_several_makes_no_pairs_with_labels(
    tmp_path: Path, header: str, row: str
) -> None:
    rows = [row.format(n=n, text=it, kind=("a", "b/c", "d")[n % 3]) for n, it in enumerate(SENTENCES)]
    assert found(lines(tmp_path / "a.tsv", *filter(None, [header]), *rows)) == "classify"
    pairs = [it.replace(SENTENCES[n], f"{SENTENCES[n]}\tEin Fuchs {n}") for n, it in enumerate(rows)]
    header = header.replace("Phrase\t", "Phrase\tSatz\t").replace("v2", "v2\tv3").replace("text", "text\tSatz")
    assert found(lines(tmp_path / "b.tsv", *filter(None, [header]), *pairs)) == "doubt"


def test_terms_with_their_fields_and_what_they_are_in_a_language_of_long_words_are_in_doubt(tmp_path: Path) -> None:
    def headed(*columns: str) -> str:
        rows = ["\t".join([f"fire engine {n}", *(it.format(n=n) for it in columns), "ab"[n % 2]]) for n in range(60)]
        return found(lines(tmp_path / "a.tsv", "\t".join(["term", *"xyz"[: len(columns)], "category"]), *rows))

    assert headed("Feuerauto{n} usw") == "doubt"
    assert headed() == headed("{n}") == headed("s{n}") == "classify"  # which is no such term


def test_of_json_one_text_and_a_value_that_comes_again_is_a_label_but_among_the_keys_of_a_corpus_it_is_none(
    tmp_path: Path,
) -> None:
    comments = [json.dumps({"comment": it, "toxic": n % 2 == 0}) for n, it in enumerate(SENTENCES)]
    assert found(lines(tmp_path / "a.jsonl", *comments)) == "classify"
    about = [f'{it[:-1]}, "about": {{"site": "a", "day": "{n}"}}}}' for n, it in enumerate(comments)]
    assert found(lines(tmp_path / "about.jsonl", *about)) == "classify"
    pages = [json.dumps({"text": it, "lang": "ab"[n % 2], "url": f"u{n}"}) for n, it in enumerate(SENTENCES)]
    assert found(lines(tmp_path / "b.jsonl", *pages)) == "generate"
    talks = [
        json.dumps({"translation": {"en": it, "de": f"Ein Fuchs {n}"}, "talk": f"of {n}", "speaker": "ab"[n % 2]})
        for n, it in enumerate(SENTENCES)
    ]
    assert found(lines(tmp_path / "c.jsonl", *talks)) == "translate"
    books = [json.dumps({"text": it, "score": 1}) for it in SENTENCES[:3]]
    assert found(lines(tmp_path / "d.jsonl", *books)) == "generate"


def test_a_file_that_is_sorted_by_its_labels_has_labels(tmp_path: Path) -> None:
    rows = [f"{it} {half}\t{half}" for half in ("neg", "pos") for it in SENTENCES * 5]
    assert found(lines(tmp_path / "a.tsv", "text\tlabel", *rows)) == "classify"
    assert found(lines(tmp_path / "b.tsv", *rows)) == "classify"
    sides = [lines(tmp_path / str(side), *(row.split("\t")[side] for row in rows)) for side in (0, 1)]
    assert found(*sides) == "classify"
    blank = [f"{it}\t" for it in SENTENCES]
    assert found(lines(tmp_path / "c.tsv", *blank)) == "translate"
    assert found(sides[0], lines(tmp_path / "blank", *("" for _ in rows))) == "translate"


def test_long_texts_beside_short_ones_are_summarised(tmp_path: Path) -> None:
    rows = [f"{it * 6}\tA fox sleeps, number {n}." for n, it in enumerate(SENTENCES)]
    assert found(lines(tmp_path / "a.tsv", *rows)) == "summarize"
    named = [f"{n},{it * 2},Fox {n}" for n, it in enumerate(text.replace(",", ";") for text in SENTENCES)]
    assert found(lines(tmp_path / "b.csv", "id,dialogue,summary", *named)) == "summarize"


@pytest.mark.parametrize(
    ("entry", "verb"),
    [
        ({"text": TEXT, "label": "a"}, "classify"),
        ({"one": TEXT, "other": "a"}, "translate"),
        ({"text": TEXT}, "generate"),
        ({"en": TEXT, "fr": TEXT}, "translate"),
        ({"source": [TEXT, TEXT, TEXT], "target": ["A fox."]}, "summarize"),
        ({"question": "Who?", "context": TEXT, "answer": "fox"}, "answer"),
    ],
)
def test_the_keys_of_json_lines_tell(tmp_path: Path, entry: dict, verb: str) -> None:
    assert found(lines(tmp_path / "a.jsonl", *[json.dumps(entry)] * 30)) == verb


def test_labels_in_json_lines_come_again(tmp_path: Path) -> None:
    rows = [json.dumps({"text": it, "label": n % 4}) for n, it in enumerate(SENTENCES)]
    assert found(lines(tmp_path / "a.jsonl", *rows)) == "classify"


def test_lines_as_fasttext_has_them_begin_with_labels(tmp_path: Path) -> None:
    rows = [f"__label__{'ab'[n % 2]} {it}" for n, it in enumerate(SENTENCES)]
    assert found(lines(tmp_path / "a.txt", *rows)) == "classify"
    assert found(lines(tmp_path / "b.txt", *SENTENCES, "__label__a is what fastText writes")) == "generate"


def test_squad_is_answered(tmp_path: Path) -> None:
    questions = [{"id": "1", "question": "What jumps?", "answers": [{"text": "fox", "answer_start": 16}]}]
    articles = [{"title": "Fox", "paragraphs": [{"context": TEXT, "qas": questions}]}]
    for indent in (None, 1):
        path = tmp_path / "squad.json"
        path.write_text(json.dumps({"version": "1.1", "data": articles}, indent=indent))
        assert found(str(path)) == "answer"


def test_lines_that_begin_with_few_words_go_on_but_how_to_name_labels_is_said(tmp_path: Path) -> None:
    labelled = lines(tmp_path / "a.txt", *(f"{('NUM:date', 'HUM:ind')[n % 2]} {TEXT}" for n in range(60)))
    said = ' (if the first word of each line is a label: --task classify --separator " ")'
    assert find_task([labelled], DataConfig()).why == f"the file is running text, without columns{said}"
    assert found(labelled, separator=" ") == "classify"
    plain = lines(tmp_path / "b.txt", *(f"{n} {TEXT}" for n in range(60)))
    code = lines(tmp_path / "c.txt", *("def f():", "    return 1") * 30)
    for path in (plain, code):
        assert find_task([path], DataConfig()).why == "the file is running text, without columns"


def test_text_without_columns_goes_on(tmp_path: Path) -> None:
    assert found(lines(tmp_path / "a.txt", *SENTENCES)) == "generate"
    (tmp_path / "deep" / "er").mkdir(parents=True)
    lines(tmp_path / "deep" / "er" / "a.py", "import os", "x = {1: 2, 3: 4}")
    assert found(str(tmp_path / "deep")) == "generate"


def test_lines_that_begin_with_a_tab_are_no_table(tmp_path: Path) -> None:
    indented = [f"{sentence}\n\t{sentence}" for sentence in SENTENCES]
    assert found(lines(tmp_path / "a.txt", *indented)) == "generate"


def test_a_separator_that_is_not_found_by_looking_is_left_to_the_reader_who_says_how_to_name_it(tmp_path: Path) -> None:
    assert found(lines(tmp_path / "a.txt", *(f"{it} | Un renard {n}" for n, it in enumerate(SENTENCES)))) == "translate"


def test_of_two_aligned_files_one_may_hold_labels(tmp_path: Path) -> None:
    texts = lines(tmp_path / "texts", *SENTENCES)
    labels = lines(tmp_path / "labels", *("yn"[n % 2] for n in range(60)))
    others = lines(tmp_path / "others", *reversed(SENTENCES))
    assert [found(texts, labels), found(labels, texts), found(texts, others)] == ["classify", "classify", "translate"]


def test_a_table_of_sentences_and_one_of_questions_are_known_by_their_columns_in_either_order(tmp_path: Path) -> None:
    sentences = lines(tmp_path / "sentences", "a:1:1\tThe fox sleeps .")
    questions = lines(tmp_path / "questions", *["a:1:1\t2\t9\t1\t2\tWho sleeps ?\t0 1\t7:0 1\t8:1"] * 2)
    pairs = lines(tmp_path / "pairs", "one\ttwo")
    found_by_looking = [found(sentences, questions), found(questions, sentences), found(sentences, pairs)]
    assert found_by_looking == ["answer", "answer", "translate"]


def test_columns_that_are_named_tell_by_what_is_in_the_second(tmp_path: Path) -> None:
    rows = [f"{it}\t{'ab'[n % 2]}\tDas {n}" for n, it in enumerate(SENTENCES)]
    path = lines(tmp_path / "a.tsv", "english\tkind\tgerman", *rows)
    assert found(path, source_column="english", target_column="kind") == "classify"
    assert found(path, source_column="english", target_column="german") == "translate"


def test_a_pipe_is_not_read_before_the_data_are() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"one\tun\n")
    os.close(writer)
    for task in (None, "translate"):
        assert find_task(f"/dev/fd/{reader}", DataConfig(), task=task).verb == "translate"
    assert os.read(reader, 99) == b"one\tun\n"
    os.close(reader)


def test_what_cannot_be_read_is_left_to_the_reader(tmp_path: Path) -> None:
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8b\x08 nothing")
    assert [found(str(tmp_path / "absent")), found(str(tmp_path / "bad.gz")), found("-")] == ["translate"] * 3
    (tmp_path / "empty").mkdir()
    assert found(str(tmp_path / "empty")) == "translate"


def test_nothing_is_said_about_data_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").touch()
    for name in ("absent", "empty.tsv"):
        assert str(find_task(str(tmp_path / name), DataConfig())) == ""


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [("id", "numbers", "{}"), ("date", "dates", "2024-01-{:02}"), ("url", "addresses", "https://a.org/{}"),
     ("key", "codes", "AB-{}")],
)  # fmt: skip
@pytest.mark.parametrize("swapped", [True, False])
def test_two_columns_of_which_one_has_no_texts_are_doubtful(
    tmp_path: Path, header: bool, name: str, kind: str, value: str, swapped: bool
) -> None:
    table = [(name, "message")] * header + [(value.format(n + 3), it) for n, it in enumerate(SENTENCES[:26])]
    file = lines(tmp_path / "a.tsv", *("\t".join(row[:: -1 if swapped else 1]) for row in table))
    with pytest.raises(DataError) as caught:
        find_task([file], DataConfig())
    title, other = (name, "message") if header else ("column 2", "column 1") if swapped else ("column 1", "column 2")
    assert caught.value.what.startswith(f"{file} has 2 columns, and {title} contains {kind}\n")
    assert sorted(caught.value.value) == sorted((title, other))
    assert "train.task=classify" in caught.value.fix and "train.task=translate" in caught.value.fix
    assert find_task([file], DataConfig(source_column="1", target_column="2")).verb == "translate"
    assert find_task([file], DataConfig(), task="translate").verb == "translate"


def test_symbols_on_both_sides_and_very_few_rows_are_pairs(tmp_path: Path) -> None:
    assert found(lines(tmp_path / "a.tsv", *(f"A{n}\tB-{n}" for n in range(30)))) == "translate"
    assert found(lines(tmp_path / "b.tsv", *(f"{n}\tnumber {n} in words" for n in range(4)))) == "translate"


@pytest.mark.parametrize("header", ["text,label", "label,text", "document,summary"])
def test_a_header_alone_is_no_data(tmp_path: Path, header: str) -> None:
    file = lines(tmp_path / "a.csv", header)
    with pytest.raises(DataError) as caught:
        find_task([file], DataConfig())
    assert (caught.value.name, caught.value.line) == (file, 1) and "no rows" in caught.value.what
    for task in ("translate", "classify"):
        with pytest.raises(DataError) as caught:
            task_named(task).form.read([file], DataConfig())
        assert caught.value.line == 1 and "no rows" in caught.value.what


def test_a_table_with_one_column_is_running_text_and_that_its_header_is_read_too_is_said(tmp_path: Path) -> None:
    said = [find_task([lines(tmp_path / name, *it)], DataConfig()) for name, it in (
        ("a.csv", ("text", *SENTENCES)), ("b.txt", ("text", *SENTENCES)), ("c.tsv.gz", SENTENCES), ("d.txt", SENTENCES)
    )]  # fmt: skip
    assert [it.verb for it in said] == ["generate"] * 4
    assert ['header such as "text"' in it.why for it in said] == [True, True, False, False]
    assert ["if it's a table" in it.why for it in said] == [True, True, True, False]


def objects(path: Path, make) -> str:
    return lines(path, *(json.dumps(make(n, it)) for n, it in enumerate(SENTENCES)))


def test_nested_keys_are_named_as_they_are_listed(tmp_path: Path) -> None:
    reviews = objects(
        tmp_path / "a.jsonl",
        lambda n, it: {"review": {"text": it, "words": it.split(), "rating": n % 3}, "user": {"bio": f"I am {it}"}},
    )
    assert found(reviews, source_column="review.text", target_column="review.rating") == "classify"
    assert found(reviews, source_column="review.text") == "classify"
    with pytest.raises(DataError) as caught:
        find_task([reviews], DataConfig())
    assert caught.value.value == ("review.text", "review.rating", "user.bio")  # a list isn't a text
    assert "data.source_column=review.text" in caught.value.fix
    pairs = objects(tmp_path / "b.jsonl", lambda n, it: {"translation": {"en": it, "de": f"Satz {n}"}, "about": "x"})
    assert found(pairs, source_column="translation.en", target_column="translation.de") == "translate"
    rows = [json.loads(line) for line in Path(reviews).read_text().splitlines()]
    assert find_task(rows, DataConfig(source_column="review.text")).verb == "classify"


def test_the_side_that_is_not_named_is_detected(tmp_path: Path) -> None:
    rows = [f"{n},{it},{'ab'[n % 2]},{n % 3}" for n, it in enumerate(SENTENCES)]
    table = lines(tmp_path / "a.csv", "id,review,tone,kind", *(it.replace(", and", " and") for it in rows))
    assert found(table, target_column="tone") == found(table, target_column="kind") == "classify"
    assert found(table, source_column="review") == "doubt"  # there are two labels
    shown = str(find_task([table], DataConfig(target_column="tone")))
    assert "text: review (column 2); label: tone (column 3)" in shown


def test_outputs_of_instructions_are_no_labels(tmp_path: Path) -> None:
    outputs = ["Yes.", "No, not yet.", "Paris", *(f"It's {n}." for n in range(36))]
    for n_inputs in (0, 20, 60):
        data = objects(
            tmp_path / "a.jsonl",
            lambda n, it, of=n_inputs: {
                "instruction": it, "input": f"Think of {n}." if n < of else "", "output": outputs[n % 39],
            },
        )  # fmt: skip
        assert found(data) == "generate"
        assert found(data, target_column="output") == "translate"
        rows = [f"{it}\tThink of {n}.\t{outputs[n % 39]}" for n, it in enumerate(SENTENCES)]
        assert found(lines(tmp_path / "a.tsv", "instruction\tinput\toutput", *rows)) == "doubt"


def test_sentences_under_the_name_of_a_label_are_no_labels(tmp_path: Path) -> None:
    answers = [f"{it}\tThat's number {n % 30}." for n, it in enumerate(SENTENCES)]
    assert found(lines(tmp_path / "a.tsv", "question\toutput", *answers)) != "classify"
    labels = [f"{it}\tMean of transportation {n % 30}" for n, it in enumerate(SENTENCES)]
    assert found(lines(tmp_path / "b.tsv", "question\toutput", *labels)) == "classify"
