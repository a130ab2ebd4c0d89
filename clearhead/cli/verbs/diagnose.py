"""`clearhead diagnose`: find out why a run learned less than it could have."""

from ..models import FILES, add_consent
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="folder of a model, or of a run that isn't finished")
    parser.add_inputs("data", "FILE", f"training data, if it has moved: {FILES}")
    parser.add_flag("--json", "print all measurements as JSON")
    add_consent(parser)


def _run(options: Options) -> None:
    from ...apps.diagnosis.all_probes import diagnose
    from ...folder.model_folder import model_path

    if options.folder is None:
        raise UsageError("no folder is given", fix="name one that `clearhead train` has written")
    found = diagnose(model_path(options.folder), options.data, allow_custom_code=options.allow_custom_code)
    print(to_json(found.to_dict()) if options.json else found.render())


VERB = Verb(
    name="diagnose",
    summary="find out why a run learned less than it could have, and how to fix it",
    usage="DIR [FILE [FILE]] [options]",
    examples=(
        "clearhead diagnose models/en-fr",
        "clearhead diagnose models/en-fr moved/pairs.tsv",
        "clearhead diagnose runs/unfinished --json",
    ),
    add_options=_add_options,
    run=_run,
)
