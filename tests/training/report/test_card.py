import shlex
from pathlib import Path

import pytest

from clearhead.cli.parser import parse
from clearhead.cli.setting_options import configure
from clearhead.cli.verbs import train
from clearhead.config import Config
from clearhead.tasks.registry import task_named
from clearhead.training.report.card import model_card, training_command, with_scores, with_steps

SCORES = {"bleu": 41.237, "chrf": 60.0, "exact_match": 0.5, "sentences": 1502}
SCORES |= {"bleu_signature": "nrefs:1|tok:13a", "chrf_signature": "nrefs:1|nc:6"}


def config(**changes: object) -> Config:
    found: dict[str, object] = {"train.steps": 1200, "model.src_vocab_size": 4000, "model.tgt_vocab_size": 4000}
    asked = {"data.train": ["/home/me/secret/pairs.tsv"], "train.seed": 7} | changes
    found = {name: value for name, value in found.items() if name not in asked}
    config = Config().override(asked | {name: value for name, value in found.items() if name.startswith("model.")})
    return config.assign(found, "data")


def test_a_card_names_data_source_licence_model_and_command() -> None:
    stated = {"data.name": "Tatoeba", "data.source": "https://tatoeba.org", "data.licence": "CC BY 2.0"}
    card = model_card(config(**stated), task_named("translate"), count=12_345)
    assert card.startswith("# A translation model: Tatoeba\n")
    assert (
        "12,345 sentence pairs from `pairs.tsv`.\n\n- Source: Tatoeba, https://tatoeba.org\n- Licence: CC BY 2.0"
        in card
    )
    assert 'clearhead translate THIS_FOLDER "a sentence"' in card
    assert "6 + 6 layers, d_model 512, 8 heads, d_ff 2048, softmax attention, sinusoidal positions, post-norm" in card
    assert "bpe tokens, vocabulary size 4,000; 1,200 steps, seed 7.\n\nAll settings are in `config.json`." in card


def test_a_card_says_what_was_not_stated_and_never_where_files_lie() -> None:
    card = model_card(config(), task_named("translate"), count=1)
    assert "- Source: not stated (set data.name and data.source)\n- Licence: not stated (set data.licence)" in card
    assert "secret" not in card


def test_two_files_and_two_vocabularies_are_both_named() -> None:
    changes = {"data.train": ["a.en", "b.fr"], "model.tie": "target", "model.tgt_vocab_size": 500}
    card = model_card(config(**changes), task_named("translate"), count=1)
    assert "from `a.en`, `b.fr`." in card and "vocabulary size 4,000 and 500;" in card


def test_the_command_trains_with_the_settings_that_were_given() -> None:
    given: dict[str, object] = {"train.steps": 300, "train.preset": "nano", "model.pre_norm": True}
    given |= {"data.valid": ["/secret/v.en", "/secret/v.fr"], "decode.suppress": ["▁a b"], "train.lr": 1e-3}
    asked = Config().override({"data.train": ["/secret/my pairs.tsv"], **given})
    command = training_command(asked)
    assert "secret" not in command and command.startswith("clearhead train 'my pairs.tsv' --out ANOTHER_FOLDER ")
    verb, *words = shlex.split(command)[1:]
    options = parse(train.VERB, words)
    options.files, options.out = list(options.files), None
    vars(options)["data.train"] = options.files
    config = configure(options)
    expected = asked.override({"data.train": ["my pairs.tsv"], "data.valid": ["v.en", "v.fr"]})
    assert (verb, config, config.origins) == ("train", expected, expected.origins)


def test_choices_are_listed_with_their_reasons() -> None:
    notes = ["train.preset = nano: for 60 pairs", "train.lr = 0.003: because"]
    card = model_card(config(), task_named("translate"), count=60, notes=notes)
    listed = "- train.preset = nano: for 60 pairs\n- train.lr = 0.003: because\n"
    assert f"These settings were chosen automatically:\n\n{listed}" in card
    assert "chosen automatically" not in model_card(config(), task_named("translate"), count=60)


def test_scores_take_the_place_of_the_sentence_that_there_are_none_yet() -> None:
    card = model_card(config(), task_named("translate"), count=60)
    assert "## Scores\n\nNone yet: training hasn't finished.\n" in card
    scored = with_scores(card, {"validation": SCORES, "test": SCORES | {"bleu": 9.0}})
    assert "| validation | 1,502 | 41.24 | 60.00 | 0.5000 |\n| test | 1,502 | 9.00 | 60.00 | 0.5000 |\n" in scored
    assert "Signatures: `nrefs:1|nc:6`, `nrefs:1|tok:13a`.\n" in scored
    assert "None yet" not in scored
    assert with_scores(scored, {"test": SCORES}) == scored


@pytest.mark.parametrize(
    "given",
    [
        {"train.budget": "15m", "model.pre_norm": False},
        {"train.budget": "1h", "model.dropout": 0.1, "train.eval_sentences": 500},
        {"train.init_from": "models/a", "model.dropout": 0.1},
    ],
    ids=str,
)
def test_what_equals_a_default_is_in_the_command_where_something_else_would_be_chosen(given: dict) -> None:
    command = training_command(config(**given))
    for name, value in given.items():
        spoken = Path(value).name if name == "train.init_from" else str(value).lower()
        assert f" --{name}={spoken}" in command


def test_a_run_that_ended_elsewhere_says_where() -> None:
    card = model_card(config(**{"train.steps": 1000}), task_named("translate"), count=60)
    assert with_steps(card, 1000, 1000) == card
    assert "; 812 steps (1,000 planned), seed 7." in with_steps(card, 1000, 812)
    assert "; 1 step (1,000 planned), seed 7." in with_steps(card, 1000, 1)


def test_where_nothing_was_held_out_there_are_no_scores_and_it_says_so() -> None:
    assert "## Scores\n\nNone, because no data was held out.\n" in with_scores(
        model_card(config(), task_named("translate"), count=1), {}
    )
