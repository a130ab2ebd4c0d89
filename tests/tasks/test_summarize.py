import math
import random
from array import array

import numpy as np
import pytest
import torch

from clearhead.config import Config, DecodeConfig
from clearhead.errors import ConfigError
from clearhead.model.transformer import build
from clearhead.readers.pairs import Pairs, Report
from clearhead.scoring.summary_scores import first, longest, summary_scores
from clearhead.scoring.translation_scores import TokenCounts
from clearhead.tasks.registry import task_named
from clearhead.tasks.summarize import Summarization
from clearhead.tasks.translate import Translation
from clearhead.tokenization.source_and_target import train_tokenizers
from clearhead.training.update import Update

EOS = 2  # the special tokens of a new vocabulary

GREEDY = DecodeConfig(beam=1)
DOCUMENTS = [
    "Ann: Are you hungry?\nBob: A little.\nAnn: I baked bread.\nBob: Good, I shall come over at once.",
    "The cat sat. It slept all day. Nobody came. In the end it woke up.",
    "A short one.",
]
SUMMARIES = ["Bob will come and eat bread.", "The cat slept all day.", "A short one."]


def pairs(sources: list[str] = DOCUMENTS, targets: list[str] = SUMMARIES) -> Pairs:
    return Pairs(list(sources), list(targets), array("q", range(1, len(sources) + 1)), Report(("pairs.tsv",)))


def task(of: Pairs, **changed: object) -> Summarization:
    """Words as tokens; the settings of a tiny model."""
    values = {"data.tokenizer": "word", "data.batch_tokens": 1024, "train.device": "cpu", "model.dropout": 0.0}
    values |= {"model.d_model": 32, "model.n_heads": 2, "model.d_ff": 64, "model.positions": "relative"}
    values |= {"model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "train.optimizer": "muon"}
    config = Config().override(values | {name.replace("__", "."): value for name, value in changed.items()})
    tokenizers = train_tokenizers(of.sources, of.targets, config.data)
    size = tokenizers.source.vocab_size
    return Summarization(tokenizers, config.override({"model.src_vocab_size": size, "model.tgt_vocab_size": size}))


def trained(summarization: Summarization, examples: Pairs, steps: int) -> torch.nn.Module:
    torch.manual_seed(0)
    model, encoded = build(summarization.config.model), summarization.encoder(examples)
    found = summarization.examples((encoded.sources, encoded.targets))
    update = Update(
        model,
        lambda model, rows: summarization.loss(model, found, rows, smoothing=0.0),
        summarization.config.train,
    )
    plan, step = found.batches(1024), 0
    while step < steps:
        for rows in plan.epoch(step)[: steps - step]:
            step += 1
            n_tokens = int((found.targets.lengths[rows] - 1).sum())
            update([rows], n_tokens, step=step, lr=0.01 * min(step / 20, 1.05 - step / steps))
    return model


def test_long_documents_are_cut_to_their_beginning_and_long_summaries_are_left_out() -> None:
    long = pairs([*DOCUMENTS, "A short one, too."], [*SUMMARIES, " ".join(["long"] * 8)])
    summarization = task(long, data__max_len=7)
    found = summarization.encoder(long)
    assert found.kept == [0, 1, 2] and [it.line for it in found.skipped] == [4]
    assert [it.line for it in found.cut] == [1, 2]
    for row, place in enumerate(found.kept):
        ids = summarization.tokenizers.source.encode(DOCUMENTS[place])
        assert found.sources[row] == [*ids[:7], EOS]
    assert summarization.reader.for_search(DOCUMENTS)[0] == [
        found.sources[row][:-1] for row in range(3)
    ]  # in use as in training


def test_a_translation_of_a_long_source_is_left_out_instead() -> None:
    summarization = task(pairs(), data__max_len=7)
    translation = Translation(summarization.tokenizers, summarization.config)
    found = translation.encoder(pairs())
    assert found.kept == [2] and not found.cut
    assert [len(ids) for ids in translation.reader.for_search(DOCUMENTS)[0]] == [
        len(summarization.tokenizers.source.encode(text)) for text in DOCUMENTS
    ]  # it reads them whole


def test_what_is_held_out_counts_each_document_that_is_cut_once() -> None:
    twice = pairs([*DOCUMENTS, DOCUMENTS[0], DOCUMENTS[1]], [*SUMMARIES, "Bread.", " ".join(["long"] * 8)])
    held_out = task(twice, data__max_len=7).hold_out(twice)
    assert held_out.cut == 2 and [it.line for it in held_out.too_long] == [5]
    assert held_out.sources == DOCUMENTS and held_out.references[0] == [SUMMARIES[0], "Bread."]


def test_scores_are_those_of_rouge_in_percent_with_their_intervals_beside_those_of_no_model() -> None:
    summarization, answers = task(pairs()), ["Bob will eat.", "The dog slept all day.", "Nothing."]
    held_out = summarization.hold_out(pairs())
    counts = TokenCounts(tokens=10, correct=4, negative_log_likelihood=20.0)
    scores = summarization.judge(held_out, answers, counts).scores
    values, references = scores.to_dict(), [[text] for text in SUMMARIES]
    made = {
        "first_3": [first(text, 3) for text in DOCUMENTS],
        "longest_3": [longest(text, 3) for text in DOCUMENTS],
    }
    assert made["first_3"][0].count("\n") == 2 and made["longest_3"][0] != made["first_3"][0]
    for found, texts in ((values, answers), *((values["baselines"][name], texts) for name, texts in made.items())):
        expected = summary_scores(texts, references)
        for name, rouge in zip(("rouge1", "rouge2", "rougeL"), (expected.rouge_1, expected.rouge_2, expected.rouge_l)):
            assert found[name] == 100 * rouge.f1.mean
            assert found[f"{name}_interval"] == [100 * rouge.f1.low, 100 * rouge.f1.high]
    assert (values["documents"], values["token_accuracy"], values["perplexity"]) == (3, 0.4, math.exp(2.0))
    numbers = {name: values[name] for name in ("rouge1", "rouge2", "rougeL")} | {"loss": 2.0, "token_accuracy": 0.4}
    assert summarization.numbers(scores) == pytest.approx(numbers)
    assert set(numbers) == set(task_named("summarize").scores)


def test_without_tokens_that_were_counted_there_is_no_loss() -> None:
    summarization = task(pairs())
    scores = summarization.judge(summarization.hold_out(pairs()), SUMMARIES, None).scores
    assert summarization.numbers(scores) == {"rouge1": 100.0, "rouge2": 100.0, "rougeL": 100.0}
    assert not {"perplexity", "token_accuracy"} & scores.to_dict().keys()


def test_models_are_compared_document_by_document() -> None:
    summarization = task(pairs())
    held_out = summarization.hold_out(pairs())
    good, bad = (summarization.judge(held_out, texts, None) for texts in (SUMMARIES, ["Bread.", "No.", "A one."]))
    found = summarization.compare([("bad", bad), ("good", good), ("same", bad)]).by_score
    assert list(found) == ["rouge1", "rouge2", "rougeL"]
    for name, compared in found.items():
        assert [it.score for it in compared] == pytest.approx([bad.scores.to_dict()[name], 100.0, compared[0].score])
        assert compared[0].p_value is None and compared[2].p_value == 1.0
        assert compared[1].score == good.singly()[name].mean()


def test_no_summary_is_longer_than_those_that_are_learnt() -> None:
    kind = task_named("summarize")
    config = kind.settle(Config())
    assert (config.data.max_len, config.decode.max_len, config.decode.no_repeat_ngram) == (400, 400, 3)
    given = Config().override({"data.max_len": 60, "decode.min_len": 80})
    assert kind.settle(given).decode.max_len == 80
    own = Config().override({"decode.max_len": 30})
    assert kind.settle(own).decode.max_len == 30


def test_a_pointer_is_usual_where_both_sides_have_one_vocabulary() -> None:
    kind = task_named("summarize")
    assert kind.settle(Config()).model.copy
    apart = Config().override({"data.joint": False, "model.tie": "target"})
    assert not kind.settle(apart).model.copy
    assert not kind.settle(Config().override({"model.copy": False})).model.copy


def test_weights_are_chosen_by_scores_of_summaries_alone() -> None:
    kind = task_named("summarize")
    assert kind.settle(Config().override({"train.best": "rougeL"})).train.best == "rougeL"
    with pytest.raises(ConfigError) as caught:
        kind.settle(Config().override({"train.best": "bleu"}))
    assert (caught.value.name, caught.value.value) == ("train.best", "bleu") and "rougeL" in caught.value.expected


def marked(n: int, words: range, seed: int) -> Pairs:
    """Documents of eight words out of 400; the summary is the word behind "so", which is one of `words`."""
    rng, sources, targets = random.Random(seed), [], []
    for _ in range(n):
        document, word = [f"w{i}" for i in rng.choices(range(400), k=8)], f"w{rng.choice(words)}"
        document[rng.randrange(8)] = f"so {word}"
        sources.append(" ".join(document))
        targets.append(word)
    return pairs(sources, targets)


@pytest.mark.parametrize("copy", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_only_a_pointer_can_return_words_that_no_summary_of_training_had(copy: bool) -> None:
    examples = marked(4000, range(300), seed=0)
    summarization = task(examples, model__copy=copy, model__positions="rotary", model__pre_norm=True)
    model, found = trained(summarization, examples, 200), {}
    for name, words, seed in (("known", range(300), 1), ("new", range(300, 400), 2)):
        held_out = summarization.hold_out(marked(40, words, seed=seed))
        found[name] = summarization.evaluate(model, held_out, GREEDY).scores.to_dict()["rouge1"]
    assert (found["known"] >= 95 and found["new"] >= 75) if copy else found["new"] <= 20


def test_a_marked_sentence_is_learnt_and_the_first_three_are_no_match_for_it() -> None:
    def documents(n: int, seed: int) -> Pairs:
        rng, sources, targets = random.Random(seed), [], []
        for _ in range(n):
            sentences = [" ".join(rng.choices([f"w{i}" for i in range(40)], k=2)) + "." for _ in range(4)]
            place = rng.randrange(4)
            targets.append(sentences[place])
            sources.append(" ".join("so " * (i == place) + it for i, it in enumerate(sentences)))
        return pairs(sources, targets)

    examples = documents(600, 0)
    summarization = task(examples, model__copy=True)
    held_out = summarization.hold_out(documents(40, 1))
    judged = summarization.evaluate(trained(summarization, examples, 160), held_out, GREEDY)
    values = judged.scores.to_dict()
    assert values["rouge1"] >= 95 and values["rougeL"] >= 95 and values["token_accuracy"] >= 0.95
    assert max(it["rouge1"] for it in values["baselines"].values()) < 60
    assert np.isclose(judged.singly()["rouge1"].mean(), values["rouge1"])
