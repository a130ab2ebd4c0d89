"""A model imported from each family generates the text of Transformers' `generate` with the folder's own settings."""

import itertools
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tokenizers
import torch

import clearhead
from clearhead.decode.sampling import Sampling
from clearhead.errors import ModelError
from clearhead.exchange.huggingface import write
from clearhead.exchange.import_model import import_model, read

from .conftest import shaken

V = 60
TEXTS = ["t7 t8 t9", "t20 t21 t30 t41 t7 t7"]
_DECODER = {"hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 4}
_DECODER |= {"num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}
_BOTH = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
_BOTH |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 64}
_BOTH |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT2": ("GPT2LMHeadModel", {
        "n_embd": 24, "n_head": 2, "n_layer": 1, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}),
    "Llama": ("LlamaForCausalLM", _DECODER),
    "Mistral": ("MistralForCausalLM", _DECODER),
    "Qwen2": ("Qwen2ForCausalLM", _DECODER),
    "Bart": ("BartForConditionalGeneration", _BOTH),
    "Marian": ("MarianMTModel", _BOTH | {"decoder_start_token_id": 1}),
    "T5": ("T5ForConditionalGeneration", {
        "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "n_positions": 64, "pad_token_id": 0,
        "eos_token_id": 2, "decoder_start_token_id": 0}),
}  # fmt: skip
DECODERS = ("GPT2", "Llama", "Mistral", "Qwen2")
SETTINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "shortest": {"min_new_tokens": 9, "max_new_tokens": 12},
    "shortest in all": {"min_length": 9, "max_length": 12},
    "forced end": {"max_new_tokens": 6, "forced_eos_token_id": 2},
    "no repeats": {"no_repeat_ngram_size": 2, "max_new_tokens": 15},
    "several ends": {"eos_token_id": [2, 33, 51, 44, 13], "max_new_tokens": 25, "min_new_tokens": 3},
    "suppressed": {"suppress_tokens": [7, 20], "bad_words_ids": [[30]], "max_new_tokens": 8},
}


@pytest.fixture(scope="module")
def made(hf, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Return a folder with a random model of a family, without generation_config.json, and their model."""
    found: dict[str, Any] = {}

    def made(family: str) -> Any:
        if family not in found:
            kind, settings = FAMILIES[family]
            torch.manual_seed(0)
            model = shaken(getattr(hf, kind)(getattr(hf, f"{family}Config")(vocab_size=V, **settings)), seed=3)
            with torch.no_grad():
                for weight in model.parameters():
                    weight.mul_(3)
            folder = tmp_path_factory.mktemp(family)
            model.save_pretrained(folder)
            (folder / "generation_config.json").unlink()
            words = tokenizers.models.WordLevel({f"t{i}": i for i in range(V)}, unk_token="t5")
            tokenizer = tokenizers.Tokenizer(words)
            tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
            tokenizer.save(str(folder / "tokenizer.json"))
            found[family] = SimpleNamespace(folder=folder, kind=getattr(hf, kind), settings=settings)
        return found[family]

    return made


def with_settings(made: Any, folder: Path, settings: dict[str, Any], file: str = "generation_config.json") -> Path:
    """Return a copy of a folder with settings for generating text in one of its files."""
    shutil.copytree(made.folder, folder)
    ids = {name: it for name, it in made.settings.items() if name.endswith("_token_id")}
    known = json.loads((folder / "config.json").read_text()) if file == "config.json" else ids
    (folder / file).write_text(json.dumps(known | settings))
    return folder


def both(made: Any, folder: Path) -> tuple[list[list[int]], list[list[int]], list[str]]:
    """Return the tokens that they generate after each text, those that we do, and what the import notes."""
    notes: list[str] = []
    app = clearhead.load(import_model(folder, folder / "ours", say=notes.append))
    ends = {app.config.model.eos_id, *app.config.model.more_eos_ids}
    model, decoder, theirs = made.kind.from_pretrained(folder), app.config.model.topology == "decoder-only", []
    for text in TEXTS:
        source = [int(it[1:]) for it in text.split()]
        ids = torch.tensor([source if decoder else app.task.special.source(source)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lengths that aren't given
            found = model.generate(ids)[0].tolist()[len(source) if decoder else 1 :]
        theirs.append([*itertools.takewhile(lambda it: it not in ends, found)])
    answers = [it for (it,) in app.continuations(TEXTS)] if decoder else app.results(TEXTS)
    return theirs, [[int(it[1:]) for it in answer.tokens] for answer in answers], notes


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_text_is_equal_or_a_note_says_why(made, tmp_path, family, settings) -> None:
    folder = with_settings(made(family), tmp_path / "hf", SETTINGS[settings])
    different = {"no repeats": "no_repeat_ngram_size", "shortest in all": "max_length"}.get(settings)
    theirs, ours, notes = both(made(family), folder)
    if different and family in DECODERS:  # they count the prompt, too
        assert any(note.startswith(different) for note in notes)
    else:
        assert ours == theirs
        assert [note.startswith("an answer has at most 20") for note in notes] == [True] * (settings == "none")


@pytest.mark.parametrize("family", ["Bart", "T5"])
def test_older_folders_have_the_settings_in_their_config(made, tmp_path, family) -> None:
    settings = {"min_length": 5, "max_length": 9, "no_repeat_ngram_size": 3, "num_beams": 1}
    folder = with_settings(made(family), tmp_path / "hf", settings, "config.json")
    theirs, ours, notes = both(made(family), folder)
    assert ours == theirs and notes == []
    decode = read(folder).config.decode
    assert (decode.min_len, decode.no_repeat_ngram, decode.beam) == (4, 3, 1)


def test_a_config_beside_a_file_of_its_own_has_no_settings_for_generating(made, tmp_path) -> None:
    folder = with_settings(made("Bart"), tmp_path / "hf", {"min_length": 9, "num_beams": 4}, "config.json")
    (folder / "generation_config.json").write_text('{"max_length": 7}')
    decode = read(folder, "summarize").config.decode
    assert (decode.min_len, decode.beam, decode.max_len, decode.no_repeat_ngram) == (0, 1, 6, 0)


@pytest.mark.parametrize("given", [
    {"temperature": 0.7, "top_p": 0.8, "top_k": 20},
    {"temperature": 1.5},  # top_k is 50
    {"top_k": 0, "min_p": 0.1, "top_p": 0.95},
], ids=str)  # fmt: skip
def test_tokens_are_drawn_from_the_same_distribution(hf, made, tmp_path, given) -> None:
    folder = with_settings(made("Qwen2"), tmp_path / "hf", {"do_sample": True, **given})
    theirs, decode = made("Qwen2").kind.from_pretrained(folder), read(folder).config.decode
    assert decode.sample
    settings, _ = theirs._prepare_generation_config(None)
    logits = torch.randn(20, V, generator=torch.Generator().manual_seed(0)) * 3
    warped = theirs._get_logits_processor(settings, 1, device="cpu")(torch.zeros(20, 1, dtype=torch.long), logits)
    ours = Sampling(temperature=decode.temperature, top_k=decode.top_k, top_p=decode.top_p, min_p=decode.min_p)
    found = ours.probabilities(logits.log_softmax(-1).numpy())
    torch.testing.assert_close(torch.from_numpy(found).float(), warped.softmax(-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("family", "settings", "named"), [
    ("Llama", {"repetition_penalty": 1.1, "typical_p": 0.9}, "repetition_penalty=1.1, typical_p=0.9"),
    ("Bart", {"num_beams": 3}, "beam search ranks"),
    ("Bart", {"begin_suppress_tokens": [3], "some_setting": 7}, "begin_suppress_tokens=[3], some_setting=7"),
    ("Bart", {"length_penalty": -1.0, "temperature": 0.0}, "length_penalty=-1.0, temperature=0.0"),
    ("Qwen2", {"do_sample": True, "num_beams": 2}, "num_beams=2"),
    ("GPT2", {"min_length": 5}, "min_length=5"),
], ids=str)  # fmt: skip
def test_what_changes_their_text_but_not_ours_is_named(made, tmp_path, family, settings, named) -> None:
    folder = with_settings(made(family), tmp_path / "hf", {"max_new_tokens": 5, "use_cache": True, **settings})
    (note,) = read(folder).notes
    assert named in note


@pytest.mark.parametrize(("name", "value"), [
    ("max_length", "20"), ("num_beams", True), ("temperature", [0.7]), ("suppress_tokens", 5), ("eos_token_id", "2"),
    ("suppress_tokens", ["a"]), ("bad_words_ids", [3]), ("min_new_tokens", {}), ("eos_token_id", [2, "3"]),
])  # fmt: skip
@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_a_value_of_another_type_is_an_error_that_names_its_file(made, tmp_path, file, name, value) -> None:
    folder = with_settings(made("Bart"), tmp_path / "hf", {name: value}, file)
    with pytest.raises(ModelError) as caught:
        read(folder, "summarize")
    assert (caught.value.name, caught.value.value) == (name, value) and caught.value.expected
    assert f"{file} has {name}=" in caught.value.what


def test_settings_of_pipelines_are_named(made, tmp_path) -> None:
    settings = {"task_specific_params": {"summarization": {"min_length": 30}}, "max_length": 9}
    (note,) = read(with_settings(made("T5"), tmp_path / "hf", settings, "config.json")).notes
    assert "task_specific_params" in note


@pytest.mark.parametrize("family", FAMILIES)
def test_the_settings_come_back_from_an_export(made, tmp_path, family) -> None:
    given = {"num_beams": 2, "length_penalty": 0.5, "no_repeat_ngram_size": 3, "max_new_tokens": 9}
    given |= {"min_new_tokens": 4, "temperature": 0.5, "top_k": 7, "eos_token_id": [2, 9]}
    imported = read(with_settings(made(family), tmp_path / "hf", given))
    assert (imported.config.decode.alpha, imported.config.decode.min_len) == (0.5, 4)
    write(imported.config, imported.weights, imported.tokenizer, tmp_path / "back")
    assert read(tmp_path / "back").config == imported.config
