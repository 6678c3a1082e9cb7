"""Logs in the environment of `make up`; tests/cluster/test_log_pipeline.py has their way in all its turns."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.fixtures.clone import Clone


def test_the_examples_logs_are_the_same_from_the_store(served: Clone) -> None:
    def logs(*words: str) -> list[str]:
        lines = served.make("logs", "JOB=digits-training", *words).splitlines()
        # The store keeps no line without a text.
        return [line for line in lines if line.startswith("[") and not line.endswith("] ")]

    def stored() -> list[str]:
        # The store has the lines of earlier runs, too.
        return logs("PAST=1")[-len(now) :]

    now = logs()
    assert now
    wait_until(
        lambda: stored() == now,
        lambda: "the store to have every line of the last run:\n" + "\n".join(unified_diff(now, stored(), lineterm="")),
    )
    query = 'QUERY="kubernetes.pod_labels.athanor.dev/job":="digits-training" rank:=1 event:="finished"'
    printed = served.make("search-logs", query, "SINCE=1d", "NAMESPACE=athanor").splitlines()
    assert printed
    assert all("worker-1/worker] " in line for line in printed)
