"""`clearhead import`: turn another program's model into a model folder."""

from pathlib import Path

from ...config import TASKS
from ...config.messages import say
from ..parser import Options, Parser, UsageError, Verb


def _add_options(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="PATH",
        help="folder or zip archive of Hugging Face's Transformers, CTranslate2, Argos Translate, OPUS-MT or PEFT",
    )
    parser.add_argument("--out", metavar="MODEL", help="model folder to write")
    parser.add_value("--task", "TASK", "task to use the model for (default: that of its class)", choices=list(TASKS))
    parser.add_argument("--base", metavar="MODEL", help="imported model that an adapter of PEFT belongs to")
    parser.add_flag("--replace", "replace the model in --out")


def _run(options: Options) -> None:
    if options.folder is None or options.out is None:
        what = "a model to read or a folder to write is missing"
        raise UsageError(what, expected="clearhead import PATH --out MODEL")
    from ...exchange.import_model import import_model

    base = Path(options.base) if options.base else None
    more = {"task": options.task, "replace": options.replace, "say": say, "base": base}
    out = import_model(Path(options.folder), Path(options.out), **more)
    from ...api import load
    from ...apps.filler import Filler
    from ...tasks.base import example_of

    app = load(out)
    example = example_of(app.task, str(out), app.config)
    say(f"{out} is ready: {example.replace('[MASK]', app.mask) if isinstance(app, Filler) else example}")


VERB = Verb(
    name="import",
    summary="turn another program's model on this disk into a model folder",
    usage="PATH --out MODEL [--task TASK] [--base MODEL]",
    examples=(
        "clearhead import downloads/gpt2 --out models/gpt2",
        "clearhead import downloads/opus-mt-en-de --out models/en-de",
        "clearhead import downloads/translate-en_fr-1_9.argosmodel --out models/en-fr",
        "clearhead import downloads/lora --base models/gpt2 --out adapters/gpt2",
    ),
    add_options=_add_options,
    run=_run,
)
