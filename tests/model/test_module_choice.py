"""A part of anybody's: found by its name, given what it asks for, and as good as ours in its place."""

import itertools
import math
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead.config import Config, ModelConfig, settings
from clearhead.decode.beams import Request
from clearhead.decode.engines.torch_engine import TextEngine, TorchEngine
from clearhead.decode.rules import Rules
from clearhead.decode.search import beam_search
from clearhead.errors import ConfigError
from clearhead.inspection.views.flow import dimension_flow
from clearhead.model.assembly import FRONTS
from clearhead.model.attention import ATTENTIONS, Attend
from clearhead.model.feed_forward import FEED_FORWARDS, FeedForward
from clearhead.model.fronts.front import Front
from clearhead.model.masks import padding_mask
from clearhead.model.norms import NORMS
from clearhead.model.positions import POSITIONS, Alibi, Positions
from clearhead.model.transformer import EncoderDecoder, build
from tests.builders import small_model

EXAMPLES = Path(__file__).parents[2] / "clearhead" / "examples"
V = 13
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 4, 5, 2, 0, 0], [12, 12, 3, 2, 0, 0]])
TARGET = torch.tensor([[1, 9, 8, 7, 6], [1, 4, 4, 5, 3], [1, 12, 11, 10, 2]])
LINEAR, LEAKY, NEAR, SCALE = (
    "own_attention:LinearAttention",
    "own_attention:LeakyAttention",
    "own_parts:Near",
    "own_parts:ScaleNorm",
)
OWN = '''
import torch
from torch import nn
from clearhead.model.positions import Positions

class Weightless(nn.Module):
    """The mean of what may be attended, without a query or a key."""
    def forward(self, q, k, v, *, mask=None, bias=None):
        seen = torch.ones(q.size(0), 1, q.size(2), k.size(2), dtype=torch.bool) if mask is None else mask
        seen = seen.expand(q.size(0), 1, q.size(2), k.size(2)).to(v.dtype)
        return (seen / seen.sum(-1, keepdim=True).clamp(min=1)) @ v.repeat_interleave(q.size(1) // v.size(1), 1)

class Asking(nn.Module):
    def __init__(self, d_head, *, n_heads, dropout=1.0, mine="mine"):
        super().__init__()
        self.asked = (d_head, n_heads, dropout, mine)
    def forward(self, q, k, v, *, mask=None, bias=None):
        return q

class AskingPositions(Positions):
    def __init__(self, d_model, n_heads, d_head, max_len, two_sided):
        super().__init__()
        self.asked = (d_model, n_heads, d_head, max_len, two_sided)

class TooCurious(nn.Module):
    def __init__(self, n_tapes):
        super().__init__()
    def forward(self, q, k, v, *, mask=None, bias=None):
        return q

class Maskless(nn.Module):
    def forward(self, q, k, v):
        return q

class NoForward(nn.Module):
    pass

class Function:
    pass

a_function = len
'''


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with modules of one's own, where Python does not look anyway; they are forgotten."""
    (tmp_path / "own.py").write_text(OWN)
    for name in ("own_attention.py", "own_parts.py"):
        (tmp_path / name).write_bytes((EXAMPLES / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if name.startswith(("own", "broken", "needy")):
            del sys.modules[name]


model = partial(small_model, n_kv_heads=2, d_ff=24, pre_norm=True, moved_by=0.2)


def attends(net: nn.Module) -> list[nn.Module]:
    return [part for name, part in net.named_modules() if name.endswith(".attend")]


def answer(net: EncoderDecoder, source: Tensor = SOURCE, target: Tensor = TARGET) -> Tensor:
    return net(source, target, source_mask=padding_mask(source))


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


# --- found, and given what it asks for


def test_a_class_of_the_current_folder_stands_in_every_place_and_python_looks_there_no_longer() -> None:
    looked = sys.path.copy()
    net = model(attention=LINEAR, positions=NEAR, norm=SCALE)
    assert sys.path == looked and str(Path.cwd()) not in looked
    assert [type(part).__name__ for part in attends(net)] == ["LinearAttention"] * 6
    assert len({id(part) for part in attends(net)}) == 6
    assert [type(stack.positions).__name__ for stack in (net.encoder, net.decoder)] == ["Near", "Near"]
    assert sum(type(part).__name__ == "ScaleNorm" for part in net.modules()) == 2 * 2 + 2 * 3 + 2
    assert answer(net).isfinite().all()


def test_a_module_may_lie_in_a_package_or_be_the_program_itself(here, monkeypatch) -> None:
    (here / "own_package").mkdir()
    (here / "own_package" / "inside.py").write_bytes((EXAMPLES / "own_parts.py").read_bytes())
    assert type(model(norm="own_package.inside:ScaleNorm").encoder.norm).__module__ == "own_package.inside"
    monkeypatch.setattr(sys.modules["__main__"], "Mine", type("Mine", (Attend,), {}), raising=False)
    assert type(attends(model(attention="__main__:Mine"))[0]).__name__ == "Mine"


def test_a_part_is_given_what_it_asks_for_by_name() -> None:
    net = model(attention="own:Asking", positions="own:AskingPositions", dropout=0.3, attention_dropout=0.25)
    assert [part.asked for part in attends(net)] == [(4, 4, 0.25, "mine")] * 6
    assert attends(model(attention="own:Asking", dropout=0.3))[0].asked[2] == 0.3
    assert [stack.positions.asked for stack in (net.encoder, net.decoder)] == [
        (16, 4, 4, 20, True),
        (16, 4, 4, 20, False),
    ]
    assert model(norm=SCALE, norm_eps=1e-3).encoder.norm.eps == 1e-3


@pytest.mark.parametrize(
    ("setting", "name", "path"),
    [
        ("attention", "softmax", "clearhead.model.attention:Attend"),
        ("positions", "learned", "clearhead.model.positions:Learned"),
        ("positions", "relative", "clearhead.model.positions:Relative"),
        ("norm", "layer", "clearhead.model.norms:LayerNorm"),
        ("norm", "layer", "torch.nn:LayerNorm"),
        ("norm", "rms", "torch.nn:RMSNorm"),
        ("front", "tokens", "clearhead.model.fronts.tokens:Embedding"),
        ("feed_forward", "swiglu", "clearhead.model.feed_forward:SwiGLU"),
        ("feed_forward", "relu", "clearhead.model.feed_forward:FeedForward"),
    ],
)
def test_ours_and_torchs_by_their_full_names_are_the_same_models(setting, name, path) -> None:
    nets = []
    for spelling in (name, path):
        torch.manual_seed(0)
        nets.append(model(**{setting: spelling}))
    assert nets[0].state_dict().keys() == nets[1].state_dict().keys()
    assert_same(answer(nets[1]), answer(nets[0]))


ENTRIES = {"attention": ATTENTIONS, "positions": POSITIONS, "norm": NORMS, "front": FRONTS}
ENTRIES |= {"feed_forward": FEED_FORWARDS}


@pytest.mark.parametrize(("setting", "entries"), ENTRIES.items())
def test_one_more_entry_of_a_dict_is_one_more_name(setting, entries, monkeypatch) -> None:
    class Mine(next(iter(entries.values()))): ...

    monkeypatch.setitem(entries, "mine", Mine)
    config = Config().override({f"model.{setting}": "mine", "model.src_vocab_size": V, "model.tgt_vocab_size": V})
    assert Config.from_dict(config.to_dict()) == config
    assert any(isinstance(part, Mine) for part in build(config.model).modules())


def test_the_help_of_a_setting_has_the_names_that_it_knows() -> None:
    for setting, entries in ENTRIES.items():
        help = settings()[f"model.{setting}"].help
        assert all(name in help for name in entries) and "package.module:Class" in help
        assert settings()[f"model.{setting}"].default in (*entries, None)


class Experts(nn.Module):
    """Two networks, and a gate that weighs them for each token."""

    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, 2)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff // 2, dropout) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return sum(self.gate(x).softmax(-1)[..., i, None] * expert(x) for i, expert in enumerate(self.experts))


def test_a_feed_forward_of_your_own_takes_the_place_of_ours(monkeypatch) -> None:
    monkeypatch.setitem(FEED_FORWARDS, "experts", Experts)
    net = model(feed_forward="experts", d_ff=24, activation_dropout=0.5)
    blocks = [*net.encoder.blocks, *net.decoder.blocks]
    assert all(isinstance(block.feed_forward, Experts) for block in blocks)
    assert blocks[0].feed_forward.experts[0].inner.out_features == 12
    assert blocks[0].feed_forward.experts[0].dropout.p == 0.5
    torch.testing.assert_close(answer(net)[:1], answer(net, SOURCE[:1], TARGET[:1]))
    answer(net.train()).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    with torch.device("meta"):
        steps = dimension_flow(model(feed_forward="experts"))
    assert any(step.where[-1] == "feed-forward" for step in steps)


# --- refused


@pytest.mark.parametrize(
    ("setting", "name", "said", "expected", "fix"),
    [
        ("attention", "sotfmax", "is unknown", "softmax or package.module:Class", "did you mean 'softmax'?"),
        ("positions", "rotray", "", ", ".join(POSITIONS), "rotary"),
        ("norm", "lyer", "", "layer, rms", "layer"),
        ("feed_forward", "swigul", "", "relu, gelu, gelu_tanh, silu, swiglu, geglu", "swiglu"),
        ("front", "token", "", "tokens", "tokens"),
        ("norm", "own.py:Weightless", "isn't a class name", "package.module:Class", "did you mean 'own:Weightless'?"),
        ("norm", "./own.py:Weightless", "", "package.module:Class", "own:Weightless"),
        ("norm", "own:", "", "package.module:Class", ""),
        ("norm", "a b:C", "", "package.module:Class", ""),
        ("norm", "ownn:Weightless", "there is no module ownn", "a file ownn.py in the current folder", ""),
        ("norm", "clearhead.own:Weightless", "no module clearhead.own", "clearhead/own.py", ""),
        ("norm", "own:Wightless", "own.py has no class 'Wightless'", "Weightless", "own:Weightless?"),
        ("norm", "own:a_function", "own.py has no class 'a_function'", "NoForward", ""),
        ("norm", "math:sqrt", "has no class 'sqrt'", "", ""),
        ("norm", "own:Function", "isn't a subclass of torch.nn.Module", "class Function(torch.nn.Module)", ""),
        ("positions", SCALE, "isn't a subclass of clearhead.model.positions.Positions", "class ScaleNorm(", ""),
        ("attention", "own:TooCurious", "__init__ requires 'n_tapes'", "any of dropout, n_heads, d_head", "default"),
        ("norm", "own:TooCurious", "its forward takes (self, q, k, v, *, mask=None, bias=None)", "(self, x)", ""),
        ("feed_forward", "own:TooCurious", "its forward takes", "(self, x)", ""),
        ("front", "own:AskingPositions", "isn't a subclass of clearhead.model.fronts.front.Front", "", ""),
        ("attention", "own:Maskless", "its forward takes (self, q, k, v)", "(self, q, k, v, *, mask=None", ""),
        ("attention", "own:NoForward", "its forward takes", "(self, q, k, v", ""),
    ],
)  # fmt: skip
def test_a_part_that_cannot_be_used_is_an_error_that_says_why(setting, name, said, expected, fix) -> None:
    with pytest.raises(ConfigError) as caught:
        model(**{setting: name})
    assert (caught.value.name, caught.value.value) == (f"model.{setting}", name)
    assert said in caught.value.what and expected in caught.value.expected and fix in caught.value.fix


def test_a_module_that_fails_while_it_is_imported_says_with_what(here) -> None:
    (here / "broken.py").write_text("x = 1 +\n")
    (here / "needy.py").write_text("import no_such_package\n")
    (here / "broken_later.py").write_text("raise RuntimeError('not today')\n")
    reasons = {"broken": "SyntaxError", "needy": "No module named 'no_such_package'", "broken_later": "not today"}
    for module, reason in reasons.items():
        with pytest.raises(ConfigError) as caught:
            model(norm=f"{module}:Norm")
        assert reason in caught.value.what and f"import {module}" in caught.value.fix


def test_a_pointer_needs_weights_to_copy_by() -> None:
    with pytest.raises(ConfigError) as caught:
        model(attention="own:Weightless", copy=True)
    assert (caught.value.name, caught.value.value) == ("model.attention", "own:Weightless")
    assert "weights(self" in caught.value.expected
    net = model(attention=LINEAR, copy=True)
    logits = net(SOURCE, TARGET, source_mask=padding_mask(SOURCE))
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(3, 5))  # a probability still: its rows sum to 1


# --- as good as ours


@pytest.fixture(params=[LINEAR, "own:Weightless", "softmax"])
def attention(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("positions", [*sorted(POSITIONS.keys() - {"sinusoidal_2d"}), NEAR])
@torch.no_grad()
def test_cached_decoding_is_the_full_forward_and_padding_and_the_future_change_nothing(attention, positions) -> None:
    net = model(attention=attention, positions=positions, norm=SCALE)
    whole, mask = answer(net), padding_mask(SOURCE)
    cache, steps = net.decoder.new_cache(3, 5, net.encode(SOURCE, mask=mask)), []
    for start, end in [(0, 2), (2, 3), (3, 4), (4, 5)]:
        steps.append(net.decoder(TARGET[:, start:end], memory_mask=mask, cache=cache))
    assert_same(torch.cat(steps, 1), whole)
    for row in range(3):
        alone = SOURCE[row : row + 1]
        assert_same(answer(net, alone[alone != 0][None], TARGET[row : row + 1])[0], whole[row])
    assert_same(answer(net, SOURCE, torch.cat([TARGET[:, :3], TARGET[:, :2]], 1))[:, :3], whole[:, :3])


@torch.no_grad()
def test_what_leaks_says_something_else_with_a_cache_than_without() -> None:
    net = model(attention=LEAKY)
    whole, mask = answer(net), padding_mask(SOURCE)
    cache = net.decoder.new_cache(3, 5, net.encode(SOURCE, mask=mask))
    steps = torch.cat([net.decoder(TARGET[:, t : t + 1], memory_mask=mask, cache=cache) for t in range(5)], 1)
    assert (steps - whole).abs().max() > 1e-3


def test_every_weight_of_an_own_part_has_a_gradient() -> None:
    net = model(attention=LINEAR, positions="relative", norm=SCALE).train()
    (answer(net) * torch.randn(3, 5, V)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in net.parameters())


@torch.no_grad()
def test_an_answer_of_beams_has_the_probability_of_the_full_forward_whatever_its_company(attention) -> None:
    net = model(attention=attention, positions=NEAR, norm=SCALE, tie="none")
    rules, sources = Rules(eos=2, suppress=(0, 1, 3), beam=4), [row[row != 0].tolist() for row in SOURCE]

    def found(some: list[list[int]]) -> list[list]:
        with TorchEngine(net, pad=0).prefill(some, 12) as decoding:
            return beam_search(decoding, np.full(len(some), 1), [Request(12)] * len(some), rules)

    for source, answers in zip(sources, found(sources)):
        assert [it.ids for it in answers] == [it.ids for it in found([source])[0]]
        for it in answers:
            tokens = torch.tensor([[1, *it.ids] + [2] * it.finished])
            log_p = answer(net, torch.tensor([source]), tokens[:, :-1]).log_softmax(-1)
            expected = log_p.gather(-1, tokens[:, 1:, None])[0, :, 0]
            np.testing.assert_allclose(it.token_log_probabilities, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_an_endless_scheme_goes_on_beyond_its_block_in_a_ring(attention) -> None:
    net, block = model("decoder-only", attention=attention, positions=NEAR, norm=SCALE), 6
    engine, rng = TextEngine(net, pad=0, max_len=block), np.random.default_rng(0)
    assert engine.ring
    texts = [[1, 5, 6, 7], [9, 4], [1]]
    with engine.prefill([text[:-1] for text in texts], 20) as decoding:
        for _ in range(20):
            log_p, ids = decoding.step(np.array([[text[-1]] for text in texts]), V)
            for b, text in enumerate(texts):
                at = torch.arange(len(text))
                full = net(torch.tensor([text]), mask=(at[:, None] - at < block)[None, None])[0, -1].log_softmax(-1)
                np.testing.assert_allclose(log_p[b, 0], full[ids[b, 0]], rtol=0, atol=1e-11)
                text.append(int(rng.integers(4, V)))


# --- looked at


def test_the_flow_names_an_own_part_and_shows_the_weights_that_it_has() -> None:
    def said(attention: str) -> dict[str, tuple[int, ...]]:
        with torch.device("meta"):
            net = model("decoder-only", attention=attention, positions=NEAR)
        return {step.what: step.shape for step in dimension_flow(net) if step.where[-1] == "self-attention"}

    assert said(LINEAR)["weights of LinearAttention"] == (2, 4, 12, 12)
    assert said(LINEAR)["output of LinearAttention"] == (2, 4, 12, 4)
    assert said(LINEAR)["position bias on the scores"] == (1, 4, 12, 12)
    assert "output of Weightless" in said("own:Weightless") and not any(
        "weights" in what for what in said("own:Weightless")
    )


def test_a_weight_that_is_called_weights_is_no_method_to_ask(monkeypatch) -> None:
    class Gated(nn.Module):
        def __init__(self, d_head: int) -> None:
            super().__init__()
            self.weights = nn.Parameter(torch.ones(d_head))

        def forward(self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None):
            return q * self.weights

    monkeypatch.setitem(ATTENTIONS, "gated", Gated)
    assert not any("weights" in step.what for step in dimension_flow(model(attention="gated")))
    with pytest.raises(ConfigError) as caught:
        model(attention="gated", copy=True)
    assert caught.value.value == "gated"


def test_the_flow_shows_whatever_is_added_to_the_embeddings(monkeypatch) -> None:
    class Shifted(Positions):
        def embed(self, x: Tensor, positions: Tensor) -> Tensor:
            return x + positions[..., None]

    monkeypatch.setitem(POSITIONS, "shifted", Shifted)
    assert "plus shifted positions" in {step.what for step in dimension_flow(model(positions="shifted"))}


def test_the_weights_of_attend_take_the_bias_into_account() -> None:
    q, k, v = torch.randn(2, 4, 3, 5), torch.randn(2, 2, 6, 5), torch.randn(2, 2, 6, 5)
    at = torch.arange(6)[None]
    bias = Alibi(4).bias(at[:, 3:], at)
    weights = Attend().weights(q, k, mask=torch.ones(3, 6).tril(3).bool()[None, None], bias=bias)
    output = Attend()(q, k, v, mask=torch.ones(3, 6).tril(3).bool()[None, None], bias=bias)
    torch.testing.assert_close(weights @ v.repeat_interleave(2, 1), output)


def test_linear_attention_is_its_formula_in_plain_loops(here) -> None:
    part = attends(model("decoder-only", attention=LINEAR))[0]
    q, k, v = torch.randn(1, 2, 3, 4), torch.randn(1, 1, 3, 4), torch.randn(1, 1, 3, 4)
    bias = torch.randn(1, 2, 3, 3)
    output = part(q, k, v, mask=torch.ones(3, 3).tril().bool()[None, None], bias=bias)

    def phi(x: Tensor) -> list[float]:
        return [float(it) + 1 if it > 0 else math.exp(float(it)) for it in x]

    def likeness(h: int, t: int, s: int) -> float:
        alike = sum(a * b for a, b in zip(phi(q[0, h, t]), phi(k[0, 0, s])))
        return math.exp(float(bias[0, h, t, s])) * alike

    for h, t in itertools.product(range(2), range(3)):
        total = sum(likeness(h, t, s) for s in range(t + 1))
        expected = sum(likeness(h, t, s) / total * v[0, 0, s] for s in range(t + 1))
        torch.testing.assert_close(output[0, h, t], expected)
    barred = part(q, k, v, mask=torch.zeros(1, 1, 3, 3, dtype=torch.bool))
    assert not barred.any()


class Halved(nn.Module):
    def forward(self, x):
        return x[..., : x.size(-1) // 2]


class Paired(nn.Module):
    def forward(self, x):
        return x, x


class Swapped(nn.Module):
    def forward(self, q, k, v, *, mask=None, bias=None):
        return q.transpose(1, 2)


class Raising(nn.Module):
    def forward(self, x):
        return x @ x


class Biased(Positions):
    def bias(self, queries, keys):
        return (queries[:, :, None] - keys[:, None, :])[:, :, :, None].float()


class Narrow(Front):
    def __init__(self) -> None:
        super().__init__()

    def forward(self, inputs):
        return torch.zeros(*inputs.shape, 3)

    def mask(self, inputs):
        return None


@pytest.mark.parametrize(
    ("setting", "part", "what", "expected"),
    [
        ("norm", Halved, "shape (2, 3, 4)", "(B, T, D) = (2, 3, 8)"),
        ("norm", Paired, "returned a tuple", "(B, T, D) = (2, 3, 8)"),
        ("feed_forward", Halved, "shape (2, 3, 4)", "(B, T, D) = (2, 3, 8)"),
        ("feed_forward", Raising, "raised RuntimeError", "(B, T, D)"),
        ("attention", Swapped, "shape (2, 3, 2, 4)", "(B, H, T, K) = (2, 2, 3, 4)"),
        ("positions", Biased, "its bias returned shape (1, 3, 3, 1)", "(B, H, T, S) = (1, 2, 3, 3)"),
        ("front", Narrow, "shape (2, 3, 3)", "(B, S, D) = (2, S, 8)"),
    ],
)
def test_a_part_that_returns_a_wrong_shape_is_named_with_both(
    monkeypatch: pytest.MonkeyPatch, setting: str, part: type, what: str, expected: str
) -> None:
    monkeypatch.setitem(sys.modules, "wrong_parts", SimpleNamespace(Part=part))  # type: ignore[misc]
    name = "wrong_parts:Part"
    sizes = {"d_model": 8, "n_heads": 2, "src_vocab_size": 9, "tgt_vocab_size": 9, "tie": "none"}
    with pytest.raises(ConfigError) as caught:
        build(ModelConfig(**sizes, **{setting: name}))
    assert (caught.value.name, caught.value.value) == (f"model.{setting}", name)
    assert what in caught.value.what and caught.value.expected == expected
