"""Language modelling: blocks, loss and scores are those written out by hand, and a toy is learnt."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import Config, DecodeConfig
from clearhead.data.running_text import Running
from clearhead.errors import ConfigError, DataError
from clearhead.model.transformer import Decoder, build
from clearhead.readers.documents import Piece
from clearhead.readers.skipped import Report
from clearhead.tasks.generate.examples import BlockPlan, Blocks
from clearhead.tasks.generate.task import Generation
from clearhead.tasks.registry import task_named
from clearhead.tokenization.ragged import Ragged
from clearhead.tokenization.source_and_target import train_tokenizers
from clearhead.training.update import Update

BOS, EOS, PAD, UNK = 1, 2, 0, 3  # the special tokens of a new vocabulary

TEXT = "to be, or not to be:\n\tthat is  the question. é😀\n"
SEARCH = DecodeConfig()


def running(*texts: str, begins: bool = True, ends: bool = True) -> Running:
    pieces = [
        Piece(str(number), text, first=begins or number > 0, last=ends or number < len(texts) - 1)
        for number, text in enumerate(texts)
    ]
    return Running(list(pieces), Report(("text.txt",)))


def task(text: str = TEXT, **changed: object) -> Generation:
    """Characters as tokens, blocks of 8; the settings of a tiny model."""
    values = {"train.task": "generate", "data.tokenizer": "character", "data.max_len": 8, "train.device": "cpu"}
    values |= {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 24, "model.n_decoder_layers": 1}
    values |= {name.replace("__", "."): value for name, value in changed.items()}
    config = task_named("generate").settle(Config().override(values))
    tokenizers = train_tokenizers([text], [], config.data)
    size = tokenizers.target.vocab_size
    return Generation(tokenizers, config.override({"model.src_vocab_size": size, "model.tgt_vocab_size": size}))


def net(generation: Generation, seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    built = build(generation.config.model)
    assert isinstance(built, Decoder)
    return built.double()


def examples(generation: Generation, text: Running) -> Blocks:
    encoded = generation.encoder(text)
    return generation.examples((encoded.sources, encoded.targets))


def nats(model: Decoder, tokens: list[int], length: int) -> list[float]:
    """-log p of each token but the first, from those before it in its block; one block after the other, no batches."""
    found = []
    for start in range(0, len(tokens) - 1, length):
        block = tokens[start : start + length + 1]
        with torch.no_grad():
            log_p = model.eval()(torch.tensor([block[:-1]]))[0].log_softmax(-1)
        found += [-float(row[token]) for row, token in zip(log_p, block[1:])]
    return found


# --- blocks

sizes = {"n_tokens": st.integers(3, 60), "length": st.integers(1, 12), "together": st.integers(1, 5)}


@given(**sizes, seed=st.integers(0, 9), epoch=st.integers(0, 4))
def test_every_whole_block_is_read_once_an_epoch_and_no_token_twice(
    n_tokens: int, length: int, together: int, seed: int, epoch: int
) -> None:
    if n_tokens <= length:
        return
    batches = BlockPlan(n_tokens, length, together, seed).epoch(epoch)
    starts = sorted(int(start) for rows in batches for start in rows)
    assert all(1 <= len(rows) <= together for rows in batches) and all(len(rows) == together for rows in batches[:-1])
    first = starts[0]
    assert starts == list(range(first, n_tokens - length, length))
    assert first == 0 if epoch == 0 else 0 <= first < length
    predicted = [start + 1 + i for start in starts for i in range(length)]
    assert len(set(predicted)) == len(predicted) and max(predicted) < n_tokens
    assert n_tokens - 1 - max(predicted) < length  # less than a block is left


def test_the_order_of_an_epoch_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return np.concatenate(BlockPlan(1000, 10, 4, seed).epoch(epoch)).tolist()

    assert order(3, 5) == order(3, 5)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_epochs_begin_at_every_place_of_a_block() -> None:
    plan = BlockPlan(1000, 10, 4, seed=0)
    assert {int(np.concatenate(plan.epoch(epoch)).min()) for epoch in range(1, 200)} == set(range(10))
    second = {int(np.concatenate(BlockPlan(1000, 10, 4, seed).epoch(1)).min()) for seed in range(200)}
    assert second == set(range(10))


def test_a_batch_has_as_many_blocks_as_its_tokens_allow_and_one_at_least() -> None:
    blocks = Blocks(Ragged([[1] * 101]), 10, PAD)
    assert len(blocks) == 10 and blocks.tokens == 100
    for most, rows, expected in ((35, None, 3), (35, 2, 2), (35, 5, 3), (4, None, 1)):
        plan = blocks.batches(most, max_rows=rows)
        assert len(plan.epoch(0)[0]) == expected
        assert plan.sizes()[0] == plan.predictions(plan.epoch(0)[0]) == plan.tokens(plan.epoch(0)[0]) == 10 * expected
        assert sum(plan.sizes()) == blocks.tokens


@given(n_tokens=st.integers(2, 60), length=st.integers(1, 12))
def test_with_the_rest_every_token_but_the_first_is_predicted_once(n_tokens: int, length: int) -> None:
    tokens = list(range(PAD + 1, PAD + 1 + n_tokens))
    blocks = Blocks(Ragged([tokens]), length, PAD, rest=True)
    found = blocks.at(blocks.starts, length)
    inputs, outputs = found[:, :-1], found[:, 1:]
    real = outputs != PAD
    assert outputs[real].tolist() == tokens[1:] and blocks.tokens == n_tokens - 1
    assert (inputs[real] == np.array(tokens[:-1])).all()  # each from the one before it
    assert len(blocks) == len(found) and real.any(1).all()


def test_documents_follow_each_other_between_their_first_and_last_token() -> None:
    generation = task()
    encode = generation.tokenizers.target.encode
    tokens = np.asarray(generation.encoder(running("to", "be")).targets.tokens).tolist()
    assert tokens == [BOS, *encode("to"), EOS, BOS, *encode("be"), EOS]
    tokens = np.asarray(generation.encoder(running("to", "be", begins=False, ends=False)).targets.tokens).tolist()
    assert tokens == [*encode("to"), EOS, BOS, *encode("be")]


def test_a_text_shorter_than_a_block_is_an_error() -> None:
    generation = task()
    with pytest.raises(DataError) as caught:
        examples(generation, running("to be"))
    assert (caught.value.name, caught.value.value) == ("data.max_len", 8)
    assert caught.value.what == "the training text has only 7 tokens"
    assert len(examples(generation, running("to be, "))) == 1  # BOS, 7 characters, EOS


def test_a_block_is_no_longer_than_what_the_model_can_read_at_once() -> None:
    generation = task(model__max_len=5)
    blocks = examples(generation, running("to be, or not to be"))
    assert blocks.length == 5 and len(blocks) == 4  # BOS, 19 characters and EOS: 20 predictions
    assert generation.loss(net(generation), blocks, blocks.starts, smoothing=0.0).isfinite()
    with pytest.raises(DataError) as caught:
        examples(generation, running("to"))
    assert (caught.value.name, caught.value.value) == ("model.max_len", 5)


def test_characters_that_the_vocabulary_lacks_are_counted_and_named() -> None:
    generation = task()
    encoded = generation.encoder(running("to be", "to be √ж\n", "or ж"))
    assert [(it.line, it.text) for it in encoded.unknown] == [(1, "√, ж"), (1, "ж")]
    assert "missing from the vocabulary" in encoded.unknown[0].reason
    assert len(encoded.targets) == 3 and not encoded.skipped


# --- the loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_open_equation_whatever_the_batches(smoothing: float) -> None:
    generation = task(model__dropout=0.0)
    model, blocks = net(generation), examples(generation, running(TEXT, TEXT))
    tokens = np.asarray(blocks.documents.tokens).tolist()
    for epoch in (0, 1):
        for together in (1, 3, 100):
            plan = BlockPlan(len(tokens), 8, together, seed=0)
            found = sum(
                float(generation.loss(model, blocks, rows, smoothing=smoothing).detach()) for rows in plan.epoch(epoch)
            )
            expected = 0.0
            for start in np.concatenate(plan.epoch(epoch)).tolist():
                with torch.no_grad():
                    log_p = model(torch.tensor([tokens[start : start + 8]]))[0].log_softmax(-1)
                spread = smoothing / (log_p.size(1) - 1)
                for row, token in zip(log_p, tokens[start + 1 : start + 9]):
                    expected -= float((1 - smoothing) * row[token] + spread * (row.sum() - row[PAD]))
            assert math.isclose(found, expected, rel_tol=1e-10)


def test_no_token_sees_what_it_is_to_predict() -> None:
    generation = task(model__dropout=0.0)
    model, blocks = net(generation), examples(generation, running(TEXT))
    changed = np.asarray(blocks.documents.tokens).copy()
    changed[8] = UNK  # what the last place of the first block predicts
    other = Blocks(Ragged([changed.tolist()]), 8, PAD)
    with torch.no_grad():
        one, two = (model(torch.from_numpy(it.at(np.array([0]), 8))[:, :-1]) for it in (blocks, other))
    assert torch.equal(one, two)


# --- scores


@pytest.mark.parametrize("begins", [True, False], ids=["from its beginning", "from its middle"])
def test_bits_per_byte_and_all_else_are_the_formulas_written_out(begins: bool) -> None:
    generation = task()
    model, text = net(generation), running(TEXT, "é😀", begins=begins)
    encode = generation.tokenizers.target.encode
    tokens = [BOS, *encode(TEXT), EOS, BOS, *encode("é😀"), EOS]  # the first is predicted from BOS wherever it stands
    each = nats(model, tokens, 8)
    judged = generation.evaluate(model, generation.hold_out(text), SEARCH)
    scores, n_bytes = judged.scores, len((TEXT + "é😀").encode())
    assert math.isclose(scores.bits_per_byte, sum(each) / math.log(2) / n_bytes, rel_tol=1e-6)
    assert math.isclose(scores.nats_per_character, sum(each) / len(TEXT + "é😀"), rel_tol=1e-6)
    assert math.isclose(scores.loss, sum(each) / len(each), rel_tol=1e-6)
    assert math.isclose(scores.perplexity, math.exp(scores.loss), rel_tol=1e-12)
    assert scores.characters == len(TEXT + "é😀") and scores.unknown == 0
    right = 0
    for start in range(0, len(tokens) - 1, 8):
        with torch.no_grad():
            best = model(torch.tensor([tokens[start : start + 8]]))[0].argmax(-1).tolist()
        right += sum(a == b for a, b in zip(best, tokens[start + 1 : start + 9]))
    assert math.isclose(scores.token_accuracy, right / len(each))
    assert math.isclose(float(judged.singly()["bits_per_byte"].mean()), scores.bits_per_byte, rel_tol=1e-12)


def test_what_is_folded_before_it_is_learnt_is_not_counted() -> None:
    generation = task(data__normalise=("NFC", "lowercase", "whitespace"))
    held_out = generation.hold_out(running("To  be,\n\n\nE\u0301  "))
    assert (held_out.characters, held_out.bytes) == (len("to be, é"), len("to be, é".encode()))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_characters_bytes_and_unknown_ones_are_counted_exactly(text: str) -> None:
    generation = task()
    held_out = generation.hold_out(running(text))
    assert (held_out.characters, held_out.bytes) == (len(text), len(text.encode()))
    assert held_out.unknown == sum(letter not in TEXT for letter in text)
    assert "".join(held_out.sources) == "".join(letter for letter in text if letter in TEXT)
    assert len(held_out.sources) == len(held_out.examples) == -(-(len(text) + 1) // 8)


def test_subwords_know_all_bytes() -> None:
    generation = task(data__tokenizer="bpe", data__vocab_size=300)
    held_out = generation.hold_out(running("√ж\r\n\t  日本"))
    assert held_out.unknown == 0 and held_out.bytes == len("√ж\r\n\t  日本".encode())


@pytest.mark.parametrize("text", ["t", "\n"])
def test_one_character_can_be_scored(text: str) -> None:
    generation = task()
    scores = generation.evaluate(net(generation), generation.hold_out(running(text)), SEARCH).scores
    assert scores.characters == 1 and math.isfinite(scores.bits_per_byte)


def test_a_model_that_knows_nothing_needs_the_logarithm_of_its_vocabulary() -> None:
    generation = task()
    model = net(generation)
    for weight in model.parameters():
        torch.nn.init.zeros_(weight)
    scores = generation.evaluate(model, generation.hold_out(running(TEXT)), SEARCH).scores
    size = generation.tokenizers.target.vocab_size
    assert math.isclose(scores.perplexity, size, rel_tol=1e-6)
    assert math.isclose(scores.bits_per_byte, math.log2(size) * (len(TEXT) + 1) / len(TEXT.encode()), rel_tol=1e-6)


# --- several models


def judged(generation: Generation, seed: int, text: str = TEXT):
    return generation.evaluate(net(generation, seed), generation.hold_out(running(text)), SEARCH)


def test_models_are_compared_block_by_block() -> None:
    generation = task()
    one, other = judged(generation, 0), judged(generation, 1)
    comparison = generation.compare([("one", one), ("other", other), ("same", one)])
    assert list(comparison.by_score) == ["bits_per_byte"] and not comparison.signatures
    compared = comparison.by_score["bits_per_byte"]
    assert [it.system for it in compared] == ["one", "other", "same"]
    for it, alone in zip(compared, (one, other, one)):
        assert math.isclose(it.score, alone.scores.bits_per_byte, rel_tol=1e-12)
    assert compared[2].p_value == 1.0


@pytest.mark.parametrize("changed", [{"data__max_len": 9}, {"data__tokenizer": "bpe", "data__vocab_size": 270}])
def test_models_that_read_in_different_blocks_are_not_compared(changed: dict) -> None:
    generation, other = task(), task(**changed)
    with pytest.raises(ConfigError) as caught:
        generation.compare([("one", judged(generation, 0)), ("other", judged(other, 0))])
    assert caught.value.name == "data.max_len"


def test_a_token_that_is_never_to_be_generated_must_be_one() -> None:
    generation = task(decode__suppress=["zz"])
    with pytest.raises(DataError, match="'zz'"):
        generation.check_search(net(generation))
    task(decode__suppress=["t"]).check_search(net(generation))


# --- learning


def test_a_text_that_comes_round_again_is_learnt_to_a_perplexity_below_1_05() -> None:
    """Each letter follows from the one before it; where the text ends nothing tells, so that it goes on."""
    generation = task("abcdefgh", data__max_len=32, model__dropout=0.0, train__optimizer="adam")
    blocks = examples(generation, running("abcdefgh" * 50))
    torch.manual_seed(0)
    model = build(generation.config.model)
    update = Update(
        model,
        lambda model, rows: generation.loss(model, blocks, rows, smoothing=0.0),
        generation.config.train,
    )
    plan = blocks.batches(256)
    for step in range(1, 101):
        rows = plan.epoch(step)[0]
        update([rows], plan.predictions(rows), step=step, lr=1e-2)
    held_out = generation.hold_out(running("abcdefgh" * 12, ends=False))
    scores = generation.evaluate(model, held_out, SEARCH).scores
    assert scores.perplexity < 1.05 and scores.token_accuracy > 0.95
    assert scores.bits_per_byte < 0.1


@pytest.mark.parametrize(("n_heads", "positions"), [(4, "sinusoidal"), (3, "rotary")])
def test_positions_turn_pairs_of_numbers_where_a_head_has_such(n_heads: int, positions: str) -> None:
    asked = Config().override({"model.d_model": 36, "model.n_heads": n_heads})
    assert task_named("generate").settle(asked).model.positions == positions
    given = asked.override({"model.positions": "alibi"})
    assert task_named("generate").settle(given).model.positions == "alibi"


def test_an_answer_is_the_text_with_its_continuation() -> None:
    generation, search = task(), DecodeConfig(beam=1, max_len=3)
    model, texts = net(generation), ["to be", "or"]
    answers = generation.answers(model, texts, search)
    generator = generation.generator(model, search)
    for text, answer in zip(texts, answers):
        [[continuation]] = generator.records(generator.read([text]))
        assert answer == text + continuation.text
