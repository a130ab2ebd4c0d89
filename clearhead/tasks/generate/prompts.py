"""Language modelling on prompts with answers: the loss counts the answers only, unless train.loss_on is "all"."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ...config import Config, DataConfig
from ...data.corpus import LEARN, Corpus, SpacedTexts
from ...data.forms import PairForm
from ...readers.conversations import PROMPTS, Conversations, is_text, plain_text
from ...readers.pairs import Pairs
from ...scoring.bootstrap import FloatArray
from ...tokenization.chat_template import DEFAULT, ChatTemplate
from ...tokenization.ragged import IntArray, Ragged
from ..base import Units
from ..source_reader import tokens_on_device
from .answer_examples import AnswerEncoder, AnswerExamples
from .examples import HeldOutText
from .task import SCORED, Generation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ...model.transformer import Decoder


class ConversationCorpus(Corpus):
    """Prompts with answers. The tokenizer learns from their plain text."""

    def texts(self, most: int = LEARN) -> tuple[SpacedTexts, tuple[()]]:
        return SpacedTexts(self, most, lambda it: plain_text(it[1], it[2])), ()

    @property
    def has_messages(self) -> bool:
        """True if a prompt consists of messages."""
        return any(not is_text(prompt) for _, prompt, _ in self)


class ConversationForm(PairForm):
    """Prompts with answers."""

    def __init__(self) -> None:
        super().__init__(PROMPTS)

    def open(self, paths: Any, data: DataConfig) -> Conversations:  # type: ignore[override]
        return Conversations(paths, data)

    def read(self, paths: Any, data: DataConfig) -> Pairs:
        with self.open(paths, data) as source:
            return Pairs.read(source)

    def divide(self, source: Any, share: float, seed: int) -> ConversationCorpus:
        return ConversationCorpus.of(source, share, seed)

    def preview(self, data: Pairs) -> Iterator[dict[str, str]]:
        yield from ({"prompt": plain_text(it, ""), "answer": to} for it, to in zip(data.sources, data.targets))


class AnswerGeneration(Generation):
    """Answer prompts, with a decoder-only model."""

    form = ConversationForm()  # type: ignore[assignment]
    units = Units("examples", "tokens", "answer", "prompts")
    usage = '"a prompt"'
    training_data = "prompts with answers"
    unused: ClassVar[Sequence[str]] = (
        *(name for name in Generation.unused if name != "data.target_column"),
        *("train.warm_start", "data.texts"),  # a run on texts, and another one from its model, is a warm start
    )
    defaults: ClassVar[dict[str, Any]] = {**Generation.defaults, "train.loss_on": "answer"}

    @classmethod
    def settle(cls, config: Config) -> Config:
        if config.data.template:
            ChatTemplate.read(config.data.template)  # raises an error before any data is read
        return super().settle(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        """Return the default chat template if there are messages, and neither user nor model has another."""
        return {"data.template": DEFAULT} if not config.data.template and data.has_messages else {}

    @classmethod
    def texts(cls, data: Pairs) -> Sequence[str]:
        return list(map(plain_text, data.sources, data.targets))

    @property
    def stored_as(self) -> tuple[str, str]:
        return "<i4", super().stored_as[1]  # spans and tokens

    @property
    def encoder(self) -> AnswerEncoder:  # type: ignore[override]
        config, (longest, limit) = self.config, self.longest
        return AnswerEncoder(
            self.tokenizers.target,
            longest,
            limit,
            template=config.data.template,
            begins=config.model.begins,
            loss_on=config.train.loss_on or "answer",
        )

    def examples(self, sides: tuple[Ragged, Ragged]) -> AnswerExamples:  # type: ignore[override]
        return AnswerExamples(*sides)

    def hold_out(self, data: Pairs) -> HeldOutText:  # type: ignore[override]
        encoded, tokenizer = self.encoder(data), self.tokenizers.target
        examples = AnswerExamples(encoded.sources, encoded.targets)
        predicted = [examples.predicted_tokens(row) for row in range(len(examples))]
        text = "".join(tokenizer.decode_batch(predicted))
        unknown = sum(ids.count(self.special.unk) for ids in predicted if self.special.unk is not None)
        return HeldOutText(
            examples,
            encoded.skipped,
            0,
            [plain_text(data.sources[i], "") for i in encoded.kept],
            (),
            characters=max(1, len(text) + unknown),  # decoding leaves unknown characters out
            bytes=max(1, len(text.encode()) + unknown),
            unknown=unknown,
        )

    def loss(self, model: "nn.Module", examples: AnswerExamples, rows: IntArray, *, smoothing: float) -> "Tensor":  # type: ignore[override]
        import torch

        from ..loss import projected_cross_entropy

        text, places = self._batch(examples, rows)
        states, outputs = model(text[:, :-1], states=True).flatten(0, 1), text[:, 1:].flatten()
        index = torch.from_numpy(places).to(text.device)
        projection, pad = cast("Decoder", model).projection, self.special.pad
        return projected_cross_entropy(states[index], projection, outputs[index], smoothing=smoothing, pad=pad)

    def losses(self, model: "nn.Module", examples: AnswerExamples) -> tuple[FloatArray, int, int]:  # type: ignore[override]
        """Return -log p of the answers of each example, the number of tokens, and how many are predicted correctly."""
        import torch

        from ...model.transformer import evaluation
        from ..loss import log_probability_of

        n_tokens, right, found = 0, 0, np.zeros(len(examples))
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(SCORED).epoch(0):
                text, places = self._batch(examples, rows)
                index = torch.from_numpy(places).to(text.device)
                logits = model(text[:, :-1]).flatten(0, 1)[index].float()
                outputs = text[:, 1:].flatten()[index]
                log_p = log_probability_of(outputs[:, None], logits.log_softmax(-1))[:, 0].double().cpu().numpy()
                np.subtract.at(found, rows[places // (text.size(1) - 1)], log_p)
                n_tokens, right = n_tokens + len(places), right + int((logits.argmax(-1) == outputs).sum())
        return found, n_tokens, right

    def _batch(self, examples: AnswerExamples, rows: IntArray) -> tuple["Tensor", IntArray]:
        """Return the tokens of examples, and the predicted ones' indices in text[:, 1:]. (B, T + 1), (N,)

        Nothing attends to the padding on the right, since a token only attends to earlier ones.
        """
        padded = examples.targets.padded(rows, self.special.pad)
        device, size = self.config.train.device, self.config.model.tgt_vocab_size
        text = tokens_on_device(padded, device, size, self.special.pad)
        return text, examples.places(rows, padded.shape[1] - 1)
