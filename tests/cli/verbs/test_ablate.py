import json
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import clearhead
from tests.builders import ENGLISH, FRENCH, make_questions

from ..conftest import Run

NAMES = [
    "encoder.0.self", "encoder.0.self.head.0", "encoder.0.self.head.1", "encoder.0.feed_forward",
    "decoder.0.self", "decoder.0.self.head.0", "decoder.0.self.head.1",
    "decoder.0.cross", "decoder.0.cross.head.0", "decoder.0.cross.head.1", "decoder.0.feed_forward",
]  # fmt: skip


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    lines = [f"{english} {n}\t{french} {n}\n" for n in range(2) for english, french in zip(ENGLISH, FRENCH)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_people_get_a_table_and_are_told_what_was_read(run: Run, folder: Path, pairs: Path) -> None:
    done = run("ablate", folder, pairs, "--device", "cpu")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("BLEU ") and lines[0].endswith(f": 10 sentences of {pairs}")
    assert [line.split()[0] for line in lines[3 : 3 + len(NAMES)]] == NAMES
    assert max(map(len, lines[1:])) <= 80 and lines[-1].startswith("*: the interval excludes 0")
    assert done.err == f"{pairs}: TSV, two columns, no header; 10 of 10 lines used\n"


def test_json_is_what_python_gives(run: Run, folder: Path, pairs: Path) -> None:
    done = run("ablate", folder, pairs, "--json", "--beam", "1", "--device", "cpu")
    assert len(done.out.splitlines()) == 1
    values = json.loads(done.out)
    app = clearhead.load(folder, device="cpu")
    assert values == json.loads(json.dumps(app.ablate(clearhead.read_pairs([pairs]), beam=1, keep=False).to_dict()))
    assert (
        values["score"] == "bleu" and values["task"] == "translate" and values["weights"] == app.loaded.weights_digest
    )
    assert [part["name"] for part in values["parts"]] == NAMES and values["decode"]["beam"] == 1


def test_a_second_call_goes_on_from_the_first_and_says_so(run: Run, folder: Path, pairs: Path) -> None:
    heads = run("ablate", folder, pairs, "--parts", "heads", "--json")
    done = run("ablate", folder, pairs, "--score", "chrf", "--json")
    [kept] = (folder / "ablation").iterdir()
    assert f"reused 7 of 12 results from {kept}\n" in done.err and "reused" not in heads.err
    assert {path.stem for path in kept.iterdir()} == {"key", "whole", *NAMES}
    again = run("ablate", folder, pairs, "--json")
    whole, one = json.loads(again.out), json.loads(heads.out)
    assert [part for part in whole["parts"] if part["head"] is not None] == one["parts"]
    assert json.loads(done.out)["score"] == "chrf" and "reused 12 of 12 results" in again.err


def test_a_call_that_is_stopped_goes_on_where_it_was(folder: Path, pairs: Path, run: Run) -> None:
    many = "".join(f"{english} {n}\t{french}\n" for n in range(30) for english, french in zip(ENGLISH, FRENCH))
    pairs.write_text(many, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "clearhead",
        "ablate",
        str(folder),
        str(pairs),
        "--limit",
        "all",
        "--device",
        "cpu",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    hear = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # what runs in the background is deaf to Ctrl-C
    process = subprocess.Popen(command, **pipes, preexec_fn=hear)
    while not list((folder / "ablation").glob("*/whole.json")) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"") and b"stopped by Ctrl-C" in err
    done = run("ablate", folder, pairs, "--limit", "all", "--device", "cpu")
    assert done.code == 0 and " of 12 results from" in done.err
    assert not done.err.split("used\n")[1].startswith("reused 12 of 12")


def test_the_sample_is_said_and_is_that_of_a_limit(run: Run, folder: Path, pairs: Path) -> None:
    done = run("ablate", folder, pairs, "--limit", 4, "--parts", "feed-forwards", "--json")
    assert "4 of 10 different sources, drawn at random (limit)\n" in done.err
    assert json.loads(done.out)["texts"] == 4 and len(json.loads(done.out)["parts"]) == 2
    assert "drawn at random" not in run("ablate", folder, pairs, "--limit", "all", "--parts", "feed-forwards").err


def test_it_is_drawn_too(run: Run, folder: Path, pairs: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    png, svg = tmp_path / "new" / "heads.png", tmp_path / "heads.svg"
    done = run("ablate", folder, pairs, "--parts", "heads", "--png", png, "--svg", svg)
    assert done.code == 0 and "decoder.0.cross.head.1" in done.out
    assert done.err.endswith(f"wrote {png}\nwrote {svg}\n")
    assert png.read_bytes().startswith(b"\x89PNG") and svg.read_bytes().startswith(b"<?xml")


def test_sources_that_are_cut_are_said(run: Run, folder: Path, pairs: Path) -> None:
    pairs.write_text(pairs.read_text(encoding="utf-8") + "hungry " * 60 + "\tx\n", encoding="utf-8")
    done = run("ablate", folder, pairs, "--parts", "feed-forwards")
    assert f"{folder}: 1 sentence too long for the model: only the beginning is read\n" in done.err


def test_questions_are_scored_by_their_own_scores(run: Run, answer_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(answer_folder, tmp_path / "answers"))
    data = tmp_path / "questions.json"
    data.write_text(json.dumps(make_questions(15, 3, lacking=True)), encoding="utf-8")
    values = json.loads(run("ablate", folder, data, "--limit", "40", "--json").out)
    assert (values["score"], values["drawn"], values["texts"]) == ("f1", "questions", 40)
    learnt = {part["name"]: part["change"] for part in values["parts"]}
    assert min(learnt.values()) < -0.2, "what was learnt is in some of its parts"
    exact = json.loads(run("ablate", folder, data, "--limit", "40", "--score", "exact_match", "--json").out)
    assert exact["score"] == "exact_match" and learnt.keys() == {part["name"] for part in exact["parts"]}


def test_a_folder_that_cannot_be_written_to_is_no_failure(
    run: Run, folder: Path, pairs: Path, fail_from, read_only
) -> None:
    with fail_from(1, read_only):
        done = run("ablate", folder, pairs, "--parts", "feed-forwards")
    assert done.code == 0 and "decoder.0.feed_forward" in done.out
    assert "the results weren't stored: " in done.err and "Read-only file system" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ([], 2, "no model folder"),
        (["{folder}"], 2, "no data"),
        (["nowhere", "{pairs}"], 1, "nowhere"),
        (["{folder}", "nowhere.tsv"], 1, "nowhere.tsv"),
        (["{folder}", "{pairs}", "--limit", "0"], 2, "--limit"),
        (["{folder}", "{pairs}", "--limit", "1e3"], 2, "--limit 1e3"),
        (["{folder}", "nowhere.tsv", "--parts", "head"], 2, "parts='head'"),  # before data are read
        (["{folder}", "nowhere.tsv", "--score", "blue"], 2, "score='blue'"),
        (["{folder}", "{pairs}", "--png", "."], 2, "--png"),
        (["{folder}", "{pairs}", "--png", "heads.jpg"], 2, "--png"),
        (["{folder}", "{pairs}", "--temperature", "2"], 2, "--temperature 2"),
        (["{folder}", "{pairs}", "--part", "heads"], 2, "'--parts'"),
    ],
)
def test_what_cannot_be_done_is_rejected(
    run: Run, model_folder: Path, pairs: Path, arguments: list[str], code: int, named: str
) -> None:
    filled = [it.replace("{folder}", str(model_folder)).replace("{pairs}", str(pairs)) for it in arguments]
    done = run("ablate", *filled)
    assert (done.code, done.out) == (code, "")
    assert named in done.err and "Traceback" not in done.err
    assert not (model_folder / "ablation").exists()
