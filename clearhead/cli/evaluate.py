"""`clearhead evaluate`: the scores of a model on pairs that it has not seen."""

from typing import TYPE_CHECKING, Any

from ..errors import TrainingError
from .output import say, to_json
from .parser import Options, Parser, UsageError, Verb
from .using import add_model_options, open_model

if TYPE_CHECKING:
    from ..app import App, Evaluation

_EXAMPLES = 5  # lines shown to people


def _add_options(parser: Parser) -> None:
    add_model_options(parser)
    parser.add_argument("--data", nargs="+", metavar="FILE", help="a TSV of pairs, or two line-aligned files; needed")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")


def _run(options: Options) -> None:
    if not options.data:
        raise UsageError("no --data FILE is given; expected a TSV (source <TAB> target) or two line-aligned files")
    app, decode = open_model(options)
    from ..text.sources import read_pairs

    pairs = read_pairs(options.data)
    say(str(pairs.report))
    evaluation = app.evaluate(pairs, **decode)
    print(to_json(evaluation.to_dict()) if options.json else _text(evaluation.to_dict()))
    _save(app, evaluation)


def _save(app: "App", evaluation: "Evaluation") -> None:
    """Keep the scores in the folder. A folder that cannot be written to is no failure: what was asked for is printed,
    and models are often served from folders that are read-only on purpose.
    """
    try:
        path = app.save_evaluation(evaluation)
    except TrainingError as error:
        say(f"the scores are not kept in the model folder: {error}")
    else:
        say(f"written to {path}")


def _text(values: dict[str, Any]) -> str:
    rows = [
        ("sentences", f"{values['sentences']:,}", ""),
        ("BLEU", f"{values['bleu']:.2f}", values["bleu_signature"]),
        ("chrF", f"{values['chrf']:.2f}", values["chrf_signature"]),
        ("exact match", f"{values['exact_match']:.4f}", "share of translations that equal a reference"),
    ]
    if "token_accuracy" in values:
        rows.append(("token accuracy", f"{values['token_accuracy']:.4f}", "given the reference so far"))
    if "perplexity" in values:
        without = f", without the {values['too_long']:,} longest pairs" if values["too_long"] else ""
        rows.append(("perplexity", f"{values['perplexity']:.2f}", f"a token{without}"))
    lines = [f"{name:<15} {number:>8}  {note}".rstrip() for name, number, note in rows]
    for example in values["examples"][:_EXAMPLES]:
        lines += ["", f"source          {example['source']}", f"translation     {example['translation']}"]
        lines += [f"reference       {reference}" for reference in example["references"]]
    return "\n".join(lines)


VERB = Verb(
    name="evaluate",
    summary="score a model on pairs that it has not seen, and write evaluation.json into its folder",
    usage="DIR --data FILE [FILE] [options]",
    examples=(
        "clearhead evaluate models/en-fr --data test.tsv",
        "clearhead evaluate models/en-fr --data test.en test.fr --json --beam 1",
    ),
    add_options=_add_options,
    run=_run,
)
