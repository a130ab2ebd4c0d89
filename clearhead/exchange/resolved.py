"""Settings of a model, with a value in place of each default that depends on other settings."""

from typing import Any

from ..config.model_settings import ModelSettings


def resolved(model: ModelSettings) -> dict[str, Any]:
    """Return all settings by their dotted names. Two configurations of the same model give the same values."""
    found = {name: getattr(model, name) for name in model.__dataclass_fields__}
    own_projection = model.tie in ("none", "embeddings")
    defaults = {
        "n_kv_heads": model.n_heads,
        "d_head": model.head_width,
        "attention_dropout": model.dropout,
        "activation_dropout": model.dropout,
        "attention_scale": model.head_width**-0.5,
        "final_norm": model.pre_norm,
        "embedding_scale": model.d_model**0.5,
        "qkv_bias": model.bias,
        "projection_bias": own_projection,
        "start_id": model.bos_id,
    }
    if model.topology == "decoder-only":  # one embedding, tied to the projection or not
        found["tie"] = "none" if own_projection else "target"
    found |= {name: value for name, value in defaults.items() if found[name] is None}
    return {f"model.{name}": value for name, value in found.items()}
