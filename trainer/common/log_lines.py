"""Lines on standard error: text for people on a terminal, one JSON object per line for a log store.

A line of JSON has time (RFC 3339, UTC), level and message, and job, rank and step where they are known, then whatever
else is known of an event. `readable` turns it back into the text.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

FORMAT_VARIABLE = "ATHANOR_LOG_FORMAT"
"""Environment variable: `json` asks for JSON, anything else is text."""
FIELDS_ATTRIBUTE = "athanor_fields"
"""Attribute of a log record with what is known in addition to its message, a mapping of JSON values."""
_JOB_VARIABLE = "ATHANOR_JOB"
_RANK_VARIABLE = "RANK"
_known: dict[str, Any] = {}
"""Facts that this process knows about itself."""


def know(**fields: Any) -> None:  # noqa: ANN401  any JSON value
    """Add this to every further line: a process is one rank of one job, no matter which module logs."""
    _known.update(fields)


def log_to_stderr(logger: logging.Logger) -> None:
    """Show the messages of a logger on standard error, where `kubectl logs` finds them."""
    handler = logging.StreamHandler()
    as_json = os.environ.get(FORMAT_VARIABLE) == "json"
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    # It warns whenever torch's compiler is imported in an image without triton, as those for nodes without GPUs are.
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
    if as_json:
        # A traceback of many lines would be as many messages of nobody.
        sys.excepthook = lambda kind, error, trace: _log_uncaught(logger, kind, error, trace)


def json_line(fields: Mapping[str, Any]) -> str:
    """Return a JSON object without line break; numbers that JSON has no word for become text."""
    return json.dumps({name: _json_value(value) for name, value in fields.items()}, default=str)


def readable(line: str) -> str:
    """Return a line of JSON as the text that a terminal would have shown; any other line as it is."""
    if not line.startswith("{"):
        return line
    try:
        parsed: Any = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(parsed, dict):
        return line
    fields = cast("dict[str, Any]", parsed)
    if not {"time", "level", "message"} <= fields.keys():
        return line
    when = str(fields["time"])[:23].replace("T", " ").replace(".", ",")
    text = _text(when, str(fields["level"]).upper(), str(fields["message"]), fields.get("rank"))
    return f"{text}\n{fields['traceback']}" if fields.get("traceback") else text


class TextFormatter(logging.Formatter):
    """Time, level where it is more than information, rank where it is not 0, message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the base class's name
        """Return the line, without a traceback."""
        return _text(self.formatTime(record), record.levelname, record.message, _fields_of(record).get("rank"))


class JsonFormatter(logging.Formatter):
    """One JSON object per message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        trace = {"traceback": self.formatException(record.exc_info)} if record.exc_info else {}
        words = {"time": when, "level": record.levelname.lower(), "message": record.getMessage()}
        return json_line({**_fields_of(record), **words, **trace})


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record in addition to its message."""
    job, rank = os.environ.get(_JOB_VARIABLE), os.environ.get(_RANK_VARIABLE, "")
    of_environment = {**({"job": job} if job else {}), **({"rank": int(rank)} if rank.isdecimal() else {})}
    return {**of_environment, **_known, **getattr(record, FIELDS_ATTRIBUTE, {})}


def _text(when: str, level: str, message: str, rank: object) -> str:
    shown_level = "" if level == "INFO" else f"{level} "
    return f"{when} {shown_level}{f'rank {rank}: ' if rank else ''}{message}"


def _json_value(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _log_uncaught(
    logger: logging.Logger, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    logger.critical("%s: %s", kind.__name__, error, exc_info=(kind, error, trace))
