"""The Go reader answers what Python answers, with the same log-probabilities, whatever the model is made of."""

from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.config.renamed import carried_over
from clearhead.folder.model_folder import load_model_folder, model_files, save_files
from tests.builders import ENGLISH, pairwise

from .conftest import Answer, make_folder

PARTS: dict[str, list[Any]] = {
    "model.positions": ["sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "alibi"],
    "model.norm": ["layer", "rms"],
    "model.pre_norm": [False, True],
    "model.feed_forward": ["relu", "gelu", "swiglu"],
    "model.n_kv_heads": [None, 2, 1],
    "model.bias": [True, False],
    "model.tie": ["all", "target", "none"],
    "model.copy": [False, True],
    "data.tokenizer": ["bpe", "unigram", "word", "character"],
}
TEXTS = [*ENGLISH, "I am here, and you are there.", "", "  ", "Unknown wörds: 𝒳 and naïve ones", "a " * 20]


MORE_PARTS: dict[str, list[Any]] = {
    "model.d_head": [None, 6],
    "model.positions": ["rotary"],
    "model.rotary_scaling": ["none", "linear:4", "llama3:8:1:4:20", "yarn:4:10:40"],
    "model.rotary_base": [10_000.0, 500.0],
    "model.attention_scale": [None, 0.7],
    "model.window": [None, 5],
    "model.final_norm": [None, True],
    "model.embedding_norm": [False, True],
    "model.embedding_scale": [None, 1.5],
    "model.feed_forward": ["gelu_tanh", "silu", "geglu"],
    "model.qkv_bias": [None, False],
    "model.tie": ["embeddings", "target"],
    "model.projection_bias": [None, True, False],
    "model.logit_scale": [1.0, 0.6],
}


def pairwise_named(parts: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """A few combinations in which every two values of different parts meet."""
    return [dict(zip(parts, row)) for row in pairwise(*parts.values())]


def more_rows() -> list[dict[str, Any]]:
    """Combinations of MORE_PARTS, with both parts of model.rotary in one."""
    sections = [
        {"model": {name.removeprefix("model."): it for name, it in row.items()}} for row in pairwise_named(MORE_PARTS)
    ]
    return [{f"model.{name}": it for name, it in carried_over(each)["model"].items()} for each in sections]


def assert_equal(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """The same texts, and log-probabilities within a few times the rounding error of float32.

    A model that repeats itself can give two answers the same score. Rounding then decides, in one text at most.
    """
    assert len(found) == len(expected)
    ties = [ours["tokens"] != list(theirs["tokens"]) for ours, theirs in zip(found, expected)]
    assert sum(ties) <= 1
    for ours, theirs, tie in zip(found, expected, ties):
        assert ours["score"] == pytest.approx(theirs["score"], abs=1e-5 if tie else 1e-4)
        if not tie:
            assert ours["text"] == theirs["text"]
            assert ours["logprobs"] == pytest.approx(theirs["logprobs"], abs=3e-4)  # float32, by other sums


def numbered(combination: dict[str, Any]) -> str:
    return "-".join(str(value) for value in combination.values())


@pytest.mark.parametrize("values", [*pairwise_named(PARTS), *more_rows()], ids=numbered)
def test_every_two_parts_together_answer_as_in_python(values: dict[str, Any], tmp_path: Path, answer: Answer) -> None:
    folder = make_folder(tmp_path, values)
    app = clearhead.load(folder)
    for beam in (1, 4):
        expected = [it.to_dict() for it in app.results(TEXTS, beam=beam)]
        found = answer(folder, TEXTS, "--beam", str(beam))
        assert_equal(found, expected)
        assert [(it["long"], it["cut"]) for it in found] == [(it["long"], it["cut"]) for it in expected]


LANGUAGE_MODELS = pairwise_named({name: PARTS[name] for name in PARTS if name not in ("model.copy", "model.tie")})
LANGUAGE_MODELS += more_rows()


@pytest.mark.parametrize("values", LANGUAGE_MODELS, ids=numbered)
def test_every_two_parts_together_continue_as_in_python(values: dict[str, Any], tmp_path: Path, answer: Answer) -> None:
    kind = {"model.topology": "decoder-only", "train.task": "generate", "decode.unknown": "unk", "decode.sample": True}
    window = {"model.max_len": 12, "decode.max_extra": 20}  # shorter than most texts
    folder = make_folder(tmp_path, {**values, **kind, **window})
    app = clearhead.load(folder)
    for beam in (1, 3):
        expected = [found[0] for found in app.continuations(TEXTS, sample=False, beam=beam)]
        found = answer(folder, TEXTS, "--beam", str(beam))
        assert_equal(found, [vars(it) for it in expected])
        assert [(it["why"], it["unread"]) for it in found] == [(it.why, it.unread) for it in expected]


SEARCHES = [
    {"decode.beam": 3, "decode.alpha": 0.0},
    {"decode.beam": 2, "decode.max_len": 4},
    {"decode.beam": 4, "decode.min_len": 5, "decode.alpha": 2.0},
    {"decode.beam": 3, "decode.min_ratio": 0.8, "decode.max_ratio": 1.2},
    {"decode.beam": 3, "decode.no_repeat_ngram": 1, "decode.max_extra": 15},
    {"decode.beam": 1, "decode.no_repeat_ngram": 2, "decode.repetition_penalty": 1.5, "decode.max_extra": 15},
    {"decode.beam": 5, "decode.suppress": ["▁sommes", "▁Qu'", "."], "data.tokenizer": "word"},
    {
        "decode.beam": 2,
        "decode.n_best": 2,
        "decode.diverse": True,
        "data.normalise": ("NFKC", "lowercase", "whitespace"),
    },
    {"decode.beam": 50, "decode.max_extra": 2, "data.tokenizer": "word"},
]


@pytest.mark.parametrize("values", SEARCHES, ids=lambda values: "-".join(values))
def test_a_search_has_the_settings_of_the_model(values: dict[str, Any], tmp_path: Path, answer: Answer) -> None:
    folder = make_folder(tmp_path, {"model.positions": "relative", **values})
    expected = [it.to_dict() for it in clearhead.load(folder).results(TEXTS, n_best=1)]
    assert_equal(answer(folder, TEXTS), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_weights_of_every_precision_are_read(dtype: torch.dtype, tmp_path: Path, answer: Answer) -> None:
    folder = make_folder(tmp_path, {"model.d_model": 32})
    weights = {name: tensor.to(dtype) for name, tensor in load_model_folder(folder).weights.items()}
    save_files(folder, model_files(weights={name: it.to(torch.float32) for name, it in weights.items()}))
    expected = answer(folder, TEXTS)  # the same numbers in float32
    save_files(folder, model_files(weights=weights))
    assert answer(folder, TEXTS) == expected


def test_a_batch_and_threads_change_nothing(tmp_path: Path, answer: Answer) -> None:
    folder, texts = make_folder(tmp_path, {}), [f"{a} {b}" for a in ENGLISH for b in ENGLISH for _ in range(3)]
    together = answer(folder, texts, "--threads", "3")
    assert together == answer(folder, texts, "--threads", "1")
    assert together[7] == answer(folder, texts[7:8])[0]
