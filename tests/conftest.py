"""What many tests need: small model folders with random weights, the folder of the public data sets, and ways for a
disk and a process to fail."""

import errno
import gc
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from clearhead.config import Config
from tests.builders import make_model_folder, make_questions

hypothesis.settings.register_profile("clearhead", deadline=None)  # a loaded machine is slow, not wrong
hypothesis.settings.load_profile("clearhead")

gc.set_threshold(50_000)  # there are half a million objects, which thousands of collections would search in vain


def pytest_collection_finish() -> None:
    gc.freeze()  # modules and tests stay until the end


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="also run the tests of another device, such as cuda")


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """The device that --device names; a test that needs one is skipped without it."""
    import torch

    name: str = request.config.getoption("--device")
    if name == "cpu":
        pytest.skip("it compares a device with the CPU: name one, such as --device cuda")
    if name.startswith("cuda") and not torch.cuda.is_available():
        pytest.skip(f"--device {name}: PyTorch finds no GPU")
    return name


@pytest.fixture(scope="session", autouse=True)
def fresh_user_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No engine is ready, whatever is in the user's cache: loops isn't compiled, and no model is converted."""
    from clearhead.decode.engines.loops.machine_code import LoopsOpener
    from clearhead.exchange.ctranslate2 import model_cache
    from clearhead.folder.atomic import cache_folder

    root = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoopsOpener, "waits", lambda *_: "its first use compiles it")
        patch.setattr(LoopsOpener, "prepare_later", lambda: None)
        patch.setattr(model_cache, "cache_folder", lambda: cache_folder() if "XDG_CACHE_HOME" in os.environ else root)
        yield


@pytest.fixture
def real_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine loops is ready if it's compiled, which `auto` lets a process do in the background."""
    from clearhead.decode.engines.loops import machine_code
    from clearhead.decode.engines.loops.machine_code import LoopsOpener

    waits = classmethod(lambda *_: "" if machine_code.is_compiled() else "it isn't compiled")
    monkeypatch.setattr(LoopsOpener, "waits", waits)
    monkeypatch.setattr(LoopsOpener, "prepare_later", machine_code.prepare_later)


@pytest.fixture
def weights_of_any_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders may hold tensors that aren't the weights of their settings, where it's the files that are tested."""
    monkeypatch.setattr("clearhead.folder.model_folder.check_weights", lambda *_: None)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder as training leaves it, with subword tokens. Not to be written to."""
    return make_model_folder(tmp_path_factory.mktemp("model"), tokenizer="bpe")


@pytest.fixture(scope="session")
def word_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a vocabulary of words, so that there are unknown ones. Not to be written to."""
    return make_model_folder(tmp_path_factory.mktemp("words"), tokenizer="word")


ANSWERING = {
    "data.tokenizer": "word", "data.max_len": 40, "data.batch_tokens": 512, "model.dropout": 0.0, "model.d_model": 32,
    "model.n_heads": 2, "model.d_ff": 64, "model.n_encoder_layers": 2, "model.pre_norm": True, "train.lr": 0.01,
    "train.warmup": 10, "train.optimizer": "adam", "train.threads": 1, "train.precision": "fp32",
    "model.positions": "sinusoidal",  # texts of twelve tokens teach nothing of the distances in longer ones
}  # fmt: skip


@pytest.fixture(scope="session")
def answer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt what `make_questions` asks, and where there is no answer. Not to be written to."""
    import torch

    from clearhead.api import train

    folder = tmp_path_factory.mktemp("answers")
    data = folder / "questions.json"
    data.write_text(json.dumps(make_questions(150, lacking=True)), encoding="utf-8")
    values = {**ANSWERING, "train.task": "answer", "data.train": [str(data)], "data.split": 0.1, "train.steps": 50}
    threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
        patch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
        train(Config().override({**values, "train.eval_every": 50}), folder / "model", say=lambda _: None)
    torch.set_num_threads(threads)
    torch.random.set_rng_state(generator)
    return folder / "model"


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of the public data sets; a test that needs it is skipped where there is none."""
    named = os.environ.get("CLEARHEAD_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no data sets: {folder} is no folder; name it with CLEARHEAD_DATA")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window. While it's open, the thread has a running event loop, which other tests can't have."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, which `make setup-dev` installs")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


# --- a disk and a process that fail

FailFrom = Callable[[int, BaseException], AbstractContextManager[None]]


class Killed(BaseException):
    """Stands for SIGKILL: no `except OSError` catches it, so that nothing is cleaned up."""


@pytest.fixture
def fail_from(monkeypatch: pytest.MonkeyPatch) -> FailFrom:
    """`with fail_from(n, error)`: the n-th system call that renames, syncs or makes raises, and all later ones.

    So do those that remove, where the process is dead; a full disk still removes.
    """

    @contextmanager
    def failing(number: int, error: BaseException) -> Iterator[None]:
        calls = 0

        def fail_late(real: Callable) -> Callable:
            def call(*arguments, **named):
                nonlocal calls
                calls += 1
                if calls >= number:
                    raise error
                return real(*arguments, **named)

            return call

        with monkeypatch.context() as patch:
            removing = () if isinstance(error, OSError) else ("rmdir", "unlink")
            for name in ("replace", "fsync", "mkdir", *removing):
                patch.setattr(os, name, fail_late(getattr(os, name)))
            yield

    return failing


@pytest.fixture
def killed() -> BaseException:
    return Killed()


@pytest.fixture
def crash_points(fail_from: FailFrom, killed: BaseException) -> Callable[[Callable[[], None]], Iterator[int]]:
    """For each call in turn: run an action that dies there, then yield; ends when the action comes through."""

    def each(action: Callable[[], None]) -> Iterator[int]:
        for number in range(1, 100):
            try:
                with fail_from(number, killed):
                    action()
            except Killed:
                yield number
            else:
                return
        raise AssertionError("the action never came through")

    return each


@pytest.fixture
def disk_full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def read_only() -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS))
