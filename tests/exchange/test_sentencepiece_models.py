"""A converted SentencePiece model gives the ids and texts of the SentencePiece library."""

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from clearhead.config import SpecialTokens
from clearhead.errors import ConfigError, ModelError
from clearhead.exchange.sentencepiece_models import UNSEEN, convert
from clearhead.tokenization.source_and_target import tokenizer_from_json

from .conftest import spm_model, unicode_lines

LINES = unicode_lines()
MODELS: list[dict[str, Any]] = [
    {},
    {"byte_fallback": True},
    {"model_type": "bpe"},
    {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"},
    {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc_cf", "add_dummy_prefix": False},
    {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "user_defined_symbols": ["«a»", "«»"]},
    {"model_type": "bpe", "split_digits": True, "user_defined_symbols": ["«a»"]},
]
MORE = ["", " ", "▁", " ▁ a  b ▁", "a «a» b«»c", "ﬁne ½ ①² ｶﾅ", "\u00a0a\u3000b\u2009c\td\n", "e\u0301\u0302 Ǆ\u0301"]


@pytest.fixture(scope="module")
def spm() -> Any:
    return pytest.importorskip("sentencepiece", reason="needs the extra sentencepiece")


def written(folder: Path, data: bytes) -> Path:
    path = folder / "spiece.model"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_ids_and_texts_are_equal(spm, tmp_path, settings) -> None:
    data = spm_model(LINES[:600], **settings)
    theirs = spm.SentencePieceProcessor(model_proto=data)
    ours = tokenizers.Tokenizer.from_str(convert(written(tmp_path, data)))
    lines = [*LINES, *MORE, *(unicodedata.normalize("NFD", line) for line in ("Việt Nam", "한국어", "Ångström"))]
    found = [it.ids for it in ours.encode_batch(lines, add_special_tokens=False)]
    assert found == theirs.encode(lines)
    known = [ids for ids in found if theirs.unk_id() not in ids]
    assert len(known) > (900 if settings.get("byte_fallback") else 200)
    assert ours.decode_batch(known) == theirs.decode(known)


def test_tokens_can_be_numbered_by_another_file(spm, tmp_path) -> None:
    data = spm_model(LINES[:600])
    theirs = spm.SentencePieceProcessor(model_proto=data)
    pieces = [theirs.id_to_piece(i) for i in range(3, theirs.vocab_size())]
    names = ["</s>", "<unk>", *reversed(pieces), "▁another", "☃", ">>fra<<", "<pad>"]
    ours = tokenizers.Tokenizer.from_str(convert(written(tmp_path, data), {name: i for i, name in enumerate(names)}))
    numbers = {name: i for i, name in enumerate(names)}
    for line in LINES[:200]:
        assert ours.encode(line).ids == [numbers.get(it, 1) for it in theirs.encode(line, out_type=str)]
    assert ours.encode(">>fra<< another").ids[0] == numbers[">>fra<<"]
    assert numbers["▁another"] not in ours.encode("another").ids  # this model doesn't have it
    assert ours.encode("a☃").ids[-1] == numbers["☃"]  # unknown to the model, but numbered
    assert ours.decode([numbers["▁another"]]) == "another"
    assert ours.id_to_token(numbers["▁another"]) == UNSEEN + "▁another"


def test_control_symbols_are_special_tokens(spm, tmp_path) -> None:
    content = json.loads(convert(written(tmp_path, spm_model(LINES[:600]))))
    assert [it["content"] for it in content["added_tokens"] if it["special"]] == ["<unk>", "<s>", "</s>"]


def test_without_the_library_the_error_says_how_to_install_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ConfigError) as caught:
        convert(written(tmp_path, b""))
    assert caught.value.name == "sentencepiece"
    assert caught.value.fix == "install it: pip install sentencepiece protobuf"


def test_a_damaged_file_is_rejected(spm, tmp_path) -> None:
    with pytest.raises(ModelError, match="isn't a SentencePiece model"):
        convert(written(tmp_path, b"not a model"))


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"model_type": "char"}, "model_type"), ({"treat_whitespace_as_suffix": True}, "treat_whitespace_as_suffix")],
)
def test_a_model_that_cannot_be_expressed_is_rejected(spm, tmp_path, settings, name) -> None:
    with pytest.raises(ModelError) as caught:
        convert(written(tmp_path, spm_model(LINES[:600], **settings)))
    assert caught.value.name == name


@pytest.mark.parametrize("options", [{}, {"normalization_rule_name": "nmt_nfkc_cf"}, {"model_type": "bpe"}], ids=str)
def test_the_code_of_a_language_is_read_at_the_start_of_a_text_only(hf, tmp_path, options) -> None:
    import sentencepiece

    model = spm_model(unicode_lines(200), **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    codes = [">>fra<<", ">>cmn_Hans<<", ">>zh-x<<"]
    vocab = {name: i for i, name in enumerate(["</s>", "<unk>", *pieces, *codes, "<pad>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    for name in ("source.spm", "target.spm"):
        (tmp_path / name).write_bytes(model)
    theirs = hf.MarianTokenizer.from_pretrained(tmp_path)
    special = SpecialTokens(pad=len(vocab) - 1, bos=0, eos=0, unk=1, mask=None, start=0)
    ours = tokenizer_from_json(convert(tmp_path / "source.spm", vocab), special, origin="x.json")
    texts = [
        ">>fra<< the cat",
        "the >>fra<< cat",
        " >>fra<< cat",
        ">>xyz<< the cat",
        ">>fra<<the",
        ">>fra<<",
        ">>x<<",
        "",
    ]
    texts += [">>fra<< >>fra<< a", ">>fra<<\nx", ">>a\nb<< c", ">>>fra<< x", ">>cmn_Hans<<  X", ">>zh-x<<  "]
    texts += [code + line for code in (*codes, ">>q<< ") for line in unicode_lines(50, 3)]
    assert ours.encode_batch(texts) == [theirs(text)["input_ids"][:-1] for text in texts]
    assert ours.pieces([vocab[">>fra<<"]]) == [ours.decode([vocab[">>fra<<"]])] == [">>fra<<"]
    assert ours.normalize(">>fra<< a b") == ">>fra<< a b"
