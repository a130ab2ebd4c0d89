"""Learning from text alone: what the examples are, and what the loss counts."""

import numpy as np
import pytest
import torch

from clearhead.config import Config, DataConfig
from clearhead.errors import ConfigError
from clearhead.model.transformer import EncoderModel, build
from clearhead.readers.pairs import Pairs
from clearhead.readers.skipped import Report
from clearhead.tasks.denoise import MaskedSpans, MaskedTokens, denoising
from clearhead.tasks.registry import task_named
from clearhead.tokenization.source_and_target import Tokenizers, train_tokenizers

BOS, EOS, UNK = 1, 2, 3  # the special tokens of a new vocabulary

TEXTS = ["one two three four five six seven", "two four six", "seven five three one"]
OTHERS = ["uno dos tres", "dos cuatro", "siete"]


def pairs() -> Pairs:
    return Pairs.of(zip(range(1, 4), TEXTS, OTHERS), Report(()))


def settings(changes: dict[str, object]) -> Config:
    base = {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32, "model.dropout": 0.0, "train.device": "cpu"}
    layers = {"model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "data.tokenizer": "word"}
    return Config().override(base | layers | changes)


def tokenizers(data: DataConfig) -> Tokenizers:
    return train_tokenizers(TEXTS, OTHERS, data)


def hidden_tokens(changes: dict[str, object] | None = None) -> MaskedTokens:
    config = settings(
        {"model.topology": "encoder-only", "model.head": "token", "train.task": "classify", "train.hidden_span": 1}
        | (changes or {})
    )
    task = denoising(task_named("classify"))(tokenizers(config.data), config)
    assert isinstance(task, MaskedTokens)
    return task


def hidden_spans(changes: dict[str, object] | None = None) -> MaskedSpans:
    config = settings({"train.task": "translate", "train.hidden_span": 3} | (changes or {}))
    task = denoising(task_named("translate"))(tokenizers(config.data), config)
    assert isinstance(task, MaskedSpans)
    return task


def a_model(task: MaskedTokens | MaskedSpans) -> torch.nn.Module:
    torch.manual_seed(0)
    size = task.tokenizers.source.vocab_size
    return build(task.config.override({"model.src_vocab_size": size, "model.tgt_vocab_size": size}).model)


def test_a_classifier_learns_from_its_texts_and_not_from_its_labels() -> None:
    task = hidden_tokens()
    found = task.encoder(pairs())
    assert [task.tokenizers.source.decode(found.sources[i]) for i in range(len(found.sources))] == TEXTS
    assert found.sources[0][-1] == EOS and BOS not in found.sources[0]


def test_a_translator_learns_from_the_texts_of_both_sides() -> None:
    task = hidden_spans()
    found = task.encoder(pairs())
    wholes = [task.tokenizers.target.decode(found.targets[i]) for i in range(len(found.targets))]
    assert wholes == TEXTS + OTHERS
    assert found.targets[0][0] == BOS and found.targets[0][-1] == found.sources[0][-1] == EOS
    assert UNK in found.sources[0] and UNK not in found.targets[0]


def test_what_is_read_from_its_first_token_has_one_before_it() -> None:
    found = hidden_tokens({"model.pooling": "first"}).encoder(pairs())
    assert found.sources[1][0] == BOS and found.sources[1][-1] == EOS


@pytest.mark.parametrize("make", [hidden_tokens, hidden_spans])
def test_a_long_text_is_several_pieces_and_nothing_of_it_is_lost(make) -> None:
    task = make({"data.max_len": 3})
    found = task.encoder(pairs())
    side = found.sources if make is hidden_tokens else found.targets
    text = [token for i in range(3) for token in side[i] if token not in (BOS, EOS)]
    assert task.tokenizers.source.decode(text) == TEXTS[0]
    assert max(len(side[i]) for i in range(len(side))) <= 3 + 2


def test_the_loss_counts_what_is_to_be_found_and_nothing_else() -> None:
    task = hidden_tokens()
    model = a_model(task).eval()
    assert isinstance(model, EncoderModel)
    found = task.encoder(pairs())
    examples, rows = task.examples((found.sources, found.targets)), np.arange(3)
    seen: dict[str, torch.Tensor] = {}
    whole = type(model).forward

    def watched(tokens, types=None, *, at=None):
        seen.update(tokens=tokens, at=at)
        return whole(model, tokens, types, at=at)

    model.forward = watched  # type: ignore[method-assign]
    torch.manual_seed(3)
    loss = task.loss(model, examples, rows, smoothing=0.0)
    real = torch.from_numpy(examples.sources.padded(rows, 0))
    log_p = model.head.projection(model.encoder(seen["tokens"], mask=(seen["tokens"] != 0)[:, None, None])).log_softmax(
        -1
    )
    places = [divmod(int(it), real.size(1)) for it in seen["at"]]
    expected = sum(-log_p[b, s, real[b, s]] for b, s in places)
    torch.testing.assert_close(loss, torch.as_tensor(expected))
    assert len(set(places)) == examples.batches(100).predictions(rows)


def test_training_hides_anew_by_torchs_generator_and_scoring_the_same_always() -> None:
    task = hidden_tokens()
    model = a_model(task)
    held_out = task.hold_out(pairs())
    rows = np.arange(3)

    def loss(seed: int) -> float:
        torch.manual_seed(seed)
        return task.loss(model, held_out.examples, rows, smoothing=0.0).item()

    def scores(seed: int) -> object:
        torch.manual_seed(seed)
        return task.evaluate(model, held_out, task.config.decode).scores

    assert loss(1) == loss(1) != loss(2)
    assert scores(1) == scores(2)


def test_each_epoch_hides_other_spans_of_the_same_texts() -> None:
    task = hidden_spans()
    found = task.encoder(pairs())
    fresh = task.each_epoch(task.examples((found.sources, found.targets)))
    first, again, second = fresh(1), fresh(1), fresh(2)
    assert first.sources.tokens.tolist() == again.sources.tokens.tolist() != second.sources.tokens.tolist()
    assert first.targets is second.targets is found.targets
    assert all(first.sources[i][-1] == EOS for i in range(len(first)))


@pytest.mark.parametrize(("verb", "span"), [("answer", 3), ("classify", 1), ("translate", 3), ("summarize", 3)])
def test_tokens_are_hidden_together_but_for_labels(verb: str, span: int) -> None:
    config = denoising(task_named(verb)).settle(settings({"train.task": verb}))
    assert config.train.hidden_span == span


def test_a_model_of_text_alone_has_nothing_else_to_learn_from_it() -> None:
    with pytest.raises(ConfigError) as caught:
        denoising(task_named("generate"))
    assert (caught.value.name, caught.value.value) == ("train.warm_start", "denoise")
