"""What a command line may say: argparse, every setting as a dotted option, and errors that teach."""

import argparse
import contextlib
import difflib
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from ..config import PRESETS, Setting, settings
from ..errors import ClearheadError

Options = argparse.Namespace


class UsageError(ClearheadError):
    """A command line that cannot be understood: exit code 2."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are UsageErrors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help of 100 columns. What an option takes stands once, behind all its spellings, as in Python 3.13 and newer:
    older ones would repeat it, and the help of a verb would not be the same everywhere."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        takes = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {takes}"


@dataclass(frozen=True)
class Verb:
    """One verb: what `--help` says of it, its options, and what it does with them."""

    name: str
    summary: str  # one line
    usage: str  # what follows the verb
    examples: tuple[str, ...]
    add_options: Callable[[Parser], None]
    run: Callable[[Options], None]


def parse(verb: Verb, arguments: Sequence[str]) -> Options:
    """The options of a verb; a UsageError for what is unknown or incomplete. `--help` prints and exits."""
    parser = parser_of(verb)
    options, rest = parser.parse_known_intermixed_args(arguments)
    dashed = [word for word in rest if word.startswith("-")]
    if dashed:
        name = dashed[0].split("=")[0]
        known = list(parser._option_string_actions)  # argparse has no public list of its options
        raise UsageError(f"unknown option {name!r} of `clearhead {verb.name}`{_nearest(name, known)}")
    if rest:
        raise UsageError(f"unexpected argument {rest[0]!r}; usage: {parser.usage}")
    return options


def add_settings(
    parser: Parser,
    names: Iterable[str],
    short: Mapping[str, Sequence[str]] | None = None,
    *,
    show_defaults: bool = True,
    helps: Mapping[str, str] | None = None,
) -> None:
    """Options for settings: `--train.steps=300`. One that is not given is not among the options.

    `short` gives other spellings, {"train.preset": ["--preset"]}, to those that are needed often: they stand first in
    the help, the others in a group for each section. `helps` has other sentences for what a verb means otherwise.
    """
    known, short = settings(), short or {}
    own = {name: _escaped(text) for name, text in (helps or {}).items()}
    groups: dict[str, argparse._ActionsContainer] = {}
    for name in sorted(names, key=lambda name: name not in short):
        section = "" if name in short else name.split(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(f"settings [{section}]") if section else parser
        spellings = list(short.get(name, ()))
        if spellings and known[name].type is bool:  # a short name alone says yes
            groups[section].add_argument(
                *spellings,
                dest=name,
                action="store_const",
                const="true",
                default=argparse.SUPPRESS,
                help=_escaped(known[name].help),
            )
            spellings = []
        several: dict[str, Any] = {"nargs": "+", "action": "extend"}
        groups[section].add_argument(
            *spellings,
            f"--{name}",
            dest=name,
            **(several if typing.get_origin(known[name].type) is tuple else {}),
            metavar=_values(known[name]),
            default=argparse.SUPPRESS,
            help=own.get(name) or (_help(known[name]) if show_defaults else _escaped(known[name].help)),
        )


def given_settings(options: Options) -> dict[str, Any]:
    """The settings among the options, by their dotted names."""
    return {name: value for name, value in vars(options).items() if "." in name}


def parser_of(verb: Verb) -> Parser:
    """What understands the options of a verb, and prints its help."""
    parser = Parser(
        prog=f"clearhead {verb.name}",
        usage=f"clearhead {verb.name} {verb.usage}",
        description=f"{verb.summary[0].upper()}{verb.summary[1:]}.",
        epilog="\n".join(["examples:", *(f"  {example}" for example in verb.examples)]),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    verb.add_options(parser)
    parser.add_argument("--debug", action="store_true", help="show where in the code an error arose")
    return parser


def new_file(name: str) -> Path:
    """What an option takes that names a file to be written: it is looked at before any work is done.

    It is a wrong use where there is a folder, or no folder that could hold the file, or where stdout goes already.
    """
    path = Path(name)
    if path.is_dir() or not path.name:
        raise argparse.ArgumentTypeError(f"{name} is a folder; expected a file to write")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        what = "is a folder that this user may not write to" if above.is_dir() else "is no folder"
        raise argparse.ArgumentTypeError(f"{name} cannot be written: {above} {what}; expected another place")
    with contextlib.suppress(OSError):  # it is not there yet, or stdout is closed
        if path.is_file() and os.path.samestat(path.stat(), os.fstat(1)):
            raise argparse.ArgumentTypeError(f"{name} is the file that stdout goes to; expected another one")
    return path


def new_picture(ending: str) -> Callable[[str], Path]:
    """What an option takes that names a picture to be written, which is called after its form: .png, .svg, .gif."""

    def picture(name: str) -> Path:
        path = new_file(name)
        if path.suffix.lower() != f".{ending}":
            raise argparse.ArgumentTypeError(f"{name} has another ending; expected the name of a file with .{ending}")
        return path

    return picture


def _nearest(option: str, known: Sequence[str]) -> str:
    """`; did you mean ...?`: the options of that name in any section (--save-every), otherwise the most similar one."""

    def last_name(spelling: str) -> str:
        return spelling.lstrip("-").replace("-", "_").split(".")[-1]

    same = [spelling for spelling in known if last_name(spelling) == last_name(option)]
    if same:
        return f"; did you mean {' or '.join(map(repr, same))}?"
    bare = [spelling.lstrip("-") for spelling in known]  # dashes make all of them alike
    near = difflib.get_close_matches(option.lstrip("-"), bare, n=1)
    return f"; did you mean {known[bare.index(near[0])]!r}?" if near else ""


def _help(setting: Setting) -> str:
    if setting.default is None or setting.default in ((), ""):
        return _escaped(setting.help)
    default = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
    return _escaped(f"{setting.help} (default: {default})")


def _escaped(text: str) -> str:
    return text.replace("%", "%%")  # argparse formats help with %


def _values(setting: Setting) -> str:
    """What a setting takes, for the help."""
    kind = setting.type
    if setting.name == "train.preset":
        return "|".join(PRESETS)
    if setting.name == "train.task":
        return "TASK"
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        kind = next(arm for arm in typing.get_args(kind) if arm is not types.NoneType)
    if typing.get_origin(kind) is tuple:
        return "FILE" if setting.name.startswith("data.") else "TOKEN"
    if typing.get_origin(kind) is Literal:
        return "|".join(typing.get_args(kind))
    named = {"train.budget": "TIME", "train.init_from": "DIR", "data.store": "DIR"}.get(setting.name, "NAME")
    return {bool: "true|false", int: "N", float: "X"}.get(kind, named)
