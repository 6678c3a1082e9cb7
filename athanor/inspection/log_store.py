"""Client of the log store (VictoriaLogs). Read-only.

Source: VictoriaLogs 1.43.1, docs/victorialogs/querying/README.md.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from infra.monitoring.logs import CONTAINER_FIELD, MESSAGE_FIELD, NAMESPACE_FIELD, POD_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Row = dict[str, str]
"""A stored line, or a row of a statistic: values by field."""
_TIMEOUT_SECONDS = 120
"""Timeout, above the store's own limit for a query."""
_PART_BYTES = 64 * 1024
_SHOWN = 500
_OWN_FIELDS = ("_time", "_msg", "_stream", "_stream_id")
_POD_FIELDS = "kubernetes."
_NO_MESSAGE = "missing _msg field;"
"""Beginning of the collector's stand-in for a missing message."""
_TAG = re.compile(r'([\w.]+)="((?:[^"\\]|\\.)*)"')


class LogStoreError(RuntimeError):
    """The store did not answer, or not to the end."""


class RejectedQueryError(LogStoreError):
    """The store cannot parse or run the query; the message is its own."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The origin of a line according to the collector."""

    namespace: str
    pod: str
    container: str


def origin(row: Row) -> Origin:
    """Return whose line it is.

    From the stream that it was stored in: a container can print a line with fields of any name, these names included.
    """
    tags = dict(_TAG.findall(row.get("_stream", "")))
    return Origin(
        namespace=tags.get(NAMESPACE_FIELD, ""), pod=tags.get(POD_FIELD, ""), container=tags.get(CONTAINER_FIELD, "")
    )


def printed_fields(row: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that the container printed: the keys of a JSON object, and `message`, which may be empty."""
    fields = {key: row[key] for key in row if key not in _OWN_FIELDS and not key.startswith(_POD_FIELDS)}
    message = row.get(MESSAGE_FIELD, "")
    return {**fields, "message": "" if message.startswith(_NO_MESSAGE) else message}


def quoted(text: str) -> str:
    """Return a text as a word of LogsQL."""
    return json.dumps(text)


class LogStore:
    """A store at an address; one connection, kept open as long as the store keeps it."""

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address, timeout=_TIMEOUT_SECONDS)

    def rows(self, query: str, **arguments: str) -> Iterator[Row]:
        """Yield the rows of a LogsQL query as they arrive.

        Args:
            query: In LogsQL; it cannot change anything.
            arguments: Further arguments of the request: `start`, `end` (exclusive; RFC 3339), `limit` (the latest).

        Raises:
            RejectedQueryError: the store rejects the query; the message says why.
            LogStoreError: it does not answer, or its answer ends too early.
        """
        try:
            answer = self._post("/select/logsql/query", urlencode({"query": query, **arguments}))
            if answer.status != 200:
                said = answer.read(4 * _SHOWN).decode(errors="replace").strip()
                self._connection.close()
                raise _refused(answer.status, said)
            for line in _lines(answer):
                yield _row(line)
        except (OSError, HTTPException) as error:
            raise LogStoreError(f"the log store does not answer: {error!r}") from error
        except GeneratorExit:  # who asked has enough: the rest of the answer must not be taken for the next one
            self._connection.close()
            raise

    def _post(self, path: str, body: str) -> HTTPResponse:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            self._connection.request("POST", path, body, headers)
            return self._connection.getresponse()
        except ConnectionError:  # it was idle for long, while someone read what was shown so far
            self._connection.close()
            self._connection.request("POST", path, body, headers)
            return self._connection.getresponse()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _lines(answer: HTTPResponse) -> Iterator[bytes]:
    """Yield the lines of an answer to its end; the response's own iteration takes a broken connection for the end."""
    rest = b""
    while part := answer.read1(_PART_BYTES):
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
    if answer.length:
        raise IncompleteRead(rest, answer.length)
    answer.read()  # says that this was the end, after an answer of known length
    if rest:
        yield rest


def _refused(status: int, said: str) -> LogStoreError:
    if status in {400, 422}:
        return RejectedQueryError(f"the log store rejects the query: {said[:_SHOWN]}")
    return LogStoreError(f"the log store answered with status {status}: {said[:_SHOWN]}")


def _row(line: bytes) -> Row:
    try:
        return json.loads(line)
    except ValueError:  # what went wrong after the first rows comes after them
        raise LogStoreError(f"the log store gave up: {line.decode(errors='replace').strip()[:_SHOWN]}") from None
