import math
from array import array

import numpy as np
import pytest
import torch

from clearhead.config import Config, DecodeConfig
from clearhead.data.corpus import LabelledCorpus
from clearhead.errors import DataError
from clearhead.model.transformer import EncoderModel, build
from clearhead.readers.column_roles import LABELLED
from clearhead.readers.pairs import Pairs, PairSource, Report
from clearhead.scoring import score_labels
from clearhead.tasks.base import Units
from clearhead.tasks.classify.examples import UNSEEN, LabelledExamples, label_settings
from clearhead.tasks.classify.task import Classification
from clearhead.tokenization.ragged import Ragged
from clearhead.tokenization.source_and_target import train_tokenizers

BOS, EOS, PAD = 1, 2, 0  # the special tokens of a new vocabulary

TEXTS = ["a fine film", "a sad and dull film", "dull", "it is fine and it is warm", "sad", "so so"]
LABELS = ["pos", "neg", "neg", "pos", "neg", "mixed"]


def pairs(texts: list[str] = TEXTS, labels: list[str] = LABELS) -> Pairs:
    return Pairs(list(texts), list(labels), array("q", range(1, len(texts) + 1)), Report(("texts.tsv",)))


def task(**changed: object) -> Classification:
    """Words as tokens; the settings of a tiny model."""
    values = {"data.tokenizer": "word", "data.labels": ("mixed", "neg", "pos"), "train.device": "cpu"}
    values |= {"model.topology": "encoder-only", "model.head": "class", "model.n_classes": 3, "model.n_heads": 2}
    values |= {"model.d_model": 16, "model.d_ff": 24, "model.n_encoder_layers": 1, "model.dropout": 0.0}
    values |= {name.replace("__", "."): value for name, value in changed.items()}
    tokenizers = train_tokenizers(TEXTS, (), Config().override(values).data)
    return Classification(
        tokenizers, Config().override(values | {"model.src_vocab_size": tokenizers.source.vocab_size})
    )


def net(own: Classification) -> EncoderModel:
    torch.manual_seed(0)
    built = build(own.config.model)
    assert isinstance(built, EncoderModel)
    return built.double().eval()


def examples(own: Classification, data: Pairs | None = None) -> LabelledExamples:
    found = own.encoder(data or pairs())
    return own.examples((found.sources, found.targets))


def log_probabilities(model: EncoderModel, tokens: list[int]) -> list[float]:
    """Of one text, without batch and padding."""
    with torch.no_grad():
        return model(torch.tensor([tokens]))[0].log_softmax(-1).tolist()


# --- examples


def test_a_text_ends_with_eos_and_its_label_is_a_number_in_the_order_of_the_labels() -> None:
    own = task()
    found = examples(own)
    assert list(found.sources) == [[*own.tokenizers.source.encode(text), EOS] for text in TEXTS]
    assert [own.labels[number] for number in found.numbers] == LABELS
    assert found.tokens == sum(len(text.split()) + 1 for text in TEXTS)


def test_bos_stands_in_front_where_the_first_token_is_pooled() -> None:
    assert all(tokens[0] == BOS for tokens in examples(task(model__pooling="first")).sources)
    assert not any(BOS in tokens for tokens in examples(task()).sources)


@pytest.mark.parametrize("longest", [1, 3, 5])
def test_of_a_long_text_the_beginning_is_kept_with_its_label_and_it_is_counted_and_shown(longest) -> None:
    own = task(data__max_len=longest)
    found = own.encoder(pairs())
    whole = own.tokenizers.source.encode_batch(TEXTS)
    assert [tokens[:-1] for tokens in found.sources] == [ids[:longest] for ids in whole]
    assert all(tokens[-1] == EOS for tokens in found.sources) and len(found.sources) == len(TEXTS)
    long = [i for i, text in enumerate(TEXTS) if len(text.split()) > longest]
    assert not found.skipped and [it.line for it in found.unknown] == [i + 1 for i in long]
    reason = f"texts longer than {longest} tokens (data.max_len); only their beginning is read"
    assert {it.reason for it in found.unknown} == {reason}
    assert own.hold_out(pairs()).cut == len(long)


@pytest.mark.parametrize(("pooling", "marks"), [("mean", 1), ("first", 2)])
def test_a_text_never_has_more_tokens_than_the_model_reads(pooling, marks) -> None:
    own = task(model__max_len=4, model__pooling=pooling, model__positions="learned")
    assert own.longest == (4 - marks, "model.max_len")
    found = examples(own)
    assert max(map(len, found.sources)) == 4
    own.loss(net(own), found, np.arange(6), smoothing=0.0)  # the table of positions holds them


def test_words_that_the_vocabulary_lacks_are_named() -> None:
    [it] = task().encoder(pairs(["a fine quagga"], ["pos"])).unknown
    assert "missing from the vocabulary" in it.reason and it.text == "quagga"


# --- the loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_the_loss_is_that_of_each_text_alone_whatever_the_batches(smoothing, pooling) -> None:
    own = task(model__pooling=pooling)
    model, found, expected = net(own), examples(own), 0.0
    for tokens, number in zip(found.sources, found.numbers):
        log_p = log_probabilities(model, tokens)
        expected -= (1 - smoothing) * log_p[number] + smoothing * sum(log_p) / 3
    for plan in ([[0, 1, 2, 3, 4, 5]], [[0], [1], [2], [3], [4], [5]], [[5, 0], [3, 2, 4], [1]]):
        losses = [own.loss(model, found, np.array(rows), smoothing=smoothing).item() for rows in plan]
        assert math.isclose(sum(losses), expected, rel_tol=1e-10)


def test_balanced_all_labels_weigh_the_same_and_the_mean_text_weighs_one() -> None:
    own = task(train__balance=True)
    found = examples(own)
    weights = found.weights(3)
    of_texts = weights[found.numbers]
    assert of_texts.mean() == pytest.approx(1)
    assert [of_texts[found.numbers == number].sum() for number in range(3)] == pytest.approx([2, 2, 2])
    model = net(own)
    alone = [task().loss(model, found, np.array([row]), smoothing=0.0).item() for row in range(6)]
    total = own.loss(model, found, np.arange(6), smoothing=0.0).item()
    assert total == pytest.approx(float(np.dot(of_texts, alone)))


@pytest.mark.parametrize("balance", [False, True])
def test_two_readings_of_a_text_are_to_agree(balance) -> None:
    own = task(train__r_drop=3.0, train__balance=balance, model__dropout=0.5)
    model, found = net(own).train(), examples(own)
    weights = found.weights(3)[found.numbers] if balance else np.ones(6)
    for rows in ([2], [5]):  # alone, for the same draws of dropout
        torch.manual_seed(0)
        loss = own.loss(model, found, np.array(rows), smoothing=0.0).item()
        torch.manual_seed(0)
        p, q = model(torch.from_numpy(found.sources.padded(rows, PAD)).repeat(2, 1)).detach().softmax(-1)
        assert not torch.allclose(p, q)
        right = -(p.log() + q.log())[found.numbers[rows[0]]] / 2
        apart = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
        assert loss == pytest.approx(float(weights[rows[0]] * (right + 3 / 4 * apart)))


def test_readings_without_dropout_are_one() -> None:
    own, plain = task(train__r_drop=3.0, model__dropout=0.0), task(model__dropout=0.0)
    model, found = net(own).train(), examples(own)
    one, other = (it.loss(model, found, np.arange(6), smoothing=0.1).item() for it in (own, plain))
    assert one == other


@pytest.mark.parametrize("name", ["model__attention_dropout", "model__activation_dropout"])
def test_any_dropout_is_enough_for_two_readings(name: str) -> None:
    own = task(train__r_drop=3.0, model__dropout=0.0, **{name: 0.5})
    plain = task(model__dropout=0.0, **{name: 0.5})
    model, found = net(own).train(), examples(own)
    losses = []
    for each in (own, own, plain):
        torch.manual_seed(0)
        losses.append(each.loss(model, found, np.arange(6), smoothing=0.0).item())
    assert losses[0] == losses[1] != losses[2]


def test_a_label_that_no_text_has_takes_no_part_in_the_balance() -> None:
    found = LabelledExamples(Ragged([[EOS]] * 3), Ragged([[0], [0], [2]]))
    assert found.weights(3).tolist() == pytest.approx([0.5, 1, 1])


def test_gradients_do_not_depend_on_the_batches() -> None:
    own = task()
    model, found, gradients = net(own), examples(own), []
    for plan in ([[0, 1, 2, 3, 4, 5]], [[4], [1, 0, 3], [5, 2]]):
        model.zero_grad()
        for rows in plan:
            own.loss(model, found, np.array(rows), smoothing=0.1).backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-12)


# --- answers and scores


@pytest.mark.parametrize("together", [1, 9, 4096])
def test_a_text_has_the_same_probabilities_alone_as_among_others(together) -> None:
    own = task()
    model, texts = net(own).train(), examples(own).sources
    found = own.log_probabilities(model, texts, together)
    assert model.training  # read without dropout, and left as it was
    model.eval()
    np.testing.assert_allclose(found, [log_probabilities(model, tokens) for tokens in texts], atol=1e-12)


def test_the_scores_are_those_computed_by_hand() -> None:
    own = task()
    model, held_out = net(own), task().hold_out(pairs())
    judged = own.evaluate(model, held_out, DecodeConfig())
    log_p = [log_probabilities(model, tokens) for tokens in examples(own).sources]
    answers = [own.labels[max(range(3), key=row.__getitem__)] for row in log_p]
    assert list(judged.answers) == answers == own.answers(model, TEXTS, DecodeConfig())
    assert list(judged.sources) == TEXTS
    assert list(judged.references) == [[label] for label in LABELS]
    right = [row[own.labels.index(label)] for row, label in zip(log_p, LABELS)]
    accuracy = sum(answer == label for answer, label in zip(answers, LABELS)) / 6
    numbers = own.numbers(judged.scores)
    assert numbers["accuracy"] == pytest.approx(accuracy) and numbers["loss"] == pytest.approx(-sum(right) / 6)
    assert judged.singly()["right_probability"] == pytest.approx(np.exp(right))
    values = judged.scores.to_dict()
    assert values["texts"] == 6 and values["negative_log_likelihood"] == numbers["loss"]
    assert values["macro_f1"] == numbers["macro_f1"]


def test_a_label_that_training_did_not_have_counts_as_wrong_and_the_loss_passes_over_it() -> None:
    own = task()
    model, other = net(own), pairs([*TEXTS, "so so", "odd"], [*LABELS, "Neg", "none"])
    held_out, without = own.hold_out(other), own.hold_out(pairs())
    assert [(it.line, it.reason, it.text) for it in held_out.too_long] == [
        (7, UNSEEN, "Neg: so so"), (8, UNSEEN, "none: odd")
    ]  # fmt: skip
    assert held_out.labels == ("mixed", "neg", "pos", "Neg", "none") and len(held_out.examples) == 6
    scores, before = (own.evaluate(model, it, DecodeConfig()).scores for it in (held_out, without))
    assert scores.scores.accuracy.mean == pytest.approx(before.scores.accuracy.mean * 6 / 8)
    assert scores.loss == pytest.approx(before.loss) and scores.n_unseen == 2
    assert scores.scores.confusion[3:].sum() == 2 and not scores.scores.confusion[:, 3:].any()
    assert all(math.isfinite(value) for value in own.numbers(scores).values())


def test_where_all_labels_are_new_there_is_no_loss_and_nothing_is_right() -> None:
    own = task()
    scores = own.evaluate(net(own), own.hold_out(pairs(["dull"], ["bad"])), DecodeConfig()).scores
    assert scores.loss is None and "negative_log_likelihood" not in scores.to_dict()
    assert own.numbers(scores) == {"accuracy": 0.0, "macro_f1": 0.0}


def test_a_custom_task_counts_texts_whatever_it_calls_them(monkeypatch) -> None:
    monkeypatch.setattr(Classification, "units", Units("reviews", "tokens", "label", "reviews"))
    own = task()
    scores = own.evaluate(net(own), own.hold_out(pairs()), DecodeConfig()).scores.to_dict()
    assert score_labels.count_of(scores) == "6 texts"


def test_models_are_compared_by_how_often_they_are_right() -> None:
    own = task()
    held_out = own.hold_out(pairs())
    judged = [own.evaluate(net(own), held_out, DecodeConfig()) for _ in range(2)]
    compared = own.compare([("a", judged[0]), ("b", judged[1])]).by_score["accuracy"]
    assert [it.score for it in compared] == [judged[0].scores.scores.accuracy.mean] * 2 and compared[1].p_value == 1


# --- which labels there are


def corpus(tmp_path, rows: list[tuple[str, str]]) -> LabelledCorpus:
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return LabelledCorpus.of(PairSource([tmp_path / "texts.csv"], roles=LABELLED), 0.0, 0)


def test_the_labels_are_all_that_are_trained_on_sorted_and_no_tokenizer_learns_from_them(tmp_path) -> None:
    found = corpus(tmp_path, list(zip(TEXTS, LABELS)))
    assert label_settings(found, Config()) == {"data.labels": ("mixed", "neg", "pos"), "model.n_classes": 3}
    sources, targets = found.texts()
    assert list(sources) == TEXTS and targets == ()


@pytest.mark.parametrize(
    ("labels", "said"),
    [(["one"], '1 label ("one")'), ([f"{n:04}" for n in range(1001)], '1,001 labels ("0000", "0001", "0002", …)')],
)
def test_too_few_or_too_many_labels_are_refused_with_the_column_that_was_taken(tmp_path, labels, said) -> None:
    found = corpus(tmp_path, [(f"text {n}", label) for n, label in enumerate(labels * 2)])
    with pytest.raises(DataError) as error:
        label_settings(found, Config())
    form = "CSV (comma), two columns (text in 1, label in 2), header (text, label)"
    assert error.value.what == f"{tmp_path / 'texts.csv'} has {said} to train on (read as {form})"
    assert (error.value.expected, error.value.value) == ("2 to 1,000 labels", len(labels))
    assert "data.target_column" in error.value.fix and "data.source_column" in error.value.fix


def test_labels_of_which_hardly_one_comes_again_are_none(tmp_path) -> None:
    found = corpus(tmp_path, [(f"text {n}", f"0.{n:03}") for n in range(39)] + [("one more", "0.000")])
    with pytest.raises(DataError) as error:
        label_settings(found, Config())
    assert (error.value.name, error.value.value) == ("data.labels", 39)
    assert "39 labels" in error.value.what and "40 texts" in error.value.what
    assert "data.target_column" in error.value.fix
    for name in ("texts", "labels"):
        (tmp_path / name).write_text("".join(f"{name} {n}\n" for n in range(40)))
    aligned = PairSource([tmp_path / "texts", tmp_path / "labels"], roles=LABELLED)
    with pytest.raises(DataError) as error:
        label_settings(LabelledCorpus.of(aligned, 0.0, 0), Config())
    assert error.value.what.startswith(f"{tmp_path / 'texts'} and {tmp_path / 'labels'} have 40 labels (")
    assert "two line-aligned files" in error.value.what and not error.value.fix
    few = corpus(tmp_path, [(f"text {n}", f"label {n}") for n in range(19)])
    assert label_settings(few, Config())["model.n_classes"] == 19


def test_what_looks_like_a_slip_of_the_labels_is_told(tmp_path) -> None:
    rows = [("a fine film", "Pos"), ("A fine  film", "neg"), ("a fine film", "pos"), ("dull", "neg"), ("dull", "neg"),
            ("so so", "New  York"), ("so", "new york"), ("c", "C"), ("c++", "C++")]  # fmt: skip
    found = corpus(tmp_path, rows)
    assert found.note.splitlines() == [
        "nothing held out: data.split is 0",
        "  1 text has several labels: the model learns each of them, but can predict only one",
        '  different labels with almost the same spelling: "New  York", "new york"',
        '  different labels with almost the same spelling: "Pos", "pos"',
    ]
    assert "\n  2 texts have several labels: " in corpus(tmp_path, [*rows, ("dull", "pos")]).note
    assert corpus(tmp_path, [*rows[3:5], *rows[7:]]).note == "nothing held out: data.split is 0"


def test_a_model_to_begin_with_keeps_its_labels_if_it_knows_all_that_come(tmp_path) -> None:
    config = task().config.override({"train.init_from": "old"})
    assert label_settings(corpus(tmp_path, [("a", "pos"), ("b", "neg")]), config) == {}
    found = label_settings(corpus(tmp_path, [("a", "pos"), ("b", "odd")]), config)
    assert found == {"data.labels": ("odd", "pos"), "model.n_classes": 2}


def test_padding_is_no_token_of_a_text() -> None:
    assert PAD not in [token for tokens in examples(task()).sources for token in tokens]
