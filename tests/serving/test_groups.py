"""Texts join and leave a batch, and get the answers that they get alone."""

from pathlib import Path
from typing import Any

import pytest

from clearhead import load
from clearhead.decode.session import Session
from clearhead.errors import ConfigError, DataError
from clearhead.serving.groups import LiveGroup, Seeded

from .small_models import make

TEXTS = ["I am hungry.", "You are late.", " ", "She sings.", "We are here. They sleep well.", "They sleep well."]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("generate"), "generate")


def run(group: LiveGroup, inputs: list[Any], every: int = 2) -> list[Any]:
    """Let an input join at every second step, and return the records in order."""
    found, numbers, left = {}, [], list(inputs)
    step = 0
    while left or group:
        if left and step % every == 0:
            numbers.append(group.add(left.pop(0), None))
        found |= dict(group.step())
        step += 1
    group.close()
    return [found[number] for number in numbers]


@pytest.mark.parametrize("decode", [{}, {"beam": 1}, {"n_best": 3}, {"n_best": 2, "diverse": True}])
@pytest.mark.parametrize("prefix", ["", "Tu es"])
def test_translations_are_those_of_each_text_alone(model_folder, decode, prefix) -> None:
    app = load(model_folder).override({"decode.engine": "torch"})
    found = run(LiveGroup(app.writer(prefix=prefix, **decode)), TEXTS)
    for record, text in zip(found, TEXTS, strict=True):
        [alone] = app.results([text], prefix=prefix, **decode)
        assert (record.text, record.tokens, record.source) == (alone.text, alone.tokens, text)
        assert [it.text for it in record.alternatives] == [it.text for it in alone.alternatives]
        assert record.score == pytest.approx(alone.score, abs=1e-4)


@pytest.mark.parametrize("options", [{"max_len": 6}, {"chars": 5}, {"stop": ("S",), "max_len": 9, "beam": 1}])
def test_continuations_are_those_of_each_text_alone(writer, options) -> None:
    app = load(writer).override({"decode.engine": "torch"})
    for record, text in zip(run(LiveGroup(app.writer(**options)), TEXTS), TEXTS, strict=True):
        [alone] = app.continuations([text], **options)
        assert [(it.text, it.why) for it in record] == [(it.text, it.why) for it in alone]


def test_each_text_has_its_own_seed(writer) -> None:
    app = load(writer).override({"decode.engine": "torch"})
    group = LiveGroup(app.writer(sample=True, max_len=12))
    found = run(group, [Seeded("She ", seed) for seed in range(4)], every=1)
    alone = [app.continuations(["She "], sample=True, max_len=12, seed=seed)[0][0].text for seed in range(4)]
    assert [it[0].text for it in found] == alone
    assert len(set(alone)) == 4


@pytest.mark.parametrize("engine", ["torch", "loops"])
def test_the_pieces_are_the_text(model_folder, writer, engine) -> None:
    translator, generator = (load(it).override({"decode.engine": engine}) for it in (model_folder, writer))
    for writing in (translator.writer(beam=1), generator.writer(beam=1, max_len=12, stop=("zz",))):
        group, pieces = LiveGroup(writing), {text: [] for text in TEXTS}
        numbers = {group.add(text, pieces[text].append): text for text in TEXTS}
        found = {}
        while group:
            found |= dict(group.step())
        for number, text in numbers.items():
            assert "".join(pieces[text]) == writing.best(found[number]).text
        assert any(len(it) > 1 for it in pieces.values())


def test_a_dropped_text_is_gone_before_the_next_step(model_folder) -> None:
    app = load(model_folder).override({"decode.engine": "torch"})
    group = LiveGroup(app.writer(max_extra=30, min_len=20))
    numbers = [group.add(text, None) for text in TEXTS[:2]]
    group.step()
    group.drop(numbers[0])
    assert len(group) == 1
    rows = [step for search, _ in group._batch._searches for step in search.live]
    assert len(rows) == 1
    found: dict[int, Any] = {}
    while group:
        found |= dict(group.step())
    assert found.keys() == {numbers[1]}


def test_a_group_is_full_at_the_tokens_of_a_batch(model_folder) -> None:
    app = load(model_folder).override({"decode.engine": "torch", "decode.batch_tokens": 100})
    group = LiveGroup(app.writer(beam=4))
    added = 0
    while group.has_room():
        group.add("I am", None)
        added += 1
    assert 1 <= added <= 100 // (4 * 8)


def test_what_cannot_be_decoded_is_an_error(model_folder, word_model_folder, writer) -> None:
    app = load(model_folder)
    with pytest.raises(ConfigError):
        LiveGroup(app.writer(beam=4)).add("I am hungry.", lambda _: None)
    with pytest.raises(DataError):
        load(word_model_folder).writer(prefix="Zebra")
    with pytest.raises(DataError):
        LiveGroup(load(writer).writer()).add("\u4e2d", None)


SCORING = {"top": 2, "echo": True, "writes": False, "max_len": 1, "n_best": 1, "beam": 1}


def test_a_prompt_is_scored_a_few_tokens_at_a_time_and_once_for_all_its_answers(writer, monkeypatch) -> None:
    app, begun = load(writer).override({"decode.engine": "torch"}), []
    successors = Session.successors
    monkeypatch.setattr(
        Session, "successors", lambda self, source, ids, n: begun.append(ids) or successors(self, source, ids, n)
    )
    prompts = ["She sings. " * 4, "They sleep", "She sings. " * 4]
    group, found, steps = LiveGroup(app.completion_writer(**SCORING)), {}, 0
    numbers = [group.add(text, None) for text in prompts]
    assert not begun, "nothing is computed before a step"
    while group:
        found, steps = found | dict(group.step()), steps + 1
    assert list(found) == [numbers[1], numbers[0], numbers[2]] and steps > 5
    assert sorted(map(len, begun)) == [0, 0, 0, 9, 42]  # of the answers, and of the prompts
    alone = app.completion_writer(**SCORING)
    assert [found[number] for number in numbers] == alone.records(alone.read(prompts))


def test_answers_scored_in_turns_share_the_scores_of_their_prompt(writer, monkeypatch) -> None:
    app, begun = load(writer).override({"decode.engine": "torch"}), []
    successors = Session.successors
    monkeypatch.setattr(
        Session, "successors", lambda self, source, ids, n: begun.append(ids) or successors(self, source, ids, n)
    )
    scoring, found = app.completion_writer(**SCORING), {}
    reads = scoring.read(["She sings. "] * 3)
    left = dict(enumerate(scoring.finish(read, ()) for read in reads))
    next(left[0])
    left.pop(0).close()  # its client has left
    while left:
        for place, making in [*left.items()]:
            try:
                next(making)
            except StopIteration as end:
                found[place] = end.value
                del left[place]
    assert [len(it) for it in begun if it] == [len(reads[0].source) - 1] * 2, "again, since nobody waited for the first"
    assert found[1] == found[2] == app.completion_writer(**SCORING).record(reads[0], ())


def test_a_prompt_that_nobody_waits_for_is_not_scored_to_its_end(writer) -> None:
    group = LiveGroup(load(writer).override({"decode.engine": "torch"}).completion_writer(**SCORING))
    first, second = (group.add("She sings. " * 4, None) for _ in range(2))
    assert group.step() == [] and len(group) == 2
    group.drop(first)
    found: dict[int, Any] = {}
    while group:
        found |= dict(group.step())
    assert found.keys() == {second} and len(found[second].scores.logprobs) == 43


def test_a_text_that_needs_no_decoding_can_be_dropped(model_folder) -> None:
    group = LiveGroup(load(model_folder).override({"decode.engine": "torch"}).writer())
    first, second, third = (group.add(" ", None) for _ in range(3))
    group.drop(first)
    assert [number for number, _ in group.step()] == [second, third]
    assert group.add(" ", None) not in (first, second, third) and len(group) == 1
    group.close()
