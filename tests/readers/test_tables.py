"""TSV and CSV: separators, columns, headers, quotes."""

import csv
import io
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clearhead.config import Config, DataConfig
from clearhead.data.corpus import origin_of
from clearhead.errors import ConfigError
from clearhead.readers.headers import looks_like_header
from clearhead.readers.pairs import read_pairs
from clearhead.readers.rows import Dialect

from .conftest import both, written

in_place = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PAIRS = [("I am hungry.", "J'ai faim."), ("Yes, I am.", 'Oui, "moi".'), ("One\ntwo", "Un\ndeux"), ('"', ";|\t")]
letters = st.text(st.sampled_from('ab ,;"\n|'), max_size=6)


def as_csv(table, separator: str = ",", **form: object) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, lineterminator="\n", **form).writerows(table)
    return text.getvalue()


# --- rows


@given(
    table=st.lists(st.lists(letters, min_size=2, max_size=4), min_size=1, max_size=8), quoting=st.sampled_from([0, 1])
)
@settings(deadline=None)
def test_what_a_csv_writer_writes_is_read_back(table, quoting: int) -> None:
    lines = as_csv(table, quoting=quoting).encode().removesuffix(b"\n").split(b"\n")
    assert [cells for _, _, cells, _ in Dialect(",", quoted=True).rows(lines)] == table


@given(st.lists(letters.map(lambda text: text.replace("\n", "")), max_size=12))
@settings(deadline=None)
def test_every_line_is_in_exactly_one_row_whatever_its_quotes(texts: list[str]) -> None:
    found = list(Dialect(",", quoted=True).rows([text.encode() for text in texts]))
    assert "\n".join(text for _, text, _, _ in found).split("\n") == (texts or [""])
    at = 1
    for number, text, cells, reason in found:
        assert number == at and (cells is None) == bool(reason)
        at += text.count("\n") + 1


def test_a_quote_that_is_never_closed_costs_its_own_line_and_no_other() -> None:
    lines = ['"open,a', "b,c", 'd,"e"', '"f ""g""",h', '"last']
    found = [
        (number, cells or reason) for number, _, cells, reason in Dialect(",", quoted=True).rows(map(str.encode, lines))
    ]
    assert found == [
        (1, "unclosed quote"), (2, ["b", "c"]), (3, ["d", "e"]), (4, ['f "g"', "h"]), (5, "unclosed quote"),
    ]  # fmt: skip
    slips = [b'"open,a', b"b,c", b"d,e", b'f,"g"', b'h,i"', b"j,k"]  # the second slip does not close the first
    found = [cells or reason for _, _, cells, reason in Dialect(",", quoted=True).rows(slips)]
    assert found == ["unclosed quote", ["b", "c"], ["d", "e"], ["f", "g"], ["h", 'i"'], ["j", "k"]]
    for verses in (["one,", "two,", "three,", "four,", "five"], ["a cat, a dog", *["a hat, a log"] * 3, "the end"]):
        lines = as_csv([["\n".join(verses), "vier"]]).encode().splitlines()
        assert [cells for _, _, cells, _ in Dialect(",", quoted=True).rows(lines)] == [["\n".join(verses), "vier"]]
    far = [b'"open', *[b"a,b"] * 5000, b'c,"d"']
    assert [row[0] for row in Dialect(",", quoted=True).rows(far) if row[2] is None] == [1]


def test_a_line_that_is_no_utf8_ends_no_quote() -> None:
    found = [
        (number, cells or reason)
        for number, _, cells, reason in Dialect(",", quoted=True).rows([b'"a', b"\xff", b'b"'])
    ]
    assert found == [(1, "unclosed quote"), (2, "not UTF-8"), (3, ['b"'])]


def test_a_row_has_at_most_a_thousand_lines_and_a_million_letters() -> None:
    lines = [b'"a', *[b"x"] * 998, b'b",c']
    assert [row[2] is None for row in Dialect(",", quoted=True).rows(lines)] == [False]
    assert next(Dialect(",", quoted=True).rows([b'"a', b"x", *lines[1:]]))[3] == "unclosed quote"
    assert next(Dialect(",", quoted=True).rows([b'"' + b"x" * (1 << 20), b'"']))[3] == "unclosed quote"


# --- what is found by looking


@pytest.mark.parametrize("separator", [",", ";", "|"])
@pytest.mark.parametrize("header", [[], [("English", "French")]], ids=["no header", "header"])
def test_a_csv_gives_its_pairs(read, separator: str, header: list) -> None:
    pairs = read(as_csv(header + PAIRS, separator))
    assert both(pairs) == PAIRS
    name = {",": "comma", ";": "semicolon", "|": "pipe"}[separator]
    assert pairs.report.form == f"CSV ({name}), two columns, {'header (English, French)' if header else 'no header'}"
    first = len(header) + 1
    assert list(pairs.lines) == [first, first + 1, first + 2, first + 5]
    assert str(pairs.report).endswith("; 4 of 4 rows used")


def test_line_ends_of_windows_and_a_mark_of_bytes_are_no_part_of_a_csv(read) -> None:
    pairs = read("\ufeff" + as_csv([("en", "fr"), *PAIRS]).replace("\n", "\r\n"))
    assert both(pairs) == PAIRS and "header (en, fr)" in pairs.report.form


@pytest.mark.parametrize("answer", ["B: yes", "B: no,yes,no"])
@pytest.mark.parametrize("lines", [2, 30, 90])
def test_a_text_of_many_lines_in_which_the_look_ends_is_no_sign_against_a_csv(read, lines: int, answer: str) -> None:
    dialogue = "\n".join(["A: here, and there", *[answer] * (lines - 1)])
    table = [(f"{dialogue} {number}", f"they talk, {number} times") for number in range(400 // lines + 1)]
    pairs = read(as_csv([("dialogue", "summary"), *table]))
    assert pairs.report.form.startswith("CSV (comma), two columns") and len(pairs) >= len(table)
    assert both(pairs)[-2:] == table[-2:]


def test_a_quote_in_a_tsv_is_a_letter(read) -> None:
    assert both(read('"a\tb"\n"c" d\t"\n')) == [('"a', 'b"'), ('"c" d', '"')]


def test_commas_of_sentences_separate_nothing(read, refused) -> None:
    text = "Go, run.\nYes, sir.\nNo, thanks.\n"
    assert refused(text).line == 1
    assert both(read(text.replace(", ", ",\t")))[0] == ("Go,", "run.")
    assert both(read("a, b\tc, d\nx\ne, f\tg, h\n")) == [("a, b", "c, d"), ("e, f", "g, h")]


@pytest.mark.parametrize("words", [("It", "Es"), ("He", "El"), ("No", "Ne")])
def test_two_words_that_are_codes_of_languages_are_a_pair(read, words: tuple[str, str]) -> None:
    pairs = read("\t".join(words) + "\nto be\tser\n")
    assert both(pairs)[0] == words and "no header" in pairs.report.form
    codes = read("\t".join(words).lower() + "\nto be\tser\n") if words != ("No", "Ne") else read("IT\tES\na\tb\n")
    assert "no header" not in codes.report.form


def test_columns_are_found_by_the_header_wherever_they_stand(read) -> None:
    pairs = read("split,en,fr\ntrain,A dog.,Un chien.\ntest,A cat.,Un chat.\n")
    assert both(pairs) == [("A dog.", "Un chien."), ("A cat.", "Un chat.")]
    assert pairs.report.form == "CSV (comma), three columns (sentences in 2 and 3), header (en, fr)"
    pairs = read("target;source\nUn chien.;A dog.\n")
    assert both(pairs) == [("A dog.", "Un chien.")]
    assert pairs.report.form == "CSV (semicolon), two columns (source in 2, target in 1), header (target, source)"
    pairs = read(",en,fr\n0,A dog.,Un chien.\n1,A cat.,Un chat.\n")  # as pandas writes it
    assert both(pairs) == [("A dog.", "Un chien."), ("A cat.", "Un chat.")]


@pytest.mark.parametrize("scores", [("1.2498", "1.0973"), ("-3", "0.5"), ("1e-3", "12"), ('"1"', '"2"')])
def test_scores_in_front_are_passed_over(read, scores: tuple[str, str]) -> None:
    rows = [("Hello.", "Bonjour."), ("Yes.", "Oui.")]
    pairs = read("".join(f"{score}\t{source}\t{target}\n" for score, (source, target) in zip(scores, rows)))
    assert both(pairs) == rows
    assert pairs.report.form == "TSV, three columns (sentences in 2 and 3; numbers before them), no header"


def test_what_is_no_finite_number_is_a_word(read) -> None:
    assert both(read("nan\tbread\tby me\ninfinity\tendless\tby you\n")) == [("nan", "bread"), ("infinity", "endless")]


@pytest.mark.parametrize("codes", [["deu eng"], ["srp_Cyrl eng", "hrv eng", "srp_Latn eng"], ["de_DE fr-FR"]])
@pytest.mark.parametrize("asked", [{}, {"source_column": "3", "target_column": "4"}], ids=["found", "asked for"])
def test_languages_on_every_line_are_no_header_and_no_sentences(read, codes: list[str], asked: dict[str, str]) -> None:
    rows = [(f"Ich bin {i}.", f"I am {i}.") for i in range(6)]
    lines = ["\t".join([*codes[i % len(codes)].split(), *row]) for i, row in enumerate(rows)]
    pairs = read("\n".join(lines), **asked)
    assert both(pairs) == rows
    where = "sentences in 3 and 4" + ("" if asked else "; labels before them")
    assert pairs.report.form == f"TSV, four columns ({where}), no header"


def test_a_word_that_comes_again_and_again_is_a_label_and_a_short_sentence_is_none(read) -> None:
    rows = [(f"A dog {i}.", f"Un chien {i}.") for i in range(30)]
    labelled = ["\t".join([("train", "test")[i % 2], *row]) + "\n" for i, row in enumerate(rows)]
    assert both(read("".join(labelled))) == rows
    assert both(read("".join(f"Go.\t{target}\tby me\n" for _, target in rows)))[0] == ("Go.", "Un chien 0.")


@pytest.mark.parametrize(
    "asked",
    [{}, {"source_column": "2", "target_column": "3"}, {"source_column": "en", "target_column": "fr"}],
    ids=["found", "by number", "by name"],
)
def test_a_header_without_a_name_for_the_numbers_in_front_is_one(read, asked: dict[str, str]) -> None:
    pairs = read("en\tfr\n1\tHello.\tBonjour.\n2\tYes.\tOui.\n", **asked)
    assert both(pairs) == [("Hello.", "Bonjour."), ("Yes.", "Oui.")]
    assert pairs.report.form.endswith("header (en, fr)")


def test_a_header_may_be_shorter_than_its_rows(read) -> None:
    content = "en\tfr\nHello.\tBonjour.\tme\nYes.\tOui.\tyou\n"
    assert both(read(content)) == [("Hello.", "Bonjour."), ("Yes.", "Oui.")]
    assert both(read(content, source_column="1", target_column="3")) == [("Hello.", "me"), ("Yes.", "you")]


def test_a_row_with_more_columns_than_usual_is_counted_and_not_cut(read) -> None:
    pairs = read('a,b\nI am, hungry,J\'ai faim\n"I am, hungry",J\'ai faim\nc,d\ne\n\n"f\n"g"x,h\n' + "i,j\n" * 90)
    assert both(pairs)[:3] == [("a", "b"), ("I am, hungry", "J'ai faim"), ("c", "d")]
    assert pairs.report.skipped == {
        "more than 2 columns: is a comma not quoted?": 1, "no comma": 1, "blank line": 1, "unclosed quote": 1,
        "text after a closing quote": 1,
    }  # fmt: skip
    assert '    line 2: "I am, hungry,J\'ai faim"' in str(pairs.report)


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "sep=;;", "sep="])
def test_a_first_line_that_tells_a_spreadsheet_the_separator_is_no_row(read, first: str) -> None:
    text = f"{first}\nen;fr\nI am hungry.;J'ai faim.\n" + "You are here.;Tu es ici.\n" * 3
    pairs = read(text)
    assert both(pairs)[0] == ("I am hungry.", "J'ai faim.") and list(pairs.lines) == [3, 4, 5, 6]
    assert pairs.report.skipped == {} and "header (en, fr)" in pairs.report.form
    found = [cells for _, _, cells, _ in Dialect(";", quoted=True).rows([b"a;b", first.encode(), b"c;d"])]
    assert found[0] == ["a", "b"] and len(found) == 3, "only the first line can be one"


def test_a_table_of_another_encoding_is_called_so(read, refused, tmp_path) -> None:
    french = "".join(f"Number {n}, please;Numéro {n}, s'il te plaît\n" for n in range(30)).encode("latin-1")
    error = refused(b"english;french\n" + french)
    assert error.value == {"not UTF-8": 30} and "iconv" in error.fix
    error = refused(french)
    assert error.name == f"{tmp_path}/pairs" and "30 of these lines" in error.fix and "iconv" in error.fix
    some = b"".join(b"Yes;Oui\n" + line for line in french.splitlines(True))
    pairs = read(some)
    assert both(pairs) == [("Yes", "Oui")] * 30 and pairs.report.skipped == {"not UTF-8": 30}


def test_a_field_of_a_hundred_thousand_letters_is_one_field(read) -> None:
    long = "word " * 30_000
    assert both(read(as_csv([("a", "b"), (f"{long},{long}", "c")])))[1] == (f"{long},{long}", "c")


@given(content=st.text(st.sampled_from('ab,;"\n |')).map(str.encode) | st.binary())
@example(content=b'"\n')
@in_place
def test_of_any_bytes_every_row_of_a_csv_is_used_or_counted_or_the_file_is_refused(
    read, refused, content: bytes
) -> None:
    try:
        report = read(content, separator="comma").report
    except Exception:
        assert "pairs" in refused(content, separator="comma").what
        return
    assert report.used + sum(report.skipped.values()) + ("no header" not in report.form) == report.lines


# --- what is asked for


def test_a_separator_that_is_asked_for_is_used(read, refused) -> None:
    for mark, name in (("\t", "tab"), (",", "comma"), (";", "semicolon"), ("|", "pipe"), ("~", "~"), ("→", "→")):
        for spelled in {mark, name}:
            assert both(read(f"a b{mark}c\nd\n", separator=spelled)) == [("a b", "c")]
    assert both(read("a\tx,b\n", separator="comma")) == [("a\tx", "b")]
    assert "semicolon" in refused("a,b\n", separator=";").what


def test_some_lines_with_a_separator_are_a_hint(refused) -> None:
    assert 'data.separator=";"' in refused("a;b\nc\nd\n").fix
    assert refused("a\nc\nd\n").fix == ""


@pytest.mark.parametrize("separator", ["ab", '"', "\n", "\r", "coma"])
def test_a_separator_is_one_character_or_a_name(separator: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DataConfig(separator=separator)
    assert (caught.value.name, caught.value.value) == ("data.separator", separator)


@pytest.mark.parametrize(
    ("source", "target"), [("en", "fr"), ("2", "4"), ("en", "4"), ("2", "fr")], ids=lambda value: str(value)
)
def test_columns_are_asked_for_by_name_and_by_number(read, source: str, target: str) -> None:
    content = "id,en,de,fr\n1,A dog.,Ein Hund.,Un chien.\n2,A cat.,Eine Katze.,Un chat.\n"
    pairs = read(content, source_column=source, target_column=target)
    assert both(pairs)[-1] == ("A cat.", "Un chat.")
    assert "(sentences in 2 and 4), header (en, fr)" in pairs.report.form
    assert len(pairs) == 2
    back = read(content, source_column=target, target_column=source)
    assert both(back)[-1] == ("Un chat.", "A cat.")
    assert "(source in 4, target in 2)" in back.report.form


def test_a_name_that_is_asked_for_makes_the_first_line_a_header(read) -> None:
    content = "frage\tantwort\nWer?\tIch.\n"
    assert len(read(content)) == 2
    assert both(read(content, source_column="frage", target_column="antwort")) == [("Wer?", "Ich.")]
    assert both(read(content, source_column="antwort")) == [("Ich.", "Wer?")]  # of two columns the other is the other
    assert both(read(content, target_column="1")) == [("antwort", "frage"), ("Ich.", "Wer?")]


def test_the_other_direction_is_read_from_the_same_file(read) -> None:
    for content in ("a\tb\nc\td\n", "a,b\nc,d\n"):
        pairs = read(content, reverse=True)
        assert both(pairs) == [("b", "a"), ("d", "c")]
        assert pairs.report.form.endswith(", reversed")
    there = read("id,en,fr\n1,a,b\n", source_column="en", target_column="fr", reverse=True)
    assert both(there) == [("b", "a")]
    assert read("a\t\n\tb\nc\td\n", reverse=True).report.skipped == {"empty source": 1, "empty target": 1}


def test_a_column_that_is_not_there_is_refused_with_those_that_are(refused, tmp_path) -> None:
    content = "id,english,french\n1,a,b\n"
    assert str(refused(content, source_column="engish", target_column="french")) == (
        f"{tmp_path}/pairs has no column 'engish'\n"
        "  columns: id, english, french\n"
        "  expected: one of these names, or a number from 1 to 3\n"
        "  did you mean 'english'?"
    )
    for number in ("0", "4", "-1"):
        assert refused(content, source_column=number, target_column="2").value == number
    assert refused(content, source_column="id").name == "data.target_column"
    assert refused(content, target_column="id").name == "data.source_column"
    for source in ("english", "id,english", "1,2"):
        assert refused(content, source_column=source, target_column="2").name == "data.target_column"
    assert refused(content, source_column="id,engish", target_column="french").value == "engish"
    wide = ",".join(f"c{i}" for i in range(50))
    assert "c18, c19 and 30 more" in refused(f"{wide}\n{wide}\n", source_column="x", target_column="c1").what


def test_several_source_columns_are_joined_by_a_space(read, refused) -> None:
    content = "subject,body,queue\nHelp,It broke.,tech\n,Pay me.,sales\nHi,,tech\n,,tech\n"
    for asked in ("subject,body", "1,2", "subject, 2"):
        pairs = read(content, source_column=asked, target_column="queue")
        assert both(pairs) == [("Help It broke.", "tech"), ("Pay me.", "sales"), ("Hi", "tech")]
        assert pairs.report.skipped == {"empty source": 1}
    assert both(read('"a,b",c,d\n1,2,3\n', source_column="a,b", target_column="d")) == [("1", "3")]
    lines = '{"a": "one", "b": "two", "c": "x"}\n{"a": "one", "b": null, "c": "y"}\n'
    assert both(read(lines * 2, source_column="a,b", target_column="c"))[:2] == [("one two", "x"), ("one", "y")]
    assert refused(content, source_column="1,2", target_column="3", reverse=True).name == "data.reverse"


# --- licence and source


CREDITS = "CC-BY 2.0 (France) Attribution: tatoeba.org #{n} (ann) & #{m} (bob)"


def test_a_column_that_states_licence_and_source_is_kept_for_the_model_card(read) -> None:
    rows = [(f"Go {n}.", f"Va {n} !", CREDITS.format(n=n, m=n + 5)) for n in range(40)]
    pairs = read("".join("\t".join(row) + "\n" for row in rows))
    assert both(pairs) == [row[:2] for row in rows]
    assert (pairs.report.licence, pairs.report.source) == ("CC-BY 2.0 (France)", "tatoeba.org")
    corpus = SimpleNamespace(source=SimpleNamespace(report=pairs.report))
    assert origin_of(corpus, Config()) == {"data.licence": "CC-BY 2.0 (France)", "data.source": "tatoeba.org"}
    assert origin_of(corpus, Config().override({"data.licence": "mine"})) == {"data.source": "tatoeba.org"}
    credited = [(*row[:2], "by me" if n % 2 else row[2]) for n, row in enumerate(rows)]  # of a few rows alone
    assert read("".join("\t".join(row) + "\n" for row in credited)).report.licence == ""


# --- headers


@pytest.mark.parametrize(
    ("first", "rows", "is_header"),
    [
        (["when", "what"], [["2024-01-01", "it rained all day"], ["2024-01-02", "it snowed a lot"]] * 3, True),
        (["n", "word"], [[str(n), f"w{n} and others"] for n in range(9)], True),
        (["word", "kind"], [[f"a word or {n}", "ab"[n % 2]] for n in range(30)], True),
        (["question", "reply"], [[f"what is it, {n}", f"it is {n} or so"] for n in range(30)], True),
        (["question", "reply"], [[f"what is it, {n}", f"it is {n} or so"] for n in range(9)], False),  # too few
        (["Go.", "Va !"], [[f"what is it, {n}", f"it is {n} or so"] for n in range(90)], False),  # no names
        (["same", "same"], [[f"what is it, {n}", f"it is {n} or so"] for n in range(90)], False),
        (["7", "what"], [["x", f"it is {n} or so"] for n in range(90)], False),  # a number names nothing
        (["Hi", "Salut"], [*[["Go", "Va"]] * 9, *([f"what is it, {n}", f"it is {n} or so"] for n in range(90))], False),
        (["the red fox", "a"], [[f"the fox {n}", "ab"[n % 2]] for n in range(30)], False),  # a label of those below
        (["en", "x"], [["en", f"it is {n} or so"] for n in range(30)], False),
        (["", "what"], [[str(n), f"it is {n} or so"] for n in range(90)], False),  # one name is too little
    ],
)
def test_a_header_is_unlike_the_rows_below_it(first: list[str], rows: list[list[str]], is_header: bool) -> None:
    assert looks_like_header(first, [*zip(*rows)]) == is_header


def test_equal_names_are_a_header_if_they_are_usual_ones_above_longer_texts(read) -> None:
    texts = [(f"a longer text {n}", f"another text of line {n}") for n in range(60)]
    pairs = read(as_csv([("text", "text"), *texts]))
    assert both(pairs) == texts and "header (text, text)" in pairs.report.form
    for first, others in (("taxi", texts), ("text", texts[:8]), ("text", [("one", "un"), ("two", "deux"), *texts])):
        pairs = read(as_csv([(first, first), *others]))
        assert both(pairs)[0] == (first, first) and "no header" in pairs.report.form


def test_a_wide_line_is_rejected_before_its_columns_are_inspected(refused) -> None:
    for mark in ("\t", ",", ";"):
        error = refused(f"1{mark}" * 100_000)
        assert error.value == 100_001 and "1,000" in error.expected and error.fix


def test_columns_that_a_header_names_are_not_noted_again(read) -> None:
    rows = "".join(f"It's {n}.\tC'est {n}.\tx\ty{n}\n" for n in range(9))
    assert read(f"en\tfr\tabout\tid\n{rows}").report.notes == []
    [note] = read(f"en\tfr\tabout\tid\n{rows}a\tb\tc\td\te\n").report.notes
    assert note.startswith("columns after 4 aren't used: they're in 1 line ")


def excel(rows: list[tuple[str, ...]], quoting: int = csv.QUOTE_MINIMAL) -> str:
    text = io.StringIO()
    csv.writer(text, "excel-tab", quoting=quoting).writerows(rows)
    return text.getvalue()


EXPORT = [(f'He said "{n}"\nand\tleft.', f"Il a dit « {n} ».") for n in range(9)]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_a_tsv_of_a_spreadsheet_is_unquoted_and_that_is_said(read, quoting: int) -> None:
    pairs = read(excel(EXPORT, quoting))
    assert both(pairs) == EXPORT and "TSV with CSV quotes" in pairs.report.form and pairs.report.unit == "rows"
    long = [(f'"{n}"' + "\nand on" * 9, "b") for n in range(9)]  # tabs on a tenth of the lines
    assert both(read(excel(long, quoting))) == long
    assert both(read(excel([("a", "b")] * 3, csv.QUOTE_ALL))) == [("a", "b")] * 3


@pytest.mark.parametrize(
    "line", ['"Yes," he said.\t"Oui", dit-il.', 'a 5" pipe\tun tuyau', '"I am.\tJe suis."', '"so\t"ainsi', "\"\t'"]
)
def test_quotes_of_ordinary_text_stay_in_a_tsv(read, line: str) -> None:
    plain = [("I am.", "Je suis."), ('"No."', '"Non."')] * 5
    content = "".join("\t".join(it) + "\n" for it in plain)
    assert both(read(content + line + "\n")) == [*plain, tuple(line.split("\t"))]


def test_quoting_can_be_chosen(read) -> None:
    late = "I am.\tJe suis.\n" * 250 + '"a ""b"""\tc\n'
    [note] = read(late).report.notes
    assert note.startswith("lines with cells that look quoted: 1;") and "--data.quoting=csv" in note
    assert both(read(late, quoting="csv"))[-1] == ('a "b"', "c")
    assert both(read(excel(EXPORT[:1]), quoting="none")) != EXPORT[:1]
    assert both(read('"a,b"\n', quoting="none")) == [('"a', 'b"')]


def test_one_file_of_a_folder_tells_the_quoting_of_all(tmp_path) -> None:
    (tmp_path / "folder").mkdir()
    for name, content in (("1", excel([("a", "b")] * 3)), ("2", excel(EXPORT))):
        written(tmp_path / "folder" / name, content)
    assert both(read_pairs([tmp_path / "folder"])) == [*[("a", "b")] * 3, *EXPORT]
