"""Record a pass of a model, and collect everything that an explanation shows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..config import Config
from ..model.fronts.frames import Frames
from ..model.fronts.patches import Patches
from ..readers.media.media_in_memory import source_name
from ..tokenization.codebook import Codebook
from ..tokenization.offsets import unknown_texts, word_indices
from ..tokenization.source_and_target import Tokenizers
from .media.media_explanation import MediaExplanation
from .page.document import framed, page_document
from .page.page_data import page_data
from .record.forward_pass import Pass
from .record.trace import Trace
from .views.contrast import Choice, Words
from .views.explanation import Explanation
from .views.flow import dimension_flow
from .views.search_tree import SearchTree


def explain(
    forward: Pass,
    tokenizers: Tokenizers,
    config: Config,
    source: Any,
    answer: str,
    values: Mapping[str, float],
    *,
    trace: Trace | None = None,
    choice: Choice | None = None,
    search: SearchTree | None = None,
    unknown: Sequence[str] | None = None,
) -> Explanation:
    """Explain a model's output for a source. Attributes that only some tasks have are left at their defaults.

    Args:
        forward: the pass over the source, with the answer.
        config: the settings of the model and of the search.
        source: a text, an image or a recording.
        trace: the record of the pass (default: record it now).
        unknown: the original text of each unknown token that the model read (default: those of the source).

    The others are attributes of `Explanation`.
    """
    trace, is_text = trace or forward.recorded(), forward.reads_tokens
    aligned = is_text and len(forward.names) > 1
    if unknown is None:
        unknown = unknown_texts(tokenizers.source, source) if is_text else ()
    return (MediaExplanation if isinstance(forward.front, Patches | Frames) else Explanation)(
        text=source_name(source),
        answer=answer,
        values=values,
        tokens=forward.names,
        outputs=tuple(choice.pieces(choice.said)) if isinstance(choice, Words) else (),
        forward=forward,
        choice=choice,
        unknown=tuple(unknown),
        source_words=(*[-1] * config.model.begins, *word_indices(tokenizers.source, source)) if aligned else (),
        flow=tuple(dimension_flow(forward.model, forward.inputs[0], forward.inputs[-1])),
        trace=trace,
        config=config,
        search=None if search is None else replace(search, note=trace.note),
        codebook=tokenizers.target if isinstance(tokenizers.target, Codebook) else None,
        draw_page=page_frame,
    )


def page_frame(explanation: Explanation) -> str:
    """Return the page of an explanation as a frame, for notebooks."""
    config = explanation.config
    return framed(page_document(page_data(explanation, config, name=config.data.name or "model")))
