import errno
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.cli import entry, main, output
from clearhead.errors import DataError, TrainingError

from .conftest import Run

VERBS = list(entry.VERBS)


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let every training end with an error."""

    def fail(*_arguments: Any, **_named: Any) -> None:
        raise error

    monkeypatch.setattr("clearhead.api.train", fail)


def test_help_names_every_verb_on_stdout(run: Run) -> None:
    for spelling in ("--help", "-h", "help"):
        done = run(spelling)
        assert (done.code, done.err) == (0, "")
        assert all(f"\n  {verb} " in done.out for verb in VERBS)


def test_without_a_verb_the_help_goes_to_stderr_and_it_is_a_wrong_use(run: Run) -> None:
    done = run()
    assert (done.code, done.out) == (2, "")
    assert done.err == run("--help").out


def test_version(run: Run) -> None:
    assert run("--version").out == f"clearhead {clearhead.__version__}\n"


def test_an_unknown_verb_is_answered_with_the_nearest(run: Run) -> None:
    done = run("translte", "x")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: unknown command 'translte'\n  expected: one of {', '.join(VERBS)}\n  did you mean 'translate'?\n"
        "  see: clearhead --help\n"
    )


@pytest.mark.parametrize("word", ["--train.stepz=3", "--train.stepz"])
def test_an_unknown_option_is_answered_with_the_nearest(run: Run, word: str) -> None:
    done = run("train", "a.tsv", "--out", "x", word, "3")
    assert done.code == 2
    assert done.err == (
        "error: `clearhead train` has no option '--train.stepz'\n  did you mean '--train.steps'?\n"
        f"  usage: clearhead train {entry.VERBS['train'].usage}\n  see: clearhead train --help\n"
    )


def test_a_missing_argument_is_answered_with_a_line_of_usage(run: Run) -> None:
    for verb in ("translate", "train", "evaluate", "explain", "ablate", "export", "import", "serve", "score", "check"):
        done = run(verb)
        assert done.code == 2 and f"\n  usage: clearhead {verb} {entry.VERBS[verb].usage}\n" in done.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--lr", "'--train.lr'"),
        ("--save-every", "'--train.save_every'"),
        ("--model.seed", "'--train.seed' or '--decode.seed'"),
        ("--max_len", "'--model.max_len' or '--data.max_len' or '--decode.max_len'"),
        ("--preest", "'--preset'"),
        ("--taks", "'--task'"),
    ],
)
def test_a_setting_is_found_by_its_last_name(run: Run, typed: str, meant: str) -> None:
    done = run("train", "a.tsv", "--out", "x", typed, "3")
    assert done.code == 2 and f"\n  did you mean {meant}?\n" in done.err


def test_options_that_have_little_but_their_dashes_in_common_are_not_suggested(run: Run) -> None:
    done = run("score", "model", "--data", "pairs.tsv")
    assert done.code == 2 and "'--data'" in done.err and "did you mean" not in done.err


def test_an_option_is_not_abbreviated(run: Run) -> None:
    assert run("train", "a.tsv", "--pre", "nano").code == 2


def test_an_option_without_its_value_is_a_wrong_use(run: Run) -> None:
    done = run("train", "a.tsv", "--preset")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "error: argument --preset/--train.preset: expected one argument",
    )


def test_one_argument_too_many_is_a_wrong_use(run: Run) -> None:
    done = run("info", "a", "b")
    assert done.code == 2 and "'b'" in done.err and "clearhead info [DIR] [--preset NAME] [options]" in done.err


def test_a_wrong_setting_is_a_wrong_use_and_a_failure_is_not(run: Run, tmp_path: Path) -> None:
    assert run("train", "a.tsv", "--out", tmp_path / "x", "--train.steps=0").code == 2
    done = run("translate", tmp_path / "none", "x")
    assert (done.code, done.out) == (1, "")
    assert str(tmp_path / "none") in done.err


def test_a_run_that_a_signal_stopped_ends_with_the_code_of_the_signal_and_its_message(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = TrainingError("stopped by SIGTERM at step 7; go on with --resume")
    error.exit_code = 143  # type: ignore[attr-defined]
    fail_with(monkeypatch, error)
    done = run("train", "a.tsv", "--out", "x")
    assert (done.code, done.err) == (143, "stopped by SIGTERM at step 7; go on with --resume\n")


def test_ctrl_c_ends_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    done = run("train", "a.tsv", "--out", "x")
    assert (done.code, done.err) == (130, "stopped by Ctrl-C\n")


def test_called_from_python_it_leaves_the_signals_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[object] = []
    monkeypatch.setattr(
        "clearhead.api.train", lambda *_, **__: handlers.append(list(map(signal.getsignal, (signal.SIGINT, 15))))
    )
    assert run("train", "a.tsv", "--out", "x").code == 0
    assert handlers == [list(map(signal.getsignal, (signal.SIGINT, 15)))]


@pytest.mark.parametrize(("given", "policy"), [(None, "passive"), ("active", "active")])
def test_threads_do_not_wait_in_a_busy_loop_unless_the_user_says_so(
    monkeypatch, given: str | None, policy: str
) -> None:
    for name in ("signal", "getsignal"):
        monkeypatch.setattr(signal, name, lambda *_: None)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    monkeypatch.setattr(sys, "argv", ["clearhead", "--version"])
    assert main() == 0
    assert os.environ["OMP_WAIT_POLICY"] == policy


def test_it_can_be_called_from_a_thread() -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["--version"])))
    thread.start()
    thread.join()
    assert codes == [0]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to ..."
        ),
    ],
    ids=["python", "cuda", "cpu"],
)
def test_memory_that_ran_out_is_said_with_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    fail_with(monkeypatch, error)
    done = run("train", "a.tsv", "--out", "x")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error: this machine has run out of memory\n"
        "  set --memory, such as 4GB, lower --data.max_len or use a smaller --preset\n"
    )


def test_what_torch_says_when_a_processor_has_no_memory_is_understood(
    run: Run, monkeypatch: pytest.MonkeyPatch, model_folder: Path
) -> None:
    monkeypatch.setattr("clearhead.apps.translator.Translator.brief_results", lambda *_, **__: torch.empty(2**60))
    done = run("translate", model_folder, "x")
    assert done.code == 1
    assert "out of memory" in done.err and "--batch-tokens" in done.err


@pytest.mark.parametrize("what", ["libtorch_cpu.so: failed to map segment from shared object", "no module named x"])
def test_a_library_that_cannot_be_imported_is_no_bug(run: Run, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    fail_with(monkeypatch, ImportError(what, name="torch"))
    done = run("train", "a.tsv", "--out", "x")
    assert done.code == 1 and "internal" not in done.err and "memory" in done.err
    fail_with(monkeypatch, ImportError(what, name="clearhead.api"))
    assert "internal" in run("train", "a.tsv", "--out", "x").err or "map segment" in what


def test_errors_speak_python_and_the_command_line_speaks_options(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = {
        "continue with `resume=True`": "continue with --resume",
        "lower `train.lr`, or `train.precision=fp32`": "lower --train.lr, or --train.precision fp32",
        'set `data.separator=" "`, not `data.reverse=true`': 'set --separator " ", not --reverse',
        "choose another `out` for `generate`, `no_such=1`": "choose another --out for `generate`, `no_such=1`",
    }
    for python, options in spoken.items():
        fail_with(monkeypatch, DataError("it failed", fix=python))
        assert run("train", "a.tsv", "--out", "x").err == f"error: it failed\n  {options}\n"


def test_a_bug_is_one_line_and_a_way_to_see_more(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ZeroDivisionError("division\nby zero"))
    done = run("train", "a.tsv", "--out", "x")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "internal error: ZeroDivisionError: division by zero\n  run it again with --debug for a traceback\n"
    )
    debug = run("train", "a.tsv", "--out", "x", "--debug")
    assert "Traceback" in debug.err and debug.err.endswith(done.err)


def test_a_failure_shows_no_traceback_without_debug(run: Run, tmp_path: Path) -> None:
    assert "Traceback" not in run("translate", tmp_path / "none", "x").err
    debug = run("translate", tmp_path / "none", "x", "--debug")
    assert "Traceback" in debug.err and debug.code == 1


def test_an_error_of_the_system_is_said_in_its_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    done = run("train", "a.tsv", "--out", "x")
    assert (done.code, done.err) == (1, "error: input or output: No space left on device\n")


def test_control_characters_are_escaped_on_a_terminal_only() -> None:
    pty = pytest.importorskip("pty")
    said = "é\\x1b[2J\\r\\x9b\\x07\\ta\\x1b[48;5;17m \\x1b[0m"
    code = f"from clearhead.cli.entry import _prepare_streams as it; it(); it(); print('{said}', end='')"
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stdout=theirs, check=True)
    assert os.read(ours, 1000).decode() == "é\\x1b[2J\\r\\x9b\\x07\ta\x1b[48;5;17m \x1b[0m"
    os.close(ours)
    os.close(theirs)
    piped = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    assert piped.decode() == "é\x1b[2J\r\x9b\x07\ta\x1b[48;5;17m \x1b[0m"


def broken_stdout() -> io.TextIOWrapper:
    """A stdout whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    return io.TextIOWrapper(os.fdopen(writing, "wb"), encoding="utf-8")


def test_a_reader_that_has_enough_ends_it_quietly(
    run: Run, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (["train", "--help"], ["translate", model_folder, "a", "b"]):
        with broken_stdout() as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            done = run(*arguments)
        assert (done.code, done.out, done.err) == (0, "", "")


def test_a_full_disk_behind_stdout_is_a_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        done = run("--help")
    assert done.code == 1
    assert "No space left on device" in done.err


def test_a_closed_stdout_is_a_failure_once_there_is_a_result(
    run: Run, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.api.train", lambda *_, **__: None)
    for code, arguments in (
        (1, ["translate", model_folder, "a"]),
        (1, ["train", "--help"]),
        (0, ["train", "a.tsv", "--out", "x"]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", None)
            done = run(*arguments)
        assert (done.code, done.out) == (code, "") and bool(done.err) == bool(code)


def test_messages_that_nobody_hears_stop_nothing(
    run: Run, word_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broken_stdout() as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        done = run("translate", word_model_folder, "zebra", "I am hungry.")
    assert (done.code, len(done.out.splitlines())) == (0, 2)


def test_json_has_no_numbers_that_readers_do_not_know_and_ends_lines_only_where_we_do() -> None:
    values = {"a": [float("nan"), (float("-inf"), 1.5)], "b": "é\u2028\u2029\x85\n\x00"}
    text = output.to_json(values)
    assert text == '{"a": [null, [null, 1.5]], "b": "é\\u2028\\u2029\\u0085\\n\\u0000"}'
    assert len(text.splitlines()) == 1


def test_control_characters_of_names_are_escaped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "x\x1b[2J"
    (folder / "b\x9b1m").mkdir(parents=True)
    (folder / "a.tsv").write_text("en\x1b[1m\tfr\nI am.\tJe suis.\nIt is.\tC'est.\nNo one.\tPersonne.\n")
    for names in (["a.tsv"], ["."], ["missing"]):
        paths = [str(folder / name) for name in names]
        main(["train", *paths, "--task", "translate", "--dry-run"])
        said = "".join(capfd.readouterr())
        assert "x\\x1b[2J" in said and not set(said) & {"\x1b", "\x9b"}
