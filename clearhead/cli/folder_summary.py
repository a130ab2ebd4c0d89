"""Summary of a model folder: its settings, data and scores, without reading the weights."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..config import NEWEST, Config
from ..errors import ModelError

_EVALUATION = "evaluation.json"
_SHOWN = 8  # maximum number of labels to show


def summarize_folder(folder: Path, *, allow_custom_code: bool = False) -> tuple[Config, dict[str, Any]]:
    """Return the configuration, and a dictionary of facts in which missing values are None.

    Raises:
        ModelError: `folder` isn't a model folder, is damaged, or names custom code that isn't allowed.
    """
    from ..folder.adapters import weights_digest
    from ..folder.manifest import Manifest, parse_json_object, read_verified
    from ..folder.model_folder import CONFIG, load_model_folder, read_config

    if not (folder / CONFIG).exists():
        load_model_folder(folder)  # raises an error that explains what's missing
    config = read_config(folder, allow_custom_code=allow_custom_code)
    evaluation = None
    if (folder / _EVALUATION).exists():
        evaluation = parse_json_object(folder / _EVALUATION, read_verified(folder, [_EVALUATION])[_EVALUATION])
        evaluation["outdated"] = evaluation.get("weights") != weights_digest(folder)
    return config, {
        "folder": str(folder),
        "finished": Manifest.read(folder).finished,
        "data": {"train": list(config.data.train), "name": config.data.name, "licence": config.data.licence},
        "validation": _best_validation(folder, config),
        "evaluation": evaluation,
        **_engine(folder, config),
    }


def render_folder(config: Config, about: dict[str, Any]) -> str:
    """Format the result of `summarize_folder` as text. Raise ModelError if the scores in a file are damaged."""
    from ..folder.checkpoint import METRICS
    from ..tasks.registry import task_of

    data, finished, validation = about["data"], about["finished"], about["validation"]
    task = task_of(config)
    vocabularies = "one vocabulary" if config.data.joint else "two vocabularies"
    more = ", ".join(text for text in (data["name"], data["licence"]) if text)
    trained = f"finished at step {finished:,}" if finished is not None else "not finished"
    rows = [
        ("task", config.train.task or "translate"),
        *(
            [("voices" if config.train.task == "speak" else "labels", _labels(config.data.labels))]
            if config.data.labels
            else []
        ),
        ("folder", about["folder"]),
        ("trained", trained if data["train"] else "by another program"),
        *([("data", ", ".join(data["train"]) + (f" ({more})" if more else ""))] if data["train"] else []),
        *([] if "data.tokenizer" in task.unused else [("tokenizer", f"{config.data.tokenizer}, {vocabularies}")]),
        ("training", _training(config, finished, "tokens" if task.modalities == ("text",) else task.units.tokens)),
        *_engine_rows(config, about),
    ]
    if validation:
        greedy = "greedy, " * task.searches
        mean = f"mean of {validation['averaged']} checkpoints, " if "averaged" in validation else ""
        with _expect_scores(Path(about["folder"]), METRICS):
            rows.append(("validation", f"{_scores(validation)} ({greedy}{mean}step {validation['step']:,})"))
    if about["evaluation"]:
        with _expect_scores(Path(about["folder"]), _EVALUATION):
            rows.append(("evaluation", _evaluation(about["evaluation"], searches=task.searches)))
    return "\n".join(f"{name:<12}{text}" for name, text in rows)


def _engine(folder: Path, config: Config) -> dict[str, Any]:
    """Return the decoding engine for this machine, and why it's none of the faster ones."""
    from ..decode.registry import choice_for
    from ..exchange.ctranslate2.model_cache import CONVERTERS
    from ..loading import LoadedModel, check_stored_engine
    from ..training.choices.hyperparameters import choose_device

    if config.model.topology == "encoder-only":
        return {"engine": None, "faster_engines": {}}
    check_stored_engine(folder, config)
    here = config.assign({"train.device": choose_device("auto")}, "machine")
    loaded = LoadedModel(folder, here, "", stored=config, converters=CONVERTERS)
    choice = choice_for(loaded.handle, config.decode)
    return {"engine": choice.name, "faster_engines": dict(choice.passed_over)}


def _engine_rows(config: Config, about: dict[str, Any]) -> list[tuple[str, str]]:
    if not about["engine"]:
        return []
    from ..decode.registry import AUTO

    chosen = "chosen automatically" if config.decode.engine == AUTO else "set in training"
    rows = [("engine", f"{about['engine']}, {config.decode.precision} ({chosen})")]
    return rows + [("", f"{name} is faster, but {why}") for name, why in about["faster_engines"].items()]


def _labels(labels: Sequence[str]) -> str:
    """Return the number of labels and the first few."""
    from ..readers.lines import shown

    return f"{len(labels):,}: {', '.join(map(shown, labels[:_SHOWN]))}{', …' * (len(labels) > _SHOWN)}"


def _evaluation(values: dict[str, Any], *, searches: bool) -> str:
    search, decode = f"beam {values['decode']['beam']}, alpha {values['decode']['alpha']:g}", values["decode"]
    if decode.get("sample"):
        search = f"sampled at temperature {decode['temperature']:g}, seed {decode['seed']}"
    outdated = "; these scores are of earlier weights, so evaluate again" if values["outdated"] else ""

    from ..scoring import score_labels

    sentences = f"{score_labels.count_of(values)} of {', '.join(values['data'])}"
    return f"{_scores(values)} ({sentences}{f'; {search}' * searches}{outdated})"


def _training(config: Config, finished: int | None, unit: str) -> str:
    train, size = config.train, config.data.batch_tokens
    planned = " planned" * (finished != train.steps)  # a run with a budget can end at a different step
    parts = [
        f"{train.steps:,} step{'s' * (train.steps != 1)}{planned}" if train.steps else "",
        f"batches of {size:,} {unit}" if size else "",
        f"{train.optimizer} with peak learning rate {train.lr:g}" if train.optimizer and train.lr else "",
        f"warmup {train.warmup:,}, then {train.schedule}" if train.schedule and train.warmup is not None else "",
        f"{train.precision}, seed {train.seed}",
    ]
    return ", ".join(filter(None, parts))


def _best_validation(folder: Path, config: Config) -> dict[str, Any] | None:
    """Return the validation scores of the kept weights."""
    from ..folder.checkpoint import METRICS
    from ..training.report.metrics import read_metrics

    if not (folder / METRICS).exists():
        return None
    score = config.train.best
    name = "valid_loss" if score == NEWEST else f"valid_{score}"
    records = [record for record in read_metrics(folder / METRICS) if name in record]

    def rank(record: dict[str, Any]) -> tuple[float, int]:
        value = 0.0 if score == NEWEST else -record[name] if score == "loss" else record[name]
        return -math.inf if math.isnan(value) else value, record["step"]  # of equal scores, the newest was kept

    with _expect_scores(folder, METRICS):
        best = max(reversed(records), key=rank, default=None)  # a mean comes after the last step that it averages
    return best and {key.removeprefix("valid_"): value for key, value in best.items()}


@contextmanager
def _expect_scores(folder: Path, name: str) -> Iterator[None]:
    """Turn the errors of values that were read from a file, and may be anything, into a ModelError."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        what = f"{folder / name} has missing or strange values ({type(error).__name__}: {error})"
        expected = "the file that Clearhead wrote"
        raise ModelError(what, expected=expected, fix=f"restore or delete {name}", name=name) from error


def _scores(values: dict[str, Any]) -> str:
    from ..scoring import score_labels

    return score_labels.spoken(values)
