"""Classification of images and audio: the encoder of texts with another front end (ViT, Dosovitskiy et al. 2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ...config import NEWEST, TASKS, Config, DecodeConfig
from ...data.media_encoding import AudioLoader, ImageLoader, Loader, MediaEncoder
from ...data.media_forms import IMAGES, RECORDINGS, MediaForm
from ...decode.model_handle import ModelHandle
from ...readers.pairs import Pairs
from ...readers.skipped import Skipped
from ...tokenization.ragged import IntArray, Ragged
from ..base import EvaluationResult, Units, search_settings_but
from ..media_settings import audio_lengths, image_settings, longest_audio, sample_rate_setting
from ..transfer import on_device
from .examples import UNSEEN, HeldOutTexts, LabelledTexts
from .reading import label_settings
from .scores import LabelScores
from .task import Classification

if TYPE_CHECKING:
    from torch import Tensor, nn

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


@dataclass(frozen=True)
class LabelledArrays(LabelledTexts):
    """Images or recordings as arrays; the target side holds one label number for each."""

    loader: Loader = field(kw_only=True)

    @property
    def source_sizes(self) -> IntArray:
        """The positions of each image or recording in the encoder. (N,)"""
        return self.loader.positions(self.sources.lengths)


class MediaClassification(Classification):
    """Classification of images or audio. A subclass defines how to read a file."""

    answers_text = True
    unused = (*_UNUSED, *search_settings_but("batch_tokens"))

    @property
    def loader(self) -> Loader:
        """Reads one file."""
        raise NotImplementedError

    @property
    def stored_as(self) -> tuple[str, str]:
        """The types of the numbers that a store keeps on both sides."""
        return self.loader.dtype, "<i4"

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        """Return no texts: there's nothing to learn a tokenizer from."""
        return ()

    @property
    def encoder(self) -> MediaEncoder:  # type: ignore[override]
        """The encoder of files and labels."""
        numbers = {label: number for number, label in enumerate(self.labels)}

        def targets(labels: Sequence[str]) -> list[list[int] | None]:
            return [[numbers[label]] if label in numbers else None for label in labels]

        length, setting = self.longest
        limit = f"longer than {length} positions ({setting})"
        return MediaEncoder(self.loader, targets, UNSEEN, limit)

    def examples(self, sides: tuple[Ragged, Ragged]) -> LabelledArrays:
        """Return the examples that a store holds."""
        return LabelledArrays(*sides, loader=self.loader)

    def inputs(self, sources: Ragged, rows: IntArray) -> "Tensor":
        """Return what the front end reads: images (B, C, H, W) or samples (B, N)."""
        return on_device(self.loader.batch(sources, rows), self.config.train.device)

    def ragged(self, encoded: Sequence[Any]) -> Ragged:
        """Return encoded files in one array."""
        return Ragged.joined(encoded, self.loader.dtype)

    def unknown_words(self, source: Any) -> tuple[str, ...]:
        """Return nothing: only a text has words."""
        return ()

    def sizes(self, sources: Ragged) -> IntArray:
        """Return the positions of each image or recording in the encoder."""
        return self.loader.positions(sources.lengths)

    def hold_out(self, data: Pairs) -> HeldOutTexts:
        """Read files for scoring. Those that can't be read are reported, and not scored."""
        known = set(self.labels)
        labels = (*self.labels, *sorted({*data.targets} - known))
        numbers = {label: number for number, label in enumerate(labels)}
        found = self.encoder.readable(data, self.config.train.threads or 1)
        names, targets = ([side[i] for i in found.places] for side in (data.sources, data.targets))
        truth = np.array([numbers[label] for label in targets], np.int64)
        usable = truth < len(self.labels)
        unseen = [
            Skipped(int(data.lines[i]), UNSEEN, f"{data.targets[i]}: {data.sources[i]}")
            for i in found.places
            if data.targets[i] not in known
        ]
        n_cut = int((found.cut > 0).sum())
        arrays = found.arrays if usable.all() else found.arrays.take(np.flatnonzero(usable))
        examples = LabelledArrays(arrays, Ragged([[int(it)] for it in truth[usable]]), loader=self.loader)
        return HeldOutTexts(examples, [*found.unread, *unseen], n_cut, names, found.arrays, labels, truth)

    def evaluate(
        self, model: "ModelHandle | nn.Module", held_out: HeldOutTexts, decode: DecodeConfig
    ) -> EvaluationResult:
        """Label every image or recording and score the labels."""
        judged = super().evaluate(model, held_out, decode)
        return replace(judged, scores=replace(cast(LabelScores, judged.scores), what=self.units.examples))


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
    def check_batch(cls, config: Config) -> None:
        """Leave this to `image_settings`, since the number of patches depends on the images."""

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        """Return the settings for the labels, and for the size of the images."""
        return {**label_settings(data, config), **image_settings(data, config)}

    @property
    def longest(self) -> tuple[int, str]:
        """The positions of every image."""
        return self.config.model.max_len, "model.max_len"

    @property
    def read_as(self) -> tuple[int, ...]:
        """The size and the channels of the images."""
        return self.loader.size, self.loader.channels

    @property
    def loader(self) -> ImageLoader:
        """Reads one image."""
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
        """Return the positions that a slowed-down recording may take."""
        return audio_lengths(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        """Return the settings for the labels, and the sample rate."""
        return {**label_settings(data, config), **sample_rate_setting(data, config)}

    @property
    def longest(self) -> tuple[int, str]:
        """The maximum positions of a recording; longer recordings are cut."""
        return longest_audio(self.config)

    @property
    def read_as(self) -> tuple[int, ...]:
        """The sample rate of the recordings."""
        return (self.loader.sample_rate,)

    @property
    def loader(self) -> AudioLoader:
        """Reads one recording."""
        return AudioLoader(self.config.model.size("sample_rate"), self.longest[0])
