import shutil
from pathlib import Path

import pytest
import tokenizers

from clearhead.api import load
from clearhead.errors import ConfigError, ModelError, TrainingError
from clearhead.exchange.targets import TARGETS, export
from clearhead.folder.model_folder import load_model_folder, model_files, save_files
from tests.builders import make_encoder_folder


@pytest.mark.parametrize(("target", "precision", "name"), [
    ("onxx", "fp32", "to"), ("onnx", "fp16", "precision"), ("ct2", "fp64", "precision"),
])  # fmt: skip
def test_formats_and_precisions_are_checked(model_folder: Path, tmp_path: Path, target, precision, name) -> None:
    with pytest.raises(ConfigError) as caught:
        export(load(model_folder, device="cpu").loaded, target, tmp_path / "out", precision=precision)
    assert caught.value.name == name and caught.value.expected
    assert ("onnx" in caught.value.fix) == (name == "to")


def test_a_file_or_a_folder_with_files_isn_t_written_to(model_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for out in (file, tmp_path):
        with pytest.raises(TrainingError) as caught:
            export(load(model_folder, device="cpu").loaded, "onnx", out)
        assert (caught.value.name, caught.value.value) == ("out", out)
    assert file.read_text() == "mine" and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("target", TARGETS)
def test_weights_that_no_model_computes_with_are_named_and_nothing_is_written(
    model_folder: Path, tmp_path: Path, target: str
) -> None:
    pytest.importorskip({"onnx": "onnxscript", "ct2": "ctranslate2"}.get(target, "torch"))
    folder, name = shutil.copytree(model_folder, tmp_path / "model"), "decoder.blocks.0.attention.out.bias"
    weights = load_model_folder(folder).weights
    for value in (weights[name].int(), weights[name] / 0):
        save_files(folder, model_files(weights={**weights, name: value}))
        with pytest.raises(ModelError) as caught:
            export(load(folder, device="cpu").loaded, target, tmp_path / "out")
        assert caught.value.name == name and not (tmp_path / "out").exists()


def test_ctranslate2_runs_an_exported_model_on_the_tokens_of_its_tokenizer_files(
    model_folder: Path, word_model_folder: Path, tmp_path: Path
) -> None:
    ct2 = pytest.importorskip("ctranslate2", reason="needs the extra ct2")
    texts = ["I am hungry.", "Where is the station?"]
    for place, folder in enumerate((model_folder, word_model_folder)):
        app, out = load(folder, device="cpu"), tmp_path / str(place)
        export(app.loaded, "ct2", out)
        source, *target = [tokenizers.Tokenizer.from_file(str(it)) for it in sorted(out.glob("*tokenizer.json"))][::-1]
        target = (target or [source])[0]
        suppress = [[target.id_to_token(i)] for i in app.tokenizers.target.suppressed(app.config.decode)]
        translator = ct2.Translator(str(out), compute_type="float32", intra_threads=1)
        asked = [source.encode(text, add_special_tokens=False).tokens for text in texts]
        found = translator.translate_batch(asked, beam_size=1, max_decoding_length=9, suppress_sequences=suppress)
        expected = [list(it.tokens) for it in app.results(texts, beam=1, max_len=9, max_extra=50)]
        own = app.tokenizers.target
        assert [own.pieces([target.token_to_id(it) for it in one.hypotheses[0]]) for one in found] == expected


def test_a_model_that_ctranslate2_can_t_express_is_rejected_and_nothing_is_written(tmp_path: Path) -> None:
    folder = make_encoder_folder(tmp_path / "encoder", task="fill")
    with pytest.raises(ConfigError, match=r"model\.topology='encoder-only'"):
        export(load(folder, device="cpu").loaded, "ct2", tmp_path / "out")
    assert not (tmp_path / "out").exists()
