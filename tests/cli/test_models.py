"""Model folders on the command line: a verb on a model of another task, and how often a folder is read."""

from pathlib import Path

import pytest

from clearhead.api import load
from clearhead.cli.models import expect_task
from clearhead.config import TASKS, Config
from clearhead.errors import ModelError
from clearhead.folder.model_folder import model_files, save_files
from clearhead.tasks.registry import task_named
from clearhead.tokenization.source_and_target import train_tokenizers
from tests.builders import ENGLISH, FRENCH

from .conftest import Run


@pytest.mark.parametrize("task", TASKS)
def test_a_verb_on_a_model_of_another_task_names_a_command_for_it(tmp_path: Path, task: str) -> None:
    folder, given = tmp_path / "my model", {"train.task": task, "data.labels": ["a", "b"], "model.tie": "none"}
    config = Config().override(given).assign(task_named(task).required, "task")
    tokenizers = train_tokenizers(ENGLISH, FRENCH, config.data)
    sizes = {"model.src_vocab_size": tokenizers.source.vocab_size, "model.tgt_vocab_size": tokenizers.target.vocab_size}
    config = config.override(sizes | ({"model.n_classes": 2} if task_named(task).has_labels else {}))
    save_files(folder, model_files(config=config.to_dict(), tokenizer=tokenizers.to_json(), weights={}))
    app = load(folder, device="cpu")
    for verb in TASKS:
        if verb == task:
            expect_task(app, verb)
            continue
        with pytest.raises(ModelError) as caught:
            expect_task(app, verb)
        assert (caught.value.name, caught.value.value) == (str(folder), task)
        assert f"clearhead {task} '{folder}' " in caught.value.fix and verb in caught.value.expected


def test_a_folder_is_resolved_once(run: Run, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.folder import model_folder as module

    read: list[Path] = []
    real = module.read_settings
    monkeypatch.setattr("clearhead.api.read_settings", lambda path, **named: read.append(path) or real(path, **named))
    monkeypatch.setattr(module, "read_config", None)
    assert run("translate", model_folder, "I am hungry.").code == 0
    assert read == [model_folder]
