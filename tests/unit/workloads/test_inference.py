"""TorchScriptService: up without a model, ready with one, never without a server during a rollout."""

from __future__ import annotations

import dataclasses

import pytest

from infra.errors import RefusalError
from tests.fixtures.recorded_stack import UNWATCHED
from tests.pod_security import pod_specs, violations
from tests.tables import each_row
from tests.unit.workloads.job_cases import PLATFORM
from workloads.autoscaling import Autoscaling
from workloads.canary import Canary
from workloads.inference import TorchScriptServiceArgs
from workloads.placement import Spread
from workloads.resolved import ResolvedWorkload
from workloads.resources import Resources
from workloads.served_models import ServedModel
from workloads.service_objects import service_objects
from workloads.serving_pods import (
    GRPC_PORT,
    HTTP_PORT,
    SERVICE_METRICS_PORT,
    deployment_manifest,
    disruption_budget_manifest,
    serve_command,
    service_manifest,
    service_ports,
)
from workloads.triton import Thin, Triton

ARGS = TorchScriptServiceArgs(model="digits")
SEVERAL = {"model": None, "models": [ServedModel(model="a", cpu_threads=3, max_memory_mib=512), ServedModel(model="b")]}
RESOLVED = ResolvedWorkload(platform=PLATFORM, owner="athanor-local", image="trainer:1")


def _deployment(**changes: object):
    args = dataclasses.replace(ARGS, **changes)
    return deployment_manifest("service", args, args.tracks[0], RESOLVED)


def _container(**changes: object):
    [pod] = pod_specs(_deployment(**changes))
    [container] = pod["containers"]
    return container


def _flags(command: list[str]) -> dict[str, str]:
    return dict(word.removeprefix("--").split("=", 1) for word in command if word.startswith("--"))


@each_row(
    ("changes", "words"),
    [
        ({"model": "Digits"}, ("model = 'Digits'", "lowercase")),
        ({"model": ""}, ("model = ''", "lowercase")),
        ({"model": "../digits"}, ("model = '../digits'", "lowercase")),
        ({"replicas": -1}, ("replicas = -1", "0 to 1000")),
        ({"replicas": 1001}, ("replicas = 1001", "0 to 1000")),
        ({"version": 0}, ("version = 0", "1 to 1000000000")),
        ({"resources": Resources(gpus=1)}, ("resources.gpus = 1", "computes on CPUs", "runtime=Triton()")),
        ({"model": None}, ("model = None", "is missing", "models=[")),
        ({"models": [ServedModel(model="a")]}, ("model = 'digits'", "cannot be combined with models")),
        ({"model": None, "models": [ServedModel(model="a")]}, ("lists only one model", "write model='a'")),
        ({**SEVERAL, "models": [ServedModel(model="a")] * 2}, ("names a model twice", "name each once")),
        ({**SEVERAL, "version": 3}, ("version = 3", "models lists several", "ServedModel(model='a', version=3)")),
        ({**SEVERAL, "variant": "int8"}, ("variant = 'int8'", "ServedModel(model='a', variant='int8')")),
        (
            {**SEVERAL, "canary": Canary(version=2, percent=50), "version": 1, "replicas": 2},
            ("canary", "a service of its own"),
        ),
        (
            {**SEVERAL, "runtime": Triton(), "resources": Resources(gpus=1)},
            ("models", "thin runtime", "one service for each"),
        ),
        ({**SEVERAL, "resources": Resources(cpu="2")}, ("resources.cpu = '2'", "3 cpu_threads", "cpu='3'")),
        (
            {**SEVERAL, "resources": Resources(cpu="3", memory="1Gi")},
            ("resources.memory = '1Gi'", "less than 1152Mi", "memory='1152Mi'"),
        ),
        ({"grace_period_seconds": 9}, ("grace_period_seconds = 9", "10 to 3600")),
    ],
)
def test_what_cannot_run_is_refused(changes, words):
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(ARGS, **changes)
    assert all(word in str(caught.value) for word in words)


def test_pods_live_without_a_model_and_are_ready_with_it():
    container = _container()
    assert container["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"
    assert container["startupProbe"]["httpGet"]["path"] == "/v2/health/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/v2/models/digits/ready"


def test_pods_of_several_models_are_ready_with_all_of_them():
    container = _container(**SEVERAL, resources=Resources(cpu="3", memory="2Gi"))
    assert container["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"
    # one that is restarted does not take the others out of the Service
    assert container["readinessProbe"]["failureThreshold"] == 30


@each_row(
    "wrong", [{"version": 0}, {"max_queue_size": 0}, {"cpu_threads": 0}, {"max_memory_mib": 63}, {"model": "../a"}]
)
def test_a_served_model_has_limits_that_the_server_takes(wrong):
    with pytest.raises(RefusalError, match=next(iter(wrong))):
        ServedModel(**{"model": "a", **wrong})


def test_probes_and_service_reach_the_port_that_the_server_opens():
    container = _container()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    flags = _flags(container["command"])
    assert ports == {"http": int(flags["http_port"]), "metrics": int(flags["metrics_port"])}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    service = service_manifest("service", RESOLVED, service_ports(ARGS.runtime))["spec"]["ports"]
    assert (
        {port["targetPort"]: port["port"] for port in service}
        == ports
        == {"http": HTTP_PORT, "metrics": SERVICE_METRICS_PORT}
    )


def test_grpc_is_opened_everywhere_or_nowhere():
    args = dataclasses.replace(ARGS, runtime=Thin(grpc=True))
    container = _container(runtime=Thin(grpc=True))
    assert {"name": "grpc", "containerPort": GRPC_PORT} in container["ports"]
    assert _flags(container["command"])["grpc_port"] == str(GRPC_PORT)
    service = service_manifest("service", RESOLVED, service_ports(args.runtime))["spec"]["ports"]
    grpc = {"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc", "appProtocol": "kubernetes.io/h2c"}
    assert grpc in service
    assert GRPC_PORT in _opened_ports(args)
    assert "grpc_port" not in _flags(serve_command(ARGS))
    assert GRPC_PORT not in _opened_ports(ARGS)


def test_only_what_differs_from_the_servers_defaults_is_passed_on():
    default = {"log_requests", "slow_request_seconds"} & _flags(serve_command(ARGS)).keys()
    assert not default
    args = dataclasses.replace(ARGS, runtime=Thin(log_requests="all", slow_request_seconds=0.5))
    flags = _flags(serve_command(args))
    assert (flags["log_requests"], flags["slow_request_seconds"]) == ("all", "0.5")


@each_row("seconds", [0.0, -1.0, 3601.0, float("nan")])
def test_a_slow_request_takes_a_time_that_can_be(seconds):
    with pytest.raises(RefusalError, match=r"runtime\.slow_request_seconds"):
        Thin(slow_request_seconds=seconds)


def _opened_ports(args):
    [policy] = [each for each in service_objects("service", args) if each.kind[1] == "NetworkPolicy"]
    called = policy.build(RESOLVED)["spec"]["ingress"][0]
    return [port["port"] for port in called["ports"]]


def test_the_server_listens_beyond_its_own_pod():
    assert _flags(serve_command(ARGS))["host"] == "0.0.0.0"


@each_row("grace", [10, 30, 3600])
def test_draining_ends_before_the_pod_is_killed(grace):
    args = dataclasses.replace(ARGS, grace_period_seconds=grace)
    flags = _flags(serve_command(args))
    [pod] = pod_specs(_deployment(grace_period_seconds=grace))
    assert int(flags["drain_timeout_seconds"]) >= 1
    total = int(flags["drain_delay_seconds"]) + int(flags["drain_timeout_seconds"])
    assert total < pod["terminationGracePeriodSeconds"] == grace


def test_a_pinned_version_alone_makes_the_pods_ready():
    container = _container(version=4)
    assert _flags(container["command"])["model_version"] == "4"
    assert container["readinessProbe"]["httpGet"]["path"] == "/v2/models/digits/versions/4/ready"
    assert "model_version" not in _flags(_container()["command"])


@each_row(("cpu", "threads"), [("250m", "1"), ("4", "4")])
def test_the_server_starts_as_many_threads_as_it_asked_cores_for(cpu, threads):
    env = {entry["name"]: entry["value"] for entry in _container(resources=Resources(cpu=cpu))["env"]}
    assert env["OMP_NUM_THREADS"] == threads


def test_a_rollout_never_takes_the_last_server_away():
    strategy = _deployment()["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def test_no_rollout_is_given_up_while_the_model_is_trained():
    """2^31 - 1 s is the API's own limit; the default of 600 s would mark every long training as failed."""
    assert _deployment()["spec"]["progressDeadlineSeconds"] == 2147483647


def test_models_are_read_only():
    mounts = {mount["mountPath"]: mount.get("readOnly") for mount in _container()["volumeMounts"]}
    assert mounts["/data/output"] is True
    assert mounts["/data/data"] is True


def test_pods_are_admitted_at_restricted():
    for pod in pod_specs(_deployment(replicas=3)):
        assert violations(pod) == []


def test_service_deployment_and_budget_select_the_same_pods():
    deployment = _deployment()
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        service_manifest("service", RESOLVED, service_ports(ARGS.runtime))["spec"]["selector"],
        disruption_budget_manifest("service", RESOLVED)["spec"]["selector"]["matchLabels"],
    ]
    assert selectors[0] == selectors[1] == selectors[2]
    assert selectors[0].items() <= labels.items()


def test_pods_that_wait_for_their_model_do_not_keep_a_node_from_being_drained():
    budget = disruption_budget_manifest("service", RESOLVED)["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


@each_row(("replicas", "budgets"), [(0, []), (1, []), (2, [1])])
def test_a_budget_exists_only_where_it_can_hold(record_stack, replicas, budgets):
    """With one replica it would block every node drain forever."""
    recording = record_stack({"digits": {"replicas": replicas}, **UNWATCHED})
    assert recording.one("digits", "Deployment").inputs["spec"]["replicas"] == replicas
    assert [each.inputs["spec"]["maxUnavailable"] for each in recording.of_kind("PodDisruptionBudget")] == budgets


def test_the_url_names_the_service_that_is_declared(local_stack):
    service = local_stack.one("digits", "Service").inputs
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert local_stack.exports["digits_service_url"] == f"http://{name}.{namespace}.svc:{HTTP_PORT}"


@each_row(
    ("asked", "key"),
    [
        ({"replicas": 2}, "kubernetes.io/hostname"),
        ({"replicas": 2, "spread": Spread(over="zones")}, "topology.kubernetes.io/zone"),
        ({"autoscaling": Autoscaling(maximum=3)}, "kubernetes.io/hostname"),
    ],
)
def test_several_pods_are_spread(asked, key):
    [pod] = pod_specs(_deployment(**asked))
    [constraint] = pod["topologySpreadConstraints"]
    assert (constraint["topologyKey"], constraint["whenUnsatisfiable"]) == (key, "ScheduleAnyway")
    assert constraint["labelSelector"] == {"matchLabels": {"athanor.dev/service": "service"}}


def test_one_pod_is_not():
    [pod] = pod_specs(_deployment())
    assert "topologySpreadConstraints" not in pod
