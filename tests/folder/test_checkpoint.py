"""A run loses nothing that it has saved."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.config import Config
from clearhead.errors import ModelError, TrainingError
from clearhead.folder.checkpoint import Checkpoint, RunFolder, read_checkpoint
from clearhead.folder.manifest import replace_files, write_folder_with_manifest
from clearhead.folder.model_folder import load_model_folder, model_files
from tests.builders import damage

pytestmark = pytest.mark.usefixtures("weights_of_any_module")
STATE = {"position": [3, 120], "best": 31.4, "loss": 1 / 3, "worst": float("-inf"), "words": "déjà", "none": None}
RUN = model_files(config={"model": {}}, tokenizer="{}", weights={"w": torch.ones(2)})


def tensors(step: int) -> dict[str, dict[str, torch.Tensor]]:
    return {
        "model": {"w": torch.full((5,), float(step))},
        "optimizer": {"mean": torch.randn(5), "step": torch.tensor(step)},
    }


def quiet(message: str) -> None:
    raise AssertionError(message)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    """A run that has saved its settings and a model."""
    with RunFolder.create(tmp_path / "run", say=quiet) as run:
        run.write_files(RUN)
        yield run


def reopen(run: RunFolder, say: Callable[[str], None] = quiet) -> RunFolder:
    """As a later process finds the folder."""
    run.close()
    return RunFolder.create(run.path, resume=True, say=say)


# --- the folder


def test_a_new_and_an_empty_folder_are_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".gitkeep").touch()
    for name in ("deep/new", "empty"):
        with RunFolder.create(tmp_path / name, say=quiet) as run:
            assert run.path.is_dir() and run.latest_checkpoint() is None and run.finished_step is None


def test_a_folder_that_was_made_and_got_nothing_is_gone_again_and_one_of_the_user_s_is_not(tmp_path: Path) -> None:
    with pytest.raises(KeyError), RunFolder.create(tmp_path / "run"):
        raise KeyError
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    RunFolder.create(tmp_path / "mine").close()
    assert (tmp_path / "mine").exists()


def test_an_occupied_folder_is_refused_without_resume(run: RunFolder) -> None:
    run.close()
    with pytest.raises(TrainingError, match="already contains a model, or a run without a checkpoint") as caught:
        RunFolder.create(run.path)
    assert caught.value.value == run.path and "resume=True" in caught.value.fix
    with reopen(run) as again:
        again.save_checkpoint(Checkpoint(40, tensors(40), STATE))
    with pytest.raises(TrainingError, match="a run whose newest checkpoint is from step 40"):
        RunFolder.create(run.path)
    assert not (run.path / ".lock").exists()


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_of_other_things_is_refused_and_left_alone(tmp_path: Path, resume: bool) -> None:
    for name in "gfedcba":
        (tmp_path / name).touch()
    (tmp_path / "config.json").write_text('{"name": "of another program"}')
    (tmp_path / "manifest.json").write_text("<xml>")
    with pytest.raises(TrainingError, match=r"a, b, c, config\.json, d and 4 more") as caught:
        RunFolder.create(tmp_path, resume=resume)
    assert caught.value.value == tmp_path and "`out`" in caught.value.fix
    assert len(list(tmp_path.iterdir())) == 9


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="is a file") as caught:
        RunFolder.create(tmp_path / "file")
    assert caught.value.expected == "a folder" and "`out`" in caught.value.fix


def test_a_folder_with_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(TrainingError) as caught:
        RunFolder.create(tmp_path)
    assert caught.value.value == tmp_path


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_in_use_is_refused(run: RunFolder, resume: bool) -> None:
    with pytest.raises(TrainingError, match=rf"in use by another run \(process {os.getpid()} "):
        RunFolder.create(run.path, resume=resume)


def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path, fail_from, read_only) -> None:
    with pytest.raises(TrainingError, match="Read-only file system"), fail_from(1, read_only):
        RunFolder.create(tmp_path / "run")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind the administrator")
def test_a_folder_without_write_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(TrainingError, match="Permission denied"):
        RunFolder.create(tmp_path)
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("exists", [False, True])
def test_resume_without_a_run_starts_afresh_and_says_so_once(tmp_path: Path, said: list[str], exists: bool) -> None:
    if exists:
        (tmp_path / "run").mkdir()
    with RunFolder.create(tmp_path / "run", resume=True, say=said.append) as run:
        assert run.latest_checkpoint() is None
    assert len(said) == 1 and "nothing to resume" in said[0]


def test_resume_without_a_complete_checkpoint_starts_afresh_and_says_so(run: RunFolder, said: list[str]) -> None:
    with reopen(run, said.append) as again:
        assert again.latest_checkpoint() is None
    assert len(said) == 1 and "no complete checkpoint" in said[0]


def test_without_say_messages_go_to_stderr(tmp_path: Path, capsys) -> None:
    RunFolder.create(tmp_path / "run", resume=True).close()
    out, err = capsys.readouterr()
    assert out == "" and "nothing to resume" in err


def test_leftovers_of_a_killed_run_are_removed_at_the_next_start(run: RunFolder) -> None:
    run.save_checkpoint(Checkpoint(40, tensors(40), STATE))
    for name in (".model.safetensors.partial", "checkpoints/.step-00000080.partial"):
        (run.path / name).touch()
    with reopen(run) as again:
        assert not list(again.path.rglob(".*.partial"))


def test_a_folder_that_cannot_be_looked_at_is_said(tmp_path: Path, monkeypatch) -> None:
    def denied(_) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "exists", denied)
    with pytest.raises(TrainingError, match="Permission denied"):
        RunFolder.create(tmp_path / "run")


# --- replacing a run


def test_a_run_is_replaced_where_that_is_asked_and_other_files_stay(run: RunFolder) -> None:
    run.save_checkpoint(Checkpoint(40, tensors(40), STATE))
    (run.path / "metrics.jsonl").write_text("{}")
    for name in ("my notes.txt", "loss.png", "confusion.png"):
        (run.path / name).touch()
    run.finish(40)
    run.close()
    with RunFolder.create(run.path, replace=True, say=quiet) as new:
        assert new.latest_checkpoint().step == 40  # until another begins, it is the best that there is
        new.begin({})
        visible = sorted(path.name for path in new.path.rglob("*") if path.name != ".lock")
        assert visible == ["checkpoints", "manifest.json", "my notes.txt"]
        assert new.latest_checkpoint() is None and new.finished_step is None


def test_a_new_folder_needs_no_replacing(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", replace=True, say=quiet) as run:
        assert run.latest_checkpoint() is None


def test_a_folder_of_other_things_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(TrainingError, match=r"photo\.jpg"):
        RunFolder.create(tmp_path, replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_replacing_removes_nothing_outside_whatever_the_manifest_names(tmp_path: Path) -> None:
    (tmp_path / "outside").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text('{"format_version": 1, "files": {"../outside": "", "inside": ""}}')
    RunFolder.create(tmp_path / "run", replace=True, say=quiet).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "run"]


def test_a_run_with_a_damaged_manifest_can_be_replaced(run: RunFolder) -> None:
    run.close()
    (run.path / "manifest.json").write_text("{")
    with RunFolder.create(run.path, replace=True, say=quiet) as new:
        new.begin(RUN)
    assert load_model_folder(run.path).config == Config()


def test_a_replacement_that_is_killed_at_any_call_can_be_repeated(run: RunFolder, crash_points) -> None:
    run.save_checkpoint(Checkpoint(40, tensors(40), STATE))
    run.close()

    def replace() -> None:
        with RunFolder.create(run.path, replace=True, say=quiet) as new:
            new.begin({})

    crashes = list(crash_points(replace))
    assert len(crashes) > 5
    assert sorted(path.name for path in run.path.iterdir()) == ["checkpoints", "manifest.json"]


# --- finished runs


def test_a_finished_run_is_recognised_and_not_changed(run: RunFolder) -> None:
    run.save_checkpoint(Checkpoint(300, tensors(300), STATE))
    run.finish(300)
    run.close()
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in run.path.rglob("*") if path.is_file()}
    with reopen(run) as again:
        assert again.finished_step == 300
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in run.path.rglob("*") if path.is_file()}
    assert after == before


def test_a_finished_run_that_goes_on_is_not_finished(run: RunFolder) -> None:
    run.finish(300)
    run.save_checkpoint(Checkpoint(340, tensors(340), STATE))
    assert run.finished_step is None


def test_a_finished_model_without_checkpoints_is_not_overwritten(run: RunFolder) -> None:
    run.finish(300)
    with (
        reopen(run) as again,
        pytest.raises(TrainingError, match="finished at step 300, but no checkpoint"),
    ):
        again.latest_checkpoint()


def test_the_tokens_of_a_complete_run_are_gone_wherever_it_was_killed(run: RunFolder, crash_points) -> None:
    run.tokens.mkdir()
    (run.tokens / "header.json").touch()
    for _ in crash_points(lambda: run.finish(300)):
        assert run.finished_step is None or not run.tokens.exists()
    assert run.finished_step == 300 and not run.tokens.exists()


# --- the best weights


def test_what_is_known_of_the_weights_is_of_those_that_are_there_wherever_keeping_them_was_killed(
    run: RunFolder, crash_points
) -> None:
    run.keep({"w": torch.full((2,), 1.0)}, {"best": 1.0})
    now, seen = [run], set()
    for best in (2.0, 3.0):
        for _ in crash_points(lambda best=best: now[0].keep({"w": torch.full((2,), best)}, {"best": best})):
            now[0] = reopen(now[0])
            there = float(load_model_folder(run.path).weights["w"][0])
            assert now[0].kept() == {"best": there}
            seen.add(there)
    assert seen == {1.0, 2.0, 3.0}
    now[0].close()


def test_nothing_is_known_of_weights_that_are_not_there_or_were_written_by_others(run: RunFolder) -> None:
    assert run.kept() == {}
    run.keep({"w": torch.zeros(2)}, {"best": 1.0})
    assert run.kept() == {"best": 1.0}
    run.write_files(model_files(weights={"w": torch.ones(2)}))
    assert run.kept() == {}
    (run.path / "model.safetensors").unlink()
    assert run.kept() == {}


def test_what_is_known_of_the_weights_goes_with_the_run(run: RunFolder) -> None:
    run.keep({"w": torch.zeros(2)}, {"best": 1.0})
    run.begin(RUN)
    assert run.kept() == {} and not (run.path / ".kept.json").exists()
    run.keep({"w": torch.zeros(2)}, {"best": 1.0})
    run.finish(300)
    assert sorted(path.name for path in run.path.iterdir() if path.name.startswith(".")) == [".lock"]


# --- checkpoints


def test_a_checkpoint_comes_back_bit_by_bit(run: RunFolder) -> None:
    given = tensors(7)
    run.save_checkpoint(Checkpoint(7, given, STATE))
    found = run.latest_checkpoint()
    assert found and (found.step, found.state) == (7, STATE)
    assert {group: named.keys() for group, named in found.tensors.items()} == {g: n.keys() for g, n in given.items()}
    for group, named in given.items():
        for name, tensor in named.items():
            assert torch.equal(found.tensors[group][name], tensor) and found.tensors[group][name].dtype == tensor.dtype


def test_the_newest_checkpoint_is_found(run: RunFolder) -> None:
    for step in (40, 100_000_000, 80):  # by number, not by name or by time
        run.save_checkpoint(Checkpoint(step, tensors(step), STATE))
    (run.path / "checkpoints" / "step-notes").mkdir()
    found = run.latest_checkpoint()
    assert found and found.step == 100_000_000


def test_a_checkpoint_of_the_same_step_is_replaced(run: RunFolder) -> None:
    for best in (1.0, 2.0):
        run.save_checkpoint(Checkpoint(40, tensors(40), {"best": best}))
    found = run.latest_checkpoint()
    assert found and found.state == {"best": 2.0}


def test_a_save_that_is_killed_at_any_call_loses_no_earlier_checkpoint(run: RunFolder, crash_points) -> None:
    run.save_checkpoint(Checkpoint(40, tensors(40), STATE))
    seen, now = set(), [run]
    for _ in crash_points(lambda: now[0].save_checkpoint(Checkpoint(80, tensors(80), STATE))):
        now[0] = run = reopen(now[0])
        found = run.latest_checkpoint()
        assert found and torch.equal(found.tensors["model"]["w"], tensors(found.step)["model"]["w"])
        seen.add(found.step)
        run.prune(1)
        if found.step == 80:
            run.save_checkpoint(Checkpoint(40, tensors(40), STATE))
            read_checkpoint(run.path / "checkpoints" / "step-00000080")
            for path in (run.path / "checkpoints" / "step-00000080").iterdir():
                path.unlink()
            (run.path / "checkpoints" / "step-00000080").rmdir()
    assert seen == {40, 80}
    now[0].close()


@pytest.mark.parametrize("number", range(1, 9))
def test_a_full_disk_loses_no_earlier_checkpoint_and_leaves_no_half_one(
    run: RunFolder, fail_from, disk_full, number: int
) -> None:
    run.save_checkpoint(Checkpoint(40, tensors(40), STATE))
    with pytest.raises(TrainingError, match="No space left on device"), fail_from(number, disk_full):
        run.save_checkpoint(Checkpoint(80, tensors(80), STATE))
    again = reopen(run)
    found = again.latest_checkpoint()
    assert found and found.step in (40, 80)
    assert (found.step == 80) == (again.path / "checkpoints" / "step-00000080").exists()
    assert load_model_folder(again.path).config == Config()
    again.close()


def test_a_really_full_disk_leaves_no_half_checkpoint(run: RunFolder, monkeypatch) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    real = Path.open

    def open_full(path: Path, *arguments, **named):
        return real(full if path.name == "optimizer.safetensors" else path, *arguments, **named)

    run.save_checkpoint(Checkpoint(40, tensors(40), STATE))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_full)
        with pytest.raises(TrainingError, match="No space left on device"):
            run.save_checkpoint(Checkpoint(80, tensors(80), STATE))
    assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["step-00000040"]
    assert (found := run.latest_checkpoint()) and found.step == 40


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("way", ["damaged", "missing"])
def test_a_damaged_newest_checkpoint_is_said_and_the_one_before_is_used(
    run: RunFolder, said: list[str], name: str, way: str
) -> None:
    for step in (40, 80):
        run.save_checkpoint(Checkpoint(step, tensors(step), STATE))
    path = run.path / "checkpoints" / "step-00000080" / name
    path.unlink() if way == "missing" else path.write_bytes(path.read_bytes()[:-9])
    with reopen(run, said.append) as again:
        found = again.latest_checkpoint()
        assert found and found.step == 40
        (message,) = said
        assert "damaged checkpoint" in message and str(path) in message
        again.save_checkpoint(Checkpoint(80, tensors(80), STATE))  # the run comes by again, and repairs it
        assert (found := again.latest_checkpoint()) and found.step == 80 and len(said) == 1


@pytest.mark.parametrize("content", [{}, {"step": "80", "state": {}}, {"step": 80}, {"step": 80, "state": []}])
def test_a_checkpoint_with_a_strange_state_is_said_and_skipped_though_its_digest_is_right(
    run: RunFolder, said: list[str], content: dict[str, Any]
) -> None:
    for step in (40, 80):
        run.save_checkpoint(Checkpoint(step, tensors(step), STATE))
    newest = run.path / "checkpoints" / "step-00000080"
    replace_files(newest, {"state.json": json.dumps(content).encode()})
    with reopen(run, said.append) as again:
        found = again.latest_checkpoint()
    assert found and found.step == 40
    (message,) = said
    assert "damaged checkpoint" in message and str(newest / "state.json") in message


def test_strange_metadata_of_the_kept_weights_are_ignored(run: RunFolder) -> None:
    run.keep({"w": torch.zeros(2)}, {"best": 1.0})
    path = run.path / ".kept.json"
    path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), 3)))
    assert run.kept() == {}


def test_with_every_checkpoint_damaged_training_starts_afresh_and_says_why(run: RunFolder, said: list[str]) -> None:
    for step in (40, 80):
        damage(run.save_checkpoint(Checkpoint(step, tensors(step), STATE)) / "model.safetensors")
    with reopen(run, said.append) as again:
        assert again.latest_checkpoint() is None
    assert ["damaged checkpoint" in message for message in said] == [True, True, False]
    assert "no complete checkpoint" in said[2]


def test_a_folder_without_a_state_is_no_checkpoint(tmp_path: Path) -> None:
    write_folder_with_manifest(tmp_path / "folder", [("model.safetensors", b"")])
    with pytest.raises(ModelError) as caught:
        read_checkpoint(tmp_path / "folder")
    assert caught.value.name == "state.json"


def test_only_the_newest_are_kept(run: RunFolder) -> None:
    for step in (40, 80, 120, 160):
        run.save_checkpoint(Checkpoint(step, tensors(step), STATE))
        run.prune(2)
    assert sorted(path.name for path in (run.path / "checkpoints").iterdir()) == ["step-00000120", "step-00000160"]


def test_of_steps_that_are_not_wanted_only_the_newest_is_kept(run: RunFolder) -> None:
    left = []
    for step in (40, 50, 80, 90, 120, 130, 140):
        run.save_checkpoint(Checkpoint(step, tensors(step), STATE))
        run.prune(2, lambda step: step % 40 == 0)
        left.append(sorted(int(path.name[5:]) for path in (run.path / "checkpoints").iterdir()))
    assert left == [[40], [40, 50], [40, 80], [40, 80, 90], [80, 120], [80, 120, 130], [80, 120, 140]]


def test_nothing_is_deleted_before_as_many_newer_ones_verify(run: RunFolder) -> None:
    for step in (40, 80, 120):
        run.save_checkpoint(Checkpoint(step, tensors(step), STATE))
    damage(run.path / "checkpoints" / "step-00000120" / "state.json")
    run.prune(2)
    assert len(list((run.path / "checkpoints").iterdir())) == 3
    run.prune(1)
    assert sorted(path.name for path in (run.path / "checkpoints").iterdir()) == ["step-00000080", "step-00000120"]
    assert (read_checkpoint(run.path / "checkpoints" / "step-00000080")).step == 80


def test_a_deletion_that_is_killed_leaves_the_newest(run: RunFolder, crash_points) -> None:
    now = [run]
    for step in (40, 80):
        run.save_checkpoint(Checkpoint(step, tensors(step), STATE))
    for _ in crash_points(lambda: now[0].prune(1)):
        now[0] = run = reopen(now[0])
        found = run.latest_checkpoint()
        assert isinstance(found, Checkpoint) and found.step == 80
        run.save_checkpoint(Checkpoint(40, tensors(40), STATE))
    assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["step-00000080"]
    now[0].close()
