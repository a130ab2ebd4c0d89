"""Patches against their formula, and the two-dimensional positions that go with them."""

import pytest
import torch
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError, ModelError
from clearhead.model.fronts.patches import Patches, patches
from clearhead.model.positions import Sinusoidal2D, sinusoid
from clearhead.model.transformer import EncoderModel, build

D = 12
CLASSIFIER = {
    "topology": "encoder-only", "head": "class", "n_classes": 3, "d_model": D, "n_heads": 2, "d_ff": 24,
    "n_encoder_layers": 1, "front": "patches", "image_size": 8, "image_channels": 3, "patch_size": 4,
}  # fmt: skip


def images(n: int = 5, channels: int = 3, size: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, channels, size, size), generator=generator).to(torch.uint8)


def test_each_embedding_is_a_projection_of_the_pixels_of_one_patch() -> None:
    front, x = Patches(D, 8, 3, 4), images()
    embedded = front(x)
    for row in range(2):
        for column in range(2):
            pixels = x[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].flatten(1) / 127.5 - 1
            expected = pixels @ front.project.weight.T + front.project.bias
            torch.testing.assert_close(embedded[:, 2 * row + column], expected)


def test_cutting_loses_no_pixel() -> None:
    x = torch.arange(2 * 3 * 8 * 8).view(2, 3, 8, 8)
    cut = patches(x, 2)
    assert cut.shape == (2, 16, 12) and cut.unique().numel() == x.numel()
    assert cut[0, 5].tolist() == x[0, :, 2:4, 2:4].flatten().tolist()


def test_a_class_token_comes_first_and_is_what_the_head_reads() -> None:
    front = Patches(D, 8, 3, 4, class_token=True)
    embedded = front(images())
    assert embedded.shape == (5, 5, D) and embedded[:, 0].equal(front.class_token.expand(5, D))
    model = build(ModelConfig(**CLASSIFIER, pooling="first", positions="sinusoidal_2d"))
    assert isinstance(model, EncoderModel) and model(images()).shape == (5, 3)
    assert dict(model.named_parameters())["encoder.embedding.class_token"].shape == (D,)
    assert "encoder.embedding.class_token" not in dict(build(ModelConfig(**CLASSIFIER)).named_parameters())


def test_two_dimensional_positions_add_the_sinusoids_of_row_and_column() -> None:
    scheme, rows = Sinusoidal2D(D, 3), sinusoid(3, D // 2)
    added = scheme.embed(torch.zeros(1, 9, D), torch.arange(9)[None])[0]
    for row in range(3):
        for column in range(3):
            assert added[3 * row + column].equal(torch.cat((rows[row], rows[column])))
    with_token = Sinusoidal2D(D, 3, class_token=True).embed(torch.zeros(1, 10, D), torch.arange(10)[None])[0]
    assert with_token[0].eq(0).all() and with_token[1:].equal(added)
    with pytest.raises(ModelError) as caught:
        scheme.embed(torch.zeros(1, 10, D), torch.arange(10)[None])
    assert caught.value.name == "positions"


def test_a_shift_moves_whole_pixels_and_brings_in_black() -> None:
    torch.manual_seed(0)
    x, front = images(64), Patches(D, 8, 3, 4, shift=2)
    moved, seen = front.augment(x), set()
    bordered = torch.nn.functional.pad(x.float(), (2, 2, 2, 2))
    for before, after in zip(bordered, moved):
        at = [
            (down, right)
            for down in range(5)
            for right in range(5)
            if (before[:, down : down + 8, right : right + 8] - after).abs().max() < 0.1
        ]
        assert len(at) == 1
        seen |= {*at}
    assert len(seen) > 15  # of 25


def test_a_flip_mirrors_about_half_of_the_images() -> None:
    torch.manual_seed(0)
    x = images(200)
    flipped = Patches(D, 8, 3, 4, flip=True).augment(x)
    mirrored = [bool((one.flip(-1) - other).abs().max() < 0.1) for one, other in zip(x.float(), flipped)]
    same = [bool((one - other).abs().max() < 0.1) for one, other in zip(x.float(), flipped)]
    assert all(a != b for a, b in zip(mirrored, same)) and 70 < sum(mirrored) < 130


def test_a_crop_stays_inside_the_image() -> None:
    torch.manual_seed(0)
    x = torch.full((50, 3, 8, 8), 200, dtype=torch.uint8)
    inner = Patches(D, 8, 3, 4, crop=0.25).augment(x)[:, :, 1:-1, 1:-1]
    torch.testing.assert_close(inner, torch.full_like(inner, 200))
    ramp = torch.arange(8, dtype=torch.uint8).expand(50, 3, 8, 8)
    steps = Patches(D, 8, 3, 4, crop=0.25).augment(ramp)[:, 0, 4].diff(dim=-1)[:, 2:5].mean(-1)
    assert 0.49 < steps.min() < 0.6 and 0.9 < steps.max() < 1.01  # half of each side is enlarged to the whole


@pytest.mark.usefixtures("single")
def test_augmentation_is_exact_when_products_are_in_bfloat16() -> None:
    x, front, found = images(20), Patches(D, 8, 3, 4, shift=2, crop=0.5), []
    for enabled in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            found.append(front.augment(x))
    assert found[0].equal(found[1])


def test_nothing_changes_without_augmentation() -> None:
    x = images()
    assert Patches(D, 8, 3, 4).augment(x) is x


@pytest.mark.parametrize("missing", ["image_size", "image_channels", "patch_size"])
def test_a_model_of_images_needs_their_size(missing: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(ModelConfig(**{**CLASSIFIER, missing: None}))
    assert caught.value.name == f"model.{missing}"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"patch_size": 3}, "model.patch_size"),
        ({"image_channels": 2}, "model.image_channels"),
        ({"image_size": 0}, "model.image_size"),
        ({"augment": ("crop=0.0",)}, "model.augment"),
        ({"augment": ("shift=-1",)}, "model.augment"),
        ({"front": "tokens", "positions": "sinusoidal_2d"}, "model.positions"),
    ],
)
def test_sizes_that_do_not_fit_are_errors(settings: dict, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**CLASSIFIER | settings)
    assert caught.value.name == name


def test_images_of_another_size_are_an_error() -> None:
    with pytest.raises(ModelError) as caught:
        build(ModelConfig(**CLASSIFIER))(images(size=12))
    assert caught.value.name == "inputs"
