"""Where a run is, and what is refused because it is not here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from athanor.runs.elsewhere import check_is_here, host
from infra.errors import RefusalError
from tests.tables import each_row


@each_row(
    ("server", "recorded"),
    [
        ("https://10.0.0.1:6443", "10.0.0.1:6443"),
        ("https://ada:secret@api.example/k8s/clusters/c-1?token=secret", "api.example"),
        ("https://[fd00::1]:6443", "[fd00::1]:6443"),
        ("localhost:8080", "localhost:8080"),
    ],
)
def test_only_host_and_port_of_a_cluster_are_recorded(server, recorded):
    assert host(server) == recorded


def cluster(job: dict | None) -> SimpleNamespace:
    return SimpleNamespace(server="https://10.0.0.1:6443", namespace="team", find=lambda *_: job)


def test_a_run_of_another_cluster_is_refused_unless_its_job_is_here():
    recorded = {"server": "10.0.0.2:6443", "namespace": "team", "job_name": "lr-1"}
    with pytest.raises(RefusalError, match=r"started in the cluster at 10\.0\.0\.2:6443, and this is .*--context"):
        check_is_here(cluster(None), "lr", recorded)
    check_is_here(cluster({}), "lr", recorded)
    check_is_here(cluster(None), "lr", {**recorded, "server": "10.0.0.1:6443"})
    check_is_here(cluster(None), "lr", {"namespace": "team", "job_name": "lr-1"})
