"""Explain one answer of an encoder-decoder to a text or a recording."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...config import DecodeConfig
from ...decode.beams import Hypothesis
from ...decode.registry import IN_MEMORY
from ...errors import DataError
from ...inspection.media.media_explanation import MediaExplanation
from ...inspection.media.media_input import is_media, source_name
from ...inspection.record.recorder import record
from ...inspection.views.alignment import words_of
from ...inspection.views.contrast import Words
from ...inspection.views.explanation import Explanation
from ...inspection.views.flow import dimension_flow
from ...inspection.views.search_tree import SearchTree
from ...inspection.views.token_attribution import Replay
from ...model.transformer import EncoderDecoder, evaluation
from ...tokenization.offsets import unknown_texts
from ...tokenization.tokenizer import Tokenizer
from .task import Sequences


def explain_sequence(
    task: Sequences, model: EncoderDecoder, text: Any, search: DecodeConfig, prefix: Sequence[int] = ()
) -> Explanation:
    """Answer one text or recording, then record the model while it reads the source with its answer.

    Raises:
        DataError: the source is blank, longer than the model can read, or a file that can't be read.
    """
    ids, special = _source(task, text), task.special
    source, target, front = task.tokenizers.source, task.tokenizers.target, model.encoder.embedding
    session = task.session(model, replace(search, engine=IN_MEMORY))  # the recorder watches torch modules
    tree = SearchTree(lambda i: target.pieces([i])[0], lambda n: float(session.rules.penalty(n)))
    with tree.watching(model):
        [hypotheses] = session.answers([ids], tree.observe, prefix)
    best = hypotheses[0]
    said = [*best.ids, *best.last(special.eos)]
    longest = session.request(ids, prefix).max_len
    inputs, device = [special.start, *best.ids][: len(said)], task.config.train.device
    read, spell = task.encoder_input(ids).to(device), {"encoder": source.pieces, "decoder": target.pieces}
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        model(read, torch.tensor([inputs], device=device))
    names = front.names(read)
    tokens = source.pieces(read[0].tolist()) if names is None else names[0]
    answer, target_words = task.text(best.ids), words_of(best.ids, target.decode)
    words = Words(answer.split(), target_words, said, target.pieces, _first_token(target, answer.split()))
    replay = partial(_said_again, model, read, torch.tensor([inputs], device=device), torch.tensor(said, device=device))
    return (MediaExplanation if is_media(model) else Explanation)(
        text=source_name(text),
        answer=answer,
        values={"score": best.score, "log_probability": best.log_probability},
        tokens={"encoder": tuple(tokens), "decoder": tuple(target.pieces(inputs))},
        outputs=tuple(target.pieces(said)),
        said=tuple(said),
        prefix=tuple(prefix),
        forced=tuple(n for n in range(len(said)) if n < len(prefix) or n == longest),
        unknown=tuple(unknown_texts(source, text)) if names is None else (),
        source_words=(*[-1] * task.config.model.begins, *source.word_indices(text)) if names is None else (),
        target_words=tuple(target_words),
        flow=tuple(dimension_flow(model, read, (1, len(inputs)))),
        trace=trace,
        model=model,
        config=replace(task.config, decode=search),
        pieces=target.pieces,
        contrast=partial(words.contrast, model.decoder, trace),
        search=None if session.diverse else tree.finish(hypotheses, task.text, trace.note),
        again=lambda: _first(task, session.answers([ids], prefix=prefix)[0]),
        rerun=replay,
        replay=Replay(model, front, tokens, target.pieces(said), special.unk, replay) if names is None else None,
    )


def _first(task: Sequences, hypotheses: Sequence[Hypothesis]) -> tuple[str, float]:
    return task.text(hypotheses[0].ids), hypotheses[0].score


def _said_again(model: EncoderDecoder, source: Tensor, target: Tensor, said: Tensor, n: int) -> Tensor:
    """Return the log-probabilities of what was said, from n copies of the source. -> (n, T)"""
    logits = model(source.expand(n, -1), target.expand(n, -1), source_mask=model.encoder.embedding.mask(source))
    return logits.log_softmax(-1).take_along_dim(said[None, :, None], -1)[..., 0]


def _source(task: Sequences, text: Any) -> Sequence[int]:
    """Return an encoded source. Raise a DataError if it's blank, or longer than the model can read."""
    if isinstance(text, str) and not text.strip():
        raise DataError("the text is blank", expected="a text to explain", name="text", value=text)
    [ids], [cut] = task.sources([text])
    is_text = "text" in task.modalities
    what, unit = ("the text", "tokens") if is_text else (source_name(text), "positions of 40 ms")
    if cut:
        raise DataError(
            f"{what} has {task.size(ids) + cut:,} {unit}, more than the model can read",
            expected=f"at most {task.max_source_len:,} {unit}",
            name="text",
            value=task.size(ids) + cut,
        )
    return ids


def _first_token(tokenizer: Tokenizer, words: Sequence[str]) -> Callable[[str, int], int | None]:
    """Return a function that finds a text's first token if it replaced the word at an index; None if it's unknown."""
    encode = tokenizer.encode

    def first(text: str, place: int) -> int | None:
        before = encode(" ".join(words[:place])) if place else []
        whole = encode(" ".join([*words[:place], text]))
        fits = whole[: len(before)] == before and len(whole) > len(before)
        return tokenizer.known(whole[len(before) :] if fits else encode(text))

    return first
