"""Classification of images and audio: the encoder of texts with another front end (ViT, Dosovitskiy et al. 2021)."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from ...config import NEWEST, TASKS, Config
from ...data.forms import IMAGES, RECORDINGS, MediaForm
from ...data.media_encoding import MediaEncoder
from ..base import Units, search_settings_but
from ..media_kinds import Images, Recordings
from ..source_reader import MediaReader
from .examples import UNSEEN, label_settings
from .task import Classification

_DEFAULTS: dict[str, Any] = {  # of images and audio alike
    "model.dropout": 0.1,
    "data.split": 0.05,
    "train.best": NEWEST,
    "train.eval_sentences": 5_000,
}


class MediaClassification(Classification):
    """Classification of images or audio."""

    media: ClassVar[Images | Recordings]
    unused = (
        *("data.tokenizer", "data.vocab_size", "data.joint", "data.subword_dropout", "data.texts"),
        *("data.label_kind", "data.normalise", "data.reverse", "model.n_token_types", "model.copy"),
        *search_settings_but("batch_tokens"),
    )

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        return cls.media.derived(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        return {**label_settings(data, config), **cls.media.from_data(data, config)}

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        """Return no texts: there's nothing to learn a tokenizer from."""
        return ()

    @property
    def longest(self) -> tuple[int, str]:
        return self.media.longest(self.config)

    @cached_property
    def reader(self) -> MediaReader:
        return MediaReader(self.media.loader(self.config), self.config)

    @property
    def stored_as(self) -> tuple[str, str]:
        return self.reader.loader.dtype, "<i4"

    @property
    def encoder(self) -> MediaEncoder:
        numbers = {label: number for number, label in enumerate(self.labels)}

        def targets(labels: Sequence[str]) -> list[list[int] | None]:
            return [[numbers[label]] if label in numbers else None for label in labels]

        length, setting = self.longest
        return MediaEncoder(self.reader.loader, targets, UNSEEN, f"longer than {length} positions ({setting})")


class ImageClassification(MediaClassification):
    """Label images."""

    media = Images()
    form = MediaForm(IMAGES, "image")
    units = Units("images", "patches", "label", "images", "pixels")
    title = "An image classifier"
    training_data = "labelled images"
    usage = "image.png"
    modalities = ("image",)
    required: ClassVar[dict[str, Any]] = {**TASKS["classify"].needs, "data.modality": "image"}
    defaults: ClassVar[dict[str, Any]] = {**_DEFAULTS, **media.defaults}
    unused = (*MediaClassification.unused, "data.max_len", "model.max_len")


class AudioClassification(MediaClassification):
    """Label recordings. Longer ones are cut."""

    media = Recordings()
    form = MediaForm(RECORDINGS, "audio")
    units = Units("recordings", "positions", "label", "recordings", "samples")
    title = "An audio classifier"
    training_data = "labelled recordings"
    usage = "recording.wav"
    modalities = ("audio",)
    required: ClassVar[dict[str, Any]] = {**TASKS["classify"].needs, "data.modality": "audio"}
    defaults: ClassVar[dict[str, Any]] = {**_DEFAULTS, **media.defaults, "data.max_len": 250}
