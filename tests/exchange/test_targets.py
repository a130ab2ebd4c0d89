from pathlib import Path

import pytest

from clearhead.api import load
from clearhead.errors import ConfigError, TrainingError
from clearhead.exchange.targets import export


@pytest.mark.parametrize(("target", "precision", "name"), [
    ("onxx", "fp32", "to"), ("onnx", "fp16", "precision"),
])  # fmt: skip
def test_formats_and_precisions_are_checked(model_folder: Path, tmp_path: Path, target, precision, name) -> None:
    with pytest.raises(ConfigError) as caught:
        export(load(model_folder, device="cpu").loaded, target, tmp_path / "out", precision=precision)
    assert caught.value.name == name and caught.value.expected
    assert ("onnx" in caught.value.fix) == (name == "to")


def test_a_file_or_a_folder_with_files_isn_t_written_to(model_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for out in (file, tmp_path):
        with pytest.raises(TrainingError) as caught:
            export(load(model_folder, device="cpu").loaded, "onnx", out)
        assert (caught.value.name, caught.value.value) == ("out", out)
    assert file.read_text() == "mine" and list(tmp_path.iterdir()) == [file]
