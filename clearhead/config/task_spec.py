"""Declarations of the built-in tasks, read by presets, registry, command line, server and their documents.

A custom task needs no declaration: set `train.task = "package.module:Class"`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from .decode_config import DecodeConfig

Kind = Literal["texts", "text", "words", "flag", "number", "limit", "stops", "pooling"]
"""Kinds of fields in a request: texts is one or a list, words is a text that isn't blank, limit is a number or null."""
SEARCH = tuple(it.name for it in fields(DecodeConfig) if it.name not in ("engine", "precision", "batch_tokens"))
"""Search settings of a request; the others are chosen when the server starts."""


@dataclass(frozen=True)
class Column:
    """A new column of an answered table.

    Attributes:
        field: the field of a record that it contains.
        kind: the kind of its values.
        key: the key of its value, if the field is a mapping.
    """

    field: str
    kind: Literal["text", "number", "vector"] = "text"
    key: str = ""

    def value(self, record: Any) -> Any:
        """Return the value for a record."""
        found = getattr(record, self.field)
        return found[self.key] if self.key else found


@dataclass(frozen=True)
class TaskSpec:
    """A task, as everything knows it that doesn't import it.

    Attributes:
        task: its class, as module:Class in `clearhead/tasks`.
        needs: settings of the model that have a fixed value.
        variants: its classes for other data: by modality ("image", "audio"), for "prompts" with answers, and by
            data.label_kind ("several", "targets", "number").
        summary: what a request at /api/TASK does.
        method: what a server does with the inputs, a key of `serving.work.METHODS`, or continuations.
        fields: what a request at /api/TASK has besides the model and the search settings, inputs first.
        needed: those of the fields that it can't do without.
        search: the search settings that a request can have.
        columns: the new columns of an answered table (default: one with the task's noun for an answer, and the `text`
            of its record).
        example: a text that every model of the task answers, if one is enough.
        in_page: True if a web page can contain its models.
    """

    task: str
    needs: Mapping[str, Any]
    variants: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    method: str = "results"
    fields: Mapping[str, Kind] = field(default_factory=lambda: {"text": "texts"})
    needed: Sequence[str] = ("text",)
    search: Sequence[str] = ()
    columns: Mapping[str, Column] = field(default_factory=dict)
    example: str = ""
    in_page: bool = False


def _search_but(*unused: str) -> Sequence[str]:
    return [name for name in SEARCH if name not in unused]


_TEXT_TO_TEXT = {"model.topology": "encoder-decoder"}
_STREAMED: Mapping[str, Kind] = {"text": "texts", "prefix": "text", "stream": "flag"}

TASKS: dict[str, TaskSpec] = {
    "translate": TaskSpec(
        "translate:Translation",
        _TEXT_TO_TEXT,
        summary="Translate texts.",
        fields=_STREAMED,
        search=_search_but("suppress", "unknown"),  # tokens to suppress depend on the vocabulary
        example=".",
        in_page=True,
    ),
    "generate": TaskSpec(
        "generate.task:Generation",
        {"model.topology": "decoder-only"},
        variants={"prompts": "generate.prompts:AnswerGeneration"},
        summary="Continue texts.",
        method="continuations",
        fields={"text": "texts", "chars": "limit", "stop": "stops", "stream": "flag"},
        needed=(),
        columns={"continuation": Column("text")},
        search=_search_but("suppress", "min_ratio", "max_ratio"),
        in_page=True,
    ),
    "classify": TaskSpec(
        "classify.task:Classification",
        {"model.topology": "encoder-only", "model.head": "class"},
        variants={
            "image": "classify.task:ImageClassification",
            "audio": "classify.task:AudioClassification",
            "several": "classify.several:MultiLabelClassification",
            "targets": "classify.multi_target:TargetClassification",
            "number": "classify.regression:Regression",
        },
        columns={"label": Column("label"), "probability": Column("probability", "number")},
        example=".",
    ),
    "answer": TaskSpec(
        "answer.task:QuestionAnswering",
        {"model.topology": "encoder-only", "model.head": "span"},
        summary="Answer questions about a text.",
        fields={"question": "texts", "context": "words"},
        needed=("question", "context"),
        columns={"answer": Column("text")},
        search=("n_best",),
    ),
    "summarize": TaskSpec(
        "summarize:Summarization",
        _TEXT_TO_TEXT,
        summary="Summarize texts.",
        fields=_STREAMED,
        search=_search_but("suppress", "unknown"),
        example=".",
        in_page=True,
    ),
    "transcribe": TaskSpec(
        "transcribe:Transcription",
        _TEXT_TO_TEXT,
        fields={},  # a request brings files
        needed=(),
    ),
    "speak": TaskSpec(
        "speak:Speech",
        _TEXT_TO_TEXT,
        variants={"audio": "speak:Speech"},  # what its data is detected to be
        fields={},  # a request gets a file
        needed=(),
        example=".",
    ),
    "fill": TaskSpec(
        "fill.task:Filling",
        {"model.topology": "encoder-only", "model.head": "token"},
        summary="Fill the masks of texts.",
        method="filled",
        fields={"text": "texts", "top": "number"},
        columns={"filled": Column("filled")},
    ),
    "embed": TaskSpec(
        "embed:TextEmbedding",
        {"model.topology": "encoder-only", "model.head": "none"},
        fields={"text": "texts", "pooling": "pooling", "normalize": "flag"},
        columns={"vector": Column("embedding", "vector")},
    ),
}
