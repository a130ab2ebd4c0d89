import io
import json
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.api import load
from clearhead.cli import main
from clearhead.config import Config
from clearhead.errors import ConfigError
from clearhead.exchange.onnx.onnx_folder import WEIGHTS, export
from clearhead.folder.model_folder import model_files, save_files
from clearhead.model.transformer import build
from clearhead.tokenization.source_and_target import train_tokenizers
from tests.builders import ENGLISH, FRENCH
from tests.serving.small_models import make

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")


EXAMPLES = Path(__file__).parents[3] / "clearhead" / "examples"
TEXTS = "I am hungry.\nYou are late. </s>\n\nThey sing and sleep well: été, 3 €, 漢字.\n"


@pytest.fixture(scope="module")
def folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that the command line has exported, which takes ten seconds."""
    out, said = tmp_path_factory.mktemp("onnx") / "fp32", io.StringIO()
    with redirect_stderr(said):
        assert main(["export", str(model_folder), "--to", "onnx", "--out", str(out)]) == 0
    assert "wrote" in said.getvalue() and len(said.getvalue().splitlines()) == 1
    return out


def test_what_is_exported_translates_without_torch_as_translate_does(folder: Path, model_folder: Path, capsys) -> None:
    names = {"decoder.onnx", "encoder.onnx", "model.json", "tokenizer.json", "weights.bin"}
    assert {it.name for it in folder.iterdir()} == names
    example = [sys.executable, str(EXAMPLES / "translate_onnx.py"), str(folder)]
    found = subprocess.run(example, input=TEXTS.encode(), capture_output=True, check=True).stdout.decode()
    for text in TEXTS.splitlines():
        assert main(["translate", str(model_folder), "--decode.beam=1", text]) == 0
    assert found == capsys.readouterr().out


def first_logits(folder: Path, source: list[int]) -> np.ndarray:
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder"))
    memory = encoder.run(None, {"source": np.array([source])})
    feed = dict(zip((it.name for it in encoder.get_outputs()), memory))
    feed |= {"tokens": np.array([[about["special_ids"]["start"]]])}
    feed |= {it: np.zeros((1, 2, 0, 8), np.float32) for it in ("past_keys.0", "past_values.0")}
    return decoder.run(["logits"], feed)[0][0, 0]


@pytest.mark.slow
def test_matrices_of_8_bits_change_logits_little_and_need_less_room(
    folder: Path, model_folder: Path, tmp_path: Path
) -> None:
    folders = {"fp32": folder, "int8": tmp_path / "int8"}
    export(load(model_folder, device="cpu").loaded, folders["int8"], precision="int8")
    source = [5, 80, 200, 31, 2]
    exact, rounded = (first_logits(folders[it], source) for it in ("fp32", "int8"))
    deviation = np.abs(rounded - exact).max() / exact.std()
    assert 1e-4 < deviation < 0.2
    sizes = {name: (folder / WEIGHTS).stat().st_size for name, folder in folders.items()}
    assert sizes["int8"] < sizes["fp32"] / 2


def test_the_models_share_a_file_in_which_tied_weights_are_stored_once(folder: Path, model_folder: Path) -> None:
    numbers = sum(it.numel() for it in load(model_folder, device="cpu").model.parameters())
    table = 40 * 16  # of positions, which isn't a parameter
    assert (folder / WEIGHTS).stat().st_size < 4 * (numbers + table) + 64 * 20
    for name in ("encoder", "decoder"):
        model = onnx.load(folder / f"{name}.onnx", load_external_data=False)
        places = [{it.key: it.value for it in tensor.external_data} for tensor in model.graph.initializer]
        assert {it["location"] for it in places if it} == {WEIGHTS}
        assert not any(part.metadata_props or part.doc_string for part in model.graph.node)


def test_the_description_names_tensors_tokens_and_limits(folder: Path) -> None:
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert (about["task"], about["topology"], about["precision"]) == ("translate", "encoder-decoder", "fp32")
    assert (about["max_len"], about["positions"], about["begins_with_bos"]) == (40, "sinusoidal", False)
    assert about["special_ids"] == {"pad": 0, "bos": 1, "eos": 2, "unk": 3, "mask": 3, "start": 1, "ends": True} | {
        "more_eos": []
    }
    assert about["decode"] == {"suppress": [0, 1, 3], "max_extra": 4}
    assert about["tokenizers"] == {"source": "tokenizer.json", "target": "tokenizer.json"}
    for name, graph in about["graphs"].items():
        session = onnxruntime.InferenceSession(folder / graph["file"])
        for ports, found in ((graph["inputs"], session.get_inputs()), (graph["outputs"], session.get_outputs())):
            assert [(it["name"], it["shape"]) for it in ports] == [(it.name, it.shape) for it in found], name


def labelled(tmp_path: Path, kind: str) -> tuple[Any, dict[str, Any], np.ndarray]:
    """A classifier, the description of its export, and the logits of a text by onnxruntime."""
    app = load(make(tmp_path / "model", kind), device="cpu")
    export(app.loaded, tmp_path / "onnx", precision="fp32")
    about = json.loads((tmp_path / "onnx" / "model.json").read_text(encoding="utf-8"))
    tokens = app.task.reader.joined(app.task.reader.encode(["She sings."])[0])
    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "encoder.onnx")
    [logits] = session.run(None, {"source": np.array([tokens[0]])})
    return app, about, logits


@pytest.mark.slow
def test_several_labels_have_probabilities_and_thresholds_of_their_own(tmp_path: Path) -> None:
    app, about, logits = labelled(tmp_path, "labels")
    assert (about["labels"], about["several_labels"], about["thresholds"]) == (["cold", "warm"], True, [0.0, 1.0])
    [found] = app.results(["She sings."])
    expected = [found.probabilities[it] for it in about["labels"]]
    assert (1 / (1 + np.exp(-logits[0]))).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_targets_have_a_softmax_of_their_own(tmp_path: Path) -> None:
    app, about, logits = labelled(tmp_path, "targets")
    [found], start = app.results(["She sings."]), 0
    for name, labels in about["targets"].items():
        own = np.exp(logits[0][start : start + len(labels)])
        expected = [found.probabilities[name][it] for it in labels]
        assert (own / own.sum()).tolist() == pytest.approx(expected, abs=1e-6)
        start += len(labels)
    assert start == logits.shape[1] == len(about["labels"])


@pytest.mark.slow
def test_a_number_needs_mean_and_deviation(tmp_path: Path) -> None:
    app, about, logits = labelled(tmp_path, "number")
    assert about["mean"] + about["deviation"] * logits[0, 0] == pytest.approx(app("She sings."), abs=1e-5)


def test_two_vocabularies_are_two_files(tmp_path: Path) -> None:
    values = {"data.joint": False, "data.tokenizer": "word", "data.train": ["pairs.tsv"], "data.batch_tokens": 512}
    values |= {"model.d_model": 8, "model.n_heads": 2, "model.d_ff": 8, "model.max_len": 20, "model.tie": "target"}
    config = Config().override({**values, "model.n_encoder_layers": 1, "model.n_decoder_layers": 1})
    both = train_tokenizers(ENGLISH, FRENCH, config.data)
    sizes = {"model.src_vocab_size": both.source.vocab_size, "model.tgt_vocab_size": both.target.vocab_size}
    config = config.override(sizes)
    weights = build(config.model).state_dict()
    save_files(
        tmp_path / "model", model_files(config=config.to_dict(), tokenizer=both.to_json(), weights=weights, card="#")
    )
    export(load(tmp_path / "model", device="cpu").loaded, tmp_path / "out")
    about = json.loads((tmp_path / "out" / "model.json").read_text(encoding="utf-8"))
    assert about["tokenizers"] == {"source": "tokenizer.json", "target": "target_tokenizer.json"}
    for side, tokenizer in (("source", both.source), ("target", both.target)):
        assert (tmp_path / "out" / about["tokenizers"][side]).read_text(encoding="utf-8") == tokenizer.to_json()


@pytest.mark.parametrize(("precision", "missing"), [("fp32", "onnx"), ("fp32", "onnxscript"), ("int8", "onnxruntime")])
def test_a_missing_program_is_named_with_how_to_install_it(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=missing) as caught:
        export(load(model_folder, device="cpu").loaded, tmp_path / "out", precision=precision)
    assert caught.value.name == missing and "pip install onnx onnxscript" in caught.value.fix
    assert not (tmp_path / "out").exists()
