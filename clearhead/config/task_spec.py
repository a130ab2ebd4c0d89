"""What each built-in task is: declared once, and read by presets, registry, command line, server and their documents.

A custom task needs no declaration: set `train.task = "package.module:Class"`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["texts", "text", "words", "flag", "number", "stops", "pooling"]
"""Kinds of fields in a request: texts is one or a list, words is a text that isn't blank."""


@dataclass(frozen=True)
class TaskSpec:
    """A task, as everything knows it that doesn't import it.

    Attributes:
        needs: settings of the model that have a fixed value.
        summary: what a request at /api/TASK does.
        method: what a server does with the inputs, a key of `serving.work.METHODS`.
        fields: what a request at /api/TASK has besides the model and the search settings, inputs first.
        needed: those of the fields that it can't do without.
        searches: True if a request can have search settings.
        searched: search settings of a request for a task that doesn't generate a text.
        unsearched: search settings that a request can't have.
        example: a text that every model of the task answers, if one is enough.
        in_page: True if a web page can contain its models.
    """

    needs: Mapping[str, Any]
    summary: str = ""
    method: str = "results"
    fields: Mapping[str, Kind] = field(default_factory=lambda: {"text": "texts"})
    needed: Sequence[str] = ("text",)
    searches: bool = False
    searched: Sequence[str] = ()
    unsearched: Sequence[str] = ()
    example: str = ""
    in_page: bool = False


_TEXT_TO_TEXT = {"model.topology": "encoder-decoder"}
_STREAMED: Mapping[str, Kind] = {"text": "texts", "prefix": "text", "stream": "flag"}

TASKS: dict[str, TaskSpec] = {
    "translate": TaskSpec(
        needs=_TEXT_TO_TEXT,
        summary="Translate texts.",
        fields=_STREAMED,
        searches=True,
        unsearched=("suppress", "unknown"),  # tokens to suppress depend on the vocabulary
        example=".",
        in_page=True,
    ),
    "generate": TaskSpec(
        needs={"model.topology": "decoder-only"},
        fields={"text": "texts", "chars": "number", "stop": "stops", "stream": "flag"},
        needed=(),
        searches=True,
        unsearched=("suppress", "min_ratio", "max_ratio"),
        in_page=True,
    ),
    "classify": TaskSpec(
        needs={"model.topology": "encoder-only", "model.head": "class"},
        example=".",
    ),
    "answer": TaskSpec(
        needs={"model.topology": "encoder-only", "model.head": "span"},
        summary="Answer questions about a text.",
        method="answers",
        fields={"question": "texts", "context": "words"},
        needed=("question", "context"),
        searched=("n_best",),
    ),
    "summarize": TaskSpec(
        needs=_TEXT_TO_TEXT,
        summary="Summarize texts.",
        fields=_STREAMED,
        searches=True,
        unsearched=("suppress", "unknown"),
        example=".",
        in_page=True,
    ),
    "transcribe": TaskSpec(
        needs=_TEXT_TO_TEXT,
        fields={},  # a request brings files
        needed=(),
    ),
    "fill": TaskSpec(
        needs={"model.topology": "encoder-only", "model.head": "token"},
        summary="Fill the masks of texts.",
        method="filled",
        fields={"text": "texts", "top": "number"},
    ),
    "embed": TaskSpec(
        needs={"model.topology": "encoder-only", "model.head": "none"},
        fields={"text": "texts", "pooling": "pooling", "normalize": "flag"},
    ),
}
