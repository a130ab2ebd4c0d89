"""Start the processes of a run on this machine, as torchrun does."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from ...config.messages import say
from ...decode.engine import usable_cores
from .processes import LAUNCHER, EndedElsewhereError

_PATIENCE = 600  # seconds that a signalled process has to save a checkpoint


def launch(arguments: Sequence[str], count: int) -> None:
    """Run `clearhead ARGUMENTS` in `count` processes, which share the cores of the machine.

    torch's own messages are silenced, since the processes report their errors themselves.

    Raises:
        EndedElsewhereError: a process failed, and has reported why.
    """
    _start(count, sys.executable, "-m", "clearhead", *arguments)


def call(function: Callable[..., Any], count: int, *arguments: Any) -> Any:
    """Call a function in `count` new processes, as `launch` does, and return the result of the first one."""
    return _start(count, function, *arguments)[0]


def _start(count: int, entry: Callable[..., Any] | str, *arguments: Any) -> dict[int, Any]:
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // count)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch.distributed warns of what DDP needs here
    os.environ[LAUNCHER] = str(os.getpid())
    logging.disable()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id="clearhead",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        shutdown_timeout=_PATIENCE,
    )
    try:
        return elastic_launch(config, entry)(*arguments)
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in sorted(error.failures.items())}
        for rank, code in codes.items():
            if code < 0:
                say(f"process {rank} was ended by {signal.Signals(-code).name}")
        raise EndedElsewhereError(1 if min(codes.values()) < 0 else next(iter(codes.values()))) from error
    except SignalException as error:
        raise EndedElsewhereError(128 + int(error.sigval)) from error
