"""Speech synthesis: from a text to the codes of its recording. Only the vocabulary of targets isn't a translator's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..config import TASKS, Config
from ..config.front_geometry import position_seconds
from ..data.corpus import Corpus, origin_of
from ..data.media_encoding import AudioLoader, MediaEncoder
from ..data.spoken_pairs import CodeReader, SpokenEncoder, SpokenForm, learn_codebook
from ..errors import DataError, ModelError
from ..readers.pairs import Pairs, references
from ..scoring.bootstrap import Estimate, FloatArray, estimates
from ..scoring.speech_scores import mel_distortion
from ..scoring.translation_scores import TokenCounts
from ..tokenization.codebook import Codebook, Samples
from ..tokenization.source_and_target import Tokenizers
from ..tokenization.tokenizer import Tokenizer
from .base import EvaluationResult, Units
from .examples import Examples, HeldOut
from .sequences import Sequences, measured_tokens, token_numbers
from .source_reader import Recordings

_RECORDINGS = Recordings(side=2)
_CODES = 1024  # default of data.vocab_size
_LONGER = 1.5  # how much longer than the longest recording an answer can be that doesn't come to an end by itself


@dataclass(frozen=True)
class SpeechScores:
    """The distortion of each recording in dB, and token accuracy and perplexity if tokens were counted."""

    distortion: Estimate
    token_accuracy: float | None = None
    perplexity: float | None = None

    def to_dict(self) -> dict[str, Any]:
        distortion = self.distortion.named("mel_distortion")
        return {"texts": len(self.distortion.values), **distortion, **measured_tokens(self)}


def _learn(corpus: Corpus, config: Config) -> Tokenizers:
    """Learn a vocabulary from the texts, and a codebook from the recordings."""
    texts, _ = corpus.texts()
    audio = AudioLoader(config.model.size("sample_rate"), config.data.max_len)
    codebook = learn_codebook(corpus, audio, config.model.n_mels, config.data.vocab_size or _CODES)
    return Tokenizers(Tokenizer.train(texts, config.data), codebook)


class Speech(Sequences):
    """Speak texts. The distance between spectrograms is the score."""

    verb = "speak"
    form = SpokenForm()
    units = Units("texts", "codes", "codes", "texts")
    title = "A speech synthesis model"
    training_data = "texts with recordings"
    usage = '"a text" --out spoken.wav'
    subword_dropout = False
    learn = staticmethod(_learn)
    required: ClassVar[dict[str, Any]] = {**TASKS["speak"].needs, "data.modality": "text", "data.joint": False}
    defaults: ClassVar[dict[str, Any]] = {
        "model.sample_rate": None,  # that of the recordings
        "model.n_mels": 40,
        "data.tokenizer": "character",
        "data.vocab_size": _CODES,
        "data.max_len": 750,  # codes of 40 ms: half a minute
        "data.split": 0.05,
        "decode.min_len": 1,
        "decode.beam": 1,  # searching for likelier codes finds monotonous ones
        "train.best": "loss",
    }
    unused = ("model.pooling", "model.n_token_types", "model.copy", "data.reverse", "train.warm_start")
    scores = ("loss", "token_accuracy", "mel_distortion")
    compared_by = ("mel_distortion",)

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        """Return the limits for an answer, which has far more codes than its text has tokens."""
        longest = max(config.data.max_len, config.decode.min_len)
        return {"decode.max_len": longest, "decode.max_extra": longest}

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        voices = {text.split()[0] for text in data.texts()[0]} if data.source.has_voices else ()
        found = {**origin_of(data, config), **_RECORDINGS.from_data(data, config), "data.labels": tuple(sorted(voices))}
        if config.is_users("decode.max_len"):
            return found
        rate = config.model.sample_rate or found["model.sample_rate"]
        usual = min(round(_LONGER * _RECORDINGS.seconds(data) / position_seconds(rate)), config.data.max_len)
        return {**found, "decode.max_len": max(usual, config.decode.min_len)}

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        return data.sources

    @property
    def codebook(self) -> Codebook:
        """The codes of the model's answers.

        Raises:
            ModelError: the model was trained for another task.
        """
        if not isinstance(self.tokenizers.target, Codebook):
            what, expected = "the model's vocabulary has no codebook, so it can't speak", "a model trained for `speak`"
            raise ModelError(
                what, expected=expected, fix="to train one, leave out `train.init_from`", name="tokenizer.json"
            )
        return self.tokenizers.target

    @cached_property
    def audio(self) -> AudioLoader:
        """Reads recordings at the sample rate of the codebook."""
        return AudioLoader(self.codebook.sample_rate, self.longest[0])

    @property
    def encoder(self) -> SpokenEncoder:  # type: ignore[override]
        length, setting = self.longest
        codes = CodeReader(self.audio, self.codebook, self.stored_as[1])
        why_not = f"longer than {length} tokens ({setting})"
        limit = f"with a recording longer than {length} codes of 40 ms ({setting})"
        return SpokenEncoder(MediaEncoder(codes, self._sources, why_not, limit, cuts=False))

    @property
    def scorer(self) -> SpokenEncoder:  # type: ignore[override]
        return self.encoder

    def _sources(self, texts: Sequence[str]) -> list[list[int] | None]:
        longest, model = self.longest[0], self.config.model
        encoded = self.tokenizers.source.encode_batch(texts)
        return [self.special.source(ids, begins=model.begins) if len(ids) <= longest else None for ids in encoded]

    def hold_out(self, data: Pairs) -> HeldOut:
        """Prepare texts for scoring. Those without a usable recording are left out."""
        found = self.encoder(data)
        sources, recordings = references(data.take(found.kept, ""))
        return HeldOut(Examples(found.sources, found.targets), found.skipped, 0, sources, recordings)

    def samples(self, codes: str) -> Samples:
        """Return the sound of codes, as an answer spells them. -> (N,)"""
        return self.codebook.samples(self.codebook.encode(codes))

    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> EvaluationResult:
        """Score answers by their distance from the recordings. Raise DataError if there are none.

        Args:
            held_out: has the recordings of each text.
            answers: the codes of each text, as text.
            counts: sums over the codes. Without them (None), there's no token accuracy and no perplexity.
        """
        if not answers:
            why = f": they're {held_out.too_long[0].reason}" if held_out.too_long else ""
            raise DataError(f"no texts can be scored{why}", expected="shorter texts and recordings", name="data")
        distances = np.array(list(map(self._distortion, answers, held_out.references)))
        of_counts = (counts.accuracy, counts.perplexity) if counts else ()
        [distortion] = estimates(distances[:, None])
        values: dict[str, FloatArray] = {"mel_distortion": distances}
        return EvaluationResult(
            SpeechScores(distortion, *of_counts), held_out.sources, answers, held_out.references, lambda: values
        )

    def _distortion(self, codes: str, recordings: Sequence[str]) -> float:
        """Return the distortion compared with the most similar recording. No codes count as silence."""
        found = self.codebook.spectrogram(self.codebook.encode(codes))
        spoken = found if len(found) else self.codebook.patches_of(np.zeros(1, np.int16))
        return min(mel_distortion(spoken, self.codebook.patches_of(self.audio(it)[0])) for it in recordings)

    def numbers(self, scores: SpeechScores) -> dict[str, float]:
        return {"mel_distortion": scores.distortion.mean} | token_numbers(scores)
