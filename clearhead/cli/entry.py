"""Entry point of `clearhead COMMAND ...`. Errors become a message and an exit code.

Exit codes: 0 success, 1 failure, 2 usage error, 130 or 143 stopped by a signal. Tracebacks are shown only with --debug.
"""

import argparse
import contextlib
import errno
import gc
import io
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

from ..config import TASKS
from ..config.messages import say, say_within_a_handler
from ..errors import ClearheadError, ConfigError, is_out_of_memory, unknown
from ..version import __version__
from .parser import UsageError, Verb, parse, parser_of

# Verbs in the order of `clearhead --help`. Each task has a verb of the same name.
_LAST = ("score", "bench", "explain", "ablate", "verify", "diagnose", "info", "import", "export", "env")
_SHARED = {
    **dict.fromkeys(("translate", "summarize", "transcribe"), "tasks.text_to_text"),
    "example": "demo",
    **dict.fromkeys(("import", "export"), "exchange"),
    **dict.fromkeys(("evaluate", "score"), "evaluate"),
}  # verbs that are in a file with others
_NAMES = ("demo", "example", "course", "check", "train", "evaluate", *TASKS, "serve", *_LAST)
_FILES = {
    "check": "check_data",
    **{task: f"tasks.{task}" for task in TASKS},
    **_SHARED,
}  # not named after the verb alone

_CONTROL = re.compile(r"(?!\x1b\[(?:48;5;\d+|0)m)[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but the colours of `explain`
_QUOTED = re.compile(r"`([a-z_.]+)(?:=([^`]*))?`")
_SETTING = re.compile(r"(?<![\w.`'-])((?:data|model|train|decode)\.[a-z_]\w*)(?:=('[^']*'|[^\s,;:()]+))?")


class _Verbs(Mapping[str, Verb]):
    """All verbs by name. A verb is imported on first use, so commands start faster."""

    def __getitem__(self, name: str) -> Verb:
        if name not in _NAMES:
            raise KeyError(name)
        module = import_module(f"{__package__}.verbs.{_FILES.get(name, name)}")
        return getattr(module, name.upper() if name in _SHARED else "VERB")

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


VERBS: Mapping[str, Verb] = _Verbs()

_SIGNALS: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}

_HELP = """\
usage: clearhead COMMAND ...

A Transformer you can see through: train it on your own files, run it fast, and look inside every step.

{verbs}

  clearhead COMMAND --help   options and examples
  clearhead --version

Results go to stdout, everything else to stderr.
Exit codes: 0 success, 1 failure, 2 usage error, 130 or 143 stopped by Ctrl-C or SIGTERM."""


def _help() -> str:
    return _HELP.format(verbs="\n".join(f"  {verb.name:<11} {verb.summary}" for verb in VERBS.values()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Args:
        arguments: the words after `clearhead` (default: sys.argv[1:]).
    """
    ends = arguments is None
    if arguments is None:
        arguments = sys.argv[1:]
        _end_at_signals()
        # OpenMP's threads wait for each other after every operation. By default, they wait in a busy loop, and next to
        # another program that can make two threads ten times slower than one. So they sleep, but only after some
        # microseconds: without other programs, training takes a third longer if they sleep at once. Importing torch
        # reads both variables.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        _prepare_streams()
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader closed the pipe, as `| head` does
        return 0
    except BaseException as error:
        if "--debug" in arguments:
            import traceback

            traceback.print_exc()
        code, message = _explain(error, arguments)
        if message:  # another process of a training run has printed it
            say(message)
        return code
    finally:
        _drop_output()
        if ends:
            gc.freeze()  # looking for garbage once more would take longer than decoding a sentence


def _run(arguments: Sequence[str]) -> int:
    name, *rest = arguments or [""]
    if name in VERBS:
        try:
            options = parse(VERBS[name], rest)
        except SystemExit:  # the help was printed
            return 0
        VERBS[name].run(options)
        return 0
    if name in ("-h", "--help", "help"):
        print(_help())
        return 0
    if name in ("-V", "--version"):
        print(f"clearhead {__version__}")
        return 0
    if not name:
        say(_help())
        return 2
    raise unknown(f"unknown command {name!r}", name, VERBS, "", UsageError)


def _explain(error: BaseException, arguments: Sequence[str]) -> tuple[int, str]:
    """Return the exit code and the message for an exception."""
    verb = arguments[0] if arguments else ""
    match error:
        case KeyboardInterrupt():
            return 130, f"stopped by {_SIGNALS[signal.SIGINT]}"
        case ClearheadError() if hasattr(error, "exit_code"):  # a signal stopped training
            return error.exit_code, _with_options(str(error), arguments)
        case UsageError():
            usage = f"usage: clearhead {verb} {VERBS[verb].usage}\n  " if verb in VERBS else ""
            see = f"see: clearhead {f'{verb} ' * (verb in VERBS)}--help"
            return 2, f"error: {_with_options(str(error), arguments)}\n  {usage}{see}"
        case ClearheadError():
            return (2 if isinstance(error, ConfigError) else 1), f"error: {_with_options(str(error), arguments)}"
        case _ if is_out_of_memory(error):
            advice = VERBS[verb].less_memory if verb in VERBS else "close other programs"
            return 1, f"error: this machine has run out of memory\n  {advice}"
        case ImportError() if not (error.name or "").startswith("clearhead"):
            advice = "install it again, or close other programs if memory is short"
            return 1, f"error: a library can't be imported: {error}\n  {advice}"
        case OSError():
            return 1, f"error: {error.filename or 'input or output'}: {error.strerror or error}"
        case _:
            what = " ".join(str(error).split())
            return 1, f"internal error: {type(error).__name__}: {what}\n  run it again with --debug for a traceback"


def _with_options(message: str, arguments: Sequence[str]) -> str:
    """Replace arguments and settings by the options of a verb: `resume=True` by --resume, decode.beam=0 by --beam 0.

    Errors speak Python, since they are raised there too. Those in backticks are replaced in every message, and others
    only if one of them was typed, since a setting may come from a file, where it has its dotted name.
    """
    verb = arguments[0] if arguments else ""
    if verb not in VERBS or not (_QUOTED.search(message) or _SETTING.search(message)):
        return message
    options: dict[str, argparse.Action] = {}
    for action in parser_of(VERBS[verb], full=True)._actions:
        if action.option_strings:
            options.setdefault(action.dest, action)
    typed = {it.partition("=")[0] for it in arguments[1:] if it.startswith("-")}

    def spelled(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name not in options:
            return found[0]
        if options[name].nargs == 0 and value == "false":
            return f"--{name}=false"  # the short option can only set it
        option = next((it for it in options[name].option_strings if it in typed), options[name].option_strings[0])
        return option if not value or options[name].nargs == 0 else f"{option} {value}"

    message = _QUOTED.sub(spelled, message)
    named = [options[it[1]] for it in _SETTING.finditer(message) if it[1] in options]
    return _SETTING.sub(spelled, message) if any(typed & {*it.option_strings} for it in named) else message


def _end_at_signals() -> None:
    """Make Ctrl-C and SIGTERM end this process at once. Training replaces these handlers with its own.

    Files are written atomically, so nothing needs cleaning up. An exception would be unreliable, because some libraries
    swallow exceptions during import.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        say_within_a_handler(f"stopped by {_SIGNALS[number]}")
        with contextlib.suppress(OSError, RuntimeError):  # the signal may have interrupted a write
            sys.stdout.flush()
        os._exit(128 + number)

    for number in _SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # ignored signals stay ignored
            signal.signal(number, end)


class _ClosedOutput(io.TextIOBase):
    """Replacement for a stdout that the caller closed (`>&-`). Writing to it raises OSError."""

    def write(self, _text: str) -> NoReturn:
        raise OSError(errno.EBADF, "it's closed, so the results would be lost", "standard output")


class _Terminal(io.TextIOWrapper):
    """The stdout of a terminal. Escapes control characters of answers and vocabularies, but not tabs and line ends."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        super().__init__(stream.buffer, "utf-8", "backslashreplace", "\n", line_buffering=True)
        self._stream = stream  # which would close the buffer if nothing referred to it

    def write(self, text: str) -> int:
        return super().write(_CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text))


def _prepare_streams() -> None:
    """Use UTF-8 and LF on every system, escape control characters on a terminal, and replace closed streams."""
    if sys.stdout is None:
        os.open(os.devnull, os.O_WRONLY)  # occupies the free descriptor, so that no model file gets it
        sys.stdout = _ClosedOutput()
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - stays open until exit
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    if type(sys.stdout) is io.TextIOWrapper and sys.stdout.isatty():
        sys.stdout = _Terminal(sys.stdout)


def _drop_output() -> None:
    """Flush the streams. Discard output that can't be written, so that the interpreter doesn't fail at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno())
                stream.flush()
            os.close(nowhere)
