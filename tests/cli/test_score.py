import json
from pathlib import Path

import pytest

from clearhead import load, read_pairs

from .conftest import Run


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
    for value in values:
        assert len(value["logprobs"]) == len(value["tokens"]) + 1
        assert sum(value["logprobs"]) == pytest.approx(value["log_probability"])


def test_the_score_of_a_translation_is_the_one_that_the_search_reports(model_folder: Path, pairs: Path) -> None:
    app = load(model_folder, device="cpu")
    for scored in app.score(read_pairs([pairs]))[0]:
        found = app.results([scored.source], prefix=scored.text, max_len=len(scored.tokens))[0]
        n = len(scored.tokens)
        assert found.tokens[:n] == scored.tokens
        assert list(scored.logprobs[:n]) == pytest.approx(list(found.logprobs[:n]), abs=1e-5)
        if found.tokens == scored.tokens and len(found.logprobs) == n + 1:  # the search came to the end by itself
            assert scored.score == pytest.approx(found.score, abs=1e-5)


def test_pairs_that_are_too_long_are_left_out_and_counted(run: Run, model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "long.tsv").write_text(f"I\tJe\n{'hungry ' * 40}\tfaim\nShe\tElle\n", encoding="utf-8")
    done = run("score", model_folder, tmp_path / "long.tsv")
    assert [line.split("\t")[0] for line in done.out.splitlines()] == ["1", "3"]
    assert "skipped 1: longer than 39 tokens (model.max_len)" in done.err
    assert "2 of 3 lines used" in done.err


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
    assert done.code == 2 and "unknown option '--beam' of `clearhead score`" in done.err


def test_a_wrong_length_penalty_is_refused_before_the_pairs_are_read(run: Run, model_folder: Path) -> None:
    done = run("score", model_folder, "absent.tsv", "--alpha", "-1")
    assert done.code == 2 and "decode.alpha = -1.0 cannot be used; expected at least 0" in done.err


def test_scoring_without_a_file_or_a_model_is_a_wrong_use(run: Run, model_folder: Path) -> None:
    done = run("score", model_folder)
    assert (done.code, done.out) == (2, "") and "no file of pairs is given" in done.err
    assert run("score").code == 2
