"""ViT computes the same here as in its own class, whatever the normalisation of pixels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.errors import ModelError
from clearhead.exchange.import_model import import_model, read

from ..conftest import save_exported, shaken

LABELS = {0: "cat", 1: "dog", 2: "tree"}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
PIXELS = torch.randint(0, 256, (4, 3, 12, 12), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)


def normalised(processor: dict[str, Any]) -> torch.Tensor:
    """What their image processor makes of the pixels."""
    x = PIXELS.double()
    x = x * processor.get("rescale_factor", 1 / 255) if processor.get("do_rescale", True) else x
    if not processor.get("do_normalize", True):
        return x
    mean, deviation = (torch.tensor(processor.get(f"image_{it}", [0.5] * 3)).double() for it in ("mean", "std"))
    return (x - mean[:, None, None]) / deviation[:, None, None]


@pytest.fixture(scope="module")
def model(hf) -> Any:
    shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 36}
    labels = {"id2label": LABELS, "label2id": {it: i for i, it in LABELS.items()}}
    torch.manual_seed(0)
    return shaken(hf.ViTForImageClassification(hf.ViTConfig(**shape, image_size=12, patch_size=4, **labels))).double()


@pytest.fixture
def saved(model, tmp_path: Path) -> Any:
    """Return the model's folder, with these settings changed."""

    def saved(processor: dict[str, Any] | None = None, **settings: Any) -> Path:
        folder = tmp_path / "vit"
        model.save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text()) | settings
        (folder / "config.json").write_text(json.dumps(config))
        if processor is not None:
            (folder / "preprocessor_config.json").write_text(json.dumps(processor))
        return folder

    return saved


@pytest.mark.parametrize("processor", [
    {}, IMAGENET, {"do_normalize": False}, {"do_rescale": False}, {"rescale_factor": 0.01, **IMAGENET},
    {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 12, "width": 12}, "resample": 2},
])  # fmt: skip
def test_hidden_states_and_logits_are_equal(model, saved, opened, float64, processor) -> None:
    _, ours = opened(saved(processor))
    states: list[torch.Tensor] = []
    hooks = [block.register_forward_hook(lambda _, __, out: states.append(out)) for block in ours.encoder.blocks]
    with torch.no_grad():
        found, expected = ours(PIXELS), model(normalised(processor), output_hidden_states=True)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(found, expected.logits, rtol=0, atol=1e-10)
    for mine, theirs in zip(states, expected.hidden_states[1:], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


def test_images_get_the_labels_of_their_pipeline(hf, model, saved, tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    folder = saved(IMAGENET | {"size": {"height": 12, "width": 12}, "resample": 2})
    app = clearhead.load(import_model(folder, tmp_path / "model"))
    processor = hf.ViTImageProcessorPil.from_pretrained(folder)
    draw = np.random.default_rng(1)
    for size in (12, 40, 7):
        picture = image.fromarray(draw.integers(0, 256, (size, size + 3, 3), np.uint8))
        with torch.no_grad():
            pixels = processor(picture, return_tensors="pt")["pixel_values"]
            expected = model(pixels.double()).logits.softmax(-1)[0]
        found = app.results([picture])[0]
        assert found.label == LABELS[int(expected.argmax())]
        assert sorted(found.probabilities.values()) == pytest.approx(sorted(expected.tolist()), abs=1e-4)


@pytest.mark.parametrize("processor", [None, {}, IMAGENET])
def test_what_is_exported_is_what_was_imported(hf, model, saved, tmp_path, processor) -> None:
    imported = read(saved(processor))
    save_exported(imported, tmp_path)
    assert not (tmp_path / "tokenizer.json").exists()
    again = hf.AutoModelForImageClassification.from_pretrained(tmp_path).double()
    given = json.loads((tmp_path / "preprocessor_config.json").read_text())
    with torch.no_grad():
        found, expected = again(normalised(given)).logits, model(normalised(processor or {})).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    back = read(tmp_path)
    assert back.config == imported.config
    assert back.weights.keys() == imported.weights.keys()
    assert all(back.weights[name].equal(it) for name, it in imported.weights.items())


def test_without_a_file_for_it_the_normalisation_is_reported(saved) -> None:
    assert "preprocessor_config.json" in read(saved()).notes[0]


@pytest.mark.parametrize(("name", "value"), [
    ("resample", 3), ("do_center_crop", True), ("size", {"shortest_edge": 12}), ("size", 16), ("image_mean", [0.5]),
    ("image_std", ["a", "b", "c"]), ("image_std", [1, 0, 1]),
])  # fmt: skip
def test_an_image_setting_that_is_not_supported_is_named(saved, name, value) -> None:
    with pytest.raises(ModelError) as caught:
        read(saved({name: value}))
    assert (caught.value.name, caught.value.value) == (name, value)
    assert "preprocessor_config.json" in caught.value.what


@pytest.mark.parametrize(("name", "value"), [
    ("image_size", [12, 16]), ("patch_size", "4"), ("hidden_act", "mish"), ("problem_type", "regression"),
])  # fmt: skip
def test_a_setting_that_is_not_supported_is_named(saved, name, value) -> None:
    with pytest.raises(ModelError) as caught:
        read(saved(**{name: value}))
    assert (caught.value.name, caught.value.value) == (name, value)


def test_a_task_that_the_family_has_not_is_named(saved) -> None:
    with pytest.raises(ModelError) as caught:
        read(saved(), "fill")
    assert (caught.value.name, caught.value.value, caught.value.expected) == ("task", "fill", "classify")
