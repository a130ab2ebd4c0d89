"""Models with another program's tokenizer and special tokens: every app works on them as on our own."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.config import Config, DataConfig, ModelConfig, SpecialTokens
from clearhead.folder.model_folder import model_files, save_files
from clearhead.model.transformer import build
from clearhead.tasks.registry import task_of
from clearhead.tokenization.source_and_target import Tokenizers, tokenizer_from_json
from clearhead.tokenization.tokenizer import Tokenizer
from tests.builders import ENGLISH, FRENCH

from ..tokenization.test_foreign import SPECIAL, byte_fallback, byte_level, file, unigram, wordpiece

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 2, "n_decoder_layers": 2, "max_len": 48}


def ids_of(special: SpecialTokens) -> dict[str, Any]:
    """The settings for special tokens."""
    return {f"model.{name}_id": getattr(special, name) for name in ("pad", "bos", "eos", "unk", "mask", "start")}


def save(path: Path, task: str, tokenizer: str, size: int, settings: dict[str, Any], change=lambda it: it) -> Path:
    """Save a model of random weights as an import does: its settings come from the model, not from the user."""
    config = Config().override({"train.task": task} | {f"model.{name}": it for name, it in SIZES.items()})
    sizes = {"model.src_vocab_size": size, "model.tgt_vocab_size": size, "data.batch_tokens": 1024}
    config = task_of(config).settle(config).assign(sizes | settings, "model")
    torch.manual_seed(0)
    weights = change(build(config.model).state_dict())
    save_files(path, model_files(config=config.to_record(), tokenizer=tokenizer, weights=weights, card="# A"))
    return path


@functools.cache
def imported(make, task: str, tmp: Path, **settings: Any) -> Any:
    special, more = SPECIAL[make], {name.replace("__", "."): it for name, it in settings.items()}
    size = tokenizer_from_json(file(make), special, origin="x").vocab_size
    path = tmp / "-".join([make.__name__, task, *map(str, settings.values())])
    if not path.exists():
        save(path, task, file(make), size, ids_of(special) | {"decode.max_extra": 6} | more)
    return clearhead.load(path)


@pytest.fixture(scope="module")
def tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("imported")


@pytest.mark.parametrize("make", [pytest.param(unigram, marks=pytest.mark.slow), byte_fallback])
@pytest.mark.parametrize("begin", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_translator_answers_explains_and_keeps_its_promises(make, begin: bool, tmp: Path) -> None:
    app = imported(make, "translate", tmp, model__begin=begin, decode__suppress_special=not begin)
    text = "The quick brown fox."
    explanation = app.explain(text)
    assert explanation.answer == app(text)
    special, encoded = SPECIAL[make], app.tokenizers.source.encode(text)
    assert explanation.tokens["encoder"] == tuple(
        app.tokenizers.source.pieces([*([special.bos] * begin), *encoded, special.eos])
    )
    assert explanation.tokens["decoder"][0] == app.tokenizers.target.pieces([special.start])[0]
    assert len(explanation.source_words) == len(encoded) + begin and explanation.render()
    assert app.verify().passed, app.verify().render()


def test_a_language_model_streams_and_reads_past_its_window(tmp: Path) -> None:
    app = imported(byte_level, "generate", tmp, model__begin=False)
    whole = app("The quick 東", max_len=80, seed=1)
    assert "".join(app.pieces("The quick 東", max_len=80, seed=1)) == whole.removeprefix("The quick 東") or whole
    assert app.explain("The quick").render()
    assert app.continuations(["", "The"], chars=5)[1][0].why in ("chars", "tokens")
    assert app.verify().passed, app.verify().render()


def test_a_prompt_may_have_special_tokens_where_its_writer_asks_for_it(tmp: Path, capsys) -> None:
    path, prompt = imported(byte_level, "generate", tmp, model__begin=False).path, "The <|endoftext|>"
    plain, special = clearhead.load(path), clearhead.load(path, specials=True).override({"decode.beam": 1})
    assert special.writer().prompt(prompt) == [*plain.writer().prompt("The "), 500]
    assert capsys.readouterr().err == ""
    assert 500 not in plain.writer().prompt(prompt)
    assert "<|endoftext|>" in capsys.readouterr().err
    plain.writer().prompt(prompt)
    assert capsys.readouterr().err == ""


def test_a_model_trained_here_has_no_special_tokens_to_read(tmp: Path) -> None:
    own = Tokenizer.train(ENGLISH, DataConfig(vocab_size=300))
    path = save(tmp / "trained", "generate", own.to_json(), own.vocab_size, {})
    for call, name in ((lambda app: app("<s>"), "specials"), (lambda app: app("\ud800"), "text")):
        with pytest.raises(clearhead.ClearheadError) as caught:
            call(clearhead.load(path, specials=name == "specials"))
        assert caught.value.name == name
    with pytest.raises(clearhead.ClearheadError) as caught:
        clearhead.load(path, specials="yes")  # type: ignore[arg-type]
    assert (caught.value.name, caught.value.value) == ("specials", "yes")


def test_a_language_model_may_begin_every_text_with_bos(tmp: Path) -> None:
    app = imported(byte_fallback, "generate", tmp, model__begin=True)
    writer, special = app.writer(), SPECIAL[byte_fallback]
    assert writer.prompt("The fox") == [special.bos, *app.tokenizers.target.encode("The fox")]
    assert app.explain("The fox").tokens["decoder"][0] == "<s>"
    assert app.verify().passed, app.verify().render()


def test_a_classifier_and_a_question_answerer_read_texts_between_their_tokens(tmp: Path) -> None:
    labels = {"data__labels": ("no", "yes"), "model__n_classes": 2, "model__pooling": "first"}
    classifier = imported(wordpiece, "classify", tmp, **labels)
    assert classifier("The quick brown fox") in ("no", "yes")
    tokens = classifier.explain("The quick fox").tokens["encoder"]
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
    assert classifier.verify().passed
    answerer = imported(wordpiece, "answer", tmp)
    context = "The quick brown fox is here.\nDéjà vu."
    assert answerer("Where is the fox?", context) in context
    assert answerer.explain("Where is the fox?", context).render()
    assert answerer.verify().passed


# --- other ids for the same tokens change nothing ------------------------------------------------------------


def permuted(tokenizer: Tokenizer, order: Sequence[int]) -> str:
    """The file of a tokenizer in which token i has the id order[i]."""
    content = json.loads(tokenizer.to_json())
    content["model"]["vocab"] = {name: order[i] for name, i in content["model"]["vocab"].items()}
    content["added_tokens"] = [{**it, "id": order[it["id"]]} for it in content["added_tokens"]]
    content["added_tokens"].sort(key=lambda it: it["id"])
    return json.dumps(content)


@pytest.mark.parametrize("begin", [False, True])
def test_answers_do_not_depend_on_which_id_a_token_has(begin: bool, tmp: Path) -> None:
    own = Tokenizer.train(ENGLISH + FRENCH, DataConfig(vocab_size=300))
    order = torch.randperm(own.vocab_size, generator=torch.Generator().manual_seed(1)).tolist()
    special = SpecialTokens(pad=order[0], bos=order[1], eos=order[2], unk=order[3], mask=order[3], start=order[1])
    more = {"model.begin": begin, "decode.max_extra": 8, "decode.n_best": 3}

    def moved(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        matrix, place = weights["encoder.embedding.weight"].clone(), torch.tensor(order)
        return {
            name: torch.empty_like(matrix).index_copy_(0, place, matrix) if it.shape == matrix.shape else it
            for name, it in weights.items()
        }

    one = clearhead.load(save(tmp / f"own{begin}", "translate", own.to_json(), own.vocab_size, more))
    file_ = permuted(own, order)
    other = clearhead.load(
        save(tmp / f"other{begin}", "translate", file_, own.vocab_size, more | ids_of(special), moved)
    )
    assert other.tokenizers.source.is_foreign and not one.tokenizers.source.is_foreign
    for text in (*ENGLISH, "We see 東京."):
        found, expected = (app.results([text])[0].alternatives for app in (other, one))
        assert [it.text for it in found] == [it.text for it in expected]
        assert [it.tokens for it in found] == [it.tokens for it in expected]
        assert [it.score for it in found] == pytest.approx([it.score for it in expected], abs=1e-5)
    pairs = list(zip(ENGLISH, FRENCH))
    scores = [[it.score for it in app.score(pairs)[0]] for app in (one, other)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_training_goes_on_from_such_a_model(tmp: Path, tmp_path: Path) -> None:
    start = imported(unigram, "translate", tmp, model__begin=True, decode__suppress_special=False).path
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{a}\t{b}\n" for a, b in zip(ENGLISH * 8, FRENCH * 8)))
    values = {"train.init_from": str(start), "train.steps": 2, "data.train": [str(data)], "train.task": "translate"}
    clearhead.train(Config().override(values), tmp_path / "out", say=lambda _: None)
    config = clearhead.load(tmp_path / "out").config
    assert config.model.special == SPECIAL[unigram] and config.model.begin
    assert clearhead.load(tmp_path / "out").tokenizers.to_json() == file(unigram)


def test_tokenizers_with_a_file_for_each_side_are_read_for_a_model() -> None:
    text = f'{{"source": {file(wordpiece)}, "target": {file(wordpiece)}}}'
    special = SPECIAL[wordpiece]
    ids = {name.removeprefix("model."): it for name, it in ids_of(special).items()}
    model = ModelConfig(src_vocab_size=420, tgt_vocab_size=410, tie="target", **ids)
    both = Tokenizers.for_model(text, model, origin="x.json")
    assert (both.source.vocab_size, both.target.vocab_size) == (420, 410)
