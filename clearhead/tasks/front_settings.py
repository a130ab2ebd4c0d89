"""Settings of the front ends. Each front end uses only its own."""

from collections.abc import Sequence

from ..config import Config, settings
from ..config.notations import AUDIO, IMAGES

_READS = {"tokens": "text", "patches": "image", "frames": "audio"}  # the modality that a front end is for
_OWN = {
    "patches": ("image_size", "image_channels", "patch_size"),
    "frames": ("sample_rate", "n_mels"),
}
_AUGMENTATIONS = {"patches": IMAGES, "frames": AUDIO}


def has_other_front(config: Config, modalities: Sequence[str]) -> bool:
    """Return whether the user chose a built-in front end for data that a task with these modalities doesn't read."""
    return config.is_users("model.front") and not reads(config.model.front, modalities)


def reads(front: str, modalities: Sequence[str]) -> bool:
    """Return whether a front end reads one of these modalities. A custom class is assumed to do so."""
    return _READS.get(front, modalities[0]) in modalities


def without_effect(config: Config) -> str:
    """Return a setting of the user's that the front end doesn't use, or ""."""
    front = config.model.front
    if front not in _READS:  # a custom class may use any of them
        return ""
    others = (f"model.{name}" for kind, names in _OWN.items() if kind != front for name in names)
    fitting = _AUGMENTATIONS.get(front, ())
    if config.is_users("model.augment") and any(it.partition("=")[0] not in fitting for it in config.model.augment):
        return "model.augment"
    given = (it for it in others if config.is_users(it) and config.value(it) != settings()[it].default)
    return next(given, "")
