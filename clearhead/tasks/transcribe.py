"""Transcription: from a recording to its text. Only the front end and the reader differ from translation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..config import TASKS, Config
from ..config.front_geometry import position_seconds
from ..data.forms import TRANSCRIPTS, MediaForm
from ..data.media_encoding import MediaEncoder
from ..decode.session import AudioSession, Session
from ..readers.pairs import Pairs, references
from ..readers.skipped import Skipped
from ..scoring.speech_scores import ErrorRate, error_rates
from ..scoring.translation_scores import TokenCounts
from ..tokenization.ragged import Ragged
from .base import EvaluationResult, Units
from .examples import Examples, HeldOut
from .sequences import Sequences, measured_tokens, token_numbers
from .source_reader import MediaReader, Recordings

if TYPE_CHECKING:
    from ..inspection.views.alignment import TokenTiming


@dataclass(frozen=True)
class TranscriptScores:
    """Word and character error rate, exact matches, and token accuracy and perplexity if tokens were counted."""

    wer: ErrorRate
    cer: ErrorRate
    exact_match: float
    token_accuracy: float | None = None
    perplexity: float | None = None

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {"recordings": len(self.wer.edits)}
        for name, it in (("wer", self.wer), ("cer", self.cer)):
            values |= {name: it.rate, f"{name}_interval": [it.low, it.high]}
        return values | {"exact_match": self.exact_match} | measured_tokens(self)


class Transcription(Sequences):
    """Transcribe a recording. The scores are word and character error rates."""

    verb = "transcribe"
    media: ClassVar[Recordings] = Recordings()
    form = MediaForm(TRANSCRIPTS, "audio")
    units = Units("recordings", "target tokens", "transcript", "recordings", "samples")
    title = "A transcription model"
    training_data = "recordings with transcripts"
    usage = "recording.wav"
    modalities = ("audio",)
    subword_dropout = False
    required: ClassVar[dict[str, Any]] = {**TASKS["transcribe"].needs, "data.modality": "audio", "data.joint": True}
    defaults: ClassVar[dict[str, Any]] = {
        **media.defaults,
        "data.tokenizer": "character",
        "data.max_len": 750,  # positions of 40 ms: half a minute
        "data.split": 0.05,
        "decode.max_extra": 10,
        "train.best": "loss",
    }
    unused = ("model.pooling", "model.n_token_types", "model.copy", "data.reverse")
    scores = ("loss", "token_accuracy", "wer", "cer", "exact_match")
    compared_by = ("cer", "wer")

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        return cls.media.derived(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        return cls.media.from_data(data, config)

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        return data.targets

    @property
    def longest(self) -> tuple[int, str]:
        """The maximum positions of a recording, and tokens of a transcript. Longer ones are dropped."""
        return self.media.longest(self.config)

    @property
    def readable(self) -> tuple[int, str]:
        return self.longest

    @cached_property
    def reader(self) -> MediaReader:
        return MediaReader(self.media.loader(self.config), self.config)

    @property
    def stored_as(self) -> tuple[str, str]:
        return self.reader.loader.dtype, super().stored_as[1]

    @property
    def encoder(self) -> MediaEncoder:  # type: ignore[override]
        length, setting = self.longest
        limit = f"longer than {length} positions of 40 ms ({setting})"
        why_not = f"with a transcript longer than {length} tokens ({setting})"
        return MediaEncoder(self.reader.loader, self._targets, why_not, limit, cuts=False)

    @property
    def scorer(self) -> MediaEncoder:  # type: ignore[override]
        return self.encoder

    def _targets(self, texts: Sequence[str]) -> list[list[int] | None]:
        longest = self.longest[0]
        encoded = self.tokenizers.target.encode_batch(texts)
        return [self.special.target(ids) if len(ids) <= longest else None for ids in encoded]

    def examples(self, sides: tuple[Ragged, Ragged]) -> Examples:
        return Examples(*sides, positions=self.reader.positions)

    def hold_out(self, data: Pairs) -> HeldOut:
        """Read recordings for scoring. The loss leaves out those that are too long, and answers begin with them cut."""
        encoder = self.encoder
        found = self.reader.readable(data)
        read = data.take(found.places, "")
        targets, fits, too_long = encoder.targets(read.targets), list[int](), list[Skipped]()
        for row, (cut, target) in enumerate(zip(found.cut, targets)):
            if cut or target is None:
                reason = encoder.limit if cut else encoder.why_not
                too_long.append(Skipped(int(read.lines[row]), reason, str(read.sources[row])))
            else:
                fits.append(row)
        recordings = found.arrays if not too_long else found.arrays.take(np.array(fits, np.int64))
        examples = self.examples((recordings, Ragged([targets[row] or [] for row in fits])))
        rows = {name: row for row, name in enumerate(read.sources)}
        names, right = references(read)
        n_cut = sum(bool(found.cut[rows[name]]) for name in names)
        arrays = [found.arrays.array(rows[name]) for name in names]
        return HeldOut(examples, [*found.unread, *too_long], n_cut, names, right, arrays)

    @property
    def new_session(self) -> Callable[..., Session]:
        return partial(AudioSession, sample_rate=self.config.model.size("sample_rate"))

    def timings(self, model: Any, recording: Any, pieces: Sequence[str]) -> "tuple[TokenTiming, ...]":
        """Return the time at which each token of a transcript was spoken, by the model's cross-attention.

        Args:
            model: an encoder-decoder, as a torch module.
            recording: the name of a file, or samples in memory.
            pieces: the tokens of the transcript, as text.

        Raises:
            ModelError: a custom attention module doesn't report its weights.
        """
        import torch

        from ..inspection.record.recorder import record
        from ..inspection.views.alignment import alignment_layer, timings
        from ..model.transformer import evaluation

        if not pieces:
            return ()
        [samples], _ = self.reader.for_search([recording])
        target, device, rate = self.tokenizers.target, self.config.train.device, self.config.model.size("sample_rate")
        inputs = torch.tensor([[self.special.start, *map(target.token_id, pieces)]], device=device)
        with evaluation(model), torch.inference_mode(), record(model.decoder, limit=None) as trace:
            model(self.reader.tensor(self.reader.joined([samples]), np.arange(1)), inputs)
        layer = alignment_layer(len(model.decoder.blocks))
        weights = trace[f"decoder.{layer}.cross"].weights.values[0].double().mean(0)
        return timings(weights.numpy(force=True), pieces, position_seconds(rate), len(samples) / rate)

    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> EvaluationResult:
        """Score transcripts by their error rates.

        Args:
            held_out: has the correct transcript of each recording.
            answers: one transcript for each recording.
            counts: sums over the target tokens. Without them (None), there's no token accuracy and no perplexity.
        """
        right = [targets[0] for targets in held_out.references]
        wer, cer = error_rates(answers, right)
        exact = np.array([one.split() == other.split() for one, other in zip(answers, right)], np.float64)
        of_counts = (counts.accuracy, counts.perplexity) if counts else ()
        return EvaluationResult(
            TranscriptScores(wer, cer, float(exact.mean()), *of_counts),
            held_out.sources,
            answers,
            held_out.references,
            lambda: {"cer": cer.singly(), "wer": wer.singly(), "exact_match": exact},
        )

    def numbers(self, scores: TranscriptScores) -> dict[str, float]:
        values = {"wer": scores.wer.rate, "cer": scores.cer.rate, "exact_match": scores.exact_match}
        return values | token_numbers(scores)
