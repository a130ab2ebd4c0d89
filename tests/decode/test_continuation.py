"""Going on with texts: with a model that says what a test wants, and with small random ones."""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig, DecodeConfig, ModelConfig
from clearhead.decode.continuation import Continuation, StoppingCriteria, TextGenerator
from clearhead.decode.engines.torch_engine import TextEngine
from clearhead.decode.writer import Read
from clearhead.errors import ConfigError, DataError
from clearhead.model.transformer import Decoder, build
from clearhead.tokenization.tokenizer import Tokenizer

BOS, EOS, PAD, UNK = 1, 2, 0, 3  # the special tokens of a new vocabulary

TEXT = "The man sleeps.\n\n\tThe  man is here; so the man sleeps. 😀 é\n"
GREEDY = DecodeConfig(beam=1, max_len=60)
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi"]


@functools.cache
def trained(kind: str) -> Tokenizer:
    size = 290 if kind == "bpe" else None
    return Tokenizer.train([TEXT] * 3, DataConfig(tokenizer=kind, vocab_size=size, normalise=()))


class Says:
    """A model that goes on with these tokens, whatever the prompt, and then ends; it records what it reads."""

    max_len, beyond = 6, "not at all"

    def __init__(self, tokenizer: Tokenizer, ids: Sequence[int]) -> None:
        self.ids, self.size, self.open = [*ids], tokenizer.vocab_size, False
        self.read: list[list[int]] = []
        self.first: list[int] = []

    @contextmanager
    def prefill(self, sources: Sequence[Sequence[int]], steps: int) -> Iterator["Says"]:
        self.read, self.number, self.steps, self.open = [list(source) for source in sources], 0, steps, True
        try:
            yield self
        finally:
            self.open = False

    def step(self, tokens: np.ndarray, k: int, also: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        assert also is None and self.number < self.steps
        if self.number == 0:
            self.first = tokens[:, 0].tolist()
        log_probabilities = np.full((*tokens.shape, self.size), -20.0)
        log_probabilities[..., [*self.ids, EOS][min(self.number, len(self.ids))]] = -0.25
        self.number += 1
        return log_probabilities, np.broadcast_to(np.arange(self.size), log_probabilities.shape)

    def select(self, sources: np.ndarray, beams: np.ndarray) -> None:
        pass


def says(text: str, kind: str = "bpe", config: DecodeConfig = GREEDY, **ends: object) -> tuple[TextGenerator, Says]:
    """A writer whose model goes on with this text behind a prompt."""
    tokenizer = trained(kind)
    before = tokenizer.encode("here")
    engine = Says(tokenizer, tokenizer.encode("here" + text)[len(before) :])
    return TextGenerator(engine, tokenizer, config, stopping=StoppingCriteria(**ends)), engine  # type: ignore[arg-type]


def streamed(writer: TextGenerator, prompt: Sequence[int]) -> tuple[list[str], Continuation]:
    stream = writer.pieces(Read("", prompt))
    pieces = list(stream)
    assert stream.continuation is not None
    return pieces, stream.continuation


def continued(writer: TextGenerator, prompts: Sequence[Sequence[int]]) -> list[list[Continuation]]:
    return writer.records([Read("", prompt) for prompt in prompts])


@functools.cache
def model(positions: str, kind: str = "bpe", max_len: int = 12) -> Decoder:
    torch.manual_seed(1)
    shape = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 0, "n_decoder_layers": 2, "tie": "none"}
    size = trained(kind).vocab_size
    config = ModelConfig(topology="decoder-only", tgt_vocab_size=size, positions=positions, max_len=max_len, **shape)
    built = build(config)
    assert isinstance(built, Decoder)
    for parameter in built.parameters():
        parameter.data *= 2.0
    return built.to(torch.float64)


def writer_of(positions: str, config: DecodeConfig, kind: str = "bpe", **ends: object) -> TextGenerator:
    engine = TextEngine(model(positions, kind), pad=PAD, max_len=12)
    return TextGenerator(engine, trained(kind), config, stopping=StoppingCriteria(**ends))  # type: ignore[arg-type]


# --- pieces and records ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "character"])
def test_pieces_are_the_text_with_its_white_space_and_the_record_says_the_same(kind) -> None:
    text = ";\n\n\tThe  man sleeps. 😀 é "
    writer, engine = says(text, kind)
    pieces, found = streamed(writer, writer.prompt("here"))
    assert "".join(pieces) == found.text == text and "" not in pieces
    assert (list(found.ids), found.why, found.unread) == (engine.ids, "end", 0)
    assert found.tokens == tuple(trained(kind).pieces(engine.ids))
    assert found.logprobs == (-0.25,) * (len(engine.ids) + 1)
    assert found.log_probability == pytest.approx(sum(found.logprobs))
    assert continued(writer, [writer.prompt("here")]) == [[found]]


def test_a_prompt_is_read_without_its_last_token_and_an_empty_one_begins_with_bos() -> None:
    writer, engine = says(" man")
    ids = trained("bpe").encode("The man is")
    continued(writer, [ids, [], [BOS], [7]])
    assert sorted(engine.read) == [[], [], [], ids[:-1]]
    assert sorted(engine.first) == sorted([BOS, BOS, 7, ids[-1]])


def test_only_a_text_that_begins_has_no_space_in_front() -> None:
    tokenizer = trained("bpe")
    writer = TextGenerator(Says(tokenizer, tokenizer.encode("man here")), tokenizer, GREEDY)
    texts = [found[0].text for found in continued(writer, [[], [BOS], tokenizer.encode("The")])]
    assert texts == ["man here", "man here", " man here"]


def test_a_piece_is_never_half_a_character_and_a_last_one_that_lacks_bytes_is_left_out() -> None:
    tokenizer = trained("bpe")
    note = [tokenizer.token_bytes.index(bytes([byte])) for byte in "𝄞".encode()]
    engine = Says(tokenizer, [*note, *note[:3]])
    pieces, found = streamed(TextGenerator(engine, tokenizer, GREEDY), tokenizer.encode("here"))
    assert (pieces, found.text, found.why) == (["𝄞"], "𝄞", "end")


def test_a_stream_gives_each_piece_before_the_next_token_is_chosen_and_can_be_closed() -> None:
    writer, engine = says("abc", "bpe")
    stream = writer.pieces(Read("here", writer.prompt("here")))
    assert (next(stream), engine.number, engine.open) == ("a", 1, True)
    assert stream.continuation is None
    stream.close()
    assert not engine.open and list(stream) == [] and stream.continuation is None


def test_a_stream_that_is_over_keeps_its_record() -> None:
    writer, _ = says("abc")
    stream = writer.pieces(Read("here", writer.prompt("here")))
    assert "".join(stream) == "abc" and list(stream) == []
    assert stream.continuation is not None and stream.continuation.text == "abc"


# --- where a text ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "character"])
@pytest.mark.parametrize("config", [GREEDY, DecodeConfig(beam=3, max_len=60), DecodeConfig(sample=True, max_len=60)])
def test_a_text_ends_before_a_stop_string_that_tokens_split_or_share(kind, config) -> None:
    for stop, expected in (("slee", "; the man "), ("n s", "; the ma"), ("; ", ""), ("man", "; the ")):
        writer, engine = says("; the man sleeps.", kind, config, stop=["never", stop])
        [[found, *_]] = continued(writer, [writer.prompt("here")])
        assert (found.text, found.why) == (expected, "stop")
        assert trained(kind).decode(found.ids).removeprefix(" ").count(stop) <= 1
        assert list(found.ids) == engine.ids[: len(found.ids)] and len(found.logprobs) == len(found.ids)
        if config.beam == 1:
            assert engine.number == len(found.ids), "no token more than the stop string needs"
            assert "".join(streamed(writer, writer.prompt("here"))[0]) == expected


def test_the_beginning_of_a_stop_string_is_held_back_until_it_is_none() -> None:
    writer, _ = says("abcabd", "bpe", stop=["abd"])
    assert streamed(writer, writer.prompt("here"))[0] == ["abc"]
    writer, _ = says("abcab", "bpe", stop=["abd"])
    assert streamed(writer, writer.prompt("here"))[0] == ["abc", "ab"]


FEW = [("bpe", "rotary", 1), ("character", "learned", 1), ("bpe", "sinusoidal", 7), ("character", "alibi", 7),
       ("bpe", "relative", 50), ("character", "rotary", 50), ("bpe", "learned", 50)]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "positions", "chars"),
    [
        pytest.param(*it, marks=() if it in FEW else pytest.mark.slow)
        for it in itertools.product(["bpe", "character"], POSITIONS, [1, 7, 50])
    ],
)
def test_so_many_characters_are_so_many_though_the_model_would_end(kind, positions, chars) -> None:
    for config in (DecodeConfig(beam=1), DecodeConfig(sample=True, temperature=1.5)):
        writer = writer_of(positions, config, kind, chars=chars)
        prompts = [[], writer.prompt("here"), writer.prompt("The man sleeps. The man")][: 3 if chars < 50 else 1]
        for prompt, [found] in zip(prompts, continued(writer, prompts)):
            pieces, again = streamed(writer, prompt)
            assert len(found.text) == chars and found.why == "chars" and EOS not in found.ids
            assert found.text == again.text == "".join(pieces)


def test_the_end_of_the_text_does_not_count_where_characters_are_wanted() -> None:
    tokenizer = trained("bpe")
    writer, _ = says("abc", chars=3)
    assert streamed(writer, tokenizer.encode("here"))[1].text == "abc"
    for chars in (4, 30):
        [[found]] = continued(says("abc", chars=chars)[0], [tokenizer.encode("here")])
        assert len(found.text) == chars and found.text.startswith("abc") and found.why == "chars"


def test_bytes_that_make_no_character_are_as_many_characters_as_wanted() -> None:
    tokenizer = trained("bpe")
    half = tokenizer.token_bytes.index(b"\xbf")  # may only follow another byte
    writer = TextGenerator(
        Says(tokenizer, [half] * 500), tokenizer, DecodeConfig(beam=1), stopping=StoppingCriteria(chars=30)
    )
    [[found]] = continued(writer, [tokenizer.encode("here")])
    assert (found.text, found.why) == ("\ufffd" * 30, "chars")


def test_of_a_stop_string_and_a_number_of_characters_the_first_ends_a_text() -> None:
    for chars, expected in ((6, (" the m", "chars")), (5, (" the ", "chars")), (8, (" the ", "stop")), (7, None)):
        writer, _ = says(" the man", stop=["man"], chars=chars)
        found = streamed(writer, writer.prompt("here"))[1]
        assert (found.text, found.why) == (expected or (" the ma", "chars"))


def test_a_text_has_at_most_so_many_tokens_and_at_least_so_many() -> None:
    tokenizer = trained("character")
    writer, _ = says(" the man", "character", DecodeConfig(beam=1, max_len=4))
    found = streamed(writer, writer.prompt("here"))[1]
    assert (found.text, found.why, len(found.logprobs)) == (" the", "tokens", 4)
    assert streamed(says(" the man", "character", DecodeConfig(beam=1, max_extra=2))[0], [7])[1].text == " t"
    found = streamed(says(" the", "character", DecodeConfig(beam=1, min_len=9))[0], tokenizer.encode("a"))[1]
    assert len(found.ids) >= 9 and found.text.startswith(" the")
    found = streamed(says(" the", "character", DecodeConfig(beam=1, max_len=3), chars=4)[0], [7])[1]
    assert (found.text, found.why) == (" th", "tokens")


@pytest.mark.parametrize("much", [10**12, 2**63 - 1])
def test_a_limit_may_be_larger_than_memory_up_to_the_largest_number_of_the_machine(much: int) -> None:
    [[expected]] = continued(says(" the man", stop=["man"])[0], [[7]])
    for config in (DecodeConfig(beam=1, max_len=much), DecodeConfig(beam=1, max_extra=much)):
        writer, _ = says(" the man", config=config, stop=["man"])
        assert streamed(writer, [7])[1] == continued(writer, [[7]])[0][0] == expected
    writer, _ = says(" the man", config=DecodeConfig(beam=1, min_len=much), stop=["man"], chars=much)
    assert streamed(writer, [7])[1] == continued(writer, [[7]])[0][0] == expected


def test_where_nothing_may_follow_the_text_ends_and_says_so() -> None:
    tokenizer = trained("character")
    everything = tuple(tokenizer.pieces(range(4, tokenizer.vocab_size)))
    writer, _ = says("man", "character", DecodeConfig(beam=1, min_len=2, suppress=everything))
    assert streamed(writer, [7])[1] == Continuation("", "nothing", (), (), (), -math.inf, -math.inf, 0)


# --- how tokens are chosen ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "positions", [pytest.param(it, marks=() if it in ("rotary", "learned") else pytest.mark.slow) for it in POSITIONS]
)
def test_streamed_alone_or_together_a_text_is_the_same(positions) -> None:
    for config in (DecodeConfig(beam=1, max_len=30), DecodeConfig(sample=True, top_p=0.9, temperature=1.3, max_len=30)):
        writer = writer_of(positions, config)
        prompts = [writer.prompt(text) for text in ("", "here", "The man sleeps. The man is", " ", "\n\n")]
        for prompt, [found] in zip(prompts, continued(writer, prompts)):
            pieces, again = streamed(writer, prompt)
            assert (found.text, found.ids, found.why) == ("".join(pieces), again.ids, again.why)
            np.testing.assert_allclose(found.logprobs, again.logprobs, rtol=0, atol=1e-11)


def test_a_seed_gives_the_same_text_again_and_another_seed_another() -> None:
    def text(seed: int) -> str:
        writer = writer_of("rotary", DecodeConfig(sample=True, seed=seed, temperature=2.0), chars=40)
        return streamed(writer, writer.prompt("here"))[1].text

    assert text(0) == text(0) and len({text(seed) for seed in range(4)}) == 4


@pytest.mark.parametrize("positions", ["alibi", "learned"])
def test_no_pair_of_tokens_comes_twice_and_suppressed_ones_never(positions) -> None:
    free = writer_of(positions, DecodeConfig(beam=1, max_len=40, min_len=40))
    plain = streamed(free, free.prompt("here"))[1]
    pairs = [*itertools.pairwise(plain.ids)]
    assert len(set(pairs)) < len(pairs), "otherwise this shows nothing"
    config = DecodeConfig(beam=1, max_len=40, min_len=40, no_repeat_ngram=2, suppress=plain.tokens[:1])
    found = streamed(writer_of(positions, config), free.prompt("here"))[1]
    pairs = [*itertools.pairwise(found.ids)]
    assert len(set(pairs)) == len(pairs) and plain.ids[0] not in found.ids
    assert not {PAD, BOS, EOS, UNK} & {*found.ids}


def test_what_was_said_costs_more_to_say_again() -> None:
    config = DecodeConfig(beam=1, max_len=40, min_len=40)
    plain, penalised = (
        streamed(writer_of("relative", config), [7])[1]
        for config in (config, DecodeConfig(beam=1, max_len=40, min_len=40, repetition_penalty=3.0))
    )
    assert len({*penalised.ids}) > len({*plain.ids})


def test_several_texts_of_a_prompt_come_best_first_and_differ() -> None:
    for config in (
        DecodeConfig(beam=4, n_best=4, max_len=15),
        DecodeConfig(beam=4, n_best=3, max_len=15, diverse=True),
        DecodeConfig(sample=True, n_best=4, max_len=15, temperature=2.0),
    ):
        found = dict(enumerate(continued(writer_of("rotary", config), [[7, 8], []])))
        for texts in found.values():
            assert 2 <= len(texts) <= 4 and len({it.text for it in texts}) == len(texts)
            assert [it.score for it in texts] == sorted((it.score for it in texts), reverse=True)


def test_which_of_several_is_the_best_cannot_be_streamed() -> None:
    writer = writer_of("rotary", DecodeConfig(beam=4))
    with pytest.raises(ConfigError) as caught:
        list(writer.pieces(Read("", [7])))
    assert (caught.value.name, caught.value.value) == ("decode.beam", 4)


@given(st.lists(st.integers(4, 40), max_size=30), st.integers(1, 40))
@settings(deadline=None, max_examples=20)
def test_what_a_record_calls_unread_changes_nothing(prompt, longer) -> None:
    writer = writer_of("learned", DecodeConfig(beam=1, max_len=5))
    [[plain], [more]] = continued(writer, [prompt, [5] * longer + prompt])
    assert plain.unread == max(0, len(prompt) - 12) and more.unread == max(0, longer + len(prompt) - 12)
    if plain.unread:
        assert (plain.ids, plain.why) == (more.ids, more.why)


def test_a_prompt_of_characters_that_the_model_never_saw_names_them() -> None:
    writer, _ = says("man", "character")
    with pytest.raises(DataError, match=r"^the prompt contains characters that .*: '√', 'ж'\n") as caught:
        writer.prompt("√2 жe√".replace("2", "m"))
    assert (caught.value.name, caught.value.value) == ("prompt", ["√", "ж"]) and "unk" in caught.value.fix
    with pytest.raises(DataError, match=r": 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J' and 2 more\n"):
        writer.prompt("ABCDEFGHIJKL")
    with pytest.raises(DataError, match=r"^the prompt contains words .*: 'dog'\n"):
        says("man", "word")[0].prompt("The dog sleeps")
    assert trained("bpe").decode(says("man")[0].prompt("√2 ж")) == "√2 ж"


def test_a_writer_says_how_its_engine_reads_beyond_the_block() -> None:
    assert writer_of("alibi", GREEDY).overflow == writer_of("alibi", GREEDY).engine.overflow


# --- a model that has learnt something ---------------------------------------------------------------------


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_a_model_that_learnt_a_rhyme_goes_on_with_it_far_beyond_its_block(positions) -> None:
    torch.manual_seed(0)
    text, block = "man,\nsun; " * 40, 12
    tokenizer = Tokenizer.train([text], DataConfig(tokenizer="character", normalise=()))
    shape = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_encoder_layers": 0, "n_decoder_layers": 1, "dropout": 0.0}
    size = tokenizer.vocab_size
    net = build(ModelConfig(topology="decoder-only", tgt_vocab_size=size, positions=positions, max_len=block, **shape))
    ids = torch.tensor(tokenizer.encode(text))
    adam = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(150):
        rows = ids[torch.randint(len(ids) - block, (32, 1)) + torch.arange(block + 1)]
        loss = torch.nn.functional.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert isinstance(net, Decoder)
    engine = TextEngine(net, pad=PAD, max_len=block)
    writer = TextGenerator(engine, tokenizer, DecodeConfig(beam=1), stopping=StoppingCriteria(chars=100))
    assert "".join(writer.pieces(*writer.read(["man"]))) == text[3:103]
    writer = TextGenerator(engine, tokenizer, DecodeConfig(beam=1, max_len=50), stopping=StoppingCriteria(stop=["man"]))
    assert "".join(writer.pieces(*writer.read(["man"]))) == ",\nsun; "


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_successors_at_each_place_are_the_likeliest_tokens_that_a_greedy_text_is_made_of(positions) -> None:
    writer, prompt = writer_of(positions, DecodeConfig(beam=1, max_len=20)), [5, 6, 7]
    [[found]] = continued(writer, [prompt])
    places = list(writer.session.successors(prompt, found.ids, 3))
    for token, value, (own, most) in zip(found.ids, found.logprobs, places, strict=True):
        assert list(most.values()) == sorted(most.values(), reverse=True) and len(most) == 3
        allowed = [it for it in most.items() if it[0] not in writer.session.rules.suppress]
        assert allowed[0] == (token, pytest.approx(value, abs=1e-9)) and own == most[token]
    assert [own for own, _ in writer.session.successors(prompt, found.ids, 0)] == pytest.approx(found.logprobs)
