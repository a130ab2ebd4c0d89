"""Explain one answer to a question about a text."""

import numpy as np
import torch

from ...config import DecodeConfig
from ...errors import DataError
from ...inspection.record.recorder import record
from ...inspection.record.uncompiled import uncompiled
from ...inspection.views.explanation import Explanation
from ...inspection.views.flow import dimension_flow
from ...inspection.views.token_attribution import Replay
from ...model.transformer import EncoderModel, evaluation
from ...readers.questions import Paragraph, Question
from ...tokenization.offsets import unknown_texts
from .examples import HeldOutQuestions
from .passages import best_spans
from .task import Answering
from .windows import NO_ANSWER


def explain_answer(
    task: Answering, model: EncoderModel, question: str, context: str, search: DecodeConfig
) -> Explanation:
    """Answer one question, then record the model while it reads the window with the answer.

    Raises:
        DataError: the question is blank.
    """
    if not question.strip():
        raise DataError("the question is blank", expected="a question to explain", name="question", value=question)
    held_out = task.over([Paragraph(context, (Question("", question, ()),))])
    windows = [HeldOutQuestions(held_out.asked, [window], [0], []) for window in held_out.windows]
    with uncompiled(model):  # so that the recorded pass gives the same answer
        [[answer, *_]], _ = task.read(model, held_out, search)
        best = max(windows, key=lambda it: task.read(model, it, search)[0][0][0].score)
    batch, source = task.batch(best.examples, np.arange(1)), task.tokenizers.source
    spell = {"encoder": source.pieces}
    with evaluation(model), torch.inference_mode(), record(model, pieces=spell, limit=None) as trace:
        model(batch.tokens, batch.types, at=batch.of_text)
    span = NO_ANSWER
    if answer.text:
        of_text = torch.from_numpy(best.visible([0])).to(batch.tokens.device)
        [[(_, span), *_]] = best_spans(trace["head"].output, of_text, 1)
    ends = torch.tensor(span, device=batch.tokens.device)

    def again(n: int) -> torch.Tensor:  # -> (n, 1), the log-probability that the answer begins and ends where it does
        types = None if batch.types is None else batch.types.expand(n, -1)
        logits: torch.Tensor = model(batch.tokens.expand(n, -1), types, at=batch.of_text.expand(n, -1))
        return logits.log_softmax(1).take_along_dim(ends[None, None], 1).sum(-1)

    [asked], [window] = best.asked, best.windows
    unk, placed = task.special.unk, [*zip(asked.text.ids, asked.text.starts, asked.text.ends)]
    unknown = unknown_texts(source, question)[: sum(i == unk for i in asked.ids)]
    unknown += [context[start:end] for i, start, end in placed[window.first : window.last + 1] if i == unk]
    tokens = tuple(source.pieces(batch.tokens[0].tolist()))
    return Explanation(
        text=question,
        answer=answer.text,
        values={"score": answer.score},
        tokens={"encoder": tokens},
        flow=tuple(dimension_flow(model, tuple(batch.tokens.shape))),
        trace=trace,
        model=model,
        config=task.config,
        pieces=source.pieces,
        unknown=tuple(unknown),
        rerun=again,
        span=span if answer.text else None,
        replay=Replay(model, model.encoder.embedding, tokens, [answer.text or "no answer"], task.special.unk, again),
    )
