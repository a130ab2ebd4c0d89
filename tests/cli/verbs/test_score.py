import json
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead import load, read_pairs
from clearhead.api import Translator

from ..conftest import Run

EOS = 2  # the special tokens of a new vocabulary


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("She sings.\tElle chante.\nno tab\nI am hungry.\tJ'ai faim.\n", encoding="utf-8")
    return path


def test_each_pair_has_its_line_log_probability_and_score(run: Run, model_folder: Path, pairs: Path) -> None:
    done = run("score", model_folder, pairs)
    assert done.code == 0 and "skipped 1: no tab" in done.err
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["1", "3"]
    scored, _ = load(model_folder, device="cpu").score(read_pairs([pairs]))
    assert [[float(row[1]), float(row[2])] for row in rows] == [
        pytest.approx([it.log_probability, it.score], abs=1e-6) for it in scored
    ]


def test_json_has_the_tokens_with_their_probabilities(run: Run, model_folder: Path, pairs: Path) -> None:
    values = [json.loads(line) for line in run("score", model_folder, pairs, "--json").out.splitlines()]
    assert [value["source"] for value in values] == ["She sings.", "I am hungry."]
    keys = {"format_version", "line", "source", "text", "score", "log_probability", "tokens", "logprobs"}
    for value in values:
        assert value.keys() == keys and value["format_version"] == 1
        assert len(value["logprobs"]) == len(value["tokens"]) + 1
        assert sum(value["logprobs"]) == pytest.approx(value["log_probability"])


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models whose random weights rarely end a sentence do."""

    def load_ending(*arguments: Any, **named: Any) -> Translator:
        app = load(*arguments, **named)
        likelier = torch.zeros(app.config.model.tgt_vocab_size)
        likelier[EOS] = 4.0
        app.model.decoder.projection.register_forward_hook(lambda _part, _inputs, logits: logits + likelier)
        return app

    monkeypatch.setattr("clearhead.api.load", load_ending)


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize(
    "options",
    [[], ["--alpha", "0"], ["--beam", "1"], ["--max-len", "2"], ["--n-best", "4", "--no-repeat-ngram", "1"]],
)
def test_the_score_of_a_translation_is_the_one_that_it_was_reported_with(
    run: Run, word_model_folder: Path, tmp_path: Path, options: list[str]
) -> None:
    texts = ["I am hungry.", "She sings.", "We are here, and you are late.", "They sleep well."]
    done = run("translate", word_model_folder, *texts, "--json", "--min-len", "2", *options)
    results = [json.loads(line) for line in done.out.splitlines()]
    answers = [(result["source"], answer) for result in results for answer in (result, *result["alternatives"])]
    lines = [json.dumps({"source": source, "target": answer["text"]}) for source, answer in answers]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    alpha = options if "--alpha" in options else []
    done = run("score", word_model_folder, tmp_path / "pairs.jsonl", "--json", *alpha)
    scored = [json.loads(line) for line in done.out.splitlines()]
    assert [it["text"] for it in scored] == [answer["text"] for _, answer in answers]
    compared = 0
    for it, (_, answer) in zip(scored, answers):
        n = len(answer["tokens"])
        if it["tokens"] == answer["tokens"] and len(answer["logprobs"]) == n + 1:  # cut as it was made, and ended
            compared += 1
            assert it["logprobs"] == pytest.approx(answer["logprobs"], abs=1e-5)
            assert it["score"] == pytest.approx(answer["score"], abs=1e-5)
    assert compared > len(answers) / 2


def test_pairs_that_are_too_long_are_left_out_and_counted(run: Run, model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "long.tsv").write_text(f"I\tJe\n{'hungry ' * 40}\tfaim\nShe\tElle\n", encoding="utf-8")
    done = run("score", model_folder, tmp_path / "long.tsv")
    assert [line.split("\t")[0] for line in done.out.splitlines()] == ["1", "3"]
    assert "skipped 1: longer than 39 tokens (model.max_len)" in done.err
    assert "2 of 3 lines used" in done.err


def test_pairs_longer_than_those_of_the_training_are_scored(model_folder: Path, pairs: Path) -> None:
    app, read = load(model_folder, device="cpu"), read_pairs([pairs])
    scored, report = app.override({"data.max_len": 3, "data.batch_tokens": 4}).score(read)
    assert min(len(it.tokens) for it in scored) > 3 and "longer than" not in str(report)
    assert [it.score for it in scored] == pytest.approx([it.score for it in app.score(read)[0]])


def test_scoring_leaves_the_pairs_and_their_report_as_they_were(model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "long.tsv").write_text(f"I\tJe\n{'hungry ' * 40}\tfaim\n", encoding="utf-8")
    app, read = load(model_folder, device="cpu"), read_pairs([tmp_path / "long.tsv"])
    before = str(read.report)
    reports = [str(app.score(read)[1]) for _ in range(2)]
    assert str(read.report) == before and "skipped" not in before
    assert reports[0] == reports[1] and "skipped 1: longer than" in reports[0]


def test_of_the_search_only_the_length_penalty_is_a_matter_of_scoring(
    run: Run, model_folder: Path, pairs: Path
) -> None:
    done = run("score", model_folder, pairs, "--alpha", "0")
    assert all(row.split("\t")[1] == row.split("\t")[2] for row in done.out.splitlines())
    assert done.out != run("score", model_folder, pairs).out
    done = run("score", model_folder, pairs, "--beam", "2")
    assert done.code == 2 and "'--beam'" in done.err


def test_a_wrong_length_penalty_is_refused_before_the_pairs_are_read(run: Run, model_folder: Path) -> None:
    done = run("score", model_folder, "absent.tsv", "--alpha", "-1")
    assert done.code == 2 and "--alpha -1" in done.err


def test_scoring_without_a_file_or_a_model_is_a_wrong_use(run: Run, model_folder: Path) -> None:
    done = run("score", model_folder)
    assert (done.code, done.out) == (2, "")
    assert run("score").code == 2
