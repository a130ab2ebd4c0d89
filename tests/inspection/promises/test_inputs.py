"""Inputs of the checks."""

import torch

from clearhead.config import SpecialTokens
from clearhead.inspection.promises.subject import Inputs


def test_a_decoder_that_starts_with_padding_has_inputs_of_full_length() -> None:
    inputs = Inputs(target=torch.tensor([[0, 5, 6], [0, 5, 0], [0, 0, 0]]), special=SpecialTokens(start=0))
    assert inputs.lengths == [3, 2, 1]
    assert inputs.row(1).target is not None and inputs.row(1).target.tolist() == [[0, 5]]


def test_padding_is_that_of_the_model() -> None:
    special = SpecialTokens(pad=9)
    inputs = Inputs(torch.tensor([[4, 9]]), torch.tensor([[1, 0]]), torch.tensor([[1, 0]]), special=special).padded(1)
    assert [it.tolist() for it in (inputs.source, inputs.target, inputs.types)] == [
        [[4, 9, 9]],
        [[1, 0, 9]],
        [[1, 0, 0]],
    ]
