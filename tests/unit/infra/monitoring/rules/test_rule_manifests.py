"""What is applied to a cluster: whole, known to the real promtool, and only with metrics that exist."""

import json
import subprocess

import pytest

from infra.gpu.dcgm_exporter import COUNTERS
from infra.monitoring.rules import areas, rule_manifests
from infra.monitoring.rules.gpu import SEVERITIES, XIDS
from infra.monitoring.rules.nodes import PLATFORM_NAMESPACES
from infra.settings.alert_thresholds import AlertThresholds
from tests.tables import each_row
from tests.unit.infra.monitoring.rules.queries import metrics_of

RULES = [rule for area in areas(AlertThresholds()) for rule in (*area.recordings, *area.alerts)]
ALERTS = [alert for area in areas(AlertThresholds()) for alert in area.alerts]


def manifests(**more):
    given = {"namespace": "monitoring", "labels": {"release": "theirs"}, **more}
    return rule_manifests(AlertThresholds(), **given)


def test_every_area_is_a_rule_object_that_the_stack_selects():
    built = manifests()
    assert set(built) == {f"rules-{area.name}" for area in areas(AlertThresholds())}
    for manifest in built.values():
        assert (manifest["apiVersion"], manifest["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
        assert manifest["metadata"]["namespace"] == "monitoring"
        assert manifest["metadata"]["labels"] == {"app.kubernetes.io/part-of": "athanor", "release": "theirs"}
        assert manifest["spec"]["groups"][0]["rules"]


def test_names_and_groups_are_used_once():
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    groups = [group["name"] for manifest in manifests().values() for group in manifest["spec"]["groups"]]
    assert len(set(groups)) == len(groups)


@pytest.mark.built
def test_promtool_accepts_every_rule(promtool, tmp_path):
    groups = [group for manifest in manifests().values() for group in manifest["spec"]["groups"]]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": groups}))
    done = subprocess.run(
        [promtool, "check", "rules", tmp_path / "rules.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


def test_alerts_name_their_page_where_it_can_be_read():
    rules = manifests()["rules-nodes"]["spec"]["groups"][0]["rules"]
    assert rules[0]["annotations"]["runbook"] == "docs/runbooks/NodeNotReady.md"
    rules = manifests(runbook_base_url="https://example.com/pages/")["rules-nodes"]["spec"]["groups"][0]["rules"]
    assert rules[0]["annotations"]["runbook_url"] == "https://example.com/pages/NodeNotReady.md"
    assert "runbook" not in rules[0]["annotations"]


def test_nobody_misses_a_scheduler_that_is_not_read():
    rule = manifests(volcano=False)["rules-targets"]["spec"]["groups"][0]["rules"][1]
    assert rule["alert"] == "TargetMissing"
    assert metrics_of(rule["expr"]) == {"kube_pod_info", "kubelet_running_pods", "node_load1", "envoy_server_live"}


def test_without_a_gateway_there_is_nothing_to_say_about_one():
    built = manifests(has_gateway=False)
    assert "rules-gateway" not in built
    assert "envoy_" not in json.dumps(built)


def test_gpu_rules_read_only_counters_that_the_exporter_collects():
    collected = {field for field, kind, _ in COUNTERS if kind != "label"}
    read = {name for rule in RULES for name in metrics_of(rule.expr) if name and name.startswith("DCGM_")}
    assert read
    assert read <= collected


def test_the_last_xid_is_compared_and_never_differentiated():
    read = [rule.expr for rule in RULES if "DCGM_FI_DEV_XID_ERRORS" in rule.expr]
    assert read
    assert not any(word in expr for expr in read for word in ("increase", "rate", "delta", "changes"))


def test_every_code_has_one_action():
    listed = [code for xid in XIDS for code in xid.codes]
    assert len(set(listed)) == len(listed)
    assert {xid.action for xid in XIDS} == set(SEVERITIES)


@each_row("alert", ALERTS, ids=lambda alert: alert.name)
def test_alerts_say_what_is_the_matter(alert):
    assert alert.summary
    assert "\n" not in alert.summary
    assert alert.description.endswith((".", "`", "?"))
    assert alert.severity in {"page", "ticket", "info"}


def test_parts_of_the_platform_are_watched_for_crashes():
    assert {"kube-system", "volcano-system", "monitoring", "gpu-system", "gateway-system"} <= set(PLATFORM_NAMESPACES)
