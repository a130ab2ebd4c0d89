import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest


def test_no_model_is_a_usage_error(run) -> None:
    done = run("serve")
    assert done.code == 2 and "no model folder is given" in done.err


def test_a_missing_library_is_named_with_how_to_install_it(run, model_folder, monkeypatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else find(name))
    done = run("serve", model_folder)
    assert done.code == 2 and "pip install starlette uvicorn " in done.err and "needs uvicorn" in done.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--port", "x"], "--port x"),
        (["--port", "70000"], "70000"),
        (["--max-queue", "0"], "--max-queue 0"),
        (["--languages", "english"], "english"),
        (["--api-key-file", "missing.txt"], "missing.txt"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
    ],
)
def test_options_that_cannot_be_used_are_named(run, model_folder, arguments, word) -> None:
    done = run("serve", model_folder, *arguments)
    assert done.code == 2 and word in done.err


def test_a_file_without_keys_is_an_error(run, model_folder, tmp_path) -> None:
    (tmp_path / "keys").write_text("\n \n")
    assert run("serve", model_folder, "--api-key-file", tmp_path / "keys").code == 2


def test_an_adapter_must_belong_to_a_served_model(run, model_folder, word_model_folder) -> None:
    done = run("serve", model_folder, "--adapter", word_model_folder)
    assert done.code == 1 and "isn't an adapter" in done.err


def test_names_must_differ_and_be_names(run, model_folder) -> None:
    assert "two models are named 'a'" in run("serve", f"a={model_folder}", f"a={model_folder}").err
    assert "'a b'" in run("serve", f"a b={model_folder}").err


def test_a_port_in_use_is_an_error(run, model_folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", model_folder, "--port", port, "--engine", "torch")
    assert done.code == 2 and f"port {port}" in done.err


def test_the_fastest_engine_is_prepared_before_the_first_request(run, model_folder, monkeypatch) -> None:
    prepared = []
    monkeypatch.setattr("clearhead.decode.registry.prepare", lambda handle, decode: prepared.append(decode.engine))
    monkeypatch.setattr(
        "clearhead.serving.server.serve", lambda shelf, *_, **__: prepared.append(shelf) or shelf.load()
    )
    assert run("serve", model_folder).code == 0
    shelf, engine = prepared  # the server listens while the engine is prepared
    assert engine == "auto" and shelf.models
    shelf.close()


def test_what_is_no_model_is_an_error_before_anything_is_served(run, tmp_path) -> None:
    assert run("serve", tmp_path).code == 1


@pytest.fixture(scope="module")
def process(model_folder: Path):
    """`clearhead serve` in its own process, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "clearhead", "serve", f"en-fr={model_folder}", "--port", str(port)]
    command += ["--engine", "torch"]  # needs no compilation
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as started:
        yield started, f"http://127.0.0.1:{port}"
        started.kill()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_it_serves_reloads_at_sighup_and_ends_with_0_at_sigterm(process) -> None:
    started, url = process
    deadline = time.monotonic() + 120
    while status(f"{url}/readyz") != 200:
        assert time.monotonic() < deadline and started.poll() is None
        time.sleep(0.05)
    assert status(f"{url}/livez") == 200
    started.send_signal(signal.SIGHUP)
    for line in started.stderr:
        if line.startswith("reloaded en-fr"):
            break
    assert status(f"{url}/readyz") == 200
    started.send_signal(signal.SIGTERM)
    assert started.wait(60) == 0
    assert "finishing the requests in flight" in started.stderr.read()
    assert status(f"{url}/readyz") == 0
