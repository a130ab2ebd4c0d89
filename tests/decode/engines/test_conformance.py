"""Every engine in the registry gives the same answers. A small batch engine defined here proves the seam.

A new engine is tested here as soon as it's in the registry. A batch engine must either support a setting, or reject it.
"""

import atexit
import functools
import shutil
import tempfile
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
import torch
from torch import nn

from clearhead import api
from clearhead.api import load, train
from clearhead.apps.app import App
from clearhead.cli.folder_summary import summarize_folder
from clearhead.config import Config, DataConfig, DecodeConfig, ModelConfig, SpecialTokens
from clearhead.decode import registry
from clearhead.decode.beams import Hypothesis
from clearhead.decode.continuation import StoppingCriteria, TextGenerator
from clearhead.decode.engine import Batch, BatchEngine
from clearhead.decode.engines.loops.machine_code import LoopsOpener
from clearhead.decode.live_batch import LiveBatch
from clearhead.decode.model_handle import InMemoryModel, ModelHandle, as_handle
from clearhead.decode.registry import ENGINES, EngineChoice, choice_for, choose_engine, open_engine, usable_engines
from clearhead.decode.session import Session
from clearhead.errors import ConfigError
from clearhead.exchange.ct2 import engine_files
from clearhead.exchange.ctranslate2 import model_cache
from clearhead.model.transformer import build
from clearhead.tokenization.tokenizer import Tokenizer

BOS, EOS, PAD, UNK = 1, 2, 0, 3  # the special tokens of a new vocabulary

MAX_LEN = 16
SOURCES = [[5, 6, 7], [9], [], [4, 8, 10, 11, 5, 7], [6, 6]]
SPECIALS = (PAD, BOS, UNK)


class ToyEngine:
    """A batch engine that runs the whole model for each token: greedy search and sampling, nothing else."""

    name, settings = "toy", frozenset({"sample", "temperature", "seed", "min_len", "min_ratio", "suppress"})

    def __init__(self, model: ModelHandle) -> None:
        self.model, self.max_len, self.overflow = model, model.config.max_len, "the newest tokens only"

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        return "it runs on the CPU only" if device != "cpu" else ""

    @classmethod
    def open(cls, model: ModelHandle) -> Self:
        return cls(model)

    def decode(self, batch: Batch, config: DecodeConfig) -> list[list[Hypothesis]]:
        rng, found = np.random.default_rng(config.seed), []
        for source, start, request in zip(batch.sources, batch.start.tolist(), batch.requests):
            ids, parts, finished = [], [], False
            while len(parts) < request.max_steps and not finished:
                log_p = full_forward(self.model.module(), source, [start, *ids]).numpy()
                allowed = log_p.copy()
                allowed[list(batch.suppress)] = -np.inf
                if len(ids) < request.min_len:
                    allowed[EOS] = -np.inf
                if config.sample:
                    allowed = allowed / config.temperature + rng.gumbel(size=allowed.shape)
                token = int(allowed.argmax())
                if len(ids) < len(request.prefix):
                    token = request.prefix[len(ids)]
                elif len(ids) == request.max_len:
                    token = EOS
                parts.append(float(log_p[token]))
                finished = token == EOS
                ids += [token] * (not finished)
            total = sum(parts)
            score = total / ((5 + len(parts)) / 6) ** config.alpha
            found.append([Hypothesis(tuple(ids), score, total, tuple(parts), finished)])
        return found


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{ToyEngine.__module__}:ToyEngine"
    monkeypatch.setitem(ENGINES, "toy", {"encoder-decoder": path, "decoder-only": path})


every_engine = pytest.mark.parametrize("name", [*ENGINES, "toy"])
both = pytest.mark.parametrize("topology", ["encoder-decoder", "decoder-only"])


@functools.cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["abcdefgh ij\n"] * 2, DataConfig(tokenizer="character"))


@functools.cache
def model(topology: str) -> tuple[nn.Module, ModelConfig]:
    torch.manual_seed(1)
    shape = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_decoder_layers": 2, "tie": "none", "max_len": MAX_LEN}
    layers = 0 if topology == "decoder-only" else 1
    size = tokenizer().vocab_size
    config = ModelConfig(
        topology=topology, src_vocab_size=size, tgt_vocab_size=size, n_encoder_layers=layers, positions="rotary",
        **shape
    )  # fmt: skip
    net = build(config)
    for parameter in net.parameters():
        parameter.data *= 2.0  # far enough from uniform that beams cross
    return net.eval(), config


class Convertible(InMemoryModel):
    """A module in memory that is written for engines that run a folder."""

    formats = ("ct2-fp32",)

    def converted(self, format: str) -> Path:
        return converted_folder(self.config.topology) if format in self.formats else super().converted(format)


@functools.cache
def converted_folder(topology: str) -> Path:
    net, config = model(topology)
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    for name, data in engine_files(config, as_handle(net, config).weights()).items():
        (folder / name).write_bytes(data)
    return folder


def handle(topology: str) -> ModelHandle:
    return Convertible(*model(topology))


@torch.no_grad()
def full_forward(net: nn.Module, source: Sequence[int], target: Sequence[int]) -> torch.Tensor:
    """Log-probabilities (V,) of the next token, without a cache, a batch or padding."""
    training = net.training
    net.eval()
    if hasattr(net, "encoder"):
        logits = net(torch.tensor([source]), torch.tensor([target]))
    else:
        logits = net(torch.tensor([[*source, *target][-MAX_LEN:]]))
    net.train(training)
    return logits[0, -1].log_softmax(-1)


def session(name: str, topology: str, config: DecodeConfig, **more: object) -> Session:
    opened = open_engine(handle(topology), replace(config, engine=name))
    if topology == "decoder-only":
        return TextGenerator(opened, tokenizer(), config).session  # type: ignore[arg-type]
    return Session(opened, config, SpecialTokens(), max_len=MAX_LEN, **more)  # type: ignore[arg-type]


def supported(name: str, topology: str, config: DecodeConfig) -> Session | None:
    """The session, if the engine supports these settings; else None, after checking that it rejects them."""
    opened = open_engine(handle(topology), DecodeConfig(engine=name, beam=1))
    unsupported = set()
    if isinstance(opened, BatchEngine):
        changed = {key for key, value in vars(config).items() if value != vars(DecodeConfig())[key] or key == "beam"}
        changed -= {"beam"} if config.sample or config.beam == 1 else set()
        unsupported = changed - opened.settings - {"max_len", "max_extra", "batch_tokens"}
    if not unsupported:
        return session(name, topology, config)
    with pytest.raises(ConfigError) as caught:
        session(name, topology, config)
    assert caught.value.name.removeprefix("decode.") in unsupported | {"alpha"} and repr(name) in caught.value.what
    return None


def same(found: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]) -> None:
    assert [[it.ids for it in some] for some in found] == [[it.ids for it in some] for some in expected]
    for some, others in zip(found, expected):
        for one, other in zip(some, others):
            assert one.finished == other.finished
            np.testing.assert_allclose(one.token_log_probabilities, other.token_log_probabilities, atol=1e-4)
            np.testing.assert_allclose(
                [one.score, one.log_probability], [other.score, other.log_probability], atol=1e-3
            )


@every_engine
@both
def test_greedy_search_takes_the_top_token_of_the_full_forward_in_a_ragged_batch(name: str, topology: str) -> None:
    config, (net, _) = DecodeConfig(beam=1, max_len=6), model(topology)
    for source, [answer] in zip(SOURCES, session(name, topology, config).answers(SOURCES)):
        read, start = ([*source, EOS], BOS) if topology == "encoder-decoder" else (source[:-1], (source or [BOS])[-1])
        ids: list[int] = []
        while len(ids) < 6:
            log_p = full_forward(net, read, [start, *ids])
            log_p[list(SPECIALS)] = -torch.inf
            if (token := int(log_p.argmax())) == EOS:
                break
            ids.append(token)
        assert answer.ids == tuple(ids)
        tokens = [*ids, EOS][: len(answer.token_log_probabilities)]
        scored = [float(full_forward(net, read, [start, *tokens[:t]])[token]) for t, token in enumerate(tokens)]
        np.testing.assert_allclose(answer.token_log_probabilities, scored, atol=1e-4)
        assert answer.score == pytest.approx(sum(scored) / ((5 + len(scored)) / 6) ** config.alpha, abs=1e-3)


@every_engine
@both
@pytest.mark.parametrize(
    "settings",
    [
        {"beam": 3},
        {"beam": 4, "n_best": 4},
        {"beam": 4, "n_best": 2, "diverse": True},
        {"beam": 1, "min_len": 4},
        {"beam": 2, "no_repeat_ngram": 1},
        {"beam": 1, "repetition_penalty": 3.0},
        {"beam": 1, "suppress": ("a", "b")},
    ],
    ids=str,
)
def test_a_setting_gives_the_answers_of_the_torch_engine_or_is_rejected(name: str, topology: str, settings) -> None:
    config = DecodeConfig(max_len=7, **settings)
    if it := supported(name, topology, config):
        if name == "ct2" and config.beam > 1:
            scored_by_the_model(topology, it.answers(SOURCES), config)  # its answers can differ a little
        else:
            same(it.answers(SOURCES), session("torch", topology, config).answers(SOURCES))


def scored_by_the_model(topology: str, found: Sequence[Sequence[Hypothesis]], config: DecodeConfig) -> None:
    net, _ = model(topology)
    for source, answers in zip(SOURCES, found):
        assert 1 <= len({it.ids for it in answers}) == len(answers) <= config.beam
        assert [it.sort_key for it in answers] == sorted(it.sort_key for it in answers)
        read, start = ([*source, EOS], BOS) if topology == "encoder-decoder" else (source[:-1], (source or [BOS])[-1])
        for it in answers:
            tokens = [*it.ids, EOS][: len(it.token_log_probabilities)]
            parts = [float(full_forward(net, read, [start, *tokens[:t]])[token]) for t, token in enumerate(tokens)]
            np.testing.assert_allclose(it.token_log_probabilities, parts, atol=1e-4)
            assert it.log_probability == pytest.approx(sum(parts), abs=1e-3)
            assert it.score == pytest.approx(sum(parts) / ((5 + len(parts)) / 6) ** config.alpha, abs=1e-3)


@every_engine
def test_every_answer_starts_with_the_prefix(name: str) -> None:
    config = DecodeConfig(beam=1, max_len=7)
    found = dict(session(name, "encoder-decoder", config).stream(SOURCES, [6, 9]))
    expected = dict(session("torch", "encoder-decoder", config).stream(SOURCES, [6, 9]))
    same([found[place] for place in sorted(found)], [expected[place] for place in sorted(found)])
    assert all(answers[0].ids[:2] == (6, 9) for answers in found.values()) and len(found) == len(SOURCES)


@every_engine
@both
def test_streamed_tokens_are_the_answer(name: str, topology: str) -> None:
    it = session(name, topology, DecodeConfig(beam=1, max_len=6))
    for source in SOURCES:
        assert tuple(it.tokens(source)) == it.answers([source])[0][0].ids


@every_engine
@both
def test_a_sequence_that_joins_a_batch_later_has_the_answer_that_it_has_alone(name: str, topology: str) -> None:
    it = session(name, topology, DecodeConfig(beam=1, max_len=6))
    found, streamed = {}, []
    with LiveBatch(it) as batch:
        for source in SOURCES:
            batch.add(source, on_token=streamed.append if len(streamed) == 0 else None)
            found |= dict(batch.step())
        while batch:
            found |= dict(batch.step())
    same([found[number] for number in sorted(found)], it.answers(SOURCES))
    assert tuple(streamed) == found[1][0].ids


@every_engine
def test_a_text_ends_before_a_stop_string_and_after_so_many_characters(name: str) -> None:
    def text(stopping: StoppingCriteria) -> tuple[str, str]:
        opened = open_engine(handle("decoder-only"), DecodeConfig(engine=name, beam=1))
        config = DecodeConfig(beam=1, max_len=12)
        writer = TextGenerator(opened, tokenizer(), config, stopping=stopping)  # type: ignore[arg-type]
        [[found]] = writer.records(writer.read(["abc"]))
        assert len(found.logprobs) == len(found.ids) and found.log_probability == pytest.approx(sum(found.logprobs))
        return found.text, found.why

    whole, _ = text(StoppingCriteria(chars=12))
    assert len(whole) == 12
    stop = whole[5:7]
    assert text(StoppingCriteria(stop=[stop])) == (whole[: whole.index(stop)], "stop")
    assert text(StoppingCriteria(chars=9)) == (whole[:9], "chars")


@pytest.mark.parametrize("name", [name for name in (*ENGINES, "toy") if name != "ct2"])
def test_of_a_prompt_longer_than_the_context_the_first_tokens_change_nothing(name: str) -> None:
    it, rng = session(name, "decoder-only", DecodeConfig(beam=1, max_len=3)), np.random.default_rng(0)
    newest = rng.integers(4, 12, MAX_LEN).tolist()
    [[first], [second]] = it.answers([[4] * 5 + newest, [9] * 40 + newest])
    assert first.ids == second.ids and len(first.ids) == 3


@every_engine
@both
def test_sampling_is_a_function_of_the_seed(name: str, topology: str) -> None:
    config = DecodeConfig(sample=True, temperature=1.5, max_len=8)
    if not (it := supported(name, topology, config)):
        return
    first = it.answers(SOURCES)
    assert first == session(name, topology, config).answers(SOURCES)
    others = [session(name, topology, replace(config, seed=seed)).answers(SOURCES) for seed in (1, 2)]
    assert first != others[0] != others[1]


@every_engine
@both
def test_a_model_in_training_decodes_without_dropout_and_stays_in_training(name: str, topology: str) -> None:
    it, (net, _) = session(name, topology, DecodeConfig(beam=1, max_len=6)), model(topology)
    expected = it.answers(SOURCES)
    net.train()
    same(it.answers(SOURCES), expected)
    assert all(module.training for module in net.modules())
    net.eval()


# --- the registry


def test_auto_takes_the_first_engine_that_is_ready() -> None:
    config = model("encoder-decoder")[1]
    assert choose_engine(config, DecodeConfig()) == "torch" and usable_engines(config)[-3:] == [
        "torch",
        "packed",
        "toy",
    ]
    assert choose_engine(config, DecodeConfig(engine="toy", beam=1)) == "toy"
    assert usable_engines(config, "cuda:0") == ["torch"] and choose_engine(config, DecodeConfig(), "cuda:0") == "torch"


@pytest.mark.parametrize("topology", ["encoder-decoder", "decoder-only"])
def test_auto_takes_the_loops_once_they_are_compiled(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, config = model(topology)
    it = Converted(config)
    choice = choice_for(it, DecodeConfig())
    assert (choice.name, choice.waiting) == ("torch", ("loops",)) and "compiles" in choice.passed_over["loops"]
    monkeypatch.setattr(LoopsOpener, "waits", lambda *_: "")
    assert choice_for(it, DecodeConfig()) == EngineChoice("loops", {})
    assert choice_for(it, DecodeConfig(precision="int8")).name == "loops"
    assert choice_for(as_handle(net, config), DecodeConfig()).name == "torch"  # it may have hooks
    other = replace(config, norm="mine:Norm")
    assert "model.norm" in choice_for(Converted(other), DecodeConfig()).passed_over["loops"]


def test_auto_takes_ct2_for_a_converted_model_if_its_answers_are_those_of_torch() -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    it = Converted(model("encoder-decoder")[1])
    greedy = DecodeConfig(beam=1)
    assert choice_for(it, greedy) == EngineChoice("torch", choice_for(it, greedy).passed_over, ("loops", "ct2"))
    it.formats_converted = ("ct2-fp32",)
    assert choice_for(it, greedy).name == "ct2"
    reasons = choice_for(it, DecodeConfig(beam=2)).passed_over
    assert choice_for(it, DecodeConfig(beam=2)).name == "torch" and "decode.beam=2" in reasons["ct2"]
    assert "decode.sample" in choice_for(it, DecodeConfig(sample=True)).passed_over["ct2"]


def test_if_only_engines_that_are_not_ready_can_do_it_auto_takes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_engine(model("encoder-decoder")[1], DecodeConfig(precision="int8")) == "packed"
    monkeypatch.delitem(ENGINES, "packed")
    choice = choice_for(Converted(model("encoder-decoder")[1]), DecodeConfig(precision="int8"))
    assert choice == EngineChoice("loops", {})


class Converted(InMemoryModel):
    """A model that isn't in memory, and is converted to some formats."""

    needs_module, formats, formats_converted = False, ("ct2-fp32", "ct2-int8"), ()

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(nn.Linear(1, 1), config)

    def is_converted(self, format: str) -> bool:
        return format in self.formats_converted


@pytest.mark.parametrize(("name", "fix"), [("toch", "did you mean 'torch'?"), ("xyz", "")])
def test_an_unknown_engine_is_rejected_with_a_suggestion(name: str, fix: str) -> None:
    with pytest.raises(ConfigError, match=rf"^decode\.engine={name!r} isn't a decoding engine") as caught:
        open_engine(handle("decoder-only"), DecodeConfig(engine=name))
    assert (caught.value.name, caught.value.value, caught.value.fix) == ("decode.engine", name, fix)
    assert caught.value.expected == f"one of auto, {', '.join(ENGINES)}"


def test_auto_skips_an_engine_that_does_not_support_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    config = model("encoder-decoder")[1]
    monkeypatch.setattr(registry, "ENGINES", {"toy": ENGINES["toy"], **ENGINES})
    greedy, sampled = DecodeConfig(beam=1), DecodeConfig(sample=True, top_k=5)
    assert [choose_engine(config, it) for it in (greedy, DecodeConfig(), sampled)] == ["toy", "torch", "torch"]
    assert not isinstance(open_engine(handle("encoder-decoder"), sampled), ToyEngine)
    with pytest.raises(ConfigError) as caught:
        choose_engine(config, replace(sampled, engine="toy"))
    assert (caught.value.name, caught.value.value) == ("decode.top_k", 5)


def test_an_engine_that_cannot_run_the_model_is_rejected_with_the_reason() -> None:
    encoder = ModelConfig(topology="encoder-only", src_vocab_size=9, n_decoder_layers=0)
    for config, name, device, reason in (
        (encoder, "torch", "cpu", "it doesn't support model.topology='encoder-only'"),
        (model("decoder-only")[1], "toy", "cuda:0", "it runs on the CPU only"),
    ):
        with pytest.raises(ConfigError, match=rf"^decode\.engine='{name}' can't run this model: {reason}") as caught:
            choose_engine(config, DecodeConfig(engine=name, beam=1), device)
        assert (caught.value.name, caught.value.value) == ("decode.engine", name) and caught.value.fix
    with pytest.raises(ConfigError) as caught:
        choose_engine(encoder, DecodeConfig())
    assert caught.value.name == "decode.engine" and "encoder-only" in caught.value.what


def test_a_batch_engine_rejects_what_it_does_not_support() -> None:
    with pytest.raises(ConfigError, match=r"^decode\.beam=4 isn't supported by decode.engine='toy'") as caught:
        session("toy", "encoder-decoder", DecodeConfig())
    assert (caught.value.name, caught.value.value) == ("decode.beam", 4)
    assert caught.value.expected == "decode.beam=1 with this engine" and "torch" in caught.value.fix
    with pytest.raises(ConfigError, match="doesn't expose the steps") as caught:
        session("toy", "encoder-decoder", DecodeConfig(beam=1)).answers(SOURCES, lambda _: None)
    assert (caught.value.name, caught.value.value) == ("decode.engine", "toy")


# --- what an engine receives


def test_a_handle_gives_the_module_its_weights_as_numpy_and_a_conversion_by_whoever_made_it() -> None:
    net, config = model("encoder-decoder")
    it = as_handle(net, config)
    assert as_handle(it, config) is it and it.module() is net and (it.config, it.device) == (config, "cpu")
    weights = it.weights()
    assert weights.keys() == net.state_dict().keys()
    for name, tensor in net.state_dict().items():
        np.testing.assert_array_equal(weights[name], tensor.numpy())
    halved = as_handle(nn.Linear(2, 3).bfloat16(), config).weights()
    assert {value.dtype for value in halved.values()} == {np.dtype(np.float32)}
    with pytest.raises(ConfigError) as caught:
        it.converted("ctranslate2")
    assert (caught.value.name, caught.value.value) == ("format", "ctranslate2")


def test_an_engine_can_run_on_numpy_weights_or_a_converted_folder_without_the_module(tmp_path: Path) -> None:
    class Handle:
        config, device, formats = model("decoder-only")[1], "cpu", ("toy",)
        engines: ClassVar[dict[str, Any]] = {}
        needs_module = False
        weights = staticmethod(lambda: {"scale": np.ones(1)})

        def module(self) -> nn.Module:
            raise AssertionError("an engine of this kind needs no torch module")

        def converted(self, format: str) -> Path:
            return tmp_path / format

        def is_converted(self, format: str) -> bool:
            return True

    class FromFolder(ToyEngine):
        def __init__(self, model: ModelHandle) -> None:
            super().__init__(model)
            self.folder, self.weights = model.converted("toy"), model.weights()

    globals()["FromFolder"] = FromFolder
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENGINES, "converted", {"decoder-only": f"{__name__}:FromFolder"})
        opened = open_engine(Handle(), DecodeConfig(engine="converted", beam=1))
    assert isinstance(opened, FromFolder) and opened.folder == tmp_path / "toy" and "scale" in opened.weights


# --- an engine in use


class Converting(ToyEngine):
    """A batch engine that needs the model as a folder in a format of its own."""

    name = "converting"

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        return "" if "toy" in formats else "the model can't be converted to toy"

    @classmethod
    def open(cls, model: ModelHandle) -> Self:
        assert model.converted("toy").name == "converted"
        return cls(model)


class ToyConverter:
    """Converts every model in no time."""

    def __call__(self, path: Path) -> Path:
        return path / "converted"

    def is_converted(self, path: Path) -> bool:
        return True


@pytest.fixture
def converting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "converting", dict.fromkeys(ENGINES["toy"], f"{__name__}:Converting"))
    for module in (api, model_cache):
        monkeypatch.setattr(module, "CONVERTERS", {"toy": ToyConverter()})


def test_an_engine_that_converts_runs_in_every_app(converting: None, model_folder: Path) -> None:
    for app in (load(model_folder), App(load(model_folder).loaded)):
        assert app("I am hungry.", engine="converting", beam=1) == app("I am hungry.", beam=1)
        pairs = [("I am hungry.", "J'ai faim.")]
        answers = app.evaluate(pairs, engine="converting", beam=1).answers
        assert answers == app.evaluate(pairs, beam=1).answers
        changed = app.override({"decode.engine": "converting", "decode.beam": 1})
        assert changed("I am hungry.") == app("I am hungry.", beam=1)
    with pytest.raises(ConfigError) as caught:
        load(model_folder).loaded.handle.converted("other")
    assert (caught.value.name, caught.value.value, caught.value.expected) == ("format", "other", "toy")


def test_an_engine_that_converts_does_not_run_a_module_in_memory(converting: None) -> None:
    config = model("encoder-decoder")[1]
    assert "converting" not in usable_engines(config) and "converting" in usable_engines(config, "cpu", ("toy",))
    with pytest.raises(ConfigError) as caught:
        open_engine(handle("encoder-decoder"), DecodeConfig(engine="converting", beam=1))
    assert (caught.value.name, caught.value.value) == ("decode.engine", "converting")


def test_training_runs_the_module_whatever_engine_will_answer(converting: None, tmp_path: Path) -> None:
    pairs = [("a b c", "c b a"), ("b c", "c b"), ("a c", "c a")] * 5
    shape = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
    config = Config().override(
        {f"model.{name}": value for name, value in shape.items()}
        | {"train.steps": 2, "train.device": "cpu", "train.threads": 1, "decode.engine": "converting", "decode.beam": 1}
        | {"train.precision": "fp32", "data.tokenizer": "word", "data.split": 0.2, "train.task": "translate"}
    )
    folder = train(config, tmp_path / "model", data=pairs, say=lambda _: None)
    app = load(folder)
    assert app.config.decode.engine == "converting" and app("a b") == app("a b", engine="torch")
    assert summarize_folder(folder)[1]["engine"] == "converting"


def test_an_app_runs_the_engine_that_it_is_told_to(model_folder: Path) -> None:
    app = load(model_folder)
    texts = ["I am hungry.", "", "You are late."]
    assert app(texts, engine="toy", beam=1) == app(texts, beam=1)
    assert app("I am hungry.", engine="toy", sample=True, seed=3) == app(
        "I am hungry.", engine="toy", sample=True, seed=3
    )
    assert "".join(app.pieces("I am hungry.", engine="toy")) == app("I am hungry.", beam=1)
    for settings, name in (({"engine": "toy"}, "decode.beam"), ({"engine": "xyz"}, "decode.engine")):
        with pytest.raises(ConfigError) as caught:
            app("I am hungry.", **settings)
        assert caught.value.name == name
    assert app.explain("I am hungry.", engine="toy").answer == app("I am hungry.")
