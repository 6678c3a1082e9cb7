"""Log lines for a terminal, without the control characters that a container may have printed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from athanor.inspection.control_characters import printable
from trainer.common import log_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MESSAGE_KEYS = ("message", "msg", "log")
"""Keys for the text of a line that is a JSON object, in the order in which the store's collector looks for it."""
# Longer numbers are not ranks, and Python does not parse thousands of digits.
_RANK = re.compile(r"[0-9]{1,9}")
_PLAIN_WORD = re.compile(r"[^\s\"=]+")
_TIMES = ("time", "timestamp", "ts")
_QUIET_LEVELS = ("info", "INFO")


def readable(line: bytes) -> bytes:
    """Return a line for people: of a JSON object its message and its other values, anything else as it is.

    No byte of the result moves the cursor but the ends of a traceback's lines; what is not UTF-8 is written out.
    """
    text = line.decode(errors="backslashreplace")
    fields = _json_object(text)
    return (printable(text) if fields is None else sentence(fields)).encode()


def _json_object(text: str) -> dict[str, str] | None:
    if not text.startswith("{"):
        return None
    try:
        parsed: object = json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return None
    return dict(_flat(cast("dict[str, Any]", parsed), "")) if isinstance(parsed, dict) else None


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def _flat(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, str]]:
    """Yield the values as the store keeps them: of objects in objects with all keys, lists as JSON, no nulls."""
    for key, value in values.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value), f"{name}.")
        elif isinstance(value, str):
            yield name, value
        elif value is not None:
            yield name, _json(value)


def _json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, _Number):
        return value
    if isinstance(value, list):
        return f"[{','.join(_json(each) for each in cast('list[Any]', value))}]"
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ",".join(f"{json.dumps(key)}:{_json(each)}" for key, each in pairs) + "}"
    return json.dumps(value, ensure_ascii=False)


def sentence(fields: Mapping[str, str]) -> str:
    """Return a structured line for people; a traceback is on lines of its own below it.

    A line of the trainer's as the trainer words it, any other as `WARNING message key=value …`: without its time, with
    a level that means something in particular, and without values that the message itself gives, perhaps shorter.
    """
    if fields.keys() >= {"time", "level", "message"}:
        rank = fields.get("rank", "")
        known = {"rank": int(rank) if _RANK.fullmatch(rank) else None}
        text = log_lines.readable(json.dumps({**fields, **known}))
        return "\n".join(printable(line) for line in text.split("\n"))
    where = next((key for key in MESSAGE_KEYS if fields.get(key)), "")
    message, level = fields.get(where, ""), fields.get("level", "")
    said = {word.partition("=")[0] for word in message.split() if "=" in word}
    hidden = {where, "level", *_TIMES, *said}
    # A store does not keep the order of the keys.
    pairs = [f"{key}={_value(fields[key])}" for key in sorted(fields) if key not in hidden and fields[key]]
    words = [level if level not in _QUIET_LEVELS else "", message, *pairs]
    return printable(" ".join(word for word in words if word))


def _value(text: str) -> str:
    return text if _PLAIN_WORD.fullmatch(text) else json.dumps(text, ensure_ascii=False)
