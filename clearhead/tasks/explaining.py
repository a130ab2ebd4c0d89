"""From a text to its `Explanation`: answered as ever, then read with its answer while every part is recorded."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ..config import DecodeConfig
from ..errors import ConfigError, DataError
from ..inspection.record.as_written import as_written
from ..inspection.record.recorder import record
from ..inspection.views.alignment import words_of
from ..inspection.views.contrast import Contrast, Words, label_contrast
from ..inspection.views.explanation import Explanation
from ..inspection.views.flow import dimension_flow
from ..inspection.views.search_tree import SearchTree
from ..model.heads import Classifier
from ..model.transformer import Decoder, EncoderDecoder, EncoderModel, evaluation
from ..tokenization.detokenize import StreamingDetokenizer
from ..tokenization.ragged import Ragged
from ..tokenization.tokenizer import BOS, EOS, PAD, UNK
from .base import Task
from .classify.task import Classification
from .generate.task import Generation
from .sequences import Sequences

_GOES_ON = 20  # tokens that a text goes on by, where nobody says


def explain(task: Task, model: Any, text: str, search: DecodeConfig) -> Explanation:
    """What a model makes of a text, explained; a ConfigError where it takes more than a text."""
    match task:
        case Sequences():
            return explain_sequence(task, model, text, search)
        case Generation():
            return explain_continuation(task, model, text, search)
        case Classification():
            return explain_label(task, model, text, search)
    raise ConfigError("this model answers questions from a text, and nothing of a text alone")


def explain_sequence(task: Sequences, model: EncoderDecoder, text: str, search: DecodeConfig) -> Explanation:
    """A text with what was made of it, token by token.

    A blank text, and one that is longer than the model can read, is a DataError: nothing of it is shown in part.
    """
    source, target = task.tokenizers.source, task.tokenizers.target
    [ids], [cut] = task.sources([text])
    if not text.strip() or cut:
        what = f"is too long for the model: {len(ids) + cut:,} tokens" if cut else "is blank"
        raise DataError(f"the text {what}; expected one of at most {task.max_source_len:,} tokens")
    session = task.session(model, _watched(search))
    tree = SearchTree(lambda i: target.pieces([i])[0], lambda n: float(session.rules.penalty(n)))
    with tree.watching(model):
        [hypotheses] = session.answers([ids], tree.observe)
    best = hypotheses[0]
    said = [*best.ids, EOS] if best.finished else list(best.ids)  # the end only where the model said it
    tokens, inputs = ([*ids, EOS], [BOS, *best.ids][: len(said)])
    spell = {"encoder": source.pieces, "decoder": target.pieces}
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        model(torch.tensor([tokens], device=task.device), torch.tensor([inputs], device=task.device))
    answer, target_words = task.text(best.ids), words_of(best.ids, target.decode)
    words = Words(answer.split(), target_words, said, target.pieces, _first_token(target.encode, answer.split()))
    return Explanation(
        text=text,
        answer=answer,
        values={"score": best.score, "log_probability": best.log_probability},
        tokens={"encoder": tuple(source.pieces(tokens)), "decoder": tuple(target.pieces(inputs))},
        outputs=tuple(target.pieces(said)),
        said=tuple(said),
        source_words=tuple(source.word_numbers(text)),
        target_words=tuple(target_words),
        flow=tuple(dimension_flow(model, (1, len(tokens)), (1, len(inputs)))),
        trace=trace,
        model=model,
        pieces=target.pieces,
        contrast=partial(words.contrast, model.decoder, trace),
        search=None if session.diverse else tree.finish(hypotheses, task.text, trace.about_run()),
    )


def explain_continuation(task: Generation, model: Decoder, text: str, search: DecodeConfig) -> Explanation:
    """A text with what follows it, at most twenty tokens where nothing says how many.

    A text that leaves no room in the model's block, or has unknown characters, is a DataError.
    """
    block, target, search = task.config.model.max_len, task.tokenizers.target, _watched(search)
    read = target.encode(text) if search.unknown == "unk" else task.generator(model, search).prompt(text)
    prompt = read or [BOS]
    if search.max_len is None:
        search = replace(search, max_len=max(min(_GOES_ON, block - len(prompt)), search.min_len, 1))
    session = task.generator(model, search).session
    if len(prompt) + session.limit > block:
        raise DataError(
            f"the text of {len(prompt):,} tokens and {session.limit:,} that follow it are more than the {block:,} that "
            "the model reads at once (model.max_len); expected a shorter text, or a lower decode.max_len"
        )
    tree = SearchTree(lambda i: target.pieces([i])[0], lambda n: float(session.rules.penalty(n)))
    with tree.watching(model):
        [hypotheses] = session.answers([read], tree.observe)
    best = hypotheses[0]
    said = [*prompt[1:], *best.ids, *([EOS] if best.finished else [])]
    inputs, spell = [*prompt, *best.ids][: len(said)], {"decoder": target.pieces}
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        model(torch.tensor([inputs], device=task.device))
    pieces = target.pieces(said)
    words = Words(
        pieces,
        range(len(said)),
        said,
        target.pieces,
        lambda other, _: (target.encode(other) or [UNK])[0],
        len(prompt) - 1,
    )
    return Explanation(
        text=text,
        answer=text + StreamingDetokenizer(target, prompt).add(best.ids),
        values={"score": best.score, "log_probability": best.log_probability},
        tokens={"decoder": tuple(target.pieces(inputs))},
        outputs=tuple(pieces),
        said=tuple(said),
        flow=tuple(dimension_flow(model, target=(1, len(inputs)))),
        trace=trace,
        model=model,
        pieces=target.pieces,
        contrast=partial(words.contrast, model, trace),
        search=None if session.diverse else tree.finish(hypotheses, target.decode, trace.about_run()),
    )


def explain_label(task: Classification, model: EncoderModel, text: str, search: DecodeConfig) -> Explanation:
    """A text with its label; of a long one the beginning is read, and a blank one is a DataError."""
    if not text.strip():
        raise DataError("the text is blank; expected one to be explained")
    head, source = model.head, task.tokenizers.source
    assert isinstance(head, Classifier)
    [ids], _ = task.encoder.tokens([text])
    with as_written(model):  # as it is recorded
        p = task.log_probabilities(model, Ragged([ids]), search.batch_tokens)[0]
    best, tokens = int(p.argmax()), torch.tensor([ids], device=task.device)
    spell = {"encoder": source.pieces}
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        model(tokens)

    def contrast(label: str | None, other: str | None) -> Contrast:
        return label_contrast(head, trace, tokens[0] != PAD, task.labels, label or task.labels[best], other)

    return Explanation(
        text=text,
        answer=task.labels[best],
        values={"probability": float(torch.tensor(p[best]).exp())},
        tokens={"encoder": tuple(source.pieces(ids))},
        source_words=tuple(source.word_numbers(text)),
        flow=tuple(dimension_flow(model, (1, len(ids)))),
        trace=trace,
        model=model,
        pieces=source.pieces,
        contrast=contrast,
    )


def _watched(search: DecodeConfig) -> DecodeConfig:
    """Return the same search in the engine whose modules the recorder watches."""
    return replace(search, engine="torch")


def _first_token(encode: Callable[[str], list[int]], words: Sequence[str]) -> Callable[[str, int], int]:
    """The first token of a text where it stands at a place among these words."""

    def first(text: str, place: int) -> int:
        before = encode(" ".join(words[:place])) if place else []
        whole = encode(" ".join([*words[:place], text]))
        fits = whole[: len(before)] == before and len(whole) > len(before)
        return whole[len(before)] if fits else (encode(text) or [UNK])[0]

    return first
