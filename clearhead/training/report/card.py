"""The README of a model folder: what it is, what it was made from, how good it is, and how to use it."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...config import Config, chosen
from ...scoring import score_labels
from ...tasks.base import Task

_FILES = ("data.valid", "data.test", "data.texts", "train.init_from")
_UNSCORED = "None yet: training hasn't finished."


def model_card(config: Config, task: type[Task], *, count: int, notes: Sequence[str] = ()) -> str:
    """Markdown, of a model that learnt from so many examples; `notes` are the choices that were made for these data.
    The scores come later: `with_scores`.
    """
    data, model, train = config.data, config.model, config.train
    files = ", ".join(f"`{Path(name).name}`" for name in data.train)
    source = ", ".join(filter(None, (data.name, data.source)))
    lines = [
        f"# {task.title}{f': {data.name}' if data.name else ''}",
        "",
        "Made with Clearhead, a Transformer as in *Attention Is All You Need*. Use it:",
        "",
        "```",
        task.example("THIS_FOLDER"),
        "```",
        "",
        "## Data",
        "",
        f"{count:,} {task.training_data} from {files}. Source: {source or 'not stated (data.name, data.source)'}. "
        f"Licence: {data.licence or 'not stated (data.licence)'}.",
        "",
        "## Scores",
        "",
        _UNSCORED,
        "",
        "## Model",
        "",
        f"{_layers(config)} layers, d_model {model.d_model}, {model.n_heads} heads, d_ff {model.d_ff}, "
        f"{model.attention} attention, {model.positions} positions, {'pre' if model.pre_norm else 'post'}-norm; "
        f"{data.tokenizer} tokens, vocabulary {model.src_vocab_size:,}"
        + (f" and {model.tgt_vocab_size:,}" if model.src_vocab_size != model.tgt_vocab_size else "")
        + f"{_steps(chosen(train.steps))}{train.seed}. All settings are in `config.json`. The same again:",
        "",
        "```",
        training_command(config),
        "```",
    ]
    if notes:
        lines += ["", "What was chosen for these data:", "", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _layers(config: Config) -> str:
    model = config.model
    one = {"encoder-only": f"{model.n_encoder_layers}", "decoder-only": f"{model.n_decoder_layers}"}
    return one.get(model.topology, f"{model.n_encoder_layers} + {model.n_decoder_layers}")


def training_command(config: Config) -> str:
    """Return the command that trains such a model: the user's settings, and file names without their folders."""
    words = ["clearhead", "train", *(Path(name).name for name in config.data.train), "--out", "ANOTHER_FOLDER"]
    for name, value in sorted(config.by_origin().get("user", {}).items()):
        if name in ("data.train", "data.store") or value == ():
            continue
        parts = [*value] if isinstance(value, tuple) else [value]
        parts = [Path(part).name for part in parts] if name in _FILES else parts
        spelled = [str(part).lower() if isinstance(part, bool) or part is None else str(part) for part in parts]
        words += [f"--{name}={spelled[0]}"] if len(spelled) == 1 else [f"--{name}", *spelled]
    return shlex.join(words)


def with_scores(card: str, scores: Mapping[str, Mapping[str, Any]]) -> str:
    """The card with `scores` by the name of what was scored, as `Scores.to_dict` gives them."""
    return card.replace(_UNSCORED, table(scores) if scores else "None: nothing was held out.")


def with_section(card: str, heading: str, text: str) -> str:
    """The card with a section of its own below the scores; as it is where it has one already."""
    heading, next_one = f"## {heading}", "\n## Model\n"
    return card if heading in card else card.replace(next_one, f"\n{heading}\n\n{text}\n{next_one}", 1)


def with_steps(card: str, planned: int, done: int) -> str:
    """The card of a run that ended earlier or later than was `planned`."""
    return card if done == planned else card.replace(_steps(planned), f". {done:,} steps ({planned:,} planned), seed ")


def _steps(planned: int) -> str:
    return f". {planned:,} steps, seed "


def table(scores: Mapping[str, Mapping[str, Any]], first_column: str = "on") -> str:
    """Scores by the name of what has them, as Markdown, with what makes them reproducible."""
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
