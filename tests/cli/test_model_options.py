"""A verb on a model of another task."""

import itertools
from pathlib import Path

import pytest

from clearhead.cli.model_options import expect_task
from clearhead.config import Config
from clearhead.errors import ModelError
from clearhead.folder.checkpoint import RunFolder
from clearhead.folder.model_folder import model_files
from clearhead.tasks.registry import TASKS


@pytest.mark.parametrize(("learnt", "asked"), [*itertools.product(TASKS, TASKS)])
def test_a_verb_on_a_model_of_another_task_gives_a_command_that_can_be_pasted(
    tmp_path: Path, learnt: str, asked: str
) -> None:
    folder = tmp_path / "my model"
    with RunFolder.create(folder) as run:
        run.begin(model_files(config=Config().override({"train.task": learnt}).to_dict(), tokenizer="{}"))
    if learnt == asked:
        expect_task(str(folder), asked)
        return
    with pytest.raises(ModelError) as raised:
        expect_task(str(folder), asked)
    said = f"{folder} is a model that learnt to {learnt}; expected one for `{asked}`"
    assert str(raised.value).startswith(f"{said}. What it can do: clearhead {learnt} '{folder}' ")
