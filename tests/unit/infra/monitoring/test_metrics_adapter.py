"""The adapter serves what autoscalers name, from series that Prometheus keeps, and may do little else."""

from __future__ import annotations

import json
import re

from infra.autoscaling_metrics import LATENCY_METRIC, QUEUE_METRIC
from infra.monitoring.kept_metrics import KEPT_METRICS
from infra.monitoring.metrics_adapter import (
    CUSTOM_METRICS_API,
    HOST,
    RESOURCE_METRICS_API,
    MetricsAdapterArgs,
    adapter_config,
    metrics_adapter_manifests,
)
from tests.tables import each_row
from trainer.helpers.serving_certificate import parse
from trainer.serve.metrics import ServerMetrics, VersionMetrics

BOTH = {CUSTOM_METRICS_API, RESOURCE_METRICS_API}
WRITING = {"create", "update", "patch", "delete", "deletecollection", "*"}
_NAME = re.compile(r"\b(?:athanor|container|node|nv)_\w+")


def args(*, scrape_interval_seconds=5, resource_metrics=True):
    return MetricsAdapterArgs(
        scrape_interval_seconds=scrape_interval_seconds, resource_metrics=resource_metrics, image="trainer:1"
    )


def manifests(**changed):
    return metrics_adapter_manifests(args(**changed))


def pod(**changed):
    return manifests(**changed)["prometheus-adapter"]["spec"]["template"]["spec"]


def of_kind(kind, **changed):
    return [each for each in manifests(**changed).values() if each["kind"] == kind]


def texts(node):
    """Return all texts in a configuration."""
    if isinstance(node, dict):
        return [text for value in node.values() for text in texts(value)]
    return [text for value in node for text in texts(value)] if isinstance(node, list) else [str(node)]


def test_it_serves_what_autoscalers_name():
    rules = adapter_config(args())["rules"]
    assert {rule["name"]["as"] for rule in rules} == {QUEUE_METRIC, LATENCY_METRIC}
    kinds = {rule["name"]["as"]: {each["resource"] for each in _overrides(rule).values()} for rule in rules}
    assert kinds == {QUEUE_METRIC: {"namespace", "pod"}, LATENCY_METRIC: {"namespace", "service"}}


def _overrides(rule):
    return rule["resources"]["overrides"]


def test_every_series_that_it_asks_for_is_scraped_and_kept():
    server = ServerMetrics("digits")
    server.add_version(VersionMetrics(model="digits", version=1))
    served = set(re.findall(r"^(\w+)\{", server.render().decode(), re.MULTILINE))
    kept = {*KEPT_METRICS["cadvisor"], *KEPT_METRICS["node-exporter"], *served}
    asked = {name for text in texts(adapter_config(args())) for name in _NAME.findall(text)}
    assert asked - {LATENCY_METRIC} - kept == set()
    assert len(asked & kept) == 7


@each_row(("interval", "window", "cpu_window"), [(5, "[20s]", "[60s]"), (30, "[120s]", "[120s]")])
def test_a_rate_covers_several_scrapes(interval, window, cpu_window):
    config = adapter_config(args(scrape_interval_seconds=interval))
    assert all(window in rule["metricsQuery"] for rule in config["rules"])
    assert cpu_window in config["resourceRules"]["cpu"]["containerQuery"]


def test_the_use_of_pods_is_left_to_a_metrics_server_that_is_there():
    assert {each["metadata"]["name"] for each in of_kind("APIService")} == BOTH
    [custom] = of_kind("APIService", resource_metrics=False)
    assert custom["metadata"]["name"] == CUSTOM_METRICS_API
    assert "resourceRules" not in adapter_config(args(resource_metrics=False))
    assert "prometheus-adapter-readers" not in manifests(resource_metrics=False)


def test_no_api_is_served_without_a_certificate_that_is_checked():
    for each in of_kind("APIService"):
        assert "insecureSkipTLSVerify" not in each["spec"]
        assert each["spec"]["service"] == {"name": "prometheus-adapter", "namespace": "monitoring"}
    [creating] = pod()["initContainers"]
    config = parse(creating["command"][3:])
    assert (config.host, set(config.api_services)) == (HOST, BOTH)
    [serving] = pod()["containers"]
    assert f"--tls-cert-file={config.folder}/tls.crt" in serving["args"]
    assert f"--tls-private-key-file={config.folder}/tls.key" in serving["args"]


def test_the_key_is_on_no_disk_and_the_server_cannot_change_it():
    [volume] = [each for each in pod()["volumes"] if each["name"] == "certificate"]
    assert volume["emptyDir"]["medium"] == "Memory"
    mounts = {each["name"]: each.get("readOnly", False) for each in pod()["containers"][0]["volumeMounts"]}
    assert mounts == {"certificate": True, "config": True}


def test_it_changes_nothing_but_the_certificate_of_its_own_apis():
    rules = [rule for kind in ("Role", "ClusterRole") for each in of_kind(kind) for rule in each["rules"]]
    changing = [rule for rule in rules if WRITING & {*rule["verbs"]}]
    patched = [rule for rule in changing if "patch" in rule["verbs"]]
    assert [(rule["resources"], set(rule["resourceNames"])) for rule in patched] == [(["apiservices"], BOTH)]
    # A review is a question: nothing is stored.
    assert {*(each for rule in changing for each in rule["resources"])} == {
        "apiservices", "tokenreviews", "subjectaccessreviews",
    }  # fmt: skip
    assert not any("secrets" in rule["resources"] for rule in rules)


def test_of_another_namespace_it_reads_how_the_api_server_proves_itself_and_no_more():
    [role] = of_kind("Role")
    assert role["metadata"]["namespace"] == "kube-system"
    [rule] = role["rules"]
    assert rule["resourceNames"] == ["extension-apiserver-authentication"]


def test_a_changed_configuration_replaces_the_pod():
    digests = {
        manifests(scrape_interval_seconds=seconds)["prometheus-adapter"]["spec"]["template"]["metadata"]["annotations"][
            "athanor.dev/config"
        ]
        for seconds in (5, 30)
    }
    assert len(digests) == 2
    [config] = of_kind("ConfigMap")
    assert json.loads(config["data"]["config.yaml"]) == adapter_config(args())
