"""Adapters in the format of PEFT compute the same here as there, in both directions."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import load
from clearhead.config import Config
from clearhead.errors import ModelError
from clearhead.exchange.huggingface import FAMILIES, folder_files, write
from clearhead.exchange.import_model import import_model
from clearhead.exchange.peft import export, to_our_adapter, to_their_adapter
from clearhead.folder.adapters import is_adapter
from clearhead.folder.model_folder import (
    load_model_folder,
    model_files,
    save_files,
    weights_from_bytes,
    weights_to_bytes,
)
from clearhead.model.transformer import build
from clearhead.tokenization.source_and_target import train_tokenizers
from tests.builders import ENGLISH, FRENCH, make_adapter_folder

from .conftest import shaken

pytestmark = pytest.mark.filterwarnings("ignore")  # PEFT uses what the newest Transformers deprecates

SIZES = {"d_model": 24, "n_heads": 4, "d_ff": 40, "max_len": 40, "n_encoder_layers": 2, "n_decoder_layers": 2}
# Of each family: the task, settings besides the family's fixed ones, and target modules for PEFT.
CASES: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    "gpt2": ("gpt2", "generate", {}, ["c_attn", "c_proj"]),
    "llama": ("llama", "generate", {"n_kv_heads": 2, "bias": False, "feed_forward": "swiglu"}, ["q_proj", "v_proj"]),
    "llama, all layers": ("llama", "generate", {"bias": False, "feed_forward": "swiglu"}, [
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj",
    ]),
    "bert": ("bert", "classify", {"n_classes": 3, "n_token_types": 2, "head": "class", "pooling": "first",
                                  "head_layer": "tanh", "tie": "target"}, ["query", "value", "dense"]),
    "marian": ("marian", "translate", {"projection_bias": True}, ["q_proj", "v_proj", "fc1"]),
    "marian, our order": ("marian", "translate", {"positions": "sinusoidal", "projection_bias": True}, [
        "k_proj", "out_proj", "fc2",
    ]),
    "t5": ("t5", "translate", {"tie": "all", "projection_bias": False, "feed_forward": "relu"}, ["q", "v", "wi"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def peft(hf) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("peft", reason="needs the extra dev")


def made(case: str, out: Path) -> tuple[Path, Path]:
    """A model folder of ours, and its export."""
    kind, task, settings, _ = CASES[case]
    fixed = {name: value for name, value in FAMILIES[kind].fixed.items() if name.startswith("model.")}
    config = Config().assign({"train.task": task, "data.tokenizer": "bpe", "data.vocab_size": 300}, "model")
    tokenizers = train_tokenizers(ENGLISH, FRENCH, config.data)
    size, topology = tokenizers.source.vocab_size, fixed["model.topology"]
    sizes = {**SIZES, "src_vocab_size": size, "tgt_vocab_size": size}
    sizes |= {"n_encoder_layers": 0} if topology == "decoder-only" else {}
    sizes |= {"n_decoder_layers": 0} if topology == "encoder-only" else {}
    named = {f"model.{name}": value for name, value in {**sizes, **settings}.items()}
    config = config.assign(
        {**fixed, **named, **({"data.labels": ("a", "b", "c")} if task == "classify" else {})}, "model"
    )
    torch.manual_seed(0)
    weights = shaken(build(config.model)).state_dict()
    files = model_files(config=config.to_record(), tokenizer=tokenizers.to_json(), weights=weights, card="# A")
    save_files(out / "base", files)
    write(config, weights, tokenizers.to_json(), out / "hf")
    return out / "base", out / "hf"


def opened(hf: Any, folder: Path) -> Any:
    name = json.loads((folder / "config.json").read_bytes())["architectures"][0]
    return getattr(hf, name).from_pretrained(folder).eval()


def logits(model: Any, case: str) -> torch.Tensor:
    """What their model or ours says of a few tokens."""
    draw = torch.Generator().manual_seed(1)
    source, target = (torch.randint(5, 150, (2, n), generator=draw) for n in (7, 9))
    is_ours = type(model).__module__.startswith("clearhead")
    with torch.no_grad():
        if CASES[case][1] != "translate":
            return model(source) if is_ours else model(source).logits
        return model(source, target) if is_ours else model(input_ids=source, decoder_input_ids=target).logits


def assert_same_weights(adapter: Path, merged: Any) -> None:
    """Compare merged weights, by their names."""
    folder = load_model_folder(adapter)
    ours, theirs = folder_files(folder.config, folder.weights, folder.tokenizer)[1], merged.state_dict()
    assert len(ours) > 10
    for name, weight in ours.items():
        torch.testing.assert_close(weight, theirs[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("more", [{}, {"use_rslora": True, "patterns": True}], ids=["plain", "patterns"])
def test_an_adapter_of_peft_is_read(peft, hf, tmp_path: Path, case: str, more: dict[str, Any]) -> None:
    base, exported = made(case, tmp_path)
    targets, rank = CASES[case][3], 3
    settings: dict[str, Any] = {"use_rslora": more.get("use_rslora", False)}
    if more:
        settings |= {"rank_pattern": {targets[0]: 5}, "alpha_pattern": {targets[-1]: 11}}
    given = peft.LoraConfig(r=rank, lora_alpha=7, target_modules=targets, init_lora_weights=False,
                            fan_in_fan_out=case == "gpt2", **settings)  # fmt: skip
    torch.manual_seed(2)
    theirs = peft.get_peft_model(opened(hf, exported), given).eval()
    theirs.save_pretrained(tmp_path / "peft")
    adapter = import_model(tmp_path / "peft", tmp_path / "adapter", base=base)
    torch.testing.assert_close(logits(load(adapter).model, case), logits(theirs, case), rtol=1e-5, atol=1e-5)
    assert_same_weights(adapter, theirs.merge_and_unload())


@pytest.mark.parametrize("case", CASES)
def test_an_adapter_of_ours_is_written(peft, hf, tmp_path: Path, case: str) -> None:
    base, exported = made(case, tmp_path)
    adapter = make_adapter_folder(tmp_path / "adapter", base, size=0.2)
    app = load(adapter)
    export(app.loaded, tmp_path / "peft")
    theirs = peft.PeftModel.from_pretrained(opened(hf, exported), str(tmp_path / "peft")).eval()
    torch.testing.assert_close(logits(theirs, case), logits(app.model, case), rtol=1e-5, atol=1e-5)
    assert_same_weights(adapter, theirs.merge_and_unload())
    again = import_model(tmp_path / "peft", tmp_path / "again", base=base)
    files = [(it / "adapter.safetensors").read_bytes() for it in (adapter, again)]
    one, other = (weights_from_bytes(adapter, data) for data in files)
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_head_that_peft_saved_is_part_of_the_adapter(peft, hf, tmp_path: Path) -> None:
    base, exported = made("bert", tmp_path)
    given = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"], init_lora_weights=False)
    theirs = peft.get_peft_model(opened(hf, exported), given).eval()
    with torch.no_grad():
        theirs.base_model.model.classifier.modules_to_save["default"].weight.add_(1)
    theirs.save_pretrained(tmp_path / "peft")
    adapter = import_model(tmp_path / "peft", tmp_path / "adapter", base=base)
    assert_same_weights(adapter, theirs.merge_and_unload())
    export(load(adapter).loaded, tmp_path / "again")
    again = peft.PeftModel.from_pretrained(opened(hf, exported), str(tmp_path / "again")).eval()
    torch.testing.assert_close(logits(again, "bert"), logits(load(adapter).model, "bert"), rtol=1e-5, atol=1e-5)


def test_a_head_of_numbers_says_them_in_their_unit(tmp_path: Path) -> None:
    base, _ = made("bert", tmp_path)
    number = {"data.label_kind": "number", "data.labels": ("stars",), "data.number_scale": (10.0, 4.0)}
    config = load_model_folder(base).config.assign({**number, "model.n_classes": 1}, "data")
    head = {"head.linear.weight": torch.randn(1, 24), "head.linear.bias": torch.randn(1)}
    layer = "encoder.blocks.0.attention.qkv"
    ours = {**head, f"{layer}.lora_a": torch.randn(2, 24), f"{layer}.lora_b": torch.randn(72, 2)}
    theirs, _ = to_their_adapter(ours, 1.0, config)
    assert theirs.plain.keys() == {"classifier.weight", "classifier.bias"}
    torch.testing.assert_close(theirs.plain["classifier.weight"], 4 * head["head.linear.weight"])
    torch.testing.assert_close(theirs.plain["classifier.bias"], 10 + 4 * head["head.linear.bias"])
    again, _ = to_our_adapter(theirs, config, tmp_path)
    assert again.keys() == ours.keys()
    torch.testing.assert_close({name: again[name] for name in head}, head)
    without = {name: it for name, it in ours.items() if name not in head}  # that of the base, which is exported so
    assert not to_their_adapter(without, 1.0, config)[0].plain


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A base and an adapter in the format of PEFT."""
    base, _ = made("gpt2", tmp_path)
    adapter = make_adapter_folder(tmp_path / "ours", base)
    export(load(adapter).loaded, tmp_path / "peft")
    return base, tmp_path / "peft"


def change(folder: Path, **values: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | values))


@pytest.mark.parametrize(("name", "value"), [
    ("peft_type", "IA3"), ("use_dora", True), ("bias", "all"), ("r", 9), ("lora_alpha", "x"), ("lora_alpha", None),
    ("lora_alpha", 10**400), ("layer_replication", [[0, 1], [0, 1]]), ("init_lora_weights", "pissa_niter_4"),
    ("init_lora_weights", "olora"), ("init_lora_weights", "loftq"),
])  # fmt: skip
def test_settings_that_are_not_supported_are_named(folders, tmp_path: Path, name: str, value: object) -> None:
    base, peft_folder = folders
    change(peft_folder, **{name: value})
    with pytest.raises(ModelError) as caught:
        import_model(peft_folder, tmp_path / "out", base=base)
    assert caught.value.name == name and not (tmp_path / "out").exists()


@pytest.mark.parametrize("names", [
    ["transformer.h.0.attn.c_attn.lora_A"], [f"transformer.h.9.attn.c_attn.lora_{it}" for it in "AB"],
    ["transformer.wte.lora_embedding_A"], ["transformer.wte.lora_A", "transformer.wte.lora_B"], [],
])  # fmt: skip
def test_tensors_that_do_not_fit_are_named(folders, tmp_path: Path, names: list[str]) -> None:
    base, peft_folder = folders
    given = {f"base_model.model.{name}.weight": torch.zeros(2, 2) for name in names}
    (peft_folder / "adapter_model.safetensors").write_bytes(weights_to_bytes(given))
    with pytest.raises(ModelError) as caught:
        import_model(peft_folder, tmp_path / "out", base=base)
    assert caught.value.name and not (tmp_path / "out").exists()


def test_an_adapter_needs_its_base_and_a_model_needs_none(folders, tmp_path: Path) -> None:
    base, peft_folder = folders
    for folder, given in ((peft_folder, None), (tmp_path / "hf", base)):
        with pytest.raises(ModelError) as caught:
            import_model(folder, tmp_path / "out", base=given)
        assert caught.value.name == "base"
    with pytest.raises(ModelError, match="the base doesn't have"):
        import_model(peft_folder, tmp_path / "out", base=Path("demo"))
    with pytest.raises(ModelError):
        export(load(base).loaded, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not is_adapter(base)
