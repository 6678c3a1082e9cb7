"""What runs on GPU nodes: the parts that were asked for, with their configuration, on these nodes alone."""

from __future__ import annotations

import re

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
import yaml
from pydantic import ValidationError

from infra.gpu.dcgm_exporter import COUNTERS, DCGM_EXPORTER_PORT, counters_csv, dcgm_exporter_manifests
from infra.gpu.device_plugin import device_plugin_manifests
from infra.gpu.gpu_nodes import GpuNodes, GpuNodesArgs
from infra.gpu.nodes import NAMESPACE
from infra.gpu.sharing import advertised, device_plugin_config
from infra.instance_types import INSTANCE_TYPES
from infra.settings.gpu import ClusterGpuSettings, Mig, Mps, TimeSlicing
from tests.fixtures.recorded_stack import UNWATCHED
from tests.pod_security import all_containers, pod_specs
from tests.recording_engine import Recording, record
from tests.tables import each_row

SHARINGS = [None, TimeSlicing(replicas=4), Mps(replicas=2), Mig(profile="1g.10gb")]
DEVICE_LISTS = ["cdi-cri", "cdi-annotations", "volume-mounts", "envvar"]


def _settings(sharing: object = None, **changes: object) -> ClusterGpuSettings:
    return ClusterGpuSettings(device_plugin=True, sharing=sharing, **changes)


def _plugin(sharing: object = None, **changes: object) -> dict:
    return device_plugin_manifests("plugin:1", _settings(sharing, **changes))


def _exporter(sharing: object = None) -> dict:
    return dcgm_exporter_manifests("exporter:1", _settings(sharing))


def _all_manifests() -> list:
    plugins = [manifest for sharing in SHARINGS for manifest in _plugin(sharing).values()]
    exporters = [manifest for sharing in SHARINGS for manifest in _exporter(sharing).values()]
    return [*plugins, *exporters]


def _declared(**settings: object) -> Recording:
    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        args = GpuNodesArgs(settings=ClusterGpuSettings(**settings))
        GpuNodes("gpu", args, pulumi.ResourceOptions(provider=provider))

    return record(program, preview=False)


@each_row("sharing", SHARINGS)
def test_the_plugin_reads_the_configuration_of_its_sharing(sharing):
    manifests = _plugin(sharing)
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
    daemons = ["nvidia-mps-control-daemon" in _plugin(sharing) for sharing in SHARINGS]
    assert daemons == [False, False, True, False]


@each_row("device_list", DEVICE_LISTS)
def test_the_plugin_passes_gpus_as_the_settings_say(device_list):
    [pod] = pod_specs(_plugin(device_list=device_list)["nvidia-device-plugin"])
    [container] = pod["containers"]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    assert env["DEVICE_LIST_STRATEGY"] == device_list
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    cdi = device_list.startswith("cdi-")
    assert (env.get("NVIDIA_DRIVER_ROOT"), "/driver-root" in mounts) == (("/", True) if cdi else (None, False))
    if cdi:
        assert mounts["/driver-root"]["readOnly"] is True
    added = container["securityContext"]["capabilities"].get("add", [])
    assert added == (["SYS_ADMIN"] if device_list == "volume-mounts" else [])


def test_without_being_asked_no_variable_decides_about_gpus():
    assert _settings().device_list == "cdi-cri"
    with pytest.raises(ValidationError, match="device_plugin is false"):
        ClusterGpuSettings(device_list="envvar")


def test_everything_on_gpu_nodes_is_of_the_runtime_class_that_the_settings_name():
    recording = _declared(device_plugin=True, dcgm_exporter=True, sharing=Mps(replicas=2), runtime_class="nvidia")
    pods = [
        pod for resource in recording.objects() if resource.kind == "DaemonSet" for pod in pod_specs(resource.inputs)
    ]
    assert [pod["runtimeClassName"] for pod in pods] == ["nvidia"] * 3


def test_a_changed_configuration_changes_the_pods():
    def marks(*replicas: int) -> set[str]:
        manifests = [_plugin(TimeSlicing(replicas=n)) for n in replicas]
        templates = [by_name["nvidia-device-plugin"]["spec"]["template"]["metadata"] for by_name in manifests]
        return {template["annotations"]["athanor.dev/config"] for template in templates}

    assert len(marks(2, 3)) == 2
    assert len(marks(2, 2)) == 1


def test_the_exporter_collects_the_counters_and_names_the_pods():
    manifests = _exporter()
    [pod] = pod_specs(manifests["dcgm-exporter"])
    [container] = pod["containers"]
    config = manifests["dcgm-exporter-config"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["args"] == ["-f", f"{mounts['config']}/counters.csv"]
    assert config["data"] == {"counters.csv": counters_csv()}
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert (env["DCGM_EXPORTER_KUBERNETES"], env["DCGM_EXPORTER_LISTEN"]) == ("true", f":{DCGM_EXPORTER_PORT}")
    assert mounts["pod-resources"] == "/var/lib/kubelet/pod-resources"
    service = manifests["dcgm-exporter-service"]
    labels = manifests["dcgm-exporter"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["ports"] == [{"name": "metrics", "port": DCGM_EXPORTER_PORT, "targetPort": "metrics"}]
    assert container["ports"] == [{"name": "metrics", "containerPort": DCGM_EXPORTER_PORT}]


def test_the_exporter_knows_of_shares_and_names_every_pod_that_has_one():
    [announced] = advertised(TimeSlicing(replicas=4), INSTANCE_TYPES["ecs.gn7i-c8g1.2xlarge"])
    shares = {"NVIDIA_RESOURCE_NAMES": announced, "KUBERNETES_VIRTUAL_GPUS": "true"}
    # the instances of MIG are resources that the exporter knows by their prefix
    for sharing, expected in zip(SHARINGS, ({}, shares, shares, {}), strict=True):
        env = _env(_exporter(sharing)["dcgm-exporter"])
        assert {name: env[name] for name in shares if name in env} == expected, sharing


def _env(manifest):
    [pod] = pod_specs(manifest)
    return {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}


def test_the_exporters_times_are_those_that_rules_count_with():
    env = _env(_exporter()["dcgm-exporter"])
    assert env["DCGM_EXPORTER_INTERVAL"] == "30000"
    assert env["DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE"] == env["DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE"] == "300000"


def test_the_counters_are_a_file_that_the_exporter_can_read():
    """NVIDIA/dcgm-exporter reads three columns, `field, type, help`: a comma in a help text would be a fourth."""
    fields = [field for field, _, _ in COUNTERS]
    assert len(set(fields)) == len(fields)
    for line in counters_csv().splitlines():
        assert re.fullmatch(r"DCGM_(FI|EXP)_[A-Z0-9_]+, (gauge|counter|label), [^,]+", line)


def test_an_xid_code_is_not_a_counter():
    """It is the code of the last error: its increase means nothing."""
    kinds = {field: kind for field, kind, _ in COUNTERS}
    assert kinds["DCGM_FI_DEV_XID_ERRORS"] == "gauge"


def test_every_part_runs_on_gpu_nodes_alone_and_asks_for_what_it_needs():
    for pod in pod_specs(_all_manifests()):
        [*terms] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        keys = {term["matchExpressions"][0]["key"] for term in terms}
        assert keys == {"nvidia.com/gpu.present", "aliyun.accelerator/nvidia_count"}
        # A pool's own taints keep jobs away, not what announces and measures its GPUs; a simulated node has none.
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert all({"key": "athanor.dev/simulated", "operator": "DoesNotExist"} in t["matchExpressions"] for t in terms)
        assert "runtimeClassName" not in pod
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


@each_row(
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
    declared = {resource.name for resource in recording.objects()}
    assert declared == (parts | {"gpu-namespace"} if parts else set())
    assert component.outputs == {"parts": sorted(parts)}
    assert {resource.parent for resource in recording.objects()} <= {component.urn}


def test_the_namespace_stands_before_its_parts_and_a_configuration_before_its_pods():
    recording = _declared(device_plugin=True, dcgm_exporter=True)
    namespace = recording.one("gpu-namespace")
    assert namespace.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    for resource in recording.objects():
        if resource is not namespace:
            assert namespace.urn in recording.ancestors(resource)
            assert resource.inputs["metadata"]["namespace"] == NAMESPACE == namespace.inputs["metadata"]["name"]
    for part in ("nvidia-device-plugin", "dcgm-exporter"):
        assert recording.one(f"{part}-config").urn in recording.ancestors(recording.one(part))


def test_up_does_not_wait_for_gpu_nodes():
    recording = _declared(device_plugin=True, dcgm_exporter=True)
    for resource in recording.objects():
        waits = resource.kind in ("Namespace", "ConfigMap")
        assert ("pulumi.com/skipAwait" in resource.annotations) is not waits


def test_a_stack_has_what_its_settings_ask_for_before_its_workloads(record_stack):
    plain = record_stack(UNWATCHED)
    assert not [resource for resource in plain.objects() if resource.kind == "DaemonSet"]
    recording = record_stack({"gpu": {"device_plugin": True}, **UNWATCHED})
    plugin = recording.one("nvidia-device-plugin", "DaemonSet")
    assert plugin.urn in recording.ancestors(recording.one("digits-training", "Job"))
