"""`clearhead demo`: which one is made, and where it goes. `clearhead example`: what it lists and writes."""

from pathlib import Path

import pytest

from clearhead.cli.verbs import demo

from ..conftest import Run


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """What was made, and where: nothing is trained."""
    found: list[tuple[str, Path]] = []
    monkeypatch.setattr("clearhead.demo.phrasebook_demo.run_demo", lambda out: found.append(("translate", out)))
    monkeypatch.setattr("clearhead.demo.code_demo.run_code_demo", lambda out: found.append(("generate", out)))
    monkeypatch.setattr("clearhead.demo.see_demo.run_see_demo", lambda out: found.append(("see", out)))
    monkeypatch.setattr("clearhead.demo.keys_demos.run_hear_demo", lambda out: found.append(("hear", out)))
    monkeypatch.setattr("clearhead.demo.keys_demos.run_speak_demo", lambda out: found.append(("speak", out)))
    return found


def test_each_demo_has_a_folder_of_its_own_and_a_translator_is_made_where_none_is_named(
    run: Run, made: list[tuple[str, Path]]
) -> None:
    named = (["translate"], ["generate"], ["see"], ["hear"], ["speak"], ["generate", "--out", "here"])
    for arguments in ([], *named, ["--out", "there"]):
        assert run("demo", *arguments).code == 0
    assert made == [
        ("translate", Path("runs/demo")),
        ("translate", Path("runs/demo")),
        ("generate", Path("runs/demo-generate")),
        ("see", Path("runs/demo-see")),
        ("hear", Path("runs/demo-hear")),
        ("speak", Path("runs/demo-speak")),
        ("generate", Path("here")),
        ("translate", Path("there")),
    ]


def test_the_demos_are_listed_as_they_are_called(run: Run, made: list[tuple[str, Path]]) -> None:
    done = run("demo", "--list")
    assert [line.split()[:3] for line in done.out.splitlines()] == [
        ["clearhead", "demo", "translate"],
        ["clearhead", "demo", "generate"],
        ["clearhead", "demo", "see"],
        ["clearhead", "demo", "hear"],
        ["clearhead", "demo", "speak"],
    ]
    assert not made


def test_an_unknown_demo_is_refused_with_those_that_there_are(run: Run, made: list[tuple[str, Path]]) -> None:
    done = run("demo", "genrate")
    assert done.code == 2 and not made
    assert "'genrate'" in done.err and "'generate'" in done.err
    assert run("demo", "--out", "").code == 2 and not made


def test_every_example_is_listed_with_a_line_about_it(run: Run) -> None:
    lines = run("example").out.splitlines()
    assert {line.split()[2] for line in lines} == {it.stem for it in demo._EXAMPLES.glob("*.*")}
    assert all(len(line.split(maxsplit=3)) == 4 for line in lines)
    assert any(line.endswith("  The paper, section by section") for line in lines)


def test_an_example_is_written_here_with_what_it_needs_and_replaces_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("example", "english_french_characters")
    names = ["english_french_characters.ipynb", "english_french_characters.py"]
    assert done.code == 0 and sorted(it.name for it in tmp_path.iterdir()) == names
    for name, other in (names, names[::-1]):
        assert (tmp_path / name).read_bytes() == (demo._EXAMPLES / name).read_bytes()
        assert f"wrote {name}" in done.err
        (tmp_path / other).unlink(missing_ok=True)
        (tmp_path / name).write_text("mine")
        refused = run("example", "english_french_characters.py")
        assert refused.code == 2 and f"{name} exists already" in refused.err
        assert (tmp_path / name).read_text() == "mine" and not (tmp_path / other).exists()
        (tmp_path / name).unlink()
        run("example", "english_french_characters")


def test_an_unknown_example_names_the_nearest(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("example", "own_atention")
    assert done.code == 2 and "did you mean 'own_attention'" in done.err
    assert not list(tmp_path.iterdir())
