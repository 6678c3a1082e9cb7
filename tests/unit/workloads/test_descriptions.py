"""What no description may say: refused on creation, with the field, the value, the limit and the fix.

Whether this is all that must be refused is asked of an API server in tests/cluster/test_descriptions.py.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pulumi
import pytest

from infra.errors import RefusalError
from infra.kubernetes.grammar import MAXIMUM_WORD_BYTES
from infra.pod_network_modes import HostNetwork, TrunkEni
from infra.rdma import Rdma
from tests.fixtures.descriptions import KINDS, values_of
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import manifest_of, plain_platform, pod
from workloads.accelerators import GpuMemory, MigInstances, WholeGpus
from workloads.autoscaling import Autoscaling, PodsMetric
from workloads.batch import BatchJob, BatchJobArgs
from workloads.canary import Canary
from workloads.checks import check_name
from workloads.git_source import GitSource
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.mpi import MPIJobArgs
from workloads.network_benchmark import Measurement, NetworkBenchmarkArgs
from workloads.placement import Spread, Toleration
from workloads.pods import ClaimMount
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources
from workloads.roles import PodArgs
from workloads.tensorflow import ParameterServers, TensorFlowJob, TensorFlowJobArgs, tensorflow_shape
from workloads.topology import Together
from workloads.triton import Triton
from workloads.volcano_job import host

if TYPE_CHECKING:
    from collections.abc import Callable

HTTPS = "https://git.example/team/project.git"


def _pytorch(**changes: Any) -> PyTorchJobArgs:
    return PyTorchJobArgs(**{"program": ("train.py",), "workers": 2, **changes})


def _batch(**changes: Any) -> BatchJobArgs:
    return BatchJobArgs(**{"command": ("true",), **changes})


def _tensorflow(**changes: Any) -> TensorFlowJobArgs:
    return TensorFlowJobArgs(**{"program": ("train.py",), "workers": 2, **changes})


def _mpi(**changes: Any) -> MPIJobArgs:
    return MPIJobArgs(**{"program": ("train",), "workers": 2, **changes})


def _service(**changes: Any) -> TorchScriptServiceArgs:
    return TorchScriptServiceArgs(**{"model": "digits", **changes})


def _refused(make: Callable[[], object], *words: str) -> None:
    with pytest.raises(RefusalError) as caught:
        make()
    for word in (*words, ". Fix: "):
        assert word in str(caught.value), str(caught.value)


@each_row(
    ("make", "words"),
    [
        (lambda: _pytorch(workers="2"), ("workers = '2': must be a whole number", "write 2 without quotes")),
        (lambda: _pytorch(workers=True), ("workers = True: must be a whole number",)),
        (lambda: _pytorch(workers=1.5), ("workers = 1.5: must be a whole number",)),
        (lambda: _pytorch(workers=10**5000), ("workers = <int>: must be 1 to 1000",)),
        (lambda: _pytorch(workers=None), ("workers = None: must be a whole number",)),
        (lambda: _pytorch(max_restarts="3"), ("max_restarts = '3'", "write 3 without quotes")),
        (lambda: _pytorch(program=("train.py", 3)), ("program[1] = 3: must be a string", 'write "3"')),
        (lambda: _pytorch(program="train.py --epochs 3"), ("is a single string", "('train.py', '--epochs', '3')")),
        (lambda: _pytorch(prepare={"sh", "-c"}), ("prepare = ", "must be a sequence")),
        (lambda: _pytorch(labels={"team": 1}), ("labels['team'] = 1: must be a string", 'write "1"')),
        (lambda: _pytorch(labels=["team"]), ("labels = ['team']: must be a mapping",)),
        (lambda: _pytorch(env={"DEBUG": True}), ("env['DEBUG'] = True: must be a string", 'write "True"')),
        (lambda: _pytorch(env=[("A", "b")]), ("env = [('A', 'b')]: must be a mapping",)),
        (lambda: _pytorch(env=None), ("env = None: must be a mapping",)),
        (lambda: _pytorch(tolerations=("spot",)), ("tolerations[0] = 'spot': must be Toleration",)),
        (lambda: _pytorch(tolerations=Toleration(key="spot")), ("tolerations = ", "must be a sequence")),
        (lambda: _pytorch(resources={"cpu": "1"}), ("resources = {'cpu': '1'}: must be Resources",)),
        (lambda: _pytorch(network="host"), ("network = 'host': must be SharedEni or TrunkEni or",)),
        (lambda: _pytorch(rdma=True), ("rdma = True: must be Rdma",)),
        (lambda: _pytorch(image=3), ("image = 3: must be a string or",)),
        (lambda: _pytorch(source=HTTPS), ("source = ", "must be GitSource")),
        (lambda: _pytorch(workes=2), ("workes = 2: PyTorchJobArgs has no such field", "did you mean workers")),
        (lambda: PyTorchJobArgs(workers=2), ("PyTorchJobArgs = {'workers': 2}: lacks program", "program=…")),
        (lambda: PyTorchJobArgs(("train.py",), 2), ("only keyword arguments", "resources=…")),
        (lambda: _mpi(bind_to="cores"), ("bind_to = 'cores': must be 'none', 'core', 'numa' or 'socket'",)),
        (lambda: Resources(cpu=2), ("resources.cpu = 2: must be a string", 'write "2"')),
        (lambda: Resources(cpu=-1), ("resources.cpu = -1: must be a string", "write cores or millicores")),
        (lambda: Resources(memory=4), ("resources.memory = 4: must be a string", "write it with its unit: 4Gi")),
        (lambda: Resources(shared_memory=8), ("resources.shared_memory = 8", "write it with its unit: 8Gi")),
        (lambda: Resources(gpus=0.5), ("resources.gpus = 0.5: must be a whole number or WholeGpus or",)),
        (lambda: Resources(gpus="1"), ("resources.gpus = '1': must be", "write 1 without quotes")),
        (lambda: Resources(gpus=True), ("resources.gpus = True: must be",)),
        (lambda: WholeGpus(count="8"), ("resources.gpus.count = '8'",)),
        (lambda: MigInstances(profile=1), ("resources.gpus.profile = 1",)),
        (lambda: GpuMemory(gib=1.5), ("resources.gpus.gib = 1.5",)),
        (lambda: Spread(over="rack"), ("spread.over = 'rack': must be 'nodes' or 'zones'",)),
        (lambda: Spread(required="yes"), ("spread.required = 'yes': must be True or False",)),
        (lambda: Together(within="rack"), ("together.within = 'rack': must be 'pool' or 'zone'",)),
        (lambda: Toleration(key="spot", effect="NoRun"), ("tolerations.effect = 'NoRun': must be 'NoSchedule'",)),
        (lambda: TrunkEni(pod_networking=1), ("network.pod_networking = 1",)),
        (lambda: HostNetwork(port_offset="1"), ("network.port_offset = '1'",)),
        (lambda: Rdma(smc_r="yes"), ("rdma.smc_r = 'yes'",)),
        (lambda: ParameterServers(replicas="1"), ("parameter_servers.replicas = '1'",)),
        (lambda: GitSource(repository=1, branch="main"), ("source.repository = 1: must be a string",)),
        (lambda: _service(version="1"), ("version = '1'",)),
        (lambda: _service(model=1), ("model = 1: must be a string",)),
        (lambda: _service(runtime="triton"), ("runtime = 'triton': must be Thin or Triton",)),
        (lambda: Canary(version=1, percent=0.5), ("canary.percent = 0.5",)),
        (lambda: Autoscaling(maximum=2, targets=[4]), ("autoscaling.targets[0] = 4: must be CpuUtilisation",)),
        (lambda: PodsMetric(name="x", average=4), ("autoscaling.target.average = 4", 'write "4"')),
        (lambda: Triton(poll_seconds="5"), ("runtime.poll_seconds = '5'",)),
        (lambda: NetworkBenchmarkArgs(measurements=Measurement()), ("measurements = ", "must be a sequence")),
        (lambda: check_name("job name", 5), ("job name = 5: must be a string",)),
    ],
)
def test_a_value_of_another_type_is_refused(make, words):
    _refused(make, *words)


@each_row(
    ("make", "words"),
    [
        (lambda: _pytorch(image="my image:1"), ("image = 'my image:1': is not a valid image reference",)),
        (lambda: _pytorch(image="Team/Image:1"), ("image = 'Team/Image:1'", "lowercase")),
        (lambda: _pytorch(image=""), ("image = ''",)),
        (lambda: _service(image=" image:1"), ("image = ' image:1'",)),
        (lambda: _pytorch(queue="Research"), ("queue = 'Research'", "63")),
        (lambda: _pytorch(queue="q" * 64), ("queue = ", "63")),
        (lambda: _pytorch(priority_class="High!"), ("priority_class = 'High!'",)),
        (lambda: _pytorch(labels={"a..b/team": "x"}), ("labels = 'a..b/team': is not a valid Kubernetes label key",)),
        (lambda: _pytorch(labels={"a/b/c": "x"}), ("labels = 'a/b/c'",)),
        (lambda: _pytorch(labels={"": "x"}), ("labels = ''",)),
        (lambda: _pytorch(labels={"team": "x" * 64}), ("labels['team'] = ", "63")),
        (lambda: _pytorch(node_labels={"disk!": "x"}), ("node_labels = 'disk!'",)),
        (lambda: _pytorch(node_labels={"disk": "fast "}), ("node_labels['disk'] = 'fast '",)),
        (lambda: Toleration(key="spot!"), ("tolerations.key = 'spot!'",)),
        (
            lambda: Toleration(key="node-role.kubernetes.io/master"),
            ("tolerations.key = 'node-role.kubernetes.io/master'", "name a taint of other nodes"),
        ),
        (lambda: Toleration(key=""), ("tolerations.key = ''",)),
        (lambda: Toleration(key="spot", value="a b"), ("tolerations.value = 'a b'",)),
        (lambda: ClaimMount(claim="", path="/scratch"), ("volumes.claim = ''",)),
        (lambda: ClaimMount(claim="My Claim", path="/scratch"), ("volumes.claim = 'My Claim'",)),
        (lambda: TrunkEni(pod_networking="A"), ("network.pod_networking = 'A'",)),
        (lambda: HostNetwork(interface="eth 0"), ("network.interface = 'eth 0'",)),
        (lambda: HostNetwork(interface=""), ("network.interface = ''",)),
        (lambda: _pytorch(program=("train.py", "a\0b")), ("program[1] = 'a\\x00b'", "NUL")),
        (lambda: _pytorch(env={"A": "\ud800"}), ("env['A'] = ", "UTF-8")),
    ],
)
def test_text_that_kubernetes_does_not_take_is_refused(make, words):
    _refused(make, *words)


@each_row(
    ("make", "words"),
    [
        (lambda: Resources(memory="16"), ("resources.memory = '16'", "a number without a unit counts bytes", ": 16Gi")),
        (lambda: Resources(memory="100m"), ("resources.memory = '100m'",)),
        (lambda: Resources(shared_memory="0"), ("resources.shared_memory = '0'",)),
        (lambda: Resources(memory="9999999Ti"), ("resources.memory = ", "1024Ti")),
        (
            lambda: Resources(memory="1Gi", shared_memory="1025Mi"),
            ("resources.shared_memory = '1025Mi': is more than the pod's memory, 1Gi", "raise memory"),
        ),
        (lambda: _batch(resources=Resources(gpus=GpuMemory(gib=8))), ("resources.gpus = ", "whole GPUs")),
        (lambda: PodArgs(resources=Resources(gpus=GpuMemory(gib=8))), ("resources.gpus = ", "whole GPUs")),
        (lambda: _tensorflow(chief=PodArgs(env={"TF_CONFIG": "{}"})), ("chief.env = 'TF_CONFIG'", "job engine")),
        (lambda: _tensorflow(evaluator=PodArgs(env={"TF_CONFIG": "{}"})), ("evaluator.env = 'TF_CONFIG'",)),
        (
            lambda: _tensorflow(parameter_servers=ParameterServers(env={"TF_CONFIG": "{}"})),
            ("parameter_servers.env = 'TF_CONFIG'",),
        ),
        (lambda: _pytorch(env={"VC_TASK_INDEX": "0"}), ("env = 'VC_TASK_INDEX'", "job engine")),
        (
            lambda: _pytorch(env={"NVIDIA_VISIBLE_DEVICES": "all"}),
            ("env = 'NVIDIA_VISIBLE_DEVICES'", "those of other pods", "request GPUs"),
        ),
    ],
)
def test_what_would_do_nothing_or_something_else_is_refused(make, words):
    _refused(make, *words)


@each_row(
    "path",
    ["/proc", "/proc/self", "/sys", "/dev", "/dev/shm", "/etc", "/etc/volcano", "/etc/hosts", "/etc/passwd", "/opt",
     "/opt/athanor", "/usr", "/usr/bin", "/usr/local", "/lib", "/bin"],
)  # fmt: skip
def test_a_volume_cannot_hide_the_system(path):
    _refused(lambda: ClaimMount(claim="scratch", path=path), f"volumes.path = '{path}'", "already exists in every pod")


def test_other_paths_are_free():
    for path in ("/scratch", "/mnt/a", "/home/me", "/etc/mine", "/opt/data", "/usrlocal", "/processed", "/a...b"):
        ClaimMount(claim="my.claim", path=path)


def test_two_volumes_cannot_have_one_path():
    twice = tuple(ClaimMount(claim=claim, path="/scratch") for claim in ("a", "b"))
    _refused(lambda: _batch(volumes=twice), "volumes.path = '/scratch'", "two volumes")


def test_a_claim_that_is_mounted_twice_is_one_volume():
    volumes = tuple(ClaimMount(claim=claim, path=path) for claim, path in (("a", "/a"), ("b", "/b"), ("a", "/c")))
    args = _batch(volumes=volumes)
    spec = pod(manifest_of(args), "pod")
    claims = [
        each["persistentVolumeClaim"]["claimName"] for each in spec["volumes"] if each["name"].startswith("volume-")
    ]
    mounts = {each["mountPath"]: each["name"] for each in spec["containers"][0]["volumeMounts"]}
    assert claims == ["a", "b"]
    assert (mounts["/a"], mounts["/b"], mounts["/c"]) == ("volume-0", "volume-1", "volume-0")


def test_a_claim_that_every_pod_has_stays_one_volume():
    """Kubelet never finishes mounting one claim as two volumes."""
    volumes = (
        ClaimMount(claim="output", path="/results"),
        ClaimMount(claim="data", path="/samples", read_only=True),
        ClaimMount(claim="a", path="/a"),
    )
    args = _batch(volumes=volumes)
    spec = pod(manifest_of(args), "pod")
    names = {each["name"]: each.get("persistentVolumeClaim", {}).get("claimName") for each in spec["volumes"]}
    claims = [claim for claim in names.values() if claim]
    assert sorted(claims) == ["a", "data", "output"]
    mounts = {each["mountPath"]: each for each in spec["containers"][0]["volumeMounts"]}
    assert {path: names[mount["name"]] for path, mount in mounts.items() if names[mount["name"]]} == {
        "/data/data": "data", "/data/output": "output", "/results": "output", "/samples": "data", "/a": "a",
    }  # fmt: skip
    assert [mounts[path].get("readOnly", False) for path in ("/results", "/samples")] == [False, True]


@each_row(
    "repository",
    ["https://git.example:99999/a", "https://git.example:x/a", "https://git.example:0/a", "https://[::1/a",
     "https://git.example/a b", "https://git.example/a\n", "https://git.example/ä", "https://git.example/a#b"],
)  # fmt: skip
def test_an_address_that_nobody_can_reach_is_refused(repository):
    _refused(lambda: GitSource(repository=repository, branch="main"), "source.repository = ")


@each_row("repository", ["https://u:pa55@git.example:x/a", "https://u:pa55@[::1/a"])
def test_a_password_in_a_bad_address_is_not_repeated(repository):
    with pytest.raises(RefusalError) as caught:
        GitSource(repository=repository, branch="main")
    assert "pa55" not in str(caught.value)


@each_row("branch", ["a.lock", "a/b.lock/c", "a/", "a//b", "a/.b", "a.", "a b", "a~1"])
def test_a_branch_that_git_would_not_make_is_refused(branch):
    _refused(lambda: GitSource(repository=HTTPS, branch=branch), f"source.branch = '{branch}'", "git branch")


def _classes() -> list[type]:
    """Return the arguments of all kinds of jobs and services, and every description that can be part of them."""
    classes: dict[type, None] = {}
    waiting: list[Any] = list(KINDS.values())
    while waiting:
        hint = waiting.pop()
        waiting += get_args(hint)
        if dataclasses.is_dataclass(hint) and hint not in classes:
            classes[hint] = None
            waiting += get_type_hints(hint).values()
    return sorted(classes, key=lambda cls: cls.__name__)


@each_row("cls", _classes(), ids=lambda cls: cls.__name__)
def test_every_field_says_what_it_takes(cls):
    """Its annotation can be read, too: nothing in it is imported for type checkers alone."""
    for each in dataclasses.fields(cls):
        _refused(lambda name=each.name: cls(**{name: object()}), each.name)


@each_row("cls", _classes(), ids=lambda cls: cls.__name__)
def test_every_field_can_be_drawn(cls):
    """Else tests/cluster/test_descriptions.py would fail only when it happens to draw the field."""
    for each in dataclasses.fields(cls):
        values_of(cls, each.name).validate()


def test_what_kubernetes_takes_is_taken():
    GitSource(repository="https://git.example:8443/a", branch="feature/x.y", secret="my.secret")
    assert GitSource(HTTPS, branch="main") == GitSource(repository=HTTPS, branch="main")
    GitSource(repository="https://[2001:db8::1]:8443/a", tag="v1.0+locked")
    _pytorch(
        labels={"example.com/Team_A.b": "", "x" * 63: "y" * 63, "a" * 253 + "/b": "1"},
        env={"_A1": "", "PATH": "größe"},
        queue="team.research",
        priority_class="team.high",
        tolerations=[Toleration(key="example.com/spot", value="")],
    )


def test_shared_memory_fits_a_small_pod_by_itself():
    assert Resources().shared_memory_size == "256Mi"
    assert Resources(memory="128Mi").shared_memory_size == "128Mi"
    assert Resources(memory="512Mi", shared_memory="512Mi").shared_memory_size == "512Mi"


class TestOutputs:
    """Values that come from a resource are known only when the engine resolves them."""

    @pytest.mark.parametrize(
        ("changes", "words"), [({"image": "my image"}, "image = 'my image'"), ({"queue": "A"}, "queue = 'A'")]
    )
    def test_of_a_job_are_checked_when_they_are_known(self, changes, words):
        def program(values: dict[str, str]) -> None:
            outputs: dict[str, Any] = {name: pulumi.Output.from_input(value) for name, value in values.items()}
            PyTorchJob("train", plain_platform(), _pytorch(**outputs))

        job = record(lambda: program({"image": "own:1", "queue": "research"}), preview=False).one("train", "Job")
        assert job.inputs["spec"]["queue"] == "research"
        assert job.inputs["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] == "own:1"
        with pytest.raises(RefusalError, match=words):
            record(lambda: program(changes), preview=False)

    def test_of_a_service_are_checked_when_they_are_known(self):
        def program(image: str) -> None:
            TorchScriptService("digits", plain_platform(), _service(image=pulumi.Output.from_input(image)))

        assert record(lambda: program("own:1"), preview=False).one("digits", "Deployment")
        with pytest.raises(RefusalError, match="image = 'my image'"):
            record(lambda: program("my image"), preview=False)


class TestKernel:
    """What a node's kernel passes to a program: 128 KiB per variable or word, and not a byte more."""

    def test_a_variable_may_be_as_long_as_the_kernel_takes(self):
        longest = MAXIMUM_WORD_BYTES - len("A=")
        _pytorch(env={"A": "x" * longest})
        _refused(lambda: _pytorch(env={"A": "x" * (longest + 1)}), "env = ", "A has 131072 bytes", "131071")

    def test_a_word_may_be_as_long_as_the_kernel_takes(self):
        _pytorch(program=("train.py", "ä" * (MAXIMUM_WORD_BYTES // 2)))
        _refused(lambda: _pytorch(program=("x" * 2**17,)), "program[0] = 'xx", "131072 bytes")

    def test_a_refusal_repeats_no_file(self):
        with pytest.raises(RefusalError) as caught:
            _pytorch(env={"A": "x" * 2**20})
        assert len(str(caught.value)) < 600

    def test_tf_config_names_all_pods_of_a_job(self):
        args = _tensorflow(workers=1000, parameter_servers=ParameterServers(workers_per_server=1000))
        tensorflow_shape("n" * 49, args)
        many = dataclasses.replace(args, parameter_servers=ParameterServers(workers_per_server=4))
        tensorflow_shape("n", many)
        _refused(
            lambda: tensorflow_shape("n" * 49, many),
            "workers = 1000: TF_CONFIG lists all pods in ",
            "131071",
            "fewer workers",
        )

    def test_a_job_of_so_many_pods_is_refused_under_its_own_name(self):
        args = _tensorflow(workers=1000, parameter_servers=ParameterServers())
        with pytest.raises(RefusalError, match="TF_CONFIG"):
            record(lambda: TensorFlowJob("n" * 40, plain_platform(), args), preview=False)

    def test_the_job_engines_list_of_pods_fits_whatever_the_job(self):
        hosts = ",".join(host("n" * 49, "worker", index) for index in range(1000))
        assert len(f"VC_WORKER_HOSTS={hosts}") <= MAXIMUM_WORD_BYTES

    def test_a_job_must_fit_into_the_clusters_store(self):
        args = _batch(env={f"A{index}": "x" * 100_000 for index in range(20)})
        with pytest.raises(RefusalError, match="bytes") as caught:
            record(lambda: BatchJob("data", plain_platform(), args), preview=False)
        assert "data" in str(caught.value)
        assert len(json.dumps(str(caught.value))) < 600
