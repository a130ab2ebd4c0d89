import pytest
import torch
from torch import Tensor, nn

from clearhead.config import Config, ModelConfig
from clearhead.errors import ConfigError
from clearhead.inspection.media.media_explanation import MediaExplanation, rollout
from clearhead.inspection.record.forward_pass import Pass
from clearhead.inspection.record.recorder import record
from clearhead.model.transformer import build


def test_the_rollout_is_the_formula_of_abnar_and_zuidema_written_out() -> None:
    net = build(
        ModelConfig(
            topology="encoder-only", head="class", n_classes=3, front="patches", positions="sinusoidal_2d",
            image_size=4, image_channels=1, patch_size=2, max_len=5, pooling="first", d_model=8, n_heads=2, d_ff=8,
            n_encoder_layers=3,
        )
    ).eval()  # fmt: skip
    with record(net) as trace:
        net(torch.randint(0, 256, (1, 1, 4, 4), dtype=torch.uint8))
    s = 5
    reached = [[float(i == j) for j in range(s)] for i in range(s)]
    for layer in range(3):
        weights = trace[f"encoder.{layer}.self"].weights.values[0].double()
        mixed = [[(float(weights[:, i, k].mean()) + (i == k)) / 2 for k in range(s)] for i in range(s)]
        reached = [[sum(mixed[i][k] * reached[k][j] for k in range(s)) for j in range(s)] for i in range(s)]
    found = rollout(trace)
    torch.testing.assert_close(found, torch.tensor(reached, dtype=torch.float64))
    torch.testing.assert_close(found.sum(-1), torch.ones(s, dtype=torch.float64))


class Silent(nn.Module):
    """Attention that doesn't report its weights."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        return v


def test_without_weights_the_views_say_so_and_have_no_rollout() -> None:
    net = build(
        ModelConfig(
            topology="encoder-only", head="class", n_classes=3, front="patches", positions="sinusoidal_2d",
            image_size=4, image_channels=1, patch_size=2, max_len=5, d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1,
        )
    )  # fmt: skip
    net.encoder.blocks[0].attention.attend = Silent()
    forward = Pass(model=net, inputs=(torch.zeros(1, 1, 4, 4, dtype=torch.uint8),), pieces={})
    found = MediaExplanation(
        text="image", answer="a", values={}, tokens=forward.names, forward=forward, trace=forward.recorded(),
        config=Config(),
    )  # fmt: skip
    assert found.render_heads("encoder.self", None) == "encoder.0.self: Silent doesn't report its weights"
    assert "Attention without reported weights: encoder.0.self." in " ".join(found.render().split())
    with pytest.raises(ConfigError) as caught:
        found.maps("decoder.self", 0)
    assert (caught.value.name, caught.value.value) == ("attention", "decoder.self")
    with pytest.raises(ConfigError) as caught:
        found.timings()
    assert (caught.value.name, caught.value.expected) == ("alignment", "a model for `transcribe`")
