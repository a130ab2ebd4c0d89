"""Read conversations to answer: JSON Lines with one on each line, or a file of JSON."""

from contextlib import closing
from typing import Any

from ...errors import DataError
from ...tokenization.chat_template import fault_of
from ..files import Input
from ..json_lines import parsed_json
from ..lines import read_lines, undecodable


def read_chats(path: str) -> list[list[dict[str, str]]]:
    """Return the conversations to answer in a file: JSON Lines, or one JSON value.

    A conversation is a list of messages, or an object with the list under "messages".

    Raises:
        DataError: the file can't be read, or has something else.
    """
    with closing(Input(path)) as file:
        lines = [*enumerate(read_lines(file), 1)]
    try:
        whole = parsed_json("".join(map(undecodable, (line for _, line in lines))))
        several = isinstance(whole, list) and not (whole and isinstance(whole[0], dict) and "role" in whole[0])
        found = [(1, it) for it in (whole if several else [whole])]
    except (ValueError, RecursionError):
        found = [(number, _parsed(path, number, line)) for number, line in lines if line.strip()]
    chats = list[list[dict[str, str]]]()
    for number, it in found:
        messages: Any = it.get("messages") if isinstance(it, dict) else it
        if wrong := fault_of(messages):
            raise _no_chat(path, number, wrong)
        chats.append(messages)
    if not chats:
        raise _no_chat(path, 1, "there is no conversation")
    return chats


def _parsed(path: str, number: int, line: bytes) -> Any:
    try:
        return parsed_json(undecodable(line))
    except (ValueError, RecursionError):
        raise _no_chat(path, number, "not JSON") from None


def _no_chat(path: str, number: int, wrong: str) -> DataError:
    expected = '[{"role": "user", "content": "…"}], or {"messages": […]}, on each line'
    return DataError(f"{path} line {number:,}: {wrong}", expected=expected, name=path, line=number)
