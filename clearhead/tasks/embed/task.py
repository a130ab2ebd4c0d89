"""Embed texts: an encoder without a head, whose vectors are pooled (Sentence-BERT, Reimers and Gurevych 2019).

The task can't be trained. Its models come from other programs. An encoder of any other task embeds texts too.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from ...config import TASKS, Config, DecodeConfig
from ...data.forms import TextForm
from ...data.running_text import Running
from ...errors import ConfigError
from ...tokenization.ragged import IntArray, Ragged
from ..base import EvaluationResult, Task, Units, check_filled, search_settings_but
from ..denoise.examples import PieceEncoder
from ..examples import Examples, HeldOut
from ..source_reader import longest_text

if TYPE_CHECKING:
    from torch import nn

    from ...inspection.views.explanation import Explanation

_SHOWN = 6  # numbers of the embedding to show


class TextEmbedding(Task):
    """Turn a text into a vector."""

    verb = "embed"
    form = TextForm()
    units = Units("texts", "tokens", "embedding", "texts")
    title = "A text encoder"
    training_data = "texts"
    usage = '"a text"'
    required = TASKS["embed"].needs
    unused = search_settings_but("batch_tokens")
    scores = ()
    searches = False

    @classmethod
    def settle(cls, config: Config) -> Config:
        """Raise ConfigError: no data says what an embedding should be."""
        raise ConfigError(
            "task 'embed' can't be trained on its own, since no text says what its embedding should be",
            expected="a task such as fill or classify, whose encoder `clearhead embed` can use",
            fix="train with `train.task=fill`, then use it with `embed`",
            name="train.task",
            value=cls.verb,
        )

    @classmethod
    def texts(cls, data: Running) -> Sequence[str]:
        return [line for piece in data.pieces for line in piece.split("\n") if line.strip()]

    @property
    def longest(self) -> tuple[int, str]:
        return longest_text(self.config)

    @property
    def encoder(self) -> PieceEncoder:
        """Encodes texts, in pieces that the model can read. There are no targets."""
        source = partial(self.special.source, begins=self.config.model.begins)

        def sides(pieces: Ragged) -> tuple[Ragged, Ragged]:
            return Ragged([source(pieces[i]) for i in range(len(pieces))]), Ragged([[]] * len(pieces))

        return PieceEncoder(self.tokenizers.source, self.longest[0], self.texts, sides)

    def examples(self, sides: tuple[Ragged, Ragged]) -> Examples:
        return Examples(*sides)

    def hold_out(self, data: Running) -> HeldOut:
        """Prepare texts for `verify`."""
        return self.encoder.hold_out(data, Examples)

    def loss(self, model: "nn.Module", examples: Examples, rows: IntArray, *, smoothing: float) -> NoReturn:
        raise self._no_scores()

    def evaluate(self, model: Any, held_out: HeldOut, decode: DecodeConfig) -> EvaluationResult:
        raise self._no_scores()

    def numbers(self, scores: Any) -> dict[str, float]:
        return {}

    def explain(self, model: Any, text: str, decode: DecodeConfig) -> "Explanation":
        """Embed one text and record every step. A long text is truncated.

        Raises:
            DataError: the text is blank.
        """
        import torch

        from ...inspection.explaining import explain
        from ...inspection.record.forward_pass import Pass
        from .sources import embed_batch, reader_of

        check_filled(text)
        [ids], _ = reader_of(self).encode([text])
        inputs = torch.tensor([ids], device=self.config.train.device)
        forward = Pass(model=model, inputs=(inputs,), pieces=self.tokenizers.pieces)
        with forward.recording() as trace:
            vector = embed_batch(model, inputs, self.config)[0]
        shown = ", ".join(f"{value:.4f}" for value in vector[:_SHOWN].tolist())
        answer, values = f"[{shown}{', …' * (len(vector) > _SHOWN)}]", {"length": float(vector.norm())}
        return explain(forward, self.tokenizers, self.config, text, answer, values, trace=trace)

    @classmethod
    def main_score(cls) -> str:
        raise cls._no_scores()

    @classmethod
    def _no_scores(cls) -> ConfigError:
        return ConfigError(
            "a model for `embed` has no scores, since no text says what its embedding should be",
            expected="a model for another task",
            fix="fine-tune it for a task with labels: clearhead train FILE --task classify --init-from DIR --out OTHER",
            name="train.task",
            value=cls.verb,
        )
