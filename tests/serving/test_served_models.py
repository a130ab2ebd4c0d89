import pytest

from clearhead.serving.served_models import Languages, ModelName


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("en-fr", ("en", "fr")),
        ("opus-mt-en-de", ("en", "de")),
        ("small_pt_BR-en", ("pt_BR", "en")),
        ("fil-en", ("fil", "en")),
        ("my-model", None),
        ("en-fr-v2", None),
        ("demo", None),
    ],
)
def test_the_languages_are_the_end_of_a_name(name, expected) -> None:
    found = Languages.of(name)
    assert (None if found is None else (found.source, found.target)) == expected


def test_a_name_comes_before_the_folder_and_is_the_folders_otherwise(tmp_path) -> None:
    assert ModelName.read("de-en=models/x") == ModelName("models/x", "de-en", Languages("de", "en"))
    assert ModelName.read("models/x", "en-fr") == ModelName("models/x", "x", Languages("en", "fr"))
    (tmp_path / "a=b").mkdir()
    (tmp_path / "a=b" / "c").mkdir()
    assert ModelName.read(str(tmp_path / "a=b" / "c")).name == "c"
