"""Presets of published models: their sizes, and how they get on with tasks and with what the user sets."""

from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch

from clearhead import Config, ConfigError, build, preset, published
from clearhead.config import FAMILIES, TASKS, ModelConfig
from clearhead.config.presets import check_fits
from clearhead.tasks.denoise import denoising
from clearhead.tasks.registry import task_of

COUNTS = {
    "gpt2": 124_439_808,
    "bert-base": 109_514_298,
    "t5-small": 60_506_624,
    "vit-tiny": 5_717_416,
    "llama-160m": 162_417_408,
}


def count(model: ModelConfig) -> int:
    with torch.device("meta"):
        return sum(it.numel() for it in build(model).parameters())


def settled(name: str, task: str, **more: object) -> Config:
    config = Config().override({"train.preset": name, "train.task": task, **more})
    return task_of(config).settle(config)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_published_model_has_the_published_number_of_parameters(name: str) -> None:
    assert count(Config().override(published(name)).model) == COUNTS[name]


@pytest.fixture(scope="module")
def transformers() -> Iterator[ModuleType]:
    """The library with the families' own classes, which takes seconds to import."""
    if find_spec("transformers") is None:
        pytest.skip("transformers isn't installed; it's in the extra hf")
    import transformers

    yield transformers


def test_the_families_own_classes_have_as_many_parameters_and_the_same_settings(transformers: ModuleType) -> None:
    own = {
        "gpt2": ("GPT2LMHeadModel", transformers.GPT2Config()),
        "bert-base": ("BertForMaskedLM", transformers.BertConfig()),
        "t5-small": (
            "T5ForConditionalGeneration",
            transformers.T5Config(vocab_size=32_128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8),
        ),
        "vit-tiny": (
            "ViTForImageClassification",
            transformers.ViTConfig(
                hidden_size=192, num_attention_heads=3, intermediate_size=768, num_labels=1000, layer_norm_eps=1e-6
            ),
        ),
        "llama-160m": (
            "LlamaForCausalLM",
            transformers.LlamaConfig(
                vocab_size=32_000, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12
            ),
        ),
    }
    assert own.keys() == FAMILIES.keys()
    for name, (kind, theirs) in own.items():
        with torch.device("meta"):
            model = getattr(transformers, kind)(theirs)
        assert sum(it.numel() for it in model.parameters()) == COUNTS[name], name
        ours = Config().override(published(name)).model
        eps = ("layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps")
        assert ours.norm_eps == next(getattr(theirs, it) for it in eps if hasattr(theirs, it)), name
        if hasattr(theirs, "max_position_embeddings"):
            assert ours.max_len == theirs.max_position_embeddings, name


def test_a_classifier_has_the_parts_of_the_familys_classifier(transformers: ModuleType) -> None:
    config = settled("bert-base", "classify", **{"model.src_vocab_size": 30_522})
    config = config.assign({"model.n_classes": 2, "model.max_len": 512}, "data")
    with torch.device("meta"):
        theirs = transformers.BertForSequenceClassification(transformers.BertConfig())
    assert count(config.model) == sum(it.numel() for it in theirs.parameters())


def test_a_family_goes_above_the_defaults_of_a_task_and_below_the_user() -> None:
    config = settled("gpt2", "generate", **{"model.d_model": 96, "model.dropout": 0.3})
    model = config.model
    assert (model.feed_forward, model.positions, model.tie, model.n_heads) == ("gelu_tanh", "learned", "all", 12)
    assert (model.d_model, model.dropout) == (96, 0.3)
    assert config.origin("model.positions") == "family" and config.origin("model.d_model") == "user"
    assert model.max_len == config.data.max_len, "no more positions than training has examples of"
    assert "# family" not in config.to_toml() and 'positions = "learned"  # preset gpt2' in config.to_toml()


def test_an_encoder_gets_what_goes_with_the_head_of_its_task() -> None:
    found = [settled("bert-base", task).model for task in ("classify", "answer", "fill")]
    assert [(it.head, it.head_layer) for it in found] == [
        ("class", "tanh"), ("span", "none"), ("token", "norm"),
    ]  # fmt: skip
    config = Config().override({"train.preset": "bert-base", "train.task": "classify"})
    model = denoising(task_of(config)).settle(config).model
    assert (model.head, model.head_layer, model.projection_bias) == ("token", "norm", True)


@pytest.mark.parametrize(
    ("name", "task", "fits", "tasks"),
    [
        ("gpt2", "translate", "t5-small", "for task generate"),
        ("t5-small", "generate", "gpt2, llama-160m", "for task translate or summarize or transcribe or speak"),
        ("bert-base", "summarize", "t5-small", "for task classify or answer or fill"),
        ("vit-tiny", "generate", "gpt2, llama-160m", "for task classify"),
        ("llama-160m", "answer", "bert-base", "for task generate"),
    ],
)
def test_a_task_with_another_topology_is_rejected_with_what_fits(name: str, task: str, fits: str, tasks: str) -> None:
    later = Config().override({"train.preset": name}).assign({"train.task": task}, "data")
    for rejected in (
        lambda: Config().override({"train.preset": name, "train.task": task}),
        lambda: Config().override({"train.preset": name}).override({"train.task": task}),
        lambda: task_of(later).settle(later),
    ):
        with pytest.raises(ConfigError) as caught:
            rejected()
        error = caught.value
        assert (error.name, error.value) == ("train.preset", name) and task in error.what
        assert error.expected.startswith(f"{fits}, or a size: nano") and error.fix.endswith(tasks)


def test_a_custom_task_may_have_any_topology() -> None:
    check_fits("gpt2", "own:Task", {})
    with pytest.raises(ConfigError, match=r"own:Task.*needs encoder-only"):
        check_fits("gpt2", "own:Task", TASKS["classify"].needs)


def test_a_model_for_images_cannot_read_text() -> None:
    with pytest.raises(ConfigError) as caught:
        settled("vit-tiny", "classify")
    assert (caught.value.name, caught.value.value) == ("train.preset", "vit-tiny")
    assert settled("vit-tiny", "classify", **{"data.modality": "image"}).model.pooling == "first"


def test_only_published_models_have_published_settings() -> None:
    for name in ("nano", "gpt-2", 3):
        with pytest.raises(ConfigError) as caught:
            published(name)  # type: ignore[arg-type]
        assert (caught.value.name, caught.value.value) == ("train.preset", name)
    assert preset("gpt2").items() < published("gpt2").items()
