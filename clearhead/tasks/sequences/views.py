"""Explain one answer of an encoder-decoder."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from ...config import DecodeConfig
from ...decode.registry import IN_MEMORY
from ...errors import DataError
from ...inspection.record.recorder import record
from ...inspection.views.alignment import words_of
from ...inspection.views.contrast import Words
from ...inspection.views.explanation import Explanation
from ...inspection.views.flow import dimension_flow
from ...inspection.views.search_tree import SearchTree
from ...model.transformer import EncoderDecoder, evaluation
from ...tokenization.tokenizer import BOS, EOS, UNK
from .task import Sequences


def explain_sequence(task: Sequences, model: EncoderDecoder, text: str, search: DecodeConfig) -> Explanation:
    """Answer one text, then record the model while it reads the text with its answer.

    Raises:
        DataError: the text is blank, or longer than the model can read.
    """
    ids = _source(task, text)
    source, target = task.tokenizers.source, task.tokenizers.target
    session = task.session(model, replace(search, engine=IN_MEMORY))  # the recorder watches torch modules
    tree = SearchTree(lambda i: target.pieces([i])[0], lambda n: float(session.rules.penalty(n)))
    with tree.watching(model):
        [hypotheses] = session.answers([ids], tree.observe)
    best = hypotheses[0]
    said = [*best.ids, EOS] if best.finished else list(best.ids)  # EOS only if the model predicted it
    tokens, inputs = ([*ids, EOS], [BOS, *best.ids][: len(said)])
    spell, device = {"encoder": source.pieces, "decoder": target.pieces}, task.config.train.device
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        model(torch.tensor([tokens], device=device), torch.tensor([inputs], device=device))
    answer, target_words = task.text(best.ids), words_of(best.ids, target.decode)
    words = Words(answer.split(), target_words, said, target.pieces, _first_token(target.encode, answer.split()))
    return Explanation(
        text=text,
        answer=answer,
        values={"score": best.score, "log_probability": best.log_probability},
        tokens={"encoder": tuple(source.pieces(tokens)), "decoder": tuple(target.pieces(inputs))},
        outputs=tuple(target.pieces(said)),
        said=tuple(said),
        source_words=tuple(source.word_indices(text)),
        target_words=tuple(target_words),
        flow=tuple(dimension_flow(model, (1, len(tokens)), (1, len(inputs)))),
        trace=trace,
        model=model,
        pieces=target.pieces,
        contrast=partial(words.contrast, model.decoder, trace),
        search=None if session.diverse else tree.finish(hypotheses, task.text, trace.note),
    )


def _source(task: Sequences, text: str) -> list[int]:
    """Return the tokens of a text. Raise a DataError if it's blank, or longer than the model can read."""
    if not text.strip():
        raise DataError("the text is blank", expected="a text to explain", name="text", value=text)
    [ids], [cut] = task.sources([text])
    if cut:
        raise DataError(
            f"the text has {len(ids) + cut:,} tokens, more than the model can read",
            expected=f"at most {task.max_source_len:,} tokens",
            name="text",
            value=len(ids) + cut,
        )
    return ids


def _first_token(encode: Callable[[str], list[int]], words: Sequence[str]) -> Callable[[str, int], int]:
    """Return a function that finds a text's first token if it replaced the word at an index."""

    def first(text: str, place: int) -> int:
        before = encode(" ".join(words[:place])) if place else []
        whole = encode(" ".join([*words[:place], text]))
        fits = whole[: len(before)] == before and len(whole) > len(before)
        return whole[len(before)] if fits else (encode(text) or [UNK])[0]

    return first
