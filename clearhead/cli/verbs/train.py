"""`clearhead train`: train a model on data files and write it to a folder."""

import os
from pathlib import Path

from ...config import PRESETS, Config, settings
from ...config.messages import printable, say
from ...config.model_settings import FOUND_IN_DATA
from ..models import FILES, READING, add_consent
from ..parser import Options, Parser, UsageError, Verb
from ..setting_options import add_settings, configure

_SHORT = {
    "train.task": ["--task"],
    **READING,
    "data.label_kind": ["--as"],
    "data.valid": ["--valid"],
    "data.test": ["--test"],
    "data.split": ["--split"],
    "data.replay": ["--replay"],
    "data.check": ["--check"],
    "train.preset": ["--preset"],
    "train.budget": ["--budget"],
    "train.memory": ["--memory"],
    "train.steps": ["--steps"],
    "train.init_from": ["--init-from"],
    "train.adapter": ["--adapter"],
    "train.freeze": ["--freeze"],
    "train.warm_start": ["--warm-start"],
    "train.loss_on": ["--loss-on"],
    "train.device": ["--device"],
    "data.texts": ["--texts"],
    "train.watch": ["--watch"],
    "train.threads": ["--threads"],
}
_RARE = (
    "data.replay",
    "data.check",
    "data.separator",
    "data.quoting",
    "data.texts",
    "train.watch",
    "train.threads",
    "train.memory",
    "train.loss_on",
    "train.freeze",
)
_HELPS = {
    "train.task": "translate, generate, classify, answer, summarize, transcribe, speak or fill (default: detected)",
    "data.source_column": "source or text column, or several (default: detected)",
    "data.target_column": "target or label column (default: detected)",
    "data.label_kind": "several, targets or number (default: detected)",
    "data.reverse": "swap source and target",
    "data.valid": "validation data (default: part of the training data)",
    "data.test": "test data to score after training",
    "data.split": "fraction of the data to hold out for validation",
    "train.preset": f"{', '.join(PRESETS)} (default: depends on the amount of data)",
    "train.budget": "time limit, such as 15m or 1h30m; sets the preset and the number of steps",
    "train.steps": "number of weight updates (default: depends on data)",
    "train.init_from": "model folder to fine-tune",
    "train.adapter": "lora trains a small update of the --init-from model",
    "train.freeze": "parts not to train, such as embeddings,encoder",
    "train.warm_start": "pretrain first: denoise reconstructs masked text",
    "train.device": "auto, cpu, cuda or cuda:1 (default: auto)",
}


def _add_options(parser: Parser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help=FILES)
    parser.add_argument("--out", metavar="DIR", help="model folder to write (required)")
    parser.add_flag("--resume", "continue the run in --out from its last checkpoint")
    parser.add_argument("--config", metavar="FILE", help="TOML file or recipe; options override its settings")
    text = parser.rare("train in N processes of this machine")
    parser.add_number("--processes", text, least=1, most=1024, default=1)
    parser.add_flag("--dry-run", "show the task, columns and examples without training")
    parser.add_flag("--print-config", "print the settings as TOML and exit")
    add_consent(parser)
    names = [name for name in settings() if name not in FOUND_IN_DATA]
    add_settings(parser, names, _SHORT, rare=_RARE, helps=_HELPS)


def _run(options: Options) -> None:
    if options.files:
        if "data.train" in vars(options):
            raise UsageError("the training files are given twice", fix="leave out --data.train or the FILE arguments")
        vars(options)["data.train"] = options.files
    if options.out is not None and not options.out.strip():
        raise UsageError("--out is empty", fix="name a folder", name="--out", value=options.out)
    config = configure(options)
    if "data.split" in vars(options) and config.data.valid:
        raise UsageError("--split and --valid both choose the validation data", fix="use one of them", name="--split")
    if options.print_config:
        print(_completed(config).to_toml(), end="")
        return
    if not config.data.train:
        what = "no training file is given"
        fix = "put it before options that take several files: clearhead train pairs.tsv --out DIR"
        raise UsageError(what, expected=FILES, fix=fix)
    if options.dry_run:
        _show_data(config, options.allow_custom_code)
        return
    if options.out is None:
        raise UsageError("no model folder is given", fix="name one with --out DIR", name="--out")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch.distributed warns of what DDP needs here
    if options.processes > 1 and "WORLD_SIZE" not in os.environ:
        from ...training.distributed.processes import launch

        launch(["train", *options.command_line], options.processes)
        return
    from ...api import train
    from ...training.schedule import process_began

    if config.train.task is not None and not options.resume:
        _say_task(config)
    train(
        config, options.out, resume=options.resume, began=process_began(), allow_custom_code=options.allow_custom_code
    )


def _show_data(config: Config, allow_custom_code: bool) -> None:
    """Print the detected task, how training would use each column, and whether the model to start from fits."""
    from ...tasks.preview import preview

    def check(settled: Config) -> list[str]:
        from ...training.init_from import InitFrom

        if not settled.train.init_from:
            return []
        start = InitFrom.load(Path(settled.train.init_from), allow_custom_code=allow_custom_code)
        start.configure(settled)
        about = start.about_labels(settled)
        return [about or f"{start.path} fits", *start.differences(settled)]

    for paragraph in preview(config, check):
        print(printable(paragraph))
    say("nothing was trained or written; leave out --dry-run to train")


def _say_task(config: Config) -> None:
    """Print the columns that an explicitly given task uses. A detected task is printed when it's detected."""
    from ...tasks.detect import find_task, with_modality
    from ...training.open_run import check_early

    check_early(config)
    config = with_modality(config)
    say(str(find_task(config.data.train, config.data, task=config.train.task)))


def _completed(config: Config) -> Config:
    """Return the settings that a run would start with, including those of its task."""
    from ...tasks.detect import with_modality, with_task
    from ...tasks.registry import task_of

    if config.train.task is None and config.data.train and all(Path(it).exists() for it in config.data.train):
        config = with_task(config, say)
    elif config.train.task is None:
        say("note: assuming --task translate, since there's no data to detect the task from")
    return task_of(with_modality(config)).settle(config)


VERB = Verb(
    name="train",
    summary="train a model on texts, images or audio",
    usage="FILE [FILE] --out DIR [options]",
    examples=(
        "clearhead train pairs.tsv --out models/en-fr",
        "clearhead train text.en text.fr --out models/en-fr --preset small --steps 9000",
        "clearhead train tickets.csv --out queues --text subject,body --label queue",
        "clearhead train book.txt --out models/book --task generate --budget 10m",
        "zcat parts/*.gz | clearhead train - --out models/en-fr",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="set --memory, such as 4GB, lower --data.max_len or use a smaller --preset",
)
