from pathlib import Path

import pytest
import torch

from clearhead.course import finish, lab
from clearhead.course.lab import PARTS, break_it
from clearhead.demo.phrasebook import split
from clearhead.errors import ConfigError
from clearhead.model import attention, norms, positions, transformer
from clearhead.model.norms import AddNorm, LayerNorm


@pytest.fixture
def short(monkeypatch):
    training, held_out = split()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr(finish, "split", lambda: (training[:200], held_out[:8]))
    monkeypatch.setattr(lab, "TRAINING", lab.TRAINING | {"train.threads": 1})
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("short")
def test_a_page_compares_a_model_with_and_without_a_part(tmp_path: Path) -> None:
    page = break_it("mask", tmp_path, steps=3)
    assert "<h1>A Transformer without the causal mask</h1>" in page and page.count("<polyline") == 2
    assert "<caption>with it" in page and "<caption>without it" in page
    assert "Unseen sentences translated exactly right: " in page and split()[1][0].english in page
    assert transformer.causal_mask(3).sum() == 6  # the part is back


@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if part.replaced])
def test_a_part_is_gone_within_the_lab_and_back_after_it(name: str) -> None:
    def shown() -> torch.Tensor:
        x = torch.arange(12.0).reshape(1, 3, 4)
        return {
            "scale": lambda: attention.attention_weights(x, x / 9),
            "mask": lambda: transformer.causal_mask(3).float(),
            "positions": lambda: positions.Sinusoidal(4).embed(x, torch.arange(3)[None]),
            "residual": lambda: AddNorm(LayerNorm(4), 0.0)(x, lambda x: x.flip(-1)),
            "norm": lambda: norms.LayerNorm(4)(x),
        }[name]()

    before = shown()
    with lab._without(PARTS[name].replaced):
        assert not torch.allclose(shown(), before)
    assert torch.equal(shown(), before)


def test_warmup_is_a_setting_and_other_parts_are_unknown(tmp_path: Path) -> None:
    assert PARTS["warmup"].settings == {"train.warmup": 0}
    with pytest.raises(ConfigError, match="there's no part 'masks' to remove"):
        break_it("masks", tmp_path)
