"""The tasks by the names of their verbs: what each reads, learns, and is told by."""

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from ..config import NEWEST, TASKS, Config, settings
from ..data.extra_texts import FormWithTexts, running, with_alone
from ..data.forms import Divided, Form, PairForm, TextForm
from ..errors import ConfigError, did_you_mean
from ..readers.column_roles import LABELLED, SENTENCES, SUMMARIES
from ..readers.questions import Question
from ..scoring.confusion import draw_confusion
from ..tokenization.tokenizer import Tokenizers
from .answer.reading import QuestionForm, Questions
from .answer.task import Answering
from .base import Task
from .classify.labels import labels_of
from .classify.task import Classification
from .denoise.task import HiddenSpans, HiddenTokens
from .generate.task import Generation
from .summarize.task import Summarization
from .translate.task import Translation

_TOGETHER, _TOGETHER_OF_LABELS = 3.0, 1.0  # tokens that are hidden in a row, in the mean


@dataclass(frozen=True)
class Kind:
    """A task, and all that is chosen by its name."""

    verb: str
    form: Form
    make: Callable[[Tokenizers, Config], Task]
    settings: Mapping[str, Any]  # what it cannot do otherwise, such as the stacks of its model
    scores: tuple[str, ...]  # what the best weights may be chosen by
    compared: tuple[str, ...]  # what models may be compared by, the most telling first
    drawn: str  # what is drawn again and again for that
    title: str  # of a model card
    data: str  # what it learns from, in words
    usage: str  # what follows the folder, for an example
    usual: Mapping[str, Any] = field(default_factory=dict)  # settings that suit it, where nobody says otherwise
    cuts_anew: bool = False  # whether data.subword_dropout can be
    labels: bool = False  # whether train.balance and train.r_drop can be
    watches: bool = True  # whether train.watch can be: a text alone is answered
    searches: bool = True  # whether its scores depend on a search
    follows: Callable[[Config], Mapping[str, Any]] = lambda _: {}  # settings that others decide, unless they are given
    found: Callable[[Divided, Config], Mapping[str, Any]] = lambda *_: {}  # settings that the data tell
    draw: Callable[[Any, Path], None] = lambda *_: None  # pictures of the scores, into a model folder
    texts: Callable[[Any], Sequence[str]] = lambda pairs: [*pairs.sources, *pairs.targets]  # all texts of some data
    fresh: bool = False  # whether its examples are others in every epoch
    idle: tuple[str, ...] = ()  # settings that would change nothing, and are meant for other tasks

    def example(self, folder: str) -> str:
        """A command that uses such a model, to be pasted."""
        return f"clearhead {self.verb} {shlex.quote(folder)} {self.usage}"

    def settled(self, config: Config, given: Collection[str]) -> Config:
        """The configuration for this task; a ConfigError where a setting that was given is not for it."""
        for name, value in self.settings.items():
            if name in given and config.value(name) != value:
                raise ConfigError(f"{name} = {config.value(name)} does not learn to {self.verb}; expected {value}")
        if config.train.best not in (known := (*self.scores, NEWEST)):
            raise ConfigError(
                f"train.best = {config.train.best} is no score of `{self.verb}`; "
                f"expected {', '.join(known)}{did_you_mean(config.train.best, known)}"
            )
        if config.data.subword_dropout and not self.cuts_anew:
            raise ConfigError(
                f"data.subword_dropout = {config.data.subword_dropout} is not for `{self.verb}`; expected 0"
            )
        if config.train.watch and not self.watches:
            raise ConfigError(
                f"train.watch = {config.train.watch!r} is not for `{self.verb}`, which needs more than a text; "
                "expected nothing"
            )
        if config.train.balance and not self.labels:
            raise ConfigError(f"train.balance = true is not for `{self.verb}`, which has no labels; expected false")
        if config.train.r_drop and not self.labels:
            raise ConfigError(
                f"train.r_drop = {config.train.r_drop} is not for `{self.verb}`, which has no labels; expected 0"
            )
        for name in self.idle:
            if name in given and config.value(name) != settings()[name].default:
                raise ConfigError(
                    f"{name} = {config.value(name)} would change nothing for `{self.verb}`; expected no {name}"
                )
        usual = {name: it for name, it in self.usual.items() if name not in given or config.value(name) is None}
        config = config.override({"train.task": self.verb, **usual, **self.settings})
        if config.train.best == NEWEST and config.train.patience:
            raise ConfigError(
                f"train.patience = {config.train.patience} waits for a better score, and by train.best = {NEWEST} none "
                f"is asked for; expected 0, or a train.best of {', '.join(self.scores)}"
            )
        return config.override({name: it for name, it in self.follows(config).items() if name not in given})


def _search_but(*used: str) -> tuple[str, ...]:
    """The settings of a search without those that a task has a use for."""
    return tuple(it for it in settings() if it.startswith("decode.") and it.removeprefix("decode.") not in used)


def _one_block(config: Config) -> dict[str, Any]:
    """What is trained on is what can be read at once; positions that turn pairs of numbers, where heads have such."""
    return {"model.max_len": config.data.max_len} | _turning(config)


def _with_its_marks(config: Config) -> dict[str, Any]:
    """A text with a token before it and one behind."""
    return {"model.max_len": config.data.max_len + 2} | _turning(config)


def _turning(config: Config) -> dict[str, Any]:
    pairs = config.model.d_model // config.model.n_heads % 2 == 0
    return {"model.positions": "rotary"} if pairs else {}


def _for_summaries(config: Config) -> dict[str, Any]:
    """A pointer, where both sides have one vocabulary: 240 steps of nano on dialogues (SAMSum) came to a validation
    loss of 4.1 with it and of 5.6 without. And a long document is no reason for an answer that is longer than any
    summary of training. Positions that turn: eight minutes on the same came to 2.5 with them, and to 3.0 with sines.
    """
    found = {"model.copy": config.data.joint, "decode.max_len": max(config.data.max_len, config.decode.min_len)}
    return found | _turning(config)


def _contexts_and_questions(questions: Iterable[tuple[str, Question]]) -> list[str]:
    """Every text once, and what is asked about it."""
    contexts = dict.fromkeys(context for context, _ in questions)
    return [*contexts, *(question.text for _, question in questions)]


KINDS: dict[str, Kind] = {
    kind.verb: kind
    for kind in (
        Kind(
            verb="translate",
            form=PairForm(SENTENCES),
            make=Translation,
            settings=TASKS["translate"],
            scores=("loss", "token_accuracy", "bleu", "chrf", "exact_match"),
            compared=("bleu", "chrf"),
            drawn="sentences",
            title="A translation model",
            data="sentence pairs",
            usage='"a sentence"',
            cuts_anew=True,
            idle=("model.pooling", "model.n_token_types"),
        ),
        Kind(
            verb="generate",
            form=TextForm(),
            make=Generation,
            settings=TASKS["generate"],
            scores=("loss", "token_accuracy"),
            compared=("bits_per_byte",),
            drawn="blocks",
            title="A language model",
            data="blocks of text",
            usage='"once upon a time"',
            usual={
                "data.unicode": "none",
                "data.whitespace": False,
                "data.max_len": 256,
                "model.pre_norm": True,
                "model.activation": "swiglu",
                "model.tie": "none",
                "train.label_smoothing": 0.0,
                "decode.sample": True,
                "decode.beam": 1,
            },
            searches=False,
            follows=_one_block,
            idle=(
                *("data.target_column", "data.separator", "data.reverse", "model.pooling", "model.n_token_types"),
                "train.hidden_span",  # what comes next is no part of the text
                *("decode.max_ratio", "decode.min_ratio"),  # of a source
            ),
        ),
        Kind(
            verb="answer",
            form=QuestionForm(),
            make=Answering,
            settings={**TASKS["answer"], "data.joint": True},
            scores=("loss", "exact_match", "f1"),
            compared=("f1", "exact_match"),
            drawn="questions",
            title="A model that finds answers in texts",
            data="windows of questions and their texts",
            usage='--context text.txt "a question"',
            usual={
                "data.max_len": 256,
                "model.pre_norm": True,
                "model.n_token_types": 3,
                "train.label_smoothing": 0.0,
                "train.best": "f1",
                "decode.beam": 20,
            },
            watches=False,
            searches=False,  # the beam is how many passages are ranked, and the best is the same with any
            follows=_one_block,
            found=lambda data, _: {"data.unanswerable": cast(Questions, data).unanswerable},
            texts=_contexts_and_questions,
            idle=(
                *("data.source_column", "data.target_column", "data.separator", "data.reverse", "model.pooling"),
                *_search_but("beam", "n_best", "batch_tokens"),
            ),
        ),
        Kind(
            verb="classify",
            form=PairForm(LABELLED),
            make=Classification,
            settings={**TASKS["classify"], "data.joint": True},
            scores=("loss", "accuracy", "macro_f1"),
            compared=("accuracy", "right_probability"),
            drawn="texts",
            title="A text classifier",
            data="labelled texts",
            usage='"a text"',
            usual={
                "model.pre_norm": True,
                "model.dropout": 0.3,  # a few thousand texts are soon known by heart
                "data.split": 0.05,
                "train.best": NEWEST,  # a few hundred texts tell less than that the rate has fallen to zero
                "train.r_drop": 8.0,
                "train.eval_sentences": 10_000,  # a label is no search: it takes a thousandth of a translation
            },
            labels=True,
            searches=False,
            follows=_with_its_marks,
            found=labels_of,
            draw=draw_confusion,
            texts=lambda pairs: pairs.sources,  # a label is no text
            idle=("model.n_token_types", *_search_but("batch_tokens")),
        ),
        Kind(
            verb="summarize",
            form=PairForm(SUMMARIES),
            make=Summarization,
            settings=TASKS["summarize"],
            scores=("loss", "token_accuracy", "rouge1", "rouge2", "rougeL"),
            compared=("rougeL", "rouge1", "rouge2"),
            drawn="documents",
            title="A model that summarises",
            data="documents with summaries",
            usage='"a document"',
            usual={
                "data.max_len": 400,
                "decode.no_repeat_ngram": 3,
                "decode.alpha": 2.0,  # of what it might say, the shortest is the likeliest, and says least
                "train.best": "rougeL",
            },
            cuts_anew=True,
            follows=_for_summaries,
            idle=("model.pooling", "model.n_token_types"),
        ),
    )
}


def denoising_of(kind: Kind, beside: Sequence[str] = ()) -> Kind:
    """What learns from the texts of a task alone, before that is learnt, and from those of the files `beside` it.

    A decoder alone predicts what comes next, there as here, and so a ConfigError without such files: it would do the
    same twice.
    """
    topology = kind.settings["model.topology"]
    if topology == "decoder-only":
        if not beside:
            raise ConfigError(
                f"train.warm_start = denoise is not for `{kind.verb}`, which learns from text alone; expected nothing, "
                "or data.texts (--texts): more text to learn from first"
            )
        return replace(kind, form=FormWithTexts(kind.form, beside, running))
    head = {"model.head": "token", "model.n_classes": 0} if topology == "encoder-only" else {}
    form: Form = FormWithTexts(kind.form, beside) if beside else kind.form
    together = {"train.hidden_span": _TOGETHER_OF_LABELS if kind.labels else _TOGETHER}
    return replace(
        kind,
        form=form,
        make=partial(HiddenTokens if head else HiddenSpans, texts=with_alone(kind.texts)),
        settings={**kind.settings, **head},
        usual={**kind.usual, **together},
        scores=("loss", "hidden_accuracy"),
        data="pieces of text",
        found=lambda *_: {},
        draw=lambda *_: None,
        fresh=not head,
    )


def kind_of(config: Config) -> Kind:
    """The task of a model; those that say none are of before there were several."""
    return KINDS[config.train.task or "translate"]
