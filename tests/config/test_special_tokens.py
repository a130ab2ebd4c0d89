"""Special tokens as settings: which ids are possible, and how they frame a text."""

import pytest

from clearhead.config import Config, DecodeConfig, ModelConfig, SpecialTokens
from clearhead.errors import ConfigError
from clearhead.training.open_run import check_early


def test_the_defaults_are_those_of_a_new_vocabulary() -> None:
    assert ModelConfig().special == SpecialTokens() == SpecialTokens(pad=0, bos=1, eos=2, unk=3, mask=3, start=1)
    assert SpecialTokens().ids == {0, 1, 2, 3} and DecodeConfig().suppress_special


def test_the_decoder_starts_with_bos_unless_it_has_a_start_of_its_own() -> None:
    assert ModelConfig(bos_id=7).special.start == 7
    assert ModelConfig(bos_id=7, start_id=0).special.start == 0


def test_texts_are_framed() -> None:
    special = SpecialTokens(bos=5, eos=6, start=7)
    assert special.source([1, 2]) == [1, 2, 6] and special.source([1, 2], begins=True) == [5, 1, 2, 6]
    assert special.target([1, 2]) == [7, 1, 2, 6]
    assert special.target([]) == [7, 6]


def test_sources_may_have_no_end_token_except_for_empty_ones() -> None:
    special = ModelConfig(bos_id=5, eos_id=6, end=False).special
    assert special.source([1, 2]) == [1, 2] and special.source([1, 2], begins=True) == [5, 1, 2]
    assert special.source([]) == [6] and special.target([1]) == [5, 1, 6]
    with pytest.raises(ConfigError) as caught:
        ModelConfig(topology="decoder-only", end=False)
    assert caught.value.name == "model.end"


def test_the_end_token_may_be_generated_whatever_else_it_is() -> None:
    assert SpecialTokens().never_generated == (0, 1, 3)
    assert SpecialTokens(pad=9, bos=2, eos=2, unk=None).never_generated == (9,)


def test_ordinary_tokens_are_all_others() -> None:
    assert SpecialTokens().ordinary(7) == [4, 5, 6]
    assert SpecialTokens(pad=5, bos=0, eos=2, unk=None, mask=None, start=2).ordinary(5) == [1, 3, 4]
    assert SpecialTokens().ordinary(3) == [2]  # there is no other


def test_a_classifier_that_reads_its_first_token_begins_with_bos() -> None:
    encoder = {"topology": "encoder-only", "head": "class"}
    assert ModelConfig(**encoder, pooling="first").begins and ModelConfig(**encoder, begin=True).begins
    assert not ModelConfig(**encoder).begins and ModelConfig(begin=True).begins


@pytest.mark.parametrize(
    "config",
    [
        {"pad_id": -1},
        {"eos_id": 10},
        {"bos_id": 12},
        {"mask_id": 10},
        {"start_id": 10},
        {"unk_id": -2},
        {"pad_id": 11},
        {"pad_id": 6, "eos_id": 6},
    ],
)
def test_an_id_beyond_the_vocabulary_is_refused(config: dict[str, int]) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(src_vocab_size=10, tgt_vocab_size=10, **config)  # type: ignore[arg-type]
    name = caught.value.name.removeprefix("model.")
    assert caught.value.value == config[name] and caught.value.expected


def test_padding_may_be_one_past_the_vocabulary_and_sizes_may_be_unknown() -> None:
    assert ModelConfig(topology="decoder-only", tgt_vocab_size=10, pad_id=10, unk_id=None).special.pad == 10
    assert ModelConfig(topology="decoder-only", src_vocab_size=10, tgt_vocab_size=90, eos_id=80).special.eos == 80
    assert ModelConfig(eos_id=50_256).special.eos == 50_256


def test_ids_of_a_new_vocabulary_cannot_be_chosen() -> None:
    with pytest.raises(ConfigError) as caught:
        check_early(Config().override({"model.pad_id": 5}))
    assert (caught.value.name, caught.value.value) == ("model.pad_id", 5) and caught.value.fix
    check_early(Config().override({"model.pad_id": 0}))
    check_early(Config().override({"model.pad_id": 5, "train.init_from": "other"}))
