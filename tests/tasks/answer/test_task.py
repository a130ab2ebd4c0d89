"""Answering: what a batch holds, the loss beside its formula, answers beside the scores that they come from."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.api import Answerer, load
from clearhead.config import Config, DecodeConfig
from clearhead.errors import ConfigError, DataError
from clearhead.model.transformer import EncoderModel, build
from clearhead.readers.questions import Answer, Article, Paragraph, Question, QuestionCorpus
from clearhead.readers.skipped import Report
from clearhead.scoring.answer_scores import answer_scores, closest_sentence, closest_window, first_sentence
from clearhead.tasks.answer.reading import QuestionForm
from clearhead.tasks.answer.task import QuestionAnswering
from clearhead.tasks.answer.windows import Windows
from clearhead.tasks.loss import span_cross_entropy
from clearhead.tokenization.source_and_target import train_tokenizers
from tests.builders import make_questions

EOS, PAD = 2, 0  # the special tokens of a new vocabulary

LONG = "The red cat sat on a mat in Rome and the black dog ran up a hill in Oslo, but no bird flew to New York. Why?"
ASKED = [("Where did the cat sit?", "on a mat"), ("Where did no bird fly to?", "New York"), ("Who slept?", None)]


def corpus(context: str = LONG, asked: list[tuple[str, str | None]] = ASKED) -> QuestionCorpus:
    questions = [
        Question(str(number), text, () if answer is None else (Answer(answer, context.index(answer)),), number)
        for number, (text, answer) in enumerate(asked, 1)
    ]
    short = Paragraph("The dog ran.", (Question("4", "Who ran?", (Answer("The dog", 0), Answer("dog", 4)), 4),))
    return QuestionCorpus((Article("", (Paragraph(context, tuple(questions)), short)),), Report(("a.json",)))


def task(**changed: object) -> QuestionAnswering:
    """Words as tokens, windows of 24, and the settings of a tiny model."""
    values: dict[str, object] = {"data.tokenizer": "word", "data.max_len": 24, "model.max_len": 24}
    values |= {"model.topology": "encoder-only", "model.head": "span", "model.n_token_types": 2}
    values |= {"model.d_model": 16, "model.n_heads": 2, "model.d_ff": 24, "model.n_encoder_layers": 1}
    values |= {"train.device": "cpu"} | {name.replace("__", "."): value for name, value in changed.items()}
    config = Config().override(values)
    tokenizers = train_tokenizers([LONG, *(text for text, _ in ASKED), "The dog ran. Who ran?"], (), config.data)
    size = tokenizers.source.vocab_size
    return QuestionAnswering(tokenizers, config.override({"model.src_vocab_size": size, "model.tgt_vocab_size": size}))


@pytest.fixture
def net() -> EncoderModel:
    torch.manual_seed(0)
    built = build(task().config.model)
    assert isinstance(built, EncoderModel)
    return built.double().eval()


def learnt(answering: QuestionAnswering) -> Windows:
    found = answering.encoder(corpus())
    return answering.examples((found.sources, found.targets))


def test_the_types_tell_question_from_text_and_answers_may_stand_in_the_text_alone() -> None:
    answering = task()
    examples = learnt(answering)
    batch = answering.batch(examples, np.arange(len(examples)))
    assert batch.types is not None
    for row, (tokens, types, of_text) in enumerate(zip(batch.tokens, batch.types, batch.of_text)):
        own = examples.sources[row]
        end = own.index(EOS)
        assert tokens[: len(own)].tolist() == own and (tokens[len(own) :] == PAD).all()
        assert types[: len(own)].tolist() == [0] * (end + 1) + [1] * (len(own) - end - 1)
        assert of_text.nonzero()[:, 0].tolist() == [*range(end + 1, len(own) - 1)]
        start, last = batch.answers[row].tolist()
        assert (start, last) == (0, 0) or (of_text[start] and of_text[last])


def test_a_third_type_marks_what_of_the_text_the_question_has() -> None:
    answering = task(model__n_token_types=3)
    examples = learnt(answering)
    batch, marked = answering.batch(examples, np.arange(len(examples))), 0
    assert batch.types is not None
    for row in range(len(examples)):
        own = examples.sources[row]
        end = own.index(EOS)
        asked, text = own[:end], own[end + 1 : -1]
        expected = [0] * (end + 1) + [2 if token in asked else 1 for token in text] + [1]
        assert batch.types[row, : len(own)].tolist() == expected
        marked += expected.count(2)
    assert marked
    net = build(answering.config.model)
    assert answering.loss(net, examples, np.arange(1), smoothing=0.0).isfinite()


def test_without_types_the_model_is_given_none() -> None:
    answering = task(model__n_token_types=0)
    examples, net = learnt(answering), build(answering.config.model)
    assert answering.batch(examples, np.arange(1)).types is None
    assert answering.loss(net, examples, np.arange(1), smoothing=0.0).isfinite()


def test_the_loss_is_that_of_the_formula_for_each_window_alone(net: EncoderModel) -> None:
    answering, total = task(), 0.0
    examples = learnt(answering)
    net.eval()
    for row in range(len(examples)):
        tokens = examples.sources[row]
        begins = tokens.index(EOS) + 1
        types = [0] * begins + [1] * (len(tokens) - begins)
        scores = net(torch.tensor([tokens]), torch.tensor([types]))[0].detach()
        for side, answer in enumerate(examples.targets[row]):
            may_be = [0, *range(begins, len(tokens) - 1)]
            normaliser = sum(math.exp(float(scores[place, side])) for place in may_be)
            total -= math.log(math.exp(float(scores[answer, side])) / normaliser)
    together = answering.loss(net, examples, np.arange(len(examples)), smoothing=0.0)
    assert together.item() == pytest.approx(total)
    batches = examples.batches(1000)
    assert batches.predictions(np.arange(len(examples))) == 2 * len(examples), "the mean is over starts and ends"
    assert examples.tokens == sum(len(tokens) for tokens in examples.sources), "an epoch is what is read"


def test_a_smoothed_loss_spreads_over_what_is_allowed_and_over_nothing_else() -> None:
    scores = torch.randn(1, 6, 2, dtype=torch.float64, requires_grad=True)
    barred = torch.tensor([False, True, False, False, True, False])[None, :, None].expand(1, 6, 2)
    given, answers = scores.masked_fill(barred, -torch.inf), torch.tensor([[2, 3]])
    log_p = given.log_softmax(1)[0]
    allowed = [0, 2, 3, 5]
    expected = sum(
        0.8 * log_p[answer, side] + 0.2 * sum(log_p[place, side] for place in allowed) / len(allowed)
        for side, answer in enumerate((2, 3))
    )
    loss = span_cross_entropy(given, answers, smoothing=0.2)
    torch.testing.assert_close(loss, -expected)
    loss.backward()
    assert scores.grad is not None and scores.grad.isfinite().all() and not scores.grad[barred].any()
    torch.testing.assert_close(span_cross_entropy(given, answers), -(log_p[2, 0] + log_p[3, 1]))


def test_an_answer_is_the_best_of_all_windows_of_its_question(net: EncoderModel) -> None:
    """Computed again with one window at a time, and every pair of tokens tried."""
    answering = task()
    held_out = answering.hold_out(corpus())
    found, _ = answering.read(net, held_out, DecodeConfig(beam=3, n_best=2))
    assert len({*held_out.of}) == 4 and held_out.of.count(0) > 2
    for number, asked in enumerate(held_out.asked):
        best: dict[tuple[int, int], float] = {}
        for window in (it for it, of in zip(held_out.windows, held_out.of) if of == number):
            types = [int(place >= window.begins) for place in range(len(window.tokens))]
            scores = net(torch.tensor([window.tokens]), torch.tensor([types]))[0].detach()
            places = range(window.begins, len(window.tokens) - 1)
            for start, end in itertools.combinations_with_replacement(places, 2):
                place = asked.text.span_of(*window.span(start, end))
                score = float(scores[start, 0] + scores[end, 1] - scores[0].sum())
                best[place] = max(score, best.get(place, -math.inf))
        (start, end), score = max(best.items(), key=lambda it: it[1])
        assert (found[number][0].start, found[number][0].end) == (start, end)
        assert found[number][0].score == pytest.approx(score)
        assert found[number][0].text == asked.text.text[start:end]
        assert len(found[number]) == 2 and found[number][0].score >= found[number][1].score


@pytest.mark.parametrize("together", [48, 100, 4096])
def test_answers_do_not_depend_on_what_is_read_together(net: EncoderModel, together: int) -> None:
    answering = task()
    held_out = answering.hold_out(corpus())
    one, loss = answering.read(net, held_out, DecodeConfig(batch_tokens=24))
    other, again = answering.read(net, held_out, DecodeConfig(batch_tokens=together))
    assert [it[0].text for it in one] == [it[0].text for it in other] and loss == pytest.approx(again)
    assert [it[0].score for it in one] == pytest.approx([it[0].score for it in other])


def test_looking_leaves_the_model_in_its_mode(net: EncoderModel) -> None:
    net.train()
    answering = task()
    answering.evaluate(net, answering.hold_out(corpus()), DecodeConfig())
    assert all(module.training for module in net.modules())


def test_scores_are_those_of_the_answers_beside_the_loss_and_what_needs_no_model(net: EncoderModel) -> None:
    answering = task()
    held_out = answering.hold_out(corpus())
    judged = answering.evaluate(net, held_out, DecodeConfig())
    references = [["on a mat"], ["New York"], [], ["The dog", "dog"]]
    assert judged.references == references and held_out.cut == 0
    values = judged.scores.to_dict()
    expected = answer_scores(judged.answers, references, unanswerable=True).to_dict()
    assert {name: values[name] for name in expected} == expected and values["unanswerable"]["questions"] == 1
    examples = held_out.examples
    total = answering.loss(net, examples, np.arange(len(examples)), smoothing=0.0).item()
    assert values["loss"] == pytest.approx(total / (2 * len(examples)))
    none = answer_scores([""] * 4, references, unanswerable=True)
    assert values["baselines"]["no_answer"] == none.measures() and none.exact_match.mean == 0.25
    kinds = [expected[name] for name in ("answerable", "unanswerable")]
    assert judged.details.splitlines() == [
        f"{name:<15} {it['questions']:>8}  exact match {it['exact_match']:.4f}  F1 {it['f1']:.4f}"
        for name, it in zip(("with an answer", "without one"), kinds)
    ]
    contexts = [LONG, LONG, LONG, "The dog ran."]
    for name, baseline in (("first_sentence", first_sentence), ("closest_sentence", closest_sentence),
                           ("closest_window", closest_window)):  # fmt: skip
        said = [baseline(context, question) for context, question in zip(contexts, judged.sources)]
        expected = answer_scores(said, references, unanswerable=True)
        assert values["baselines"][name]["f1"] == expected.f1.mean
        assert values["baselines"][name]["exact_match"] == expected.exact_match.mean
    assert answering.numbers(judged.scores) == {name: values[name] for name in ("loss", "f1", "exact_match")}
    assert judged.singly()["f1"].mean() == pytest.approx(values["f1"])
    json.dumps(values)


def test_where_all_questions_have_answers_the_rules_are_those_of_the_first_squad(net: EncoderModel) -> None:
    answering = task()
    held_out = answering.hold_out(corpus(asked=ASKED[:2]))
    judged = answering.evaluate(net, held_out, DecodeConfig())
    values = judged.scores.to_dict()
    assert "unanswerable" not in values and values["questions"] == 3
    assert judged.details == "" and "no_answer" not in values["baselines"]


def test_only_a_model_that_learnt_so_says_that_there_is_no_answer(net: EncoderModel) -> None:
    with torch.no_grad():
        net.head.linear.weight.zero_()  # so that all scores are equal, and the answer's is 0
    for unanswerable in (False, True):
        answering = task(data__unanswerable=unanswerable)
        held_out = answering.hold_out(corpus())
        found, _ = answering.read(net, held_out, DecodeConfig(n_best=4))
        assert all(("" in [it.text for it in passages]) == unanswerable for passages in found)


def test_models_are_compared_question_by_question(net: EncoderModel) -> None:
    answering = task()
    held_out = answering.hold_out(corpus())
    judged = answering.evaluate(net, held_out, DecodeConfig())
    comparison = answering.compare([("one", judged), ("again", judged)])
    assert set(comparison.by_score) == {"f1", "exact_match"}
    for first, second in comparison.by_score.values():
        assert first.p_value is None and second.p_value == 1.0 and first.score == second.score


@pytest.mark.parametrize(("name", "longest"), [("data.max_len", 15), ("model.max_len", 12)])
def test_windows_without_room_for_a_text_are_refused(name: str, longest: int) -> None:
    with pytest.raises(ConfigError, match="leaves no room for a text") as caught:
        task(**{name.replace(".", "__"): longest})
    assert (caught.value.name, caught.value.value, caught.value.expected) == (name, longest, "at least 16")


def test_one_type_of_token_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        task(model__n_token_types=1)
    assert (caught.value.name, caught.value.value) == ("model.n_token_types", 1)


# --- a model that has learnt


def test_the_toy_is_learnt_and_what_it_never_saw_is_answered(answer_folder: Path, tmp_path: Path) -> None:
    app = load(answer_folder, device="cpu")
    data = tmp_path / "others.json"
    data.write_text(json.dumps(make_questions(60, seed=1, lacking=True)), encoding="utf-8")
    values = app.evaluate(QuestionForm().read([str(data)], app.config.data)).scores.to_dict()
    assert values["f1"] > 0.95 and values["exact_match"] > 0.95
    assert values["unanswerable"]["exact_match"] > 0.9 and values["answerable"]["exact_match"] > 0.95
    assert max(baseline["f1"] for baseline in values["baselines"].values()) < 0.5
    assert values["baselines"]["no_answer"]["f1"] == pytest.approx(values["unanswerable"]["questions"] / 240)


def test_an_answer_far_behind_the_first_window_is_found_at_its_place(answer_folder: Path) -> None:
    app = load(answer_folder, device="cpu")
    assert isinstance(app, Answerer)
    context = "and " * 150 + "\n\u00a0Rome  and June."
    found = app.results(["Where was it?", "When was it?"], context)
    assert [it.text for it in found] == ["Rome", "June"]
    for it in found:
        assert it.start is not None and it.end is not None and context[it.start : it.end] == it.text and it.score > 0


def test_a_beam_ranks_passages_whether_or_not_the_model_would_sample_texts(answer_folder: Path) -> None:
    app, asked = load(answer_folder, device="cpu"), (["When was it?"], "It was in Rome and June.")
    expected = app.results(*asked, beam=3, n_best=2)
    assert app.override({"decode.sample": True}).results(*asked, beam=3, n_best=2) == expected
    with pytest.raises(ConfigError, match="an answer is found in the text, not generated") as caught:
        app.results(*asked, beam=3, sample=True)
    assert (caught.value.name, caught.value.value) == ("decode.sample", True)


@pytest.mark.parametrize("context", [None, ["It was in Rome."]])
def test_a_text_that_is_none_is_refused(answer_folder: Path, context: object) -> None:
    with pytest.raises(DataError) as caught:
        load(answer_folder)("Where was it?", context)  # type: ignore[call-overload]
    assert type(context).__name__ in caught.value.what and "context" in caught.value.expected
