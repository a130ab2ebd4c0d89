"""The Go reader rejects by name what it can't read or do, without a stack trace, and reads any input."""

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.folder.model_folder import load_model_folder, model_files, save_files

from .conftest import Answer, make_folder

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def run(clearhead_go: Path) -> Run:
    def ran(*words: str | Path, text: bytes = b"I am hungry.\n") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([clearhead_go, *words], input=text, capture_output=True, timeout=60)

    return ran


def assert_rejected(done: subprocess.CompletedProcess[bytes], *names: str, code: int = 1) -> None:
    message = done.stderr.decode()
    assert done.returncode == code and done.stdout == b""
    assert message.startswith("error: ") and "goroutine" not in message
    assert all(name in message for name in names), message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "model", {"data.tokenizer": "word"})


def with_config(folder: Path, section: str, **values: Any) -> Path:
    """Change settings, and the manifest too."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config[section] |= values
    save_files(folder, {"config.json": json.dumps(config).encode()})
    return folder


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "manifest.json"])
def test_a_missing_file_is_named(name: str, folder: Path, run: Run) -> None:
    (folder / name).unlink()
    assert_rejected(run(folder), name, "is missing")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_file_that_differs_from_the_manifest_is_named(name: str, folder: Path, run: Run) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert_rejected(run(folder), name, "SHA-256")


def test_no_folder_is_an_error(tmp_path: Path, run: Run) -> None:
    assert_rejected(run(tmp_path / "none"), "none")
    assert_rejected(run(tmp_path), "manifest.json")
    assert_rejected(run(), "model folder", code=2)


@pytest.mark.parametrize(
    "words", [("--beam", "0"), ("--beam", "x"), ("--beam",), ("--alpha", "1"), ("other",)], ids=str
)
def test_wrong_options_are_usage_errors(words: tuple[str, ...], folder: Path, run: Run) -> None:
    assert_rejected(run(folder, *words), words[0], "--help", code=2)
    assert b"usage" in run("--help").stdout


HEADERS = [
    b"", b"1234567", struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 99) + b"{}", struct.pack("<Q", 3) + b"{}}",
    struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 8) + b'{"a": 1}',
]  # fmt: skip
ENTRIES = [
    {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}, {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
    {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}, {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]},
    {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}, {"dtype": "F32", "shape": [1]},
    {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}, {"dtype": "F32", "shape": [1], "data_offsets": [2**62, 4]},
    {"dtype": "F32", "shape": [0], "data_offsets": [999, 999]},
]  # fmt: skip


@pytest.mark.parametrize("content", HEADERS, ids=repr)
def test_weights_that_are_no_safetensors_are_rejected(content: bytes, folder: Path, run: Run) -> None:
    save_files(folder, {"model.safetensors": content})
    assert_rejected(run(folder), "model.safetensors")


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_a_damaged_entry_is_named(entry: dict[str, Any], folder: Path, run: Run) -> None:
    header = json.dumps({"it": entry}).encode()
    save_files(folder, {"model.safetensors": struct.pack("<Q", len(header)) + header + bytes(8)})
    assert_rejected(run(folder), "it")


def test_weights_of_another_model_are_named(folder: Path, run: Run) -> None:
    weights = load_model_folder(folder).weights
    name = "decoder.blocks.1.cross_attention.kv.weight"
    for changed in ({name: weights[name][:-1].contiguous()}, {"other": torch.zeros(1)}):
        save_files(folder, model_files(weights={**weights, **changed}))
        assert_rejected(run(folder), *changed)
    save_files(folder, model_files(weights={it: weights[it] for it in weights if it != name}))
    assert_rejected(run(folder), name, "missing")
    blocks = {it: weights[it] for it in weights if "encoder.blocks.1" not in it}
    save_files(folder, model_files(weights=blocks))
    assert_rejected(run(folder), "model.n_encoder_layers")
    save_files(folder, model_files(weights={**weights, name: weights[name] * float("nan")}))
    assert_rejected(run(folder), name, "finite")
    embedding = weights["encoder.embedding.weight"]
    save_files(folder, model_files(weights={**weights, "decoder.projection.weight": embedding + 1}))
    assert_rejected(run(folder), "decoder.projection.weight", "tied")


UNSUPPORTED: list[tuple[str, dict[str, Any]]] = [
    ("model", {"topology": "encoder-only"}), ("model", {"positions": "sinusoidal_2d"}), ("model", {"front": "frames"}),
    ("model", {"attention": "my:Attend"}), ("model", {"norm": "my:Norm"}), ("model", {"feed_forward": "my:Net"}),
    ("model", {"n_token_types": 2}), ("model", {"head": "class"}), ("model", {"eos_id": 7}),
    ("model", {"unheard_of": 0}), ("decode", {"unheard_of": "x"}), ("decode", {"sample": True}),
    ("train", {"task": "classify"}), ("train", {"task": "generate"}), ("model", {"n_heads": 3}),
    ("model", {"d_model": "16"}), ("model", {"d_model": 0}), ("model", {"n_kv_heads": -1}),
    ("model", {"n_decoder_layers": 10**9}), ("model", {"max_len": 0}), ("model", {"tie": "some"}),
    ("model", {"start_id": 10**6}), ("model", {"src_vocab_size": 5}), ("decode", {"beam": 10**9}),
    ("decode", {"suppress": ["nothing"]}), ("model", {"d_head": -1}), ("model", {"window": -1}),
    ("model", {"final_norm": 3}), ("model", {"head_layer": "norm"}),
]  # fmt: skip


@pytest.mark.parametrize(("section", "values"), UNSUPPORTED, ids=lambda it: it if isinstance(it, str) else str(it))
def test_a_setting_that_go_lacks_is_named(section: str, values: dict[str, Any], folder: Path, run: Run) -> None:
    [name] = values
    expected = {"suppress": "nothing", "d_model": "d_model", "final_norm": "final_norm"}.get(name, f"{section}.{name}")
    assert_rejected(run(with_config(folder, section, **values)), expected)


@pytest.mark.parametrize(
    "scaling", ["9:linear", "9:linear:0", "9:linear:x", "9:llama3:8:1:4", "9:yarn:2", "", "x", "0"]
)
def test_a_scaling_that_go_lacks_is_named(scaling: str, folder: Path, run: Run) -> None:
    values = {"positions": "rotary", "rotary": scaling}
    assert_rejected(run(with_config(folder, "model", **values)), "model.rotary")


def test_a_sampling_model_can_be_searched(folder: Path, answer: Answer) -> None:
    expected = answer(folder, ["I am hungry."], "--beam", "2")
    assert answer(with_config(folder, "decode", sample=True), ["I am hungry."], "--beam", "2") == expected


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"format_version": 2}', b'{"model": 3}', b"\xff", b'{"format_version": 1}']
)
def test_a_config_that_is_damaged_is_rejected(content: bytes, folder: Path, run: Run) -> None:
    save_files(folder, {"config.json": content})
    done = run(folder)
    assert done.returncode == 1 and b"goroutine" not in done.stderr


def changed_tokenizer(folder: Path, change: Callable[[Any], None]) -> Path:
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    change(tokenizer)
    save_files(folder, {"tokenizer.json": json.dumps(tokenizer).encode()})
    return folder


CHANGES: dict[str, Callable[[Any], Any]] = {
    "normalizer": lambda it: it["normalizer"]["normalizers"].append({"type": "BertNormalizer"}),
    "pattern": lambda it: it["pre_tokenizer"]["pretokenizers"][0].update(pattern={"Regex": "."}),
    "pre-tokenizer": lambda it: it.update(pre_tokenizer={"type": "Whitespace"}),
    "decoder": lambda it: it["decoder"]["decoders"].append({"type": "Fuse"}),
    "vocabulary": lambda it: it["model"].update(type="WordPiece"),
    "added token": lambda it: it["added_tokens"].append({"id": 4, "content": "<mask>"}),
    "out of order": lambda it: it["model"]["vocab"].update(new=10**6),
    "<pad>": lambda it: it["model"].update(vocab={"a": 0, "b": 1, "c": 2, "d": 3}),
    "can't be read": lambda it: it["model"].update(vocab=3),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_tokenizer_of_another_program_is_rejected_by_name(name: str, folder: Path, run: Run) -> None:
    assert_rejected(run(changed_tokenizer(folder, CHANGES[name])), "tokenizer.json", name)


@pytest.mark.parametrize("content", [b"", b"3", b"{}", b'{"source": 1, "target": 2}'], ids=repr)
def test_a_damaged_tokenizer_is_rejected(content: bytes, folder: Path, run: Run) -> None:
    save_files(folder, {"tokenizer.json": content})
    assert_rejected(run(folder), "tokenizer.json")


LINES = (
    b"\xef\xbb\xbfI am hungry.\r\n\n \t\nI \xff\xc3 am \xf0\x9f\x99 \xed\xa0\x80.\n\x00 \x1c\n\x1c\x1d\n"
    + b"am " * 200
    + b"\nend"
)


def test_any_bytes_are_read_as_python_reads_them(folder: Path, run: Run) -> None:
    command = [sys.executable, "-m", "clearhead", "translate", folder]
    expected = subprocess.run(command, input=LINES, capture_output=True, check=True)
    done = run(folder, text=LINES)
    assert done.returncode == 0 and done.stdout == expected.stdout
    ours, theirs = done.stderr.decode().splitlines(), expected.stderr.decode().splitlines()
    assert [it.split(":")[0] for it in ours] == [it.split(":")[0] for it in theirs]
    assert any("isn't UTF-8" in it for it in ours) and any("too long" in it for it in ours)


def test_a_line_without_end_is_one_long_text(tmp_path: Path, run: Run) -> None:
    folder = make_folder(tmp_path, {"model.max_len": 3000, "decode.max_extra": 1, "decode.max_len": 3})
    done = run(folder, text=b"x" * 1_000_000)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1


def test_nothing_is_read_and_nothing_printed(folder: Path, run: Run) -> None:
    done = run(folder, text=b"")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_answer_comes_before_the_next_line(folder: Path, clearhead_go: Path) -> None:
    with subprocess.Popen([clearhead_go, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        for _ in range(2):
            process.stdin.write(b"I am hungry.\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()


def test_an_output_that_is_full_is_an_error(folder: Path, clearhead_go: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([clearhead_go, folder], input=b"a\n", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"error: can't write" in done.stderr


def test_a_language_model_prints_what_python_prints(tmp_path: Path, run: Run) -> None:
    values = {"model.topology": "decoder-only", "train.task": "generate", "data.tokenizer": "character"}
    folder, texts = make_folder(tmp_path, {**values, "decode.sample": True, "model.begin": True}), ["I am", "", "We"]
    command = [sys.executable, "-m", "clearhead", "generate", folder, *texts, "--greedy"]
    expected = subprocess.run(command, capture_output=True, check=True).stdout
    done = run(folder, text="".join(f"{it}\n" for it in texts).encode())
    assert (done.returncode, done.stdout) == (0, expected)
    assert_rejected(run(folder, text="Ж\n".encode()), "Ж")


def test_a_source_begins_with_bos_and_a_decoder_with_its_start(tmp_path: Path, answer: Answer) -> None:
    values = {"model.begin": True, "model.start_id": 0, "decode.suppress_special": False, "data.max_len": 8}
    folder = make_folder(tmp_path, values)
    texts = ["I am hungry.", "a " * 80]
    found = answer(folder, texts)
    expected = [it.to_dict() for it in clearhead.load(folder).results(texts)]
    assert [(it["text"], it["long"], it["cut"]) for it in found] == [
        (it["text"], it["long"], it["cut"]) for it in expected
    ]
