"""What runs on GPU nodes: the parts that were asked for, with their configuration, on these nodes alone."""

from __future__ import annotations

import re

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
import yaml

from infra.gpu.dcgm_exporter import COUNTERS, METRICS_PORT, counters_csv, dcgm_exporter_manifests
from infra.gpu.device_plugin import device_plugin_manifests
from infra.gpu.gpu_nodes import GpuNodes, GpuNodesArgs
from infra.gpu.nodes import NAMESPACE
from infra.gpu.sharing import device_plugin_config
from infra.settings.gpu import ClusterGpuSettings, Mig, Mps, TimeSlicing
from tests.pod_security import all_containers, pod_specs
from tests.recording_engine import Recording, record

SHARINGS = [None, TimeSlicing(replicas=4), Mps(replicas=2), Mig(profile="1g.10gb")]


def _all_manifests() -> list:
    plugins = [manifest for sharing in SHARINGS for manifest in device_plugin_manifests("plugin:1", sharing).values()]
    return [*plugins, *dcgm_exporter_manifests("exporter:1").values()]


def _declared(**settings: object) -> Recording:
    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        args = GpuNodesArgs(settings=ClusterGpuSettings(**settings))
        GpuNodes("gpu", args, pulumi.ResourceOptions(provider=provider))

    return record(program, preview=False)


@pytest.mark.parametrize("sharing", SHARINGS)
def test_the_plugin_reads_the_configuration_of_its_sharing(sharing):
    manifests = device_plugin_manifests("plugin:1", sharing)
    config = manifests["nvidia-device-plugin-config"]
    assert yaml.safe_load(config["data"]["config.yaml"]) == device_plugin_config(sharing)
    for pod in pod_specs(list(manifests.values())):
        [volume] = [volume for volume in pod["volumes"] if "configMap" in volume]
        assert volume["configMap"]["name"] == config["metadata"]["name"]
        [reader] = pod["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in reader["volumeMounts"]}
        files = {entry["value"] for entry in reader["env"] if entry["name"] == "CONFIG_FILE"}
        assert files == {f"{mounts[volume['name']]}/config.yaml"}


def test_only_mps_has_a_daemon():
    daemons = ["nvidia-mps-control-daemon" in device_plugin_manifests("plugin:1", sharing) for sharing in SHARINGS]
    assert daemons == [False, False, True, False]


def test_a_changed_configuration_changes_the_pods():
    def marks(*replicas: int) -> set[str]:
        manifests = [device_plugin_manifests("plugin:1", TimeSlicing(replicas=n)) for n in replicas]
        templates = [found["nvidia-device-plugin"]["spec"]["template"]["metadata"] for found in manifests]
        return {template["annotations"]["athanor.dev/config"] for template in templates}

    assert len(marks(2, 3)) == 2
    assert len(marks(2, 2)) == 1


def test_the_exporter_collects_the_counters_and_names_the_pods():
    manifests = dcgm_exporter_manifests("exporter:1")
    [pod] = pod_specs(manifests["dcgm-exporter"])
    [container] = pod["containers"]
    config = manifests["dcgm-exporter-config"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["args"] == ["-f", f"{mounts['config']}/counters.csv"]
    assert config["data"] == {"counters.csv": counters_csv()}
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (env["DCGM_EXPORTER_KUBERNETES"], env["DCGM_EXPORTER_LISTEN"]) == ("true", f":{METRICS_PORT}")
    assert mounts["pod-resources"] == "/var/lib/kubelet/pod-resources"
    service = manifests["dcgm-exporter-service"]
    labels = manifests["dcgm-exporter"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["ports"] == [{"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"}]
    assert container["ports"] == [{"name": "metrics", "containerPort": METRICS_PORT}]


def test_the_counters_are_a_file_that_the_exporter_can_read():
    """NVIDIA/dcgm-exporter reads three columns, `field, type, help`: a comma in a help text would be a fourth."""
    fields = [field for field, _, _ in COUNTERS]
    assert len(set(fields)) == len(fields)
    for line in counters_csv().splitlines():
        assert re.fullmatch(r"DCGM_(FI|EXP)_[A-Z0-9_]+, (gauge|counter|label), [^,]+", line)


def test_an_xid_code_is_no_counter():
    """It is the code of the last error: its increase means nothing."""
    kinds = {field: kind for field, kind, _ in COUNTERS}
    assert kinds["DCGM_FI_DEV_XID_ERRORS"] == "gauge"


def test_every_part_runs_on_gpu_nodes_alone_and_asks_for_what_it_needs():
    for pod in pod_specs(_all_manifests()):
        [*terms] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        keys = {expression["key"] for term in terms for expression in term["matchExpressions"]}
        assert keys == {"nvidia.com/gpu.present", "aliyun.accelerator/nvidia_count"}
        assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        assert pod["automountServiceAccountToken"] is False
        for container in all_containers(pod):
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}
            assert container["imagePullPolicy"] == "IfNotPresent"


def test_a_daemon_set_selects_its_own_pods_only():
    sets = [manifest for manifest in _all_manifests() if manifest["kind"] == "DaemonSet"]
    for one in sets:
        selector = one["spec"]["selector"]["matchLabels"]
        matched = {
            other["metadata"]["name"]
            for other in sets
            if selector.items() <= other["spec"]["template"]["metadata"]["labels"].items()
        }
        assert matched == {one["metadata"]["name"]}


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, set()),
        ({"device_plugin": True}, {"nvidia-device-plugin", "nvidia-device-plugin-config"}),
        ({"dcgm_exporter": True}, {"dcgm-exporter", "dcgm-exporter-config", "dcgm-exporter-service"}),
        (
            {"device_plugin": True, "sharing": Mps(replicas=2)},
            {"nvidia-device-plugin", "nvidia-device-plugin-config", "nvidia-mps-control-daemon"},
        ),
    ],
)
def test_the_settings_decide_what_is_installed(settings, parts):
    recording = _declared(**settings)
    component = recording.one("gpu")
    declared = {found.name for found in recording.objects()}
    assert declared == (parts | {"gpu-namespace"} if parts else set())
    assert component.outputs == {"parts": sorted(parts)}
    assert {found.parent for found in recording.objects()} <= {component.urn}


def test_the_namespace_stands_before_its_parts_and_a_configuration_before_its_pods():
    recording = _declared(device_plugin=True, dcgm_exporter=True)
    namespace = recording.one("gpu-namespace")
    assert namespace.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    for found in recording.objects():
        if found is not namespace:
            assert namespace.urn in recording.ancestors(found)
            assert found.inputs["metadata"]["namespace"] == NAMESPACE == namespace.inputs["metadata"]["name"]
    for part in ("nvidia-device-plugin", "dcgm-exporter"):
        assert recording.one(f"{part}-config").urn in recording.ancestors(recording.one(part))


def test_up_does_not_wait_for_gpu_nodes():
    recording = _declared(device_plugin=True, dcgm_exporter=True)
    for found in recording.objects():
        waits = found.kind in ("Namespace", "ConfigMap")
        assert ("pulumi.com/skipAwait" in found.annotations) is not waits


def test_a_stack_has_what_its_settings_ask_for_before_its_workloads(record_stack):
    plain = record_stack({"monitoring": {"kind": "none"}})
    assert not [found for found in plain.objects() if found.kind == "DaemonSet"]
    recording = record_stack({"gpu": {"device_plugin": True}})
    plugin = recording.one("nvidia-device-plugin", "DaemonSet")
    assert plugin.urn in recording.ancestors(recording.one("digits-training", "Job"))
