"""The loops compute what the torch modules compute, for every variant of the model, compiled or not."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numba
import numpy as np
import pytest
import torch

from clearhead.config import DecodeConfig, ModelConfig, SpecialTokens
from clearhead.decode.beams import Hypothesis, Request
from clearhead.decode.engine import Batch, SearchEngine
from clearhead.decode.engines.loops import entries, jit, linear_layers, machine_code
from clearhead.decode.engines.loops.equations import Stack
from clearhead.decode.engines.loops.stack_parts import PROJECTION, PROJECTION_BIAS, SLOPES
from clearhead.decode.engines.loops.weight_arrays import SHAPE
from clearhead.decode.model_handle import as_handle
from clearhead.decode.registry import choose_engine, open_engine, prepare_engines
from clearhead.decode.rules import Rules
from clearhead.decode.search import beam_search
from clearhead.decode.session import Session
from clearhead.errors import ConfigError, ModelError
from clearhead.model.transformer import build
from tests.builders import moved

Precision = Literal["fp32", "int8"]
V = 29
SOURCES = [[5, 6, 7], [9], [], [4, 8, 10, 11, 5, 7, 20, 21, 22, 23, 24], [6, 6]]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"pre_norm": True, "tie": "none"},
    {"pre_norm": True, "final_norm": False, "tie": "target", "positions": "learned"},
    {"final_norm": True, "embedding_norm": True, "projection_bias": True, "norm": "rms", "norm_eps": 0.1},
    {"bias": False, "feed_forward": "swiglu", "tie": "embeddings", "positions": "rotary", "n_kv_heads": 1},
    {"feed_forward": "geglu", "qkv_bias": False, "logit_scale": 0.3, "positions": "relative", "window": 4},
    {"feed_forward": "gelu", "attention_scale": 0.7, "embedding_scale": 1.0, "positions": "alibi"},
    {"feed_forward": "gelu_tanh", "start_id": 2, "pad_id": V, "unk_id": None, "mask_id": None, "window": 3},
    {"feed_forward": "silu", "positions": "sinusoidal_halves", "d_model": 15, "n_heads": 3, "d_head": 8},
    {"positions": "rotary", "rotary": "100:llama3:8:1:4:64", "norm": "rms"},
    {"positions": "rotary", "rotary": "100:yarn:4:10:40", "more_eos_ids": (5, 9)},
    {"positions": "relative", "relative_buckets": (10, 8)},
    {"positions": "rotary", "d_model": 16, "n_heads": 4, "n_kv_heads": 2, "feed_forward": "swiglu", "bias": False},
]


def model(topology: str, **settings: Any) -> tuple[torch.nn.Module, ModelConfig]:
    shape = {"src_vocab_size": V, "tgt_vocab_size": V, "d_model": 18, "n_heads": 3, "d_ff": 21, "max_len": 16}
    shape |= {"n_encoder_layers": 2, "n_decoder_layers": 2}
    config = ModelConfig(topology=topology, **{**shape, **settings})  # type: ignore[arg-type]
    torch.manual_seed(0)
    return moved(build(config), by=0.3), config


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    machine_code.prepare()


def engine(name: str, net: torch.nn.Module, config: ModelConfig, precision: Precision = "fp32") -> Any:
    return open_engine(as_handle(net, config), DecodeConfig(engine=name, precision=precision))


def answers(
    it: Any, config: ModelConfig, rules: Rules, *, whole: bool, requests: Sequence[Request] = ()
) -> list[list[Hypothesis]]:
    """The answers by one call, or by single steps."""
    special = config.special
    if config.topology == "decoder-only":
        sources, start = [source[:-1] for source in SOURCES], [source[-1] if source else 1 for source in SOURCES]
    else:
        sources, start = [special.source(source) for source in SOURCES], [special.start] * len(SOURCES)
    requests = requests or [Request(max_steps=9) for _ in SOURCES]
    first = np.array(start, np.int64)
    if whole:
        assert isinstance(it, SearchEngine)
        found = it.search(Batch(sources, first, requests, rules.suppress), rules)
        assert found is not None
        return found
    with it.prefill(sources, max(request.max_steps for request in requests)) as decoding:
        return beam_search(decoding, first, requests, rules)


def same(found: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]) -> None:
    assert [[it.ids for it in some] for some in found] == [[it.ids for it in some] for some in expected]
    for some, others in zip(found, expected):
        for one, other in zip(some, others):
            assert one.finished == other.finished
            np.testing.assert_allclose(one.token_log_probabilities, other.token_log_probabilities, 1e-4, 1e-4)
            np.testing.assert_allclose(one.score, other.score, 1e-4, 1e-4)


@pytest.mark.parametrize("topology", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_every_variant_of_the_model_gives_the_answers_of_torch(topology: str, settings: dict[str, Any]) -> None:
    net, config = model(topology, **settings)
    loops, modules = engine("loops", net, config), engine("torch", net, config)
    rules = Rules(eos=2, suppress=(0, 1, 3), beam=3, n_best=2)
    expected = answers(modules, config, rules, whole=False)
    same(answers(loops, config, rules, whole=False), expected)
    same(answers(loops, config, rules, whole=True), expected)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative", "alibi"])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_text_may_grow_beyond_the_context_window(positions: str, beam: int) -> None:
    net, config = model("decoder-only", positions=positions, max_len=8)
    loops, modules = engine("loops", net, config), engine("torch", net, config)
    rules = Rules(eos=2, suppress=(0, 1, 2, 3), beam=beam)
    requests = [Request(max_steps=n) for n in (30, 5, 30, 12, 30)]
    expected = answers(modules, config, rules, whole=False, requests=requests)
    assert max(len(some[0].ids) for some in expected) == 30
    same(answers(loops, config, rules, whole=True, requests=requests), expected)
    same(answers(loops, config, rules, whole=False, requests=requests), expected)


@pytest.mark.parametrize("n_best", [1, 3])
def test_limits_and_prefixes_hold_in_one_call(n_best: int) -> None:
    net, config = model("encoder-decoder")
    loops, modules = engine("loops", net, config), engine("torch", net, config)
    rules = Rules(eos=2, suppress=(0, 1, 3), beam=3, n_best=n_best, alpha=1.3)
    requests = [
        Request(max_steps=9, min_len=4),
        Request(max_steps=5, max_len=3, prefix=(7, 8)),
        Request(max_steps=9, prefix=(2,)),
        Request(max_steps=9, prefix=(5, 5, 5)),
        Request(max_steps=1),
    ]
    expected = answers(modules, config, rules, whole=False, requests=requests)
    same(answers(loops, config, rules, whole=True, requests=requests), expected)


def test_a_vocabulary_of_which_nothing_is_allowed_gives_an_empty_answer() -> None:
    net, config = model("encoder-decoder")
    rules = Rules(eos=2, suppress=tuple(range(V)), beam=2)
    found = answers(engine("loops", net, config), config, rules, whole=True)
    same(found, answers(engine("torch", net, config), config, rules, whole=False))
    assert found[0] == [Hypothesis((), -np.inf, -np.inf, (), finished=False)]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    net, config = model("encoder-decoder")
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    rules = Rules(eos=2, suppress=(0, 1, 3), beam=2)
    found = answers(engine("loops", net, config), config, rules, whole=True)
    same(found, answers(engine("torch", net, config), config, rules, whole=False))


def test_a_neighbour_in_the_batch_doesnt_change_a_bit_of_an_answer() -> None:
    net, config = model("encoder-decoder")
    it, rng = engine("loops", net, config), np.random.default_rng(0)
    sources = [rng.integers(4, V, n).tolist() for n in rng.integers(1, 12, 30)]
    session = Session(it, DecodeConfig(beam=3), SpecialTokens(), max_len=16)
    assert session.answers(sources) == [session.answers([source])[0] for source in sources]


def test_more_sources_than_there_is_room_for_are_decoded_one_after_the_other() -> None:
    net, config = model("encoder-decoder")
    rng = np.random.default_rng(0)
    sources = [rng.integers(4, V, n).tolist() for n in rng.integers(1, 12, 150)]
    found = [
        Session(engine(name, net, config), DecodeConfig(beam=4), SpecialTokens(), max_len=16).answers(sources)
        for name in ("loops", "torch")
    ]
    same(*found)


def test_a_table_of_positions_grows_with_the_texts() -> None:
    net, config = model("encoder-decoder", max_len=400)
    source = [[5 + i % 20 for i in range(300)]]
    found = [
        Session(engine(name, net, config), DecodeConfig(beam=1, max_len=8), SpecialTokens(), max_len=400).answers(
            source
        )
        for name in ("loops", "torch")
    ]
    same(*found)
    with pytest.raises(ModelError) as caught, engine("loops", net, config).prefill([[5] * 401], 3):
        pass
    assert caught.value.name == "model.max_len"


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_weights_of_nan_are_reported(precision: Precision) -> None:
    net, config = model("encoder-decoder")
    with torch.no_grad():
        net.decoder.norm = torch.nn.Identity()
        net.decoder.blocks[1].feed_forward.outer.bias[3] = torch.nan
    with pytest.raises(ModelError) as caught:
        answers(engine("loops", net, config, precision), config, Rules(eos=2), whole=True)
    assert "token 1" in caught.value.what and caught.value.name == "probabilities"


@pytest.mark.parametrize("token", [V, 2**62, -1])
def test_a_token_beyond_the_vocabulary_is_rejected_before_anything_is_read(token: int) -> None:
    net, config = model("encoder-decoder")
    loops, rules, start = engine("loops", net, config), Rules(eos=2), np.ones(1, np.int64)
    for sources, prefix, eos in (([[token]], (), 2), ([[5]], (token,), 2), ([[5]], (), token)):
        with pytest.raises(ModelError) as caught:
            loops.search(Batch(sources, start, [Request(max_steps=3, prefix=prefix)], ()), replace(rules, eos=eos))
        assert (caught.value.name, caught.value.value) == ("tokens", token)
    with pytest.raises(ModelError), loops.prefill([[token]], 3):
        pass


def test_weights_of_another_configuration_are_rejected_before_anything_is_compiled() -> None:
    net, config = model("encoder-decoder")
    with pytest.raises(ModelError) as caught:
        engine("loops", net, replace(config, n_kv_heads=1))
    assert caught.value.name == "encoder.blocks.0.attention.qkv.weight"


@pytest.mark.parametrize("settings", [{"copy": True}, {"attention": "mine:Attention"}, {"norm": "mine:Norm"}], ids=str)
def test_a_model_that_the_loops_lack_is_rejected_by_its_setting(settings: dict[str, Any]) -> None:
    config = replace(ModelConfig(src_vocab_size=V, tgt_vocab_size=V), **settings)
    with pytest.raises(ConfigError) as caught:
        choose_engine(config, DecodeConfig(engine="loops"))
    [(name, value)] = settings.items()
    assert f"model.{name}={value!r}" in caught.value.what


@pytest.mark.parametrize("inputs", [3, 64, 130])
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_int8_is_within_its_rounding_and_a_neighbour_changes_no_bit(rows: int, inputs: int) -> None:
    outputs, rng = 150, np.random.default_rng(0)
    x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, inputs), (outputs, inputs), (1, outputs)))
    codes, constants = linear_layers.quantized(w, b)
    places = np.zeros((1, SLOPES + 1, 3), np.int64)
    places[0, PROJECTION], places[0, PROJECTION_BIAS] = (0, outputs, inputs), (0, *constants.shape)
    shape = np.rec.array(np.zeros(1, SHAPE))[0]
    shape["int8"], shape["logit_scale"] = True, 1
    stack = Stack(shape, constants.ravel(), places, np.empty(0), codes)
    found, alone = np.empty((rows, outputs), np.float32), np.empty((1, outputs), np.float32)
    loops = entries.loaded(machine_code.machine_code_file())
    loops.project(x, stack, found)
    step_x, step_w = np.abs(x).max(1, keepdims=True) / 127, np.abs(w).max(1) / 127  # one number is off by half a step
    bound = np.abs(x).sum(1, keepdims=True) * step_w / 2 + np.abs(w).sum(1) * step_x / 2 + inputs * step_x * step_w / 4
    assert (np.abs(found - (x @ w.T + b)) <= bound * 1.01).all()
    for r in range(rows):
        loops.project(x[r : r + 1], stack, alone)
        assert (alone == found[r]).all()


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["bytes", "float32"])
def test_vector_instructions_do_what_the_plain_loops_do(count: int, kind: str) -> None:
    rng, depth = np.random.default_rng(0), 36
    shapes = (count + 2, depth), (depth * linear_layers.BLOCK), (linear_layers.ROWS, linear_layers.BLOCK)
    if kind == "bytes":
        x, panel = rng.integers(0, 256, shapes[0]).astype(np.uint8), rng.integers(-128, 128, shapes[1]).astype(np.int8)
        start, group = rng.integers(-9, 9, shapes[2]).astype(np.int32), 4
        every = [linear_layers.plain_products_of_bytes]
        if jit.has("avx512bw" if jit.has("avx512f") else "avx2"):
            every += [numba.njit(linear_layers._tiled_products(four_bytes=it)) for it in {False, jit.has("avx512vnni")}]
    else:
        x, panel, start = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
        group, every = 1, [linear_layers.plain_products, numba.njit(linear_layers._tiled_products(four_bytes=False))]
    columns, rows = panel.reshape(-1, linear_layers.BLOCK, group), x[2:].reshape(count, -1, group)
    expected = start.copy()
    expected[:count] += np.einsum("rdk,dbk->rb", rows.astype(start.dtype), columns.astype(start.dtype))
    for products in every:
        sums = start.copy()
        products(x, 2, count, panel, sums)
        np.testing.assert_allclose(sums, expected, 0, 0 if kind == "bytes" else 1e-4)


def test_answers_in_int8_are_close_and_dont_depend_on_the_batch() -> None:
    net, config = model("encoder-decoder", pre_norm=True)
    rng = np.random.default_rng(0)
    sources = [rng.integers(4, V, n).tolist() for n in rng.integers(1, 12, 40)]

    def decoded(precision: str, *batches: list[list[int]]) -> list[list[Hypothesis]]:
        decode = DecodeConfig(beam=2, precision=precision, engine="loops")  # type: ignore[arg-type]
        opened = open_engine(as_handle(net, config), decode)
        session = Session(opened, decode, SpecialTokens(), max_len=16)
        return [answer for batch in batches for answer in session.answers(batch)]

    found, exact = decoded("int8", sources), decoded("fp32", sources)
    assert found == decoded("int8", *[[source] for source in sources])
    assert found != exact and sum(a[0].ids == b[0].ids for a, b in zip(found, exact)) > 30


def test_a_precision_that_an_engine_lacks_is_named() -> None:
    config = ModelConfig(src_vocab_size=V, tgt_vocab_size=V)
    for name, precision, expected in (("loops", "bf16", "fp32, int8"), ("torch", "int8", "fp32")):
        with pytest.raises(ConfigError) as caught:
            choose_engine(config, DecodeConfig(engine=name, precision=precision))  # type: ignore[arg-type]
        assert caught.value.name == "decode.precision" and repr(precision) in caught.value.what
        assert expected in caught.value.expected
    assert choose_engine(config, DecodeConfig(precision="int8")) in ("loops", "packed")  # whichever is ready


def test_they_run_on_the_cpu_and_need_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(src_vocab_size=V, tgt_vocab_size=V)
    with pytest.raises(ConfigError, match="CPU only"):
        choose_engine(config, DecodeConfig(engine="loops"), "cuda")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        choose_engine(config, DecodeConfig(engine="loops"))
    assert "pip install numba" in caught.value.what
    with pytest.raises(ConfigError, match="can't be compiled: it needs numba") as caught:
        prepare_engines()


def test_a_cache_that_cannot_be_read_leaves_torch_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = ModelConfig(src_vocab_size=V, tgt_vocab_size=V)
    for folder in (tmp_path / ("x" * 300), tmp_path / "file"):  # what even an administrator can't look into
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        assert not machine_code.is_compiled()
        assert choose_engine(config, DecodeConfig()) == "torch"
        with pytest.raises(ConfigError) as caught:
            choose_engine(config, DecodeConfig(engine="loops"))
        assert "cache folder" in caught.value.what and caught.value.value == "loops"


SCRIPT = """
import sys
import numpy as np
sys.modules["torch"] = None
from clearhead.config import ModelConfig
from clearhead.decode.beams import Request
from clearhead.decode.engine import Batch
from clearhead.decode.engines.loops.machine_code import LoopsOpener
from clearhead.decode.rules import Rules

class Handle:
    config = ModelConfig(src_vocab_size=29, tgt_vocab_size=29, d_model=18, n_heads=3, d_ff=21, max_len=16,
                         n_encoder_layers=2, n_decoder_layers=2)
    def weights(self):
        return dict(np.load(sys.argv[1]))

rules = Rules(eos=2, suppress=(0, 1, 3), beam=2)
batch = Batch([[5, 6, 2], [9, 2]], np.array([1, 1]), [Request(max_steps=4)] * 2, rules.suppress)
for some in LoopsOpener.open(Handle()).search(batch, rules):
    print(*some[0].ids, f"{some[0].score:.3f}")
print("imported numba" if "numba" in sys.modules else "loaded", file=sys.stderr)
"""


def test_uncompiled_they_are_python_and_give_the_same_answers(tmp_path: Path) -> None:
    net, config = model("encoder-decoder")
    engine("loops", net, config)  # saves the machine code
    np.savez(tmp_path / "weights.npz", **as_handle(net, config).weights())
    lines = []
    for disabled in ("0", "1"):
        environment = os.environ | {"NUMBA_DISABLE_JIT": disabled}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "weights.npz")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "imported numba" not in done.stderr  # which takes longer than the rest
        lines.append(done.stdout)
    assert lines[0] == lines[1] and len(lines[0].splitlines()) == 2
