"""GPT-2 computes the same here as in its own class."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.exchange.import_model import import_model, read
from tests.builders import byte_level

from ..conftest import EOT, save_exported, shaken, unicode_lines

LINES = unicode_lines()


@pytest.fixture(scope="module")
def saved(hf, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """A folder, and the model and tokenizer in it."""
    folder = tmp_path_factory.mktemp("gpt2")
    tokenizer = byte_level(LINES[:300])
    ids = {"bos_token_id": tokenizer.token_to_id(EOT), "eos_token_id": tokenizer.token_to_id(EOT)}
    config = hf.GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_positions=48, n_embd=24, n_layer=3, n_head=4, **ids)
    torch.manual_seed(0)
    model = shaken(hf.GPT2LMHeadModel(config))
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder, model, hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOT, bos_token=EOT)


@pytest.fixture(scope="module")
def folder(saved, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return import_model(saved[0], tmp_path_factory.mktemp("models") / "gpt2")


def test_hidden_states_and_logits_are_equal(saved, opened, float64) -> None:
    source, theirs, _ = saved
    theirs = theirs.double()
    _, ours = opened(source)
    tokens = torch.randint(0, 300, (3, 20), generator=torch.Generator().manual_seed(1))
    states: list[torch.Tensor] = []
    hooks = [block.register_forward_hook(lambda _, __, out: states.append(out)) for block in ours.blocks]
    with torch.no_grad():
        expected = theirs(tokens, output_hidden_states=True)
        logits = ours(tokens)
    for hook in hooks:
        hook.remove()
    theirs.float()
    torch.testing.assert_close(logits, expected.logits, rtol=0, atol=1e-10)
    for found, wanted in zip(states[:-1], expected.hidden_states[1:-1], strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_the_folder_gives_the_same_ids_and_the_same_logits(saved, folder) -> None:
    _, theirs, tokenizer = saved
    app = clearhead.load(folder)
    encode = app.tokenizers.target.encode
    assert [encode(line) for line in LINES] == [tokenizer(line)["input_ids"] for line in LINES]
    tokens = torch.tensor([encode(LINES[0])[:40]])
    with torch.no_grad():
        torch.testing.assert_close(app.model(tokens), theirs(tokens).logits, rtol=0, atol=1e-4)


@pytest.mark.parametrize("beams", [1, 3])
def test_generated_text_is_equal(saved, folder, beams) -> None:
    _, theirs, tokenizer = saved
    app = clearhead.load(folder)
    beam = {"num_beams": beams, "length_penalty": 0.0, "early_stopping": True} if beams > 1 else {}
    for line in LINES[:5]:
        prompt = line.split(" ")[0][:6]
        ids = tokenizer(prompt, return_tensors="pt")
        found = theirs.generate(**ids, max_new_tokens=12, do_sample=False, pad_token_id=0, **beam)
        expected = tokenizer.decode(found[0], skip_special_tokens=True)
        answer = app(prompt, engine="torch", beam=beams, sample=False, alpha=0.0, max_len=12)
        assert answer.rstrip("\ufffd") == expected.rstrip("\ufffd")  # ours leaves out a character that isn't complete


def test_what_is_exported_is_what_was_imported(saved, hf, tmp_path) -> None:
    source, theirs, _ = saved
    imported = read(source)
    save_exported(imported, tmp_path)
    again = hf.AutoModelForCausalLM.from_pretrained(tmp_path)
    tokens = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert again(tokens).logits.equal(theirs(tokens).logits)
    back = read(tmp_path)
    assert back.config == imported.config
    assert back.weights.keys() == imported.weights.keys()
    assert all(back.weights[name].equal(it) for name, it in imported.weights.items())


@pytest.mark.parametrize(("name", "value"), [
    ("scale_attn_by_inverse_layer_idx", True), ("activation_function", "mish"), ("add_cross_attention", True),
])  # fmt: skip
def test_a_setting_that_is_not_supported_is_named(saved, tmp_path, name, value) -> None:
    config = json.loads((saved[0] / "config.json").read_text()) | {name: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for file in ("model.safetensors", "tokenizer.json"):
        (tmp_path / file).symlink_to(saved[0] / file)
    with pytest.raises(clearhead.errors.ModelError, match=f"{name}=.* isn't supported"):
        read(tmp_path)
