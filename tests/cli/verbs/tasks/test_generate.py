"""`clearhead train FILE --task generate`, `generate` and `evaluate`, as a user would call them."""

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import clearhead
from clearhead import ConfigError, DataError
from clearhead.training import schedule
from clearhead.training.choices import budget

from ...conftest import Done, Run

EOS = 2  # the special tokens of a new vocabulary

TEXT = "by day:\n\tfox runs.\n"  # each letter follows from the two before it
SMALL = [
    "--data.tokenizer=character", "--data.max_len=16", "--data.batch_tokens=256", "--model.d_model=32",
    "--model.n_heads=2", "--model.d_ff=64", "--model.n_decoder_layers=2", "--model.dropout=0", "--train.threads=1",
    "--train.precision=fp32", "--train.optimizer=adam", "--train.lr=0.01", "--train.warmup=10",
    "--train.eval_every=30", "--train.save_every=30",
]  # fmt: skip


@pytest.fixture(scope="module")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text(TEXT * 90, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def made(text_file: Path) -> tuple[Path, list[str]]:
    """A model folder that knows the toy by heart, and what was said. Not to be written to."""
    from clearhead.cli.parser import parse
    from clearhead.cli.setting_options import configure
    from clearhead.cli.verbs.train import VERB

    out, said = text_file.parent / "model", []
    options = ["--data.split=0.1", "--test", str(text_file), "--train.steps=120"]
    config = configure(parse(VERB, ["--data.train", str(text_file), "--out", str(out), *SMALL, *options]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
        clearhead.train(config, out, say=said.append)
    return out, said


@pytest.fixture
def folder(made: tuple[Path, list[str]]) -> Path:
    return made[0]


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """One that may be written to."""
    return Path(shutil.copytree(folder, tmp_path / "own"))


# --- training


def test_running_text_is_known_by_looking_and_what_follows_is_said(
    made: tuple[Path, list[str]], text_file: Path
) -> None:
    folder, said = made
    assert said[0].startswith("task: generate")
    told = "\n".join(said)
    assert f"{text_file}: text, 1,710 characters in 1 document; 180 of 180 lines used" in told
    assert "held out the last 171 of 1,710 characters, from " in told
    assert "tokens: 96 blocks in" in told and "96 blocks, 1,536 tokens per epoch; 120 steps" in told
    assert "validation: bits per byte 0." in told and "(171 characters, step" in told
    assert "test: bits per byte 0." in told and "(1,710 characters, step" in told
    assert said[-1] == f'use it: clearhead generate {folder} "once upon a time"'
    assert (folder / "loss.png").exists()


def test_the_toy_is_learnt(run: Run, folder: Path, text_file: Path) -> None:
    values = json.loads(run("evaluate", folder, "--data", text_file, "--json").out)
    assert values["perplexity"] < 1.2 and values["bits_per_byte"] < 0.25
    assert values["unknown"] == 0 and values["characters"] == 1710


def test_the_card_says_what_it_is_and_how_good(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# A language model\n")
    assert 'clearhead generate THIS_FOLDER "once upon a time"' in card
    assert "96 blocks of text from `book.txt`" in card
    assert "| on | characters | bits per byte | nats per character |" in card
    assert "| validation | 171 |" in card and "| test | 1,710 |" in card


def test_what_was_stopped_goes_on_to_the_same_bits(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dict(option.removeprefix("--").split("=") for option in SMALL)
    settings |= {"data.train": (str(text_file),), "train.task": "generate"}
    settings |= {"train.steps": 12, "train.eval_every": 5, "train.save_every": 4}
    config = clearhead.Config().override(settings)
    monkeypatch.setattr("clearhead.training.run.loss_curve", lambda *_: None)
    whole = clearhead.train(config, tmp_path / "whole", say=lambda _: None)

    class Killed(BaseException): ...

    def kill(record: dict) -> None:
        if record["step"] == 7:
            raise Killed

    with pytest.raises(Killed):
        clearhead.train(config, tmp_path / "parts", say=lambda _: None, on_step=kill)
    said: list[str] = []
    parts = clearhead.train(config, tmp_path / "parts", resume=True, say=said.append)
    assert any(message.startswith(f"resuming {parts} at step 4 of 12") for message in said)
    for name in ("model.safetensors", "tokenizer.json", "README.md", "checkpoints/step-00000012/optimizer.safetensors"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_budget_chooses_shape_and_steps(
    run: Run, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = budget.Measured("nano", 500_000, 0.01, 100)
    monkeypatch.setattr(budget, "_measure", lambda *_: measured)  # a second a step or a hundredth, by the machine
    monkeypatch.setattr(schedule, "process_began", time.monotonic)  # the tests before this one are no part of it
    monkeypatch.setattr(schedule.Deadline, "last_step", lambda self, step, last, eval_every: min(last, 3))
    small = ["--train.threads=1", "--data.max_len=16", "--data.tokenizer=character", "--data.batch_tokens=64"]
    done = run("train", text_file, "--task", "generate", "--budget", "40s", "--out", tmp_path / "m", *small)
    assert done.code == 0, done.err
    assert "train.preset = nano: " in done.err and "train.warmup = " in done.err
    assert "bits per byte" in done.err and "use it: clearhead generate" in done.err
    config = clearhead.load(tmp_path / "m").config
    assert config.train.budget == "40s" and config.train.steps > 100 and config.model.topology == "decoder-only"


def test_a_text_that_is_too_short_is_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("by day\n")
    done = run("train", tmp_path / "short.txt", "--task", "generate", "--out", tmp_path / "m", *SMALL)
    assert done.code == 1 and "data.max_len" in done.err


@pytest.mark.parametrize(
    "option", ["--model.topology=encoder-decoder", "--train.best=bleu", "--data.subword_dropout=0.1"]
)
def test_what_is_not_for_the_task_is_rejected(run: Run, text_file: Path, tmp_path: Path, option: str) -> None:
    done = run("train", text_file, "--task", "generate", "--out", tmp_path / "m", option)
    assert done.code == 2 and option.strip("-").split("=")[0] in done.err and not (tmp_path / "m").exists()


# --- generating


def test_the_prompt_and_exactly_so_many_characters_more_are_printed(run: Run, folder: Path) -> None:
    done = run("generate", folder, "by day", "--chars", 500, "--greedy")
    assert done.code == 0 and done.out == clearhead.load(folder)("by day", chars=500, sample=False, beam=1) + "\n"
    assert len(done.out) == 6 + 500 + 1 and done.out[:100] == (6 * TEXT)[:100]
    assert done.err.startswith("the text is longer than the context window of 16 tokens: ")


def test_a_text_ends_before_the_first_of_the_stop_strings(run: Run, folder: Path) -> None:
    greedy = ("generate", folder, "by day", "--chars", 80, "--greedy")
    assert run(*greedy, "--stop", "runs").out == "by day:\n\tfox \n"
    assert run(*greedy, "--stop", "runs", "--stop", "\n\tf").out == "by day:\n"
    assert run(*greedy, "--stop", "day").out == f"{TEXT}by \n"  # the prompt is no part of what is looked at


def test_a_drawn_text_depends_on_the_seed_alone(run: Run, folder: Path) -> None:
    drawn = [run("generate", folder, "by", "--chars", 60, "--seed", seed, "--temperature", 3).out for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and all(len(text) == 63 for text in drawn)


def test_without_a_text_it_begins_one_of_its_own(run: Run, folder: Path) -> None:
    done = run("generate", folder, "--greedy", "--chars", 12)
    assert done.code == 0 and len(done.out) == 12 + 1


def test_every_text_goes_on_alone(run: Run, folder: Path) -> None:
    both = run("generate", folder, "by", "fox", "--greedy", "--chars", 9).out
    assert both == "by day:\n\tfo\n\nfox runs.\nby\n"


def test_standard_input_is_a_text_with_its_lines(pipe: Callable[..., Done], folder: Path) -> None:
    done = pipe(b"by day:\n\tfox\n", "generate", folder, "-", "--greedy", "--chars", 6)
    assert done.out == "by day:\n\tfox runs.\n"
    damaged = pipe(b"by \xe9\n", "generate", folder, "-", "--chars", 8, "--unknown", "unk")
    assert damaged.code == 0
    assert "standard input isn't UTF-8" in damaged.err
    twice = pipe(b"by", "generate", folder, "-", "-")
    assert twice.code == 2 and "twice" in twice.err


def test_a_closed_standard_input_is_told(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    done = run("generate", folder, "-")
    assert done.code == 2 and "standard input is closed" in done.err


def test_unknown_characters_are_named_and_read_on_where_that_is_asked(run: Run, folder: Path) -> None:
    done = run("generate", folder, "√2 by day ж", "--chars", 9)
    assert done.code == 1 and done.out == ""
    assert all(it in done.err for it in ("'√', '2', 'ж'", "--unknown unk"))
    done = run("generate", folder, "√2 by day ж", "--chars", 9, "--unknown", "unk")
    assert done.code == 0 and done.out.startswith("√2 by day ж") and len(done.out) == 11 + 9 + 1
    app = clearhead.load(folder)
    with pytest.raises(DataError, match="'√'"):
        app("√")
    assert app("√", chars=3, unknown="unk")[0] == "√"


def test_the_best_of_a_search_is_printed_when_it_is_known_and_as_json_it_is_one(run: Run, folder: Path) -> None:
    search = ("generate", folder, "by day", "--decode.sample=false", "--beam", 3, "--max-len", 8)
    done = run(*search)
    assert done.code == 0 and done.err == ""
    expected = clearhead.load(folder)("by day", sample=False, beam=3, max_len=8)
    assert done.out == expected + "\n"
    (line,) = run(*search, "--json").out.splitlines()
    assert json.loads(line)["text"] == expected.removeprefix("by day")
    assert len(run(*search, "--n-best", 2, "--json").out.splitlines()) == 2


def test_what_ended_a_text_too_early_is_said_and_of_the_block_only_where_it_is_left(run: Run, folder: Path) -> None:
    done = run("generate", folder, "by", "fox", "--greedy", "--chars", 9, "--max-len", 4)
    assert done.out == "by day\n\nfox run\n"
    assert done.err == "decode.max_len ended a text before 9 characters; increase it or leave it out\n"
    assert run("generate", folder, "by", "--greedy", "--chars", 14).err == ""
    assert run("generate", folder, "by", "--greedy", "--chars", 15).err.startswith("the text is longer than")


def test_lengths_by_those_of_a_source_are_not_for_a_text_that_goes_on(run: Run, folder: Path) -> None:
    assert run("generate", folder, "by", "--max-ratio", 2).code == 2
    with pytest.raises(ConfigError) as caught:
        clearhead.load(folder)("by", max_ratio=2)
    assert (caught.value.name, caught.value.value) == ("decode.max_ratio", 2)


def test_json_has_tokens_and_probabilities(run: Run, folder: Path) -> None:
    done = run("generate", folder, "by day:\n\tfox ", "--chars", 6, "--greedy", "--json")
    values = json.loads(done.out)
    assert values["format_version"] == 1 and values["prompt"] == "by day:\n\tfox "
    assert values["text"] == "runs.\n" and values["tokens"] == [*"runs.", "\\n"]
    assert values["why"] == "chars" and values["unread"] == 0
    assert sum(values["logprobs"]) == pytest.approx(values["log_probability"]) and len(values["logprobs"]) == 6
    drawn = ("--n-best", 3, "--chars", 5, "--seed", 1, "--temperature", 4)
    several = [json.loads(line) for line in run("generate", folder, "by", "--json", *drawn).out.splitlines()]
    assert [len(it["text"]) for it in several] == [5, 5, 5] and len({it["text"] for it in several}) > 1
    assert [it["score"] for it in several] == sorted((it["score"] for it in several), reverse=True)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--chars", "0"], "--chars 0"),
        (["--chars", "many"], "--chars many"),
        (["--greedy", "--beam", "2"], "--greedy"),
        (["--greedy", "--sample"], "--greedy"),
        (["--greedy", "--seed", "3"], "--seed 3"),
        (["--n-best", "2"], "--json"),
        (["--stop", ""], "empty"),
        (["--beam", "2"], "leave --beam out, or add --decode.sample=false"),
        (["--engine", "warp"], "--engine 'warp'"),
    ],
)
def test_options_that_make_no_sense_are_rejected(run: Run, folder: Path, options: list[str], named: str) -> None:
    done = run("generate", folder, "by", *options)
    assert done.code == 2 and done.out == "" and named in done.err


def test_other_verbs_name_the_one_that_suits(run: Run, folder: Path, model_folder: Path) -> None:
    done = run("translate", folder, "x")
    assert done.code == 1 and f'clearhead generate {folder} "once upon a time"' in done.err
    done = run("generate", model_folder, "x")
    assert done.code == 1 and "clearhead translate" in done.err


# --- scoring and looking


def test_one_model_is_scored(run: Run, own: Path, text_file: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    done = run("evaluate", own, "--data", text_file, "--report", report)
    values = json.loads((own / "evaluation.json").read_text(encoding="utf-8"))
    assert done.code == 0 and [line[:18].strip() for line in done.out.splitlines()] == [
        "characters", "bits per byte", "nats per character", "token accuracy", "perplexity", "unknown tokens",
    ]  # fmt: skip
    assert f"{values['bits_per_byte']:.4f}  " in done.out
    assert values["examples"] == []
    lines = report.read_text(encoding="utf-8").splitlines()
    blocks = [line for line in lines if line.startswith("bits per byte") and '"' in line]
    assert len(blocks) == 30 and any(r"\n\tfox" in line for line in blocks)
    assert run("evaluate", own, "--data", text_file, "--report", tmp_path / "report.json").code == 0
    best = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["lines"]["best"]
    assert len(best) == 10 and set(best[0]) == {"source", "bits_per_byte"}
    assert [it["bits_per_byte"] for it in best] == sorted(it["bits_per_byte"] for it in best)


def test_unknown_characters_of_what_is_scored_are_counted(run: Run, own: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("by day √ж\n", encoding="utf-8")
    done = run("evaluate", own, "--data", tmp_path / "other.txt")
    assert "unknown tokens            2  " in done.out


def test_two_models_are_compared(run: Run, folder: Path, own: Path, text_file: Path) -> None:
    done = run("evaluate", own, own, "--data", text_file)
    assert done.code == 0 and done.out.splitlines()[0].split() == ["bits", "per", "byte", "95%", "p"]
    assert done.out.splitlines()[2].split()[-1] == "1.0000"
    values = json.loads(run("evaluate", own, folder, "--data", text_file, "--json").out)
    assert len(values["models"]) == 2 and set(values["significance"]) == {"bits_per_byte"}


def test_models_that_learnt_different_tasks_are_not_compared(
    run: Run, folder: Path, model_folder: Path, text_file: Path
) -> None:
    done = run("evaluate", folder, model_folder, "--data", text_file)
    assert done.code == 2 and str(folder) in done.err and str(model_folder) in done.err


def test_info_shows_the_stack_and_the_scores(run: Run, own: Path, text_file: Path) -> None:
    run("evaluate", own, "--data", text_file)
    done = run("info", own)
    assert done.code == 0 and done.out.startswith("decoder-only: 2 layers, d_model 32")
    assert "\nvalidation  bits per byte 0." in done.out and "\nevaluation  bits per byte 0." in done.out
    assert "(1,710 characters of" in done.out


# --- from Python


def test_pieces_are_the_text_and_the_record_comes_behind_them(folder: Path) -> None:
    app = clearhead.load(folder)
    stream = app.pieces("by", chars=40, sample=False)
    pieces = list(stream)
    assert "by" + "".join(pieces) == app("by", chars=40, sample=False, beam=1) and len(pieces) > 5
    assert stream.continuation is not None and stream.continuation.why == "chars"


def test_a_text_ends_where_the_model_ends_it(folder: Path) -> None:
    app = clearhead.load(folder)
    [[found, *_]] = app.continuations(["by"], sample=False, beam=1, max_len=5)
    assert found.why == "tokens" and len(found.ids) == 5
    assert EOS not in app.continuations(["by"], chars=50, seed=3, temperature=5.0)[0][0].ids


def test_a_list_gives_a_list_and_one_text_where_a_list_is_expected_is_refused(folder: Path) -> None:
    app = clearhead.load(folder)
    options = {"chars": 12, "sample": False}
    assert app(["by", "fox"], **options) == [app("by", **options), app("fox", **options)]
    with pytest.raises(DataError):
        app.continuations("by day")
    with pytest.raises(ConfigError, match="stop='fox'"):
        app("by", stop="fox")
    with pytest.raises(DataError):
        app.pieces(["by"])


def test_a_text_that_goes_on_is_explained(run: Run, folder: Path) -> None:
    app = clearhead.load(folder, device="cpu")
    begun = "by d"
    explanation = app.explain(begun, sample=False, beam=1, max_len=6)
    assert explanation.answer == app(begun, sample=False, beam=1, max_len=6) == "by day:\n\tf"
    assert explanation.tokens["decoder"][1:] == explanation.outputs[:-1] and explanation.places == ["decoder.self"]
    assert [*explanation.outputs[:3]] == ["y", "▁", "d"] and len(explanation.outputs) == len(begun) - 1 + 6
    assert explanation.lens.layers[-1].ranks[len(begun) - 1 :] == (0,) * 6  # greedy: each was the likeliest
    assert explanation.searched.cache_lengths == [*range(len(begun) - 1, len(begun) + 5)]
    done = run("explain", folder, begun, "--greedy", "--max-len", "6", "--why", "f", "--not", "x")
    assert done.out.startswith('why "f", not "x": the logits differ by +') and "decoder.1.self.head.1" in done.out
    assert "decoder.0.self: 2 heads" in run("explain", folder, begun, "--heads").out
    assert "the decoder reads" in run("explain", folder, begun).out
    done = run("explain", folder, begun * 5)
    assert done.code == 1 and "16" in done.err
    done = run("explain", folder, begun, "--alignment")
    assert done.code == 2
    done = run("explain", folder, begun, "--heads", "--attention", "decoder.cross")
    assert done.code == 2 and "decoder.cross" in done.err
    assert app.explain(max_len=3).tokens["decoder"][0] == "<s>"


def test_looking_changes_no_letter(folder: Path) -> None:
    app = clearhead.load(folder, device="cpu")
    before = app("by", chars=40, seed=3)
    app.explain("by", seed=3)
    assert app("by", chars=40, seed=3) == before


def test_chats_are_answered_from_files_and_line_by_line(run: Run, pipe: Run, tmp_path: Path) -> None:
    from tests.serving.small_models import make

    folder = make(tmp_path / "model", "chat")
    user = {"role": "user", "content": "She sings."}
    (tmp_path / "a.jsonl").write_text(json.dumps([user]) + "\n" + json.dumps({"messages": [user]}) + "\n")
    app = clearhead.load(folder)
    answer = app.chat([user], max_len=5, sample=False, beam=1)
    command = ("generate", folder, "--chat", "--greedy", "--max-len", "5")
    done = run(*command, tmp_path / "a.jsonl")
    assert done.code == 0 and done.out == f"{answer}\n\n{answer}\n"
    rows = [json.loads(row) for row in run(*command, "--json", tmp_path / "a.jsonl").out.splitlines()]
    assert [row["message"] for row in rows] == [{"role": "assistant", "content": answer}] * 2
    assert rows[0]["prompt"] == [user] and rows[0]["text"] == answer
    done = pipe(b"She sings.\n\nThey sleep.\n", *command)
    talk = [user, {"role": "assistant", "content": answer}, {"role": "user", "content": "They sleep."}]
    assert done.out == f"{answer}\n{app.chat(talk, max_len=5, sample=False, beam=1)}\n"
    (tmp_path / "b.jsonl").write_text("{\n")
    failed = run(*command, tmp_path / "b.jsonl")
    assert failed.code == 1 and "b.jsonl line 1" in failed.err and "Traceback" not in failed.err
    (tmp_path / "t.csv").write_text("text\nShe sings.\n")
    for options in (["--chars", "3"], ["--json"], ["--data", tmp_path / "t.csv", "--out", tmp_path / "o.csv"]):
        failed = run(*command, *options)
        assert failed.code == 2 and options[0] in failed.err and "--chat" in failed.err
    assert not (tmp_path / "o.csv").exists()


def test_a_model_without_a_chat_template_cannot_chat(run: Run, folder: Path) -> None:
    failed = run("generate", folder, "--chat")
    assert failed.code == 2 and "chat template" in failed.err
