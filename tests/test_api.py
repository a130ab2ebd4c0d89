"""A model in use: from raw text to raw text."""

import json
import pickle
import shutil
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead import loading
from clearhead.api import Translator, load, train
from clearhead.config import Config, DecodeConfig
from clearhead.errors import ConfigError, DataError, ModelError, TrainingError
from clearhead.folder.checkpoint import RunFolder
from clearhead.folder.manifest import digest, mark_finished, read_verified
from clearhead.folder.model_folder import model_files, save_files
from clearhead.model.transformer import build
from clearhead.readers.lines import one_line
from clearhead.readers.pairs import Pairs, read_pairs
from clearhead.readers.references import read_with_references
from clearhead.scoring import translation_scores
from clearhead.tokenization.learning import SPECIALS
from tests.builders import make_encoder_folder

TEXTS = ["I am hungry.", "She sings.", "We are here, and you are late.", "I", "They sleep well."]
LONGEST = 39  # source tokens of the models here
BREAKS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.fixture(scope="module")
def app(model_folder: Path) -> Translator:
    return load(model_folder, device="cpu")


@pytest.fixture(scope="module")
def word_app(word_model_folder: Path) -> Translator:
    return load(word_model_folder, device="cpu")


@pytest.fixture
def copy(model_folder: Path, tmp_path: Path) -> Path:
    """A model folder that may be written to."""
    shutil.copytree(model_folder, tmp_path / "model")
    return tmp_path / "model"


def pairs(folder: Path, *lines: str) -> Pairs:
    (folder / "pairs.tsv").write_text("".join(f"{line}\n" for line in lines))
    return read_pairs([folder / "pairs.tsv"])


# --- texts in, texts out


def test_a_text_gives_a_text_and_a_list_gives_a_list(app: Translator) -> None:
    text, texts = app("I am hungry."), app(["I am hungry."])
    assert isinstance(text, str)
    assert texts == [text]
    assert app([]) == app.results([]) == []


def test_records_come_in_the_order_of_the_texts(app: Translator) -> None:
    results = app.results(TEXTS)
    assert [result.source for result in results] == TEXTS
    assert [result.text for result in results] == app(TEXTS)
    assert len({result.text for result in results}) > 1


def test_a_translation_does_not_depend_on_what_is_translated_beside_it(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    app.model.double()  # in float32 two near ties may change places
    together = app.results(TEXTS)
    for alone, result in zip((app.results([text])[0] for text in TEXTS), together):
        assert (alone.text, alone.tokens) == (result.text, result.tokens)
        assert alone.score == pytest.approx(result.score, rel=1e-12)


def test_texts_are_yielded_with_their_places_and_each_once(app: Translator) -> None:
    streamed = list(app.stream(["", *TEXTS, " "]))
    assert sorted(place for place, _ in streamed) == list(range(len(TEXTS) + 2))
    assert dict(streamed) == dict(enumerate(app.results(["", *TEXTS, " "])))


def test_a_score_is_the_log_probability_over_the_length_penalty(app: Translator) -> None:
    plain, long = app.results(TEXTS, alpha=0.0, beam=1), app.results(TEXTS, alpha=0.6, beam=1)
    for one, other in zip(plain, long):
        assert one.tokens == other.tokens  # one hypothesis: nothing to choose
        assert one.score == one.log_probability == other.log_probability < 0
        ended = len(other.tokens) < other_limit(app, other.source)
        penalty = ((5 + len(other.tokens) + ended) / 6) ** 0.6  # the end token counts, where there is one
        assert other.score == pytest.approx(other.log_probability / penalty)


def other_limit(app: Translator, text: str) -> int:
    return min(len(app.tokenizers.source.encode(text)) + app.config.decode.max_extra, app.config.model.max_len)


def test_tokens_are_those_of_the_text(word_app: Translator) -> None:
    for result in word_app.results(TEXTS):
        assert "".join(result.tokens).replace("▁", " ").strip() == result.text
        assert not set(result.tokens) & set(SPECIALS)


@pytest.mark.parametrize("text", ["", " ", "\t \n", "\u3000", "\r\n"])
def test_a_blank_text_has_a_blank_translation(app: Translator, text: str) -> None:
    assert app(text) == ""
    (result,) = app.results([text])
    assert (result.source, result.tokens, result.score, result.cut, result.unknown) == (text, (), 0.0, 0, ())
    assert app([TEXTS[0], text, TEXTS[1]]) == [app(TEXTS[0]), "", app(TEXTS[1])]


@given(text=st.text(max_size=30))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_gets_one_line(app: Translator, word_app: Translator, text: str) -> None:
    for translator in (app, word_app):
        (result,) = translator.results([text], beam=1)
        assert result.source == text
        assert len(result.text.splitlines()) <= 1 and not set(BREAKS) & set(result.text)


@pytest.mark.parametrize("text", ["word " * 500, "x" * 5000, "猫" * 300, "\U0001f9ff" * 40])
def test_a_text_beyond_the_longest_is_cut_counted_and_answered(app: Translator, text: str) -> None:
    n_tokens = len(app.tokenizers.source.encode(text))
    assert n_tokens > LONGEST
    (result,) = app.results([text])
    assert result.cut == n_tokens - LONGEST
    assert result.tokens
    short = app.results(["word word"])[0]
    assert short.cut == 0


def test_the_longest_text_is_not_cut_and_what_follows_it_changes_nothing(app: Translator) -> None:
    longest = "7" * (LONGEST - 1)  # each digit is a token, and so is the space in front
    assert len(app.tokenizers.source.encode(longest)) == LONGEST
    whole, more = app.results([longest, longest + "0"])
    assert (whole.cut, more.cut) == (0, 1)
    assert whole.text == more.text


def test_unknown_words_are_named_once_and_subwords_know_all(app: Translator, word_app: Translator) -> None:
    text = "I am Zebra and Zebra am hungry."
    assert word_app.results([text])[0].unknown == ("Zebra", "and")
    assert word_app.results(["I am hungry."])[0].unknown == ()
    assert app.results([text])[0].unknown == ()


def test_half_a_character_is_rejected(app: Translator) -> None:
    with pytest.raises(DataError, match=r"U\+D83D"):
        app(["fine", "not \ud83d fine"])


def test_one_text_where_a_list_is_expected_is_rejected(app: Translator) -> None:
    with pytest.raises(DataError) as caught:
        app.results("I am hungry.")
    assert (caught.value.value, caught.value.expected) == ("I am hungry.", "a list of texts")


@pytest.mark.parametrize("wrong", [None, np.array("a"), 7, np.array([["a"]]), {"text": ["a"]}, {"a" * 90}])
def test_what_holds_no_texts_is_rejected(app: Translator, wrong: Any) -> None:
    with pytest.raises(DataError) as caught:
        app(wrong)
    assert caught.value.value is wrong and len(caught.value.what) < 130


@pytest.mark.parametrize(("wrong", "name", "value"), [(b"a", "text", b"a"), (["fine", 3], "text 1", 3)])
def test_a_list_of_anything_but_texts_is_rejected(app: Translator, wrong: Any, name: str, value: object) -> None:
    with pytest.raises(DataError) as caught:
        app(wrong)
    assert (caught.value.name, caught.value.value) == (name, value)


def test_a_setting_of_other_tasks_is_rejected(app: Translator) -> None:
    with pytest.raises(ConfigError) as caught:
        app("I am hungry.", unknown="unk")
    assert (caught.value.name, caught.value.value) == ("decode.unknown", "unk")


@pytest.mark.parametrize("wrong", [5, None, ["Je"]])
def test_a_prefix_that_is_no_text_is_rejected(app: Translator, wrong: object) -> None:
    for call in (app, app.results, lambda text, **named: list(app.pieces(text[0], **named))):
        with pytest.raises(DataError) as caught:
            call(["I am hungry."], prefix=wrong)
        assert (caught.value.name, caught.value.value) == ("prefix", wrong)


@pytest.mark.parametrize("line_break", BREAKS)
def test_a_line_break_becomes_a_space(line_break: str) -> None:
    assert one_line(f"a{line_break}b") == "a b"
    assert one_line(f"a{line_break}") == "a"
    assert one_line(line_break) == ""
    assert one_line(f"{line_break}a") == " a"


@given(st.text())
def test_a_text_without_line_breaks_is_left_alone(text: str) -> None:
    assert one_line(one_line(text)) == one_line(text)
    assert len(one_line(text).splitlines()) <= 1
    if not any(line_break in text for line_break in BREAKS):
        assert one_line(text) == text


# --- settings of the search


def test_settings_of_a_call_replace_the_models_own(app: Translator) -> None:
    assert app.decode_config() == app.config.decode == DecodeConfig(max_extra=4)
    assert app.decode_config(beam=1, alpha=0) == DecodeConfig(max_extra=4, beam=1, alpha=0.0)
    limits = [other_limit(app, text) for text in TEXTS]
    assert all(len(result.tokens) <= limit for result, limit in zip(app.results(TEXTS), limits))
    assert all(len(result.tokens) <= limit - 3 for result, limit in zip(app.results(TEXTS, max_extra=1), limits))


@pytest.mark.parametrize("wrong", [{"beams": 2}, {"beam": 0}, {"beam": 1.5}, {"alpha": "much"}])
def test_wrong_settings_of_a_call_are_rejected(app: Translator, wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(ConfigError, match=f"decode.{name}"):
        app("I am hungry.", **wrong)


# --- loading


def test_what_was_saved_is_read_back_to_the_same_logits_bit_for_bit(app: Translator, copy: Path) -> None:
    torch.manual_seed(1)
    model = build(app.config.model).eval()
    save_files(copy, model_files(weights=model.state_dict()))
    again = load(copy, device="cpu")
    source, target = torch.randint(4, 200, (3, 7)), torch.randint(4, 200, (3, 5))
    with torch.no_grad():
        assert torch.equal(model(source, target), again.model(source, target))
        assert not torch.equal(model(source, target), app.model(source, target))


def test_a_loaded_model_does_not_drop_and_needs_no_gradient_to_be_used(app: Translator) -> None:
    app("I am hungry.")
    assert not any(module.training for module in app.model.modules())
    assert all(p.grad is None for p in app.model.parameters())


def test_threads_are_set_when_the_weights_are_read(model_folder: Path) -> None:
    before = torch.get_num_threads()
    try:
        load(model_folder, device="cpu", threads=before + 1).model  # noqa: B018
        assert torch.get_num_threads() == before + 1
        load(model_folder, device="cpu").model  # noqa: B018
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    with pytest.raises(ConfigError, match="threads"):
        load(model_folder, threads=0)


def test_the_weights_are_read_when_they_are_needed(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the weights were read")

    monkeypatch.setattr(loading, "load_model_folder", fail)
    app = load(model_folder, device="cpu")
    assert app.decode_config().beam and app.reading("I am hungry.").cut == 0 and str(model_folder) in repr(app)
    with pytest.raises(AssertionError):
        app("I am hungry.")


@pytest.mark.parametrize("wrong", [5, None, "", " ", b"models", ["models"]])
def test_what_is_no_path_is_rejected(wrong: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load(wrong)
    assert (caught.value.name, caught.value.value) == ("path", wrong)


def test_a_path_that_may_not_be_read_is_not_called_too_long(tmp_path: Path, monkeypatch) -> None:
    def forbidden(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch, pytest.raises(ModelError):
        patch.setattr(Path, "exists", forbidden)
        load(tmp_path)


@pytest.mark.parametrize("path", ["x" * 5000, "xy/" * 1350])
def test_a_path_too_long_for_a_file_is_rejected(path: str) -> None:
    for call in (load, lambda it: train(Config(), it)):
        with pytest.raises(ConfigError) as caught:
            call(path)
        assert caught.value.value == path and caught.value.expected


@pytest.mark.parametrize("wrong", [5, None, ["cpu"]])
def test_what_is_no_device_is_rejected(model_folder: Path, wrong: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load(model_folder, device=wrong)
    assert (caught.value.name, caught.value.value) == ("device", wrong)


def test_a_pickled_app_answers_the_same_and_holds_no_weights(copy: Path, tmp_path: Path) -> None:
    app = load(copy, device="cpu")
    expected = app(TEXTS)
    pickled = pickle.dumps(app)
    assert len(pickled) < (copy / "tokenizer.json").stat().st_size + 10_000
    again = pickle.loads(pickled)
    assert again(TEXTS) == expected and again.loaded.weights_digest == app.loaded.weights_digest
    assert deepcopy(app)(TEXTS[0]) == expected[0]
    copy.rename(tmp_path / "moved")
    with pytest.raises(ModelError):
        pickle.loads(pickled)(TEXTS)


@pytest.mark.parametrize("wrong", ["gpu", "cuda:", "cuda:one", "CPU", ""])
def test_a_device_of_another_form_is_rejected_in_few_words(model_folder: Path, wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(model_folder, device=wrong)
    assert (caught.value.name, caught.value.value) == ("train.device", wrong) and len(caught.value.what) < 60


def test_a_device_that_is_absent_is_rejected(model_folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(model_folder, device="cuda:99")
    assert (caught.value.name, caught.value.value) == ("train.device", "cuda:99")


def test_a_missing_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="absent"):
        load(tmp_path / "absent")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "manifest.json"])
def test_a_damaged_or_missing_file_is_named(copy: Path, name: str) -> None:
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[:-1] + b"?")
    with pytest.raises(ModelError, match=name):
        load(copy)(TEXTS)
    (copy / name).unlink()
    with pytest.raises(ModelError, match=name):
        load(copy)


def test_settings_that_are_unknown_are_named_with_their_file(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_bytes())
    config["model"]["n_wheels"] = 4
    del config["format_version"]
    save_files(copy, model_files(config=config))
    with pytest.raises(ModelError, match=r"config\.json.*model\.n_wheels"):
        load(copy)


@pytest.mark.parametrize("topology", ["decoder-only", "encoder-only"])
def test_a_model_that_does_not_translate_is_refused(copy: Path, topology: str) -> None:
    values = {"topology": topology, "d_model": 16, "n_heads": 2, "src_vocab_size": 300, "tgt_vocab_size": 300}
    config = Config.from_dict({"model": values})
    save_files(copy, model_files(config=config.to_dict()))
    with pytest.raises(ModelError) as caught:
        load(copy)
    assert (caught.value.name, caught.value.value) == ("model.topology", topology)


def test_training_is_at_the_same_door() -> None:
    with pytest.raises(ConfigError, match=r"data\.train"):
        train(Config(), "never")


# --- evaluation


def test_every_distinct_source_is_scored_once_against_all_its_references(app: Translator, tmp_path: Path) -> None:
    lines = ["She sings.\tElle chante.", "I am\tJe suis", "She sings.\tElle va chanter.", "She sings.\tElle chante."]
    evaluation = app.evaluate(pairs(tmp_path, *lines))
    sources, references = ["She sings.", "I am"], [["Elle chante.", "Elle va chanter."], ["Je suis"]]
    assert (evaluation.sources, evaluation.references) == (sources, references)
    assert evaluation.answers == app(sources)
    expected = translation_scores.score(app(sources), references)
    assert evaluation.scores.sentences == 2
    for name in ("bleu", "chrf", "exact_match", "bleu_signature"):
        assert getattr(evaluation.scores, name) == getattr(expected, name)
    assert evaluation.scores.perplexity > 1


def test_a_translation_that_equals_any_reference_matches(app: Translator, tmp_path: Path) -> None:
    translation = app("She sings.")
    assert translation.strip() and "\t" not in translation
    evaluation = app.evaluate(pairs(tmp_path, "She sings.\tElle chante.", f"She sings.\t{translation}"))
    assert evaluation.scores.exact_match == 1.0
    assert evaluation.scores.chrf == pytest.approx(100)


def test_an_evaluation_hears_settings_of_the_search(app: Translator, tmp_path: Path) -> None:
    evaluation = app.evaluate(pairs(tmp_path, *(f"{text}\tOui." for text in TEXTS)), beam=1, max_extra=1)
    assert evaluation.answers == app(TEXTS, beam=1, max_extra=1) != app(TEXTS)


def test_data_are_named_by_their_file_or_given_as_they_were_read(app: Translator, tmp_path: Path) -> None:
    read, file = pairs(tmp_path, "She sings.\tElle chante.", "I am\tJe suis"), tmp_path / "pairs.tsv"
    first = app.evaluate(read)
    for named in (str(file), file, [file], (str(file),)):
        found = app.evaluate(named)
        assert (found.scores, found.data) == (first.scores, [str(file)])
    assert app.score(file)[0] == app.score(read)[0]
    asked = {"parts": "feed-forwards", "keep": False, "beam": 1}
    assert app.ablate(file, **asked).rows == app.ablate(read, **asked).rows
    assert [it.name for it in app.verify(file).checks] == [it.name for it in app.verify(read).checks]


@pytest.mark.parametrize("given", [None, 5, [], ["a", 5], {"a": "b"}])
def test_what_is_no_data_is_rejected(app: Translator, given: object) -> None:
    for use in (app.evaluate, app.ablate, app.score):
        with pytest.raises(DataError) as caught:
            use(given)
        assert (caught.value.name, caught.value.value) == ("data", given)


class Table:
    """As pandas has them: a column is an attribute, too."""

    report = ("a", "b")

    def __repr__(self) -> str:
        return "  report\n0      a"


def test_what_was_read_for_another_task_is_refused_and_so_is_a_table_with_any_columns(
    app: Translator, answer_folder: Path, tmp_path: Path
) -> None:
    for data, model in ((Table(), app), (pairs(tmp_path, "I am\tJe suis"), load(answer_folder))):
        for use in (model.evaluate, model.verify, model.ablate):
            with pytest.raises(DataError) as caught:
                use(data)
            assert (caught.value.name, caught.value.value) == ("data", data)


def test_a_list_has_no_translation_in_pieces(app: Translator) -> None:
    with pytest.raises(DataError) as caught:
        next(app.pieces(["I am"]))
    assert caught.value.value == ["I am"]


def test_a_file_that_is_not_there_is_named(app: Translator) -> None:
    with pytest.raises(DataError, match=r"nowhere\.tsv"):
        app.evaluate("nowhere.tsv")


@pytest.mark.parametrize("given", [5, None, ["I am"], b"I am"])
def test_one_text_is_explained_at_a_time(app: Translator, given: object) -> None:
    with pytest.raises(DataError) as caught:
        app.explain(given)
    assert caught.value.value == given


def test_where_there_is_room_for_one_answer_one_is_searched_for_whatever_the_model_stores(
    app: Translator, tmp_path: Path
) -> None:
    several, read = {"decode.n_best": 3, "decode.diverse": True}, pairs(tmp_path, "She sings.\tElle chante.")
    changed = app.override(several)
    assert changed.evaluate(read).decode.n_best == 1 and changed.evaluate(read, n_best=2).decode.n_best == 2
    for more in ({}, {"beam": 1}):  # of which several answers would be too many
        assert changed.evaluate(read, **more).answers == app.evaluate(read, **more).answers
        assert changed.explain("She sings.", **more).values == app.explain("She sings.", **more).values
        assert changed(TEXTS, **more) == app(TEXTS, **more)
    assert len(changed.results(["She sings."])[0].alternatives) == 2


def test_where_every_pair_is_too_long_for_the_loss_the_text_is_scored(app: Translator, tmp_path: Path) -> None:
    evaluation = app.evaluate(pairs(tmp_path, f"I am\t{'x' * 300}"))
    assert evaluation.scores.sentences == 1
    assert evaluation.scores.perplexity is None and "perplexity" not in evaluation.to_dict()


def test_an_evaluation_is_written_into_the_folder_which_still_verifies(copy: Path, tmp_path: Path) -> None:
    app = load(copy, device="cpu")
    evaluation = app.evaluate(pairs(tmp_path, *(f"I am {n}\tJe suis ¡né! {n}" for n in range(12))))
    written = app.save_evaluation(evaluation)
    assert written == copy / "evaluation.json"
    values = json.loads(written.read_text(encoding="utf-8"))
    assert values == evaluation.to_dict()
    assert 0 <= values["exact_match"] <= 1 and values["sentences"] == 12
    assert {"bleu", "chrf"} < values.keys()
    assert len(values["examples"]) == 10
    assert values["examples"][3]["references"] == ["Je suis ¡né! 3"]
    assert "¡né!" in written.read_text(encoding="utf-8")
    assert "evaluation.json" in read_verified(copy)
    again = load(copy, device="cpu")
    again.save_evaluation(app.evaluate(pairs(tmp_path, "I am\tJe suis")))
    assert json.loads((copy / "evaluation.json").read_text())["sentences"] == 1
    assert app(TEXTS) == load(copy, device="cpu")(TEXTS)


def test_an_evaluation_records_the_search_as_it_was_and_the_weights_as_they_were(copy: Path, tmp_path: Path) -> None:
    app = load(copy, device="cpu")
    before = app.loaded.weights_digest
    assert before == digest((copy / "model.safetensors").read_bytes())
    torch.manual_seed(1)
    save_files(copy, model_files(weights=build(app.config.model).state_dict()))
    token = app.tokenizers.target.vocabulary()[9]
    evaluation = app.evaluate(pairs(tmp_path, "I am\tJe suis"), sample=True, temperature=2, suppress=(token,))
    values = evaluation.to_dict()
    assert values["weights"] == before != digest((copy / "model.safetensors").read_bytes())
    search = app.decode_config(sample=True, temperature=2, suppress=(token,))
    assert values["decode"] == json.loads(json.dumps(asdict(search)))


def test_a_folder_that_is_gone_is_no_matter_of_scoring_but_of_keeping_the_scores(copy: Path, tmp_path: Path) -> None:
    app = load(copy, device="cpu")
    assert app.loaded.weights_digest
    copy.rename(tmp_path / "elsewhere")
    evaluation = app.evaluate(pairs(tmp_path, "I am\tJe suis"))
    assert evaluation.scores.sentences == 1
    with pytest.raises(TrainingError) as caught:
        app.save_evaluation(evaluation)
    assert caught.value.name == str(copy)
    assert not copy.exists()


def test_weights_are_not_mixed_with_the_settings_of_another_run(copy: Path) -> None:
    app, used = load(copy, device="cpu"), load(copy, device="cpu")
    expected = used(TEXTS)
    config = app.config.override({"train.device": "auto", "data.name": "another run"})
    save_files(copy, model_files(config=config.to_dict()))
    with pytest.raises(ModelError) as caught:
        app(TEXTS)
    assert caught.value.name == str(copy)
    assert used(TEXTS) == expected == load(copy, device="cpu")(TEXTS)


def test_what_a_text_has_that_cannot_be_read_is_known_before_it_is_translated(
    app: Translator, word_app: Translator
) -> None:
    long = app.override({"data.max_len": 3})
    for each in (app, word_app, long):
        for text in (*TEXTS, "", " ", "Zebra and Zebra", "I am " * 9, "x" * 500):
            reading, (result,) = each.reading(text), each.results([text])
            assert (reading.unknown, reading.long, reading.cut) == (result.unknown, result.long, result.cut)


def test_an_evaluation_is_not_written_while_a_run_holds_the_folder(copy: Path, tmp_path: Path) -> None:
    app = load(copy, device="cpu")
    evaluation = app.evaluate(pairs(tmp_path, "I am\tJe suis"))
    with RunFolder.create(copy, resume=True), pytest.raises(TrainingError):
        app.save_evaluation(evaluation)
    assert not (copy / "evaluation.json").exists()


def test_a_text_longer_than_any_in_training_is_counted(app: Translator) -> None:
    used = app.override({"data.max_len": 3})
    short, long = used.results(["I am", "I am " * 9])
    assert short.long == short.cut == long.cut == 0
    assert long.long == len(app.tokenizers.source.encode("I am " * 9)) > 3


def test_rows_in_memory_are_scored_as_those_of_a_file(app: Translator, tmp_path: Path) -> None:
    rows = [("She sings.", "Elle chante."), ("I am", "Je suis")]
    file = pairs(tmp_path, *("\t".join(row) for row in rows))
    expected = app.evaluate(file, beam=1).scores
    for data in (rows, [{"en": source, "fr": target} for source, target in rows]):
        assert app.evaluate(data, beam=1).scores == expected
    assert [it.score for it in app.score(rows)[0]] == [it.score for it in app.score(file)[0]]


def test_training_takes_rows_in_memory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "dropout": 0.0}
    values = {"data.tokenizer": "word", "train.threads": 1, "train.precision": "fp32", "train.steps": 2}
    config = Config().override({f"model.{name}": value for name, value in sizes.items()} | values)
    rows = [(f"the film {n} was {word}", label) for n in range(40) for word, label in (("good", "pos"), ("bad", "neg"))]
    folder = train(config, tmp_path / "model", data=rows, say=lambda _: None)
    assert capfd.readouterr() == ("", "")  # progress and scores are messages, too
    classifier = load(folder, device="cpu")
    assert classifier.labels == ("neg", "pos") and classifier.evaluate(rows[:4]).scores
    assert json.loads((folder / "config.json").read_bytes())["data"]["train"] == ["rows in memory"]
    card = (folder / "README.md").read_text("utf-8")
    assert " from rows in memory.\n" in card and "clearhead train FILE --out" in card and "jsonl" not in card
    mark_finished(folder, None)  # as if it had been stopped
    said: list[str] = []
    train(config, folder, data=rows, resume=True, say=said.append)
    assert any("resuming" in it for it in said)
    with pytest.raises(TrainingError) as caught:
        mark_finished(folder, None)
        train(config, folder, data=rows[:-1], resume=True, say=said.append)
    assert caught.value.name == "the training data"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [(({"train.steps": 3}, "x"), "config"), ((None, "x"), "config"), ((Config(), 5), "out"), ((Config(), ""), "out")],
)
def test_wrong_arguments_of_training_are_rejected(arguments: tuple[Any, Any], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        train(*arguments)
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("on_step", 3), ("on_eval", 3), ("say", 3), ("say", None), ("resume", "x"), ("resume", None), ("replace", 1)],
)
def test_wrong_options_of_training_are_rejected_at_once(name: str, wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        train(Config(), tmp_path / "model", **{name: wrong})
    assert (caught.value.name, caught.value.value) == (name, wrong)
    assert not [*tmp_path.iterdir()]


def test_more_threads_than_a_machine_survives_are_rejected(model_folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(model_folder, threads=100_000)
    assert caught.value.value == 100_000 and "cores" in caught.value.expected


def test_custom_code_of_a_folder_needs_consent_and_is_not_imported_before(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_parts.py").write_text("raise SystemExit('this ran')")
    monkeypatch.syspath_prepend(tmp_path)
    config = load(copy).config.override({"model.attention": "evil_parts:Attention"})
    save_files(copy, model_files(config=config.to_record()))
    with pytest.raises(ModelError) as caught:
        load(copy)
    assert (caught.value.name, caught.value.value) == ("model.attention", "evil_parts:Attention")
    assert load(copy, allow_custom_code=True).config.model.attention == "evil_parts:Attention"  # no weights, no parts


# --- other ways to decode


def test_the_n_best_are_given_with_their_scores_best_first_and_distinct(app: Translator) -> None:
    best = app.results(["She sings."], beam=6, n_best=4)[0]
    answers = [best, *best.alternatives]
    assert len(answers) == len({answer.tokens for answer in answers}) == 4
    assert [answer.score for answer in answers] == sorted((answer.score for answer in answers), reverse=True)
    for answer in answers:
        assert sum(answer.logprobs) == pytest.approx(answer.log_probability)
        assert len(answer.logprobs) - len(answer.tokens) in (0, 1)
    assert app.results(["She sings."], beam=6)[0].alternatives == ()


def test_the_n_best_differ_as_texts_and_not_only_as_tokens(app: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    def folded(ids: Sequence[int]) -> str:  # as if there were few tokens, and many ways to write them
        return " ".join(str(token // 100) for token in ids)

    for n, decode in ((3, {"beam": 8, "n_best": 3}), (4, {"n_best": 4, "diverse": True})):
        sources, _ = app.task.reader.for_search(TEXTS)
        hypotheses = app.task.session(app.model, app.decode_config(**decode)).answers(sources)
        assert any(len({folded(answer.ids) for answer in found[:n]}) < n for found in hypotheses)
        with monkeypatch.context() as patch:
            patch.setattr(app.task, "text", folded)
            results = app.results(TEXTS, **decode)
        answers = [[result, *result.alternatives] for result in results]
        assert all(len({answer.text for answer in each}) == len(each) for each in answers)
        assert "diverse" in decode or all(len(each) == n for each in answers)
        assert [each[0].score for each in answers] == [pytest.approx(found[0].score) for found in hypotheses]


def test_diverse_answers_begin_each_with_another_token(app: Translator) -> None:
    best = app.results(["She sings.", "I"], n_best=4, diverse=True)[0]
    answers = [best, *best.alternatives]
    assert len({answer.tokens[0] for answer in answers}) == 4
    assert [answer.score for answer in answers] == sorted((answer.score for answer in answers), reverse=True)
    prefix = app.tokenizers.target.decode(app.tokenizers.target.encode("Elle"))
    begun = app.results(["She sings."], n_best=3, diverse=True, prefix="Elle")[0]
    n = len(app.tokenizers.target.encode("Elle"))
    answers = [begun, *begun.alternatives]
    assert all(answer.text.startswith(prefix) for answer in answers) and len({a.tokens[n] for a in answers}) == 3


def test_every_translation_begins_with_the_prefix(app: Translator, word_app: Translator) -> None:
    for result in app.results(TEXTS, prefix="Elle ch"):
        assert result.text.startswith("Elle ch")
    assert [result.text for result in app.results(TEXTS, prefix=" ")] == app(TEXTS)
    with pytest.raises(DataError, match="zèbre"):
        word_app.results(TEXTS, prefix="zèbre")


def test_sampling_is_a_function_of_text_and_seed_and_of_no_company(app: Translator) -> None:
    draws = app.results(TEXTS, sample=True, seed=3)
    assert [app.results([text], sample=True, seed=3)[0].text for text in TEXTS] == [draw.text for draw in draws]
    assert [draw.text for draw in app.results(TEXTS, sample=True, seed=4)] != [draw.text for draw in draws]
    assert app(TEXTS, sample=True, top_k=1) == app(TEXTS, beam=1)
    several = app.results(["I"], sample=True, n_best=5)[0]
    assert len(several.alternatives) == 4


def test_pieces_make_up_the_greedy_translation(app: Translator, word_app: Translator) -> None:
    for each in (app, word_app):
        for text in TEXTS:
            pieces = list(each.pieces(text))
            assert "".join(pieces) == each(text, beam=1) and all(pieces)
    assert list(app.pieces(" ")) == []
    assert "".join(app.pieces("I", prefix="Elle")) == app("I", beam=1, prefix="Elle")
    assert "".join(app.pieces("I", sample=True, seed=5)) == app("I", sample=True, seed=5)


def test_pieces_make_up_the_text_of_a_task_with_its_own_way_to_make_it(app: Translator) -> None:
    class Backwards(type(app.task)):  # type: ignore[misc]
        def text(self, ids: Sequence[int]) -> str:
            return super().text(ids)[::-1].upper()

    own = load(app.path)
    own.task = Backwards(own.task.tokenizers, own.config)
    assert own("I am hungry.", beam=1) == app("I am hungry.", beam=1)[::-1].upper()
    assert [*own.pieces("I am hungry.")] == [own("I am hungry.", beam=1)]


def test_pieces_are_those_of_one_answer_whatever_the_model_stores(app: Translator) -> None:
    for stored in ({"decode.n_best": 3}, {"decode.n_best": 3, "decode.diverse": True}):
        changed = app.override(stored)
        assert "".join(changed.pieces("I")) == app("I", beam=1)


def test_a_suppressed_token_is_not_generated_and_must_be_one(app: Translator) -> None:
    before = app.results(["She sings."])[0]
    after = app.results(["She sings."], suppress=before.tokens)[0]
    assert not set(before.tokens) & set(after.tokens)
    with pytest.raises(DataError, match="no such token"):
        app("I", suppress=("no such token",))


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"n_best": 5}, "n_best"),
        ({"temperature": 0}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"min_p": 2}, "min_p"),
        ({"top_k": -1}, "top_k"),
        ({"min_len": 5, "max_len": 4}, "max_len"),
        ({"max_ratio": 0.5, "min_ratio": 1}, "max_ratio"),
        ({"repetition_penalty": 0.5}, "repetition_penalty"),
        ({"sample": True, "diverse": True}, "diverse"),
        ({"__module__": "clearhead.config.decode_config"}, "__module__"),  # the dataclass has it, but it's no setting
    ],
)
def test_ways_to_decode_that_make_no_sense_are_rejected(app: Translator, wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=f"decode.{name}"):
        app("I", **wrong)


@pytest.mark.parametrize(
    ("idle", "name"),
    [
        ({"temperature": 1.0}, "temperature"),
        ({"seed": 0, "sample": False}, "seed"),
        ({"top_k": 0}, "top_k"),
        ({"sample": True, "beam": 4}, "beam"),
        ({"diverse": True}, "diverse"),
    ],
)
def test_settings_of_a_call_that_the_others_make_idle_are_rejected(
    app: Translator, idle: dict[str, Any], name: str
) -> None:
    for call in (app, app.explain, lambda text, **named: list(app.pieces(text, **named))):
        with pytest.raises(ConfigError) as caught:
            call("I", **idle)
        assert (caught.value.name, caught.value.value) == (f"decode.{name}", idle[name])


def test_settings_that_are_stored_may_be_idle(app: Translator) -> None:
    idle = {"decode.seed": 7, "decode.top_p": 0.5, "decode.diverse": True}
    searching = app.override(idle)
    assert searching(TEXTS) == app(TEXTS)
    drawing = app.override({"decode.sample": True})
    assert drawing("I", seed=5) == app("I", sample=True, seed=5) == "".join(drawing.pieces("I", seed=5))


def test_scores_stand_beside_their_own_texts_where_a_line_has_several_references(
    app: Translator, tmp_path: Path
) -> None:
    (tmp_path / "more").write_text(f"{'x' * 500}\nElle va chanter.\n")  # the first is too long
    pairs(tmp_path, "I am\tJe suis", "She sings.\tElle chante.")
    scored, report = app.score(read_with_references([tmp_path / "pairs.tsv"], [tmp_path / "more"]))
    texts = [("I am", "Je suis"), ("She sings.", "Elle chante."), ("She sings.", "Elle va chanter.")]
    assert [(it.source, it.text) for it in scored] == texts and report.used == 3
    for it in scored:
        alone = app.score(pairs(tmp_path, f"{it.source}\t{it.text}"))[0][0]
        assert (alone.tokens, alone.score) == (it.tokens, pytest.approx(it.score, rel=1e-5))


def test_overriding_settings_keeps_the_number_of_threads(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[int]()
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    app = load(model_folder, threads=3).override({"decode.beam": 1})
    assert app.model is not None and found == [3]


def test_a_classifier_has_a_label_for_each_class(tmp_path: Path) -> None:
    folder = make_encoder_folder(tmp_path / "classifier", task="classify", n_classes=3)
    with pytest.raises(ModelError) as caught:
        load(folder)
    assert caught.value.name == "data.labels" and caught.value.value == 0 and caught.value.fix
