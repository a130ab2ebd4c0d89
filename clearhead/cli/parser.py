"""Command-line parsing on top of argparse: verbs, usage errors with suggestions, and help in two lengths."""

import argparse
import difflib
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from ..config.renamed import renamed
from ..errors import ClearheadError

Options = argparse.Namespace

_NARROWEST, _WIDEST = 60, 100  # width of the help, in columns
_LESS_MEMORY = "close other programs"


class UsageError(ClearheadError):
    """The command line is invalid. The exit code is 2."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError and hides rare options from the short help.

    Args:
        full: show every option in the help (`--help-all`).
    """

    def __init__(self, *, full: bool = False, **named: Any) -> None:
        self._section: argparse._ArgumentGroup | None = None
        super().__init__(**named)
        self.full = full

    def section(self, title: str) -> None:
        """Show the options that are added from now on under their own title."""
        self._section = self.add_argument_group(title)

    def add_argument(self, *names: Any, **named: Any) -> argparse.Action:
        """Add an argument to the current section."""
        add = super().add_argument if self._section is None else self._section.add_argument
        return add(*names, **named)

    def rare(self, text: str) -> str:
        """Return the help text for an option that only `--help-all` shows."""
        return text if self.full else argparse.SUPPRESS

    def add_inputs(self, name: str, metavar: str, text: str) -> None:
        """Add a positional argument that can be given any number of times.

        Args:
            name: the attribute of the parsed options that has the list.
            metavar: what one of them is called in the help.
            text: the help.
        """
        self.add_argument(name, nargs="*", metavar=metavar, help=text)

    def add_value(self, name: str, metavar: str, text: str, default: str | None = None, **more: Any) -> None:
        """Add an option with a value.

        Args:
            name: the option, such as "--out".
            metavar: what its value is called in the help.
            text: the help.
            default: the value without the option.
            more: other arguments of argparse, such as a `type`.
        """
        self.add_argument(name, metavar=metavar, default=default, help=text, **more)

    def add_files(self, name: str, text: str) -> None:
        """Add an option that takes several files."""
        self.add_argument(name, nargs="+", action="extend", metavar="FILE", default=[], help=text)

    def add_flag(self, name: str, text: str) -> None:
        """Add an option without a value."""
        self.add_argument(name, action="store_true", help=text)

    def add_number(
        self, name: str, text: str, *, least: int = 0, most: int = 2**31, default: int | None = None
    ) -> None:
        """Add an option that takes a whole number.

        Args:
            name: the option, such as "--seed".
            text: the help.
            least: the smallest valid number.
            most: the largest valid number.
            default: the value without the option.
        """
        self.add_argument(name, type=whole_number(name, least, most), metavar="N", default=default, help=text)

    def add_repeatable(self, name: str, metavar: str, text: str) -> None:
        """Add an option that can be given several times. Its value is a list.

        Args:
            name: the option, such as "--stop".
            metavar: what one value is called in the help.
            text: the help.
        """
        self.add_argument(name, action="append", default=[], metavar=metavar, help=text)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def _print_message(self, message: str, file: Any = None) -> None:  # argparse's own version ignores errors
        (file or sys.stderr).write(message)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help formatter that shows an option's value once, after all its spellings, on every Python version."""

    def __init__(self, prog: str, *, width: int, full: bool) -> None:
        super().__init__(prog, max_help_position=30 if full else 26, width=width)
        self._full = full

    def _format_action_invocation(self, action: argparse.Action) -> str:
        spellings = self._spellings(action)
        if not spellings or action.nargs == 0:
            return ", ".join(spellings) or super()._format_action_invocation(action)
        takes = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(spellings)} {takes}"

    def _spellings(self, action: argparse.Action) -> Sequence[str]:
        short = [it for it in action.option_strings if "." not in it]
        return action.option_strings if self._full or not short else short


@dataclass(frozen=True)
class Verb:
    """A verb with its one line in `clearhead --help`, the arguments of its usage line, its options, and what it runs.

    `less_memory` is advice to print when memory runs out, as an imperative.
    """

    name: str
    summary: str
    usage: str
    examples: tuple[str, ...]
    add_options: Callable[[Parser], None]
    run: Callable[[Options], None]
    less_memory: str = _LESS_MEMORY


def whole_number(option: str, least: int = 0, most: int = 2**31, also: str = "") -> Callable[[str], int]:
    """Return an argparse type for the whole number that an option takes. It raises UsageError for anything else.

    Args:
        also: what else is valid, for the message.
    """

    def number(text: str) -> int:
        if text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most:
            return int(text)
        expected = f"a whole number from {least:,} to {most:,}{also}"
        raise UsageError(f"{option} {text} isn't valid", expected=expected, name=option, value=text)

    return number


def parse(verb: Verb, arguments: Sequence[str]) -> Options:
    """Parse the options of a verb. `--help` and `--help-all` print the help and raise SystemExit.

    Raises:
        UsageError: an option is unknown, or its value is missing or invalid.
    """
    for word in arguments:
        if word.startswith("--") and word.endswith("=--"):  # argparse drops such a value
            name = word.removesuffix("=--")
            raise UsageError(f"{word!r} gives {name} no value", expected=f"{name}=VALUE", name=name, value="--")
    parser = parser_of(verb, full="--help-all" in arguments)
    options, rest = parser.parse_known_intermixed_args(arguments)
    dashed = [word for word in rest if word.startswith("-")]
    if dashed:
        name = dashed[0].split("=")[0]
        known = list(parser._option_string_actions)  # argparse has no public list of its options
        raise UsageError(f"`clearhead {verb.name}` has no option {name!r}", fix=_suggestion(name, known), name=name)
    if rest:
        raise UsageError(f"unexpected argument {rest[0]!r}", value=rest[0])
    options.command_line = arguments
    return options


def parser_of(verb: Verb, *, full: bool = False, width: int | None = None) -> Parser:
    """Build the argument parser of a verb.

    Args:
        verb: the verb, which adds its own options.
        full: show every option in the help, not only the common ones.
        width: columns of the help (default: the terminal's, from 60 to 100).
    """
    import shutil  # slow to import, and `clearhead --help` doesn't need it

    columns = width or max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
    parser = Parser(
        full=full,
        prog=f"clearhead {verb.name}",
        usage=f"clearhead {verb.name} {verb.usage}",
        description=textwrap.fill(f"{verb.summary[0].upper()}{verb.summary[1:]}.", columns),
        epilog="\n".join(["examples:", *(f"  {example}" for example in verb.examples)]),
        formatter_class=partial(_Formatter, width=columns, full=full),
        allow_abbrev=False,
        add_help=False,
    )
    verb.add_options(parser)
    if parser._section is not None:
        parser.section("help")
    parser.add_flag("--debug", parser.rare("show a traceback on errors"))
    parser.add_argument("-h", "--help", action="help", help="show this help")
    parser.add_argument("--help-all", action="help", help="show this help with every option and setting")
    return parser


def _suggestion(option: str, known: Sequence[str]) -> str:
    """Suggest the options that have the same name in some section (--save-every), or else the most similar option."""

    if new := renamed(option.lstrip("-")):
        return f"it's now part of --{new}"

    def last_name(spelling: str) -> str:
        return spelling.lstrip("-").replace("-", "_").split(".")[-1]

    same = [spelling for spelling in known if last_name(spelling) == last_name(option)]
    if same:
        return f"did you mean {' or '.join(map(repr, same))}?"
    bare = [spelling.lstrip("-") for spelling in known]  # leading dashes would make all options similar
    near = difflib.get_close_matches(option.lstrip("-"), bare, n=1)
    return f"did you mean {known[bare.index(near[0])]!r}?" if near else ""
