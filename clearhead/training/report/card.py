"""Model card: the README of a model folder, with its data, scores, settings and the command that trained it."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...config import Config, Recipe
from ...config.values import counted
from ...readers.source import IN_MEMORY
from ...scoring import score_labels
from ...tasks.base import Task, example_of

_FILES = ("data.valid", "data.test", "data.replay", "data.check", "data.texts", "train.init_from")
_UNSCORED = "None yet: training hasn't finished."


def model_card(config: Recipe, task: type[Task], *, count: int, notes: Sequence[str] = ()) -> str:
    """Return the model card as Markdown, without scores; `with_scores` adds them.

    Args:
        config: the settings of the run.
        task: the class of its task.
        count: number of training examples.
        notes: settings that were chosen automatically, with the reasons.
    """
    name = f": {config.data.name}" if config.data.name else ""
    lines = [
        f"# {task.title}{name}",
        "",
        "Trained with Clearhead, an implementation of the Transformer from *Attention Is All You Need*. To use it:",
        "",
        "```",
        example_of(task, "THIS_FOLDER", config),
        "```",
        "",
        "## Data",
        "",
        _data(config, task, count),
        "",
        "## Scores",
        "",
        _UNSCORED,
        "",
        "## Model",
        "",
        _model(config),
        "",
        "All settings are in `config.json`. To train this model again:",
        "",
        "```",
        training_command(config),
        "```",
    ]
    if notes:
        lines += ["", "These settings were chosen automatically:", "", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _data(config: Config, task: type[Task], count: int) -> str:
    data = config.data
    files = ", ".join(IN_MEMORY if name == IN_MEMORY else f"`{name}`" for name in _names(data.train))
    source = ", ".join(filter(None, (data.name, data.source))) or "not stated (set data.name and data.source)"
    return (
        f"{count:,} {task.training_data} from {files}.\n\n"
        f"- Source: {source}\n"
        f"- Licence: {data.licence or 'not stated (set data.licence)'}"
    )


def _model(config: Recipe) -> str:
    model, tokenizer = config.model, config.data.tokenizer
    sizes = f"{model.src_vocab_size:,}"
    if model.src_vocab_size != model.tgt_vocab_size:
        sizes += f" and {model.tgt_vocab_size:,}"
    norm = "pre" if model.pre_norm else "post"
    reads = f"{tokenizer} tokens, vocabulary size {sizes}"
    if config.data.modality != "text":
        writes = f"; {tokenizer} tokens, vocabulary size {model.tgt_vocab_size:,}" if model.head != "class" else ""
        reads = _front(config) + writes
    return (
        f"{_layers(config)} layers, d_model {model.d_model}, {model.n_heads} heads, d_ff {model.d_ff}, "
        f"{model.attention} attention, {model.positions} positions, {norm}-norm; {reads}; "
        f"{counted(config.train.steps, 'steps')}, seed {config.train.seed}."
    )


def _front(config: Config) -> str:
    """Return the shape in which the model reads an image or a recording."""
    model = config.model
    if config.data.modality == "image":
        size, colours = model.image_size, "grey" if model.image_channels == 1 else "in colour"
        return f"images of {size} x {size} pixels, {colours}, in patches of {model.patch_size} x {model.patch_size}"
    return f"audio at {model.sample_rate:,} samples per second, as {model.n_mels} mel bands"


def _layers(config: Config) -> str:
    model = config.model
    one = {"encoder-only": f"{model.n_encoder_layers}", "decoder-only": f"{model.n_decoder_layers}"}
    return one.get(model.topology, f"{model.n_encoder_layers} + {model.n_decoder_layers}")


def training_command(config: Config) -> str:
    """Return the command that trains the model again, with the user's settings and file names without folders.

    Rows in memory have no name, so FILE stands for them.
    """
    files = ("FILE" if name == IN_MEMORY else name for name in _names(config.data.train))
    words = ["clearhead", "train", *files, "--out", "ANOTHER_FOLDER"]
    for name, value in sorted(config.by_origin().get("user", {}).items()):
        if name in ("data.train", "data.store") or value == ():
            continue
        parts = [*value] if isinstance(value, tuple) else [value]
        parts = [Path(part).name for part in parts] if name in _FILES else parts
        spelled = [str(part).lower() if isinstance(part, bool) or part is None else str(part) for part in parts]
        spelled = spelled if name in _FILES or name == "decode.suppress" else [",".join(spelled)]
        words += [f"--{name}={spelled[0]}"] if len(spelled) == 1 else [f"--{name}", *spelled]
    return shlex.join(words)


def _names(paths: Sequence[str]) -> list[str]:
    return [Path(path).name for path in paths]


def with_scores(card: str, scores: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the card with its scores filled in: values of `TaskScores.to_dict`, keyed by the name of the data."""
    return card.replace(_UNSCORED, table(scores) if scores else "None, because no data was held out.")


def with_section(card: str, heading: str, text: str) -> str:
    """Return the card with a section added after the scores, unless the card already contains it.

    Args:
        card: a model card.
        heading: of level 2, without the marks.
        text: Markdown.
    """
    heading, next_one = f"## {heading}", "\n## Model\n"
    return card if heading in card else card.replace(next_one, f"\n{heading}\n\n{text}\n{next_one}", 1)


def with_steps(card: str, planned: int, done: int) -> str:
    """Return the card with the number of steps `done` instead of the planned number.

    Args:
        card: a model card.
        planned: the number of steps that the card states.
        done: the number of steps that were made.
    """
    if done == planned:
        return card
    return card.replace(
        f"; {counted(planned, 'steps')}, seed ", f"; {counted(done, 'steps')} ({planned:,} planned), seed "
    )


def table(scores: Mapping[str, Mapping[str, Any]], first_column: str = "on") -> str:
    """Return a Markdown table with a row per score, and the signatures that make the scores reproducible."""
    first = next(iter(scores.values()))
    what, _ = score_labels.count(first)
    names = list(score_labels.usual(first))
    rows = [f"| {first_column} | {' | '.join([what, *names])} |", "|---" * (2 + len(names)) + "|"]
    for name, values in scores.items():
        rows.append(_row(name, score_labels.count(values)[1], values))
        rows += [
            _row(f"{name}, {score_labels.BASELINES[it]}", score_labels.count(values)[1], others)
            for it, others in values.get("baselines", {}).items()
        ]
    signatures = sorted({it for values in scores.values() for it in score_labels.signatures(values)})
    told = ["", "Signatures: " + ", ".join(f"`{it}`" for it in signatures) + "."] if signatures else []
    return "\n".join([*rows, *told])


def _row(name: str, count: int, values: Mapping[str, Any]) -> str:
    return f"| {name} | {' | '.join([f'{count:,}', *score_labels.usual(values).values()])} |"
