"""Tokenizers of other programs, compared with the library that they come from."""

import functools
import json
import random

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from clearhead.config import ModelConfig, SpecialTokens
from clearhead.errors import ConfigError, DataError, ModelError
from clearhead.tokenization.foreign import ForeignTokenizer
from clearhead.tokenization.offsets import encode_with_offsets, word_indices
from clearhead.tokenization.source_and_target import Tokenizers, tokenizer_from_json
from clearhead.tokenization.subword_dropout import SubwordDropout
from clearhead.tokenization.tokenizer import GrowingText, StreamingDetokenizer, Tokenizer

CORPUS = [
    "The quick brown fox doesn't jump over 12 lazy dogs, does it?",
    "Déjà vu: où est l'élève naïf? Größe, straße, ångström.",
    "Съешь ещё этих мягких французских булок, да выпей чаю.",
    "今日は東京で美味しい寿司を食べました。你好世界。",
    "مرحبا بالعالم، كيف حالك اليوم؟",
    "I am here and he is not here; we are there.\n\tTabs and  spaces.",
] * 4
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def lines(count: int = 1000, seed: int = 0) -> list[str]:
    """Lines of mixed Unicode: several scripts, emoji, combining marks, control characters and odd spaces."""
    rng = random.Random(seed)
    kinds = [
        lambda: "".join(rng.choices("abcdefghijklmnopqrstuvwxyzABCDEFG", k=rng.randint(1, 9))),
        lambda: rng.choice(["naïve", "Ærø", "Łódź", "coöperate", "İstanbul", "ǅungla", "straße", "ﬁne", "①②", "½"]),
        lambda: "".join(chr(rng.randint(0x410, 0x44F)) for _ in range(rng.randint(1, 7))),
        lambda: "".join(chr(rng.randint(0x4E00, 0x9FA5)) for _ in range(rng.randint(1, 5))),
        lambda: "".join(chr(rng.randint(0x621, 0x64A)) for _ in range(rng.randint(1, 6))),
        lambda: rng.choice(["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "😀", "🇫🇷", "☕️"]),
        lambda: rng.choice("aeiouAEO") + "".join(rng.choices("\u0301\u0308\u0323\u0327\u030a", k=rng.randint(1, 3))),
        lambda: rng.choice(["\x00", "\x07", "\x1b", "\x7f", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u202e"]),
        lambda: "".join(rng.choices("0123456789.,!?;:'\"()[]{}-–—…«»", k=rng.randint(1, 4))),
        lambda: rng.choice(
            ["don't", "he's", "I'm", "they'd", "we'll", "the", "here", "is not", "▁", "##a", "Ġ", "<0x41>"]
        ),
        lambda: chr(rng.choice([*range(0x20, 0xD800), *range(0xE000, 0xFDD0), *range(0x10000, 0x20000)])),
    ]
    spaces = ["", " ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\x0b"]
    return ["".join(rng.choice(kinds)() + rng.choice(spaces) for _ in range(rng.randint(0, 12))) for _ in range(count)]


def wordpiece() -> tokenizers.Tokenizer:
    """As BERT: clean, lower-case, no accents; ## inside a word."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=400, special_tokens=names, show_progress=False)
    )
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.enable_truncation(8)
    made.enable_padding(length=16)
    return made


def byte_level() -> tokenizers.Tokenizer:
    """As GPT-2: bytes, no normalisation, one special token, with the last id."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    )
    made.add_special_tokens(["<|endoftext|>"])
    return made


def unigram() -> tokenizers.Tokenizer:
    """As T5: NFKC, spaces as ▁, pieces by their probability; special pieces with the best score."""
    made = tokenizers.Tokenizer(models.Unigram())
    steps = [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    made.normalizer = normalizers.Sequence(steps)
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    names = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=names, unk_token="<unk>", show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    return made


def byte_fallback() -> tokenizers.Tokenizer:
    """As Llama: ▁ before the text and for spaces, merges, bytes for unknown characters."""
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # so that no piece has several words
    after = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(after)
    names = ["<unk>", "<s>", "</s>", *BYTES]
    made.train_from_iterator(CORPUS[:2], trainers.BpeTrainer(vocab_size=400, special_tokens=names, show_progress=False))
    content = json.loads(made.to_str())
    content["pre_tokenizer"] = None
    content["added_tokens"] = [it for it in content["added_tokens"] if it["content"] not in BYTES]
    return tokenizers.Tokenizer.from_str(json.dumps(content))


def words() -> tokenizers.Tokenizer:
    """Whole words, without a normaliser and without a decoder."""
    made = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=["[UNK]", "[PAD]", "[S]", "[E]"], show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    return made


SPECIAL = {
    wordpiece: SpecialTokens(pad=0, bos=2, eos=3, unk=1, mask=4, start=2),
    byte_level: SpecialTokens(pad=501, bos=500, eos=500, unk=None, mask=None, start=500),
    unigram: SpecialTokens(pad=0, bos=1, eos=1, unk=2, mask=None, start=0),
    byte_fallback: SpecialTokens(pad=0, bos=1, eos=2, unk=0, mask=None, start=1),
    words: SpecialTokens(pad=1, bos=2, eos=3, unk=0, mask=None, start=2),
}
KINDS = {wordpiece: "wordpiece", byte_level: "bpe", unigram: "unigram", byte_fallback: "bpe", words: "word"}
every = pytest.mark.parametrize("make", SPECIAL, ids=lambda it: it.__name__)


@functools.cache
def file(make) -> str:
    return make().to_str()


@functools.cache
def opened(make, size: int = 0) -> Tokenizer:
    return tokenizer_from_json(file(make), SPECIAL[make], origin="x.json", size=size)


@functools.cache
def library(make) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer.from_str(file(make))
    made.no_padding()
    made.no_truncation()
    return made


def names_in(line: str, make) -> bool:
    """Whether a line has the name of a special token, which the library takes for one."""
    return any(it.content in line for it in library(make).get_added_tokens_decoder().values())


# --- ids ---------------------------------------------------------------------------------------------------


@every
def test_the_ids_are_those_of_the_library(make) -> None:
    some = lines()
    expected = [library(make).encode(line, add_special_tokens=False).ids for line in some]
    assert opened(make).encode_batch(some) == expected
    assert opened(make).encode(some[7]) == expected[7]
    assert isinstance(opened(make), ForeignTokenizer) and opened(make).is_foreign
    assert opened(make).kind == KINDS[make]


@every
def test_no_text_can_forge_a_special_token(make) -> None:
    tokenizer, special = opened(make), SPECIAL[make]
    names = [it.content for it in library(make).get_added_tokens_decoder().values()]
    for name in names:
        assert library(make).encode(name, add_special_tokens=False).ids != tokenizer.encode(name)
        for text in (name, f"a {name} b", f"{name}{name}", f"a{name}"):
            assert not set(tokenizer.encode(text)) & (special.ids - {special.unk})
    if special.unk is None:
        assert tokenizer.decode(tokenizer.encode("a <|endoftext|> b")) == "a <|endoftext|> b"


@every
def test_special_tokens_are_read_where_the_reader_asks_for_it(make) -> None:
    tokenizer, draw = opened(make).with_specials(), random.Random(0)
    names = [it.content for it in library(make).get_added_tokens_decoder().values()]
    some = [
        "".join(draw.choice(["", " "]).join((it, draw.choice(names))) for it in line.split()) for line in lines(300)
    ]
    expected = [library(make).encode(line, add_special_tokens=False).ids for line in some]
    assert tokenizer.encode_batch(some) == expected
    assert all(tokenizer.encoding(line).ids == ids for line, ids in zip(some[:20], expected))
    assert any({*ids} & SPECIAL[make].ids for ids in expected)
    assert tokenizer.vocabulary() == opened(make).vocabulary() and tokenizer.token_bytes == opened(make).token_bytes
    assert [tokenizer.decode(ids) for ids in expected] == [opened(make).decode(ids) for ids in expected]


def test_the_first_text_with_special_tokens_as_plain_text_is_reported() -> None:
    both = Tokenizers.from_json(file(wordpiece), SPECIAL[wordpiece], origin="x.json")
    said = list[str]()
    both.warning(said.append)
    both.source.encode("A fox.")
    both.source.encode_masked("A [MASK].")
    assert said == []
    both.source.encode("A [SEP] fox [CLS] [SEP].")
    assert (
        len(said) == 1 and "[SEP], [CLS]," in said[0] and "--special-tokens" in said[0] and "specials=True" in said[0]
    )
    both.source.encode("[SEP]")
    assert len(said) == 1
    both.with_specials().warning(said.append).source.encode("[SEP]")
    assert len(said) == 2


def test_flags_of_added_tokens_hold() -> None:
    made = byte_level()
    added = [tokenizers.AddedToken("<l>", lstrip=True), tokenizers.AddedToken("<r>", rstrip=True)]
    added += [tokenizers.AddedToken("one", single_word=True), tokenizers.AddedToken("<S>", special=True, lstrip=True)]
    made.add_tokens(added)
    text = "a  <l> b <r>  one bone <S> two"
    special = SpecialTokens(pad=900, bos=500, eos=500, unk=None, mask=None, start=500)
    found = tokenizer_from_json(made.to_str(), special, origin="x.json")
    assert found.with_specials().encode(text) == made.encode(text).ids
    assert found.encode(text.replace("<S>", "")) == made.encode(text.replace("<S>", "")).ids


def test_special_tokens_beyond_the_vocabulary_are_an_error() -> None:
    made = tokenizers.Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    model = ModelConfig(src_vocab_size=2, tgt_vocab_size=2, bos_id=0, mask_id=None, unk_id=1)
    with pytest.raises(ModelError) as caught:
        Tokenizers.for_model(made.to_str(), model, origin="tokenizer.json")  # eos_id is 2
    assert (caught.value.name, caught.value.value) == ("model.src_vocab_size", 2)


@every
def test_a_lone_surrogate_is_refused(make) -> None:
    for door in (opened(make).encode, opened(make).normalize, lambda text: opened(make).encode_batch(["a", text])):
        with pytest.raises(DataError) as caught:
            door("a\ud800b")
        assert caught.value.name == "text"


# --- text --------------------------------------------------------------------------------------------------


@every
def test_decoding_is_that_of_the_library(make) -> None:
    tokenizer, special = opened(make), SPECIAL[make]
    for line in lines(300, seed=1):
        ids = tokenizer.encode(line)
        expected = library(make).decode([i for i in ids if i != special.unk])
        assert tokenizer.decode([special.bos, *ids, special.eos]) == expected
    assert tokenizer.decode([]) == tokenizer.decode([special.eos, special.pad]) == ""


@every
def test_tokens_joined_are_what_decoding_gives(make) -> None:
    tokenizer, special = opened(make), SPECIAL[make]
    for line in lines(300, seed=2):
        ids = [special.bos, *tokenizer.encode(line)]
        streaming = StreamingDetokenizer(tokenizer)
        assert "".join(streaming.add([i]) for i in ids) == tokenizer.decode(ids)
        half = len(ids) // 2
        first = StreamingDetokenizer(tokenizer).add(ids[:half])
        assert first + StreamingDetokenizer(tokenizer, ids[:half]).add(ids[half:]) == tokenizer.decode(ids)


@every
def test_a_growing_text_is_what_decoding_gives(make) -> None:
    tokenizer = opened(make)
    ids = [i for line in lines(40, seed=4) for i in tokenizer.encode(line)]
    growing = GrowingText(tokenizer.decode)
    for n, i in enumerate(ids, 1):
        text, expected = growing.add(i), tokenizer.decode(ids[:n])
        assert text == expected or (text.endswith("\ufffd") and expected.endswith("\ufffd")), "half a character"


@pytest.mark.parametrize("make", [byte_level, byte_fallback])
def test_bytes_spell_every_text(make) -> None:
    tokenizer = opened(make)
    for line in lines(300, seed=3):
        assert tokenizer.decode(tokenizer.encode(line)) == line.replace("▁", " ") or make is byte_level
        if make is byte_level:
            assert tokenizer.decode(tokenizer.encode(line)) == line == tokenizer.normalize(line)


def test_normalised_text_has_no_marks_of_spaces() -> None:
    assert opened(byte_fallback).normalize(" a b") == " a b"
    assert opened(wordpiece).normalize("Déjà  VU") == "deja  vu"
    assert opened(unigram).normalize("ﬁne  one") == "fine one"
    assert opened(words).normalize("A b") == "A b"


@every
def test_pieces_print_and_are_found_again(make) -> None:
    tokenizer = opened(make)
    shown = tokenizer.vocabulary()
    assert len(shown) == tokenizer.vocab_size == library(make).get_vocab_size() == len(tokenizer.token_bytes)
    assert all(piece and piece.isprintable() and " " not in piece for piece in shown)
    assert all(shown[tokenizer.token_id(piece)] == piece for piece in shown)
    with pytest.raises(DataError):
        tokenizer.token_id("no such token")


def test_pieces_spelled_out() -> None:
    for make, expected in {
        wordpiece: ["the", "quick"],
        byte_level: ["The", "▁quick"],
        unigram: ["▁The", "▁quick"],
        byte_fallback: ["▁The", "▁quick"],
        words: ["The", "quick"],
    }.items():
        tokenizer = opened(make)
        assert "".join(tokenizer.pieces(tokenizer.encode("The quick"))).replace("##", "") == "".join(expected)
    assert opened(wordpiece).pieces([0, 2, 3]) == ["[PAD]", "[CLS]", "[SEP]"]
    assert opened(byte_level).pieces([500]) == ["<|endoftext|>"]
    assert "<0xE6>" in opened(byte_fallback).pieces(opened(byte_fallback).encode("東"))


def test_a_model_may_have_more_tokens_than_its_file() -> None:
    tokenizer = opened(byte_level, 512)
    assert tokenizer.vocab_size == 512 and tokenizer.pieces([505]) == ["<505>"] and tokenizer.token_bytes[505] == b""
    assert tokenizer.decode([505]) == ""
    assert StreamingDetokenizer(tokenizer).add([505]) == ""


# --- words and places --------------------------------------------------------------------------------------


@every
def test_places_are_in_order_and_tokens_cover_their_text(make) -> None:
    tokenizer = opened(make)
    for line in lines(300, seed=4):
        tokens = encode_with_offsets(tokenizer, line)
        assert tokens.ids == tokenizer.encode(line)
        assert tokens.starts == sorted(tokens.starts) and tokens.ends == sorted(tokens.ends)
        assert all(0 <= start <= end <= len(line) for start, end in zip(tokens.starts, tokens.ends))
        assert len(word_indices(tokenizer, line)) == len(tokens.ids)


@pytest.mark.parametrize("make", [byte_level, byte_fallback])
def test_the_place_of_a_token_has_its_text(make) -> None:
    tokenizer = opened(make)
    for line in lines(300, seed=5):
        tokens = encode_with_offsets(tokenizer, line)
        covered: set[int] = set()
        for i, start, end in zip(tokens.ids, tokens.starts, tokens.ends):
            covered |= {*range(start, end)}
            text = tokenizer.token_bytes[i].decode(errors="replace")
            if "\ufffd" not in text:
                assert line[start:end].replace("▁", " ").strip() == text.strip()
        assert {place for place, letter in enumerate(line) if not letter.isspace()} <= covered


@every
def test_words_of_a_sentence_are_found_at_their_places(make) -> None:
    tokenizer, text = opened(make), "The quick  brown\nfox is here , Cafe\u0301 élève."
    tokens = encode_with_offsets(tokenizer, text)
    for word in ("quick", "brown", "fox", "here", "Cafe\u0301", "élève"):
        start = text.index(word)
        found = tokens.tokens_of(start, start + len(word))
        assert found is not None and tokens.span_of(*found) == (start, start + len(word))
    for index, word in zip(word_indices(tokenizer, "The quick fox"), tokenizer.encode("The quick fox")):
        assert tokenizer.pieces([word])[0].strip("▁#").casefold() in ["the", "quick", "fox"][index]


def test_unknown_parts_are_named() -> None:
    assert opened(words).unknown_words("The zebra is here, zebra Yéti") == ["zebra", "Yéti"]
    assert opened(wordpiece).unknown_words("The 🦓 is here") == ["🦓"]
    assert opened(unigram).unknown_words("The 🦓 is here") == ["🦓"]
    assert opened(byte_level).unknown_words("The 🦓") == opened(byte_fallback).unknown_words("The 🦓") == []


def test_without_a_token_for_unknown_words_they_are_an_error_that_lists_them() -> None:
    words = tokenizers.Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2, "b": 3}, unk_token=""))
    words.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    words.add_special_tokens(["<s>", "</s>"])
    special = SpecialTokens(pad=4, bos=0, eos=1, start=0, unk=None, mask=None)
    own = tokenizer_from_json(words.to_str(), special, origin="words.json")
    assert own.encode("b a") == [3, 2] and own.decode([3, 2]) == "b a"
    assert own.unknown_words("a x </s> b x") == ["x", "</s>"]
    with pytest.raises(DataError) as caught:
        own.encode("a x </s> b x")
    assert caught.value.value == ["x", "</s>"]


def test_subword_dropout_needs_our_own_merges() -> None:
    with pytest.raises(ConfigError) as caught:
        SubwordDropout(opened(byte_level), 0.1)
    assert (caught.value.name, caught.value.value) == ("data.subword_dropout", 0.1)


# --- files -------------------------------------------------------------------------------------------------


@every
def test_the_file_is_kept_as_it_was(make) -> None:
    assert opened(make).to_json() == file(make)
    both = Tokenizers.from_json(file(make), SPECIAL[make], origin="x.json")
    assert both.joint and both.to_json() == file(make)


def test_each_side_may_have_a_file_of_its_own() -> None:
    text = f'{{"source": {file(wordpiece)}, "target": {file(wordpiece)}}}'
    both = Tokenizers.from_json(text, SPECIAL[wordpiece], origin="x.json", sizes=(450, 500))
    assert not both.joint and (both.source.vocab_size, both.target.vocab_size) == (450, 500)
    again = Tokenizers.from_json(both.to_json(), SPECIAL[wordpiece], origin="x.json")
    assert again.target.encode("The fox") == opened(wordpiece).encode("The fox")


@pytest.mark.parametrize("damage", [{"model": {"type": "BPE"}}, {"model": None}, {"decoder": {"type": "None"}}])
def test_a_damaged_file_is_an_error_that_names_it(damage: dict) -> None:
    with pytest.raises(ModelError) as caught:
        tokenizer_from_json(json.dumps(json.loads(file(words)) | damage), SPECIAL[words], origin="x.json")
    assert caught.value.name == "x.json"


def test_a_mask_has_the_name_of_the_file_and_the_ids_are_those_of_the_library() -> None:
    found = opened(wordpiece)
    assert found.mask_name == "[MASK]"
    for text in ("I am [MASK] and", "[MASK]", "not [MASK].", "the [MASK]s [MASK]", "over12[MASK]lazy"):
        expected = library(wordpiece).encode(text, add_special_tokens=False).ids
        ids, masks = found.encode_masked(text)
        assert ids == expected and [ids[place] for place in masks] == [4] * text.count("[MASK]")


def test_a_text_with_a_mask_can_forge_no_other_special_token() -> None:
    found = opened(wordpiece)
    for forged in ("[CLS]", "\ufdd0[CLS]", "[SEP]", "\ufdd0[SEP]"):
        ids, masks = found.encode_masked(f"I {forged} am [MASK]")
        assert not {0, 2, 3} & {*ids} and [ids[place] for place in masks] == [4]


def test_a_mask_that_the_file_does_not_list_as_special_is_found() -> None:
    content = json.loads(file(wordpiece))
    content["added_tokens"] = [it for it in content["added_tokens"] if it["id"] != 4]
    found = tokenizer_from_json(json.dumps(content), SPECIAL[wordpiece], origin="x.json")
    assert found.encode_masked("I am [MASK] and") == opened(wordpiece).encode_masked("I am [MASK] and")
