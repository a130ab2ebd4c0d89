"""`clearhead train --processes N`, and two machines."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from clearhead.cli.entry import main
from clearhead.training.distributed import processes
from clearhead.training.distributed.processes import LAUNCHER, EndedElsewhereError
from tests.training.distributed.test_processes import losses

OPTIONS = ["--steps", "6", "--preset", "nano", "--model.d_model", "16", "--model.d_ff", "16", "--model.n_heads", "2"]
OPTIONS += ["--data.batch_tokens", "64", "--data.max_len", "12", "--data.tokenizer", "word", "--train.log_every", "1"]


def test_one_option_starts_several_processes(toy) -> None:
    pairs, out = str(toy.pairs()), toy.folder / "run"
    command = [sys.executable, "-m", "clearhead", "train", pairs, "--out", str(out), "--processes", "2", *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(losses(out)) == 6
    assert "Warning" not in done.stderr and done.stderr.count("use it:") == 1


@pytest.mark.parametrize(("script", "code"), [("raise SystemExit(3)", 3), ("import os; os.abort()", 1)])
def test_the_command_ends_with_the_exit_code_of_a_process_that_failed(
    script: str, code: int, monkeypatch, capsys
) -> None:
    for name in ("OMP_NUM_THREADS", "TORCH_CPP_LOG_LEVEL", LAUNCHER):  # which it sets
        monkeypatch.setenv(name, os.environ.get(name, "ERROR"))
    monkeypatch.setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", "")  # it would keep their handlers
    with pytest.raises(EndedElsewhereError) as caught:
        processes._start(2, sys.executable, "-c", script)
    logging.disable(logging.NOTSET)
    assert caught.value.exit_code == code
    said = capsys.readouterr().err
    assert "Traceback" not in said and ("was ended by SIGABRT" in said) == ("abort" in script)


def test_a_number_that_makes_no_sense_is_an_error(toy, capsys) -> None:
    assert main(["train", str(toy.pairs()), "--out", str(toy.folder / "run"), "--processes", "0"]) == 2
    assert "--processes" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("shard", ["none", "full"])
def test_processes_save_a_checkpoint_and_end_when_the_one_that_started_them_is_killed(toy, shard: str) -> None:
    files = [sys.executable, "-m", "clearhead", "train", str(toy.pairs()), "--processes", "2"]
    command = [*files, *OPTIONS[2:], "--train.shard", shard, "--steps", "120", "--train.save_every", "120"]
    command += ["--train.eval_every", "120"]
    whole, out = toy.folder / "whole", toy.folder / "run"
    subprocess.run([*command, "--out", str(whole)], check=True, capture_output=True)
    with subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.PIPE) as run:
        while not (out / "metrics.jsonl").exists() or len(losses(out)) < 10:
            assert run.poll() is None
            time.sleep(0.01)
        run.kill()
        assert run.stderr is not None
        run.stderr.read()  # ends when the last process has ended
    [saved] = (out / "checkpoints").iterdir()
    assert saved.name != "step-00000120" and not any(out.glob("**/.*.partial"))
    subprocess.run([*files, "--out", str(out), "--resume"], check=True, capture_output=True)
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("shard", ["none", "full"])
def test_two_machines_train_together_and_start_again_after_a_process_died(toy, shard: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out, options = toy.folder / "run", ["--train.steps", "400", "--train.save_every", "20", *OPTIONS[2:]]
    options += ["--train.shard", shard]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    command += ["--max-restarts", "4", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    command += ["-m", "clearhead", "train", str(toy.pairs()), "--out", str(out), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    agents = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    checkpoints = out / "checkpoints"
    while not (checkpoints.exists() and any(checkpoints.glob("step-*"))):
        assert agents[0].poll() is None
    subprocess.run(["pkill", "-KILL", "-P", str(agents[1].pid)], check=True)
    errors = [it.communicate(timeout=300)[1] for it in agents]
    assert [it.returncode for it in agents] == [0, 0], errors
    assert any("resuming" in it for it in errors)
    assert len(losses(out)) == 400
