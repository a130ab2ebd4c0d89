"""Texts and labels, documents and summaries: which column is which, and what JSON may hold of them."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.errors import ConfigError
from clearhead.readers.column_roles import LABELLED, SENTENCES, SUMMARIES, Roles
from clearhead.readers.pairs import Pairs, PairSource, read_pairs, references
from clearhead.tasks.detect import find_task

from .conftest import both, error_of, written

TEXTS = [f"the {what} of number {n} is here" for n, what in enumerate(["film", "dish", "match", "shop"] * 10)]
LABELS = [("Sci/Tech", "  b c")[n % 2] for n in range(len(TEXTS))]
LABELLED_PAIRS = list(zip(TEXTS, LABELS))
DIALOGUES = [f"A: hello, number {n}\nB: bye, {n}" for n in range(6)]
SUMMARIES_PAIRS = [(text, f"They talk, {n}.") for n, text in enumerate(DIALOGUES)]
# One value on all rows would say as little as another column that has but one.
labels_of_two_kinds = st.lists(st.sampled_from(["0", "1", "é", "New York", "a:b "]), min_size=40, max_size=60).filter(
    lambda labels: len(set(labels)) > 1
)


@pytest.fixture
def read_as(tmp_path):
    """`read_as(LABELLED, "a\\tb\\n", separator="tab")`: the pairs of a file with this content."""

    def call(roles: Roles, content: bytes | str, **options: object) -> Pairs:
        return read_pairs([written(tmp_path / "x", content)], DataConfig(**options), roles)

    return call


@pytest.fixture
def refused_as(read_as):
    return lambda *arguments, **options: error_of(read_as, *arguments, **options)


def tsv(rows) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def csv(rows) -> str:
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def json_lines(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# --- labels


@pytest.mark.parametrize("number", [1, 2, 19, len(TEXTS)])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("write", [tsv, csv])
def test_without_a_header_the_labels_are_the_few_short_values(read_as, number: int, swapped: bool, write) -> None:
    rows = [row[::-1] if swapped else row for row in LABELLED_PAIRS[:number]]
    pairs = read_as(LABELLED, write(rows))
    assert both(pairs) == LABELLED_PAIRS[:number]
    assert f"(text in {1 + swapped}, label in {2 - swapped}), no header" in pairs.report.form


@given(labels=labels_of_two_kinds, place=st.integers(0, 3))
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_they_are_found_between_any_other_columns(read_as, labels: list[str], place: int) -> None:
    rows = [[str(n), "NO_QUERY", TEXTS[n % 40]] for n in range(len(labels))]
    for row, label in zip(rows, labels):
        row.insert(place, label)
    assert read_as(LABELLED, tsv(rows)).targets == labels


def test_labels_may_be_longer_than_their_texts(read_as) -> None:
    words = [(f"w{n}", ("a noun of the kind", "a verb")[n % 2]) for n in range(30)]
    assert both(read_as(LABELLED, tsv(words))) == words


def test_a_column_that_is_blank_on_most_rows_holds_the_labels_only_where_no_other_does(read_as) -> None:
    labels = [str(n % 2) for n in range(40)]
    rows = [("gj04", label, "*" * (n % 4 == 0), TEXTS[n]) for n, label in enumerate(labels)]
    assert both(read_as(LABELLED, tsv(rows))) == list(zip(TEXTS, labels))
    pairs = read_as(LABELLED, tsv((text, mark) for _, _, mark, text in rows))
    assert pairs.targets == ["*"] * 10 and pairs.report.skipped == {"empty label": 30}


def test_a_file_that_is_sorted_by_its_labels_is_read(read_as) -> None:
    rows = [("neg", f"text {n}") for n in range(300)] + [("pos", f"other {n}") for n in range(300)]
    assert both(read_as(LABELLED, tsv(rows))) == [row[::-1] for row in rows]


@pytest.mark.parametrize(
    ("header", "text", "label"),
    [
        (("sentence", "label"), 1, 2),
        (("label", "text"), 2, 1),
        (("Class Index", "Title", "Description"), 3, 1),
        (("label-coarse", "fine_label", "text"), 3, 1),
        (("id", "Review Text", "sentiment"), 2, 3),
        (("summary", "reviewText", "classLabel"), 2, 3),
        (("what", "text", "category"), 2, 3),
    ],
)
def test_a_header_tells_the_columns_whatever_stands_below(read_as, header: tuple, text: int, label: int) -> None:
    rows = [[f"{column}{n} x" for column in header] for n in range(30)]
    pairs = read_as(LABELLED, tsv([header, *rows]))
    assert both(pairs) == [(row[text - 1], row[label - 1]) for row in rows]
    assert f"(text in {text}, label in {label}), header" in pairs.report.form


@pytest.mark.parametrize("header", [("text", "toxicity"), ("words", "label")])
def test_one_name_is_a_header_where_the_other_column_is_found_by_looking(read_as, header: tuple[str, str]) -> None:
    assert both(read_as(LABELLED, tsv([header, *LABELLED_PAIRS]))) == LABELLED_PAIRS


def test_one_name_outweighs_what_another_column_looks_like(read_as) -> None:
    header = ("id", "posting", "lang", "label")
    rows = [(str(n), text, "ab"[n % 2], "xyz"[n % 3]) for n, text in enumerate(TEXTS)]
    assert both(read_as(LABELLED, tsv([header, *rows]))) == [(text, label) for _, text, _, label in rows]
    named = [(*row[:2], ("label", "other")[n % 2], "en") for n, row in enumerate(rows)]  # which is no header
    assert both(read_as(LABELLED, tsv(named))) == [(text, kind) for _, text, kind, _ in named]


def test_a_label_that_is_the_name_of_a_column_is_a_label(read_as) -> None:
    rows = [(text, ("question", "answer")[n % 2]) for n, text in enumerate(TEXTS)]
    assert both(read_as(LABELLED, tsv(rows))) == rows
    pairs = read_as(LABELLED, tsv([row[::-1] for row in rows]))
    assert both(pairs) == rows and pairs.report.notes == []


def test_a_first_label_that_never_comes_again_may_be_a_header_and_is_told(read_as) -> None:
    pairs = read_as(LABELLED, tsv([("remark on the film of today", "toxicity"), *LABELLED_PAIRS]))
    assert len(pairs) == len(TEXTS) + 1 and pairs.report.notes == [
        'line 1 may be a header: its label, "toxicity", isn\'t in any other of the first 40 rows'
    ]


@pytest.mark.parametrize("number", [1, 2, 5, 30])
@pytest.mark.parametrize("swapped", [False, True])
def test_labels_that_a_model_knows_are_found_in_a_few_lines_too(read_as, number: int, swapped: bool) -> None:
    known = replace(LABELLED, known=frozenset({"a label that is long", "spam"}))
    rows = [(f"t{n % 3}", "a label that is long" if n % 5 else "new") for n in range(1, number + 1)]
    rows = [row[::-1] if swapped else row for row in rows]
    assert read_as(known, tsv(rows)).targets == [row[not swapped] for row in rows]
    if number > 1:  # by their length alone it would be the other column
        assert both(read_as(LABELLED, tsv(rows[:2]))) == [row if swapped else row[::-1] for row in rows[:2]]


def test_labels_that_a_model_knows_tell_a_header_of_a_few_lines(read_as) -> None:
    known = replace(LABELLED, known=frozenset({"spam", "ham"}))
    [note] = read_as(known, "mail\tkind\nbuy now\tspam\nhello\tham\n").report.notes
    assert '"kind"' in note
    assert read_as(known, "mail\tspam\nbuy now\tham\nhello\tham\n").report.notes == []


def test_where_nothing_tells_the_labels_that_is_an_error_and_asking_helps(read_as, refused_as, tmp_path) -> None:
    rows = [(f"one {n}", f"other {n}") for n in range(25)]
    assert str(refused_as(LABELLED, tsv(rows))) == (
        f"{tmp_path}/x: it isn't clear which of its 2 columns has the labels\n"
        '    column 1  "one 1", "one 2"\n'
        '    column 2  "other 1", "other 2"\n'
        "  expected: a header with text and label, or labels that repeat\n"
        "  name the columns: `data.source_column=N` and `data.target_column=N`"
    )
    assert both(read_as(LABELLED, tsv(rows), source_column="2", target_column="1")) == [row[::-1] for row in rows]


def test_a_table_without_labels_has_none_in_its_numbers(refused_as, tmp_path) -> None:
    rows = [(str(n), text) for n, text in enumerate(TEXTS)]
    for table in ([("id", "text"), *rows], [("text", "id"), *(row[::-1] for row in rows)]):
        assert {*refused_as(LABELLED, tsv(table)).value} == {"id", "text"}
    error = refused_as(LABELLED, json_lines({"id": n, "text": text} for n, text in enumerate(TEXTS)))
    assert error.value == ("id", "text")


def test_a_label_of_several_lines_would_be_several_answers_and_is_left_out(read_as) -> None:
    pairs = read_as(LABELLED, csv([("text", "label"), *LABELLED_PAIRS, ("a", "two\nlines"), ("b\nc", "one")]))
    assert both(pairs) == [*LABELLED_PAIRS, ("b\nc", "one")]
    assert pairs.report.skipped == {"label with several lines": 1}


def test_a_label_as_fasttext_writes_it_is_parted_from_its_text(read_as) -> None:
    labelled = [(text, f"__label__{'ab'[n % 2]}") for n, text in enumerate(TEXTS)]
    rows = [f"{label} {text}" for text, label in labelled]
    pairs = read_as(LABELLED, "\n".join([*rows, "__label__a __label__b both", "nothing", ""]))
    assert both(pairs) == labelled
    assert pairs.report.skipped["more than one label"] == 1
    for mark in "\t,":
        assert both(read_as(LABELLED, "".join(f"{label}{mark}{text}\n" for text, label in labelled))) == labelled


def test_a_label_stays_as_it_stands(read_as) -> None:
    labels = ["  a  b", "A B", "1", "01", "true ", "ﬁ"] * 5
    assert read_as(LABELLED, tsv(zip(TEXTS, labels))).targets == labels


def test_what_is_missing_is_said_in_the_words_of_the_task(read_as, refused_as) -> None:
    pairs = read_as(LABELLED, tsv([*LABELLED_PAIRS, ("", "b"), ("a", " "), ("a\0", "b")]))
    assert pairs.report.skipped == {"empty text": 1, "empty label": 1, "NUL character": 1}
    assert "text<TAB>label" in refused_as(LABELLED, "one\ntwo\n").expected
    error = error_of(PairSource, ["a", "b", "c"], None, LABELLED)
    assert error.value == 3 and "text<TAB>label" in error.expected


def test_a_label_that_is_the_first_word_is_parted_by_a_space_if_asked(read_as, refused_as) -> None:
    lines = "".join(f'{label} What is "{n}", or two  spaces?\n' for n, label in enumerate(["NUM:date", "HUM:ind"] * 9))
    assert 'data.separator=" "' in refused_as(LABELLED, lines).fix
    fix = refused_as(LABELLED, lines.encode() + b"NUM:date caf\xe9 in 1900\n").fix
    assert 'data.separator=" "' in fix and "iconv" in fix
    pairs = read_as(LABELLED, lines, separator=" ")
    assert both(pairs)[:2] == [
        ('What is "0", or two  spaces?', "NUM:date"), ('What is "1", or two  spaces?', "HUM:ind"),
    ]  # fmt: skip
    assert "(text in 2, label in 1)" in pairs.report.form and pairs.report.notes == []


# --- labels in JSON


def test_a_label_may_be_a_number_or_a_boolean_and_is_written_as_json_writes_it(read_as) -> None:
    values = [1, 0, -3, 2.5, True, False, "true", "x y"]
    rows = [{"id": n, "text": TEXTS[n], "label": value} for n, value in enumerate(values)]
    assert read_as(LABELLED, json_lines(rows)).targets == ["1", "0", "-3", "2.5", "true", "false", "true", "x y"]
    skipped = [{"text": "a", "label": None}, {"text": "a", "label": [1]}, {"text": 1, "label": 1}, {"text": "a"}]
    pairs = read_as(LABELLED, json_lines([*rows, *skipped]))
    assert pairs.report.skipped == {"no label in label": 2, "no string in text": 1, "no key label": 1}


def test_a_number_stays_as_it_is_written(read_as) -> None:
    written = ["1.10", "1.1", "1.0", "1", "1e3", "-0.50", "0.1000000000000000055"]
    rows = (f'{{"text": "a text {n}", "label": {label}}}\n' for n, label in enumerate(written))
    assert read_as(LABELLED, "".join(rows)).targets == written


def test_keys_are_found_by_name_or_by_looking(read_as, refused_as) -> None:
    rows = [{"n": n, "stern": label, "body": text} for n, (text, label) in enumerate(LABELLED_PAIRS)]
    assert both(read_as(LABELLED, json_lines(rows))) == LABELLED_PAIRS
    named = [{"meta": {"sentiment": label}, "x": text[:9], "review": text} for text, label in LABELLED_PAIRS]
    assert read_as(LABELLED, json_lines(named)).report.form == "JSON lines, text in review, label in meta.sentiment"
    assert refused_as(LABELLED, json_lines({"a": f"a{n}", "b": f"b{n}"} for n in range(30))).value == ("a", "b")


def test_numbers_are_no_sentences_still(read_as, refused_as) -> None:
    assert refused_as(SENTENCES, json_lines([{"text": "a", "label": 1}] * 3)).value == ("text",)


# --- summaries


@pytest.mark.parametrize(
    "header",
    [("id", "dialogue", "summary"), ("highlights", "article", "url"), ("source", "target"), ("headline", "text")],
)
def test_documents_of_many_lines_and_their_summaries_are_found_by_header(read_as, header: tuple[str, ...]) -> None:
    documents = {"dialogue", "article", "source", "text"}
    summaries = {"summary", "highlights", "target", "headline"}

    def row(number: int) -> list[str]:
        document, summary = SUMMARIES_PAIRS[number]
        return [document if name in documents else summary if name in summaries else str(number) for name in header]

    assert both(read_as(SUMMARIES, csv([header, *map(row, range(6))]))) == SUMMARIES_PAIRS


def test_numbers_are_no_summaries(refused_as, tmp_path) -> None:
    rows = [(str(n), text) for n, text in enumerate(DIALOGUES)]
    assert refused_as(SUMMARIES, csv([("id", "dialogue"), *rows])).value == ("id", "dialogue")
    lines = json_lines({"id": str(n), "dialogue": text} for n, text in enumerate(DIALOGUES))
    assert refused_as(SUMMARIES, lines).value == ("id", "dialogue")


@pytest.mark.parametrize("swapped", [False, True])
def test_without_a_header_the_document_is_the_longest_and_the_summary_the_next(read_as, swapped: bool) -> None:
    rows = [(str(n), *(pair[::-1] if swapped else pair)) for n, pair in enumerate(SUMMARIES_PAIRS)]
    assert both(read_as(SUMMARIES, csv(rows))) == SUMMARIES_PAIRS


def test_a_list_of_sentences_is_a_document_and_one_of_summaries_makes_several_pairs(read_as) -> None:
    rows = [
        {"source": ["One.", "Two."], "title": "x", "target": ["short", "shorter"], "source_labels": [0, 1]},
        {"source": "Three.", "title": "y", "target": "three"},
        {"source": ["Four."], "title": "z", "target": ["four", ""]},
        {"source": [], "title": "z", "target": ["five"]},
        {"source": ["Six.", 6], "title": "z", "target": []},
        {"source": ["Seven."], "title": "z", "target": []},
    ]
    pairs = read_as(SUMMARIES, json_lines(rows))
    assert both(pairs) == [("One. Two.", "short"), ("One. Two.", "shorter"), ("Three.", "three"), ("Four.", "four")]
    assert references(pairs)[1] == [["short", "shorter"], ["three"], ["four"]]
    assert pairs.report.skipped == {"empty summary": 2, "empty document": 1, "no string in source": 1}
    assert (pairs.report.used, pairs.report.lines) == (3, 6)
    assert pairs.report.notes == ["lines with several values in target: 2; each value makes a pair"]


# --- line-aligned files, folders, settings


@pytest.mark.parametrize(("roles", "pairs"), [(LABELLED, LABELLED_PAIRS), (SUMMARIES, [("a long text", "text")] * 3)])
@pytest.mark.parametrize("exchanged", [False, True])
def test_line_aligned_files_are_read_in_either_order(tmp_path, roles: Roles, pairs, exchanged: bool) -> None:
    files = [written(tmp_path / str(i), "".join(f"{pair[i]}\n" for pair in pairs)) for i in (0, 1)]
    read = read_pairs(files[::-1] if exchanged else files, None, roles)
    assert both(read) == pairs
    assert f"({roles.source} in {1 + exchanged}, {roles.target} in {2 - exchanged})" in read.report.form
    written(files[0], "one\n")
    error = error_of(read_pairs, files, None, roles)
    assert roles.aligned in error.expected and error.value == (1, len(pairs))


def test_the_files_of_a_folder_may_be_short(tmp_path) -> None:
    rows = random.Random(1).sample(LABELLED_PAIRS, len(LABELLED_PAIRS))
    (tmp_path / "shards").mkdir()
    for number, part in enumerate((rows[:30], rows[30:38], rows[38:39], rows[39:])):
        written(tmp_path / "shards" / str(number), tsv(part))
    assert both(read_pairs([tmp_path / "shards"], None, LABELLED)) == rows


def test_nothing_but_sentences_can_be_reversed() -> None:
    with pytest.raises(ConfigError) as caught:
        PairSource(["x"], DataConfig(reverse=True), LABELLED)
    assert (caught.value.name, caught.value.value) == ("data.reverse", True)


# --- real files


@pytest.mark.parametrize(
    ("name", "roles", "n_labels", "options"),
    [
        ("agnews/test-public-half.tsv.xz", LABELLED, 4, {}),
        ("sst2/glue-dev.tsv.xz", LABELLED, 2, {}),
        ("trec/train.txt.xz", LABELLED, 50, {"separator": " "}),
        ("samsum/validation.csv.xz", SUMMARIES, 0, {}),
        ("scitldr/dev.jsonl.xz", SUMMARIES, 0, {}),
    ],
)
def test_public_data_sets_are_read_by_looking(
    data_folder, name: str, roles: Roles, n_labels: int, options: dict
) -> None:
    pairs = read_pairs([data_folder / name], DataConfig(**options), roles)
    assert pairs.report.used >= pairs.report.lines - 2  # a header, and one line that is not UTF-8
    if n_labels:
        assert len(set(pairs.targets)) == n_labels
    else:
        longer = [len(source) > len(target) for source, target in both(pairs)]
        assert sum(longer) > 0.95 * len(longer)


# --- a folder of texts for each label


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    for number in range(6):
        for label, text in (("pos", "Good"), ("neg", "Bad")):
            (tmp_path / "train" / label).mkdir(parents=True, exist_ok=True)
            (tmp_path / "train" / label / f"{number}.txt").write_text(f"{text} film,\nnumber {number}.\n")
    return tmp_path / "train"


def test_a_folder_of_texts_for_each_label_is_read(reviews: Path) -> None:
    (reviews / "pos" / "7.txt").write_bytes(b"caf\xe9")
    (reviews / "pos" / "8.txt").write_bytes(b"")
    (reviews / "readme.txt").write_text("about")
    pairs = read_pairs([reviews], DataConfig(), LABELLED)
    expected = [
        (f"{text} film,\nnumber {n}.", label) for label, text in (("neg", "Bad"), ("pos", "Good")) for n in range(6)
    ]
    assert both(pairs) == expected
    assert pairs.report.skipped == {"not in the folder of a label": 1, "not UTF-8": 1, "not a text file": 1}
    assert pairs.report.unit == "files" and pairs.report.lines == 15
    assert find_task([reviews], DataConfig()).verb == "classify"


def test_a_label_is_part_of_the_digest_of_its_texts(reviews: Path) -> None:
    before = PairSource([reviews], DataConfig(), LABELLED).digest()
    (reviews / "neg").rename(reviews / "bad")
    assert PairSource([reviews], DataConfig(), LABELLED).digest() != before


def test_folders_of_other_things_are_no_labels(reviews: Path, tmp_path: Path) -> None:
    assert error_of(read_pairs, [tmp_path], DataConfig(), LABELLED).fix.endswith(f"`data.train={reviews}`")  # its parts
    assert find_task([tmp_path], DataConfig()).verb == "generate"
    (reviews / "neg" / "0.txt").rename(reviews / "neg" / "0.tsv")
    assert find_task([reviews], DataConfig()).verb == "generate"
    assert "contains another folder" in error_of(read_pairs, [reviews], DataConfig(), LABELLED).what
