import struct
from base64 import b64decode

import numpy as np

from clearhead.inspection.page.document import bits_array, bytes_array, float_array, weights_array


def test_weights_are_exact_to_half_a_step_of_16_bits() -> None:
    values = np.random.default_rng(0).random((2, 3, 5))
    found = weights_array(values)
    assert found["shape"] == [2, 3, 5]
    numbers = np.array(struct.unpack("<30H", b64decode(found["b64"]))) / found["scale"]
    assert np.abs(numbers - values.ravel()).max() <= 0.5 / 65535 + 1e-12


def test_floats_are_little_endian() -> None:
    assert struct.unpack("<2f", b64decode(float_array([1.5, -2.0])["b64"])) == (1.5, -2.0)


def test_bytes_have_a_scale_for_each_row() -> None:
    values = np.array([[1.0, -0.5, 0.25], [1000.0, 10.0, -1.0], [0.0, 0.0, 0.0]])
    found = bytes_array(values)
    numbers = np.array(struct.unpack("<9b", b64decode(found["b64"]))).reshape(3, 3)
    steps = np.array(struct.unpack("<3f", b64decode(found["steps"]["b64"])))
    assert (np.abs(numbers / steps[:, None] - values) <= np.abs(values).max(-1, keepdims=True) / 254 + 1e-9).all()


def test_bits_begin_with_the_lowest() -> None:
    found = bits_array([[True, False, False], [False, True, True], [False, False, False]])
    assert b64decode(found["b64"]) == bytes([0b00110001, 0]) and found["shape"] == [3, 3]
