"""Tables of positions without torch are those of the model."""

import numpy as np
import pytest

from clearhead.config import ModelConfig
from clearhead.decode.model_handle import as_handle
from clearhead.decode.position_tables import position_table
from clearhead.model.transformer import build


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal_halves", "learned"])
@pytest.mark.parametrize("width", [6, 7])
def test_a_table_is_that_of_the_model(positions: str, width: int) -> None:
    config = ModelConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=width, n_heads=1, positions=positions, max_len=11)
    net = build(config)
    weights = as_handle(net, config).weights()
    for prefix, stack in (("encoder.", net.encoder), ("decoder.", net.decoder)):
        expected = stack.positions.table.detach().numpy().astype(np.float32)
        np.testing.assert_allclose(position_table(config, weights, prefix), expected, atol=1e-6)
        np.testing.assert_allclose(position_table(config, weights, prefix, 4), expected[:4], atol=1e-6)


@pytest.mark.parametrize("positions", ["rotary", "relative", "alibi"])
def test_a_scheme_that_adds_nothing_to_the_embeddings_has_no_table(positions: str) -> None:
    config = ModelConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=8, n_heads=2, positions=positions)
    assert position_table(config, {}, "encoder.") is None
