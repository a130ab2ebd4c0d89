"""Images in which one patch is white or not: the class. Hiding that patch must cost most."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError
from clearhead.inspection.media.media_input import front_of, media_input
from clearhead.inspection.media.occlusion import hiding, occluded_falls, rank_correlation
from clearhead.inspection.record.forward_pass import Pass
from clearhead.model.fronts.frames import Frames
from clearhead.model.transformer import EncoderModel, build

SIZE, PATCH, ACROSS = 12, 4, 3
SHAPE = {
    "topology": "encoder-only", "head": "class", "n_classes": 2, "front": "patches", "positions": "sinusoidal_2d",
    "image_size": SIZE, "image_channels": 1, "patch_size": PATCH, "max_len": 10, "d_model": 16, "n_heads": 2,
    "d_ff": 32, "n_encoder_layers": 1, "dropout": 0.0, "pre_norm": True,
}  # fmt: skip


def planted(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Grey noise, half of it with a white patch somewhere. -> images, whether there's a patch, its number"""
    dice = torch.Generator().manual_seed(seed)
    images = torch.randint(90, 160, (n, 1, SIZE, SIZE), generator=dice, dtype=torch.uint8)
    kinds, places = (torch.randint(0, most, (n,), generator=dice) for most in (2, ACROSS**2))
    for image, kind, place in zip(images, kinds.tolist(), places.tolist()):
        row, column = (PATCH * it for it in divmod(place, ACROSS))
        if kind:
            image[0, row : row + PATCH, column : column + PATCH] = 255
    return images, kinds, places


@pytest.fixture(scope="module")
def model() -> EncoderModel:
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    made = build(ModelConfig(**SHAPE))
    assert isinstance(made, EncoderModel)
    images, kinds, _ = planted(256, 0)
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(made(images), kinds).backward()
        optimizer.step()
    torch.random.set_rng_state(state)
    return made.eval()


def test_hiding_the_planted_patch_costs_most(model: EncoderModel) -> None:
    images, kinds, places = planted(20, 1)
    assert (model(images).argmax(-1) == kinds).all()
    for image, place in zip(images[kinds == 1], places[kinds == 1].tolist()):
        forward = Pass(model=model, inputs=(image[None],), pieces={}, targets=[1])
        falls = occluded_falls(forward, media_input(forward).groups)
        assert falls.shape == (1, ACROSS**2)
        assert int(falls.argmax()) == place


def test_a_hidden_patch_has_the_mean_colour_of_the_image(model: EncoderModel) -> None:
    images, _, _ = planted(2, 2)
    hidden = torch.zeros(2, ACROSS**2, dtype=torch.bool)
    hidden[0, 4] = True
    changed = images.float()
    changed[0, :, PATCH : 2 * PATCH, PATCH : 2 * PATCH] = changed[0].mean()
    front = front_of(Pass(model=model, inputs=(images,), pieces={}))
    with hiding(front, hidden):
        found = model(images)
    torch.testing.assert_close(found, model(changed), rtol=1e-4, atol=1e-5)
    assert not front.project._forward_pre_hooks


def test_hidden_frames_have_the_mean_of_the_spectrogram() -> None:
    front = Frames(16, 1000, n_mels=8).eval()
    recordings = torch.randint(-9000, 9000, (2, 800), dtype=torch.int16)
    hidden = torch.zeros(2, 20, dtype=torch.bool)
    hidden[0, 10] = True
    with hiding(front, hidden):
        found = front(recordings)
    whole = front(recordings)
    changed = (found != whole).any(-1)
    assert changed[0].nonzero().flatten().tolist() == [9, 10, 11]  # a position reads three frames to each side
    assert not changed[1].any()


@pytest.mark.parametrize("ties", [False, True])
def test_the_rank_correlation_is_that_of_scipy(ties: bool) -> None:
    dice = np.random.default_rng(0)
    one, other = (dice.integers(0, 4 if ties else 10**9, 30).astype(float) for _ in range(2))
    assert rank_correlation(one, other) == pytest.approx(spearmanr(one, other).statistic)
    assert rank_correlation(one, np.zeros(30)) == 0.0


def test_a_model_that_reads_text_has_nothing_to_hide() -> None:
    net = build(ModelConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=8, n_heads=2, d_ff=8))
    with pytest.raises(ConfigError) as caught:
        front_of(Pass(model=net, inputs=(), pieces={}))
    assert (caught.value.name, caught.value.value) == ("front", "Embedding")
