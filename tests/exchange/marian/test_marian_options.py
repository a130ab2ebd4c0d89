"""Options and vocabularies in Marian's YAML are read as YAML means them."""

from pathlib import Path

import pytest

from clearhead.errors import ModelError
from clearhead.exchange.marian import parse_options, read_vocabulary

OPTIONS = """# written by "hand"
---
type: transformer  # it's the only one
version: v1.7.6 02f4af4e 2018-12-12 18:51:10 -0800

dim-vocabs:
  - 58101
  - 58101
empty: ""
none:
  []
models:
  # of one:
- 'it''s #1.npz' # "quoted"
flow: [a, "b"]
hash: a#b
normalize: 1 # '\r
"""


def test_options_are_scalars_and_lists_of_them() -> None:
    assert parse_options(Path("decoder.yml"), OPTIONS.encode()) == {
        "type": "transformer",
        "version": "v1.7.6 02f4af4e 2018-12-12 18:51:10 -0800",
        "dim-vocabs": ["58101", "58101"],
        "empty": "",
        "none": [],
        "models": ["it's #1.npz"],
        "flow": ["a", "b"],
        "hash": "a#b",
        "normalize": "1",
    }


def test_options_are_those_of_a_yaml_library() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    expected = yaml.load(OPTIONS, Loader=yaml.BaseLoader)
    assert parse_options(Path("x"), OPTIONS.encode()) == expected


@pytest.mark.parametrize(("text", "line"), [("a: 1\nb\n", 2), ("- a\n", 1), ("a: 1\n  b: 2\n", 2), ("a: 1\n- b\n", 2)])
def test_a_line_of_another_kind_is_named(text: str, line: int) -> None:
    with pytest.raises(ModelError, match=f"damaged in line {line}") as caught:
        parse_options(Path("decoder.yml"), text.encode())
    assert (caught.value.line, caught.value.name) == (line, "decoder.yml")


@pytest.mark.parametrize("suffix", ["yml", "yaml"])
def test_tokens_are_what_is_between_their_quotes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"opus.vocab.{suffix}"
    rows = [
        "# tokens",
        '"</s>": 0',
        '"<unk>": 1',
        ",: 2",
        r'"\"": 3',
        r'"\\": 4',
        "'''': 5",
        '":": 6',
        "a:b: 7",
        "é: 8",
    ]
    rows += [r'"\x85\u2028é\\n": 9', "▁\u2028: 10", "null: 11", '"#": 12', "<<: 13", "\u3000: 14", ""]
    path.write_text("\r\n".join(rows))
    expected = ["</s>", "<unk>", ",", '"', "\\", "'", ":", "a:b", "é", "\x85\u2028é\\n", "▁\u2028", "null", "#", "<<"]
    assert read_vocabulary(path) == {token: i for i, token in enumerate([*expected, "\u3000"])}


def test_any_other_file_has_a_token_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "opus.src.vocab"
    path.write_text('<unk>\n</s>\n"\n\u2028\n---\n')
    assert read_vocabulary(path) == {token: i for i, token in enumerate(["<unk>", "</s>", '"', "\u2028", "---"])}


def test_bytes_that_are_not_utf_8_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "opus.vocab.yml"
    path.write_bytes(b'"\xff": 0\n')
    with pytest.raises(ModelError, match="isn't UTF-8"):
        read_vocabulary(path)
