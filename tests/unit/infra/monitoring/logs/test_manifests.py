"""What keeps logs: the store's disk and its limits, the collector's rights, who comes in."""

from __future__ import annotations

from infra.build import simulated_node_manifest
from infra.monitoring import NAMESPACE, NODE_NAMESPACE, PROMETHEUS, VICTORIA_LOGS_PORT, VLAGENT
from infra.monitoring.logs import CLAIM, collector, store
from infra.monitoring.logs.manifests import LogArgs, log_manifests
from infra.offers import GPU_TAINT
from infra.settings.monitoring import LogSettings, VolumeSettings
from infra.storage import ClassVolumes, NodeFolders
from tests.pod_security import all_containers, pod_specs, violations
from tests.tables import each_row

GIB = 1024**3


def manifests(backing=None, *, readers=(NAMESPACE,), **settings) -> dict:
    return log_manifests(LogArgs(settings=LogSettings(**settings), backing=backing, readers=readers))


def flags(arguments: list[str]) -> dict[str, str]:
    return {name.lstrip("-"): value for name, _, value in (word.partition("=") for word in arguments)}


def test_the_store_waits_for_its_disk_and_the_collector_for_its_rights():
    names = list(manifests(NodeFolders()))
    assert names.index("victoria-logs-volume") < names.index("victoria-logs-claim") < names.index("victoria-logs")
    assert names.index("vlagent-account") < names.index("vlagent-role") < names.index("vlagent-role-binding")
    assert names.index("vlagent-role-binding") < names.index("vlagent")


@each_row("kind", ["sls", "none"])
def test_other_kinds_need_nothing_of_it(kind):
    assert manifests(kind=kind) == {}


def test_a_disk_of_a_class_is_claimed_without_a_volume_of_ours():
    objects = manifests(ClassVolumes(storage_class="fast"), storage=VolumeSettings(size_gib=7))
    assert "victoria-logs-volume" not in objects
    claim = objects["victoria-logs-claim"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"] == {"requests": {"storage": "7Gi"}}
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    [volume] = objects["victoria-logs"]["spec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}


def test_the_cluster_of_make_up_keeps_them_in_a_folder_of_its_node():
    objects = manifests(NodeFolders())
    volume, claim = objects["victoria-logs-volume"], objects["victoria-logs-claim"]
    assert volume["spec"]["local"]["path"].endswith(f"/volumes/{CLAIM}")
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]


def test_without_backing_nothing_is_claimed():
    objects = manifests()
    assert "victoria-logs-claim" not in objects
    [volume] = objects["victoria-logs"]["spec"]["template"]["spec"]["volumes"]
    assert volume == {"name": "data", "emptyDir": {}}


def test_days_and_the_size_of_the_disk_bound_what_is_kept():
    limits = flags(store.store_arguments(LogSettings(retention_days=12, storage=VolumeSettings(size_gib=100))))
    assert limits["retentionPeriod"] == "12d"
    assert int(limits["retention.maxDiskSpaceUsageBytes"]) == 80 * GIB
    assert int(limits["storage.minFreeDiskSpaceBytes"]) == GIB


@each_row("size_gib", [1, 2, 50, 32768])
def test_old_days_go_before_new_lines_are_refused(size_gib):
    used, free = store.disk_limits(size_gib)
    assert 0 < free < size_gib * GIB - used, "between the two there is room"


def test_the_store_never_has_two_pods_and_its_service_finds_it():
    objects = manifests(NodeFolders())
    spec = objects["victoria-logs"]["spec"]
    assert (spec["replicas"], objects["victoria-logs"]["kind"]) == (1, "StatefulSet")
    assert violations(spec["template"]["spec"]) == []
    assert (
        objects["victoria-logs-service"]["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()
    )
    [port] = objects["victoria-logs-service"]["spec"]["ports"]
    assert f"{store.URL}/insert/native" == flags(collector.collector_arguments())["remoteWrite.url"]
    service = objects["victoria-logs-service"]["metadata"]
    assert f"http://{service['name']}.{service['namespace']}.svc:{port['port']}" == store.URL


def test_the_collector_breaks_the_restrictions_only_where_it_must():
    [pod] = pod_specs(manifests()["vlagent"])
    root = {"pod runs as user 0", "container vlagent sets runAsNonRoot to false", "container vlagent may run as root"}
    folders = {f"volume {volume['name']} is of type hostPath" for volume in pod["volumes"]}
    assert set(violations(pod)) == root | folders
    [container] = all_containers(pod)
    assert container["securityContext"] == {
        "runAsNonRoot": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == [flags(container["args"])["tmpDataPath"]]
    assert not any(pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))


def test_what_the_collector_remembers_outlives_it():
    [pod] = pod_specs(manifests()["vlagent"])
    [container] = pod["containers"]
    folder = flags(container["args"])["tmpDataPath"]
    [name] = [mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == folder]
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == name]
    assert volume["hostPath"] == {"path": "/var/lib/athanor/vlagent", "type": "DirectoryOrCreate"}


def test_the_collector_reads_where_kubelets_write():
    [pod] = pod_specs(manifests()["vlagent"])
    paths = {volume["hostPath"]["path"]: volume["name"] for volume in pod["volumes"]}
    [container] = pod["containers"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    # The links lead to the files by the node's own path.
    for path in ("/var/log/containers", "/var/log/pods"):
        assert mounts[paths[path]] == {"name": paths[path], "mountPath": path, "readOnly": True}


def test_the_collector_runs_on_every_node_that_is_one():
    [pod] = pod_specs(manifests()["vlagent"])
    assert pod["tolerations"] == [{"operator": "Exists"}], f"also {GPU_TAINT.key} and what other pools are tainted with"
    [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    simulated = simulated_node_manifest("sim", "ecs.ebmgn8v.48xlarge", "a")["metadata"]["labels"]
    assert not fits(term, simulated)
    assert not fits(term, {"type": "virtual-kubelet"})
    assert fits(term, {"athanor.dev/pool": "a10"})


def fits(term: dict, labels: dict[str, str]) -> bool:
    checks = {
        "DoesNotExist": lambda rule: rule["key"] not in labels,
        "NotIn": lambda rule: labels.get(rule["key"]) not in rule["values"],
    }
    return all(checks[rule["operator"]](rule) for rule in term["matchExpressions"])


def test_the_collector_may_read_pods_and_its_node_and_no_more():
    objects = manifests()
    assert objects["vlagent-role"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]
    [subject] = objects["vlagent-role-binding"]["subjects"]
    account = objects["vlagent-account"]["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    [pod] = pod_specs(objects["vlagent"])
    assert pod["serviceAccountName"] == account["name"]


def test_nobody_hands_lines_to_the_collector_or_queries_across_origins():
    assert {"insert.disable", "internalinsert.disable"} <= flags(collector.collector_arguments()).keys()
    assert "http.disableCORS" in flags(store.store_arguments(LogSettings()))


def test_what_a_node_keeps_while_the_store_is_away_is_bounded():
    assert flags(collector.collector_arguments())["remoteWrite.maxDiskUsagePerURL"] == "2GiB"


def test_only_the_collector_and_readers_reach_the_store():
    policy = manifests(readers=("observability",))["victoria-logs-network"]["spec"]
    assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "victoria-logs"}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == []
    [rule] = policy["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": VICTORIA_LOGS_PORT}]
    assert [peer(each) for each in rule["from"]] == [
        (NODE_NAMESPACE, [VLAGENT]),
        ("observability", [PROMETHEUS, "grafana"]),
    ]


def test_the_collector_reaches_the_store_the_api_server_and_dns():
    policy = manifests()["vlagent-network"]["spec"]
    [scraped] = policy["ingress"]
    assert [peer(each) for each in scraped["from"]] == [(NAMESPACE, [PROMETHEUS])]
    reached = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert reached == {VICTORIA_LOGS_PORT, 443, 6443, 53}


def peer(rule: dict) -> tuple[str, list[str]]:
    [expression] = rule["podSelector"]["matchExpressions"]
    return rule["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], expression["values"]
