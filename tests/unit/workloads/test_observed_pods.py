"""What pods declare so that their metrics and log lines are found: ports, labels, environment."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from infra.monitoring.monitors import SERVING, TRAINING, MonitorsArgs, monitor_manifests
from infra.pod_network_modes import HostNetwork
from tests.tables import each_row
from tests.unit.infra.monitoring.relabeling import relabelled
from tests.unit.workloads.job_cases import SHAPES, environment, manifest_of, task
from tests.unit.workloads.serving import serve
from workloads.batch import BatchJobArgs
from workloads.mpi import MPIJobArgs
from workloads.pytorch import PyTorchJobArgs
from workloads.resources import Resources
from workloads.roles import PodArgs
from workloads.tensorflow import ParameterServers, TensorFlowJobArgs
from workloads.triton import Triton

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.manifests import Manifest
    from workloads.job_args import JobArgs

PYTORCH = PyTorchJobArgs(program=("-m", "trainer.train"), workers=2, processes_per_worker=3)
MPI = MPIJobArgs(program=("python3", "train.py"), workers=2, slots_per_worker=2)
TENSORFLOW = TensorFlowJobArgs(program=("python3", "-m", "my.train"), workers=2)
SERVED = dataclasses.replace(TENSORFLOW, parameter_servers=ParameterServers(replicas=1), evaluator=PodArgs())
LED = dataclasses.replace(TENSORFLOW, chief=PodArgs())
BATCH = BatchJobArgs(command=("python3", "-m", "my.data"), pods=1)


def template(args: JobArgs, role: str) -> Manifest:
    return task(manifest_of(args), role)["template"]


def metrics_ports(pod: Manifest) -> dict[str, int]:
    [container] = pod["spec"]["containers"]
    return {port["name"]: port["containerPort"] for port in container["ports"] if port["name"].startswith("metrics")}


@each_row(
    ("args", "ports"),
    [
        (PYTORCH, {"worker": {"metrics": 8002, "metrics-1": 8003, "metrics-2": 8004}}),
        (dataclasses.replace(PYTORCH, minimum_workers=1, processes_per_worker=1), {"worker": {"metrics": 8002}}),
        (
            dataclasses.replace(PYTORCH, processes_per_worker=2, network=HostNetwork(port_offset=10)),
            {"worker": {"metrics": 8012, "metrics-1": 8013}},
        ),
        (MPI, {"worker": {"metrics": 8002, "metrics-1": 8003}}),
        (TENSORFLOW, {"worker": {"metrics": 8002}}),
        (LED, {"worker": {"metrics": 8002}, "chief": {"metrics": 8002}}),
        (SERVED, {"chief": {"metrics": 8002}}),
        (BATCH, {}),
    ],
)
def test_every_rank_that_runs_steps_has_a_port(args, ports):
    manifest = manifest_of(args)
    ports_by_role = {each["name"]: metrics_ports(each["template"]) for each in manifest["spec"]["tasks"]}
    assert {role: names for role, names in ports_by_role.items() if names} == ports
    for role, names in ports.items():
        if not isinstance(args, MPIJobArgs):
            assert environment(manifest, role)["ATHANOR_METRICS_PORT"] == str(names["metrics"])
    shape = SHAPES[type(args)]("job", args)
    assert shape.metrics_ports == sorted({number for names in ports.values() for number in names.values()})


@each_row("args", [PYTORCH, MPI, SERVED, BATCH])
def test_all_programs_of_a_job_write_lines_for_a_store(args):
    manifest = manifest_of(args)
    for each in manifest["spec"]["tasks"]:
        assert environment(manifest, each["name"])["ATHANOR_LOG_FORMAT"] == "json"


def test_text_is_logged_on_request():
    manifest = manifest_of(dataclasses.replace(PYTORCH, env={"ATHANOR_LOG_FORMAT": "text"}))
    assert environment(manifest, "worker")["ATHANOR_LOG_FORMAT"] == "text"


def target(pod: Manifest, port: str, **more: str) -> dict[str, str]:
    """Return what Prometheus knows of a pod; `more` are the labels that the cluster adds."""
    labels: Mapping[str, str] = {**pod["metadata"]["labels"], **more}
    escaped = {name.replace(".", "_").replace("/", "_").replace("-", "_"): value for name, value in labels.items()}
    return {
        "__meta_kubernetes_pod_container_port_name": port,
        "__meta_kubernetes_pod_node_name": "node-1",
        **{f"__meta_kubernetes_pod_label_{name}": value for name, value in escaped.items()},
    }


def read(monitor: str, pod: Manifest, **more: str) -> list[dict[str, str]]:
    """Return the labels of a monitor's targets for a pod."""
    spec = monitor_manifests(MonitorsArgs(kind="operator", workloads_namespace="team"))[monitor]["spec"]
    [expression] = spec["selector"]["matchExpressions"]
    if expression["key"] not in pod["metadata"]["labels"]:
        return []
    ports = [port["name"] for port in pod["spec"]["containers"][0]["ports"]]
    [endpoint] = spec["podMetricsEndpoints"]
    relabelled_targets = [relabelled(endpoint["relabelings"], target(pod, port, **more)) for port in ports]
    return [
        {name: text for name, text in each.items() if not name.startswith("__")} for each in relabelled_targets if each
    ]


@each_row(
    ("args", "role", "kind", "targets"),
    [
        (PYTORCH, "worker", "pytorch", 3),
        (MPI, "worker", "mpi", 2),
        (MPI, "launcher", "mpi", 0),
        (TENSORFLOW, "worker", "tensorflow", 1),
        (SERVED, "ps", "tensorflow", 0),
    ],
)
def test_prometheus_finds_every_rank_and_its_workload(args, role, kind, targets):
    pod = template(args, role)
    assert pod["metadata"]["labels"]["athanor.dev/kind"] == kind
    # The job engine puts the queue on the pods.
    scraped = read(TRAINING, pod, **{"volcano.sh/queue-name": "research"})
    expected = {"job": "training", "workload": "job", "kind": kind, "role": role, "queue": "research", "node": "node-1"}
    assert scraped == [expected] * targets
    assert read(SERVING, pod) == []


@each_row("changes", [{}, {"runtime": Triton(), "resources": Resources(gpus=1)}])
def test_prometheus_finds_every_server(changes):
    [deployment] = serve(**changes).of_kind("Deployment")
    pod = deployment.inputs["spec"]["template"]
    expected = {"job": "serving", "workload": "digits", "kind": "service", "role": "server", "node": "node-1"}
    assert read(SERVING, pod) == [expected]
    assert read(TRAINING, pod) == []


def test_a_server_writes_lines_for_a_store():
    [deployment] = serve().of_kind("Deployment")
    [container] = deployment.inputs["spec"]["template"]["spec"]["containers"]
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    assert (variables["ATHANOR_LOG_FORMAT"], variables["ATHANOR_JOB"]) == ("json", "digits")
