"""The processes of a run, which torchrun starts on one machine or several, and `launch` on this one.

Parallelism is applied from outside the model. Each process has a copy of the weights (DDP) and computes the gradient of
its share of every batch. The gradients are added up, so all copies change alike. The first process prepares the data,
writes every file and speaks to the user. Batches are the same for any number of processes, and so is their order.
"""

import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from ...config import Config
from ...config.messages import say
from ...config.values import invalid
from ...data.encoding import end_with_parent
from ...decode.engine import usable_cores
from ...errors import ConfigError, TrainingError
from ...readers.files import STDIN
from ...tokenization.ragged import IntArray

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


T = TypeVar("T")
Loss = Callable[[nn.Module, IntArray], Tensor]  # the loss of a task, summed over the examples of a batch

LAUNCHER = "CLEARHEAD_LAUNCHER"  # the environment variable with the id of the process that started the others
_POLL = 0.05  # seconds
_PATIENCE = 600  # seconds that a signalled process has to save a checkpoint


class EndedElsewhereError(TrainingError):
    """The run ended because of another process, which has already reported the reason, so there's no message."""

    def __init__(self, exit_code: int = 1) -> None:
        super().__init__("")
        self.exit_code = exit_code


class Processes:
    """The processes of a run: this one alone, or several that communicate through torch.distributed and a `store`."""

    def __init__(self, store: Store | None = None, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count, self._store, self._waits = rank, count, store, 0
        self.restarted = count > 1 and _number("TORCHELASTIC_RESTART_COUNT", 0) > 0

    @property
    def leads(self) -> bool:
        """True for the process that writes files and messages."""
        return self.rank == 0

    def first(self, lead: Callable[[], T], follow: Callable[[], T]) -> T:
        """Call `lead` in the first process and then `follow` in the others. Return the result.

        The others can wait for hours, and still react to signals.

        Raises:
            EndedElsewhereError: `lead` failed in the first process.
        """
        if self._store is None:
            return lead()
        self._waits += 1
        key = f"clearhead/{self._waits}"
        if self.leads:
            try:
                found = lead()
            except BaseException:
                self._store.set(key, "failed")
                raise
            self._store.set(key, "done")
            return found
        try:
            while not self._store.check([key]):
                time.sleep(_POLL)
            done = self._store.get(key) == b"done"
        except RuntimeError:  # the first process had the store, and is gone
            done = False
        if not done:
            raise EndedElsewhereError()
        return follow()

    def deal(self, rows: IntArray) -> IntArray:
        """Return the part of a batch that this process computes. It's empty if there are too few examples for all.

        A batch is sorted by length, so every n-th example makes parts with almost equally many tokens.
        """
        return rows[self.rank :: self.count]

    def shared(self, model: nn.Module, loss: Loss) -> Callable[[IntArray], Tensor]:
        """Return the loss of a batch, whose backward pass averages the gradients of all processes (DDP).

        All processes get the weights of the first one.
        """
        if self.count == 1:
            return lambda rows: loss(model, rows)
        for weight in model.state_dict().values():
            distributed.broadcast(weight, 0)
        # Without find_unused_parameters, DDP would group the weights differently after its first step. Sums of three or
        # more gradients depend on the groups, so a resumed run would differ from one that wasn't stopped.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            return nn.parallel.DistributedDataParallel(
                LossOf(model, loss),
                init_sync=False,
                find_unused_parameters=True,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
            )

    def without_average(self, loss: Callable[[IntArray], Tensor]) -> AbstractContextManager[None]:
        """Inside the `with` block, the gradients of a shared loss aren't averaged yet.

        A sharded loss averages them each time, since a process has no room for the gradients of all weights.
        """
        return loss.no_sync() if isinstance(loss, nn.parallel.DistributedDataParallel) else nullcontext()

    def sums(self, values: Sequence[float]) -> list[float]:
        """Return the sum of each value over all processes."""
        if self.count == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(tensor)
        return cast("list[float]", tensor.tolist())

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, in order."""
        found: list[Any] = [value] * self.count
        if self.count > 1:
            distributed.all_gather_object(found, value)
        return found

    def each(self, answer: Callable[[Sequence[Any]], Sequence[T]], items: Sequence[Any]) -> list[T]:
        """Return an answer for each item. Process r of n answers the items r, r + n and so on, and gets all answers."""
        if self.count == 1:
            return list(answer(items))
        parts = self.gather(list(answer(items[self.rank :: self.count])))
        found: list[Any] = [None] * len(items)
        for rank, part in enumerate(parts):
            found[rank :: self.count] = part
        return found

    def give_room(self) -> None:
        """Use an equal share of the cores, or fewer if this process is limited to fewer."""
        if self.count > 1:
            share = usable_cores() // _number("LOCAL_WORLD_SIZE", self.count)
            torch.set_num_threads(min(torch.get_num_threads(), max(1, share)))

    def check_supports(self, config: Config, *, warm_start: bool) -> None:
        """Raise ConfigError if this number of processes can't train with these settings."""
        if self.count == 1:
            return
        if warm_start:
            what, fix = "a warm start runs in one process", "start one process, or leave out train.warm_start"
            raise ConfigError(what, fix=fix, name="train.warm_start", value=config.train.warm_start)
        if config.train.shard == "full":
            _check_sharded(config)
        for name in ("data.train", "data.valid", "data.test", "data.replay", "data.check"):
            if STDIN in config.value(name):
                what = f"{name} is standard input, which several processes can't all read"
                raise ConfigError(what, expected="a file", name=name, value=STDIN)


ALONE = Processes()


class LossOf(nn.Module):
    """The loss of a batch as a module, as DDP needs it."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self._loss = model, loss

    def forward(self, rows: IntArray) -> Tensor:
        return self._loss(self.model, rows)


@contextmanager
def joined() -> Iterator[Processes]:
    """Join the other processes of the run, if torchrun started this one. Only the first error of all is reported.

    If torchrun is killed, each process gets SIGTERM, so they save a checkpoint and end.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent(_number(LAUNCHER, os.getppid()))
    if _number("WORLD_SIZE", 1) == 1:
        yield ALONE
        return
    try:
        store, rank, count = next(rendezvous("env://"))
        distributed.init_process_group(store=store, rank=rank, world_size=count)
    except (RuntimeError, ValueError) as error:
        what = f"this process can't connect to the others of its run: {error}"
        fix = "start all processes with torchrun, or with `clearhead train --processes`"
        raise TrainingError(what, expected="the environment variables that torchrun sets", fix=fix) from error
    processes = Processes(store, rank, count)
    try:
        yield processes
        distributed.barrier()  # the store ends with the first process
    except EndedElsewhereError:
        raise
    except BaseException as error:
        if not _is_first_failure(store):
            raise EndedElsewhereError() from error
        if _is_of_the_network(error):
            what = "another process of this run ended without a message"
            fix = "check that no machine ran out of memory, and continue with `resume=True`"
            raise TrainingError(what, expected="processes that run to the end", fix=fix) from error
        raise
    finally:
        distributed.destroy_process_group()


def _is_first_failure(store: Store) -> bool:
    """Return whether no other process has reported an error before."""
    try:
        return store.add("clearhead/failed", 1) == 1
    except RuntimeError:  # the store is gone, and the process that had it has reported the error
        return False


def _check_sharded(config: Config) -> None:
    """Raise ConfigError for settings that need whole weights."""
    train = config.train
    if train.optimizer == "muon":
        what = "needs whole matrices, and train.shard='full' divides them"
        raise invalid("train.optimizer", "muon", what, expected="adam or adamw")
    if train.memory:
        what = "train.memory can't be divided between sharded processes"
        fix = "set train.micro_batches and train.activation_checkpointing instead"
        raise ConfigError(what, fix=fix, name="train.memory", value=train.memory)


def _is_of_the_network(error: BaseException) -> bool:
    """Return whether torch.distributed raised the error, as it does if another process is gone."""
    words = ("gloo", "nccl", "connection")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else default


# --- tensors that the processes have divided among them (DTensor) -----------------------------------------------------


def gathered(tensor: Tensor) -> Tensor:
    """Return the whole of a divided tensor, which every process must call; any other tensor unchanged."""
    return cast(Tensor, tensor.full_tensor()) if hasattr(tensor, "full_tensor") else tensor


def own_share(tensor: Tensor) -> Tensor:
    """Return the share of this process in a divided tensor; any other tensor unchanged."""
    return cast(Tensor, tensor.to_local()) if hasattr(tensor, "to_local") else tensor


def divided_like(divided: Tensor, whole: Tensor) -> Tensor:
    """Divide a tensor, which every process has, in the way of another one; unchanged if that one isn't divided."""
    if not hasattr(divided, "device_mesh"):
        return whole
    from torch.distributed.tensor import distribute_tensor  # slow to import

    like = cast("DTensor", divided)
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


# --- starting the processes on this machine, as torchrun does ---------------------------------------------------------


def launch(arguments: Sequence[str], count: int) -> None:
    """Run `clearhead ARGUMENTS` in `count` processes, which share the cores of the machine.

    torch's own messages are silenced, since the processes report their errors themselves.

    Raises:
        EndedElsewhereError: a process failed, and has reported why.
    """
    _start(count, sys.executable, "-m", "clearhead", *arguments)


def call(function: Callable[..., Any], count: int, *arguments: Any) -> Any:
    """Call a function in `count` new processes, as `launch` does, and return the result of the first one.

    Args:
        function: a function that can be pickled.
        count: number of processes.
        arguments: passed to the function; they're pickled, too.
    """
    return _start(count, function, *arguments)[0]


def _start(count: int, entry: Callable[..., Any] | str, *arguments: Any) -> dict[int, Any]:
    from torch.distributed.elastic.multiprocessing import SignalException  # slow to import
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

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
