"""Named groups of settings, such as a model size or a published model, and where the value of a setting comes from.

A run starts from the user's settings and fills in the rest in several steps. Each step records its own origin
and never replaces a value that has a stronger one. From weakest to strongest:

default    the value in the source code
preset     the model size, train.preset
data       the size and content of the training data
budget     the time limit, train.budget
machine    the speed and number of cores of this machine
task       the requirements and defaults of train.task
family     the published model that train.preset names, such as gpt2
model      the trained model named by train.init_from
user       the command line, a configuration file or a call
unknown    a model folder written before origins were recorded
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ..errors import suggestion, unknown
from .task_spec import TASKS
from .values import invalid, spell

Origin = Literal["default", "preset", "data", "budget", "machine", "task", "family", "model", "user", "unknown"]
Origins = Mapping[str, Origin]  # of the settings whose origin isn't "default", by dotted name

_STRENGTH: dict[str, int] = {origin: rank for rank, origin in enumerate(get_args(Origin))}


def may_replace(new: Origin, old: Origin) -> bool:
    """Return whether a value with origin `new` may replace one with origin `old`: True unless `old` is stronger."""
    return _STRENGTH[new] >= _STRENGTH[old]


def is_origin(value: object) -> bool:
    """Return whether `value` is the name of an origin."""
    return isinstance(value, str) and value in _STRENGTH


def render_sources(by_origin: Mapping[Origin, Mapping[str, object]]) -> str:
    """Return a table of settings grouped by origin, with one row for each origin."""
    labels: dict[Origin, str] = {"user": "you", "model": "train.init_from", "unknown": "not recorded"}
    rows = []
    for origin, values in by_origin.items():
        row = ", ".join(f"{name}={spell(value)}" for name, value in values.items())
        rows.append(f"{labels.get(origin, origin):<16}{row}")
    return "\n".join(rows)


# base and big are those of table 3 (section 6.2). The warmup of the smaller ones was tuned by experiment.
_SIZES: dict[str, dict[str, Any]] = {
    name: {
        "model.d_model": d_model,
        "model.n_heads": n_heads,
        "model.d_ff": d_ff,
        "model.n_encoder_layers": n_layers,
        "model.n_decoder_layers": n_layers,
        "model.dropout": dropout,
        "train.warmup": warmup,
    }
    for name, d_model, n_heads, d_ff, n_layers, dropout, warmup in (
        ("nano", 128, 4, 256, 2, 0.1, 600),
        ("mini", 256, 4, 512, 3, 0.1, 300),
        ("tiny", 128, 4, 256, 4, 0.3, 2000),
        ("small", 256, 4, 1024, 4, 0.1, 1000),
        ("base", 512, 8, 2048, 6, 0.1, 4000),
        ("big", 1024, 16, 4096, 6, 0.3, 4000),
    )
}


@dataclass(frozen=True)
class PublishedModel:
    """A published model that is the paper's architecture with other settings.

    Attributes:
        paper: authors and year of its description.
        parts: its shape and modules, which training keeps.
        heads: the heads that an encoder-only model may get, with more settings for each.
        data: what its training data decided, such as the vocabulary size. Training takes these from your data instead.
    """

    title: str
    paper: str
    parts: Mapping[str, Any]
    data: Mapping[str, Any]
    heads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def settings(self, head: str) -> dict[str, Any]:
        """Return the settings for a model with this head."""
        return {**self.parts, **self.heads.get(head, {})}

    def fits(self, needs: Mapping[str, Any]) -> bool:
        """Return whether the model has the topology and the head that a task needs."""
        same = needs.get("model.topology") == self.parts["model.topology"]
        return same and (not self.heads or needs.get("model.head") in self.heads)

    @property
    def published(self) -> dict[str, Any]:
        """All settings of the published model."""
        return {**self.settings(self.data.get("model.head", "none")), **self.data}


def _shape(topology: str, d_model: int, n_heads: int, d_ff: int, n_layers: int) -> dict[str, Any]:
    layers = {"n_encoder_layers": n_layers, "n_decoder_layers": n_layers}
    return _model(topology=topology, d_model=d_model, n_heads=n_heads, d_ff=d_ff, **layers, embedding_scale=1.0)


def _model(**values: Any) -> dict[str, Any]:
    return {f"model.{name}": value for name, value in values.items()}


FAMILIES = {  # each names every part that it shares with the paper too, where some task has another default
    "gpt2": PublishedModel(
        "GPT-2 124M",
        "Radford et al. 2019",
        _shape("decoder-only", 768, 12, 3072, 12)
        | _model(positions="learned", norm="layer", norm_eps=1e-5, pre_norm=True, feed_forward="gelu_tanh", bias=True)
        | _model(tie="all", dropout=0.1),
        _model(tgt_vocab_size=50_257, max_len=1024),
    ),
    "bert-base": PublishedModel(
        "BERT-base uncased",
        "Devlin et al. 2019",
        _shape("encoder-only", 768, 12, 3072, 12)
        | _model(positions="learned", norm="layer", norm_eps=1e-12, pre_norm=False, feed_forward="gelu", bias=True)
        | _model(tie="all", dropout=0.1, embedding_norm=True, n_token_types=2, pooling="first"),
        _model(src_vocab_size=30_522, max_len=512, head="token"),
        {
            "class": _model(head_layer="tanh", projection_bias=None),
            "span": _model(head_layer="none", projection_bias=None),
            "token": _model(head_layer="norm", projection_bias=True),
        },
    ),
    "t5-small": PublishedModel(
        "T5-small",
        "Raffel et al. 2020",
        _shape("encoder-decoder", 512, 8, 2048, 6)
        | _model(positions="relative", norm="rms", norm_eps=1e-6, pre_norm=True, feed_forward="relu", bias=False)
        | _model(tie="all", dropout=0.1, attention_scale=1.0, logit_scale=512**-0.5),
        _model(src_vocab_size=32_128, tgt_vocab_size=32_128, max_len=512),
    ),
    "vit-tiny": PublishedModel(
        "ViT-Ti/16",
        "Dosovitskiy et al. 2021",
        _shape("encoder-only", 192, 3, 768, 12)
        | _model(positions="learned", norm="layer", norm_eps=1e-6, pre_norm=True, feed_forward="gelu", bias=True)
        | _model(dropout=0.0, front="patches", image_size=224, patch_size=16, pooling="first"),
        _model(image_channels=3, n_classes=1000, max_len=197, head="class"),
        {"class": {}},
    ),
    "llama-160m": PublishedModel(
        "Llama 160M",
        "Touvron et al. 2023",
        _shape("decoder-only", 768, 12, 3072, 12)
        | _model(positions="rotary", norm="rms", norm_eps=1e-6, pre_norm=True, feed_forward="swiglu", bias=False)
        | _model(tie="none", projection_bias=False, dropout=0.0),
        _model(tgt_vocab_size=32_000, max_len=2048),
    ),
}
PRESETS: dict[str, dict[str, Any]] = _SIZES | {name: dict(family.parts) for name, family in FAMILIES.items()}


def preset(name: str) -> dict[str, Any]:
    """Return the settings of a preset, including train.preset itself. Raise ConfigError if the name is unknown."""
    if not isinstance(name, str) or name not in PRESETS:
        expected, fix = f"one of {', '.join(PRESETS)}", suggestion(str(name), PRESETS)
        raise invalid("train.preset", name, "isn't a preset", expected=expected, fix=fix)
    return PRESETS[name] | {"train.preset": name}


def published(name: str) -> dict[str, Any]:
    """Return all settings of a published model, such as "gpt2", including those that its training data decided.

    `build(Config().override(published("gpt2")).model)` has the published number of parameters.

    Raises:
        ConfigError: there is no such model.
    """
    if not isinstance(name, str) or name not in FAMILIES:
        raise unknown(f"{name!r} isn't a published model", name, FAMILIES, "train.preset")
    return FAMILIES[name].published | {"train.preset": name}


def origin_of(name: str) -> Origin:
    """Return the origin of a preset's values. A task's defaults take precedence over a size, but not over a family."""
    return "family" if name in FAMILIES else "preset"


def check_fits(name: str | None, task: str, needs: Mapping[str, Any]) -> None:
    """Raise ConfigError if a preset has another topology than the task needs.

    Args:
        name: the preset. None passes, and so does a name that isn't a published model's.
        task: the task, for the error message.
        needs: settings that the task requires, by their full names, such as `model.topology`.
    """
    family, topology = FAMILIES.get(name or ""), needs.get("model.topology")
    if family is None or topology in (None, family.parts["model.topology"]):
        return
    able = [it for it, other in FAMILIES.items() if other.fits(needs)]
    others = " or ".join(it for it, other in TASKS.items() if family.fits(other.needs))
    what = f"is {family.parts['model.topology']}, but task {task!r} needs {topology}"
    expected, fix = f"{', '.join(able)}, or a size: {', '.join(_SIZES)}", "choose one of these"
    raise invalid("train.preset", name, what, expected=expected, fix=f"{fix}; {name} is for task {others}")


def check_task(task: str | None) -> None:
    """Raise ConfigError unless a task is None, built in, or custom (`package.module:Task`)."""
    if task is not None and task not in TASKS and ":" not in task:
        expected = f"{', '.join(TASKS)} or package.module:Class"
        raise invalid("train.task", task, "isn't a task", expected=expected, fix=suggestion(task, TASKS))
