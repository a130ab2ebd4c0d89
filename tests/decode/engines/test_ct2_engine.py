"""The engine of CTranslate2 keeps its promises on a trained model, and says what it can't do."""

import importlib.util
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead
from clearhead.api import load
from clearhead.apps.app import App
from clearhead.config import Config, DecodeConfig, ModelConfig
from clearhead.decode.engines.ct2_engine import Ct2Engine, load_runner
from clearhead.decode.model_handle import as_handle
from clearhead.decode.registry import choose_engine, open_engine, usable_engines
from clearhead.decode.session import Session
from clearhead.errors import ConfigError, DataError, ModelError
from clearhead.exchange.ct2 import engine_files
from clearhead.model.transformer import build

pytest.importorskip("ctranslate2", reason="needs the extra ct2")
FORMATS = ("ct2-fp32",)
V = 30


@pytest.fixture(scope="module")
def sentences() -> list[tuple[str, str]]:
    """Words and their reversal, of which every third is left out."""
    rng, words = random.Random(0), [a + b for a, b in itertools.product("bdfgk", "aeiou")]
    texts = [rng.choices(words, k=rng.randint(2, 9)) for _ in range(1200)]
    return [(" ".join(text), " ".join(it for i, it in enumerate(text[::-1]) if i % 3 != 2)) for text in texts]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, sentences: list[tuple[str, str]]) -> Iterator[App]:
    """A model that has half learned to reverse words, so that it's unsure of many."""
    folder = tmp_path_factory.mktemp("trained")
    shape = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_encoder_layers": 1, "n_decoder_layers": 1}
    settings = {f"model.{name}": value for name, value in shape.items()}
    settings |= {"train.steps": 150, "train.lr": 0.003, "train.device": "cpu", "train.threads": 1, "data.joint": True}
    settings |= {"data.tokenizer": "word", "train.warmup": 20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        clearhead.train(Config().override(settings), folder / "m", data=sentences[:900], say=lambda _: None)
        yield load(folder / "m", device="cpu", threads=1)


def test_greedy_search_gives_the_lines_of_torch(app: App, sentences: list[tuple[str, str]]) -> None:
    texts = [source for source, _ in sentences[900:]]
    expected, found = (app(texts, beam=1, engine=engine) for engine in ("torch", "ct2"))
    assert np.mean([a == b for a, b in zip(expected, found)]) >= 0.998


def test_beam_search_gives_the_lines_and_the_bleu_of_torch(app: App, sentences: list[tuple[str, str]]) -> None:
    expected, found = (app.evaluate(sentences[900:], beam=4, engine=engine) for engine in ("torch", "ct2"))
    assert np.mean([a == b for a, b in zip(expected.answers, found.answers)]) >= 0.97
    assert abs(expected.scores.bleu - found.scores.bleu) <= 0.1
    greedy = app([source for source, _ in sentences[900:]], beam=1, engine="ct2")
    assert greedy != list(found.answers)  # so the search mattered


def test_scores_are_those_of_our_formula(app: App, sentences: list[tuple[str, str]]) -> None:
    texts = [source for source, _ in sentences[900:930]]
    for ours, theirs in zip(*(app.results(texts, engine=engine, beam=4, n_best=3) for engine in ("torch", "ct2"))):
        assert len(theirs.alternatives) == 2 and theirs.score >= theirs.alternatives[0].score
        if ours.text == theirs.text:
            assert theirs.score == pytest.approx(ours.score, abs=1e-4)
            np.testing.assert_allclose(theirs.logprobs, ours.logprobs, atol=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_answers_without_scores_are_the_same_and_are_not_scored(
    app: App, sentences: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, beam: int
) -> None:
    texts, calls = [source for source, _ in sentences[900:930]], []
    app("ba", engine="ct2")
    opened = app.loaded.handle.engines["ct2 fp32"]
    score = opened._score
    monkeypatch.setattr(opened, "_score", lambda rows: calls.append(len(rows)) or score(rows))
    brief = app.brief_results(texts, beam=beam, engine="ct2")
    assert not calls and app(texts, beam=beam, engine="ct2") == [it.text for it in brief] and not calls
    results = app.results(texts, beam=beam, engine="ct2")
    assert [it.text for it in results] == [it.text for it in brief] and sum(calls) == len(texts)
    assert app.evaluate(sentences[900:930], beam=beam, engine="ct2").answers and sum(calls) == len(texts)
    assert app.brief_results(["", "ba xyz"], engine="ct2")[1].unknown == app.results(["ba xyz"])[0].unknown != ()


def engine(folder: Path, topology: str, **settings: object) -> tuple[Ct2Engine, torch.nn.Module, ModelConfig]:
    shape = {"d_model": 16, "n_heads": 2, "d_ff": 32, "max_len": 24, "n_decoder_layers": 1, "tie": "none"}
    shape |= {"n_encoder_layers": int(topology != "decoder-only"), "src_vocab_size": V, "tgt_vocab_size": V}
    config = ModelConfig(topology=topology, **{**shape, **settings})  # type: ignore[arg-type]
    torch.manual_seed(0)
    net = build(config).eval()
    for name, data in engine_files(config, as_handle(net, config).weights()).items():
        (folder / name).write_bytes(data)
    return Ct2Engine(config, load_runner(config, folder, 1), 1), net, config


def test_every_source_has_its_own_limits(tmp_path: Path) -> None:
    opened, net, config = engine(tmp_path, "encoder-decoder")
    decode = DecodeConfig(beam=1, max_ratio=1.5, min_ratio=0.5, max_extra=2)
    sources = [[5] * 2, [6, 7, 8, 9], [10] * 9, [11, 4, 12, 9, 9, 9]]
    torch_engine = open_engine(as_handle(net, config), DecodeConfig(engine="torch"))
    found, expected = (
        Session(it, decode, config.special, max_len=24).answers(sources) for it in (opened, torch_engine)
    )
    assert [it[0].ids for it in found] == [it[0].ids for it in expected]
    assert [it[0].finished for it in found] == [it[0].finished for it in expected]
    assert len({len(it[0].ids) for it in found}) > 2


def test_if_every_token_is_suppressed_there_is_no_answer(tmp_path: Path) -> None:
    opened, _, config = engine(tmp_path, "encoder-decoder")
    session = Session(opened, DecodeConfig(beam=1), config.special, max_len=24, suppress=range(V))
    [[answer]] = session.answers([[5, 6]])
    assert (answer.ids, answer.score, answer.finished) == ((), -np.inf, False)


def test_nan_is_reported(tmp_path: Path) -> None:
    _, net, config = engine(tmp_path, "encoder-decoder")
    weights = dict(as_handle(net, config).weights())
    weights["decoder.projection.weight"] = np.full_like(weights["decoder.projection.weight"], np.nan)
    (folder := tmp_path / "nan").mkdir()
    for name, data in engine_files(config, weights).items():
        (folder / name).write_bytes(data)
    broken = Ct2Engine(config, load_runner(config, folder, 1), 1)
    with pytest.raises(ModelError) as caught:
        Session(broken, DecodeConfig(beam=1), config.special, max_len=24).answers([[5, 6]])
    assert caught.value.name == "probabilities"


def test_a_text_beyond_the_context_window_is_rejected(model_folder: Path, tmp_path: Path) -> None:
    from clearhead.decode.continuation import PromptSession, StoppingCriteria
    from clearhead.tokenization.tokenizer import Tokenizer

    tokenizer = Tokenizer.train(["abcdefgh ij klmnopqrstuvwxyz\n"], Config().data.__class__(tokenizer="character"))
    size = tokenizer.vocab_size
    opened, _, _ = engine(tmp_path, "decoder-only", src_vocab_size=size, tgt_vocab_size=size)
    session = PromptSession(opened, DecodeConfig(beam=1, max_len=10), tokenizer, stopping=StoppingCriteria())
    assert len(session.answers([[5] * 15])[0][0].token_log_probabilities) <= 10
    with pytest.raises(DataError) as caught:
        session.answers([[5] * 16])
    assert (caught.value.name, caught.value.value) == ("prompt", 16) and "decode.max_len" in caught.value.fix


@pytest.mark.parametrize("settings", [
    {"copy": True}, {"positions": "alibi"}, {"front": "frames"}, {"attention": "mine:Attention"}, {"window": 4},
])  # fmt: skip
def test_a_model_that_it_can_t_run_is_rejected_by_the_name_of_the_setting(settings: dict[str, object]) -> None:
    config = ModelConfig(src_vocab_size=V, tgt_vocab_size=V, **settings)  # type: ignore[arg-type]
    [(name, value)] = settings.items()
    with pytest.raises(ConfigError) as caught:
        choose_engine(config, DecodeConfig(engine="ct2"), "cpu", FORMATS)
    assert caught.value.name == "decode.engine" and f"model.{name}={value!r}" in caught.value.what


@pytest.mark.parametrize(("name", "value"), [
    ("diverse", True), ("no_repeat_ngram", 2), ("repetition_penalty", 1.5), ("sample", True),
])  # fmt: skip
def test_a_setting_that_it_lacks_is_rejected_by_name(name: str, value: object) -> None:
    config = ModelConfig(src_vocab_size=V, tgt_vocab_size=V)
    with pytest.raises(ConfigError) as caught:
        choose_engine(config, DecodeConfig(engine="ct2", **{name: value}), "cpu", FORMATS)  # type: ignore[arg-type]
    assert (caught.value.name, caught.value.value) == (f"decode.{name}", value)


def test_it_runs_folders_on_the_cpu() -> None:
    config = ModelConfig(src_vocab_size=V, tgt_vocab_size=V)
    assert "ct2" in usable_engines(config, "cpu", FORMATS)
    for device, formats, reason in (("cuda:0", FORMATS, "on the CPU only"), ("cpu", (), "needs a model folder")):
        with pytest.raises(ConfigError, match=reason):
            choose_engine(config, DecodeConfig(engine="ct2"), device, formats)


def test_a_missing_library_is_answered_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install ctranslate2"):
        choose_engine(ModelConfig(src_vocab_size=V, tgt_vocab_size=V), DecodeConfig(engine="ct2"), "cpu", FORMATS)


@pytest.mark.parametrize("beam", [1, 4])
def test_auto_prefers_engines_with_the_search_of_this_project(beam: int) -> None:
    config = ModelConfig(src_vocab_size=V, tgt_vocab_size=V)
    assert choose_engine(config, DecodeConfig(beam=beam), "cpu", FORMATS) != "ct2"
