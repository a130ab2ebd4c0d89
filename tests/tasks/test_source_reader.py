"""Copying batches to a device."""

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.errors import ModelError
from clearhead.tasks.source_reader import on_device, tokens_on_device


def test_a_cpu_shares_the_numbers() -> None:
    numbers = np.arange(3)
    assert on_device(numbers, "cpu").data_ptr() == numbers.ctypes.data


def test_a_gpu_gets_pinned_memory_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda it: (calls.append("pinned"), it)[1])
    monkeypatch.setattr(Tensor, "to", lambda it, *device, **named: (calls.append((*device, named)), it)[1])
    on_device(np.arange(3), "cuda:1")
    assert calls == ["pinned", ("cuda:1", {"non_blocking": True})]


def test_a_token_beyond_the_vocabulary_is_an_error_before_it_reaches_a_device() -> None:
    tokens = np.array([[3, 7, 9]])
    assert tokens_on_device(tokens, "meta", 8, pad=9).device == torch.device("meta")
    with pytest.raises(ModelError) as caught:
        tokens_on_device(tokens, "meta", 7, pad=9)
    assert (caught.value.name, caught.value.value) == ("tokens", 7)
    tokens_on_device(tokens, "cpu", 7, pad=9)  # the embedding reports it
    tokens_on_device(np.zeros((0, 3), np.int64), "meta", 7, pad=9)
