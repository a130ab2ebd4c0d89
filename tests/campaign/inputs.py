"""Hostile inputs: files, options, calls, folders, checkpoints, and flipped bits."""

import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from .kills import contents, run_to_its_end
from .models import data_files, train_options
from .trials import ODD, ODD_VALUES, PATIENCE, InProcess, WrongError, call, ended, mutated, spawned

_TEXT = "one two three"


class Files(InProcess):
    """Data files of every form, changed in some places."""

    name, weight = "data-files", 4.0

    def prepare(self, folder: Path) -> str:
        super().prepare(folder)
        self.files = data_files(folder / "data")
        return ""

    def trial(self, rng: random.Random, room: Path) -> None:
        form = rng.choice(list(self.files))
        paths = [_copied(it, room) for it in self.files[form]]
        chosen = rng.choice(paths)
        if chosen.is_dir():
            chosen = rng.choice([it for it in chosen.rglob("*") if it.is_file()])
        chosen.write_bytes(mutated(chosen.read_bytes(), rng))
        if form == "transcribe":
            shutil.copytree(self.files["hear"][0], room / "sounds")
        task = [f"--task={form}"] if form in ("translate", "generate", "classify") and rng.random() < 0.2 else []
        call("train", *paths, "--dry-run", *task).checked()


def _copied(path: Path, room: Path) -> Path:
    return Path(shutil.copytree(path, room / path.name) if path.is_dir() else shutil.copy(path, room))


class Lines(InProcess):
    """Input lines of a translation."""

    name, weight = "input-lines", 2.0

    def prepare(self, folder: Path) -> str:
        super().prepare(folder)
        self.model = trained("translate", folder)
        return ""

    def trial(self, rng: random.Random, room: Path) -> None:
        text = b"one two\nthree four five\n\neight\n"
        options = rng.sample(["--json", "--beam=1", "--n-best=2", "--max-len=5", "--alpha=0", "--engine=loops"], 2)
        called = call("translate", self.model, *options, stdin=mutated(text, rng)).checked()
        if called.code == 0 and b"\x1b" in called.out and "--json" in options:
            raise WrongError("JSON with a control character")


class Options(InProcess):
    """Options and settings with odd values."""

    name, weight = "options", 4.0

    def prepare(self, folder: Path) -> str:
        super().prepare(folder)
        self.model = trained("translate", folder)
        self.data = data_files(folder / "data")["translate"][0]
        self.commands: dict[str, list[str]] = {
            "train": [str(self.data), "--dry-run"],
            "translate": [str(self.model), _TEXT],
            "evaluate": [str(self.model), "--data", str(self.data)],
            "info": [str(self.model)],
            "explain": [str(self.model), _TEXT],
            "score": [str(self.model), str(self.data)],
            "export": [str(self.model), "--to", "page"],
            "env": [],
        }
        self.options = {verb: _options_of(verb) for verb in self.commands}
        return ""

    def trial(self, rng: random.Random, room: Path) -> None:
        verb = rng.choice(["train"] * 4 + list(self.commands))
        chosen = [f"{rng.choice(self.options[verb])}={rng.choice(ODD)}" for _ in range(rng.choice((1, 1, 2)))]
        more = ["--print-config"] if verb == "train" and rng.random() < 0.3 else []
        call(verb, *self.commands[verb], *chosen, *more).checked()


def _options_of(verb: str) -> list[str]:
    """Return the options that a command shows. Those that name devices, and several processes, are left out."""
    shown = call(verb, "--help-all").out.decode()
    options = set(re.findall(r"--[a-z][a-z0-9_.-]+", shown))
    return sorted(
        options - {"--help", "--help-all", "--debug", "--workers", "--processes", "--threads", "--train.threads"}
    )


class Toml(InProcess):
    """Files with settings, changed in some places."""

    name, weight = "config-files", 1.0

    def prepare(self, folder: Path) -> str:
        super().prepare(folder)
        self.data = data_files(folder / "data")["translate"][0]
        self.toml = call("train", self.data, "--print-config").out
        return ""

    def trial(self, rng: random.Random, room: Path) -> None:
        (room / "a.toml").write_bytes(mutated(self.toml, rng))
        call("train", self.data, "--dry-run", "--config=a.toml").checked()


class Calls(InProcess):
    """Calls from Python with odd values."""

    name, weight = "python-calls", 2.0

    def prepare(self, folder: Path) -> str:
        super().prepare(folder)
        self.model = trained("translate", folder)
        return ""

    def trial(self, rng: random.Random, room: Path) -> None:
        import clearhead
        from clearhead.config.config import settings
        from clearhead.errors import ClearheadError

        odd: Callable[[], Any] = lambda: rng.choice(ODD_VALUES)  # noqa: E731
        app = clearhead.load(self.model)
        name = rng.choice(list(settings()))
        section, field = name.split(".")
        calls: list[Callable[[], Any]] = [
            lambda: clearhead.load(odd()),
            lambda: clearhead.load(self.model, device=odd()),
            lambda: clearhead.load(self.model, threads=odd()),
            lambda: app(odd()),
            lambda: app([_TEXT, odd()]),
            lambda: app.results(odd()),
            lambda: app.explain(odd()),
            lambda: app.evaluate(odd()),
            lambda: clearhead.Config().override({name: odd()}),
            lambda: clearhead.Config().override(odd()),
            lambda: getattr(clearhead, f"{section.title()}Config")(**{field: odd()}),
            lambda: clearhead.build(odd()),
            lambda: clearhead.train(odd(), room / "out", say=lambda _: None),
            lambda: clearhead.train(clearhead.Config(), odd(), say=lambda _: None),
        ]
        try:
            rng.choice(calls)()
        except ClearheadError as error:
            if not error.what:
                raise WrongError(f"{error!r} doesn't say what is wrong") from error


# --- folders


def trained(run: str, folder: Path) -> Path:
    """Train a small model, or return the one that there is."""
    out = folder / f"model-{run}"
    if not (out / "model.safetensors").exists():
        shutil.rmtree(out, ignore_errors=True)
        arguments = train_options(run, data_files(folder / "data"))
        run_to_its_end([*arguments, "--out", str(out)], folder / f"{run}.log")
    if run != "classify":  # compile the engine `loops` once, so that no trial waits for it
        run_to_its_end([run, str(out), _TEXT, "--engine=loops", "--max-len=5"], folder / f"{run}.log", seconds=600)
    return out


def signed(folder: Path) -> None:
    """Write the digests that the files now have."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    _update(manifest, folder)
    path.write_text(json.dumps(manifest))


def _update(node: Any, folder: Path) -> None:
    """Replace the digest of each file that a manifest names."""
    if isinstance(node, dict):
        for name, value in node.items():
            if isinstance(name, str) and (folder / name).is_file() and isinstance(value, str) and len(value) == 64:
                node[name] = sha256((folder / name).read_bytes()).hexdigest()
            else:
                _update(value, folder)


class Flips(InProcess):
    """One flipped bit in a file of a model folder: an error, or the answer of the whole folder."""

    name, counts, weight = "flipped-bits", "flipped bits", 6.0

    def prepare(self, folder: Path) -> str:
        super().prepare(folder)
        self.models = {run: trained(run, folder) for run in ("translate", "classify", "generate")}
        self.arguments = {
            "translate": [[_TEXT, "--engine=torch"], [_TEXT, "--engine=loops"]],
            "classify": [[_TEXT]],
            "generate": [[_TEXT, "--max-len=5", "--engine=torch"], [_TEXT, "--max-len=5", "--engine=loops"]],
        }
        self.expected = {
            run: [call(run, self.models[run], *options).checked() for options in each]
            for run, each in self.arguments.items()
        }
        return ""

    def trial(self, rng: random.Random, room: Path) -> None:
        run = rng.choice(list(self.models))
        folder = shutil.copytree(self.models[run], room / "model")
        path = rng.choice([it for it in sorted(folder.rglob("*")) if it.is_file() and it.stat().st_size])
        content = bytearray(path.read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        which = rng.randrange(len(self.arguments[run]))
        called = call(run, folder, *self.arguments[run][which]).checked()
        if called.code == 0 and called.out != self.expected[run][which].out:
            raise WrongError(f"{path.relative_to(folder)} is damaged, and another answer is given: {called.out!r}")
        if rng.random() < 0.2:
            call("info", folder).checked()


class Folders(InProcess):
    """Model folders with other settings, tokens or weights, whose digests fit: an error or any answer."""

    name, weight = "folders", 4.0

    def prepare(self, folder: Path) -> str:
        super().prepare(folder)
        self.models = {run: trained(run, folder) for run in ("translate", "classify", "generate")}
        return ""

    def trial(self, rng: random.Random, room: Path) -> None:
        run = rng.choice(list(self.models))
        folder = shutil.copytree(self.models[run], room / "model")
        path = folder / rng.choice(
            ("config.json", "config.json", "tokenizer.json", "model.safetensors", "manifest.json")
        )
        if path.suffix == ".json" and rng.random() < 0.7:
            document = json.loads(path.read_bytes())
            _change(document, rng)
            path.write_text(json.dumps(document))
        else:
            path.write_bytes(mutated(path.read_bytes(), rng))
        if path.name != "manifest.json":
            signed(folder)
        engine = f"--engine={rng.choice(('torch', 'loops', 'auto'))}"
        options = [] if run == "classify" else [engine, "--max-len=5"]
        call(run, folder, _TEXT, *options).checked()
        if rng.random() < 0.3:
            call(rng.choice(("info", "verify")), folder).checked()


_JSON: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2,
    7,
    64,
    10**9,
    1e400,
    0.5,
    "",
    "a",
    "none",
    "linear",
    [],
    [1],
    {},
    {"a": 1},
)


def _change(document: Any, rng: random.Random) -> None:
    """Replace, remove or add one value somewhere in a JSON document."""
    places = list[tuple[Any, Any]]()

    def collect(node: Any) -> None:
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            places.append((node, key))
            if isinstance(value, dict | list):
                collect(value)

    collect(document)
    if not places:
        return
    node, key = rng.choice(places)
    if rng.random() < 0.25:
        del node[key]
    else:
        node[key] = rng.choice(_JSON)


class Checkpoints(InProcess):
    """Damaged files of an unfinished run: --resume ends with an error, or with the weights of an undisturbed run."""

    name, weight = "checkpoints", 2.0

    def prepare(self, folder: Path) -> str:
        super().prepare(folder)
        self.arguments = train_options("translate", data_files(folder / "data"))
        for name in ("whole", "unfinished"):
            shutil.rmtree(folder / name, ignore_errors=True)
        run_to_its_end([*self.arguments, "--out", str(folder / "whole")], folder / "whole.log")
        self.expected = contents(folder / "whole")["model.safetensors"]
        return _unfinished(self.arguments, folder / "unfinished")

    def trial(self, rng: random.Random, room: Path) -> None:
        folder = shutil.copytree(self.folder / "unfinished", room / "run")
        for _ in range(rng.choice((1, 1, 2))):
            path = rng.choice([it for it in sorted(folder.rglob("*")) if it.is_file()])
            match rng.randrange(4):
                case 0:
                    path.unlink()
                case 1:
                    path.write_bytes(b"")
                case _:
                    path.write_bytes(mutated(path.read_bytes(), rng))
        called = call(*self.arguments, "--out", folder, "--resume").checked()
        if called.code == 0 and contents(folder)["model.safetensors"] != self.expected:
            raise WrongError(f"resumed from damaged files to other weights: {called.err[-600:]}")


def _unfinished(arguments: list[str], out: Path) -> str:
    """Run a training until it has a checkpoint, then kill it."""
    for _ in range(20):
        shutil.rmtree(out, ignore_errors=True)
        child = spawned([*arguments, "--out", str(out)], out.with_suffix(".log"))
        end = time.monotonic() + PATIENCE
        while not list((out / "checkpoints").glob("[!.]*/*")) and time.monotonic() < end:
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        if ended(child, PATIENCE) == -signal.SIGKILL:
            return ""
    return "the run was always finished before it could be killed"
