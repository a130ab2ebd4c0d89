"""`clearhead evaluate` and `clearhead score`: score models on held-out data, and existing answers with a model."""

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...config.messages import printable, say
from ...errors import TrainingError
from ..models import (
    FILES,
    add_model_options,
    add_reading_options,
    add_search_options,
    open_model,
    open_models,
    read_as_trained,
)
from ..output import TABLES, expect_new, new_file, to_json
from ..parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    from ...api import App, Evaluation, Translator
    from ...scoring.bootstrap import Compared, Comparison
    from ...scoring.costs import Costs
    from ...scoring.score_labels import Label
    from ...tasks.base import Task

_EXAMPLES = 5  # number of sources to show with their answers
_WIDTH = 400  # maximum number of characters to show of a source or reference
_SCORES_A_TABLE = 2
_TABLES = TABLES[:-1]  # a table of predictions isn't written as Parquet


def _add_options(parser: Parser) -> None:
    parser.add_inputs("folders", "DIR", "model folder; additional models are compared with the first")
    parser.add_files("--data", f"{FILES} (required)")
    more = "one per line, aligned with the sources; --data can then contain sources only"
    parser.add_files("--references", f"files of additional references, {more}")
    text = "write a report with the best, worst and typical answers as text or .json, or with error rates as .html"
    parser.add_value("--report", "FILE", text, type=new_file)
    text = "write a table with each source, its correct answer, the model's and its scores: .csv, .tsv or .jsonl"
    parser.add_value("--predictions", "FILE", text, type=new_file)
    text = "price mistakes of a classifier: a .tsv or .csv file with the columns label, predicted and cost"
    parser.add_value("--costs", "FILE", text, type=Path)
    parser.add_flag("--json", "print the scores as JSON")
    parser.add_flag("--no-save", "don't save the scores in the model folders")
    parser.add_flag("--calibrate", "calibrate the confidence of answers on this data, and save it with the model")
    add_reading_options(parser)
    add_search_options(parser)


def _run(options: Options) -> None:
    if not options.data:
        raise _no_data(options.folders)
    for name in ("report", "predictions", "costs"):
        if getattr(options, name) and len(options.folders) > 1:
            raise UsageError(f"--{name} describes one model, but several are given", name=f"--{name}")
    if options.predictions and options.predictions.suffix.lower() not in _TABLES:
        what = f"--predictions {options.predictions} isn't the name of a table"
        raise UsageError(what, expected=f"a name that ends in {', '.join(_TABLES)}", name="--predictions")
    read = map(Path, filter(None, [*options.data, *options.references, options.costs]))
    expect_new([*filter(None, [options.report, options.predictions])], (it for it in read if not it.is_dir()))
    apps, decode = open_models(options.folders, options, one_answer=True)
    pairs = read_as_trained(apps, options.data, options, options.references)
    say(str(pairs.report))
    costs = _costs(options.costs, apps[0], pairs.targets) if options.costs else None
    calibrated = apps[0].confidence if not options.calibrate and (costs or options.report) else None
    evaluations = [app.evaluate(pairs, **decode) for app in apps]
    if costs:
        from ...apps.trust_report import with_costs

        evaluations = [with_costs(evaluations[0], costs, calibrated)]
        if costs.has_rejections and "cheapest_rejection" not in evaluations[0].scores.to_dict():
            say("the cheapest confidence is unknown: it takes at least 20 answers, or a calibrated model")

    from ...scoring import score_labels

    for app, evaluation in zip(apps, evaluations):
        if evaluation.unread:
            say(f"{app.path}:\n{evaluation.unread}")
        if evaluation.seen:
            say(f"{app.path}: {evaluation.seen}")
        if evaluation.cut:
            say(f"{app.path}: {score_labels.what_was_cut(evaluation.cut, app.task.units.sources)}")
    if len(apps) == 1:
        values = evaluations[0].to_dict()
        print(to_json(values) if options.json else printable(_text(values, evaluations[0])))
    else:
        _compare(apps[0].task, options.folders, evaluations, as_json=options.json)
    for app, evaluation in () if options.no_save else zip(apps, evaluations):
        _save(app, evaluation)
    sys.stdout.flush()  # a file may be stdout, too
    if options.report:
        about = {"of_texts": "text" in apps[0].task.modalities, "calibrated": calibrated, "costs": costs}
        _write(options.report, _report(options.report, evaluations[0], **about))
    if options.predictions:
        from ...apps.annotation.predictions import as_table, predictions

        _write(options.predictions, as_table(predictions(evaluations[0], pairs), options.predictions.suffix.lower()))
    for app, evaluation in zip(apps, evaluations) if options.calibrate else ():
        say(f"wrote {app.calibrate(evaluation)}")


def _write(path: Path, text: str) -> None:
    from ...folder.atomic import save_file

    save_file(path, text.encode("utf-8", "backslashreplace"))
    say(f"wrote {path}")


def _no_data(folders: list[str]) -> UsageError:
    """Return the error for missing data. A file among the model folders is probably the data."""
    file = next((it for it in folders if Path(it).is_file()), None)
    fix = "name it with --data FILE"
    if file is not None:
        fix = f"{file} was taken for a model folder; if it's the data: --data {shlex.quote(file)}"
    return UsageError("no data is given", expected=FILES, fix=fix, name="--data", value=file)


def _costs(path: Path, app: "App", labels: Iterable[str]) -> "Costs":
    """Read the costs of mistakes. Raise UsageError if the model doesn't give each input one label."""
    from ...api import Classifier
    from ...scoring.costs import Costs

    if not isinstance(app, Classifier) or app.config.data.label_kind:
        what = f"--costs needs a classifier with one label per input, and {app.path} isn't one"
        raise UsageError(what, fix="leave --costs out", name="--costs")
    return Costs.read(path, {*app.labels, *labels}, app.labels)


def _report(path: Path, evaluation: "Evaluation", **about: Any) -> str:
    if path.suffix == ".json":
        return to_json({**evaluation.to_dict(), "lines": evaluation.lines()}) + "\n"
    if path.suffix in (".html", ".htm"):
        from ...apps.trust_report import trust_report

        return trust_report(evaluation, **about)
    return evaluation.report()


def _compare(task: "Task", folders: list[str], evaluations: list["Evaluation"], *, as_json: bool) -> None:
    """Print the scores of several models and whether the differences are significant."""
    from ...scoring import score_labels

    systems = [(folder, evaluation.judged) for folder, evaluation in zip(folders, evaluations)]
    comparison = task.compare(systems)
    if as_json:
        models = [{"model": folder, **it.to_dict()} for folder, it in zip(folders, evaluations)]
        print(to_json({"format_version": 1, "models": models, "significance": comparison.to_dict()}))
    else:
        baseline = score_labels.more_lines(evaluations[0].scores.to_dict())
        print(printable("\n".join([_table(comparison), *baseline])))


def _table(comparison: "Comparison") -> str:
    """Return a table with a row for each model, or a table for each score if there are too many for the terminal."""
    from ...scoring.score_labels import LABELS

    names = list(comparison.by_score)
    tables = [names] if len(names) <= _SCORES_A_TABLE else [[name] for name in names]
    rows = [row for table in tables for row in _rows([(LABELS[it], comparison.by_score[it]) for it in table])]
    notes = ["p: two-tailed p-value of the paired bootstrap against the first model"]
    notes += [f"{LABELS[name].name} {signature}" for name, signature in comparison.signatures.items()]
    return "\n".join([*rows, *notes])


def _rows(scores: "list[tuple[Label, list[Compared]]]") -> list[str]:
    """Return a heading and a row for each model."""
    systems = list(zip(*(compared for _, compared in scores)))
    width = max(12, *(len(row[0].system) for row in systems))
    rows = [f"{'':<{width}}  " + "  ".join(f"{label.name:>6} {'95%':>15} {'p':>6}" for label, _ in scores)]
    for row in systems:
        cells = "  ".join(_columns(it, label) for it, (label, _) in zip(row, scores))
        rows.append(f"{row[0].system:<{width}}  {cells}".rstrip())
    return rows


def _columns(it: "Compared", label: "Label") -> str:
    p = "" if it.p_value is None else f"{it.p_value:.4f}"
    within = f"{label.number(it.mean)} ± {label.number(it.interval)}"
    return f"{label.number(it.score):>{max(6, len(label.name))}} {within:>15} {p:>6}"


def _save(app: "App", evaluation: "Evaluation") -> None:
    """Store the scores in the model folder. Failure only prints a message, because the scores were already printed."""
    earlier = app.loaded.evaluated_data()
    try:
        path = app.save_evaluation(evaluation)
    except TrainingError as error:
        say(f"the scores weren't stored in the model folder: {error}\n  --no-save doesn't try to store them")
    else:
        replaced = bool(earlier) and earlier != evaluation.data
        say(f"wrote {path}" + f", in place of the scores on {', '.join(earlier)}" * replaced)


def _text(values: dict[str, Any], evaluation: "Evaluation") -> str:
    from ...scoring import score_labels

    what, count = score_labels.count(values)
    rows = [(what, f"{count:,}", ""), *score_labels.rows(values, values["too_long"])]
    rows += [("engine", evaluation.engine, values["precision"])] if evaluation.engine else []
    width = max(15, *(len(name) for name, _, _ in rows))
    lines = [f"{name:<{width}} {number:>8}  {note}".rstrip() for name, number, note in rows]
    answer, details = evaluation.answer, evaluation.judged.details
    lines += score_labels.more_lines(values)
    lines += ["", details] if details else []
    for example in values["examples"][:_EXAMPLES]:
        lines += [
            "",
            f"source          {_shortened(example['source'])}",
            f"{answer:<15} {_shortened(example[answer])}".rstrip(),
        ]
        lines += [f"reference       {_shortened(reference)}" for reference in dict.fromkeys(example["references"])]
    return "\n".join(lines)


def _shortened(text: str) -> str:
    from ...readers.lines import one_line

    line = one_line(text)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


EVALUATE = Verb(
    name="evaluate",
    summary="score models on held-out data and write evaluation.json to their folders",
    usage="DIR [DIR ...] --data FILE [FILE] [--references FILE ...] [options]",
    examples=(
        "clearhead evaluate models/en-fr --data test.tsv",
        "clearhead evaluate models/old models/new --data test.tsv",
        "clearhead evaluate models/topics --data labelled.csv --report report.txt --predictions predictions.csv",
        "clearhead evaluate models/en-fr --data test.en test.fr --json --beam 1",
        "clearhead evaluate models/en-fr --data test.en --references test.1.fr test.2.fr",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)


# --- scores of existing answers


def _add_score_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.alpha"])
    parser.add_argument("files", nargs="*", metavar="FILE", help=FILES)
    add_reading_options(parser)
    parser.add_flag("--json", "print JSON lines with tokens and log-probabilities")


def _run_score(options: Options) -> None:
    if not options.files:
        raise UsageError("no file of pairs is given", expected=FILES)
    app, decode = open_model(options, "translate", "summarize", one_answer=False)
    pairs = read_as_trained([app], options.files, options)
    scored, report = cast("Translator", app).score(pairs, **decode)
    say(str(report))
    for each in scored:
        values = f"{each.line}\t{each.log_probability:.6f}\t{each.score:.6f}"
        print(to_json(each.to_dict()) if options.json else values)


SCORE = Verb(
    name="score",
    summary="print the line number, log-probability and length-normalised score of each pair in a file",
    usage="DIR FILE [FILE] [options]",
    examples=("clearhead score models/en-fr pairs.tsv", "clearhead score models/en-fr text.en text.fr --json"),
    add_options=_add_score_options,
    run=_run_score,
)
