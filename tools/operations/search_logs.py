"""`make search-logs`: a search in the logs of all workloads and components."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.inspection.control_characters import printable
from athanor.inspection.log_store import origin, quoted
from infra.errors import RefusalError
from infra.monitoring.logs import NAMESPACE_FIELD
from infra.monitoring.logs import TIME_FIELD as TIME
from tools.operations.log_lines import sentence
from tools.operations.logs import sortable
from tools.operations.past_logs import text_of

if TYPE_CHECKING:
    from athanor.inspection.log_store import LogStore, Row

_SINCE = re.compile(r"[1-9][0-9]{0,5}[smhdwy]")
MOST_LINES = 100_000


@dataclass(frozen=True, kw_only=True)
class Search:
    """The query of a search."""

    query: str
    """Query in LogsQL."""
    since: str = "1h"
    """Time range to search: a number with s, m, h, d, w or y."""
    limit: int = 1000
    """Most lines that are shown, the latest ones."""
    namespace: str | None = None
    """Namespace of the pods. Default: all."""

    def __post_init__(self) -> None:
        if not self.query.strip():
            fix = "write LogsQL, such as QUERY='error' or QUERY='level:ERROR rank:0 | count()'; '*' finds every line"
            raise RefusalError("QUERY", self.query, "is empty", fix)
        if not _SINCE.fullmatch(self.since):
            raise RefusalError(
                "SINCE",
                self.since,
                "is not a valid duration",
                "write a number with s, m, h, d, w or y, such as 30m or 2d",
            )
        if not 1 <= self.limit <= MOST_LINES:
            raise RefusalError("LIMIT", self.limit, f"is not between 1 and {MOST_LINES}", "narrow the query down")


def search(store: LogStore, what: Search) -> None:
    """Write what is found to standard output, by time.

    Raises:
        RejectedQueryError: the store does not understand the query.
        LogStoreError: it did not answer.
    """
    arguments = {"start": what.since, "limit": str(what.limit)}
    if what.namespace:
        arguments["extra_stream_filters"] = f"{{{NAMESPACE_FIELD}={quoted(what.namespace)}}}"
    rows = list(store.rows(what.query, **arguments))
    # A statistic's rows keep the order that the query gives them.
    if all(TIME in row and "_stream" in row for row in rows):
        rows.sort(key=lambda row: sortable(row[TIME].encode()))
    for row in rows:
        sys.stdout.buffer.write(formatted(row).encode() + b"\n")
    sys.stdout.buffer.flush()
    if len(rows) == what.limit:
        print(f"Only the latest {what.limit} lines are printed: set LIMIT= for more.", file=sys.stderr)
    if not rows:
        print(f"Nothing in the last {what.since}: set SINCE= to search further back.", file=sys.stderr)


def formatted(row: Row) -> str:
    """Return a row for people: time, source, text; or all fields of what is not such a line."""
    if TIME not in row or "_stream" not in row:
        return sentence(row)
    whose = origin(row)
    # A query may make these fields of anything: `unpack_json` of what the container wrote.
    start = printable(f"{row[TIME]} [{whose.namespace}/{whose.pod}/{whose.container}] ")
    return "\n".join(f"{start}{line}" for line in text_of(row).split("\n"))
