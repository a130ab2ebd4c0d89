"""`clearhead VERB ...`: find the verb, run it, and turn whatever happens into an exit code and a message.

0 done, 1 failed, 2 used wrongly, 130 or 143 stopped by a signal. No traceback without --debug.
"""

import contextlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from .. import __version__
from ..config.messages import say, say_within_a_handler
from ..errors import ClearheadError, ConfigError, did_you_mean
from .parser import UsageError, parse
from .verbs import (
    ablate,
    answer,
    classify,
    demo,
    env,
    evaluate,
    explain,
    generate,
    info,
    score,
    summarize,
    train,
    translate,
    verify,
)

_MODULES = (
    demo, train, evaluate, translate, generate, classify, answer, summarize, score, explain, ablate, verify, info, env,
)  # fmt: skip
VERBS = tuple(module.VERB for module in _MODULES)
_VERBS = {verb.name: verb for verb in VERBS}

_NAMES: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}

_MEMORY = {  # what to do where it is short
    "train": "it takes less with a lower --data.batch_tokens or a smaller --preset",
    "evaluate": "it takes less with a lower --batch-tokens",
    "translate": "it takes less with a lower --batch-tokens",
    "answer": "it takes less with a lower --batch-tokens",
    "summarize": "it takes less with a lower --batch-tokens",
    "classify": "it takes less with a lower --batch-tokens",
    "ablate": "it takes less with a lower --batch-tokens",
}

_HELP = f"""\
usage: clearhead VERB ...

A Transformer you can see through: train one on your own files, use it fast, look inside every step.

{"".join(f"  {verb.name:<10} {verb.summary}{chr(10)}" for verb in _VERBS.values())}
  clearhead VERB --help   options and examples
  clearhead --version

Results go to stdout, everything else to stderr.
Exit code: 0 done, 1 failed, 2 used wrongly, 130 or 143 stopped by Ctrl-C or SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of this process; returns the exit code."""
    if arguments is None:
        arguments = sys.argv[1:]
        _end_at_signals()
    try:
        _prepare_streams()
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read our results has enough of them
        return 0
    except BaseException as error:
        if "--debug" in arguments:
            traceback.print_exc()
        code, message = _explain(error, arguments[:1])
        say(message)
        return code
    finally:
        _drop_output()


def _run(arguments: Sequence[str]) -> int:
    name, *rest = arguments or [""]
    if name in _VERBS:
        verb = _VERBS[name]
        try:
            options = parse(verb, rest)
        except SystemExit:  # it printed the help
            return 0
        verb.run(options)
        return 0
    if name in ("-h", "--help", "help"):
        print(_HELP)
        return 0
    if name in ("-V", "--version"):
        print(f"clearhead {__version__}")
        return 0
    if not name:
        say(_HELP)
        return 2
    raise UsageError(f"unknown verb {name!r}; there are {', '.join(_VERBS)}{did_you_mean(name, _VERBS)}")


def _explain(error: BaseException, verb: Sequence[str]) -> tuple[int, str]:
    """The exit code and the message for what ended a verb."""
    match error:
        case KeyboardInterrupt():
            return 130, f"stopped by {_NAMES[signal.SIGINT]}"
        case ClearheadError() if hasattr(error, "exit_code"):  # training that a signal stopped
            return error.exit_code, str(error)
        case UsageError():
            more = f"\n  see: clearhead {verb[0]} --help" if verb and verb[0] in _VERBS else "\n  see: clearhead --help"
            return 2, f"error: {error}{more}"
        case ClearheadError():
            return (2 if isinstance(error, ConfigError) else 1), f"error: {error}"
        case _ if _is_out_of_memory(error):
            return 1, f"error: there is not enough memory; {_MEMORY.get(verb[0], 'close other programs')}"
        case OSError():
            return 1, f"error: {error.filename or 'input or output'}: {error.strerror or error}"
        case _:
            said = " ".join(str(error).split())
            return 1, f"internal error: {type(error).__name__}: {said}\n  run again with --debug to see where it arose"


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's own error, or torch's, which on a processor has no type of its own."""
    said = str(error).lower()
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(word in said for word in words))


def _end_at_signals() -> None:
    """Ctrl-C and SIGTERM end this process where it stands, with what it has printed; training has ways of its own.

    What goes to the disk is whole or not there at all, so that nothing needs tidying up, and an exception might get
    lost: some libraries swallow any that is raised while they are being imported.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        say_within_a_handler(f"stopped by {_NAMES[number]}")
        with contextlib.suppress(OSError, RuntimeError):  # it may be in the middle of writing
            sys.stdout.flush()
        os._exit(128 + number)

    for number in _NAMES:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # not where they are ignored
            signal.signal(number, end)


def _prepare_streams() -> None:
    """Pipes and terminals get UTF-8 and LF whatever the locale and the system, and what is closed takes everything.

    Python has no stream where a descriptor is closed, and prints what is meant for stderr to stdout then.
    """
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - to the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def _drop_output() -> None:
    """Write what is still buffered, or let it go nowhere, so that the interpreter does not fail on it when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno())
                stream.flush()
            os.close(nowhere)
