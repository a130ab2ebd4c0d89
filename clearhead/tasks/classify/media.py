"""Classification of images and audio: the encoder of texts with another front end (ViT, Dosovitskiy et al. 2021)."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from ...config import NEWEST, TASKS, Config
from ...data.media_encoding import AudioLoader, ImageLoader, Loader, MediaEncoder
from ...data.media_forms import IMAGES, RECORDINGS, MediaForm
from ..base import Units, search_settings_but
from ..media_settings import audio_lengths, image_settings, longest_audio, sample_rate_setting
from ..source_reader import MediaReader
from .examples import UNSEEN, label_settings
from .task import Classification

_UNUSED = (
    *("data.tokenizer", "data.vocab_size", "data.joint", "data.subword_dropout", "data.texts"),
    *("data.normalise", "data.reverse", "model.n_token_types", "model.copy"),
)
_DEFAULTS: dict[str, Any] = {  # of images and audio alike
    "model.pre_norm": True,
    "model.dropout": 0.1,
    "model.feed_forward": "gelu",
    "data.split": 0.05,
    "train.best": NEWEST,
    "train.eval_sentences": 5_000,
}


class MediaClassification(Classification):
    """Classification of images or audio. A subclass defines how to read a file."""

    unused = (*_UNUSED, *search_settings_but("batch_tokens"))

    @property
    @abstractmethod
    def loader(self) -> Loader:
        """Reads one file."""

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        """Return no texts: there's nothing to learn a tokenizer from."""
        return ()

    @cached_property
    def reader(self) -> MediaReader:
        return MediaReader(self.loader, self.config)

    @property
    def stored_as(self) -> tuple[str, str]:
        return self.loader.dtype, "<i4"

    @property
    def encoder(self) -> MediaEncoder:
        numbers = {label: number for number, label in enumerate(self.labels)}

        def targets(labels: Sequence[str]) -> list[list[int] | None]:
            return [[numbers[label]] if label in numbers else None for label in labels]

        length, setting = self.longest
        return MediaEncoder(self.loader, targets, UNSEEN, f"longer than {length} positions ({setting})")


class ImageClassification(MediaClassification):
    """Label images. Their positions follow from their size."""

    unused = (*MediaClassification.unused, "data.max_len", "model.max_len")

    form = MediaForm(IMAGES, "image")
    units = Units("images", "patches", "label", "images", "pixels")
    title = "An image classifier"
    training_data = "labelled images"
    usage = "image.png"
    modalities = ("image",)
    required: ClassVar[dict[str, Any]] = {**TASKS["classify"].needs, "data.modality": "image"}
    defaults: ClassVar[dict[str, Any]] = {
        **_DEFAULTS,
        "model.front": "patches",
        "model.positions": "sinusoidal_2d",
        "model.augment": ("shift=2",),
    }

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        """Return nothing: the sizes depend on the images."""
        return {}

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        return {**label_settings(data, config), **image_settings(data, config)}

    @property
    def longest(self) -> tuple[int, str]:
        """The positions of every image."""
        return self.config.model.max_len, "model.max_len"

    @property
    def loader(self) -> ImageLoader:
        model = self.config.model
        return ImageLoader(
            model.size("image_size"), model.size("image_channels"), model.size("patch_size"), model.pooling == "first"
        )


class AudioClassification(MediaClassification):
    """Label recordings."""

    form = MediaForm(RECORDINGS, "audio")
    units = Units("recordings", "positions", "label", "recordings", "samples")
    title = "An audio classifier"
    training_data = "labelled recordings"
    usage = "recording.wav"
    modalities = ("audio",)
    required: ClassVar[dict[str, Any]] = {**TASKS["classify"].needs, "data.modality": "audio"}
    defaults: ClassVar[dict[str, Any]] = {
        **_DEFAULTS,
        "model.front": "frames",
        "model.augment": ("spec_augment=0.2", "speed=0.1"),
        "data.max_len": 250,
    }

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        return audio_lengths(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        return {**label_settings(data, config), **sample_rate_setting(data, config)}

    @property
    def longest(self) -> tuple[int, str]:
        """The maximum positions of a recording; longer recordings are cut."""
        return longest_audio(self.config)

    @property
    def loader(self) -> AudioLoader:
        return AudioLoader(self.config.model.size("sample_rate"), self.longest[0])
