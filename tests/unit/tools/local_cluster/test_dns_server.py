"""When the cluster's DNS server counts as ready: by a container of this start, not by the record of an older one."""

from datetime import UTC, datetime
from typing import Any

from tests.tables import each_row
from tools.local_cluster import dns
from tools.local_cluster.api import ApiError, ApiUnreachableError

BOOT = datetime(2026, 11, 22, 10, 0, 0, tzinfo=UTC).timestamp() + 0.4


class Pods:
    """An API server's answer to any question."""

    def __init__(self, *statuses: dict[str, Any], error: Exception | None = None) -> None:
        self.answer = {"items": [{"status": {"containerStatuses": list(statuses)}}, {"status": {}}]}
        self.error = error

    def get(self, _path: str) -> dict[str, Any]:
        if self.error:
            raise self.error
        return self.answer


def container(started: str | None, *, ready: bool = True) -> dict[str, Any]:
    state = {"running": {"startedAt": started}} if started else {"waiting": {"reason": "ContainerCreating"}}
    return {"ready": ready, "state": state}


@each_row(
    ("statuses", "is_ready"),
    [
        ([], False),
        ([container("2026-11-22T09:59:59Z")], False),
        ([container("2026-11-22T10:00:00Z")], True),
        ([container("2026-11-22T10:00:07Z", ready=False)], False),
        ([container(None, ready=False)], False),
        ([container("2026-11-22T09:00:00Z"), container("2026-11-22T10:00:07Z")], True),
    ],
    ids=["none", "of an earlier start", "in the second of the start", "not ready", "not running", "old and new"],
)
def test_a_container_of_this_start_counts(statuses: list[dict[str, Any]], is_ready: bool) -> None:
    assert dns.is_server_ready(Pods(*statuses), BOOT) is is_ready  # type: ignore[arg-type]


@each_row("error", [ApiUnreachableError("refused"), ApiError(503, "starting")])
def test_an_api_server_that_does_not_answer_is_not_ready(error: Exception) -> None:
    assert not dns.is_server_ready(Pods(error=error), BOOT)  # type: ignore[arg-type]
