"""Marian and BART compute the same here as in their own classes."""

import copy
import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tokenizers
import torch

import clearhead
from clearhead.config import Config, SpecialTokens
from clearhead.errors import ModelError
from clearhead.exchange.hf_tokenizers import read_tokenizer
from clearhead.exchange.huggingface import write
from clearhead.exchange.import_model import import_model, read
from clearhead.exchange.targets import export
from clearhead.tokenization.source_and_target import Tokenizers
from tests.builders import byte_level

from ..conftest import assert_equal_states, shaken, spm_model, unicode_lines

LINES = unicode_lines()
SHAPE = {"d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40}
SHAPE |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 64}


def marian_files(folder: Path) -> int:
    """Write vocab.json, source.spm and target.spm. Return the number of tokens."""
    from sentencepiece import SentencePieceProcessor

    names = dict.fromkeys(("</s>", "<unk>", ">>fra<<"))
    for file, size in (("source.spm", 4500), ("target.spm", 3500)):
        (folder / file).write_bytes(data := spm_model(LINES, vocab_size=size, character_coverage=1.0))
        processor = SentencePieceProcessor(model_proto=data)
        names |= dict.fromkeys(processor.id_to_piece(i) for i in range(3, processor.vocab_size()))
    numbers = {name: i for i, name in enumerate([*names, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(numbers))
    return len(numbers)


@pytest.fixture(scope="module")
def marian(hf, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder in the form of the hub's, our folder made from it, and their model and tokenizer."""
    pytest.importorskip("sentencepiece", reason="needs the extra sentencepiece")
    folder = tmp_path_factory.mktemp("marian")
    size = marian_files(folder)
    ids = {"pad_token_id": size - 1, "eos_token_id": 0, "bos_token_id": 0, "decoder_start_token_id": size - 1}
    config = hf.MarianConfig(
        vocab_size=size, scale_embedding=True, activation_function="swish", **SHAPE, **ids, forced_eos_token_id=None
    )
    torch.manual_seed(0)
    model = shaken(hf.MarianMTModel(config))
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_positions.weight.data = stack.embed_positions.create_weight()  # they aren't learned
    model.final_logits_bias.normal_()
    model.generation_config.bad_words_ids = [[size - 1]]
    model.generation_config.num_beams = 2
    model.save_pretrained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library recommends sacremoses
        files = (str(folder / name) for name in ("source.spm", "target.spm", "vocab.json"))
        tokenizer = hf.MarianTokenizer(*files)
    ours = import_model(folder, tmp_path_factory.mktemp("models") / "marian")
    return SimpleNamespace(folder=folder, ours=ours, model=model, tokenizer=tokenizer)


def test_marians_states_and_logits_are_equal(marian, opened, float64) -> None:
    _, ours = opened(marian.folder)
    theirs = copy.deepcopy(marian.model).double()
    for stack in (theirs.model.encoder, theirs.model.decoder):
        table = ours.encoder.positions.table
        torch.testing.assert_close(stack.embed_positions.weight, table, rtol=0, atol=1e-7)
        stack.embed_positions.weight.data = table  # theirs has only the precision of float32
    assert_equal_states(theirs, ours)


def test_marians_ids_are_equal_on_both_sides(marian) -> None:
    tokenizers = clearhead.load(marian.ours).tokenizers
    for line in [*LINES, ">>fra<< " + LINES[0]]:
        assert [*tokenizers.source.encode(line), 0] == marian.tokenizer(line)["input_ids"]
        assert [*tokenizers.target.encode(line), 0] == marian.tokenizer(text_target=line)["input_ids"]


def test_marian_can_have_a_vocabulary_for_each_side(hf, marian, tmp_path) -> None:
    first, second, *others, pad = json.loads((marian.folder / "vocab.json").read_text())
    names = [first, second, *reversed(others), pad]
    (tmp_path / "target_vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    for name in ("vocab.json", "source.spm", "target.spm"):
        (tmp_path / name).symlink_to(marian.folder / name)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": True}))
    theirs = hf.MarianTokenizer.from_pretrained(tmp_path)
    special = SpecialTokens(pad=len(names) - 1, bos=0, eos=0, unk=1, mask=None, start=0)
    ours = Tokenizers.from_json(read_tokenizer(tmp_path), special, origin="it")
    for line in LINES[:100]:
        assert [*ours.source.encode(line), 0] == theirs(line)["input_ids"]
        assert [*ours.target.encode(line), 0] == theirs(text_target=line)["input_ids"]


@pytest.mark.parametrize("beams", [1, 3])
def test_marians_translations_are_equal(marian, beams) -> None:
    app = clearhead.load(marian.ours)
    assert app.config.decode.suppress == ("<pad>",)
    assert app.config.decode.beam == 2
    for line in LINES[:4]:
        ids = marian.tokenizer(line, return_tensors="pt")
        beam = {"length_penalty": 0.0, "early_stopping": True} if beams > 1 else {}
        found = marian.model.generate(**ids, max_new_tokens=12, do_sample=False, num_beams=beams, **beam)
        result = app.results([line], beam=beams, alpha=0.0, max_len=12)[0]
        expected = [app.tokenizers.target.pieces([i])[0] for i in found[0].tolist()[1:] if i != 0]
        assert list(result.tokens) == expected
        decoded = marian.tokenizer.decode(found[0], skip_special_tokens=True)
        assert result.text == decoded


def test_marian_is_exported_as_it_was_imported(marian, hf, tmp_path) -> None:
    imported = read(marian.folder)
    write(imported.config, imported.weights, imported.tokenizer, tmp_path / "hf")
    back = read(tmp_path / "hf")
    assert back.config == imported.config
    assert back.weights.keys() == imported.weights.keys()
    assert all(back.weights[name].equal(it) for name, it in imported.weights.items())
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf")
    source, target = torch.tensor([[5, 6, 7, 0]]), torch.tensor([[8, 9]])
    with torch.no_grad():
        expected = marian.model(source, decoder_input_ids=target).logits
        assert theirs(source, decoder_input_ids=target).logits.equal(expected)
    tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer(LINES[1])["input_ids"] == marian.tokenizer(LINES[1])["input_ids"]
    targets = marian.tokenizer(text_target=LINES[1])["input_ids"]
    assert tokenizer.decode(targets, skip_special_tokens=True) == marian.tokenizer.decode(
        targets, skip_special_tokens=True
    )


@pytest.fixture(scope="module")
def bart(hf, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder in the form of the hub's, and their model and tokenizer."""
    folder = tmp_path_factory.mktemp("bart")
    tokenizer = roberta_like(LINES[:300])
    size = tokenizer.get_vocab_size()
    config = hf.BartConfig(vocab_size=size, scale_embedding=True, num_beams=2, **SHAPE)
    torch.manual_seed(0)
    model = shaken(hf.BartForConditionalGeneration(config))
    model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return SimpleNamespace(folder=folder, model=model, tokenizer=hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer))


def test_barts_states_and_logits_are_equal(bart, opened, float64) -> None:
    assert_equal_states(copy.deepcopy(bart.model).double(), opened(bart.folder)[1])


@pytest.mark.parametrize("beams", [1, 3])
def test_barts_ids_and_texts_are_equal(bart, tmp_path, beams) -> None:
    app = clearhead.load(import_model(bart.folder, tmp_path / "bart", task="summarize"))
    assert app.config.decode.no_repeat_ngram == 0  # which the folder doesn't ask for
    encode = app.tokenizers.source.encode
    assert [app.task.special.source(encode(line), begins=True) for line in LINES] == bart.tokenizer(LINES)["input_ids"]
    for line in LINES[:4]:
        ids = bart.tokenizer(line[:30], return_tensors="pt")
        beam = {"length_penalty": 0.0, "early_stopping": True} if beams > 1 else {}
        found = bart.model.generate(
            **ids, max_new_tokens=12, do_sample=False, forced_eos_token_id=None, num_beams=beams, **beam
        )
        settings = {"beam": beams, "alpha": 0.0, "max_len": 12, "no_repeat_ngram": 0}
        result = app.results([line[:30]], **settings)[0]
        expected = [i for i in found[0].tolist()[1:] if i != 2]
        assert list(result.tokens) == app.tokenizers.target.pieces(expected)


def test_bart_is_exported_as_it_was_imported(bart, hf, tmp_path) -> None:
    imported = read(bart.folder)
    write(imported.config, imported.weights, imported.tokenizer, tmp_path / "hf")
    back = read(tmp_path / "hf")
    assert back.config == imported.config
    assert back.weights.keys() == imported.weights.keys()
    assert all(back.weights[name].equal(it) for name, it in imported.weights.items())
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf")
    source, target = torch.tensor([[0, 5, 6, 7, 2]]), torch.tensor([[2, 0, 8, 9]])
    with torch.no_grad():
        expected = bart.model(source, decoder_input_ids=target).logits
        assert theirs(source, decoder_input_ids=target).logits.equal(expected)
    assert (
        hf.AutoTokenizer.from_pretrained(tmp_path / "hf")(LINES[1])["input_ids"]
        == bart.tokenizer(LINES[1])["input_ids"]
    )


def test_bart_can_have_older_tokenizer_files_and_no_head(bart, tmp_path) -> None:
    bart.model.model.save_pretrained(tmp_path)
    content = json.loads((bart.folder / "tokenizer.json").read_text())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(content["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in content["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    imported, expected = read(tmp_path), read(bart.folder)
    assert imported.config.model == expected.config.model
    assert not imported.weights["decoder.projection.bias"].any()
    app = clearhead.load(import_model(tmp_path, tmp_path / "ours"))
    framed = [[0, *app.tokenizers.source.encode(line), 2] for line in LINES]
    assert framed == bart.tokenizer(LINES)["input_ids"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("normalize_before", True), ("add_final_layer_norm", True), ("normalize_embedding", False)],
        *[("add_bias_logits", True), ("static_position_embeddings", True), ("tie_word_embeddings", False)],
        *[("decoder_ffn_dim", 41), ("decoder_attention_heads", 2), ("activation_function", "tanh")],
        *[("forced_bos_token_id", 0), ("force_bos_token_to_be_generated", True), ("bad_words_ids", [[1, 2]])],
    ],
)
def test_a_setting_of_bart_that_is_not_supported_is_named(bart, tmp_path, name, value) -> None:
    with pytest.raises(ModelError, match=f"{name}=.* isn't supported") as caught:
        read(rewritten(bart.folder, tmp_path, **{name: value}))
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "value"),
    [("static_position_embeddings", False), ("normalize_embedding", True), ("tie_word_embeddings", False)],
)
def test_a_setting_of_marian_that_is_not_supported_is_named(marian, tmp_path, name, value) -> None:
    with pytest.raises(ModelError, match=f"{name}=.* isn't supported"):
        read(rewritten(marian.folder, tmp_path, **{name: value}))


@pytest.mark.parametrize("tied", [True, False])
def test_marian_can_have_an_embedding_for_each_side(hf, marian, opened, tmp_path, tied) -> None:
    config = copy.deepcopy(marian.model.config)
    config.share_encoder_decoder_embeddings, config.tie_word_embeddings = False, tied
    torch.manual_seed(0)
    theirs = shaken(hf.MarianMTModel(config))
    for stack in (theirs.model.encoder, theirs.model.decoder):
        stack.embed_positions.weight.data = stack.embed_positions.create_weight()
    theirs.save_pretrained(tmp_path)
    for name in ("vocab.json", "source.spm", "target.spm"):
        (tmp_path / name).symlink_to(marian.folder / name)
    settings, ours = opened(tmp_path)
    assert settings.model.tie == ("target" if tied else "none")
    assert_equal_states(theirs, ours, 1e-4)


def rewritten(source: Path, folder: Path, **changes: Any) -> Path:
    """A copy of a folder with other settings, all in its config.json."""
    for path in source.iterdir():
        if path.name not in ("config.json", "generation_config.json"):
            (folder / path.name).symlink_to(path)
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def roberta_like(lines: list[str]) -> tokenizers.Tokenizer:
    """A byte-level BPE tokenizer that puts a text between <s> and </s>."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    found = byte_level(lines, special=special)
    found.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return found


def test_marian_can_be_trained_further_and_exported(hf, marian, tmp_path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{one}\t{other}\n" for one, other in zip(LINES[:30], LINES[30:60])))
    settings = {"train.steps": 2, "train.warmup": 1, "train.init_from": str(marian.ours), "train.threads": 1}
    settings |= {"train.task": "translate", "train.precision": "fp32", "data.train": [str(pairs)]}
    clearhead.train(Config().override(settings), tmp_path / "tuned")
    app = clearhead.load(tmp_path / "tuned")
    assert app.config.model.tie == "all" and not app.tokenizers.joint
    export(app.loaded, "huggingface", tmp_path / "hf")
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf").eval()
    source, target = torch.tensor([[5, 6, 7, 0]]), torch.tensor([[8, 9]])
    with torch.no_grad():
        found = theirs(source, decoder_input_ids=target).logits
        torch.testing.assert_close(found, app.model(source, target), rtol=0, atol=1e-4)
