"""TensorFlowJob: roles, ratio, one image and one command for all of them, what follows when a pod is lost."""

from __future__ import annotations

import dataclasses

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.pod_network_modes import HostNetwork
from tests.pod_security import pod_specs
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import actions, environment, manifest_of, plain_platform, pod
from workloads.accelerators import GpuMemory
from workloads.resources import Resources
from workloads.roles import PodArgs
from workloads.tensorflow import ParameterServers, TensorFlowJob, TensorFlowJobArgs

MIRRORED = TensorFlowJobArgs(program=("python3", "-m", "my.train"), workers=2)
SERVED = dataclasses.replace(MIRRORED, parameter_servers=ParameterServers(replicas=1))


def _replicas(manifest) -> dict[str, int]:
    return {task["name"]: task["replicas"] for task in manifest["spec"]["tasks"]}


@each_row(
    ("changes", "words"),
    [
        ({"workers": 0}, ("workers = 0", "1 to 1000")),
        ({"program": ()}, ("program", "is empty")),
        ({"env": {"TF_CONFIG": "{}"}}, ("env = 'TF_CONFIG'", "job engine")),
        ({"resources": Resources(gpus=GpuMemory(gib=8))}, ("resources.gpus", "whole GPUs")),
        ({"chief": PodArgs(), "network": HostNetwork(port_offset=10)}, ("chief.network", "port 2222", "same network")),
    ],
)
def test_what_cannot_run_is_refused(changes, words):
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(MIRRORED, **changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@each_row(
    ("fields", "words"),
    [
        ({"replicas": 0}, ("parameter_servers.replicas = 0", "1 to 1000")),
        ({"workers_per_server": 0}, ("parameter_servers.workers_per_server = 0",)),
        ({"resources": Resources(gpus=1)}, ("parameter_servers.resources.gpus = 1", "CPU nodes")),
    ],
)
def test_parameter_servers_that_make_no_sense_are_refused(fields, words):
    with pytest.raises(RefusalError) as caught:
        ParameterServers(**fields)
    assert all(word in str(caught.value) for word in words)


def test_workers_mirror_each_other_by_default():
    manifest = manifest_of(MIRRORED)
    assert _replicas(manifest) == {"worker": 2}
    assert manifest["spec"]["minAvailable"] == 2


def test_parameter_servers_bring_a_chief():
    manifest = manifest_of(SERVED)
    assert _replicas(manifest) == {"ps": 1, "worker": 2, "chief": 1}
    assert manifest["spec"]["minAvailable"] == 4


def test_all_roles_run_one_image_and_one_command():
    args = dataclasses.replace(SERVED, evaluator=PodArgs())
    pods = list(pod_specs(manifest_of(args)))
    assert len(pods) == 4
    assert {(pod["containers"][0]["image"], tuple(pod["containers"][0]["args"])) for pod in pods} == {
        ("own:1", tuple(SERVED.program))
    }


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_there_are_as_many_servers_as_the_ratio_asks_for(workers, per_server):
    number = ParameterServers(workers_per_server=per_server).number(workers)
    assert (number - 1) * per_server < workers <= number * per_server


def test_the_plugin_writes_tf_config_for_these_roles():
    plugins = manifest_of(SERVED)["spec"]["plugins"]
    roles = [f"--{role}={role}" for role in ("ps", "worker", "chief", "evaluator")]
    assert plugins["tensorflow"] == [*roles, "--port=2222"]
    [port] = [port for port in pod(manifest_of(SERVED), "ps")["containers"][0]["ports"] if port["name"] == "cluster"]
    assert port["containerPort"] == 2222


def test_the_chiefs_end_is_the_jobs():
    """Workers and parameter servers wait for work forever."""
    manifest = manifest_of(SERVED)
    assert actions(manifest, "chief")["TaskCompleted"] == "CompleteJob"
    assert "TaskCompleted" not in actions(manifest, "worker")
    mirrored = manifest_of(dataclasses.replace(MIRRORED, evaluator=PodArgs()))
    assert actions(mirrored, "worker")["TaskCompleted"] == "CompleteJob"


def test_each_role_has_a_shape_and_a_place_of_its_own():
    args = dataclasses.replace(
        SERVED,
        resources=Resources(cpu="8", memory="64Gi", gpus=8),
        node_labels={"disk": "fast"},
        parameter_servers=ParameterServers(replicas=3, resources=Resources(cpu="2", memory="16Gi")),
    )
    manifest = manifest_of(args)
    [worker], [server] = pod(manifest, "worker")["containers"], pod(manifest, "ps")["containers"]
    assert worker["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": "8"}
    assert server["resources"]["limits"] == {"memory": "16Gi"}
    assert pod(manifest, "worker")["nodeSelector"] == {"disk": "fast"}
    assert "nodeSelector" not in pod(manifest, "ps")
    assert environment(manifest, "worker")["OMP_NUM_THREADS"] == "8"
    assert environment(manifest, "ps")["OMP_NUM_THREADS"] == "2"


def test_data_is_prepared_where_it_is_read():
    manifest = manifest_of(dataclasses.replace(SERVED, prepare=("python3", "-m", "my.data")))
    assert [step["name"] for step in pod(manifest, "worker")["initContainers"]] == ["prepare"]
    assert pod(manifest, "ps")["initContainers"] == []


def test_the_component_uses_the_platforms_tensorflow_image_and_describes_the_cluster():
    def program() -> None:
        job = TensorFlowJob("train", plain_platform(), SERVED)
        pulumi.export("cluster", job.cluster_spec)
        pulumi.export("name", job.job_name)
        pulumi.export("config", job.tf_config("chief", 0))

    recording = record(program, preview=False)
    name = recording.exports["name"]
    assert recording.exports["cluster"]["chief"] == [f"{name}-chief-0.{name}:2222"]
    assert '"task":{"type":"chief","index":0}' in recording.exports["config"]
    manifest = recording.one("train", "Job").inputs
    assert pod(manifest, "ps")["containers"][0]["image"] == "tensorflow:1"
    assert manifest["metadata"]["labels"]["athanor.dev/kind"] == "TensorFlowJob"
