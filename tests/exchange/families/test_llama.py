"""Llama, Mistral and Qwen2 compute the same here as in their own classes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import save_file

import clearhead
from clearhead.config import Config, ModelConfig
from clearhead.errors import ConfigError, ModelError
from clearhead.exchange.huggingface import folder_files
from clearhead.exchange.import_model import import_model, read
from clearhead.exchange.imported import Imported
from clearhead.model.restore import restore
from clearhead.model.transformer import build

from ..conftest import shaken, unicode_lines

LINES = unicode_lines()
SIZES = {"vocab_size": 600, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 16, "rope_theta": 500.0}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 50.0,
    "beta_fast": 2.0,
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama wide": ("Llama", {"head_dim": 10, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4}),
    "linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}}),
    "yarn": ("Llama", {"rope_parameters": YARN}),
    "yarn with its own factors": (
        "Qwen2",
        {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 0.3, "truncate": False}, "eos_token_id": 2},
    ),
    "dynamic": ("Llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 500.0}}),
    "geglu": ("Llama", {"hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-3}),
    "mistral": ("Mistral", {"sliding_window": 5, "head_dim": 8}),
    "mistral without a window": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {"bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True}),
    "qwen2 with a window": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0, "eos_token_id": 2},
    ),
}


def byte_fallback() -> tokenizers.Tokenizer:
    """A tokenizer as Llama 2 has one: BPE with ▁ for spaces, bytes for what it doesn't know, and BOS at the start."""
    special, single = ["<unk>", "<s>", "</s>"], [f"<0x{i:02X}>" for i in range(256)]
    learning = tokenizers.Tokenizer(tokenizers.models.BPE())
    learning.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, limit_alphabet=150, show_progress=False)
    learning.train_from_iterator([line for line in LINES[:300] for line in line.split(" ")], trainer)
    model = json.loads(learning.to_str())["model"]
    names = [*special, *single, *sorted(model["vocab"], key=model["vocab"].get)]
    vocab = {name: i for i, name in enumerate(dict.fromkeys(names))}
    merges = [tuple(pair) for pair in model["merges"]]
    bpe = tokenizers.models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    found = tokenizers.Tokenizer(bpe)
    found.normalizer = learning.normalizer
    decoders = tokenizers.decoders
    found.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    found.add_special_tokens(special)
    found.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return found


def byte_level() -> tokenizers.Tokenizer:
    """A tokenizer as Llama 3 and Qwen2 have one: byte-level BPE that splits by a pattern, without BOS."""
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"
    found = tokenizers.Tokenizer(tokenizers.models.BPE())
    found.normalizer = tokenizers.normalizers.NFC()
    steps = tokenizers.pre_tokenizers
    split = steps.Split(tokenizers.Regex(pattern), "isolated")
    found.pre_tokenizer = steps.Sequence([split, steps.ByteLevel(add_prefix_space=False, use_regex=False)])
    found.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=500,
        initial_alphabet=steps.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    found.train_from_iterator(LINES[:300], trainer)
    return found


@pytest.fixture(scope="module")
def made(hf, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Save a random model of each variant; look up its folder."""
    found: dict[str, Path] = {}
    fallback, level = byte_fallback(), byte_level()
    for variant, (family, settings) in VARIANTS.items():
        folder = found[variant] = tmp_path_factory.mktemp("hf")
        torch.manual_seed(0)
        config = getattr(hf, f"{family}Config")(**SIZES | settings)
        shaken(getattr(hf, f"{family}ForCausalLM")(config)).save_pretrained(folder)
        (level if family == "Qwen2" else fallback).save(str(folder / "tokenizer.json"))
    return found.__getitem__


def rewritten(source: Path, folder: Path, **changes: Any) -> Path:
    """A copy of a folder with other settings. None as a value removes a setting."""
    config = json.loads((source / "config.json").read_text()) | changes
    config = {name: value for name, value in config.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(config))
    for file in ("model.safetensors", "tokenizer.json"):
        (folder / file).symlink_to(source / file)
    return folder


def save(imported: Imported, folder: Path) -> Path:
    files, weights = folder_files(imported.config, imported.weights, imported.tokenizer)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    save_file({name: it.contiguous() for name, it in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize("variant", VARIANTS)
def test_hidden_states_and_logits_are_equal(hf, made, opened, float64, monkeypatch, variant) -> None:
    _, ours = opened(made(variant))
    loaded = hf.AutoModelForCausalLM.from_pretrained(made(variant))
    tokens = torch.randint(3, 600, (3, 40), generator=torch.Generator().manual_seed(1))
    states: list[torch.Tensor] = []
    for block in ours.blocks:
        block.register_forward_hook(lambda _, __, out: states.append(out))
    with torch.no_grad(), monkeypatch.context() as patched:
        # The library computes norms, rotations and softmax in float32, whatever the model's precision.
        patched.setattr(torch, "float32", torch.float64)
        patched.setattr(torch, "float", torch.float64)
        patched.setattr(torch.Tensor, "float", torch.Tensor.double)
        theirs = type(loaded)(loaded.config).eval()
        theirs.load_state_dict(loaded.state_dict())
        expected = theirs(tokens, output_hidden_states=True)
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), expected.logits, rtol=0, atol=1e-10)
    for found, wanted in zip(states[:-1], expected.hidden_states[1:-1], strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("variant", ["llama", "mistral", "qwen2"])
def test_the_folder_gives_the_same_ids_logits_and_texts(hf, made, tmp_path, variant) -> None:
    source = made(variant)
    theirs = hf.AutoModelForCausalLM.from_pretrained(source)
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"))
    app = clearhead.load(import_model(source, tmp_path / "model"))
    begin = [app.config.model.bos_id] * app.config.model.begin
    assert bool(begin) == (variant != "qwen2")
    assert [begin + it for it in app.tokenizers.target.encode_batch(LINES)] == tokenizer(LINES)["input_ids"]
    tokens = tokenizer(LINES[0], return_tensors="pt")["input_ids"][:, :40]
    with torch.no_grad():
        torch.testing.assert_close(app.model(tokens), theirs(tokens).logits, rtol=0, atol=1e-4)
    for line in LINES[:4]:
        for beams in (1, 3):
            prompt = line.split(" ")[0][:6]
            beam = {"num_beams": beams, "length_penalty": 0.0, "early_stopping": True} if beams > 1 else {}
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
            found = theirs.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0, eos_token_id=2, **beam)
            expected = [it for it in found[0, ids.size(1) :].tolist() if it != 2]
            ((answer,),) = app.continuations([prompt], engine="torch", beam=beams, sample=False, alpha=0.0, max_len=12)
            assert list(answer.ids) == expected
            text = tokenizer.decode(found[0], skip_special_tokens=True)
            if "\ufffd" not in text:  # of damaged bytes, the library also drops characters that are whole
                assert prompt + answer.text == text


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_exported_is_what_was_imported(hf, made, tmp_path, variant) -> None:
    source = made(variant)
    imported = read(source)
    again = hf.AutoModelForCausalLM.from_pretrained(save(imported, tmp_path))
    tokens = torch.randint(3, 600, (2, 30), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        theirs = hf.AutoModelForCausalLM.from_pretrained(source)
        assert again(tokens).logits.equal(theirs(tokens).logits)
    back = read(tmp_path)
    assert back.config == imported.config
    assert back.weights.keys() == imported.weights.keys()
    assert all(back.weights[name].equal(it) for name, it in imported.weights.items())


def test_settings_of_transformers_4_are_read_too(made, tmp_path) -> None:
    changes = {"rope_parameters": ..., "head_dim": ..., "rope_theta": 500.0}
    old = {**LLAMA3, "type": "llama3"}
    del old["rope_type"], old["rope_theta"]
    folder = rewritten(made("llama3"), tmp_path, rope_scaling=old, **changes)
    assert read(folder).config == read(made("llama3")).config


def test_absent_settings_have_the_defaults_of_their_class(made, tmp_path) -> None:
    gone = dict.fromkeys(("rope_parameters", "sliding_window", "bos_token_id", "eos_token_id", "pad_token_id"), ...)
    model = read(rewritten(made("mistral"), tmp_path, **gone)).config.model
    assert (model.window, model.rotary, model.bos_id, model.eos_id, model.pad_id) == (4096, "10000", 1, 2, 600)


@pytest.mark.parametrize(
    ("variant", "name", "changes"),
    [
        ("llama", "hidden_act", {"hidden_act": "relu"}),
        ("llama", "attention_bias", {"attention_bias": True}),
        ("llama", "mlp_bias", {"mlp_bias": True}),
        ("llama", "partial_rotary_factor", {"partial_rotary_factor": 0.5}),
        ("llama", "rope_type", {"rope_parameters": {"rope_type": "longrope"}}),
        ("llama", "type", {"rope_scaling": {"type": "longrope"}}),
        ("qwen2 with a window", "max_window_layers", {"max_window_layers": 1, "layer_types": ...}),
        ("qwen2 with a window", "layer_types", {"layer_types": ["full_attention", "sliding_attention"]}),
    ],
)
def test_a_setting_that_is_not_supported_is_named(made, tmp_path, variant, name, changes) -> None:
    with pytest.raises(ModelError, match="isn't supported") as caught:
        read(rewritten(made(variant), tmp_path, **changes))
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "changes"),
    [("factor", {"rope_parameters": {"rope_type": "linear"}}), ("eos_token_id", {"eos_token_id": None})],
)
def test_a_setting_that_is_missing_is_named(made, tmp_path, name, changes) -> None:
    with pytest.raises(ModelError) as caught:
        read(rewritten(made("llama"), tmp_path, **changes))
    assert caught.value.name == name


def test_without_padding_or_with_that_of_another_token_it_is_beyond_the_vocabulary(made, tmp_path) -> None:
    for i, (pad, expected) in enumerate([(None, 600), (-1, 600), (2, 600), (1, 600), (0, 600), (7, 7)]):
        (folder := tmp_path / str(i)).mkdir()
        assert read(rewritten(made("llama"), folder, pad_token_id=pad)).config.model.pad_id == expected


def test_the_token_before_a_text_is_that_of_the_tokenizer_whatever_the_settings_say(made, tmp_path) -> None:
    for i, (variant, bos, begins) in enumerate([("llama", 7, True), ("llama", None, True), ("qwen2", 7, False)]):
        (folder := tmp_path / str(i)).mkdir()
        model = read(rewritten(made(variant), folder, bos_token_id=bos)).config.model
        assert (model.begin, model.bos_id) == (begins, 1 if begins else 7)
    (folder / "tokenizer.json").unlink()
    content = json.loads((made("llama") / "tokenizer.json").read_text())
    content["post_processor"]["single"].insert(0, content["post_processor"]["single"][0])
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError) as caught:
        read(folder)
    assert (caught.value.name, caught.value.value) == ("post_processor", ["<s>", "<s>"])


def test_several_end_tokens_are_kept(made, tmp_path) -> None:
    folder = rewritten(made("qwen2"), tmp_path, eos_token_id=[0, 1], pad_token_id=1)
    model = read(folder).config.model
    assert (model.eos_id, model.more_eos_ids, model.pad_id) == (0, (1,), 600)
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 0, 2], "max_new_tokens": 9}')
    imported = read(folder)
    assert (imported.config.model.eos_id, imported.config.model.more_eos_ids) == (2, (0,))
    assert imported.notes == []


def test_an_original_length_next_to_the_scaling_counts_before_one_inside(hf, made, tmp_path) -> None:
    for i, scaling in enumerate((LLAMA3, YARN)):
        (folder := tmp_path / str(i)).mkdir()
        rewritten(made("llama"), folder, rope_parameters=scaling, original_max_position_embeddings=9)
        theirs, imported = hf.AutoModelForCausalLM.from_pretrained(folder), read(folder)
        ours = restore(imported.config.model, imported.weights).eval()
        tokens = torch.randint(3, 600, (2, 40), generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=0, atol=1e-4)


def test_an_unknown_key_is_not_read_and_not_called_without_effect(made, tmp_path) -> None:
    *_, note = read(rewritten(made("llama"), tmp_path, some_key=3, use_cache=True)).notes
    assert note == "settings of config.json that aren't read: some_key"


def test_sharded_files_in_half_precision_become_one_file_in_float32(hf, made, tmp_path) -> None:
    theirs = hf.AutoModelForCausalLM.from_pretrained(made("llama"), dtype=torch.bfloat16)
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    assert len([*(tmp_path / "theirs").glob("*.safetensors")]) > 2
    (tmp_path / "theirs" / "tokenizer.json").symlink_to(made("llama") / "tokenizer.json")
    app = clearhead.load(import_model(tmp_path / "theirs", tmp_path / "ours"))
    weights = app.model.state_dict()
    assert all(weight.dtype == torch.float32 for weight in weights.values())
    assert weights["projection.weight"].equal(theirs.lm_head.weight.float())


def exported(tmp_path: Path, **settings: Any) -> tuple[Path, torch.nn.Module]:
    """A model of our own, with the defaults of its task and these settings, and its folder for the library."""
    sizes = {"d_model": 24, "n_heads": 4, "d_ff": 20, "n_decoder_layers": 2, "max_len": 32, "tgt_vocab_size": 600}
    model = ModelConfig(topology="decoder-only", pre_norm=True, feed_forward="swiglu", **sizes, **settings)
    config = replace(Config(), model=model).assign({"train.task": "generate"}, "task")
    torch.manual_seed(0)
    net = shaken(build(model))
    return save(Imported("", config, byte_level().to_str(), net.state_dict()), tmp_path), net


def test_a_model_of_our_own_can_be_exported_if_it_has_the_same_parts(hf, tmp_path) -> None:
    parts = {"positions": "rotary", "norm": "rms", "bias": False, "embedding_scale": 1.0}
    folder, ours = exported(tmp_path, **parts, tie="target")
    theirs = hf.AutoModelForCausalLM.from_pretrained(folder)
    tokens = torch.randint(3, 600, (2, 30))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=0, atol=1e-5)


def test_parts_without_counterpart_are_named_with_what_would_have_one(tmp_path) -> None:
    with pytest.raises(ModelError) as caught:
        exported(tmp_path, positions="rotary", tie="none", bias=False)
    assert caught.value.what == (
        "model.norm='layer', model.embedding_scale=4.898979485566356, model.projection_bias=true have no counterpart "
        "in Llama"
    )
    assert caught.value.expected == "model.norm='rms', model.embedding_scale=1.0, model.projection_bias=false"


CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>'"
    " + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
HELLO = [{"role": "user", "content": "Hello, <|im_end|>!"}]


@pytest.mark.parametrize("where", ["tokenizer_config.json", "chat_template.jinja", "chat_template.json", "by name"])
def test_a_chat_template_is_taken_over_and_exported(hf, made, tmp_path, where) -> None:
    (tmp_path / "hf").mkdir()
    source = rewritten(made("qwen2"), tmp_path / "hf", eos_token_id=0)
    content = {"chat_template": CHATML}
    if where == "by name":
        content = {"chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": CHATML}]}
    name = "tokenizer_config.json" if where == "by name" else where
    (source / name).write_text(CHATML if where.endswith("jinja") else json.dumps(content))
    notes: list[str] = []
    app = clearhead.load(import_model(source, tmp_path / "model", say=notes.append))
    assert app.config.data.template == "chatml" and app.config.model.more_eos_ids == (2,)
    assert any("ends with <|im_end|>" in note for note in notes)
    theirs = hf.PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"), chat_template=CHATML)
    plain = [{"role": "user", "content": "Hello!"}]
    ids = theirs.apply_chat_template(plain, add_generation_prompt=True, return_dict=False)
    writer = app.writer()
    assert writer.prompt(plain) == ids and writer.prompt(HELLO).count(2) == 1
    model = hf.AutoModelForCausalLM.from_pretrained(source)
    found = model.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=[0, 2])
    expected = [it for it in found[0, len(ids) :].tolist() if it not in (0, 2)]
    ((answer,),) = app.continuations([plain], engine="torch", beam=1, sample=False, max_len=8)
    assert list(answer.ids) == expected and app.chat(plain, beam=1, sample=False, max_len=8) == answer.text
    again = read(save(read(source), tmp_path))
    assert again.config == read(source).config


def test_an_unknown_chat_template_is_reported_and_not_guessed(made, tmp_path) -> None:
    (tmp_path / "hf").mkdir()
    source = rewritten(made("qwen2"), tmp_path / "hf", eos_token_id=2)
    (source / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": CHATML.replace("user", "x") + "{{ 1 }}"})
    )
    imported = read(source)
    assert not imported.config.data.template
    assert any("chat template isn't a known one" in note for note in imported.notes)
    app = clearhead.load(import_model(source, tmp_path / "model", say=lambda _: None))
    with pytest.raises(ConfigError) as caught:
        app.chat(HELLO)
    assert caught.value.name == "data.template"
