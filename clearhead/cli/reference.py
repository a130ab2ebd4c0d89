"""`python -m clearhead.cli.reference` prints docs/command-line.md: the help of every verb, as the parsers give it."""

import sys

from .entry import VERBS
from .parser import parser_of


def reference() -> str:
    """The page, in Markdown."""
    sections = [
        "# The command line\n\nWritten by `make docs` from the parsers; `clearhead VERB --help` says the same.\n"
    ]
    sections += [f"## {verb.name}\n\n```text\n{parser_of(verb).format_help().rstrip()}\n```\n" for verb in VERBS]
    return "\n".join(sections)


if __name__ == "__main__":
    sys.stdout.write(reference())
