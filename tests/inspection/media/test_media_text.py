"""Numbers next to maps of the input."""

import numpy as np

from clearhead.inspection.media.media_input import ImageInput
from clearhead.inspection.media.media_text import InputMap, render_maps, render_occlusion
from clearhead.inspection.media.occlusion import Occlusion

IMAGE = ImageInput(np.zeros((4, 4, 1)), patch_size=2, first=0)


def test_small_numbers_are_not_rounded_to_zero() -> None:
    values = np.array([[0.0, 0.00031, 0.0, 0.0]])
    assert "at most 0.00031" in render_maps(IMAGE, ["a"], [InputMap("fall", values)])
    found = Occlusion(IMAGE.groups, ["a"], values, values, values)
    assert "r0c1                     0.00031" in render_occlusion(IMAGE, found, ["r0c0", "r0c1", "r1c0", "r1c1"])
