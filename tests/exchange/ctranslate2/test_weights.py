"""Numbers stored in smaller types are as near to the original ones as the type allows."""

import numpy as np
import torch

from clearhead.exchange.ctranslate2.weights import stored

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(5, 7)).astype(np.float32)
GAMMA, HEADS = np.ones(7, np.float32), np.array(3, np.int16)
VARIABLES = {"a/weight": MATRIX, "norm/gamma": GAMMA, "scale": np.array(2, np.float32), "heads": HEADS}


def test_bfloat16_has_the_bits_of_torch() -> None:
    values = np.concatenate((MATRIX.ravel(), np.float32([1 + 2**-8, 1 + 3 * 2**-8, 0, -0.0])))
    expected = torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(stored({"a/weight": values}, "bf16")["a/weight"], expected)


def test_float16_stays_finite() -> None:
    found = stored({"a/weight": np.float32([[1e6, -1e6, 0.5]])}, "fp16")["a/weight"]
    assert found.dtype == np.float16 and found.tolist() == [[65504, -65504, 0.5]]


def test_int8_is_off_by_at_most_half_a_step_of_its_row() -> None:
    rows = MATRIX * np.float32([[1], [1e-3], [1e3], [0], [1]])
    found = stored({"a/weight": rows}, "int8")
    again = found["a/weight"] / found["a/weight_scale"][:, None]
    assert found["a/weight"].dtype == np.int8
    assert (np.abs(again - rows) <= np.abs(rows).max(1, keepdims=True) / 127 / 2 * 1.001).all()


def test_int16_has_one_scale_for_a_matrix() -> None:
    found = stored({"a/weight": MATRIX, "b/weight": np.zeros((2, 3), np.float32)}, "int16")
    again = found["a/weight"] / found["a/weight_scale"]
    assert found["a/weight"].dtype == np.int16 and found["a/weight_scale"].shape == ()
    assert np.abs(again - MATRIX).max() <= np.abs(MATRIX).max() / 1024 / 2 * 1.001
    assert not found["b/weight"].any() and np.isfinite(found["b/weight_scale"])


def test_integers_store_matrices_only_and_single_numbers_keep_their_type() -> None:
    for precision in ("int8", "int16"):
        found = stored(VARIABLES, precision)
        assert found.keys() == {*VARIABLES, "a/weight_scale"} and found["norm/gamma"].dtype == np.float32
    for precision, kind in (("fp16", np.float16), ("bf16", np.uint16), ("fp32", np.float32)):
        found = stored(VARIABLES, precision)
        assert found.keys() == VARIABLES.keys() and found["norm/gamma"].dtype == kind
        assert (found["heads"].dtype, found["scale"].dtype) == (np.int16, np.float32)
