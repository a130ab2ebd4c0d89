"""`clearhead check`: find faulty lines in training data, and write files without them."""

from pathlib import Path

from ...config.messages import printable, say
from ..models import READING
from ..output import expect_new, new_regular_file, to_json
from ..parser import Options, Parser, UsageError, Verb
from ..setting_options import add_settings, configure

_SHORT = {
    "train.task": ["--task"],
    **READING,
    "data.label_kind": ["--as"],
    "data.valid": ["--valid"],
    "data.test": ["--test"],
    "data.max_len": [],
}
_FILES = "pairs, labelled texts or running text: a TSV, CSV, JSON or text file, two aligned files, or - for stdin"


def _add_options(parser: Parser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help=_FILES)
    text = "write the lines without faults; for aligned files, name two"
    parser.add_argument(
        "--out", nargs="+", action="extend", type=new_regular_file, metavar="FILE", default=[], help=text
    )
    parser.add_value(
        "--dropped", "FILE", "write the other lines, with their numbers and reasons", type=new_regular_file
    )
    parser.add_flag("--repair", "repair lines instead of dropping them, if it's certain how (with --out)")
    parser.add_flag("--json", "print all findings as JSON")
    helps = {"data.valid": "validation data to check for leaks", "data.test": "test data to check for leaks"}
    add_settings(parser, _SHORT, _SHORT, helps=helps, show_defaults=False)


def _run(options: Options) -> None:
    if not options.files:
        raise UsageError("no file is given", expected=_FILES)
    if options.repair and not options.out:
        raise UsageError("--repair needs a file to write", expected="--out FILE", name="--repair")
    outputs = [*options.out, *filter(None, [options.dropped])]
    expect_new(outputs, (Path(it) for key in ("files", "data.valid", "data.test") for it in vars(options).get(key, ())))
    options.config = None
    vars(options)["data.train"] = options.files
    from ...cleaning.checkup import check_data

    found = check_data(configure(options), say, options.out, options.dropped, repair=options.repair)
    print(to_json(found.to_dict()) if options.json else printable(str(found)))
    for path in outputs:
        say(f"wrote {path}")


VERB = Verb(
    name="check",
    summary="find faulty lines in training data, and write files without them",
    usage="FILE [FILE] [options]",
    examples=(
        "clearhead check pairs.tsv",
        "clearhead check pairs.tsv --test test.tsv --out clean.tsv --dropped dropped.tsv",
        "clearhead check pairs.tsv --out clean.tsv --repair",
        "clearhead check text.en text.fr --out clean.en clean.fr",
        "clearhead check tickets.csv --text body --label queue --json",
    ),
    add_options=_add_options,
    run=_run,
)
