"""Explain one continuation by a language model."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from ...config import DecodeConfig
from ...decode.registry import IN_MEMORY
from ...errors import DataError
from ...inspection.record.recorder import record
from ...inspection.views.contrast import Words
from ...inspection.views.explanation import Explanation
from ...inspection.views.flow import dimension_flow
from ...inspection.views.search_tree import SearchTree
from ...inspection.views.token_attribution import Replay
from ...model.transformer import Decoder, evaluation
from ...tokenization.detokenize import StreamingDetokenizer
from ...tokenization.offsets import unknown_texts
from .task import Generation

_CONTINUATION = 20  # tokens, unless decode.max_len is set


def explain_continuation(
    task: Generation, model: Decoder, text: str, search: DecodeConfig, prefix: Sequence[int] = ()
) -> Explanation:
    """Continue one text, then record the model while it reads the text with its continuation.

    Raises:
        DataError: the text and its continuation exceed `model.max_len`, or the text has characters that aren't in the
            vocabulary.
    """
    block, target = task.config.model.max_len, task.tokenizers.target
    search = replace(search, engine=IN_MEMORY)  # the recorder watches torch modules
    read = task.generator(model, search).prompt(text)
    prompt = read or [task.special.bos]
    if search.max_len is None:
        search = replace(search, max_len=max(min(_CONTINUATION, block - len(prompt)), search.min_len, 1))
    session = task.generator(model, search).session
    if len(prompt) + session.limit > block:
        raise DataError(
            f"the text has {len(prompt):,} tokens; with {session.limit:,} more, that exceeds model.max_len={block}",
            fix="give a shorter text, or lower decode.max_len",
            name="text",
            value=len(prompt),
        )
    tree = SearchTree(lambda i: target.pieces([i])[0], lambda n: float(session.rules.penalty(n)))
    with tree.watching(model):
        [hypotheses] = session.answers([read], tree.observe, prefix)
    best = hypotheses[0]
    said = [*prompt[1:], *best.ids, *best.last(task.special.eos)]
    inputs, spell = [*prompt, *best.ids][: len(said)], {"decoder": target.pieces}
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        model(torch.tensor([inputs], device=task.config.train.device))
    pieces, device = target.pieces(said), task.config.train.device
    read_back, begins = torch.tensor([inputs], device=device), len(prompt) - 1
    new = torch.tensor(said[begins:], device=device)

    def again(n: int) -> torch.Tensor:  # -> (n, T), the log-probabilities of the continuation
        logits = model(read_back.expand(n, -1))[:, begins:]
        return logits.log_softmax(-1).take_along_dim(new[None, :, None], -1)[..., 0]

    def continue_again() -> tuple[str, float]:
        [[first, *_]] = session.answers([read], prefix=prefix)
        return text + StreamingDetokenizer(target, prompt).add(first.ids), first.score

    words = Words(
        pieces,
        range(len(said)),
        said,
        target.pieces,
        lambda other, _: target.known(target.encode(other)),
        begins,
    )
    return Explanation(
        text=text,
        answer=text + StreamingDetokenizer(target, prompt).add(best.ids),
        values={"score": best.score, "log_probability": best.log_probability},
        tokens={"decoder": tuple(target.pieces(inputs))},
        outputs=tuple(pieces),
        said=tuple(said),
        prefix=tuple(prefix),
        forced=tuple(range(min(len(prefix), len(new)))),
        unknown=tuple(unknown_texts(target, text)),
        flow=tuple(dimension_flow(model, target=(1, len(inputs)))),
        trace=trace,
        model=model,
        config=replace(task.config, decode=search),
        pieces=target.pieces,
        contrast=partial(words.contrast, model, trace),
        search=None if session.diverse else tree.finish(hypotheses, target.decode, trace.note),
        again=continue_again,
        rerun=again,
        replay=Replay(model, model.embedding, target.pieces(prompt), pieces[begins:], task.special.unk, again),
    )
