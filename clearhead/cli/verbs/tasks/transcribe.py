"""`clearhead transcribe`: write down what is said in audio files."""

from ...parser import Options, Parser, Verb
from ...text_to_text import add_text_options, answer_files


def _add_options(parser: Parser) -> None:
    add_text_options(parser, "transcribe", "transcript")


def _run(options: Options) -> None:
    answer_files(options, "transcribe", "the path of an audio file")


VERB = Verb(
    name="transcribe",
    summary="transcribe audio files, or the files listed on standard input",
    usage="DIR [FILE ...] [options]",
    examples=(
        "clearhead transcribe models/calls a.wav b.wav",
        "ls calls/*.flac | clearhead transcribe models/calls --json",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
