"""What our device plugin's containers are given is what NVIDIA's own chart gives them.

The chart comes from the release's Go module, whose checksum device_plugin_chart/go.sum holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.gpu.device_plugin import device_plugin_manifests
from infra.gpu.nodes import NAMESPACE
from infra.gpu.sharing import device_plugin_config
from infra.images import DEVICE_PLUGIN_IMAGE
from infra.settings.gpu import ClusterGpuSettings, Mig, Mps, TimeSlicing
from infra.versions import NVIDIA_DEVICE_PLUGIN
from tests.fixtures.engine_project import EngineProject
from tests.pod_security import pod_specs
from tools.toolchain.go_command import Go
from tools.toolchain.go_sdk import find_go
from tools.toolchain.versions import go_version

MODULE = Path(__file__).parent / "device_plugin_chart"
SHARINGS = {
    "whole": None,
    "sliced": TimeSlicing(replicas=4),
    "mps": Mps(replicas=2),
    "mig": Mig(profile="1g.10gb"),
}
PROGRAM = """
import json
import pulumi
import pulumi_kubernetes as kubernetes

for name, values in json.load(open("values.json")).items():
    provider = kubernetes.Provider(name, render_yaml_to_directory=f"rendered-{name}")
    kubernetes.helm.v4.Chart(
        name,
        name="nvidia-device-plugin",
        chart="chart",
        namespace="gpu-system",
        values=values,
        opts=pulumi.ResourceOptions(provider=provider),
    )
"""


SETTINGS = {
    **{name: ClusterGpuSettings(device_plugin=True, sharing=sharing) for name, sharing in SHARINGS.items()},
    "mounts": ClusterGpuSettings(device_plugin=True, device_list="volume-mounts"),
    "variable": ClusterGpuSettings(device_plugin=True, device_list="envvar", runtime_class="nvidia"),
}


def _values(settings: ClusterGpuSettings) -> dict[str, Any]:
    config = device_plugin_config(settings.sharing)
    return {
        "migStrategy": config["flags"]["migStrategy"],
        "deviceListStrategy": settings.device_list,
        "config": {"map": {"default": yaml.safe_dump(config)}},
        # CDI describes the driver's files, which the plugin looks for where the chart mounts them for it.
        **({"nvidiaDriverRoot": "/"} if settings.device_list.startswith("cdi-") else {}),
        **({"runtimeClassName": settings.runtime_class} if settings.runtime_class else {}),
    }


@pytest.fixture(scope="module")
def charts(tmp_path_factory) -> dict[str, list[dict[str, Any]]]:
    """NVIDIA's chart rendered by the real provider, for each kind of sharing: its objects."""
    folder = tmp_path_factory.mktemp("chart")
    go = Go(program=find_go(go_version(MODULE / "go.mod"), None), log=folder / "go.log")
    module = go.module_folder(MODULE, "github.com/NVIDIA/k8s-device-plugin")
    project = EngineProject.create(folder / "project", PROGRAM, "kubernetes")
    (project.folder / "chart").symlink_to(module / "deployments" / "helm" / "nvidia-device-plugin")
    values = {name: _values(settings) for name, settings in SETTINGS.items()}
    (project.folder / "values.json").write_text(json.dumps(values))
    project.up()
    return {
        name: [
            yaml.safe_load(file.read_text()) for file in sorted((project.folder / f"rendered-{name}").rglob("*.yaml"))
        ]
        for name in SETTINGS
    }


def _containers(objects: Any) -> dict[tuple[str, ...], dict[str, Any]]:
    """Containers of DaemonSets by their command, with their mounts' sources written out."""
    containers = {}
    for pod in pod_specs(objects):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            mounts = {mount["mountPath"]: (mount, volumes[mount["name"]]) for mount in container["volumeMounts"]}
            containers[tuple(container["command"])] = {**container, "mounts": mounts, "pod": pod}
    return containers


def _variables(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in container.get("env", [])}


def test_the_version_is_the_one_that_we_deploy():
    assert f" v{NVIDIA_DEVICE_PLUGIN}\n" in (MODULE / "go.mod").read_text()


@pytest.mark.parametrize("name", SETTINGS)
def test_our_containers_are_those_of_the_chart(charts, name):
    theirs = _containers(charts[name])
    ours = _containers(list(device_plugin_manifests(DEVICE_PLUGIN_IMAGE, SETTINGS[name]).values()))
    assert ("nvidia-device-plugin",) in ours
    left_out = {("config-manager",)}
    if name != "mps":
        left_out |= {("mps-control-daemon",), ("mps-control-daemon", "mount-shm")}
    assert set(theirs) - set(ours) == left_out
    for command, own in ours.items():
        chart = theirs[command]
        assert own["image"] == chart["image"]
        assert own["securityContext"] == chart["securityContext"]
        variables = _variables(chart)
        # Ours is in the configuration file, which the chart's variable would only repeat.
        strategy = variables.pop("MIG_STRATEGY", None)
        assert strategy in (None, device_plugin_config(SETTINGS[name].sharing)["flags"]["migStrategy"])
        assert _variables(own) == variables


@pytest.mark.parametrize("name", SETTINGS)
def test_our_containers_see_the_same_folders_of_the_node(charts, name):
    theirs = _containers(charts[name])
    ours = _containers(list(device_plugin_manifests(DEVICE_PLUGIN_IMAGE, SETTINGS[name]).values()))
    for command, own in ours.items():
        chart = theirs[command]
        folders = {path: _folder(*pair) for path, pair in chart["mounts"].items() if _folder(*pair)}
        assert {path: _folder(*pair) for path, pair in own["mounts"].items() if _folder(*pair)} == folders
        # The configuration lies where the chart's manager would put it.
        assert ("/config" in own["mounts"]) == ("/config" in chart["mounts"])
        for key in ("hostPID", "hostIPC", "hostNetwork", "priorityClassName", "runtimeClassName"):
            assert own["pod"].get(key) == chart["pod"].get(key)


def _folder(mount: dict[str, Any], volume: dict[str, Any]) -> tuple[str, str | None] | None:
    path = volume.get("hostPath", {}).get("path")
    return (path, mount.get("mountPropagation")) if path else None


def test_the_plugin_runs_where_the_chart_runs_it(charts):
    [chart] = [
        o for o in charts["whole"] if o["kind"] == "DaemonSet" and o["metadata"]["name"] == "nvidia-device-plugin"
    ]
    assert chart["metadata"]["namespace"] == NAMESPACE
    ours = device_plugin_manifests(DEVICE_PLUGIN_IMAGE, SETTINGS["whole"])["nvidia-device-plugin"]
    [theirs_pod], [our_pod] = list(pod_specs(chart)), list(pod_specs(ours))
    # The chart's are two, of one key each: pools have taints of their own, and this one stands for all.
    assert {t["operator"] for t in theirs_pod["tolerations"]} == {"Exists"}
    assert our_pod["tolerations"] == [{"operator": "Exists"}]
    node = "requiredDuringSchedulingIgnoredDuringExecution"
    their_terms = theirs_pod["affinity"]["nodeAffinity"][node]["nodeSelectorTerms"]
    our_terms = our_pod["affinity"]["nodeAffinity"][node]["nodeSelectorTerms"]
    theirs = [expression for term in their_terms for expression in term["matchExpressions"]]
    assert [term for term in our_terms if term["matchExpressions"][0] in theirs]
