"""A model in use without its parts: every task, its own scores, and what is kept of them."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.api import load
from clearhead.apps.app import App
from clearhead.config import Config
from clearhead.errors import ConfigError
from clearhead.folder.model_folder import model_files, save_files
from clearhead.inspection.record.switches import switches
from clearhead.model.transformer import build
from clearhead.tasks.registry import task_named
from clearhead.tokenization.source_and_target import train_tokenizers
from tests.builders import ENGLISH, FRENCH, make_questions

SIZES = {
    "data.tokenizer": "bpe", "data.vocab_size": 300, "data.max_len": 24, "model.d_model": 16, "model.n_heads": 2,
    "model.d_ff": 32, "model.n_encoder_layers": 1, "model.n_decoder_layers": 1,
    "data.train": ["pairs.tsv"], "train.threads": 1, "data.batch_tokens": 1024,
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "translate": {"model.copy": True, "decode.max_extra": 4},
    "generate": {},
    "classify": {"data.labels": ["warm", "cold"]},
    "summarize": {"decode.max_extra": 4},
    "answer": {},
}


def make_folder(path: Path, verb: str) -> Path:
    """A model of a task, with random weights."""
    given = {**SIZES, **OWN[verb]}
    config = task_named(verb).settle(Config().override(given))
    tokenizers = train_tokenizers(ENGLISH, FRENCH, config.data)
    size = tokenizers.source.vocab_size
    classes = {"model.n_classes": len(config.data.labels)}
    config = config.override({"model.src_vocab_size": size, "model.tgt_vocab_size": size, **classes})
    with torch.random.fork_rng():
        torch.manual_seed(1)
        weights = build(config.model).state_dict()
        for name, tensor in weights.items():
            if name.endswith(("out.weight", "outer.weight")):
                tensor.mul_(4)  # so that each part does something
    save_files(path, model_files(config=config.to_dict(), tokenizer=tokenizers.to_json(), weights=weights, card="# A"))
    return path


def make_data(folder: Path, verb: str) -> Any:
    """Data of a task, read as it reads them."""
    pairs = [f"{text} {n}" for n in range(3) for text in ENGLISH]
    match verb:
        case "generate":
            text = "".join(f"{it}\n" for it in pairs)
        case "classify":
            text = "".join(f"{it}\t{('warm', 'cold')[n % 2]}\n" for n, it in enumerate(pairs))
        case "summarize":
            text = "document\tsummary\n" + "".join(f"{it} And more of it.\t{it}\n" for it in pairs)
        case "answer":
            import json

            text = json.dumps(make_questions(6))
        case _:
            text = "".join(f"{it}\t{FRENCH[n % 5]}\n" for n, it in enumerate(pairs))
    path = folder / ("data.json" if verb == "answer" else "data.tsv")
    path.write_text(text, encoding="utf-8")
    return task_named(verb).form.read([str(path)], Config().data)


@pytest.fixture(params=[pytest.param(it, marks=[pytest.mark.slow] * (it == "summarize")) for it in OWN])
def used(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[App, Any]]:
    threads = torch.get_num_threads()
    folder = make_folder(tmp_path / "model", request.param)
    yield load(folder, device="cpu"), make_data(tmp_path, request.param)
    torch.set_num_threads(threads)


def test_every_task_is_scored_without_each_part(used: tuple[App, Any]) -> None:
    app, data = used
    found = app.ablate(data, limit=None)
    assert [row.name for row in found.rows] == list(switches(app.model))
    task = app.task
    for score in task.compared_by:
        own = app.ablate(data, limit=None, score=score)
        assert own.measure.key == score
        by_hand = app.task.compare([("whole", app.evaluate(data).judged), ("same", app.evaluate(data).judged)]).by_score
        if score in by_hand:  # bits a byte are once a sum over the bytes, and once a mean over blocks
            assert own.measure.whole == pytest.approx(by_hand[score][0].score, rel=1e-12)
        for row in own.rows:
            with app.without(row.name):
                judged = app.evaluate(data).judged
            expected = app.task.compare([("whole", app.evaluate(data).judged), (row.name, judged)]).by_score
            if score in expected:
                it = expected[score][1]
                expected_row = pytest.approx((it.score, *it.difference, it.p_value))
                assert (row.score, row.low, row.high, row.p_value) == expected_row
            else:
                assert row.score == pytest.approx(judged.singly()[score].mean())
            assert row.change == row.score - own.measure.whole
            whole = app.evaluate(data).judged.answers
            assert row.changed == (sum(a != b for a, b in zip(whole, judged.answers)) if whole else None)
    assert found.measure.key == task.compared_by[0]
    last = app.ablate(data, limit=None, score=task.compared_by[-1])
    assert any(row.change or row.changed for row in last.rows)


def test_the_scores_of_a_task_are_those_that_its_models_are_compared_by(used: tuple[App, Any]) -> None:
    app, data = used
    judged = app.evaluate(data).judged
    by_score = app.task.compare([("one", judged), ("same", judged)]).by_score
    assert {*by_score} <= {*app.task.compared_by} <= {*by_score, *judged.singly()}
    assert app.task.compared_by[0] in by_score


def test_a_second_call_measures_nothing_and_gives_the_same(used: tuple[App, Any]) -> None:
    app, data = used
    first, told = app.ablate(data), list[tuple[str, int, int]]()
    again = load(app.path, device="cpu").ablate(data, watch=lambda *it: told.append(it))
    assert (again.rows, again.measure) == (first.rows, first.measure) and again.to_dict() == first.to_dict()
    assert told == [("comparing", 0, 0)]
    assert (first.study.kept, again.study.kept) == (0, len(first.rows) + 1)
    assert again.study.folder.parent == app.path / "ablation"


@pytest.fixture
def translator(tmp_path: Path) -> App:
    return load(make_folder(tmp_path / "model", "translate"), device="cpu")


def test_other_weights_data_and_searches_are_measured_anew(translator: App, tmp_path: Path) -> None:
    app, data = translator, make_data(tmp_path, "translate")
    parts = {"parts": "feed-forwards"}
    first = app.ablate(data, **parts)
    assert app.ablate(data, parts="attentions").study.kept == 1, "the whole model, as before"
    assert app.ablate(data, **parts, beam=1).study.kept == 0
    assert app.ablate(data.take(range(9), "fewer"), **parts).study.kept == 0
    assert app.ablate(data, **parts, limit=5).study.kept == 0
    assert app.ablate(replace(data, targets=data.targets[::-1]), **parts).study.kept == 0
    with torch.no_grad():
        app.model.decoder.projection.weight.mul_(-1)
    other = app.ablate(data, **parts)
    assert other.study.kept == 0 and other.rows != first.rows
    assert app.ablate(data, **parts).study.kept == 3


def test_nothing_is_kept_where_that_is_not_wanted_or_hooks_are_at_work(translator: App, tmp_path: Path) -> None:
    app, data = translator, make_data(tmp_path, "translate")
    found = app.ablate(data, parts="feed-forwards", keep=False)
    assert found.study.folder is None and not found.study.problem
    with app.without("decoder.0.self"):
        hooked = app.ablate(data, parts="feed-forwards")
        assert hooked.measure.whole == app.evaluate(data).scores.bleu
    assert "the model has hooks" in hooked.study.problem and hooked.study.folder is None
    assert not (app.path / "ablation").exists()


def test_a_model_folder_that_is_gone_or_cannot_be_written_to_is_no_failure(
    translator: App, tmp_path: Path, fail_from, read_only
) -> None:
    data = make_data(tmp_path, "translate")
    with fail_from(1, read_only):
        found = translator.ablate(data, parts="feed-forwards")
    assert "Read-only file system" in found.study.problem
    assert found.rows == translator.ablate(data, parts="feed-forwards").rows
    assert load(translator.path, device="cpu").ablate(data, parts="feed-forwards").study.kept == 3


@pytest.mark.parametrize(("parts", "count"), [("heads", 6), ("attentions", 3), ("feed-forwards", 2), ("all", 11)])
def test_the_parts_can_be_chosen(translator: App, tmp_path: Path, parts: str, count: int) -> None:
    found = translator.ablate(make_data(tmp_path, "translate"), parts=parts, beam=1)
    assert len(found.rows) == count


def test_a_sample_is_drawn_always_the_same_and_said(translator: App, tmp_path: Path) -> None:
    data = make_data(tmp_path, "translate")
    found = translator.ablate(data, limit=6, parts="feed-forwards")
    assert found.study.texts == 6 and found.study.sampled == "6 of 15 different sources, drawn at random (limit)"
    assert found.rows == translator.ablate(data, limit=6, parts="feed-forwards", keep=False).rows
    assert not translator.ablate(data, limit=15, parts="feed-forwards").study.sampled


def test_the_model_is_as_it_was(translator: App, tmp_path: Path) -> None:
    before = translator.results(ENGLISH)
    translator.ablate(make_data(tmp_path, "translate"), beam=1)
    assert translator.results(ENGLISH) == before
    with translator.without():
        assert translator.results(ENGLISH) == before
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in translator.model.modules())


def test_what_is_recorded_without_a_part_says_so(translator: App) -> None:
    off = ["encoder.0.feed_forward", "decoder.0.cross.head.1"]
    with translator.without(*off):
        found = translator.explain("We are here.")
    note = "Recorded without encoder.0.feed_forward, decoder.0.cross.head.1."
    views = (found.render(), found.render_heads("decoder.cross", 0), found.searched.render(), found.lens.render())
    assert all(note in " ".join(view.split()) for view in views)
    assert found.to_dict("decoder.cross", 0, 0)["without"] == found.trace.to_dict()["off"] == off
    assert "normal run" in translator.explain("We are here.").render()


def test_a_search_without_a_part_is_that_of_the_pass_without_it(translator: App) -> None:
    """The likeliest tokens, found by reading all of the answer again for each."""
    app, text = translator, "We are here."
    bos, eos = app.config.model.bos_id, app.config.model.eos_id
    app.model.double()
    [source], _ = app.task.reader.for_search([text])
    for name in ("decoder.0.cross.head.1", "decoder.0.self", "encoder.0.feed_forward"):
        with app.without(name), torch.no_grad():
            said = [bos]
            while len(said) < 8:
                logits = app.model(torch.tensor([[*source, eos]]), torch.tensor([said]))[0, -1]
                said.append(int(logits.argmax()))
            found = app.task.session(app.model, app.decode_config(beam=1, min_len=7, max_len=7)).answers([source])
        expected = said[1:]
        if eos not in expected:
            assert list(found[0][0].ids) == expected, name


@pytest.mark.parametrize(
    ("options", "expected", "fix"),
    [
        ({"parts": "head"}, "one of heads, attentions, feed-forwards, all", "did you mean 'heads'?"),
        ({"score": "blue"}, "one of bleu, chrf", "did you mean 'bleu'?"),
        ({"score": "f1"}, "one of bleu, chrf", ""),
        ({"limit": 0}, "at least 1", ""),
    ],
)
def test_invalid_options_are_rejected_before_anything_is_measured(
    translator: App, tmp_path: Path, options: dict, expected: str, fix: str
) -> None:
    measured: list[object] = []
    data = make_data(tmp_path, "translate")
    with pytest.raises(ConfigError) as caught:
        translator.ablate(data, watch=lambda *it: measured.append(it), **options)
    assert {caught.value.name: caught.value.value} == options
    assert (caught.value.expected, caught.value.fix) == (expected, fix)
    with pytest.raises(ConfigError, match="beem"):
        translator.ablate(data, watch=lambda *it: measured.append(it), beem=2)
    assert not measured and not (translator.path / "ablation").exists()


def test_heads_of_a_model_that_has_none_are_refused(tmp_path: Path) -> None:
    class Still(torch.nn.Module):
        def forward(self, x: torch.Tensor, **_: object) -> torch.Tensor:
            return x

    app = load(make_folder(tmp_path / "text", "generate"), device="cpu")
    app.model.blocks[0].attention = Still()
    data = make_data(tmp_path, "generate")
    with pytest.raises(ConfigError) as caught:
        app.ablate(data, parts="heads")
    assert (caught.value.name, caught.value.value) == ("parts", "heads")
    assert [row.name for row in app.ablate(data).rows] == ["decoder.0.self", "decoder.0.feed_forward"]


def test_the_model_folder_is_still_one(translator: App, tmp_path: Path) -> None:
    translator.ablate(make_data(tmp_path, "translate"), parts="feed-forwards")
    copied = shutil.copytree(translator.path, tmp_path / "copy")
    assert load(copied, device="cpu").results(ENGLISH) == translator.results(ENGLISH)


def test_a_part_that_does_nothing_has_no_change_and_no_width(translator: App, tmp_path: Path) -> None:
    with torch.no_grad():
        translator.model.decoder.blocks[0].feed_forward.outer.weight.zero_()
        translator.model.decoder.blocks[0].feed_forward.outer.bias.zero_()
    *_, row = translator.ablate(make_data(tmp_path, "translate"), parts="feed-forwards").rows
    assert (row.name, row.change, row.low, row.high, row.p_value, row.changed) == (
        "decoder.0.feed_forward", 0.0, 0.0, 0.0, 1.0, 0,
    )  # fmt: skip
    assert not row.sure and np.isfinite(row.score)


def test_of_one_text_nothing_is_sure(tmp_path: Path) -> None:
    app, data = load(make_folder(tmp_path / "model", "classify"), device="cpu"), make_data(tmp_path, "classify")
    one, some = (app.ablate(data, limit=n, score="right_probability", keep=False) for n in (1, 15))
    assert any(row.low > 0 or row.high < 0 for row in one.rows) and not any(row.sure for row in one.rows)
    assert "There's only one text" in one.render() and "excludes 0" not in one.render()
    assert [row.sure for row in some.rows] == [row.low > 0 or row.high < 0 for row in some.rows]
    assert "excludes 0" in some.render() and "only one text" not in some.render()
