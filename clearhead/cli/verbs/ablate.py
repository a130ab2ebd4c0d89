"""`clearhead ablate`: measure how the score changes without each head, attention module and feed-forward network."""

from typing import TYPE_CHECKING

from ...config.messages import say
from ..models import FILES, WATCHED, add_reading_options, add_search_options, open_model, read_as_trained
from ..output import ProgressLine, new_file_of, to_json
from ..parser import Options, Parser, UsageError, Verb, whole_number

if TYPE_CHECKING:
    from ...api import App
    from ...inspection.ablation import Ablation

_LIMIT = "200"


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="model folder")
    parser.add_inputs("data", "FILE", f"{FILES} (required)")
    text = "parts to remove in turn: heads, attentions, feed-forwards or all (default: all)"
    parser.add_value("--parts", "KIND", text, "all")
    text = f"number of texts to score, drawn as a fixed random sample, or all (default: {_LIMIT})"
    parser.add_value("--limit", "N", text, _LIMIT, type=_count)
    parser.add_value("--score", "NAME", "score to compare, such as bleu, chrf or f1 (default: the task's main score)")
    parser.add_value("--png", "FILE", "save a plot of the results as PNG", type=new_file_of("png"))
    parser.add_value("--svg", "FILE", "save a plot of the results as SVG", type=new_file_of("svg"))
    parser.add_flag("--json", "print the results as JSON")
    add_reading_options(parser)
    add_search_options(parser, WATCHED)


def _run(options: Options) -> None:
    from ...apps.checks.part_ablation import AblationOptions

    app, decode = open_model(options, one_answer=True)
    if not options.data:
        raise UsageError("no data is given", expected=FILES, fix=f"name a file: clearhead ablate {options.folder} FILE")
    AblationOptions(options.parts, options.limit, options.score, keep=True).check(app.task.verb, app.task.compared_by)
    data = read_as_trained([app], options.data, options)
    say(str(data.report))
    with ProgressLine() as progress:
        found = app.ablate(
            data, parts=options.parts, limit=options.limit, score=options.score, watch=progress, **decode
        )
    _say_notes(app, found)
    for picture in filter(None, (options.png, options.svg)):
        found.plot(picture)
        say(f"wrote {picture}")
    print(to_json(found.to_dict()) if options.json else found.render())


def _say_notes(app: "App", found: "Ablation") -> None:
    """Print notes on sampling, truncated texts and stored results."""
    from ...scoring import score_labels

    study = found.study
    if study.sampled:
        say(study.sampled)
    if study.cut:
        say(f"{app.path}: {score_labels.what_was_cut(study.cut, app.task.units.sources)}")
    if study.kept:
        say(f"reused {study.kept:,} of {len(found.rows) + 1:,} results from {study.folder}")
    if study.problem:
        say(f"the results weren't stored: {study.problem}")


def _count(text: str) -> int | None:
    """Parse --limit. None means all."""
    return None if text == "all" else whole_number("--limit", 1, also=" or all")(text)


VERB = Verb(
    name="ablate",
    summary="measure how the score changes when each head, attention module or feed-forward network is removed",
    usage="DIR FILE [FILE] [options]",
    examples=(
        "clearhead ablate models/en-fr test.tsv",
        "clearhead ablate models/en-fr test.tsv --parts heads --limit 100 --beam 1 --png heads.png",
        "clearhead ablate models/topics labelled.csv --score right_probability --limit all --json",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
