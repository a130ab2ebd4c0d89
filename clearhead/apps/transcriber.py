"""A transcriber in use.

app = load("models/calls")
app("call.wav")                             # a path gives a text, a list gives a list
app((samples, 16_000))                      # so do samples with their rate
app.results(["call.wav"], timings=True)     # with scores and tokens, and when each token was said
app.explain("call.wav")                     # with every step of attention
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..tasks.transcribe.task import Transcription
from .answers import Result
from .translator import Translator

if TYPE_CHECKING:
    from ..inspection.media.timings import TokenTiming


@dataclass(frozen=True)
class Transcript(Result):
    """A transcript with the start and end of each of its tokens, in seconds."""

    timings: tuple["TokenTiming", ...] = ()


class Transcriber(Translator):
    """Writes down what is said in recordings. It has all methods of a translator."""

    task: Transcription

    def results(self, texts: Sequence[Any], *, timings: bool = False, **decode: Any) -> list[Result]:
        """Transcribe recordings and return full records in the same order.

        Args:
            texts: paths, or samples with their rate.
            timings: read off the cross-attention when each token was said, and return a `Transcript` for each
                recording. The model then reads each recording once more.
            decode: search settings, and `prefix`.
        """
        found = super().results(texts, **decode)
        if not timings:
            return found
        return [Transcript(**vars(it), timings=self.task.timings(self.model, it.source, it.tokens)) for it in found]
