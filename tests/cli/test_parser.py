from .conftest import Run


def test_what_an_option_takes_stands_once_behind_all_its_spellings(run: Run) -> None:
    lines = run("train", "--help").out.splitlines()
    assert "  --valid, --data.valid FILE [FILE ...]" in lines
    assert "  --preset, --train.preset nano|mini|tiny|small|base|big" in lines
    assert "  -h, --help                  show this help message and exit" in lines
