"""`clearhead verify`: prove on a trained model, and on this machine, that the promises of the code hold."""

from typing import TYPE_CHECKING

from ...config.messages import say
from ...errors import ModelError
from ..data_options import add_reading_options, read_as_trained
from ..model_options import NO_FOLDER, add_search_options, check_options, open_models
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    from ...inspection.promises.check import Verification


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="a model folder")
    parser.add_argument(
        "data",
        nargs="*",
        metavar="DATA",
        help="files that hold what the model learnt from, of which a few texts are drawn; without them it is those of "
        "the last evaluation, or random tokens",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn (default: 0)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_reading_options(parser)
    add_search_options(parser, ())


def _run(options: Options) -> None:
    if options.folder is None:
        raise UsageError(NO_FOLDER)
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed} cannot be used; expected 0 or more")
    here, decode = check_options([options.folder], options)
    data = read_as_trained([options.folder], options.data, options) if options.data else None
    if data is not None:
        say(str(data.report))
    (app,) = open_models([options.folder], here, decode)
    found = app.verify(data, seed=options.seed)
    print(to_json({"model": options.folder, **found.to_dict()}) if options.json else found.render())
    if not found.passed:
        raise ModelError(_broken(options.folder, found))


def _broken(folder: str, found: "Verification") -> str:
    names = dict.fromkeys(check.name for check in found.checks if check.status == "failed")
    known = "".join(f"; {sentence}" for sentence in found.sentences())
    return (
        f"{folder} breaks {len(names)} promise{'s' * (len(names) != 1)}: {'; '.join(names)}{known}; expected each "
        "difference within its bound: what is known of the cause stands beside it"
    )


VERB = Verb(
    name="verify",
    summary="prove on a trained model that the promises of the code hold",
    usage="DIR [DATA [DATA]] [options]",
    examples=(
        "clearhead verify models/en-fr",
        "clearhead verify models/en-fr test.tsv",
        "clearhead verify models/en-fr --json",
    ),
    add_options=_add_options,
    run=_run,
)
