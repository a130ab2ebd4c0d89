"""Texts join and leave a batch, and get the answers that they get alone."""

from pathlib import Path
from typing import Any

import pytest

from clearhead import load
from clearhead.errors import ConfigError, DataError
from clearhead.serving.decoders import PromptDecoder, SequenceDecoder
from clearhead.serving.live_groups import LiveGroup
from clearhead.serving.work import Seeded

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
    found = run(LiveGroup(SequenceDecoder(app, prefix=prefix, **decode)), TEXTS)
    for record, text in zip(found, TEXTS, strict=True):
        [alone] = app.results([text], prefix=prefix, **decode)
        assert (record.text, record.tokens, record.source) == (alone.text, alone.tokens, text)
        assert [it.text for it in record.alternatives] == [it.text for it in alone.alternatives]
        assert record.score == pytest.approx(alone.score, abs=1e-4)


@pytest.mark.parametrize("options", [{"max_len": 6}, {"chars": 5}, {"stop": ("S",), "max_len": 9, "beam": 1}])
def test_continuations_are_those_of_each_text_alone(writer, options) -> None:
    app = load(writer).override({"decode.engine": "torch"})
    for record, text in zip(run(LiveGroup(PromptDecoder(app, **options)), TEXTS), TEXTS, strict=True):
        [alone] = app.continuations([text], **options)
        assert [(it.text, it.why) for it in record] == [(it.text, it.why) for it in alone]


def test_each_text_has_its_own_seed(writer) -> None:
    app = load(writer).override({"decode.engine": "torch"})
    group = LiveGroup(PromptDecoder(app, sample=True, max_len=12))
    found = run(group, [Seeded("She ", seed) for seed in range(4)], every=1)
    alone = [app.continuations(["She "], sample=True, max_len=12, seed=seed)[0][0].text for seed in range(4)]
    assert [it[0].text for it in found] == alone
    assert len(set(alone)) == 4


@pytest.mark.parametrize("engine", ["torch", "loops"])
def test_the_pieces_are_the_text(model_folder, writer, engine) -> None:
    translator, generator = (load(it).override({"decode.engine": engine}) for it in (model_folder, writer))
    for decoder in (SequenceDecoder(translator, beam=1), PromptDecoder(generator, beam=1, max_len=12, stop=("zz",))):
        group, pieces = LiveGroup(decoder), {text: [] for text in TEXTS}
        numbers = {group.add(text, pieces[text].append): text for text in TEXTS}
        found = {}
        while group:
            found |= dict(group.step())
        for number, text in numbers.items():
            assert "".join(pieces[text]) == decoder.text(found[number])
        assert any(len(it) > 1 for it in pieces.values())


def test_a_dropped_text_is_gone_before_the_next_step(model_folder) -> None:
    app = load(model_folder).override({"decode.engine": "torch"})
    group = LiveGroup(SequenceDecoder(app, max_extra=30, min_len=20))
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
    group = LiveGroup(SequenceDecoder(app, beam=4))
    added = 0
    while group.has_room():
        group.add("I am", None)
        added += 1
    assert 1 <= added <= 100 // (4 * 8)


def test_what_cannot_be_decoded_is_an_error(model_folder, word_model_folder, writer) -> None:
    app = load(model_folder)
    with pytest.raises(ConfigError):
        LiveGroup(SequenceDecoder(app, beam=4)).add("I am hungry.", lambda _: None)
    with pytest.raises(DataError):
        SequenceDecoder(load(word_model_folder), prefix="Zebra")
    with pytest.raises(DataError):
        LiveGroup(PromptDecoder(load(writer))).add("\u4e2d", None)


def test_a_text_that_needs_no_decoding_can_be_dropped(model_folder) -> None:
    group = LiveGroup(SequenceDecoder(load(model_folder).override({"decode.engine": "torch"})))
    first, second, third = (group.add(" ", None) for _ in range(3))
    group.drop(first)
    assert [number for number, _ in group.step()] == [second, third]
    assert group.add(" ", None) not in (first, second, third) and len(group) == 1
    group.close()
