"""Logs in the Log Service: which lines, with whose names, for how long, and only when asked for."""

from __future__ import annotations

import pytest

from infra.alicloud.environment import collection_manifest
from infra.errors import RefusalError
from infra.settings.monitoring import LogSettings
from tests.tables import each_row
from tools.stacks.engine import stack_config

KIND = "ClusterAliyunPipelineConfig"


def test_the_collector_is_configured_once_it_is_there(record_stack):
    logs = {"kind": "sls", "retention_days": 12}
    recording = record_stack({**stack_config("dev"), "monitoring": {"logs": logs}}, stack="dev")
    [configuration] = recording.of_kind(KIND)
    spec = configuration.inputs["spec"]
    addons = {
        each.inputs["name"]: each.urn for each in recording.of_type("alicloud:cs/kubernetesAddon:KubernetesAddon")
    }
    assert addons["loongcollector"] in recording.ancestors(configuration)
    [logstore] = spec["logstores"]
    assert logstore["ttl"] == 12
    [flusher] = spec["config"]["flushers"]
    assert flusher["Logstore"] == logstore["name"]
    [taken] = spec["config"]["inputs"]
    assert (taken["IgnoringStdout"], taken["IgnoringStderr"]) == (False, False)
    assert taken["ExternalK8sLabelTag"] == {
        "athanor.dev/job": "job",
        "volcano.sh/job-name": "run",
        "athanor.dev/service": "service",
    }
    assert not {each.inputs["metadata"]["name"] for each in recording.of_kind("DaemonSet")} & {"vlagent"}
    own_store = record_stack(stack_config("dev"), stack="dev")
    assert own_store.of_kind(KIND) == []
    assert own_store.one("victoria-logs", "StatefulSet")


@each_row("days", [1, 3000, 3650])
def test_lines_stay_as_long_as_the_service_can_keep_them(days):
    manifest = collection_manifest(LogSettings(kind="sls", retention_days=days), "k8s-log-c1")
    assert manifest["spec"]["logstores"][0]["ttl"] == days


@each_row("days", [3001, 3649])
def test_a_time_that_the_service_does_not_know_is_refused(days):
    with pytest.raises(RefusalError, match=rf"retention_days = {days}: .*Fix: use 3000 or 3650"):
        collection_manifest(LogSettings(kind="sls", retention_days=days), "k8s-log-c1")
