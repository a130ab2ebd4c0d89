import functools
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig, SpecialTokens
from clearhead.errors import ConfigError, DataError, ModelError
from clearhead.tokenization.learning import SPECIALS, _without
from clearhead.tokenization.normalise import BYTES
from clearhead.tokenization.source_and_target import Tokenizers, tokenizer_from_json, train_tokenizers
from clearhead.tokenization.tokenizer import Tokenizer
from tests.builders import all_combinations

BOS, EOS, PAD, UNK = 1, 2, 0, 3  # the special tokens of a new vocabulary

ENGLISH = [
    "The man is hungry.",
    "I don't see the man.",
    "Is he here?",
    "The red house is big.",
    "I am here, he is not!",
] * 3
FRENCH = ["L'homme a faim.", "Je ne vois pas l'homme.", "Est-il ici ?", "La maison rouge est grande.", "J'y suis !"] * 3
KINDS = ("bpe", "unigram", "word", "character")
FORMS = (("NFC",), ("NFKC",), ())
SUBWORDS = ("bpe", "unigram")
EXACT = {"normalise": ()}

any_text = st.text(st.characters(exclude_categories=["Cs"]))
# What pipelines stumble over: spaces of all kinds, the library's own marks, special tokens, marks that combine.
marks = " \t\n\r\x0b\x1c\x85\u00a0\u2028▁ĠÂ</s>'’\u0301\u200d\ufe0fé😀Ạ̈ǰJİſΣßL'1"
awkward = st.text(st.sampled_from([*marks]) | st.characters(exclude_categories=["Cs"]))


@functools.cache
def trained(kind: str, size: int = 400, **changes: object) -> Tokenizer:
    vocab_size = size if kind in SUBWORDS else None
    data = DataConfig(tokenizer=kind, vocab_size=vocab_size, **changes)  # type: ignore[arg-type]
    return Tokenizer.train(ENGLISH + FRENCH, data)


def content(tokenizers_: Tokenizers) -> list[str]:
    return [tokenizers_.source.to_json(), tokenizers_.target.to_json()]


# --- round trips -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "form", "whitespace", "lowercase"),
    all_combinations(SUBWORDS, FORMS, (True, False), (True, False)),
)
@given(text=any_text | awkward)
@settings(max_examples=60, deadline=None)
def test_subwords_give_back_the_normalised_text_whatever_it_is(
    kind: str, form: tuple[str, ...], whitespace: bool, lowercase: bool, text: str
) -> None:
    tokenizer = trained(kind, normalise=(*form, *["whitespace"] * whitespace, *["lowercase"] * lowercase))
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.normalize(text)
    assert all(i >= len(SPECIALS) for i in ids)


@pytest.mark.parametrize("kind", SUBWORDS)
@given(text=any_text | awkward)
@settings(max_examples=200, deadline=None)
def test_with_normalisation_off_subwords_give_back_the_text_itself(kind: str, text: str) -> None:
    tokenizer = trained(kind, **EXACT)
    assert tokenizer.decode(tokenizer.encode(text)) == text == tokenizer.normalize(text)


@pytest.mark.parametrize("kind", SUBWORDS)
@pytest.mark.parametrize("every", [61, pytest.param(1, marks=pytest.mark.slow)])
def test_every_character_there_is_comes_back_alone_and_between_others(kind: str, every: int) -> None:
    tokenizer = trained(kind, **EXACT)
    characters = [chr(code) for code in range(0, sys.maxunicode + 1, every) if not 0xD800 <= code < 0xE000]
    texts = [f"{c}a{c} {c}" for c in characters]
    assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == texts


@pytest.mark.parametrize("kind", ["word", "character"])
@pytest.mark.parametrize("whitespace", [True, False])
@given(text=any_text | awkward)
@settings(max_examples=100, deadline=None)
def test_words_and_characters_give_back_the_text_where_nothing_is_unknown(
    kind: str, whitespace: bool, text: str
) -> None:
    data = DataConfig(tokenizer=kind, normalise=("whitespace",) * whitespace)  # type: ignore[arg-type]
    tokenizer = Tokenizer.train([text, "some text"], data)
    ids = tokenizer.encode(text)
    assert UNK not in ids
    assert tokenizer.decode(ids) == tokenizer.normalize(text)
    assert tokenizer.unknown_words(text) == []


@pytest.mark.parametrize("kind", KINDS)
@given(texts=st.lists(any_text | awkward))
@settings(max_examples=60, deadline=None)
def test_a_batch_is_its_texts_one_by_one(kind: str, texts: list[str]) -> None:
    tokenizer = trained(kind)
    batch = tokenizer.encode_batch(texts)
    assert batch == [tokenizer.encode(text) for text in texts]
    assert tokenizer.decode_batch(batch) == [tokenizer.decode(ids) for ids in batch]


def test_a_batch_longer_than_one_handful_keeps_its_order() -> None:
    tokenizer = trained("bpe")
    texts = [f"man {i}" for i in range(20_000)]
    assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == texts


def test_ids_may_come_from_an_array() -> None:
    tokenizer = trained("bpe")
    ids = np.array(tokenizer.encode("the man"))
    assert tokenizer.decode(ids.tolist()) == tokenizer.decode(ids) == "the man"  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["a\ud800b", "\udfff"])
def test_half_a_surrogate_pair_is_refused_by_name(kind: str, text: str) -> None:
    tokenizer = trained(kind)
    code = "U+D800" if "\ud800" in text else "U+DFFF"
    for door in (tokenizer.encode, tokenizer.normalize, lambda t: tokenizer.encode_batch(["fine", t])):
        with pytest.raises(DataError, match=rf"contains {code.replace('+', '[+]')}, a lone surrogate") as caught:
            door(text)
        assert (caught.value.name, caught.value.value) == ("text", text) and caught.value.expected
    with pytest.raises(DataError):
        Tokenizer.train(["fine", text], DataConfig(tokenizer=kind))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["word", "character"])
def test_unknown_words_of_half_a_surrogate_pair_are_refused_too(kind: str) -> None:
    with pytest.raises(DataError):
        trained(kind).unknown_words("\ud800")


def test_what_is_no_text_at_all_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        trained("bpe").encode(7)  # type: ignore[arg-type]


# --- normalisation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "form", "lowercase"), all_combinations(KINDS, FORMS, (True, False)))
@given(text=any_text | awkward)
@settings(max_examples=60, deadline=None)
def test_normalising_twice_is_normalising_once(kind: str, form: tuple[str, ...], lowercase: bool, text: str) -> None:
    tokenizer = trained(kind, normalise=(*form, "whitespace", *["lowercase"] * lowercase))
    once = tokenizer.normalize(text)
    assert tokenizer.normalize(once) == once
    assert tokenizer.encode(once) == tokenizer.encode(text)


@given(words=st.lists(st.text(st.characters(categories=["L", "N", "P"]), min_size=1)))
def test_white_space_is_folded_to_one_space_and_stripped(words: list[str]) -> None:
    tokenizer = trained("bpe", normalise=("whitespace",))
    spaces = itertools.cycle(["\u00a0", " \t", "\u202f", "\r\n", "\u2028", "\x0b\x85"])
    text = "".join(space + word for space, word in zip(spaces, words)) + "\n"
    assert tokenizer.normalize(text) == " ".join(words)


def test_unicode_forms_and_case_are_as_the_settings_say() -> None:
    text = "E\u0301\ufb01 \u00c9"  # E and an accent, the ligature fi, É
    assert trained("bpe").normalize(text) == "\u00c9\ufb01 \u00c9"
    assert trained("bpe", normalise=("NFKC", "whitespace")).normalize(text) == "\u00c9fi \u00c9"
    assert trained("bpe", normalise=("whitespace",)).normalize(text) == text
    assert trained("bpe", normalise=("NFC", "lowercase", "whitespace")).normalize(text) == "\u00e9\ufb01 \u00e9"
    assert (
        trained("bpe", normalise=("NFC", "lowercase", "whitespace")).normalize("J\u030c") == "\u01f0"
    )  # only the small letter composes


def test_a_word_has_the_same_tokens_at_the_start_of_a_text_and_inside_it() -> None:
    for kind in ("bpe", "unigram", "word"):
        tokenizer = trained(kind)
        assert tokenizer.encode("house is big") == tokenizer.encode("the house is big")[len(tokenizer.encode("the")) :]


# --- special tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_can_forge_a_special_token_even_if_training_was_full_of_them(kind: str) -> None:
    texts = [f"{special}{special} {special} x{special}" for special in SPECIALS] * 50
    tokenizer = Tokenizer.train(texts, DataConfig(tokenizer=kind))  # type: ignore[arg-type]
    for text in (*texts, "".join(SPECIALS)):
        ids = tokenizer.encode(text)
        assert min(ids) >= len(SPECIALS)
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_the_first_ids_and_no_text(kind: str) -> None:
    tokenizer = trained(kind)
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert tuple(tokenizer.vocabulary()[:4]) == SPECIALS == tuple(tokenizer.pieces([PAD, BOS, EOS, UNK]))
    ids = tokenizer.encode("The man")
    around = [BOS, *ids[:1], UNK, *ids[1:], EOS, PAD, PAD]
    assert tokenizer.decode(around) == tokenizer.decode_batch([around])[0] == "The man"
    assert tokenizer.decode([PAD, EOS]) == tokenizer.decode([]) == ""


# --- the pieces --------------------------------------------------------------------------------------------


def test_words_carry_their_space_and_a_french_elision_stands_apart() -> None:
    text = "hello, l'homme qu'il j’ai jusqu'à S'il don't I'm aujourd'hui rock'n'roll vas-tu ?"
    tokenizer = Tokenizer.train([text], DataConfig(tokenizer="word"))
    expected = "▁hello , ▁l' homme ▁qu' il ▁j’ ai ▁jusqu' à ▁S' il ▁don't ▁I'm ▁aujourd'hui ▁rock'n'roll ▁vas - tu ▁?"
    assert tokenizer.pieces(tokenizer.encode(text)) == expected.split()


def test_a_letter_between_quotes_is_no_elision() -> None:
    tokenizer = Tokenizer.train(["'c' l' d'"], DataConfig(tokenizer="word"))
    assert tokenizer.pieces(tokenizer.encode("'c' l' d'")) == ["▁'", "c", "'", "▁l", "'", "▁d", "'"]


def test_unknown_words_are_named_as_they_were_written_once_each_in_order() -> None:
    tokenizer = trained("word", normalise=("NFC", "lowercase", "whitespace"))
    assert tokenizer.unknown_words("  THE  Zebra sees l'Yéti, the zebra,\u00a0the Zebra. ") == [
        "Zebra",
        "sees",
        "Yéti",
        "zebra",
    ]
    assert tokenizer.encode("Zebra") == [UNK]
    assert trained("character").unknown_words("xxw zxw") == ["x", "w", "z"]
    assert trained("character", normalise=("NFC",)).unknown_words("\t") == ["\t"]
    for kind in SUBWORDS:
        assert trained(kind).unknown_words("Zebra 動物") == []


@pytest.mark.parametrize("kind", SUBWORDS)
@given(text=any_text | awkward)
@settings(max_examples=100, deadline=None)
def test_pieces_of_subwords_print(kind: str, text: str) -> None:
    tokenizer = trained(kind, **EXACT)
    pieces = tokenizer.pieces(tokenizer.encode(text))
    assert all(piece and piece.isprintable() and " " not in piece for piece in pieces)


def test_pieces_show_spaces_whole_characters_and_bytes_of_others() -> None:
    tokenizer = trained("bpe")
    assert tokenizer.pieces(tokenizer.encode("z é")) == ["▁", "z", "▁", "\\xc3", "\\xa9"]
    exact = trained("bpe", size=260, **EXACT)
    assert exact.pieces(exact.encode("\t")) == ["▁", "\\t"]
    characters = trained("character")
    assert characters.pieces(characters.encode("a m")) == ["a", "▁", "m"]


def test_the_letters_of_the_bytes_are_those_of_the_library() -> None:
    step = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    assert set(BYTES) == set(step.alphabet())
    for text in ("a é\n", "😀\x00\u00ad"):
        letters = step.pre_tokenize_str(text)[0][0]
        assert bytes(BYTES[letter] for letter in letters) == text.encode()


# --- training ----------------------------------------------------------------------------------------------


def test_subwords_learn_what_is_frequent() -> None:
    for kind in SUBWORDS:
        tokenizer = trained(kind)
        assert len(tokenizer.encode(" ".join(ENGLISH))) < len(" ".join(ENGLISH)) / 2
        assert tokenizer.pieces(tokenizer.encode("the man")) == ["▁the", "▁man"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_is_no_larger_than_wanted_and_smaller_where_the_data_gives_less(kind: str) -> None:
    least = 260 if kind in SUBWORDS else 5
    for size in (least, least + 15):
        tokenizer = Tokenizer.train(ENGLISH, DataConfig(tokenizer=kind, vocab_size=size))  # type: ignore[arg-type]
        assert tokenizer.vocab_size == len(tokenizer.vocabulary()) == size
    more = Tokenizer.train(ENGLISH, DataConfig(tokenizer=kind, vocab_size=100_000))  # type: ignore[arg-type]
    assert size < more.vocab_size < 1_000


@pytest.mark.parametrize("kind", SUBWORDS)
def test_a_vocabulary_too_small_for_the_bytes_is_refused(kind: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^data\.vocab_size=259 is too small for data\.tokenizer='{kind}'"
    ) as caught:
        Tokenizer.train(ENGLISH, DataConfig(tokenizer=kind, vocab_size=259))  # type: ignore[arg-type]
    assert (caught.value.name, caught.value.value) == ("data.vocab_size", 259)
    assert caught.value.expected.startswith("at least 260") and "character" in caught.value.fix


@pytest.mark.parametrize("kind", ["word", "character"])
@pytest.mark.parametrize("texts", [[], [""], ["  "]])
def test_a_vocabulary_of_nothing_is_refused(kind: str, texts: list[str]) -> None:
    with pytest.raises(DataError, match="the training texts are empty") as caught:
        Tokenizer.train(texts, DataConfig(tokenizer=kind))  # type: ignore[arg-type]
    assert (caught.value.name, caught.value.value) == ("data.tokenizer", kind)


@pytest.mark.parametrize("kind", SUBWORDS)
def test_without_text_subwords_still_have_the_bytes(kind: str) -> None:
    tokenizer = Tokenizer.train([], DataConfig(tokenizer=kind))  # type: ignore[arg-type]
    assert tokenizer.vocab_size == 260
    assert tokenizer.decode(tokenizer.encode("où ?")) == "où ?"


TIES = """
import hashlib, itertools
from clearhead.config import DataConfig, SpecialTokens
from clearhead.tokenization.source_and_target import train_tokenizers
# Many words, all equally frequent: every choice of the trainer is a tie.
words = ["".join(letters) for letters in itertools.product("abcdé", repeat=4)]
texts = [" ".join(words[i::25]) for i in range(25)] * 2
for kind in ("bpe", "unigram", "word", "character"):
    size = {"word": 200, "character": None}.get(kind, 350)
    tokenizers = train_tokenizers(texts, texts[:9], DataConfig(tokenizer=kind, vocab_size=size, joint=False))
    for one in (tokenizers.source, tokenizers.target):
        print(kind, one.vocab_size, hashlib.sha256(one.to_json().encode()).hexdigest())
"""


def test_training_gives_the_same_file_in_every_process_with_any_number_of_threads() -> None:
    outputs = set()
    for threads in ("1", "2", "5"):
        environment = os.environ | {"RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
        run = subprocess.run([sys.executable, "-c", TIES], env=environment, capture_output=True, text=True, check=True)
        assert run.stderr == ""
        outputs.add(run.stdout)
    (output,) = outputs
    assert output.count("\n") == 8


def test_a_unigram_piece_is_weighed_by_its_best_other_segmentation() -> None:
    scores = {"a": -3.0, "b": -4.0, "ab": -5.0, "c": -1.0, "bc": -2.5, "abc": -0.1}
    assert _without("abc", scores) == max(-3 - 4 - 1, -5 - 1, -3 - 2.5)
    assert _without("ab", scores) == -7.0
    assert _without("a", scores) == -np.inf


def test_unigram_cuts_each_word_where_the_sum_of_log_probabilities_is_greatest() -> None:
    tokenizer = trained("unigram")
    model = json.loads(tokenizer.to_json())["model"]["vocab"]
    score = {i: value for i, (_, value) in enumerate(model)}
    at = {piece: i for i, (piece, _) in enumerate(model) if i >= len(SPECIALS)}
    for word in ("house", "maison", "hungry", "nothing"):
        letters, best = "Ġ" + word, -np.inf
        for cuts in itertools.product([False, True], repeat=len(letters) - 1):
            edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(letters)]
            parts = [letters[a:b] for a, b in itertools.pairwise(edges)]
            if all(part in at for part in parts):
                best = max(best, sum(score[at[part]] for part in parts))
        assert sum(score[i] for i in tokenizer.encode(word)) == pytest.approx(best)


def test_a_forked_child_encodes_quietly() -> None:
    script = """
import os, sys, threading
from clearhead.config import DataConfig, SpecialTokens
from clearhead.tokenization.tokenizer import Tokenizer
tokenizer = Tokenizer.train(["one two", "two three"] * 50, DataConfig())
batch = ["one two three"] * 500
ids = tokenizer.encode_batch(batch)
child = os.fork()
if child == 0:
    threading.Timer(20, os._exit, [9]).start()
    os._exit(0 if tokenizer.encode_batch(batch) == ids else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {key: value for key, value in os.environ.items() if key != "TOKENIZERS_PARALLELISM"}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("0\n", "")


# --- two sides, one file -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("joint", [True, False])
def test_saved_and_loaded_is_the_same(kind: str, joint: bool) -> None:
    data = DataConfig(tokenizer=kind, joint=joint, normalise=("NFKC", "lowercase", "whitespace"))  # type: ignore[arg-type]
    before = train_tokenizers(ENGLISH, FRENCH, data)
    after = Tokenizers.from_json(before.to_json(), SpecialTokens(), origin="x.json")
    assert before.joint is after.joint is joint
    for one, other in ((before.source, after.source), (before.target, after.target)):
        assert (one.kind, one.vocab_size, one.vocabulary()) == (other.kind, other.vocab_size, other.vocabulary())
        for text in (*ENGLISH, *FRENCH, "ŒUVRE ½ </s>", "", " \x00"):
            assert one.encode(text) == other.encode(text)
            assert one.decode(one.encode(text)) == other.decode(one.encode(text))
            assert one.unknown_words(text) == other.unknown_words(text)
    assert content(before) == content(after)
    assert after.to_json() == before.to_json()


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_of_a_joint_vocabulary_opens_in_the_library_itself(kind: str, tmp_path: Path) -> None:
    both = train_tokenizers(ENGLISH, FRENCH, DataConfig(tokenizer=kind))  # type: ignore[arg-type]
    (tmp_path / "tokenizer.json").write_text(both.to_json(), encoding="utf-8")
    plain = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ENGLISH + FRENCH:
        assert plain.encode(text).ids == both.source.encode(text)
        assert plain.decode([BOS, *plain.encode(text).ids, EOS]) == text


def test_a_joint_vocabulary_knows_both_sides_and_a_separate_one_its_own() -> None:
    joint = train_tokenizers(ENGLISH, FRENCH, DataConfig(tokenizer="word"))
    apart = train_tokenizers(ENGLISH, FRENCH, DataConfig(tokenizer="word", joint=False))
    assert joint.source.unknown_words("man maison") == []
    assert apart.source.unknown_words("man maison") == ["maison"]
    assert apart.target.unknown_words("man maison") == ["man"]


def test_the_sides_of_a_file_are_found_by_name_and_not_by_order() -> None:
    apart = train_tokenizers(ENGLISH, FRENCH, DataConfig(tokenizer="word", joint=False))
    swapped = {"target": json.loads(apart.target.to_json()), "source": json.loads(apart.source.to_json())}
    assert content(Tokenizers.from_json(json.dumps(swapped), SpecialTokens(), origin="x.json")) == content(apart)


@pytest.mark.parametrize("damaged", ["", "{", "\ufeff{}", "[" * 100_000, "nonsense"])
def test_a_file_that_is_not_json_is_damaged(damaged: str) -> None:
    with pytest.raises(ModelError, match=r"^x\.json is damaged: it isn't JSON") as caught:
        Tokenizers.from_json(damaged, SpecialTokens(), origin="x.json")
    assert caught.value.name == "x.json" and caught.value.fix


@pytest.mark.parametrize("other", ["{}", "[]", "7", "null", '{"version": "1.0"}', '{"model": {"type": "BPE"}}'])
def test_json_that_is_no_tokenizer_is_refused(other: str) -> None:
    with pytest.raises(ModelError, match=r"^x\.json is damaged, or isn't a tokenizer file \(.*\)"):
        Tokenizers.from_json(other, SpecialTokens(), origin="x.json")


def test_a_vocabulary_whose_unknown_token_is_missing_is_refused() -> None:
    saved = json.loads(trained("word").to_json())
    saved["model"]["unk_token"] = "<unknown>"
    with pytest.raises(ModelError, match=r"^x\.json is damaged.* \(.*Missing \[UNK\]"):
        tokenizer_from_json(json.dumps(saved), SpecialTokens(), origin="x.json")


def test_a_damaged_side_is_named() -> None:
    sides = f'{{"source": {trained("bpe").to_json()}, "target": {{}}}}'
    with pytest.raises(ModelError, match="is damaged") as caught:
        Tokenizers.from_json(sides, SpecialTokens(), origin="x.json")
    assert caught.value.name == "x.json (target)"


def test_a_file_with_other_special_tokens_is_another_programs() -> None:
    own = trained("word")
    assert not tokenizer_from_json(own.to_json(), SpecialTokens(), origin="x.json").is_foreign
    other = tokenizer_from_json(own.to_json(), SpecialTokens(pad=own.vocab_size), origin="x.json")
    assert other.is_foreign and other.encode("The man is here") == own.encode("The man is here")
    assert other.pieces(range(own.vocab_size)) == own.vocabulary()
    assert other.decode(own.encode("The man is here")) == "The man is here"


@pytest.mark.parametrize("part", ["normalizer", "decoder", "vocabulary", "model"])
def test_a_tokenizer_that_lacks_a_part_is_refused(part: str) -> None:
    saved = json.loads(trained("word").to_json())
    if part == "vocabulary":
        saved["model"]["vocab"] = {token: i * 2 if i > 3 else i for token, i in saved["model"]["vocab"].items()}
    elif part == "model":
        saved["model"] |= {"type": "WordPiece", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9}
    else:
        saved[part] = None
    with pytest.raises(ModelError, match=r"^x\.json lacks a part of its pipeline or vocabulary"):
        tokenizer_from_json(json.dumps(saved), SpecialTokens(), origin="x.json")


@given(at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_file_with_any_one_byte_changed_loads_or_is_a_model_error(at: float, byte: int) -> None:
    whole = trained("bpe").to_json().encode()
    place = int(at * len(whole))
    changed = whole[:place] + bytes([byte]) + whole[place + 1 :]
    try:
        tokenizer = Tokenizers.from_json(changed.decode(errors="replace"), SpecialTokens(), origin="x.json").source
    except ModelError as error:
        assert error.name == "x.json"
        return
    assert isinstance(tokenizer.encode("the man"), list)
    assert len(tokenizer.vocabulary()) == tokenizer.vocab_size


# --- masks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word"])
@pytest.mark.parametrize("place", range(5))
def test_a_mask_stands_for_a_word_with_the_space_before_it(kind: str, place: int) -> None:
    tokenizer, words = trained(kind), ["The", " red", " house", " is", " big"]
    ids = [tokenizer.encode(word.strip()) for word in words]
    expected = [i for before in ids[:place] for i in before] + [UNK] + [i for after in ids[place + 1 :] for i in after]
    words[place] = "[MASK]" if place == 0 else " [MASK]"
    found, masks = tokenizer.encode_masked("".join(words))
    assert found == expected and masks == [sum(map(len, ids[:place]))]


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_a_mask_without_a_space_has_none(kind: str) -> None:
    tokenizer = trained(kind)
    whole = tokenizer.encode("I am here.")
    found, masks = tokenizer.encode_masked("I am [MASK].")
    assert found[-1] == whole[-1] and masks == [len(found) - 2]
    if kind == "character":
        assert found[:-2] == tokenizer.encode("I am x")[:-1]


def test_a_mask_of_characters_keeps_the_space_before_it() -> None:
    tokenizer = trained("character")
    ids, masks = tokenizer.encode_masked("a [MASK]an, a  [MASK]")
    assert tokenizer.decode([i for n, i in enumerate(ids) if n not in masks]) == "a an, a "


def test_an_unknown_word_is_no_mask() -> None:
    ids, masks = trained("word").encode_masked("zebra is [MASK]")
    assert ids[0] == ids[2] == UNK and masks == [2]


@pytest.mark.parametrize("kind", KINDS)
@given(text=awkward)
def test_a_text_without_masks_is_encoded_as_ever(kind: str, text: str) -> None:
    tokenizer = trained(kind)
    assert tokenizer.encode_masked(text) == (tokenizer.encode(text.replace("\ufdd0", "\ufffd")), [])


def test_a_lone_surrogate_next_to_a_mask_is_an_error() -> None:
    with pytest.raises(DataError):
        trained("bpe").encode_masked("[MASK] \ud800")
