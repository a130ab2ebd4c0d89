"""`clearhead verify`: check a trained model's guarantees on this machine."""

from typing import TYPE_CHECKING

from ...config.messages import say
from ...errors import ModelError
from ..models import add_reading_options, add_search_options, open_model, read_as_trained
from ..output import to_json
from ..parser import Options, Parser, Verb

if TYPE_CHECKING:
    from ...inspection.promises.check import Verification


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="model folder")
    text = "data to sample a few texts from (default: those of the last evaluation, or random tokens)"
    parser.add_inputs("data", "DATA", text)
    parser.add_number("--seed", "random seed for sampling the texts (default: 0)", default=0)
    parser.add_flag("--json", "print the results as JSON")
    add_reading_options(parser)
    add_search_options(parser, ())


def _run(options: Options) -> None:
    app, _ = open_model(options, one_answer=False)
    data = read_as_trained([app], options.data, options) if options.data else None
    if data is not None:
        say(str(data.report))
    found = app.verify(data, seed=options.seed)
    print(to_json({"model": options.folder, **found.to_dict()}) if options.json else found.render())
    if not found.passed:
        raise _broken(options.folder, found)


def _broken(folder: str, found: "Verification") -> ModelError:
    names = dict.fromkeys(check.name for check in found.checks if check.status == "failed")
    known = "".join(f"; {sentence}" for sentence in found.sentences())
    what = f"{folder} fails {len(names)} check{'s' * (len(names) != 1)}: {'; '.join(names)}{known}"
    return ModelError(what, expected="every difference within its bound", name=folder)


VERB = Verb(
    name="verify",
    summary="check that a trained model's masking, caching and gradients are correct",
    usage="DIR [DATA [DATA]] [options]",
    examples=(
        "clearhead verify models/en-fr",
        "clearhead verify models/en-fr test.tsv",
        "clearhead verify models/en-fr --json",
    ),
    add_options=_add_options,
    run=_run,
)
