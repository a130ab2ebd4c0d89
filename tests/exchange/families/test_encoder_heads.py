"""BERT, DistilBERT and RoBERTa, with each of their heads, compute the same here as in their own classes."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file

import clearhead
from clearhead.errors import ModelError
from clearhead.exchange.huggingface import folder_files
from clearhead.exchange.import_model import import_model, read
from clearhead.exchange.imported import Imported
from clearhead.model.transformer import Encoder
from tests.builders import byte_level

from ..conftest import save_exported, shaken, unicode_lines, word_piece

LINES = unicode_lines()
LABELS = {0: "bad", 1: "so-so", 2: "good"}
CLASSES = {
    "embed": "Model",
    "fill": "ForMaskedLM",
    "classify": "ForSequenceClassification",
    "answer": "ForQuestionAnswering",
}
SHAPE = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 36}
DISTILBERT = {"dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 36}
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


@dataclass
class Saved:
    """A folder, with the model and the tokenizer in it."""

    folder: Path
    model: Any
    tokenizer: tokenizers.Tokenizer
    pad: int

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Token ids with special tokens."""
        return [it.ids for it in self.tokenizer.encode_batch(lines)]

    def batch(self, lengths: tuple[int, ...] = (20, 13)) -> torch.Tensor:
        """Random tokens with padding at the end."""
        draw = torch.Generator().manual_seed(1)
        tokens = torch.randint(6, 300, (len(lengths), max(lengths)), generator=draw)
        for row, length in enumerate(lengths):
            tokens[row, length:] = self.pad
        return tokens

    def outputs(self, tokens: torch.Tensor, model: Any = None, **more: Any) -> Any:
        """Return the outputs of their class."""
        with torch.no_grad():
            return (self.model if model is None else model)(tokens, attention_mask=(tokens != self.pad).long(), **more)


def their_scores(found: Any, real: torch.Tensor) -> torch.Tensor:
    """Return what a class computes: one vector for each text, or for each real token."""
    if "start_logits" in found:
        return torch.stack((found.start_logits, found.end_logits), -1)[real]
    scores = found.logits if "logits" in found else found.last_hidden_state
    return scores[real] if scores.shape[:2] == real.shape else scores


def our_scores(model: torch.nn.Module, tokens: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Return the same of our model."""
    with torch.no_grad():
        if isinstance(model, Encoder):
            return model(tokens, mask=model.embedding.mask(tokens))[real]
        scores = model(tokens)
    return scores[real] if scores.shape[:2] == real.shape else scores


def byte_level_tokenizer() -> tokenizers.Tokenizer:
    found = byte_level(LINES[:300], 400, ROBERTA)
    found.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True)])
    found.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return found


TOKENIZERS = {"Bert": word_piece(LINES[:300]), "DistilBert": word_piece(LINES[:300]), "Roberta": byte_level_tokenizer()}


def of(*tasks: str) -> list[tuple[str, str]]:
    return [(family, task) for family in TOKENIZERS for task in tasks]


@pytest.fixture(scope="module", params=of(*CLASSES), ids="-".join)
def saved(hf, request, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    family, task = request.param
    tokenizer = TOKENIZERS[family]
    shape = DISTILBERT if family == "DistilBert" else SHAPE
    labels = {"id2label": LABELS, "label2id": {it: i for i, it in LABELS.items()}} if task == "classify" else {}
    # The embedding of padding isn't zero once it's shaken, and the first rows of RoBERTa's positions are never read.
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 48}
    config = getattr(hf, f"{family}Config")(**shape, **sizes, **labels)
    torch.manual_seed(0)
    model = shaken(getattr(hf, f"{family}{CLASSES[task]}")(config)).double()
    folder = tmp_path_factory.mktemp(family)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return Saved(folder, model, tokenizer, config.pad_token_id)


@pytest.fixture(scope="module")
def imported(saved: Saved) -> Imported:
    return read(saved.folder)


@pytest.fixture(scope="module")
def app(saved: Saved, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return clearhead.load(import_model(saved.folder, tmp_path_factory.mktemp("models") / "model"))


def test_hidden_states_and_scores_are_equal(saved: Saved, opened, float64) -> None:
    _, ours = opened(saved.folder)
    tokens = saved.batch()
    real, encoder = tokens != saved.pad, getattr(ours, "encoder", ours)
    states: list[torch.Tensor] = []
    hooks = [block.register_forward_hook(lambda _, __, out: states.append(out)) for block in encoder.blocks]
    expected = saved.outputs(tokens, output_hidden_states=True)
    found = our_scores(ours, tokens, real)
    for hook in hooks:
        hook.remove()
    for mine, theirs in zip(states, expected.hidden_states[1:], strict=True):
        torch.testing.assert_close(mine[real], theirs[real], rtol=0, atol=1e-10)
    torch.testing.assert_close(found, their_scores(expected, real), rtol=0, atol=1e-10)


def test_token_ids_are_equal(saved: Saved, app) -> None:
    source = app.tokenizers.source
    ours = [source.special.source(ids, begins=True) for ids in source.encode_batch(LINES)]
    assert ours == saved.encode(LINES)


def test_what_is_exported_is_what_was_imported(saved: Saved, imported: Imported, hf, tmp_path) -> None:
    save_exported(imported, tmp_path)
    suffix = CLASSES[imported.config.train.task].removeprefix("Model")
    again = getattr(hf, f"AutoModel{suffix}").from_pretrained(tmp_path)
    tokens = saved.batch()
    real = tokens != saved.pad
    expected, found = (their_scores(saved.outputs(tokens, it), real) for it in (saved.model, again.double()))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert hf.AutoTokenizer.from_pretrained(tmp_path)(LINES[:50])["input_ids"] == saved.encode(LINES[:50])
    back = read(tmp_path)
    assert back.config == imported.config
    assert back.weights.keys() == imported.weights.keys()
    assert all(back.weights[name].equal(it) for name, it in imported.weights.items())


@pytest.mark.parametrize("saved", of("classify"), indirect=True, ids="-".join)
def test_texts_get_the_same_labels(saved: Saved, app) -> None:
    lines = [line for line in LINES if len(saved.encode([line])[0]) <= 46][:20]
    for line, found in zip(lines, app.results(lines), strict=True):
        expected = saved.outputs(torch.tensor(saved.encode([line]))).logits.softmax(-1)[0]
        assert found.label == LABELS[int(expected.argmax())]
        assert list(found.probabilities.values()) == pytest.approx(sorted(expected.tolist(), reverse=True), abs=1e-5)


@pytest.mark.parametrize("saved", of("fill"), indirect=True, ids="-".join)
def test_masks_are_filled_with_the_same_tokens(saved: Saved, app) -> None:
    mask = app.tokenizers.source.mask_name
    for line in (line for line in LINES[:10] if len(saved.encode([line])[0]) < 40):
        text = f"{line} {mask} {line[:3]}"
        ids = torch.tensor(saved.encode([text]))
        place = ids[0].tolist().index(saved.tokenizer.token_to_id(mask))
        best = saved.outputs(ids).logits[0, place].softmax(-1).topk(5)
        [found] = app.results([text], top=5)[0].masks
        assert [it.probability for it in found] == pytest.approx(best.values.tolist(), abs=1e-5)


@pytest.mark.parametrize("saved", of("embed"), indirect=True, ids="-".join)
def test_embeddings_are_the_mean_of_the_last_states(saved: Saved, app) -> None:
    lines = [line for line in LINES if len(saved.encode([line])[0]) <= 46][:20]
    expected = [saved.outputs(torch.tensor(saved.encode([line]))).last_hidden_state[0].mean(0) for line in lines]
    torch.testing.assert_close(torch.tensor(app.embed(lines)).double(), torch.stack(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize("saved", of("answer"), indirect=True, ids="-".join)
def test_a_window_is_the_pair_of_texts_that_the_class_reads(saved: Saved, app) -> None:
    question, text = "Which one?", "This one or that one."
    pair = saved.tokenizer.encode(question, text)
    window = app.task.cutter.windows(*map(app.tokenizers.source.encode, (question, text)))[0]
    assert window.tokens == pair.ids


@pytest.fixture
def changed(hf, tmp_path: Path) -> Any:
    """Return the folder of a small classifier of a family, with these settings changed."""

    def changed(family: str, task: str = "classify", **settings: Any) -> Path:
        shape = DISTILBERT if family == "DistilBert" else SHAPE
        tokenizer = TOKENIZERS[family]
        sizes = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 48}
        getattr(hf, f"{family}{CLASSES[task]}")(getattr(hf, f"{family}Config")(**shape, **sizes)).save_pretrained(
            tmp_path
        )
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        values = json.loads((tmp_path / "config.json").read_text()) | settings
        (tmp_path / "config.json").write_text(json.dumps(values))
        return tmp_path

    return changed


@pytest.mark.parametrize(("family", "task", "name", "value"), [
    ("Bert", "classify", "position_embedding_type", "relative_key"), ("Bert", "classify", "is_decoder", True),
    ("Roberta", "classify", "add_cross_attention", True), ("Bert", "classify", "hidden_act", "mish"),
    ("DistilBert", "classify", "activation", "mish"), ("Bert", "classify", "problem_type", "regression"),
    ("Roberta", "classify", "id2label", {"0": "LABEL_0"}), ("Bert", "fill", "tie_word_embeddings", False),
    ("Roberta", "fill", "hidden_act", "relu"), ("Bert", "classify", "id2label", {"0": "a", "2": "b"}),
])  # fmt: skip
def test_a_setting_that_is_not_supported_is_named(changed, family, task, name, value) -> None:
    with pytest.raises(ModelError) as caught:
        read(changed(family, task, **{name: value}))
    assert (caught.value.name, caught.value.value) == (name, value)


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
def test_several_labels_are_independent_and_thresholds_are_kept(changed, hf, family, tmp_path) -> None:
    folder = changed(family, problem_type="multi_label_classification", thresholds=[0.2, 0.9])
    app = clearhead.load(import_model(folder, tmp_path / "model"))
    assert (app.config.data.label_separator, app.config.data.thresholds) == ("|", (0.2, 0.9))
    theirs = hf.AutoModelForSequenceClassification.from_pretrained(folder)
    [text] = [line for line in LINES[:40] if 5 < len(line) < 30][:1]
    ids = torch.tensor([TOKENIZERS[family].encode(text).ids])
    with torch.no_grad():
        expected = theirs.eval()(ids).logits.sigmoid()[0].tolist()
    [found] = app.results([text])
    assert [found.probabilities[f"LABEL_{i}"] for i in range(2)] == pytest.approx(expected, abs=1e-5)
    assert {*found.labels} == {f"LABEL_{i}" for i in range(2) if expected[i] >= (0.2, 0.9)[i]}
    (tmp_path / "exported").mkdir()
    imported = read(folder)
    save_exported(imported, tmp_path / "exported")
    values = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert (values["problem_type"], values["thresholds"]) == ("multi_label_classification", [0.2, 0.9])
    assert read(tmp_path / "exported").config == imported.config


@pytest.mark.parametrize("thresholds", [[0.5], [0.5, 2], "0.5"])
def test_thresholds_that_do_not_fit_the_labels_are_an_error(changed, thresholds) -> None:
    with pytest.raises(ModelError) as caught:
        read(changed("Bert", problem_type="multi_label_classification", thresholds=thresholds))
    assert caught.value.name == "thresholds"


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
def test_a_number_is_the_output_of_an_exported_head_and_of_one_read_again(changed, hf, family, tmp_path) -> None:
    imported = read(changed(family))
    theirs = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    [text] = [line for line in LINES[:40] if 5 < len(line) < 30][:1]
    ids = torch.tensor([TOKENIZERS[family].encode(text).ids])
    number = {"data.label_kind": "number", "data.labels": ("stars",), "data.number_scale": (10.0, 4.0)}
    config = imported.config.assign({**number, "model.n_classes": 1}, "data")
    weights = {name: it[:1] if name.startswith("head.linear.") else it for name, it in imported.weights.items()}
    (out := tmp_path / "exported").mkdir()
    save_exported(replace(imported, config=config, weights=weights), out)
    again = hf.AutoModelForSequenceClassification.from_pretrained(out).eval()
    assert (again.config.problem_type, again.config.id2label) == ("regression", {0: "stars"})
    with torch.no_grad():
        expected = 10 + 4 * theirs(ids).logits[0, 0].item()
        assert again(ids).logits[0].tolist() == pytest.approx([expected], abs=1e-5)
    app = clearhead.load(import_model(out, tmp_path / "model"))
    assert app(text) == pytest.approx(expected, abs=1e-5) and app.labels == ("stars",)


def test_several_targets_have_no_counterpart(changed, tmp_path) -> None:
    imported = read(changed("Bert"))
    labels = {"data.label_kind": "targets", "data.labels": ("a=x", "b=x")}
    with pytest.raises(ModelError) as caught:
        save_exported(replace(imported, config=imported.config.assign(labels, "data")), tmp_path)
    assert (caught.value.name, caught.value.value) == ("data.label_kind", "targets")


def test_a_class_that_is_not_supported_is_named(changed) -> None:
    with pytest.raises(ModelError) as caught:
        read(changed("Bert", architectures=["BertForTokenClassification"]))
    assert (caught.value.name, caught.value.value) == ("architectures", "BertForTokenClassification")


def test_a_tokenizer_without_the_token_that_begins_a_text_is_an_error(changed) -> None:
    folder = changed("Bert")
    TOKENIZERS["Roberta"].save(str(folder / "tokenizer.json"))
    with pytest.raises(ModelError) as caught:
        read(folder)
    assert caught.value.name == "cls_token_id" and caught.value.expected


def test_norms_can_have_their_older_names(changed) -> None:
    folder = changed("Bert")
    expected = read(folder).weights
    weights = load_file(folder / "model.safetensors")
    for name in list(weights):
        if "LayerNorm" in name:
            other = name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
            weights[other] = weights.pop(name)
    save_file(weights | {"bert.embeddings.position_ids": torch.arange(48)[None]}, folder / "model.safetensors")
    found = read(folder).weights
    assert found.keys() == expected.keys() and all(it.equal(expected[name]) for name, it in found.items())


def test_an_own_model_with_parts_of_no_family_is_rejected_by_name(changed) -> None:
    imported = read(changed("Bert"))
    config = imported.config.override({"model.pooling": "mean"})
    with pytest.raises(ModelError) as caught:
        folder_files(config, imported.weights, imported.tokenizer)
    assert (caught.value.name, caught.value.value) == ("model.pooling", "mean")
    assert "first" in caught.value.expected
