"""Embed texts: an encoder without a head, whose vectors are pooled (Sentence-BERT, Reimers and Gurevych 2019).

The task can't be trained. Its models come from other programs. An encoder of any other task embeds texts too.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..config import TASKS, Config, DecodeConfig
from ..config.values import require
from ..data.batches import Batches
from ..data.forms import TextForm
from ..data.running_text import Running
from ..decode.model_handle import ModelHandle, as_module
from ..errors import ConfigError
from ..model.heads import pool
from ..model.transformer import Encoder, evaluation
from ..tokenization.ragged import IntArray, Ragged
from .base import EvaluationResult, Task, Units, check_filled, search_settings_but
from .classify.task import Classification
from .denoise import PieceEncoder
from .examples import Examples, HeldOut
from .sequences import Sequences
from .source_reader import SourceReader, TextReader, longest_text
from .transcribe import Transcription

if TYPE_CHECKING:
    from ..inspection.views.explanation import Explanation

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
        what = "task 'embed' can't be trained on its own, since no text says what its embedding should be"
        expected = "a task such as fill or classify, whose encoder `clearhead embed` can use"
        fix = "train with `train.task=fill`, then use it with `embed`"
        raise ConfigError(what, expected=expected, fix=fix, name="train.task", value=cls.verb)

    @classmethod
    def texts(cls, data: Running) -> Sequence[str]:
        return [line for text in data.texts for line in text.split("\n") if line.strip()]

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

    def loss(self, model: nn.Module, examples: Examples, rows: IntArray, *, smoothing: float) -> NoReturn:
        """Raise ConfigError: there's nothing to learn from.

        Args:
            model, examples, rows, smoothing: see `Task.loss`.
        """
        raise self._no_scores()

    def evaluate(self, model: Any, held_out: HeldOut, decode: DecodeConfig) -> EvaluationResult:
        """Raise ConfigError: embeddings have no scores.

        Args:
            model, held_out, decode: see `Task.evaluate`.
        """
        raise self._no_scores()

    def numbers(self, scores: Any) -> dict[str, float]:
        return {}

    def explain(self, model: Any, text: str, decode: DecodeConfig) -> "Explanation":
        """Embed one text and record every step. A long text is truncated. Raise DataError if the text is blank.

        Args:
            model: a torch module.
            text: a raw text.
            decode: not used, as there's no search.
        """
        from ..inspection.explaining import explain
        from ..inspection.record.forward_pass import Pass

        check_filled(text)
        [ids], _ = reader_of(self).encode([text])
        inputs = torch.tensor([ids], device=self.config.train.device)
        forward = Pass(model=model, inputs=(inputs,), pieces=self.tokenizers.pieces)
        with forward.recording() as trace:
            vector = _embed_batch(model, inputs, self.config)[0]
        shown = ", ".join(f"{value:.4f}" for value in vector[:_SHOWN].tolist())
        answer, values = f"[{shown}{', …' * (len(vector) > _SHOWN)}]", {"length": float(vector.norm())}
        return explain(forward, self.tokenizers, self.config, text, answer, values, trace=trace)

    @classmethod
    def main_score(cls) -> str:
        raise cls._no_scores()

    @classmethod
    def _no_scores(cls) -> ConfigError:
        what = "a model for `embed` has no scores, since no text says what its embedding should be"
        fix = "fine-tune it for a task with labels: clearhead train FILE --task classify --init-from DIR --out OTHER"
        return ConfigError(what, expected="a model for another task", fix=fix, name="train.task", value=cls.verb)


def embed_sources(
    task: Task, model: ModelHandle | nn.Module, sources: Sequence[Any], config: Config
) -> NDArray[np.float32]:
    """Embed texts, images or recordings with the settings in `config`, and return the vectors. (N, D)

    Args:
        task: reads the sources.
        model: a torch module or a handle of a loaded model.
        sources: raw texts, or names of files.
        config: model.pooling, model.normalize and decode.batch_tokens are used.

    Raises:
        ConfigError: the model has no encoder, or a custom task reads images or recordings.
    """
    from ..inspection.record.parts import stacks

    reader = reader_of(task)
    encoded = reader.joined(reader.encode(sources)[0])
    if config.model.topology == "decoder-only":
        what = "a decoder-only model has no encoder, so it can't embed texts"
        expected = "a model for another task than `generate`"
        fix = "train an encoder on the same text with `train.task=fill`"
        raise ConfigError(what, expected=expected, fix=fix, name="model.topology", value=config.model.topology)
    encoder = stacks(as_module(model))["encoder"]
    assert isinstance(encoder, Encoder)
    sizes = reader.positions(encoded.lengths)
    found = np.zeros((len(sizes), encoder.d_model), np.float32)
    with evaluation(encoder), torch.inference_mode():
        for rows in Batches(sizes, np.zeros_like(sizes), config.decode.batch_tokens).epoch(0):
            vectors = _embed_batch(encoder, reader.tensor(encoded, rows), config)
            found[rows] = vectors.float().cpu().numpy()
    return found


def _embed_batch(encoder: Encoder, inputs: Tensor, config: Config) -> Tensor:
    """Return the embeddings of what the encoder's front end reads. (B, S) -> (B, D)"""
    mask = encoder.embedding.mask(inputs)
    x = encoder(inputs, mask=mask)
    real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask[:, 0, 0]
    pooled = pool(x, real, config.model.pooling)
    return torch.nn.functional.normalize(pooled, dim=-1) if config.model.normalize else pooled


def reader_of(task: Task) -> SourceReader:
    """Return the reader for sources to embed. Long ones are truncated.

    Raises:
        ConfigError: a custom task reads images or recordings.
    """
    if isinstance(task, Classification | Transcription):
        return task.reader
    model = task.config.model
    what = "doesn't read texts, and its custom task has no embeddings"
    require(model.front == "tokens", "model.front", model.front, "a task derived from a built-in one", what=what)
    begins = model.begins or model.head == "span"  # a question begins with BOS
    longest = model.max_len - 1 - begins
    if not isinstance(task, Sequences):  # they read texts longer than those in training
        longest = min(task.config.data.max_len, longest)
    return TextReader(task.tokenizers.source, longest, begins, task.config)
