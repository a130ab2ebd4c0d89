"""A package of Argos Translate gives the translations and scores of CTranslate2, as Argos Translate calls it."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.cli.entry import main
from clearhead.config import ModelConfig
from clearhead.decode.model_handle import as_handle
from clearhead.errors import DataError, ModelError
from clearhead.exchange.ct2 import ct2_files
from clearhead.exchange.import_model import import_model, read
from clearhead.model.transformer import build
from tests.builders import moved

from ..conftest import spm_model, unicode_lines

LINES, MOST = unicode_lines(200), 30
METADATA = {"package_version": "1.9", "argos_version": "1.9.0", "from_code": "en", "to_code": "fr"}
SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]
SHAPE: dict[str, Any] = {"d_model": 32, "n_heads": 4, "d_ff": 48, "max_len": 128, "pre_norm": True, "tie": "none"}
SHAPE |= {"n_encoder_layers": 2, "n_decoder_layers": 2, "projection_bias": True, "end": False}
SHAPE |= {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "mask_id": None}


def package(folder: Path, data: bytes, *vocabularies: list[str]) -> Path:
    """Write a package with a random model. Its model folder has vocabularies of both sides, or a shared one."""
    sizes = [len(vocabularies[side]) for side in (0, -1)]
    model = ModelConfig(src_vocab_size=sizes[0], tgt_vocab_size=sizes[1], **SHAPE)
    torch.manual_seed(0)
    net = moved(build(model))
    with torch.no_grad():
        net.decoder.projection.weight *= 4  # so that few tokens are nearly as likely
        net.decoder.projection.bias[3] += 17  # so that answers end
    files = ct2_files(model, as_handle(net, model).weights(), [vocabularies[side] for side in (0, -1)])
    (folder / "model").mkdir(parents=True)
    for name, content in files.items():
        (folder / "model" / name).write_bytes(content)
    (folder / "sentencepiece.model").write_bytes(data)
    (folder / "metadata.json").write_text(json.dumps(METADATA))
    (folder / "stanza").mkdir()
    (folder / "stanza" / "en.pt").write_bytes(b"a pickle")
    return folder


def zipped(folder: Path) -> Path:
    """Zip a package as Argos Translate does, with its folder."""
    path = folder.with_suffix(".argosmodel")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent))
    return path


@pytest.fixture(scope="module")
def spm() -> Any:
    return pytest.importorskip("sentencepiece", reason="needs the extra sentencepiece")


@pytest.fixture(scope="module")
def data(spm: Any) -> bytes:
    return spm_model(unicode_lines(400), vocab_size=2000)


@pytest.fixture(scope="module")
def pieces(spm: Any, data: bytes) -> list[str]:
    processor = spm.SentencePieceProcessor(model_proto=data)
    return [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]


@pytest.fixture
def folder(tmp_path: Path, data: bytes, pieces: list[str]) -> Path:
    return package(tmp_path / "en_fr", data, [*SPECIAL, *pieces])


@pytest.mark.parametrize(("beam", "shared"), [(1, True), (4, False)])
def test_200_lines_have_the_translations_and_scores_of_ctranslate2(
    spm: Any, data: bytes, pieces: list[str], tmp_path: Path, beam: int, shared: bool
) -> None:
    ct2 = pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    sides = [[*SPECIAL, *pieces]] if shared else [[*SPECIAL, *pieces], [*SPECIAL, *pieces[::-1], "☃"]]
    path = zipped(package(tmp_path / "translate-en_fr-1_9", data, *sides))
    processor = spm.SentencePieceProcessor(model_proto=data)
    translator = ct2.Translator(str(tmp_path / "translate-en_fr-1_9" / "model"), intra_threads=1)
    options = {"beam_size": beam, "length_penalty": 0.0, "min_decoding_length": 0, "max_decoding_length": MOST}
    tokens = [processor.encode(line, out_type=str) for line in LINES]
    expected = translator.translate_batch(tokens, return_scores=True, **options)
    app = clearhead.load(import_model(path, tmp_path / "model"))
    found = app.results(LINES, beam=beam, alpha=0.0, min_len=0, max_len=MOST, engine="torch")
    ids, spelled, ended = {token: i for i, token in enumerate(sides[-1])}, app.tokenizers.target.pieces, 0
    for ours, theirs in zip(found, expected):
        answer = theirs.hypotheses[0]
        ended += len(answer) < MOST
        if beam > 1 and len(answer) == MOST:
            continue  # beams that are cut off are ranked in another way
        assert list(ours.tokens) == spelled(ids[token] for token in answer)
        assert ours.text == "".join(answer).replace("<unk>", "").replace("▁", " ").removeprefix(" ")
        assert sum(ours.logprobs[: len(answer) + 1][:MOST]) == pytest.approx(theirs.scores[0], abs=1e-3)
    assert 50 < ended < 200


def test_an_unpacked_package_is_read_as_its_archive(folder: Path) -> None:
    one, other = read(folder), read(zipped(folder))
    assert (one.config, one.tokenizer, one.notes) == (other.config, other.tokenizer, [])
    assert one.weights.keys() == other.weights.keys()


def test_it_searches_as_argos_translate_does(folder: Path, tmp_path: Path) -> None:
    app = clearhead.load(import_model(folder, tmp_path / "model"))
    decode = app.config.decode
    assert (app.config.train.task, decode.beam, decode.alpha, decode.min_len) == ("translate", 4, 0.2, 1)
    assert app(LINES[0])


def test_the_command_names_the_archive_in_its_errors(folder: Path, tmp_path: Path, capsys: Any) -> None:
    (folder / "model" / "model.bin").write_bytes(b"\x06\0\0\0damaged")
    path = zipped(folder)
    assert main(["import", str(path), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert f"{path}/en_fr/model/model.bin is damaged" in said and "clearhead-unzipped" not in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "value"), [("type", "sbd"), ("target_prefix", "__fr__"), ("target_prefix", ["__fr__"])]
)
def test_packages_of_another_kind_are_rejected(folder: Path, name: str, value: Any) -> None:
    (folder / "metadata.json").write_text(json.dumps(METADATA | {name: value}))
    with pytest.raises(ModelError) as caught:
        read(folder)
    assert (caught.value.name, caught.value.value) == (name, value)


@pytest.mark.parametrize(
    ("missing", "other", "said"),
    [
        ("model/model.bin", None, "has no model/model.bin"),
        ("sentencepiece.model", None, "has no sentencepiece.model"),
        ("sentencepiece.model", "bpe.model", "has bpe.model, which isn't supported"),
    ],
)
def test_what_a_package_lacks_is_named(folder: Path, missing: str, other: str | None, said: str) -> None:
    (folder / missing).rename(folder / (other or "elsewhere"))
    with pytest.raises(ModelError) as caught:
        read(folder)
    assert caught.value.what == f"{folder} {said}" and caught.value.expected


def test_another_file_than_an_archive_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "en_fr.argosmodel"
    path.write_bytes(b"not an archive")
    with pytest.raises(DataError, match="isn't a complete zip archive"):
        read(path)
    with pytest.raises(ModelError, match="is a file") as caught:
        read(path.rename(tmp_path / "en_fr.bin"))
    assert ".argosmodel" in caught.value.expected
