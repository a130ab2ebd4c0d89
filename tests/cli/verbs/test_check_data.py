import json
import os
import sys
from pathlib import Path

import pytest

from tests.builders import ENGLISH, FRENCH

from ..conftest import Run

LINES = [
    "I am here.\tJe suis ici.",
    "I am here!\tje suis ici",
    "Summer is over.\tL'Ã©tÃ© est fini.",
    "no tab",
    "Write to ann@example.com today.\tÉcris à ann@example.com aujourd'hui.",
    "He sings.\tIl chante.",
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_bytes("\r\n".join(LINES).encode())
    return path


def test_each_finding_has_its_line_and_kind_and_personal_data_is_never_shown(run: Run, pairs: Path) -> None:
    done = run("check", pairs, "--json")
    found = json.loads(done.out)
    assert [(it["line"], it["kind"]) for it in found["findings"]] == [
        (2, "duplicate"), (3, "encoding"), (4, "unreadable"), (5, "personal"),
    ]  # fmt: skip
    assert found["counts"] == {"unreadable": 1, "encoding": 1, "duplicate": 1, "personal": 1}
    assert (found["pairs"], found["kept"]) == (5, 3)
    done = run("check", pairs)
    assert "2 of 5 pairs look faulty" in done.out and "Ã© in place of é" in done.out
    assert "ann" not in done.out + done.err + json.dumps(found)


def test_kept_lines_keep_their_bytes_and_dropped_ones_have_a_reason(run: Run, pairs: Path, tmp_path: Path) -> None:
    clean, dropped = tmp_path / "clean.tsv", tmp_path / "dropped.tsv"
    assert run("check", pairs, "--out", clean, "--dropped", dropped).code == 0
    assert clean.read_bytes() == "\r\n".join([LINES[0], LINES[4], LINES[5]]).encode()
    rows = [line.split("\t", 2) for line in dropped.read_text(encoding="utf-8").splitlines()]
    assert [(int(number), text) for number, _, text in rows] == [(n + 1, LINES[n]) for n in (1, 2, 3)]
    assert [why.partition(":")[0] for _, why, _ in rows] == ["duplicate", "encoding", "unreadable"]
    assert run("check", clean, "--json").out.count('"kind"') == 1  # personal data, which is kept


def test_a_row_of_several_lines_and_the_header_stay_whole(run: Run, tmp_path: Path) -> None:
    path, clean = tmp_path / "texts.csv", tmp_path / "clean.csv"
    rows = [f'"{text}\nAnd more."\t{("odd", "even")[n % 2]}\n'.replace("\t", ",") for n, text in enumerate(ENGLISH)]
    path.write_text("text,label\n" + "".join([*rows, rows[0]]), encoding="utf-8")
    assert run("check", path, "--out", clean).code == 0
    assert clean.read_text(encoding="utf-8") == "text,label\n" + "".join(rows)


def test_aligned_files_lose_the_same_lines(run: Run, tmp_path: Path) -> None:
    for name, texts in (("a.en", [*ENGLISH, ENGLISH[0]]), ("a.fr", [*FRENCH, FRENCH[0]])):
        (tmp_path / name).write_text("".join(f"{it}\n" for it in texts), encoding="utf-8")
    paths = tmp_path / "a.en", tmp_path / "a.fr"
    outs = tmp_path / "b.en", tmp_path / "b.fr"
    assert run("check", *paths, "--out", *outs).code == 0
    assert [it.read_text(encoding="utf-8").splitlines() for it in outs] == [ENGLISH, FRENCH]
    done = run("check", *paths, "--out", outs[0])
    assert done.code == 1 and "the data has 2" in done.err


def test_leaks_conflicts_and_spellings_are_found(run: Run, tmp_path: Path) -> None:
    path, test = tmp_path / "texts.tsv", tmp_path / "test.tsv"
    rows = [(f"{text} {n}", ("cat", "dog")[n % 2]) for n in range(4) for text in ENGLISH]
    rows += [("It purrs a lot.", "cat"), ("It purrs a lot!", "dog"), ("A leaked text.", "cat"), ("It barks.", "Dog")]
    rows += [("The leaked texst is longer.", "cat")]
    path.write_text("".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    test.write_text("a leaked text\tcat\nAnother text.\tdog\nThe leaked text is longer.\tcat\n", encoding="utf-8")
    assert "labelled texts look faulty" in run("check", path, "--test", test, "--task", "classify").out
    found = json.loads(run("check", path, "--test", test, "--task", "classify", "--json").out)["findings"]
    n = len(rows)
    assert [(it["line"], it["kind"]) for it in found] == [
        (n - 4, "conflict"), (n - 3, "conflict"), (n - 2, "leak"), (n - 1, "spelling"), (n, "leak"),
    ]  # fmt: skip


def test_running_text_has_no_targets(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    lines = [f"This is line number {n} of a book, which is longer." for n in range(30)] + ["Well!"] * 2
    path.write_text("\n\n".join([*lines, lines[3], "Lâ€™Ã©tÃ©"]), encoding="utf-8")
    found = json.loads(run("check", path, "--task", "generate", "--json").out)
    assert [(it["line"], it["kind"]) for it in found["findings"]] == [(65, "duplicate"), (67, "encoding")]
    assert found["texts"] == 67  # blank lines are part of the text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "doesn't exist"),
        (b"", "is empty"),
        (b"one line\n", "no line with two columns"),
        (b"one column\n" * 30, "no line with two columns"),
        (b"\x00\x01\x02" * 400, "isn't text"),
    ],
)
def test_data_that_cannot_be_used_has_the_error_of_training(
    run: Run, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "pairs.tsv"
    if content is not None:
        path.write_bytes(content)
    done = run("check", path, "--task", "translate")
    trained = run("train", path, "--task", "translate", "--out", tmp_path / "model")
    assert done.code == trained.code == 1 and done.err == trained.err and said in done.err and not done.out


def test_an_error_shows_a_few_lines_only(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"\xff\t\xfe\n" * 100)
    done = run("check", path, "--task", "translate")
    assert done.code == 1 and "skipped 100" in done.err and len(done.err.splitlines()) < 20


def test_outputs_are_new_files_and_the_data_has_texts(run: Run, pairs: Path, tmp_path: Path) -> None:
    done = run("check", pairs, "--out", pairs)
    assert done.code == 2 and "would be overwritten" in done.err and pairs.read_bytes() == "\r\n".join(LINES).encode()
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    (folder / "pairs.tsv").write_bytes(pairs.read_bytes())
    os.mkfifo(pipe)
    for out, said in (("pairs.tsv", "would be overwritten"), ("new.tsv", "which is read")):
        done = run("check", folder, "--out", folder / out)
        assert done.code == 2 and said in done.err and [it.name for it in folder.iterdir()] == ["pairs.tsv"]
    assert run("check", pairs, "--out", pipe).code == 2 and pipe.is_fifo()
    assert run("check", pairs, "--out", tmp_path / "new" / "clean.tsv").code == 0 and (tmp_path / "new").is_dir()
    assert run("check").code == 2
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"context": "A cat.", "question": "Who?", "answer": "cat"}\n' * 3, encoding="utf-8")
    done = run("check", questions)
    assert done.code == 1 and "data for `answer`" in done.err
    array = tmp_path / "pairs.json"
    array.write_text('[{"en": "A.", "fr": "B."},\n{"en": "C.", "fr": "D."}]\n', encoding="utf-8")
    done = run("check", array, "--out", tmp_path / "clean.json")
    assert done.code == 1 and "JSON array" in done.err


def test_checking_needs_no_torch_at_the_start(run: Run) -> None:
    assert "cleaning" not in "".join(it for it in sys.modules if it.startswith("clearhead.cli"))
    assert "--dropped" in run("check", "--help").out


def test_every_copy_of_a_line_that_nearly_leaks_is_found(run: Run, tmp_path: Path) -> None:
    train, valid = tmp_path / "train.tsv", tmp_path / "valid.tsv"
    train.write_text("".join(f"The quick brown fox jumps over the lazy dog\tcible {n}\n" for n in range(30)))
    valid.write_text("The quick brown fox jumps over over the lazy dog\tautre\n")
    found = json.loads(run("check", train, "--valid", valid, "--json").out)["findings"]
    assert {it["line"] for it in found if it["kind"] == "leak"} == {*range(1, 31)}


@pytest.mark.parametrize(
    ("name", "line", "bad", "good"),
    [
        ("a.tsv", "{}\t{}\tnote {}\r\n", "Ã©tÃ©", "été"),
        ("a.csv", '"{}",{},"note, {}"\n', "Ã©tÃ© ; oÃ¹", "été ; où"),
        ("a.csv", "{};{};note {}\n", '"l""Ã©tÃ©"', '"l""été"'),
        ("a.jsonl", '{{"text": {{"en": "{}",  "fr": "{}"}}, "rate": 1.10, "of": {}}}\n', "\\u00c3\\u00a9", "\\u00e9"),
        ("a.jsonl", '{{"en": "{}", "fr": "{}", "of": "Où {}"}}\n', 'Ã©tÃ© \\"x', 'été \\"x'),
    ],
)
def test_a_line_is_repaired_in_every_format(
    run: Run, tmp_path: Path, name: str, line: str, bad: str, good: str
) -> None:
    path, clean = tmp_path / name, tmp_path / f"clean-{name}"
    rows = [line.format(english, french, n) for n, (english, french) in enumerate(zip(ENGLISH, FRENCH))]
    faulty, whole = ([*rows, line.format(f"Text {n}", it, n), *rows[:0]] for n, it in ((1, bad), (1, good)))
    path.write_text("\ufeff" + "".join(faulty), encoding="utf-8", newline="")
    done = run("check", path, "--task", "translate", "--out", clean, "--repair")
    assert done.code == 0 and "1 repaired" in done.out
    assert clean.read_bytes().decode() == "\ufeff" + "".join(whole)


def test_aligned_files_and_running_text_are_repaired(run: Run, tmp_path: Path) -> None:
    sides = [*ENGLISH, "The summer."], [*FRENCH, "L'Ã©tÃ©."]
    for name, texts in zip(("a.en", "a.fr"), sides):
        (tmp_path / name).write_text("\n".join(texts), encoding="utf-8")
    paths, outs = ([tmp_path / f"{stem}.{it}" for it in ("en", "fr")] for stem in "ab")
    assert "1 repaired" in run("check", *paths, "--out", *outs, "--repair").out
    assert outs[1].read_text(encoding="utf-8") == "\n".join([*FRENCH, "L'été."])
    for end in ("\n", "\r\n"):
        paths[1].write_text("\ufeff" + end.join(sides[1]), encoding="utf-8", newline="")
        done = run("check", paths[1], "--task", "generate", "--out", tmp_path / "text", "--repair")
        assert "1 repaired" in done.out
        assert (tmp_path / "text").read_bytes().decode() == "\ufeff" + end.join([*FRENCH, "L'été."])


def test_what_a_format_cannot_hold_is_dropped_and_reported(run: Run, tmp_path: Path) -> None:
    path, clean = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    lines = [json.dumps({"text": it}) + "\n" for it in ENGLISH]
    path.write_text("".join([*lines, json.dumps({"text": "L'Ã©tÃ©."})]))
    done = run("check", path, "--task", "generate", "--out", clean, "--repair")
    assert "; 0 repaired" in done.out and "1 more could be repaired, but not written" in done.out
    assert clean.read_text() == "".join(lines)
    assert run("check", path, "--repair").code == 2
