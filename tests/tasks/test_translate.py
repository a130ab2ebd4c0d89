import itertools
import math
from array import array
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.config import Config, DecodeConfig
from clearhead.decode.session import Session
from clearhead.model.transformer import EncoderDecoder, build
from clearhead.readers.pairs import Pairs, Report
from clearhead.readers.skipped import Skipped
from clearhead.tasks.examples import Examples
from clearhead.tasks.translate import Translation
from clearhead.tokenization.source_and_target import train_tokenizers
from clearhead.training import run
from clearhead.training.distributed.processes import Processes
from clearhead.training.update import Update

BOS, EOS, PAD = 1, 2, 0  # the special tokens of a new vocabulary

ENGLISH = ["I am hungry.", "You are late.", "She sings.", "We are here and we sleep.", "They sleep well.", "Go!"]
FRENCH = ["J'ai faim.", "Tu es en retard.", "Elle chante bien.", "Nous sommes ici.", "Ils dorment bien ici.", "Va !"]
GREEDY = DecodeConfig(beam=1, max_extra=4)


def pairs(sources: list[str] = ENGLISH, targets: list[str] = FRENCH, first_line: int = 1) -> Pairs:
    lines = array("q", range(first_line, first_line + len(sources)))
    return Pairs(list(sources), list(targets), lines, Report(("pairs.tsv",)))


def task(**changed: object) -> Translation:
    """Words as tokens, a vocabulary a side; the settings of a tiny model."""
    values = {"data.tokenizer": "word", "data.joint": False, "model.tie": "none", "data.batch_tokens": 300}
    values |= {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 24, "train.device": "cpu"}
    values |= {"model.n_encoder_layers": 1, "model.n_decoder_layers": 1}
    values |= {name.replace("__", "."): value for name, value in changed.items()}
    config = Config().override(values)
    tokenizers = train_tokenizers(ENGLISH, FRENCH, config.data)
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    return Translation(
        tokenizers, config.override({"model.src_vocab_size": sizes[0], "model.tgt_vocab_size": sizes[1]})
    )


@pytest.fixture
def net() -> EncoderDecoder:
    torch.manual_seed(0)
    built = build(task().config.model)
    assert isinstance(built, EncoderDecoder)
    return built.double()


def encode(translation: Translation, data: Pairs) -> tuple[Examples, list[Skipped]]:
    found = translation.encoder(data)
    return translation.examples((found.sources, found.targets)), found.skipped


def log_probabilities(net: EncoderDecoder, source: list[int], target: list[int]) -> torch.Tensor:
    """(T, V): of what follows each token of the target, without batch, padding and dropout."""
    with torch.no_grad():
        return net.eval()(torch.tensor([source]), torch.tensor([target]))[0].log_softmax(-1)


def test_sources_end_with_eos_and_targets_stand_between_bos_and_eos() -> None:
    translation = task()
    examples, skipped = encode(translation, pairs())
    assert not skipped and len(examples) == len(ENGLISH)
    for i, (source, target) in enumerate(zip(ENGLISH, FRENCH)):
        assert examples.sources[i] == [*translation.tokenizers.source.encode(source), EOS]
        assert examples.targets[i] == [BOS, *translation.tokenizers.target.encode(target), EOS]


def test_special_tokens_come_from_nowhere_else() -> None:
    translation = task()
    examples, _ = encode(translation, pairs(["<s> </s> <pad>"], ["</s> <pad> <s>"]))
    assert not {PAD, BOS, EOS} & set(examples.sources[0][:-1])
    assert not {PAD, BOS, EOS} & set(examples.targets[0][1:-1])


@pytest.mark.parametrize("longest", [2, 4, 5, 6])
def test_pairs_too_long_on_either_side_are_reported_with_line_and_reason_and_the_others_are_kept(longest) -> None:
    translation = task(data__max_len=longest)
    examples, skipped = encode(translation, pairs(first_line=7))
    sides = zip(translation.tokenizers.source.encode_batch(ENGLISH), translation.tokenizers.target.encode_batch(FRENCH))
    long = [i for i, (source, target) in enumerate(sides) if max(len(source), len(target)) > longest]
    assert [(it.line, it.reason, it.text) for it in skipped] == [
        (7 + i, f"longer than {longest} tokens (data.max_len)", ENGLISH[i]) for i in long
    ]
    kept, _ = encode(task(), pairs(*zip(*[(ENGLISH[i], FRENCH[i]) for i in range(len(ENGLISH)) if i not in long])))
    assert list(examples.sources) == list(kept.sources) and list(examples.targets) == list(kept.targets)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative", "alibi"])
def test_the_models_length_bounds_what_is_trained_on_whatever_its_positions(positions) -> None:
    translation = task(model__positions=positions, model__max_len=5)
    assert translation.readable[0] == 4
    examples, skipped = encode(translation, pairs())
    assert skipped and {it.reason for it in skipped} == {"longer than 4 tokens (model.max_len)"}
    net = build(translation.config.model)
    translation.loss(net, examples, np.arange(len(examples)), smoothing=0.1)  # nothing is left that it refuses
    assert len(examples) + len(skipped) == len(ENGLISH)


def test_a_batch_teaches_every_token_from_those_before_it() -> None:
    translation = task()
    examples, _ = encode(translation, pairs())
    batch = translation.forcing.batch(examples, np.arange(len(examples)))
    assert batch.inputs.shape == batch.outputs.shape
    for i, (source, inputs, outputs) in enumerate(zip(batch.source, batch.inputs, batch.outputs)):
        target = examples.targets[i]
        assert source[source != PAD].tolist() == examples.sources[i]
        assert inputs[: len(target)].tolist()[: len(target) - 1] == target[:-1]
        assert outputs[outputs != PAD].tolist() == target[1:]
    assert batch.n_tokens == int((batch.outputs != PAD).sum()) == examples.tokens
    assert batch.ragged


def test_sources_of_one_length_need_no_mask() -> None:
    translation = task()
    examples, _ = encode(translation, pairs(["I am hungry.", "You are late."], FRENCH[:2]))
    assert translation.forcing.batch(examples, np.arange(2)).ragged is False


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_real_target_tokens_whatever_the_batches(net, smoothing) -> None:
    translation = task()
    examples, _ = encode(translation, pairs())
    total = 0.0
    for i in range(len(examples)):
        target = examples.targets[i]
        log_p = log_probabilities(net, examples.sources[i], target[:-1])
        spread = smoothing / (log_p.size(1) - 1)
        for row, token in zip(log_p, target[1:]):
            total -= float((1 - smoothing) * row[token] + spread * (row.sum() - row[PAD]))
    expected = total / examples.tokens
    plans = [[[0, 1, 2, 3, 4, 5]], [[0], [1], [2], [3], [4], [5]], [[5, 0], [3, 2, 4], [1]]]
    plans += [[rows.tolist() for rows in examples.batches(12, seed).epoch(0)] for seed in range(3)]
    for plan in plans:
        losses = [translation.loss(net, examples, np.array(rows), smoothing=smoothing).detach() for rows in plan]
        assert math.isclose(sum(map(float, losses)) / examples.tokens, expected, rel_tol=1e-12)


def test_gradients_do_not_depend_on_the_batches_either(net) -> None:
    translation = task()
    examples, _ = encode(translation, pairs())
    found = []
    for plan in ([[0, 1, 2, 3, 4, 5]], [[4], [1, 0, 3], [5, 2]]):
        net.eval().zero_grad()
        for rows in plan:
            translation.loss(net, examples, np.array(rows), smoothing=0.1).backward()
        found.append([parameter.grad.clone() for parameter in net.parameters()])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)


def test_micro_batches_with_padding_of_their_own_make_the_update_of_one_large_batch() -> None:
    translation = task(model__dropout=0.0, train__optimizer="adam")
    examples, _ = encode(translation, pairs())
    parts, found = [np.array(rows) for rows in ([4], [1, 0, 3], [5, 2])], []
    for micro_batches in (parts, [np.concatenate(parts)]):
        torch.manual_seed(0)
        update = Update(
            build(translation.config.model).double(),
            lambda model, rows: translation.loss(model, examples, rows, smoothing=0.1),
            translation.config.train,
        )
        loss_sum, norm = update(micro_batches, examples.tokens, step=1, lr=1e-3)
        of_gradients = [state["exp_avg"] for state in update.optimizer.state.values()]
        found.append([torch.tensor([loss_sum, norm], dtype=torch.float64), *of_gradients])
    assert len(found[0]) > 10
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)


def test_counts_accuracy_and_perplexity_are_those_computed_by_hand(net) -> None:
    translation = task(data__batch_tokens=300)
    examples, _ = encode(translation, pairs())
    tokens, correct, total = 0, 0, 0.0
    for i in range(len(examples)):
        target = examples.targets[i]
        log_p = log_probabilities(net, examples.sources[i], target[:-1])
        for row, token in zip(log_p, target[1:]):
            tokens, correct, total = tokens + 1, correct + (int(row.argmax()) == token), total - float(row[token])
    counts = translation.forcing.count(net.train(), examples)
    assert (counts.tokens, counts.correct) == (tokens, correct)
    assert math.isclose(counts.negative_log_likelihood, total, rel_tol=1e-12)
    assert math.isclose(counts.perplexity, math.exp(total / tokens), rel_tol=1e-12)
    assert counts.accuracy == correct / tokens
    assert all(module.training for module in net.modules())  # evaluated without dropout, and left as it was


def test_target_tokens_are_what_an_epoch_predicts_and_no_batch_is_too_large() -> None:
    examples, _ = encode(task(), pairs())
    assert examples.tokens == sum(len(target) - 1 for target in examples.targets)
    for rows in examples.batches(20, seed=3).epoch(1):
        widths = max(len(examples.sources[row]) for row in rows), max(len(examples.targets[row]) - 1 for row in rows)
        assert len(rows) == 1 or len(rows) * max(widths) <= 20


def test_the_text_of_every_held_out_pair_is_scored_and_the_loss_passes_over_those_too_long(net) -> None:
    translation = task(data__max_len=4)
    twice = pairs([*ENGLISH, ENGLISH[0]], [*FRENCH, "J'ai très faim."])
    held_out = translation.hold_out(twice)
    assert held_out.sources == ENGLISH
    assert held_out.references == [[FRENCH[0], "J'ai très faim."], *([target] for target in FRENCH[1:])]
    assert 0 < len(held_out.examples) < len(twice)
    judged = translation.evaluate(net, held_out, GREEDY)
    scores, translations = judged.scores, judged.answers
    assert scores.sentences == len(translations) == len(ENGLISH)
    assert scores.token_accuracy == translation.forcing.count(net, held_out.examples).accuracy


def test_an_evaluation_translates_what_translate_does(net) -> None:
    translation = task()
    judged = translation.evaluate(net, translation.hold_out(pairs()), GREEDY)
    scores, translations = judged.scores, judged.answers
    assert scores.sentences == len(ENGLISH)
    assert translations == translation.answers(net, ENGLISH, GREEDY)


def test_an_evaluation_has_no_loss_where_all_pairs_are_too_long_for_it(net) -> None:
    translation = task(data__max_len=1)
    judged = translation.evaluate(net, translation.hold_out(pairs()), GREEDY)
    scores, translations = judged.scores, judged.answers
    assert len(translations) == len(ENGLISH)
    assert scores.perplexity is None and scores.token_accuracy is None


class FirstOfTwo(Processes):
    """The first of two processes, the other of which answers alike."""

    def __init__(self) -> None:
        super().__init__(None, 0, 2)

    def gather(self, own: Any) -> list[Any]:
        return [own, own]


def test_the_processes_of_a_run_share_the_texts_that_an_evaluation_translates(net, monkeypatch) -> None:
    translation, seen = task(), list[int]()
    held_out, search = translation.hold_out(pairs()), Session.answers

    def counted(session: Session, sources: list[Any], *others: Any) -> Any:
        seen.append(len(sources))
        return search(session, sources, *others)

    monkeypatch.setattr(Session, "answers", counted)
    judged = run._together(translation, FirstOfTwo()).evaluate(net, held_out, GREEDY)
    assert seen == [len(ENGLISH) // 2] and len(judged.answers) == len(ENGLISH)


def test_translations_come_in_the_order_of_their_texts(net) -> None:
    translation = task()
    alone = [translation.answers(net, [text], GREEDY)[0] for text in ENGLISH]
    assert len(set(alone)) > 1
    for order in itertools.islice(itertools.permutations(range(len(ENGLISH))), 0, 720, 97):
        assert translation.answers(net, [ENGLISH[i] for i in order], GREEDY) == [alone[i] for i in order]
    assert translation.answers(net, [], GREEDY) == []


def test_no_pairs_are_no_examples() -> None:
    examples, skipped = encode(task(), pairs([], []))
    assert isinstance(examples, Examples) and len(examples) == examples.tokens == 0 and not skipped
    assert examples.batches(10).epoch(0) == []
