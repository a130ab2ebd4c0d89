from pathlib import Path

import pytest

from clearhead.api import train
from clearhead.cleaning.checkup import first_look
from clearhead.config import Config

CLEAN = [(n, f"the number {n} is even", f"le numéro {n} est pair") for n in range(400)]
WRONG = [(n, "the number is odd", "le numÃ©ro est impair") for n in range(400, 404)]
COPIED = [(n, f"the number {n} is odd", f"the number {n} is odd") for n in range(404, 410)]


def test_clean_lines_are_not_mentioned() -> None:
    assert first_look(CLEAN, of_pairs=True) == ""
    assert first_look((), of_pairs=True) == ""


def test_faults_are_counted_by_kind() -> None:
    found = first_look([*CLEAN, *WRONG, *COPIED], of_pairs=True)
    assert "10 of the first 410 lines" in found and "wrong decoding: 4" in found and "copied: 6" in found
    assert first_look([*CLEAN, *WRONG, *COPIED], of_pairs=False) == ""  # labels aren't texts


@pytest.mark.parametrize("faulty", [True, False])
def test_training_says_so_in_one_sentence(tmp_path: Path, faulty: bool) -> None:
    rows = [*CLEAN, *(COPIED if faulty else ())]
    (tmp_path / "pairs.tsv").write_text("".join(f"{one}\t{other}\n" for _, one, other in rows), encoding="utf-8")
    said: list[str] = []
    small = {"model.d_model": 8, "model.n_heads": 1, "model.d_ff": 8, "data.vocab_size": 300, "train.steps": 1}
    values = {**small, "data.train": (str(tmp_path / "pairs.tsv"),), "train.threads": 1, "train.precision": "fp32"}
    train(Config().override(values), tmp_path / "model", say=said.append)
    assert len([it for it in said if "look faulty" in it]) == faulty
