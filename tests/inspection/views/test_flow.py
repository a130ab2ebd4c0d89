from itertools import product
from typing import Any

import pytest
import torch

from clearhead.config import ModelConfig
from clearhead.inspection.record.parts import count_parameters, parts, render_parts, stacks
from clearhead.inspection.views.flow import ShapeStep, dimension_flow, render_flow
from clearhead.model.fronts.front import Front
from clearhead.model.transformer import build

TOPOLOGIES = ["encoder-decoder", "decoder-only", "encoder-only"]
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi"]
B, S, T, D, H, F, V = 2, 10, 12, 32, 4, 48, 17


def config(**values: Any) -> ModelConfig:
    sizes = {"d_model": D, "n_heads": H, "d_ff": F, "src_vocab_size": V, "tgt_vocab_size": V, "max_len": 20}
    return ModelConfig(**(sizes | {"n_encoder_layers": 3, "n_decoder_layers": 2} | values))


def empty(**values: Any) -> torch.nn.Module:
    with torch.device("meta"):
        return build(config(**values))


def shapes(steps: list[ShapeStep], *where: str) -> dict[str, tuple[int, ...]]:
    return {step.what: step.shape for step in steps if step.where == where}


def test_the_encoder_turns_tokens_into_a_memory() -> None:
    steps = dimension_flow(empty(), (B, S), (B, T))
    assert shapes(steps, "encoder") == {
        "tokens": (B, S),
        "embedding times sqrt(32)": (B, S, D),
        "plus sinusoidal positions": (B, S, D),
        "after 3 blocks": (B, S, D),
        "memory": (B, S, D),
    }


def test_the_decoder_turns_tokens_into_logits() -> None:
    steps = dimension_flow(empty(), (B, S), (B, T))
    assert shapes(steps, "decoder") == {
        "tokens": (B, T),
        "embedding times sqrt(32)": (B, T, D),
        "plus sinusoidal positions": (B, T, D),
        "after 2 blocks": (B, T, D),
        "projection: logits": (B, T, V),
    }
    assert (steps[0].what, steps[-1].what) == ("tokens", "projection: logits")


def test_heads_split_the_width_and_weights_join_queries_to_keys() -> None:
    steps = dimension_flow(empty(n_kv_heads=2), (B, S), (B, T))
    places = {("encoder", "self-attention"): (S, S), ("decoder", "self-attention"): (T, T)}
    places[("decoder", "cross-attention")] = (T, S)
    for (stack, sublayer), (n_queries, n_keys) in places.items():
        assert shapes(steps, stack, "block 0", sublayer) == {
            "queries of 4 heads": (B, H, n_queries, D // H),
            "keys of 2 heads": (B, 2, n_keys, D // H),
            "values of 2 heads": (B, 2, n_keys, D // H),
            "weights: softmax(q k^T / sqrt(8))": (B, H, n_queries, n_keys),
            "weights times values": (B, H, n_queries, D // H),
            "heads joined and projected": (B, n_queries, D),
        }


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_the_feed_forward_widens_and_narrows(activation: str) -> None:
    steps = dimension_flow(empty(feed_forward=activation), (B, S), (B, T))
    assert shapes(steps, "encoder", "block 0", "feed-forward") == {"inner": (B, S, F), "output": (B, S, D)}


@pytest.mark.parametrize(("topology", "positions"), [*product(TOPOLOGIES, POSITIONS)])
def test_a_model_without_numbers_flows_as_one_with_numbers(topology: str, positions: str) -> None:
    settings = {"topology": topology, "positions": positions, "pre_norm": True}
    steps = dimension_flow(empty(**settings))
    assert steps == dimension_flow(build(config(**settings)))
    notes = {step.what for step in steps}
    assert ("position bias on the scores" in notes) == (positions in ("relative", "alibi"))
    assert (f"plus {positions} positions" in notes) == (positions in ("sinusoidal", "learned"))
    assert "final norm" in notes


@pytest.mark.parametrize(
    ("head", "what", "shape"),
    [
        ("class", "a logit per class", (B, 3)),
        ("span", "logits of start and end", (B, S, 2)),
        ("token", "logits of each masked token", (B * S, V)),
    ],
)
def test_a_head_turns_the_memory_into_what_it_says(head: str, what: str, shape: tuple[int, ...]) -> None:
    settings = {"topology": "encoder-only", "head": head, "n_classes": 3 if head == "class" else 0, "n_token_types": 2}
    steps = dimension_flow(empty(**settings), (B, S), (B, T))
    assert shapes(steps, "head") == {"memory": (B, S, D), what: shape}
    assert shapes(steps, "encoder")["plus token types"] == shapes(steps, "encoder")["memory"] == (B, S, D)
    assert steps == dimension_flow(build(config(**settings)), (B, S), (B, T))
    assert [line for line in render_flow(steps).splitlines() if not line.startswith(" ")] == ["encoder", "head"]


class Vectors(Front):
    """Reads feature vectors in place of token ids."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:  # (B, S, D) -> (B, S, D)
        return 2 * inputs


def test_an_encoder_that_reads_no_tokens_is_given_an_input() -> None:
    model = build(config())
    model.encoder.embedding = Vectors()
    steps = dimension_flow(model, torch.randn(B, S, D), (B, T))
    assert shapes(steps, "encoder")["vectors"] == shapes(steps, "encoder")["memory"] == (B, S, D)


def test_looking_changes_nothing() -> None:
    model = build(config(dropout=0.5)).train()
    tokens = torch.ones(1, 3, dtype=torch.long)
    torch.manual_seed(1)
    before = model(tokens, tokens)
    dimension_flow(model)
    torch.manual_seed(1)
    torch.testing.assert_close(model(tokens, tokens), before, rtol=0, atol=0)
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_the_text_has_a_line_for_each_step_below_where_it_is() -> None:
    steps = dimension_flow(empty())
    lines = render_flow(steps).splitlines()
    for step in steps:
        line = next(line for line in lines if step.what in line and line.endswith(str(step.shape)))
        assert line.startswith("  " * len(step.where))
    assert [line for line in lines if not line.startswith(" ")] == ["encoder", "decoder"]
    assert lines.count("  block 0") == 2 and lines.count("    cross-attention") == 1


@pytest.mark.parametrize(
    ("topology", "positions", "tie", "norm"),
    [
        (topology, positions, ["all", "target", "none"][(i + j) % 3], ["layer", "rms"][j % 2])
        for i, topology in enumerate(TOPOLOGIES)
        for j, positions in enumerate(POSITIONS)
    ],
)
def test_the_parts_add_up_to_the_model(topology: str, positions: str, tie: str, norm: str) -> None:
    model = empty(topology=topology, positions=positions, tie=tie, norm=norm, pre_norm=norm == "rms")
    total = sum(parameter.numel() for parameter in model.parameters())
    assert sum(part.total for part in parts(model)) == total
    assert count_parameters(model) == {"total": total, "trainable": total}


def test_a_pointer_is_a_part_and_the_last_step() -> None:
    model = empty(copy=True)
    assert [(part.name, part.total) for part in parts(model)[1].parts][-1] == ("pointer", D + 1)
    steps = dimension_flow(model, (B, S), (B, T))
    assert [(step.what, step.shape) for step in steps[-2:]] == [
        ("projection: logits", (B, T, V)),
        ("pointer: log-probabilities", (B, T, V)),
    ]


@pytest.mark.parametrize(("head", "own"), [("class", 3 * D + 3), ("span", 2 * D + 2), ("token", 0)])
def test_a_head_and_types_of_tokens_are_parts(head: str, own: int) -> None:
    more = {"head": head, "n_classes": 3 if head == "class" else 0, "n_token_types": 2}
    model = empty(topology="encoder-only", **more)
    encoder, last = parts(model)
    assert (last.name, last.total) == ("head", own)
    assert last.note == ("shares its matrix with the encoder's embedding" if head == "token" else "")
    assert {part.name: part.total for part in encoder.parts}["token types"] == 2 * D
    assert encoder.total + last.total == sum(parameter.numel() for parameter in model.parameters())


def test_what_is_frozen_is_not_trainable() -> None:
    model = empty(tie="none")
    for parameter in stacks(model)["encoder"].parameters():
        parameter.requires_grad = False
    counts = count_parameters(model)
    assert counts["total"] - counts["trainable"] == parts(model)[0].total


def test_a_shared_matrix_is_counted_where_it_stands_first_and_named_elsewhere() -> None:
    encoder, decoder = parts(empty(tie="all"))
    notes = {part.name: (part.parameters, part.note) for part in (*encoder.parts, *decoder.parts[-1:])}
    assert notes["embedding"] == (V * D, "")
    assert notes["projection"] == (0, "shares its matrix with the encoder's embedding")
    assert decoder.parts[0].note == "shares its matrix with the encoder's embedding"


def test_the_table_has_each_part_and_the_totals() -> None:
    model = empty(tie="none")
    text = render_parts(model)
    encoder, decoder = parts(model)
    for part in (encoder, decoder, *encoder.parts, *decoder.parts):
        assert f"{part.total:,}" in text
    assert f"3 x {encoder.parts[1].total // 3:,}" in text
    assert text.splitlines()[-1].split() == ["trainable", f"{encoder.total + decoder.total:,}"]


@pytest.mark.parametrize(
    ("scale", "shown"), [(None, "q k^T / sqrt(8)"), (8**-0.5, "q k^T / sqrt(8)"), (1.0, "q k^T"), (0.5, "0.5 q k^T")]
)
def test_the_weights_are_named_with_the_factor_of_their_scores(scale: float | None, shown: str) -> None:
    steps = dimension_flow(empty(attention_scale=scale))
    named = {step.what for step in steps if step.what.startswith("weights: ")}
    assert named == {f"weights: softmax({shown})"}


@pytest.mark.parametrize(
    ("front", "inputs", "n_positions"),
    [
        ({"front": "patches", "image_size": 8, "patch_size": 2, "image_channels": 3}, (2, 3, 8, 8), 16),
        ({"front": "frames", "sample_rate": 8000}, (2, 8000), 25),
    ],
)
def test_without_an_example_a_front_end_reads_two_images_or_recordings(front, inputs, n_positions) -> None:
    found = shapes(dimension_flow(empty(topology="encoder-only", max_len=30, **front)), "encoder")
    assert (found["inputs"], found["memory"]) == (inputs, (2, n_positions, D))
