"""Run a page of the documentation in the current folder, as a reader would, and compare what the page says it prints.

    python -P run_page.py PAGE            short trainings; commands of Clearhead run in this process, which is faster
    python -P run_page.py PAGE --in-full  as the page is written, in a shell
    python -P run_page.py --each          for each line FOLDER<TAB>PAGE of standard input, run the page there and print
                                          its exit code; messages go to FOLDER/../errors

Blocks marked `sh` and `python` run. A block marked `text` right after one is its output: each line has to be printed,
in this order. Any number stands for any other, and … for anything. HTML comments, which readers don't see, change that:

    <!-- first: COMMAND -->     run this before the page, such as for a file that the reader has
    <!-- not run: REASON -->    the next block isn't run
    <!-- in tests: OPTIONS -->  options for the `clearhead train` of the next block, without --in-full
    <!-- varies: REASON -->     the next block is output that isn't compared
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$|^ *<!-- (.*?) -->$", flags=re.MULTILINE | re.DOTALL)


class PageError(Exception):
    """What a page says isn't so."""


@dataclass(frozen=True)
class Block:
    """A block of code, its language, and the comments before it by their first words."""

    language: str
    code: str
    comments: dict[str, str]


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a page; those of its `first` comments come as blocks of commands."""
    comments: dict[str, str] = {}
    for found in BLOCK.finditer(text):
        indent, language, code, comment = found.groups()
        if comment is None:
            yield Block(language, re.sub(f"^{indent}", "", code, flags=re.MULTILINE), comments)
            comments = {}
            continue
        name, _, value = comment.partition(": ")
        if name not in ("first", "not run", "in tests", "varies") or not value:
            raise PageError(f"unknown comment: {comment}")
        if name == "first":
            yield Block("sh", value, {})
        else:
            comments = {**comments, name: value}


def run(page: Path, in_full: bool) -> None:
    """Run the blocks of a page. Raises PageError for a failure, and for output that differs."""
    printed, ran = None, 0
    names: dict[str, object] = {"__name__": "__main__"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for block in blocks(page.read_text(encoding="utf-8").replace("8765", str(port))):  # the port of `serve`
        if "not run" in block.comments:
            printed = None
        elif block.language == "sh":
            options = "" if in_full else block.comments.get("in tests", "")
            code = re.sub(r"^(clearhead train (?:.*\\\n)*.*)$", rf"\1 {options}", block.code, flags=re.MULTILINE)
            printed, ran = run_commands(code, in_shell=in_full), ran + 1
        elif block.language == "python":
            printed, ran = run_here(lambda code=block.code: exec(compile(code, page.name, "exec"), names)), ran + 1
        elif block.language == "text" and printed is not None:
            if "varies" not in block.comments:
                compare(block.code, printed)
            elif in_full and not printed.strip():
                raise PageError(f"nothing is printed, in place of:\n{block.code}")
            printed = None
    if not ran:
        raise PageError("the page has no block to run")


def run_commands(code: str, in_shell: bool) -> str:
    """Run the commands of a block and return what they print. A shell runs those that need one."""
    lines = [line for line in code.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    words = [list(shlex.shlex(line, posix=True, punctuation_chars=True)) for line in lines if "<<" not in code]
    plain = len(words) == len(lines) and all(
        it[0] == "clearhead" and not set(it) & {"|", "&", "&&", ";"} for it in words
    )
    if in_shell or not plain or re.search(r"[$*]", code) or "clearhead serve" in code:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode:
            raise PageError(f"exit code {done.returncode}:\n{code}\n{done.stdout}")
        return done.stdout
    return "".join(run_here(lambda line=line: run_command(line)) for line in lines)


def run_command(line: str) -> None:
    """Run a command of Clearhead in this process, with standard input and output from and to files if it says so."""
    from clearhead.cli import main

    words, paths = [], {}
    given = shlex.split(line)[1:]
    while given:
        word = given.pop(0)
        if word in ("<", ">"):
            paths[word] = given.pop(0)
        else:
            words.append(word)
    with ExitStack() as stack:
        if ">" in paths:
            stack.enter_context(redirect_stdout(stack.enter_context(Path(paths[">"]).open("w", encoding="utf-8"))))
        before = sys.stdin
        sys.stdin = stack.enter_context(Path(paths.get("<", os.devnull)).open(encoding="utf-8"))
        try:
            code = main(words)
        finally:
            sys.stdin = before
    if code:
        raise PageError(f"exit code {code}: {line}")


def run_here(action: Callable[[], object]) -> str:
    """Call a function and return what it prints to stdout and stderr."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        try:
            with redirect_stdout(file), redirect_stderr(file):
                action()
        except BaseException:
            file.seek(0)
            sys.stderr.write(file.read())
            raise
        file.seek(0)
        return file.read()


def compare(expected: str, printed: str) -> None:
    """Raise PageError unless each expected line is printed, in their order."""
    lines = iter([alike(line) for line in printed.splitlines()])
    for line in filter(None, map(alike, expected.splitlines())):
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        if line != "…" and not any(pattern.fullmatch(it) for it in lines):
            raise PageError(f"this isn't printed: {line}\n\nexpected:\n{expected}\nprinted:\n{printed}")


def alike(line: str) -> str:
    """Return a line with 0 in place of each number, and with single spaces."""
    return re.sub(r"[-+]?\d[\d,.:]*(e-?\d+)?", "0", " ".join(line.split()))


def run_each() -> None:
    """Run pages, each in a copy of this process, which has imported PyTorch and the rest once for all of them."""
    import matplotlib.figure  # noqa: F401
    import torch._dynamo  # noqa: F401  (the first optimizer imports it)

    import clearhead.training.run  # noqa: F401

    for line in sys.stdin:
        folder, page = line.rstrip("\n").split("\t")
        child = os.fork()
        if not child:
            os.setsid()
            os.chdir(folder)
            with Path(os.devnull).open() as nothing, Path("../errors").open("w") as errors:
                os.dup2(nothing.fileno(), 0)
                os.dup2(errors.fileno(), 1)
                os.dup2(errors.fileno(), 2)
            signal.alarm(1800)
            sys.exit(main([page]))
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGTERM)  # a server that a page which failed has left behind
        print(os.waitstatus_to_exitcode(status), flush=True)


def main(words: list[str]) -> str | None:
    """Run what the command line names. Return an error or None."""
    if words == ["--each"]:
        run_each()
        return None
    try:
        run(Path(words[0]), in_full="--in-full" in words)
    except PageError as error:
        return f"{words[0]}: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
