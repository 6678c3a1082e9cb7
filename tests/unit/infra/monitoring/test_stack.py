"""The monitoring of a whole stack: what is there for which settings, who may do what, and what waits for what."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from infra.monitoring import NAMESPACE, NODE_NAMESPACE
from infra.monitoring.stack import CRDS
from tests.tables import each_row
from tools.stacks.engine import stack_config

if TYPE_CHECKING:
    from tests.recording_engine import Recording

PODS = ("Alertmanager", "DaemonSet", "Deployment", "Prometheus", "StatefulSet")
PARTS = {
    "alertmanager", "grafana", "kube-state-metrics", "node-exporter", "prometheus", "prometheus-operator",
    "victoria-logs", "vlagent",
}  # fmt: skip
COMPONENT = "athanor:infra:Monitoring"


@pytest.fixture(scope="module")
def cluster(machine_home):
    """Settings of a cluster of the user's."""
    return {"kubeconfig": str(machine_home / "local" / "kubeconfig"), "context": "athanor-local"}


@pytest.fixture(scope="module")
def watch(record_stack, cluster):
    """Record a stack on a cluster of the user's with these settings of monitoring."""

    def recorded(**monitoring) -> Recording:
        return record_stack({"cluster": cluster, "monitoring": monitoring})

    return recorded


def monitoring_parts(recording):
    return {
        resource.name: resource for kind in PODS for resource in recording.of_kind(kind) if COMPONENT in resource.urn
    }


def spec_of(recording, name, kind):
    return recording.one(name, kind).inputs["spec"]


def callers_of_prometheus(recording):
    [callers] = spec_of(recording, "prometheus-network", "NetworkPolicy")["ingress"]
    return callers["from"][0]["podSelector"]["matchExpressions"][0]["values"]


def test_all_parts_run_by_default(watch):
    recording = watch()
    assert set(monitoring_parts(recording)) == PARTS
    assert "prometheus-adapter" not in callers_of_prometheus(recording)


def test_what_autoscalers_read_runs_where_it_is_asked_for(watch):
    recording = watch(autoscaling={"enabled": True})
    assert set(monitoring_parts(recording)) == {*PARTS, "prometheus-adapter"}
    before = recording.ancestors(recording.one("prometheus-adapter", "Deployment"))
    [api] = recording.of_kind("APIService")  # the cluster is the user's, with a metrics-server of its own
    assert api.urn in before
    assert "prometheus-adapter" in callers_of_prometheus(recording)


def test_none_is_nothing_at_all(watch):
    recording = watch(kind="none")
    assert [resource.urn for resource in recording.resources.values() if COMPONENT in resource.urn] == []
    assert {recording.exports[key] for key in ("prometheus_url", "grafana_url", "logs_url")} == {""}


def test_an_existing_stack_gets_monitors_rules_and_dashboards_with_the_labels_it_selects_by(watch):
    selector_labels = {"release": "kube-prometheus-stack"}
    recording = watch(
        kind="existing", namespace="observability", selector_labels=selector_labels, logs={"kind": "none"}
    )
    resources = [each for each in recording.objects() if COMPONENT in each.urn]
    assert {each.kind for each in resources} == {
        "PodMonitor", "PrometheusRule", "ConfigMap", "Namespace", "NetworkPolicy",
    }  # fmt: skip
    objects = [each for each in resources if each.kind not in ("Namespace", "NetworkPolicy")]
    assert {each.inputs["metadata"]["namespace"] for each in objects} == {"observability"}
    assert all(selector_labels.items() <= each.inputs["metadata"]["labels"].items() for each in objects)
    dashboards = [each.inputs["metadata"]["labels"] for each in objects if each.kind == "ConfigMap"]
    assert dashboards
    assert all(labels["grafana_dashboard"] == "1" for labels in dashboards)
    assert recording.exports["prometheus_url"] == recording.exports["logs_url"] == ""


def test_the_namespace_of_an_existing_stack_is_left_to_it(watch):
    recording = watch(kind="existing", namespace=NAMESPACE, selector_labels={"release": "kps"})
    namespaces = {resource.inputs["metadata"]["name"] for resource in recording.of_kind("Namespace")}
    assert NAMESPACE not in namespaces
    assert NODE_NAMESPACE in namespaces
    denied = [
        resource for resource in recording.of_kind("NetworkPolicy") if resource.inputs["spec"]["podSelector"] == {}
    ]
    assert NAMESPACE not in {resource.inputs["metadata"]["namespace"] for resource in denied}


def test_the_managed_prometheus_gets_our_monitors_and_no_pod_but_those_of_the_logs(record_stack):
    config = stack_config("dev")
    del config["gpu"]
    recording = record_stack({**config, "monitoring": {"kind": "managed"}}, stack="dev")
    assert set(monitoring_parts(recording)) == {"victoria-logs", "vlagent"}
    assert {resource.name for resource in recording.of_kind("PodMonitor")} >= {"monitor-training", "monitor-serving"}
    addons = recording.of_type("alicloud:cs/kubernetesAddon:KubernetesAddon")
    assert "arms-prometheus" in {resource.inputs["name"] for resource in addons}


def test_every_pod_waits_for_its_account_and_roles(watch):
    recording = watch()
    for name, part in monitoring_parts(recording).items():
        before = recording.ancestors(part)
        accounts = [f"{name}-account", *(each for each in (f"{name}-role", f"{name}-clusterrole"))]
        resources = [each for each in recording.objects() if COMPONENT in each.urn and each.name in accounts]
        assert {each.urn for each in resources} <= before, name


def test_every_object_of_the_operator_waits_for_its_definition(watch):
    recording = watch()
    definitions = {
        definition.name.removeprefix("crd-"): definition.urn
        for definition in recording.of_kind("CustomResourceDefinition")
    }
    kinds = {"Alertmanager", "PodMonitor", "Prometheus", "PrometheusRule", "ServiceMonitor"}
    resources = [each for kind in kinds for each in recording.of_kind(kind)]
    assert {each.kind for each in resources} == kinds
    for each in (*resources, recording.one("prometheus-operator", "Deployment")):
        assert {definitions[name] for name in CRDS} <= recording.ancestors(each), each.urn


def test_the_first_configuration_of_prometheus_holds_all_targets_and_rules(watch):
    """A changed one reaches the pod up to a minute later: a first short job would have ended unseen."""
    recording = watch()
    selected = [
        each.urn for kind in ("PodMonitor", "PrometheusRule", "ServiceMonitor") for each in recording.of_kind(kind)
    ]
    assert set(selected) <= recording.ancestors(recording.of_kind("Prometheus")[0])


def test_nothing_waits_for_a_service_that_waits_for_its_pods(watch):
    """The two would wait for each other until both give up."""
    recording = watch()
    services = {service.urn for service in recording.of_kind("Service") if COMPONENT in service.urn}
    services -= {recording.one("kubelet-service").urn}
    assert services
    for part in monitoring_parts(recording).values():
        assert not services & recording.ancestors(part), part.name


def test_the_kubelets_service_is_ours_before_it_is_the_operators(watch):
    """If only the operator created it, it would remain in kube-system forever."""
    recording = watch()
    service = recording.one("kubelet-service")
    assert service.urn in recording.ancestors(recording.one("prometheus-operator", "Deployment"))
    [container] = spec_of(recording, "prometheus-operator", "Deployment")["template"]["spec"]["containers"]
    metadata = service.inputs["metadata"]
    assert f"--kubelet-service={metadata['namespace']}/{metadata['name']}" in container["args"]


def test_the_parts_go_before_the_nodes_they_run_on(record_stack):
    recording = record_stack(stack_config("dev"), stack="dev")
    pools = {pool.urn for pool in recording.of_type("alicloud:cs/nodePool:NodePool")}
    assert pools
    for part in monitoring_parts(recording).values():
        assert pools <= recording.ancestors(part), part.name


def test_disks_are_folders_of_the_local_node(local_stack, machine_home):
    for part in ("prometheus", "alertmanager"):
        volume = local_stack.one(f"{part}-volume").inputs
        assert volume["spec"]["local"]["path"] == str(machine_home / "local" / "volumes" / part)
        kind = part.title()
        claim = spec_of(local_stack, part, kind)["storage"]["volumeClaimTemplate"]["spec"]
        assert claim["volumeName"] == volume["metadata"]["name"]
        assert claim["storageClassName"] == ""


@each_row(
    ("disk", "expected"),
    [
        ({"size_gib": 30}, {"resources": {"requests": {"storage": "30Gi"}}}),
        ({"storage_class": "fast"}, {"storageClassName": "fast"}),
    ],
    ids=["default-class", "named-class"],
)
def test_disks_of_other_clusters_are_of_their_classes(watch, disk, expected):
    claim = spec_of(watch(storage=disk), "prometheus", "Prometheus")["storage"]["volumeClaimTemplate"]["spec"]
    assert claim.items() >= expected.items()
    assert ("storageClassName" in claim) == ("storage_class" in disk)


def test_disks_under_alicloud_are_essds(record_stack):
    recording = record_stack(stack_config("prod"), stack="prod")
    for part, kind in (("prometheus", "Prometheus"), ("alertmanager", "Alertmanager")):
        claim = spec_of(recording, part, kind)["storage"]["volumeClaimTemplate"]["spec"]
        assert claim["storageClassName"] == "athanor-disk"


def test_what_must_not_outlive_the_pod_has_no_claim(watch):
    storage = spec_of(watch(storage={"persistent": False, "size_gib": 3}), "prometheus", "Prometheus")["storage"]
    assert storage == {"emptyDir": {"sizeLimit": "3Gi"}}


@each_row("size", [1, 50, 1024])
def test_what_is_oldest_goes_before_the_disk_is_full(watch, size):
    spec = spec_of(watch(storage={"size_gib": size}), "prometheus", "Prometheus")
    kept = int(re.fullmatch(r"(\d+)MiB", spec["retentionSize"])[1])
    assert 0.7 * size * 1024 < kept < 0.9 * size * 1024


def test_settings_reach_prometheus_alertmanager_and_grafana(watch):
    """Changed data sources start Grafana again."""

    def sources(recording):
        return spec_of(recording, "grafana", "Deployment")["template"]["metadata"]["annotations"]

    recording = watch(replicas=2, retention_days=9, scrape_interval_seconds=7, memory_limit="9Gi")
    spec = spec_of(recording, "prometheus", "Prometheus")
    assert spec.items() >= {"replicas": 2, "retention": "9d", "scrapeInterval": "7s", "enableAdminAPI": False}.items()
    assert next(c for c in spec["containers"] if c["name"] == "prometheus")["resources"]["limits"] == {"memory": "9Gi"}
    assert spec_of(recording, "alertmanager", "Alertmanager")["replicas"] == 2
    assert sources(recording) != sources(watch())


def test_alerts_reach_alertmanager_by_the_port_it_has(watch):
    recording = watch()
    [target] = spec_of(recording, "prometheus", "Prometheus")["alerting"]["alertmanagers"]
    service = recording.one("alertmanager-service").inputs
    assert (target["namespace"], target["name"]) == (NAMESPACE, service["metadata"]["name"])
    assert target["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_alerts_notify_nobody_until_a_configuration_is_named(watch):
    plain, notifying = watch(), watch(alertmanager_config_secret="on-call")
    quiet = plain.one("alertmanager-config").inputs
    config = json.loads(quiet["stringData"]["alertmanager.yaml"])
    assert [set(receiver) for receiver in config["receivers"]] == [{"name"}]
    assert spec_of(plain, "alertmanager", "Alertmanager")["configSecret"] == quiet["metadata"]["name"]
    assert spec_of(notifying, "alertmanager", "Alertmanager")["configSecret"] == "on-call"
    assert not [secret for secret in notifying.of_kind("Secret") if COMPONENT in secret.urn]


def test_grafana_has_no_password_unless_a_secret_holds_one(watch):
    def variables(recording):
        [container] = spec_of(recording, "grafana", "Deployment")["template"]["spec"]["containers"]
        return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}

    open_to_see = variables(watch())
    assert open_to_see["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert open_to_see["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert open_to_see["GF_AUTH_BASIC_ENABLED"] == "false"
    assert open_to_see["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    closed = variables(watch(grafana_admin_secret="grafana-admin"))
    assert "GF_AUTH_ANONYMOUS_ENABLED" not in closed
    assert closed["GF_SECURITY_ADMIN_PASSWORD"] == {"secretKeyRef": {"name": "grafana-admin", "key": "password"}}


def test_grafana_shows_every_dashboard_and_starts_after_them(watch):
    recording = watch()
    volumes = spec_of(recording, "grafana", "Deployment")["template"]["spec"]["volumes"]
    [sources] = [volume["projected"]["sources"] for volume in volumes if volume["name"] == "dashboards"]
    mounted = {source["configMap"]["name"] for source in sources}
    boards = [board for board in recording.of_kind("ConfigMap") if board.name.startswith("dashboard-")]
    assert mounted == {board.inputs["metadata"]["name"] for board in boards}
    assert {board.urn for board in boards} <= recording.ancestors(recording.one("grafana", "Deployment"))


def test_without_grafana_there_is_no_dashboard_either(watch):
    recording = watch(grafana=False)
    assert not [
        resource for resource in recording.objects() if "dashboard" in resource.name or "grafana" in resource.name
    ]
    assert recording.exports["grafana_url"] == ""


def test_the_outputs_are_addresses_of_services(watch):
    recording = watch()
    for key, name in (("prometheus_url", "prometheus"), ("grafana_url", "grafana"), ("logs_url", "victoria-logs")):
        service = recording.one(f"{name}-service").inputs
        [port] = service["spec"]["ports"]
        assert recording.exports[key] == f"http://{service['metadata']['name']}.{NAMESPACE}.svc:{port['port']}"


def test_everything_in_both_namespaces_is_closed_but_for_what_is_named(watch):
    recording = watch()
    policies = [policy.inputs for policy in recording.of_kind("NetworkPolicy") if COMPONENT in policy.urn]
    closed = {each["metadata"]["namespace"] for each in policies if each["spec"]["podSelector"] == {}}
    assert closed == {NAMESPACE, NODE_NAMESPACE}
    for each in policies:
        for rule in each["spec"].get("ingress", []):
            assert rule["from"], each["metadata"]["name"]
            assert all("podSelector" in peer for peer in rule["from"]), each["metadata"]["name"]


def _may(recording, account):
    """(namespace or '*', group, resource, verb) of all that an account may do."""
    for kind in ("Role", "ClusterRole"):
        for binding in recording.of_kind(f"{kind}Binding"):
            if {each["name"] for each in binding.inputs["subjects"]} != {account}:
                continue
            namespace = binding.inputs["metadata"].get("namespace", "*")
            [role] = [
                candidate.inputs
                for candidate in recording.of_kind(kind)
                if candidate.inputs["metadata"]["name"] == binding.inputs["roleRef"]["name"]
                and candidate.inputs["metadata"].get("namespace", "*") == namespace
            ]
            for rule in role["rules"]:
                for resource in rule.get("resources", []):
                    yield from (
                        (namespace, group, resource, verb) for group in rule["apiGroups"] for verb in rule["verbs"]
                    )


def test_nobody_but_the_operator_writes_and_it_only_in_its_namespace(watch):
    recording = watch()
    for account in PARTS - {"prometheus-operator"}:
        assert {verb for *_, verb in _may(recording, account)} <= {"get", "list", "watch"}, account
    written = {
        (namespace, resource)
        for namespace, _, resource, verb in _may(recording, "prometheus-operator")
        if verb not in ("get", "list", "watch")
    }
    elsewhere = {right for right in written if right[0] != NAMESPACE}
    kinds = ("services", "services/finalizers", "endpointslices")
    assert elsewhere == {("*", "events"), *(("kube-system", kind) for kind in kinds)}


@each_row("account", sorted(PARTS))
def test_secrets_are_read_in_one_namespace_by_the_operator_alone(watch, account):
    namespaces = {namespace for namespace, _, resource, _ in _may(watch(), account) if resource == "secrets"}
    assert namespaces == ({NAMESPACE} if account == "prometheus-operator" else set())


def test_prometheus_sees_pods_where_monitors_look_for_them(watch):
    recording = watch()
    looked_for = {
        namespace
        for kind in ("PodMonitor", "ServiceMonitor")
        for monitor in recording.of_kind(kind)
        for namespace in monitor.inputs["spec"]["namespaceSelector"]["matchNames"]
    }
    assert looked_for
    assert looked_for <= {namespace for namespace, *_ in _may(recording, "prometheus")}


def test_kube_state_metrics_may_list_what_it_is_configured_for_and_no_more(watch):
    recording = watch()
    [container] = spec_of(recording, "kube-state-metrics", "Deployment")["template"]["spec"]["containers"]
    [kinds] = [each.partition("=")[2].split(",") for each in container["args"] if each.startswith("--resources=")]
    assert {resource for _, _, resource, _ in _may(recording, "kube-state-metrics")} == set(kinds)


def test_the_node_exporter_runs_on_every_real_node_and_mounts_it_read_only(watch):
    recording = watch()
    pod = spec_of(recording, "node-exporter", "DaemonSet")["template"]["spec"]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": "athanor.dev/simulated", "operator": "DoesNotExist"} in term["matchExpressions"]
    assert not pod.get("hostPID")
    [container] = pod["containers"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    [address] = [each for each in container["args"] if each.startswith("--web.listen-address=")]
    assert not address.endswith("=:9100"), "it would listen on every address of the node"


def test_nobody_waits_for_metrics_of_a_volcano_that_somebody_else_installed(record_stack, cluster):
    def alerts(recording):
        return json.dumps([rule.inputs["spec"] for rule in recording.of_kind("PrometheusRule")])

    theirs = record_stack({"cluster": cluster, "scheduling": {"install": False}})
    ours = record_stack({"cluster": cluster})
    assert "monitor-volcano-scheduler" not in {monitor.name for monitor in theirs.of_kind("PodMonitor")}
    assert '\\"volcano-scheduler\\"' in alerts(ours)
    assert '\\"volcano-scheduler\\"' not in alerts(theirs)


def test_the_page_of_prometheus_lies_where_it_looks_for_it(watch):
    recording = watch()
    spec = spec_of(recording, "prometheus", "Prometheus")
    [argument] = [each["value"] for each in spec["additionalArgs"] if each["name"] == "web.console.templates"]
    [mount] = [each for each in spec["volumeMounts"] if each["mountPath"] == argument]
    [name] = [each["configMap"]["name"] for each in spec["volumes"] if each["name"] == mount["name"]]
    page = recording.one(name).inputs
    assert page["metadata"]["name"] == name
    assert set(page["data"]) == {"index.html"}
    assert recording.one(name).urn in recording.ancestors(recording.one("prometheus", "Prometheus"))


@each_row("origin", ["https://evil.example", "http://localhost:9090", "null", "file://"])
def test_no_page_of_the_web_may_read_the_metrics(watch, origin):
    spec = spec_of(watch(), "prometheus", "Prometheus")
    [allowed] = [each["value"] for each in spec["additionalArgs"] if each["name"] == "web.cors.origin"]
    assert not re.fullmatch(allowed, origin)


@each_row("enabled", [True, False])
def test_a_gateway_is_read_and_missed_only_where_there_is_one(record_stack, enabled):
    recording = record_stack({"gateway": {"enabled": True}} if enabled else {})
    names = {each.name for kind in ("PodMonitor", "PrometheusRule") for each in recording.of_kind(kind)}
    assert names & {"monitor-gateway", "rules-gateway"} == ({"monitor-gateway", "rules-gateway"} if enabled else set())
    missing = json.dumps(recording.one("rules-targets", "PrometheusRule").inputs["spec"])
    assert ("envoy_server_live" in missing) == enabled
