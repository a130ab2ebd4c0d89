"""The README of a model folder: what it is, what it was made from, how good it is, and how to use it."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import PRESETS, SHAPE, Config, chosen, settings

_UNSCORED = "None yet: training has not ended."


def model_card(config: Config, *, pairs: int, notes: Sequence[str] = (), given: Collection[str] = ()) -> str:
    """Markdown; `notes` are the choices that were made for these data, `given` the settings that nobody had to choose.
    The scores come later: `with_scores`.
    """
    data, model, train = config.data, config.model, config.train
    files = ", ".join(f"`{Path(name).name}`" for name in data.train)
    source = ", ".join(filter(None, (data.name, data.source)))
    lines = [
        f"# A translation model{f': {data.name}' if data.name else ''}",
        "",
        "Made with Clearhead, a Transformer as in *Attention Is All You Need*. Use it:",
        "",
        "```",
        'clearhead translate THIS_FOLDER "a sentence"',
        "```",
        "",
        "## Data",
        "",
        f"{pairs:,} sentence pairs from {files}. Source: {source or 'not stated (data.name, data.source)'}. "
        f"Licence: {data.licence or 'not stated (data.licence)'}.",
        "",
        "## Scores",
        "",
        _UNSCORED,
        "",
        "## Model",
        "",
        f"{model.n_encoder_layers} + {model.n_decoder_layers} layers, d_model {model.d_model}, {model.n_heads} heads, "
        f"d_ff {model.d_ff}, {model.positions} positions, {'pre' if model.pre_norm else 'post'}-norm; "
        f"{data.tokenizer} tokens, vocabulary {model.src_vocab_size:,}"
        + (f" and {model.tgt_vocab_size:,}" if model.src_vocab_size != model.tgt_vocab_size else "")
        + f"{_steps(chosen(train.steps))}{train.seed}. All settings are in `config.json`. The same again:",
        "",
        "```",
        training_command(config, given),
        "```",
    ]
    if notes:
        lines += ["", "What was chosen for these data:", "", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def training_command(config: Config, given: Collection[str]) -> str:
    """What trains such a model: the settings that were `given` and are not as they would be anyway, and the names of
    files without their folders."""
    files = {"data.valid", "data.test", "train.init_from"}
    chooses = bool(config.train.budget or config.train.init_from)  # otherwise than the defaults and the size of data
    brought = {} if chooses and "train.preset" not in given else PRESETS.get(config.train.preset or "", {})
    usual = {name: brought.get(name, it.default) for name, it in settings().items()}
    kept = set() if brought else {*SHAPE}
    kept |= {*given} - brought.keys() if chooses else set()
    given = {name for name in given if config.value(name) != usual[name] or name in kept}
    words = ["clearhead", "train", *(Path(name).name for name in config.data.train), "--out", "ANOTHER_FOLDER"]
    for name in sorted({*given, *(name for name in files if config.value(name))} - {"data.train", "data.store"}):
        value = config.value(name)
        parts = [value] if not isinstance(value, tuple) else list(value)
        parts = [Path(part).name for part in parts] if name in files else parts
        spoken = [str(part).lower() if isinstance(part, bool) or part is None else str(part) for part in parts]
        words += [f"--{name}={spoken[0]}"] if len(spoken) == 1 else [f"--{name}", *spoken] if spoken else []
    return shlex.join(words)


def with_scores(card: str, scores: Mapping[str, Mapping[str, Any]]) -> str:
    """The card with `scores` by the name of what was scored, as `Scores.to_dict` gives them."""
    return card.replace(_UNSCORED, _table(scores) if scores else "None: no pairs were held out.")


def with_steps(card: str, planned: int, done: int) -> str:
    """The card of a run that ended earlier or later than was `planned`."""
    return card if done == planned else card.replace(_steps(planned), f". {done:,} steps ({planned:,} planned), seed ")


def _steps(planned: int) -> str:
    return f". {planned:,} steps, seed "


def _table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    rows = ["| on | sentences | BLEU | chrF | exact match |", "|---|---|---|---|---|"]
    for name, values in scores.items():
        exact = f"{100 * values['exact_match']:.1f}%"
        rows.append(f"| {name} | {values['sentences']:,} | {values['bleu']:.2f} | {values['chrf']:.2f} | {exact} |")
    signatures = sorted({values[key] for values in scores.values() for key in ("bleu_signature", "chrf_signature")})
    return "\n".join([*rows, "", "Signatures: " + ", ".join(f"`{it}`" for it in signatures) + "."])
