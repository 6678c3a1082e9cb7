"""The monitoring of `make up`: everything is read, every query answers, and what a run left can be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.monitoring.dashboards.queries import queries
from infra.monitoring.kept_metrics import KEPT_METRICS
from tests.fixtures.monitoring import Monitoring
from tests.unit.infra.monitoring.rules.queries import counters_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from infra.monitoring.dashboards.queries import Query
    from tests.fixtures.clone import Clone

NOT_HERE = {"activator", "dcgm-exporter", "gateway"}
"""Targets that need a gateway, or a GPU."""
ONLY_SOMETIMES = {
    "container_fs_reads_bytes_total",
    "container_fs_writes_bytes_total",  # control groups that count what a container reads and writes
    "kube_pod_container_status_last_terminated_reason",  # a container that was restarted
    "kube_pod_container_status_waiting_reason",  # a container that waits
    "kube_pod_status_reason",  # a pod that was evicted
    "kube_pod_status_unschedulable",  # a pod without a node
    "kube_resourcequota",  # a quota in the settings
    "node_edac_uncorrectable_errors_total",  # memory that reports its errors
    "node_infiniband_link_downed_total",
    "node_infiniband_port_data_received_bytes_total",
    "node_infiniband_port_data_transmitted_bytes_total",
    "node_infiniband_port_receive_errors_total",  # an InfiniBand or RoCE card
    "node_vmstat_oom_kill",  # a kernel that counts them
    "volcano_job_failed_phase_count",  # a job that failed
    "volcano_queue_overused",  # a reclaim
    "volcano_pod_preemption_victims",  # a preemption
    "volcano_total_preemption_attempts",
}
"""Metrics that exist when there is what they are about."""


@pytest.fixture(scope="module")
def monitoring(served: Clone) -> Monitoring:
    """Prometheus after it has read every target once."""
    deployed = Monitoring(served)
    wait_until(lambda: not down(deployed), lambda: f"targets to be up: {down(deployed)}")
    return deployed


def targets(monitoring: Monitoring) -> list[dict[str, Any]]:
    return monitoring.prometheus("targets", state="active")["activeTargets"]


def down(monitoring: Monitoring) -> dict[str, str]:
    """Return what could not be read, or not yet, with the reason."""
    return {each["scrapeUrl"]: each["lastError"] for each in targets(monitoring) if each["health"] != "up"}


def test_every_kind_of_target_is_read(monitoring: Monitoring) -> None:
    assert {each["labels"]["job"] for each in targets(monitoring)} >= {*KEPT_METRICS, "serving"} - NOT_HERE


def test_no_page_of_the_web_may_read_the_metrics(monitoring: Monitoring) -> None:
    assert monitoring.prometheus("status/flags")["web.cors.origin"] == "none"


def test_a_run_that_ended_can_be_looked_at(monitoring: Monitoring) -> None:
    [loss] = {
        (each["metric"]["workload"], each["metric"]["kind"], each["metric"]["queue"])
        for each in monitoring.query('last_over_time(athanor_training_loss{workload="digits-training"}[1h])')
    }
    assert loss == ("digits-training", "pytorch", "training")
    ranks = monitoring.query('count by (rank) (last_over_time(athanor_training_step{workload="digits-training"}[1h]))')
    assert {each["metric"]["rank"] for each in ranks} == {"0", "1"}


@pytest.mark.parametrize("job", sorted(set(KEPT_METRICS) - NOT_HERE))
def test_what_is_kept_exists(monitoring: Monitoring, job: str) -> None:
    def missing() -> set[str]:
        return set(KEPT_METRICS[job]) - monitoring.names(job) - ONLY_SOMETIMES

    # The kubelet, for one, measures volumes once a minute.
    wait_until(lambda: not missing(), lambda: f"metrics of {job}: {missing()}")


@pytest.mark.parametrize("query", queries(), ids=lambda query: f"{query.dashboard}-{query.panel}")
def test_every_query_of_a_panel_is_answered(monitoring: Monitoring, query: Query) -> None:
    monitoring.query(query.expr)


def test_every_rule_is_computed_without_an_error(monitoring: Monitoring) -> None:
    def failing() -> dict[str, str]:
        groups = monitoring.prometheus("rules")["groups"]
        assert groups
        return {rule["name"]: rule.get("lastError", "") for group in groups for rule in group["rules"]
                if rule["health"] != "ok"}  # fmt: skip

    wait_until(lambda: not failing(), lambda: f"rules to be computed: {failing()}")


def test_what_is_read_as_a_counter_is_one(monitoring: Monitoring) -> None:
    """By the types that the programs themselves state; those of GPUs and of our own programs are unit tests' part."""
    rules = monitoring.prometheus("rules")["groups"]
    expressions = [*(query.expr for query in queries()), *(rule["query"] for group in rules for rule in group["rules"])]
    read = {name for expr in expressions for name in counters_of(expr)}
    stated = {name: {each["type"] for each in kinds} for name, kinds in monitoring.prometheus("metadata").items()}
    assert "node_cpu_seconds_total" in read
    assert stated["node_cpu_seconds_total"] == {"counter"}
    assert {name for name in read if "gauge" in stated.get(name, ())} == set()


def test_nobody_is_paged_by_an_environment_that_works(monitoring: Monitoring) -> None:
    pages = {name: alerts for name, alerts in monitoring.firing().items() if alerts[0]["severity"] == "page"}
    assert pages == {}
