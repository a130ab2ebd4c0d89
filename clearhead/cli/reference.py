"""Print docs/command-line.md, the help of every verb: `python -m clearhead.cli.reference`."""

import sys

from .entry import VERBS
from .parser import parser_of

_INTRODUCTION = """\
# Command line

`make docs` writes this page. It shows `clearhead VERB --help-all` for every verb; `--help` shows the common options.
"""


def reference() -> str:
    """Return the page as Markdown."""
    helps = {name: parser_of(verb, full=True, width=100).format_help().rstrip() for name, verb in VERBS.items()}
    return "\n".join([_INTRODUCTION, *(f"## {name}\n\n```text\n{text}\n```\n" for name, text in helps.items())])


if __name__ == "__main__":
    sys.stdout.write(reference())
