"""`clearhead train`: from files to a model folder."""

from pathlib import Path

from ...config import Config, settings
from ...config.messages import say
from ..configure import configure
from ..data_options import FILES, READING
from ..parser import Options, Parser, UsageError, Verb, add_settings

_SHORT = {
    "train.task": ["--task"],
    "train.preset": ["--preset"],
    "train.budget": ["--budget"],
    "train.init_from": ["--init-from"],
    "train.warm_start": ["--warm-start"],
    "train.watch": ["--watch"],
    "train.device": ["--device"],
    "train.threads": ["--threads"],
    "data.valid": ["--valid"],
    "data.test": ["--test"],
    "data.texts": ["--texts"],
    "data.split": ["--split"],
    **READING,
}
_FOLLOW = (  # the data decide
    "model.src_vocab_size",
    "model.tgt_vocab_size",
    "model.n_classes",
    "data.labels",
    "data.unanswerable",
)


def _add_options(parser: Parser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help=FILES)
    parser.add_argument("--out", metavar="DIR", help="the model folder to make; needed")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out after its last checkpoint")
    parser.add_argument("--config", metavar="FILE", help="settings from a TOML file, below those of the command line")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show the task, columns and first examples; train and write nothing",
    )
    parser.add_argument("--print-config", action="store_true", help="print the settings as TOML and do nothing else")
    add_settings(parser, [name for name in settings() if name not in _FOLLOW], _SHORT)


def _run(options: Options) -> None:
    if options.files:
        if "data.train" in vars(options):
            raise UsageError("the training files are named twice; leave --data.train out, or the files before it")
        vars(options)["data.train"] = options.files
    config = configure(options)
    if "data.split" in vars(options) and config.data.valid:
        raise UsageError(
            f"--split holds out a part of the training data, and --valid names {' + '.join(config.data.valid)} for the "
            "same purpose; expected one of the two"
        )
    if options.print_config:
        print(_completed(config).to_toml(), end="")
        return
    if not config.data.train:
        raise UsageError(
            f"no training file is named; expected {FILES}, "
            "before options that take files themselves: clearhead train pairs.tsv --out DIR"
        )
    if options.dry_run:
        _show_data(config)
        return
    if options.out is None:
        raise UsageError("no --out DIR is given; expected the folder that the model goes to")
    from ...api import train
    from ...training.pace import process_began

    if config.train.task is not None and not options.resume:
        _say_task(config)
    train(config, options.out, resume=options.resume, began=process_began())


def _show_data(config: Config) -> None:
    """Print what training would use as what."""
    from ...tasks.preview import preview

    for paragraph in preview(config):
        print(paragraph)
    say("nothing was trained or written; leave out --dry-run to train")


def _say_task(config: Config) -> None:
    """Print which columns a named task uses; a task that isn't named is printed when it's detected."""
    from ...tasks.detect import find_task

    say(str(find_task(config.data.train, config.data, task=config.train.task)))


def _completed(config: Config) -> Config:
    """Return the settings that a run would begin with: those of its task added, which may be detected from the data."""
    from ...tasks.registry import task_of
    from ...training.run import with_task

    if config.train.task is None and config.data.train and all(Path(it).exists() for it in config.data.train):
        config = with_task(config, say)
    elif config.train.task is None:
        say("note: no task is named, and no file is there to tell; these are for `translate`. For another: --task")
    return task_of(config).settle(config)


VERB = Verb(
    name="train",
    summary="train a model on pairs, labelled texts, questions, documents or running text",
    usage="FILE [FILE] --out DIR [options]",
    examples=(
        "clearhead train pairs.tsv --out models/en-fr",
        "clearhead train text.en text.fr --out models/en-fr --preset small --train.steps=20000",
        "clearhead train pairs.tsv --out models/fr-en --reverse",
        "clearhead train pairs.csv --out models/en-fr --source-column english --target-column french",
        "zcat parts/*.gz | clearhead train - --out models/en-fr",
        "clearhead train pairs.tsv --out models/en-fr --resume",
        "clearhead train book.txt --out models/book --task generate",
        "clearhead train tickets.csv --dry-run",
        "clearhead train tickets.csv --out models/queues --task classify --text subject,body --label queue",
    ),
    add_options=_add_options,
    run=_run,
)
