"""Language modelling: predict each token of running text from those before it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ...config import TASKS, Config, DecodeConfig
from ...data.forms import TextForm
from ...data.running_text import Running
from ...decode.beams import Hypothesis
from ...decode.continuation import StoppingCriteria, TextGenerator
from ...decode.engine import WindowedEngine
from ...decode.model_handle import ModelHandle, as_handle, as_module
from ...decode.registry import IN_MEMORY, open_engine
from ...decode.session import Session
from ...errors import ConfigError, DataError
from ...scoring.bootstrap import Comparison, FloatArray
from ...tokenization.chat_template import ChatEncoder, ChatTemplate, Messages
from ...tokenization.offsets import unknown_texts
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import StreamingDetokenizer
from ..base import EvaluationResult, Task, Units, rotary_positions
from ..source_reader import tokens_on_device
from .examples import Blocks, HeldOutText, TextEncoder, TextScores

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ...inspection.views.explanation import Explanation
    from ...model.transformer import Decoder

SCORED = 4096  # tokens in a batch without gradients
_CONTINUATION = 20  # tokens to explain, unless decode.max_len is set


class Generation(Task):
    """Continue a text, with a decoder-only model."""

    verb = "generate"
    form = TextForm()
    units = Units("blocks", "tokens", "continuation", "blocks")
    title = "A language model"
    training_data = "blocks of text"
    usage = '"once upon a time"'
    required = TASKS["generate"].needs
    defaults: ClassVar[dict[str, Any]] = {
        "data.normalise": (),
        "data.max_len": 256,
        "model.pre_norm": True,
        "model.feed_forward": "swiglu",
        "model.tie": "none",
        "train.label_smoothing": 0.0,
        "decode.sample": True,
        "decode.beam": 1,
    }
    unused: ClassVar[Sequence[str]] = (
        *("data.target_column", "data.separator", "data.reverse", "model.pooling", "model.n_token_types"),
        "model.normalize",
        "train.hidden_span",  # a language model doesn't mask
        *("decode.max_ratio", "decode.min_ratio"),  # there is no source
    )
    scores = ("loss", "token_accuracy")
    compared_by = ("bits_per_byte",)
    searches = False
    has_prompts = True

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        """Return the settings for a model that reads one training block at a time, with rotary positions."""
        return {"model.max_len": config.data.max_len} | rotary_positions(config)

    @property
    def encoder(self) -> TextEncoder:
        return TextEncoder(self.tokenizers.target, self.special)

    def examples(self, sides: tuple[Ragged, Ragged]) -> Blocks:
        """Return the text of a store in blocks. Raise DataError if the text is shorter than one block."""
        longest, limit = self.longest
        blocks = Blocks(sides[1], longest, self.special.pad)
        if not len(blocks):
            what = f"the training text has only {len(sides[1].tokens):,} tokens"
            expected = f"more than {longest}, the length of a block"
            raise DataError(what, expected=expected, fix=f"add text, or lower --{limit}", name=limit, value=longest)
        return blocks

    def hold_out(self, data: Running) -> HeldOutText:
        """Prepare text for scoring, in consecutive blocks. Every token is predicted once, the first one from BOS."""
        begun = replace(data, pieces=[replace(it, first=True) for it in data.pieces[:1]] + data.pieces[1:])
        blocks = Blocks(self.encoder(begun).targets, self.longest[0], self.special.pad, rest=True)
        tokenizer, tokens = self.tokenizers.target, blocks.documents.tokens
        text = "".join(map(tokenizer.normalize, data.texts))  # the model predicts normalized text
        decode = tokenizer.decode
        sources = [decode(np.asarray(tokens[i + 1 : i + 1 + blocks.length]).tolist()) for i in blocks.starts]
        unknown = int(np.isin(tokens, [] if self.special.unk is None else [self.special.unk]).sum())
        n, n_bytes = len(text), len(text.encode())
        return HeldOutText(blocks, [], 0, sources, (), characters=n, bytes=n_bytes, unknown=unknown)

    def loss(self, model: "nn.Module", examples: Blocks, rows: IntArray, *, smoothing: float) -> "Tensor":
        """Return the cross-entropy, summed over all tokens of these blocks.

        Args:
            model: a decoder-only model.
            examples: text in blocks.
            rows: the positions at which the blocks of the batch begin (B,).
            smoothing: amount of label smoothing, spread over the vocabulary.
        """
        from ..loss import projected_cross_entropy

        blocks, pad, device = examples.at(rows, examples.length), self.special.pad, self.config.train.device
        text = tokens_on_device(blocks, device, self.config.model.tgt_vocab_size, pad)
        states, outputs = model(text[:, :-1], states=True).flatten(0, 1), text[:, 1:].flatten()
        projection = cast("Decoder", model).projection
        return projected_cross_entropy(states, projection, outputs, smoothing=smoothing, pad=pad)

    def losses(self, model: "nn.Module", blocks: Blocks) -> tuple[FloatArray, int, int]:
        """Return -log p of each block in nats, the number of tokens, and how many are predicted correctly."""
        import torch

        from ...model.transformer import evaluation
        from ..loss import log_probability_of

        n_tokens, right, found, starts = 0, 0, [], blocks.starts
        together = max(SCORED // blocks.length, 1)
        with evaluation(model), torch.inference_mode():
            for i in range(0, len(starts), together):
                rows = blocks.at(starts[i : i + together], blocks.length)
                text = torch.from_numpy(rows).to(self.config.train.device)
                logits, outputs = model(text[:, :-1]), text[:, 1:]
                real = outputs != self.special.pad
                log_p = log_probability_of(outputs[..., None], logits.float().log_softmax(-1))[..., 0]
                found.append((-log_p * real).double().sum(-1).cpu().numpy())
                n_tokens += int(real.sum())
                right += int(((logits.argmax(-1) == outputs) & real).sum())
        return np.concatenate(found), n_tokens, right

    def evaluate(
        self, model: "ModelHandle | nn.Module", held_out: HeldOutText, decode: DecodeConfig
    ) -> EvaluationResult:
        """Score how well the model predicts the text. Nothing is generated.

        Args:
            model: a torch module or a handle of a loaded model.
            held_out: text in consecutive blocks.
            decode: not used, as nothing is generated.
        """
        nats, n_tokens, right = self.losses(as_module(model), held_out.examples)
        total = float(nats.sum())
        scores = TextScores(
            characters=held_out.characters,
            bits_per_byte=total / math.log(2) / held_out.bytes,
            nats_per_character=total / held_out.characters,
            loss=total / n_tokens,
            perplexity=math.exp(min(total / n_tokens, 700)),
            token_accuracy=right / n_tokens,
            unknown=held_out.unknown,
        )
        of_block = nats / math.log(2) * len(nats) / held_out.bytes  # their mean is the score of the whole text
        return EvaluationResult(scores, held_out.sources, (), (), lambda: {"bits_per_byte": of_block})

    def numbers(self, scores: TextScores) -> dict[str, float]:
        names = ("loss", "bits_per_byte", "token_accuracy")
        return {name: getattr(scores, name) for name in names}

    def compare(self, systems: Sequence[tuple[str, EvaluationResult]]) -> Comparison:
        """Compare several models with the first one, block by block.

        Raises:
            ConfigError: the models cut the text into different blocks.
        """
        if len({tuple(it.sources) for _, it in systems}) > 1:
            what = "the models read the text in different blocks, so the blocks can't be compared"
            expected = "models with the same tokenizer and data.max_len"
            fix = "evaluate each model alone, and compare bits per byte"
            raise ConfigError(what, expected=expected, fix=fix, name="data.max_len")
        return super().compare(systems)

    def generator(
        self, model: "ModelHandle | nn.Module", decode: DecodeConfig, stopping: StoppingCriteria | None = None
    ) -> TextGenerator:
        """Return a text generator that runs the model in the engine `decode.engine`.

        Args:
            model: a torch module or a handle of a loaded model.
            decode: settings of sampling and search.
            stopping: where to end texts besides the end token (default: nowhere).

        Raises:
            ConfigError: the engine can't run the model, or doesn't support one of the settings.
            DataError: a token to suppress isn't in the vocabulary.
        """
        engine = open_engine(as_handle(model, self.config.model), decode)
        tokenizer, begins = self.tokenizers.target, self.config.model.begins
        return TextGenerator(
            cast(WindowedEngine, engine), tokenizer, decode, begins=begins, chat=self.chat, stopping=stopping
        )

    @cached_property
    def chat(self) -> ChatEncoder | None:
        """The encoder of conversations, or None if the model has no chat template."""
        template = self.config.data.template
        return ChatEncoder(ChatTemplate.read(template), self.tokenizers.target) if template else None

    def answers(self, model: Any, texts: Sequence[str], decode: DecodeConfig) -> list[str]:
        """Return each text with its continuation.

        Args:
            model: a torch module or a handle of a loaded model.
            texts: the beginnings.
            decode: settings of sampling and search.
        """
        generator = self.generator(model, decode)
        found = generator.records(generator.read(texts))
        return [text + best.text for text, (best, *_) in zip(texts, found)]

    def explain(
        self, model: Any, text: str | Messages, decode: DecodeConfig, prefix: Sequence[int] = ()
    ) -> "Explanation":
        """Continue one text, or answer a conversation, and record every step. It starts with the tokens of `prefix`.

        Args:
            model: a torch module.
            text: a raw text, or messages if the model has a chat template.
            decode: settings of sampling and search.
            prefix: token ids that the continuation starts with.

        Raises:
            DataError: the text and its continuation exceed `model.max_len`, or the text has characters that aren't in
                the vocabulary.
        """
        import torch

        from ...inspection.explaining import explain
        from ...inspection.record.forward_pass import Pass
        from ...inspection.views.contrast import Words
        from ...inspection.views.search_tree import SearchTree

        target, search = self.tokenizers.target, replace(decode, engine=IN_MEMORY)  # recording watches torch modules
        read = self.generator(model, search).prompt(text)
        prompt = read or [self.special.bos]
        search, session = self._one_window(model, search, len(prompt))
        tree = SearchTree.of(session, target.pieces)
        shown = text if isinstance(text, str) else "".join(f"{it['role']}: {it['content']}\n" for it in text)
        with tree.watching(model):
            [hypotheses] = session.answers([read], tree.observe, prefix)

        def whole(best: Hypothesis) -> str:
            return shown + StreamingDetokenizer(target, prompt).add(best.ids)

        def again(*, greedy: bool = False) -> tuple[str, float]:
            one = replace(search, beam=1, n_best=1)
            other = self._one_window(model, one, len(prompt))[1] if greedy else session
            [[first, *_]] = other.answers([read], prefix=prefix)
            return whole(first), first.score

        best, begins = hypotheses[0], len(prompt) - 1
        said = [*prompt[1:], *best.ids, *best.last(self.special.eos)]
        inputs, new = [*prompt, *best.ids][: len(said)], said[begins:]
        tokens = torch.tensor([inputs], device=self.config.train.device)
        forward = Pass(model=model, inputs=(tokens,), pieces=self.tokenizers.pieces, targets=new,
                       said=target.pieces(new), hidden=self.special.unk, answer=again)  # fmt: skip
        explanation = explain(
            forward,
            self.tokenizers,
            replace(self.config, decode=search),
            shown,
            whole(best),
            {"score": best.score, "log_probability": best.log_probability},
            choice=Words.of_tokens(said, target, begins),
            search=None if session.diverse else tree.finish(hypotheses, target.decode),
            unknown=unknown_texts(target, shown),
        )
        forced = range(min(len(prefix), len(new)))
        return replace(explanation, prefix=tuple(prefix), forced=tuple(forced))

    def _one_window(self, model: Any, search: DecodeConfig, size: int) -> tuple[DecodeConfig, Session]:
        """Return settings and a session to continue `size` tokens in one window. Raise DataError if they don't fit."""
        block = self.config.model.max_len
        if search.max_len is None:
            search = replace(search, max_len=max(min(_CONTINUATION, block - size), search.min_len, 1))
        session = self.generator(model, search).session
        if size + session.limit > block:
            what = f"the text has {size:,} tokens; with {session.limit:,} more, that exceeds model.max_len={block}"
            raise DataError(what, fix="give a shorter text, or lower decode.max_len", name="text", value=size)
        return search, session

    def check_search(self, model: "nn.Module") -> None:
        self.tokenizers.target.suppressed(self.config.decode)
