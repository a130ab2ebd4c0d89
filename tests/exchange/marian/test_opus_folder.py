"""A download of OPUS-MT gives the translations and scores of CTranslate2, whose own converter reads it."""

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import clearhead
from clearhead.config import ModelConfig
from clearhead.errors import ModelError
from clearhead.exchange.import_model import import_model, read
from clearhead.model.transformer import build
from clearhead.tokenization.source_and_target import Tokenizers
from tests.builders import moved

from ..conftest import spm_model, unicode_lines

LINES, MOST = unicode_lines(200), 30
OPTIONS: dict[str, Any] = {"type": "transformer", "dim-emb": 32, "enc-depth": 2, "dec-depth": 3}
OPTIONS |= {"transformer-heads": 4, "transformer-dim-ffn": 48, "transformer-ffn-activation": "swish"}
OPTIONS |= {"transformer-decoder-autoreg": "self-attention", "transformer-no-projection": "false"}
OPTIONS |= {"transformer-preprocess": '""', "transformer-postprocess": "dan", "transformer-postprocess-emb": "d"}
OPTIONS |= {"transformer-guided-alignment-layer": "last", "input-types": "\n  []", "version": "v1.7 2018-12-12 18:51"}
MODEL = "opus.spm32k-spm32k.transformer-align.model1.npz.best-perplexity.npz"


def options_text(**changes: Any) -> str:
    named = OPTIONS | {name.replace("_", "-"): it for name, it in changes.items()}
    return "".join(f"{name}: {it}\n" for name, it in named.items())


def arrays_of(weights: dict[str, torch.Tensor], tie: str) -> dict[str, NDArray[Any]]:
    """The weights of a model of ours as Marian names and stores them."""
    ours = {name: it.numpy() for name, it in weights.items()}
    found: dict[str, NDArray[Any]] = {}

    def linear(name: str, suffixes: str, theirs: str) -> None:
        parts = zip(*(np.split(ours[f"{name}.{part}"], len(suffixes)) for part in ("weight", "bias")))
        for suffix, (weight, bias) in zip(suffixes, parts):
            found.update({f"{theirs}_W{suffix}": weight.T, f"{theirs}_b{suffix}": bias[None]})

    def norm(name: str, theirs: str) -> None:
        found[f"{theirs}_ln_scale"] = ours[f"{name}.norm.weight"][None]
        found[f"{theirs}_ln_bias"] = ours[f"{name}.norm.bias"][None]

    for stack, depth in (("encoder", 2), ("decoder", 3)):
        for i in range(depth):
            block, theirs = f"{stack}.blocks.{i}", f"{stack}_l{i + 1}"
            linear(f"{block}.attention.qkv", "qkv", f"{theirs}_self")
            linear(f"{block}.attention.out", "o", f"{theirs}_self")
            norm(f"{block}.add_norm_1", f"{theirs}_self_Wo")
            if stack == "decoder":
                linear(f"{block}.cross_attention.q", "q", f"{theirs}_context")
                linear(f"{block}.cross_attention.kv", "kv", f"{theirs}_context")
                linear(f"{block}.cross_attention.out", "o", f"{theirs}_context")
                norm(f"{block}.add_norm_2", f"{theirs}_context_Wo")
            linear(f"{block}.feed_forward.inner", "1", f"{theirs}_ffn")
            linear(f"{block}.feed_forward.outer", "2", f"{theirs}_ffn")
            norm(f"{block}.add_norm_{3 if stack == 'decoder' else 2}", f"{theirs}_ffn_ffn")
    found["decoder_ff_logit_out_b"] = ours["decoder.projection.bias"][None]
    if tie == "all":
        return found | {"Wemb": ours["encoder.embedding.weight"]}
    found |= {f"{stack}_Wemb": ours[f"{stack}.embedding.weight"] for stack in ("encoder", "decoder")}
    return found | ({"decoder_ff_logit_out_W": ours["decoder.projection.weight"].T} if tie == "none" else {})


def quoted(token: str) -> str:
    return '"' + token.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_npz(path: Path, arrays: dict[str, NDArray[Any]], text: str) -> None:
    np.savez(path, **arrays, **{"special:model.yml": np.frombuffer(text.encode() + b"\0", np.int8)})


def download(folder: Path, data: bytes, pieces: list[str], tie: str = "all", **options: Any) -> Path:
    """Write a folder as OPUS-MT's archives have it, with a random model."""
    tokens = ["</s>", "<unk>", *pieces, ">>fra<<"]
    sizes = {"src_vocab_size": len(tokens), "tgt_vocab_size": len(tokens), "pad_id": len(tokens), "mask_id": None}
    shape: dict[str, Any] = {"d_model": 32, "n_heads": 4, "d_ff": 48, "n_encoder_layers": 2, "n_decoder_layers": 3}
    torch.manual_seed(0)
    net = moved(build(ModelConfig(**sizes, **shape, tie=tie, projection_bias=True)))
    with torch.no_grad():
        net.decoder.projection.weight *= 2  # so that few tokens are nearly as likely
        net.decoder.projection.bias[0] += {"all": 12.5, "target": 8.5, "none": 9.5}[tie]  # so that answers end
    folder.mkdir()
    write_npz(folder / MODEL, arrays_of(net.state_dict(), tie), options_text(**options))
    (folder / "opus.vocab.yml").write_text("".join(f"{quoted(it)}: {i}\n" for i, it in enumerate(tokens)))
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(data)
    rows = ["relative-paths: true", "models:", f"  - {MODEL}", "vocabs:", *["  - opus.vocab.yml"] * 2, "beam-size: 6"]
    (folder / "decoder.yml").write_text("\n".join([*rows, "normalize: 1", "word-penalty: 0", ""]))
    (folder / "preprocess.sh").write_text("#!/bin/sh\n")
    return folder


@pytest.fixture(scope="module")
def spm() -> Any:
    """A SentencePiece model, its pieces and its processor."""
    library = pytest.importorskip("sentencepiece", reason="needs the extra sentencepiece")
    data = spm_model(unicode_lines(400), vocab_size=2000)
    processor = library.SentencePieceProcessor(model_proto=data)
    pieces = [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]
    return SimpleNamespace(data=data, pieces=pieces, processor=processor)


@pytest.mark.parametrize(("beam", "tie"), [(1, "all"), (4, "target"), (1, "none")])
def test_200_lines_have_the_translations_and_scores_of_ctranslate2(
    spm: Any, tmp_path: Path, beam: int, tie: str
) -> None:
    ct2 = pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    folder = download(tmp_path / "opus", spm.data, spm.pieces, tie)
    ct2.converters.OpusMTConverter(str(folder)).convert(str(tmp_path / "ct2"))
    translator = ct2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    options = {"beam_size": beam, "length_penalty": 0.0, "min_decoding_length": 0, "max_decoding_length": MOST}
    tokens = [spm.processor.encode(line, out_type=str) for line in LINES]
    expected = translator.translate_batch(tokens, return_scores=True, **options)
    app = clearhead.load(import_model(folder, tmp_path / "model"))
    assert app.config.model.tie == tie
    found = app.results(LINES, beam=beam, alpha=0.0, max_len=MOST, engine="torch")
    ids = {token: i for i, token in enumerate(["</s>", "<unk>", *spm.pieces, ">>fra<<"])}
    ended = 0
    for ours, theirs in zip(found, expected):
        answer = theirs.hypotheses[0]
        ended += len(answer) < MOST
        if beam > 1 and len(answer) == MOST:
            continue  # beams that are cut off are ranked in another way
        assert list(ours.tokens) == app.tokenizers.target.pieces(ids[token] for token in answer)
        assert ours.text == spm.processor.decode([it for it in answer if it != "<unk>"])
        assert sum(ours.logprobs[: len(answer) + 1][:MOST]) == pytest.approx(theirs.scores[0], rel=1e-4, abs=1e-3)
    assert len({*map(len, (it.tokens for it in found))}) > 3, ended
    assert 30 < ended < 200


@pytest.fixture
def folder(spm: Any, tmp_path: Path) -> Path:
    return download(tmp_path / "opus", spm.data, spm.pieces)


def error_of(folder: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read(folder)
    assert caught.value.name and caught.value.expected and str(folder) in caught.value.what
    return caught.value


def edit(folder: Path, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))


def edit_arrays(folder: Path, **changes: NDArray[Any] | None) -> None:
    """Change arrays, or remove those that become None."""
    with np.load(folder / MODEL) as file:
        arrays = {name: file[name] for name in file.files} | changes
    np.savez(folder / MODEL, **{name: it for name, it in arrays.items() if it is not None})


def test_the_archive_is_read_as_its_folder(folder: Path) -> None:
    path = folder.with_name("opus-2020-02-26.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, file.name)
    one, other = read(folder), read(path)
    assert (one.config, one.tokenizer, one.notes) == (other.config, other.tokenizer, other.notes)
    assert all(other.weights[name].equal(it) for name, it in one.weights.items())


def test_it_searches_as_the_folder_says_and_never_answers_with_the_decoders_first_input(folder: Path) -> None:
    imported = read(folder)
    model, decode = imported.config.model, imported.config.decode
    assert (decode.beam, decode.alpha, decode.max_len, decode.suppress) == (6, 1.0, 511, ("<pad>",))
    assert (model.eos_id, model.unk_id, model.pad_id, model.start_id) == (0, 1, *[model.tgt_vocab_size - 1] * 2)
    assert (imported.title, imported.config.train.task, model.feed_forward) == ("Marian", "translate", "silu")
    assert not imported.weights["encoder.embedding.weight"][-1].any()
    assert len(imported.notes) == 1 and "--beam 1" in imported.notes[0]


def test_scores_are_divided_by_the_length_as_the_folder_says(folder: Path) -> None:
    edit(folder, "decoder.yml", "normalize: 1\nword-penalty: 0", "normalize: 0.6 # of the length\nword-penalty: 0.5")
    imported = read(folder)
    assert imported.config.decode.alpha == 0.6 and "word-penalty=0.5" in imported.notes[-1]
    edit(folder, "decoder.yml", "normalize: 0.6 # of the length\nword-penalty: 0.5", "")
    imported = read(folder)
    assert imported.config.decode.alpha == 0 and len(imported.notes) == 1


@pytest.mark.parametrize("name", ["normalize", "word-penalty"])
def test_a_penalty_that_is_not_a_number_is_named(folder: Path, name: str) -> None:
    edit(folder, "decoder.yml", f"{name}: ", f"{name}: much")
    error = error_of(folder)
    assert (error.name, str(error.value)[:4]) == (name, "much")


def test_the_second_of_several_models_is_reported(folder: Path) -> None:
    edit(folder, "decoder.yml", "vocabs:", "  - model2.npz\nvocabs:")
    assert read(folder).notes[-1] == "model2.npz, which decoder.yml lists too, isn't read"


def test_each_side_can_have_a_vocabulary_in_any_form(spm: Any, folder: Path) -> None:
    tokens = ["</s>", "<unk>", ">>fra<<", *spm.pieces[::-1]]
    (folder / "opus.trg.vocab").write_text("".join(f"{it}\n" for it in tokens))
    edit(folder, "decoder.yml", "opus.vocab.yml\nbeam", "opus.trg.vocab\nbeam")
    found = read(folder)
    sides = Tokenizers.for_model(found.tokenizer, found.config.model, origin="it")
    pieces = spm.processor.encode(LINES[0], out_type=str)
    source = ["</s>", "<unk>", *spm.pieces]
    assert sides.source.encode(LINES[0]) == [source.index(it) if it in source else 1 for it in pieces]
    assert sides.target.encode(LINES[0]) == [tokens.index(it) if it in tokens else 1 for it in pieces]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("type", "amun"), ("transformer-decoder-autoreg", "rnn"), ("transformer-no-projection", "true")],
        *[("transformer-preprocess", "n"), ("transformer-postprocess", "da"), ("transformer-postprocess-emb", "nd")],
        *[("transformer-ffn-activation", "gelu"), ("transformer-train-position-embeddings", "true")],
        *[("transformer-tied-layers", "\n  - 1\n  - 1"), ("enc-depth", "0"), ("dim-emb", "wide")],
    ],
)
def test_an_option_that_is_not_supported_is_named(spm: Any, tmp_path: Path, name: str, value: str) -> None:
    error = error_of(download(tmp_path / "opus", spm.data, spm.pieces, **{name: value}))
    assert error.name == name and MODEL in error.what


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoder_l2_ffn_W1": None}, "has no encoder_l2_ffn_W1"),
        ({"encoder_l3_ffn_W1": np.zeros((2, 2), np.float32)}, "has encoder_l3_ffn_W1, which isn't supported"),
        ({"special:model.yml": None}, "isn't a model of Marian"),
        ({"Wemb": np.zeros((2, 2), np.int8)}, "Wemb has the type int8"),
        ({"Wemb": np.zeros((2, 2, 2), np.float32)}, "Wemb has the type float32 and the shape (2, 2, 2)"),
        ({"Wemb": np.zeros((9, 32), np.float32)}, "tokens, but opus.spm32k-spm32k"),
    ],
)
def test_weights_that_do_not_fit_are_named(folder: Path, changes: dict[str, Any], said: str) -> None:
    edit_arrays(folder, **changes)
    assert said in error_of(folder).what


def test_weights_of_another_shape_are_found_before_a_folder_is_written(folder: Path, tmp_path: Path) -> None:
    edit_arrays(folder, encoder_l1_ffn_b1=np.zeros((1, 47), np.float32))
    with pytest.raises(ModelError, match="has shape"):
        import_model(folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_file_that_is_not_an_npz_or_unpacks_to_far_more_is_rejected(folder: Path) -> None:
    whole = (folder / MODEL).read_bytes()
    for damaged in (b"", b"pickle", whole[:999], whole[: len(whole) // 2] + whole[len(whole) // 2 + 9 :]):
        (folder / MODEL).write_bytes(damaged)
        assert "isn't a model of Marian" in error_of(folder).what
    with (folder / MODEL).open("wb") as file:
        np.savez_compressed(file, Wemb=np.zeros((10_000, 100), np.float32))
    assert "unpack to 4,0" in error_of(folder).what


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("decoder.yml", f"  - {MODEL}", f"  - ../{MODEL}", "decoder.yml has models="),
        ("decoder.yml", "vocabs:", "other:", "decoder.yml has vocabs=[]"),
        ("decoder.yml", "beam-size: 6", "beam-size: auto", "decoder.yml has beam-size='auto'"),
        ("opus.vocab.yml", '"</s>": 0', '"<s>": 0', "opus.vocab.yml has no </s>"),
        ("opus.vocab.yml", '"</s>": 0', '"</s>": 7', "opus.vocab.yml doesn't number its"),
        ("opus.vocab.yml", '"</s>": 0', '"</s>": zero', "opus.vocab.yml is damaged in line 1"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(folder: Path, file: str, old: str, new: str, said: str) -> None:
    edit(folder, file, old, new)
    assert said in error_of(folder).what


def test_special_tokens_have_the_same_ids_on_both_sides(spm: Any, folder: Path) -> None:
    (folder / "trg.vocab").write_text("".join(f"{it}\n" for it in ["<unk>", "</s>", ">>fra<<", *spm.pieces]))
    edit(folder, "decoder.yml", "opus.vocab.yml\nbeam", "trg.vocab\nbeam")
    assert "differ in their special tokens" in error_of(folder).what


@pytest.mark.parametrize("missing", ["decoder.yml", "source.spm", "target.spm", "opus.vocab.yml"])
def test_a_missing_file_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ModelError) as caught:
        read(folder)
    assert caught.value.name == missing
