"""`--data FILE`: tables that are written again with the answers as new columns."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clearhead
from clearhead.cli import main
from clearhead.cli.lines.answering import CAN_FORK
from tests.serving.small_models import make

from ..conftest import Run

TABLE = b'id,text,note\r\n1,"It is warm, here",x\r\n2,,"y\nz"\r\n3,cold,\r\n'


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "classify", "classify")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_bytes(TABLE)
    return path


def rows_of(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def test_a_table_is_written_with_labels_and_probabilities(run: Run, classifier: Path, table: Path) -> None:
    out = table.with_name("out.csv")
    done = run("classify", classifier, "--data", table, "--out", out)
    assert (done.code, done.out) == (0, "")
    assert f"{table}: CSV, 3 rows; reads text; adds label, probability\n" in done.err
    assert done.err.count("1 of 3 rows have no text, so their new cells are blank") == 1 and "blank, so" not in done.err
    app = clearhead.load(classifier)
    warm, cold = app.results(["It is warm, here", "cold"])
    assert [row[3:] for row in rows_of(out.read_bytes())] == [
        ["label", "probability"], [warm.label, repr(warm.probability)], ["", ""], [cold.label, repr(cold.probability)]
    ]  # fmt: skip
    assert out.read_bytes().startswith(b'id,text,note,label,probability\r\n1,"It is warm, here",x,')
    assert {it.name for it in table.parent.iterdir()} >= {"in.csv", "out.csv"} and not any(
        it.name.endswith((".partial", ".progress")) for it in table.parent.iterdir()
    )


def test_it_can_be_written_to_standard_output_or_over_itself(run: Run, pipe: Run, classifier: Path, table) -> None:
    out = run("classify", classifier, "--data", table, "--text", "note,text").out
    assert pipe(TABLE, "classify", classifier, "--data", "-", "--text", "note,text").out == out
    assert run("classify", classifier, "--data", table, "--out", table, "--text", "note,text").code == 0
    assert table.read_bytes().decode() == out
    again = run("classify", classifier, "--data", table, "--text", "text")
    assert again.out.startswith("id,text,note,label,probability,label_2,probability_2\r\n")


@pytest.mark.parametrize("content", [b"id,text\n1,a\n2,b,c\n", b'id,text\n1,a\n2,"b\n', b"a,b\n1,2\n", b""])
def test_a_table_that_cannot_be_read_leaves_nothing_at_out(run: Run, classifier: Path, table: Path, content) -> None:
    table.write_bytes(content)
    out = table.with_name("out.csv")
    out.write_text("before")
    done = run("classify", classifier, "--data", table, "--out", out)
    assert done.code == 1 and str(table) in done.err and not done.out
    assert {it.name for it in table.parent.iterdir() if it.is_file()} <= {"in.csv", "out.csv", "stdin"}
    assert out.read_text() == "before"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a text", "--data", "{}"], "--data can't be combined with other inputs"),
        (["--data", "{}", "--json"], "--json"),
        (["a text", "--text", "note"], "--text is for tables and needs --data"),
        (["--data", "{}", "--resume"], "--resume needs --out"),
        (["--data", "{}", "--out", "x.jsonl"], "x.jsonl"),
        (["--data", "{}", "--out", "x.csv.gz"], "x.csv.gz"),
        (["--data", "in.csv.gz", "--out", "x.jsonl"], "x.jsonl"),
    ],
)
def test_a_wrong_use_of_tables_is_told(run: Run, classifier: Path, table: Path, arguments, said: str) -> None:
    done = run("classify", classifier, *(it.format(table) for it in arguments))
    assert done.code == 2 and said in done.err and not done.out


def test_an_unknown_column_is_an_error_that_names_the_option(run: Run, classifier: Path, table: Path) -> None:
    done = run("classify", classifier, "--data", table, "--text", "body")
    assert done.code == 1 and "no column 'body'" in done.err and "--text COLUMN" in done.err
    table.write_bytes(b"a,b\nthe dog sat,the cat sat\n")
    assert "--text COLUMN" in run("classify", classifier, "--data", table).err


def test_of_many_warnings_the_first_are_shown(run: Run, classifier: Path, table: Path) -> None:
    table.write_bytes(b"id,text\n" + b"1,caf\xe9\n" * 20)
    done = run("classify", classifier, "--data", table)
    assert done.err.count("\nline ") == 5 and "35 more warnings about rows" in done.err
    assert "line 2 isn't UTF-8" in done.err


def test_a_link_is_kept_and_the_file_that_it_names_is_replaced(run: Run, classifier: Path, table: Path) -> None:
    (table.parent / "folder").mkdir()
    link = table.with_name("out.csv")
    link.symlink_to("folder/there.csv")
    assert run("classify", classifier, "--data", table, "--out", link).code == 0
    assert link.is_symlink() and link.read_bytes().startswith(b"id,text,note,label,probability")


def test_a_terminal_gets_no_control_characters_and_no_parquet(
    classifier: Path, table: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    table.write_bytes(b"id,text\n1,a\xe9\n")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Terminal())
        assert main(["classify", str(classifier), "--data", str(table)]) == 0
        assert sys.stdout.getvalue().startswith("id,text,label,probability\n1,a\\xe9,")
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"text": ["a"]}), table.with_name("in.parquet"))
        assert main(["classify", str(classifier), "--data", str(table.with_name("in.parquet"))]) == 2
    assert "can't be shown on a terminal" in capfd.readouterr().err


def test_a_parquet_file_is_written_with_workers_and_not_continued(run: Run, classifier: Path, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    data, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    parquet.write_table(pyarrow.table({"text": [f"it is {n}" for n in range(3000)] + [None]}), data)
    assert run("classify", classifier, "--data", data, "--out", out, "--workers", "2").code == 0
    found = parquet.read_table(out)
    records = clearhead.load(classifier).results([f"it is {n}" for n in range(3)])
    assert found.column("probability").to_pylist()[:3] == pytest.approx([it.probability for it in records])
    assert found.column_names == ["text", "label", "probability"] and found.column("label").to_pylist()[-1] is None
    done = run("classify", classifier, "--data", data, "--out", out, "--resume")
    assert done.code == 2 and "--resume can't continue a Parquet file" in done.err


def test_the_name_of_a_table_as_a_text_suggests_data(run: Run, classifier: Path) -> None:
    done = run("classify", classifier, "tickets.csv")
    assert done.code == 0 and "to read the file: --data tickets.csv\n" in done.err


@pytest.mark.skipif(not CAN_FORK, reason="worker processes need Linux")
def test_a_run_that_was_killed_is_continued_to_the_same_table(run: Run, classifier: Path, tmp_path: Path) -> None:
    data, out, record = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "out.csv.progress"
    data.write_bytes(b"id,text,note\n" + b"".join(b'%d,it is %d,"a\n""b"""\n' % (n, n) for n in range(6000)))
    command = ["classify", str(classifier), "--data", str(data), "--workers", "2", "--out", str(out)]

    def start() -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "clearhead"]
        return subprocess.Popen([*program, *command, "--resume"], stderr=subprocess.DEVNULL)

    whole = tmp_path / "whole.csv"
    assert run("classify", classifier, "--data", data, "--workers", 1, "--out", whole).code == 0
    process, end = start(), time.monotonic() + 120
    partial = tmp_path / ".out.csv.partial"
    while process.poll() is None and (not partial.exists() or not partial.stat().st_size) and time.monotonic() < end:
        time.sleep(0.01)
    process.kill()
    process.wait()
    if process.returncode == -signal.SIGKILL:
        assert not out.exists() and record.exists()
        again = run(*command)
        assert again.code == 1 and "unfinished" in again.err
    assert start().wait(120) == 0
    assert out.read_bytes() == whole.read_bytes() and not record.exists() and not partial.exists()


def test_a_table_that_changed_is_not_continued(run: Run, classifier: Path, table: Path) -> None:
    out = table.with_name("out.csv")
    assert run("classify", classifier, "--data", table, "--out", out).code == 0
    run_of = {"verb": "classify", "model": "", "settings": "", "data": "", "columns": ""}
    out.with_name("out.csv.progress").write_text(
        json.dumps({"format_version": 1, "lines": 0, "bytes": 0, "input": "", "run": run_of})
    )
    done = run("classify", classifier, "--data", table, "--out", out, "--resume")
    assert done.code == 1 and "changed" in done.err
    assert os.path.getsize(out)  # noqa: PTH202
