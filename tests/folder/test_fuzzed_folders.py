"""Whatever a model folder says, every engine gives the answer of torch or a clear error; no process crashes.

One setting or one tensor at a time is changed, and the manifest is signed again, as a downloaded folder brings its own.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clearhead.config import settings
from clearhead.decode.engines.loops.machine_code import machine_code_file, prepare
from clearhead.folder.model_folder import load_model_folder, model_files, save_files

ENGINES = ("torch", "loops", "packed", "ct2")
SAMPLE = 6  # cases of each folder that the fast test tries

Words = list[str]


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def is_clear(self) -> bool:
        """True for an answer, or an error that says what's wrong."""
        return self.code in (0, 1, 2) and (self.code == 0) == ("error: " not in self.err) and "internal" not in self.err


def numbers(value: float) -> list[Any]:
    found: list[Any] = [0, 1, -1, value - 1, value + 1, 2 * value, value / 2, 10**9, 2**63, 10**30, -(10**30), 1e300]
    return [*found, 1e-300, float("nan"), float("inf"), None, True, "x", [], {}]


def changed_settings(record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every setting with every kind of value, and every section without it or of another type."""
    for section in ("model", "decode", "train", "data"):
        for name in (it.partition(".")[2] for it in settings() if it.startswith(f"{section}.")):
            value = record[section].get(name)
            if isinstance(value, bool):
                values: list[Any] = [not value, None, 2, "x"]
            elif isinstance(value, int | float):
                values = numbers(value)
            elif isinstance(value, str):
                values = ["", "x", 3, None, [], "my:Part", *CHOICES.get(name, ())]
            else:
                values = [1, 2, 16, -1, 10**9, 0.5, True, "x", ["x"], {}]
            for it in values:
                yield f"{section}.{name}={it!r}", {**record, section: {**record[section], name: it}}
        yield f"no {section}", {name: it for name, it in record.items() if name != section}
        yield f"{section} is a number", {**record, section: 3}


CHOICES: dict[str, tuple[str, ...]] = {
    "topology": ("encoder-decoder", "decoder-only", "encoder-only"),
    "front": ("patches", "frames"),
    "positions": ("sinusoidal_halves", "learned", "rotary", "relative", "alibi", "sinusoidal_2d"),
    "norm": ("rms",),
    "feed_forward": ("gelu", "gelu_tanh", "silu", "swiglu", "geglu"),
    "tie": ("target", "embeddings", "none"),
    "head": ("class", "span", "token"),
    "pooling": ("first",),
    "rotary": ("500", "10000:linear:2", "10000:llama3:8:1:4:2"),
}


def changed_tensors(weights: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every tensor missing, renamed, twice, in other shapes and types, and with numbers that aren't finite."""
    import torch

    for name, tensor in weights.items():
        nan, infinite, huge = tensor.clone(), tensor.clone(), tensor.double()
        nan.view(-1)[-1], infinite.view(-1)[0], huge.view(-1)[0] = float("nan"), float("-inf"), 1e300
        forms = {
            "half": tensor[: len(tensor) // 2],
            "longer": torch.cat((tensor, tensor)),
            "one": tensor.reshape(-1)[:1].reshape([1] * tensor.dim()),
            "flat": tensor.reshape(-1),
            "turned": tensor.reshape(tensor.shape[::-1]),
            "empty": tensor[:0],
            "scalar": tensor.sum(),
            "int32": tensor.to(torch.int32),
            "uint8": tensor.to(torch.uint8),
            "bool": tensor.bool(),
            "float16": tensor.half(),
            "bfloat16": tensor.bfloat16(),
            "float64": tensor.double(),
            "float8": tensor.to(torch.float8_e4m3fn),
            "nan": nan,
            "infinite": infinite,
            "huge": huge,
        }
        for form, it in forms.items():
            yield f"{name} {form}", {**weights, name: it.contiguous()}
        others = {it: tensor for it, tensor in weights.items() if it != name}
        yield f"no {name}", others
        yield f"{name} renamed", {**others, f"{name}2": tensor}
        yield f"more than {name}", {**weights, f"{name}2": tensor.clone()}
    for stack in ("encoder.", "decoder.", ""):
        yield f"no block of {stack}", {it: t for it, t in weights.items() if not it.startswith(f"{stack}blocks.0.")}
        for tied in ("embedding", "projection"):
            yield f"another {stack}{tied}", {**weights, f"{stack}{tied}.weight": next(iter(weights.values())) + 1}
    yield "no tensors", {}


def cases(folder: Path) -> dict[str, dict[str, bytes]]:
    """Return the files of every case by its name."""
    record = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    found = {name: {"config.json": json.dumps(it).encode()} for name, it in changed_settings(record)}
    weights = load_model_folder(folder).weights
    found |= {name: model_files(weights=it) for name, it in changed_tensors(weights)}
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        whole = (folder / name).read_bytes()
        for content in (b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, whole[: len(whole) // 2], whole[:-1]):
            found[f"{name} is {content[:5]!r}, {len(content)} bytes"] = {name: content}
    return found


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory, folders: dict[str, Path]) -> Iterator[Callable[..., Done]]:
    """`ask("translate", folder, "text")` runs a command in a fork."""
    warm = [json.dumps(words) for kind, it in folders.items() for words in commands(kind, it) if "ct2" not in words]
    cache = tmp_path_factory.mktemp("cache")  # for conversions; the machine code of the user's cache is used
    (cache / "clearhead").mkdir()
    prepare()
    folder = machine_code_file().parent
    (cache / "clearhead" / folder.name).symlink_to(folder)
    names = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "XDG_CACHE_HOME": str(cache)}
    environment = {**os.environ, **names}
    command = [sys.executable, Path(__file__).with_name("forking_child.py"), *warm]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as child:
        assert child.stdin is not None and child.stdout is not None

        def asked(*words: object) -> Done:
            print(json.dumps([str(it) for it in words]), file=child.stdin, flush=True)
            return Done(*json.loads(child.stdout.readline()))

        yield asked
        child.stdin.close()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small model folder of each topology, by the verb that uses it."""
    from tests.builders import make_encoder_folder, make_model_folder

    from ..go.conftest import make_folder

    decoder = {"model.topology": "decoder-only", "train.task": "generate", "data.tokenizer": "character"}
    path = tmp_path_factory.mktemp("fuzzed")
    return {
        "translate": make_model_folder(path / "translate", tokenizer="bpe"),
        "generate": make_folder(path / "generate", {**decoder, "model.positions": "relative", "decode.max_len": 6}),
        "fill": make_encoder_folder(path / "fill", task="fill", tokenizer="bpe"),
        "embed": make_encoder_folder(path / "embed", task="embed", tokenizer="word"),
    }


def commands(kind: str, folder: Path) -> list[Words]:
    engines = ENGINES if kind in ("translate", "generate") else ()
    text = "We are [MASK]." if kind == "fill" else "We are here."
    return [[kind, str(folder), text, *more] for more in ([["--engine", it] for it in engines] or [[]])]


def problems(kind: str, source: Path, files: dict[str, bytes], ask: Callable[..., Done], work: Path) -> list[str]:
    """Return what is wrong with the answers about a folder with these files."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work)
    save_files(work, files)
    found = {words[-1]: ask(*words) for words in commands(kind, work)}
    info = ask("info", work)
    first = next(iter(found.values()))
    wrong = [f"{name}: {it}" for name, it in {**found, "info": info}.items() if not it.is_clear]
    wrong += [f"{it} instead of {first}" for it in found.values() if it.code == 0 and it.out != first.out]
    if first.code and "config.json" not in files and not info.code:
        wrong.append(f"info says nothing of {first.err}")
    return wrong


@pytest.mark.parametrize("kind", ["translate", "generate", "fill", "embed"])
@pytest.mark.parametrize("amount", [SAMPLE, pytest.param(None, marks=pytest.mark.slow)], ids=["sample", "all"])
def test_a_changed_folder_is_an_error_or_has_the_answer_of_torch(
    kind: str, amount: int | None, folders: dict[str, Path], ask: Callable[..., Done], tmp_path: Path
) -> None:
    every = cases(folders[kind])
    wrong = {}
    for name in random.Random(0).sample(list(every), amount or len(every)):
        if it := problems(kind, folders[kind], every[name], ask, tmp_path / "model"):
            wrong[name] = it
            print(name, it, flush=True)
    assert wrong == {}
