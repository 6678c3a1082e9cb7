"""What holds for every kind of job: volumes, placement, waiting, queues and classes that the platform has."""

from __future__ import annotations

import dataclasses
import json

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.offers import PlatformOffers
from tests.pod_security import violations
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import environment, manifest_of, plain_platform, pod, task
from workloads.batch import BatchJob, BatchJobArgs
from workloads.git_source import GitSource
from workloads.mpi import MPIJobArgs
from workloads.placement import Spread, Toleration
from workloads.pods import ClaimMount
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources
from workloads.roles import PodArgs
from workloads.tensorflow import ParameterServers, TensorFlowJobArgs
from workloads.topology import Together

ARGS = PyTorchJobArgs(program=("train.py",), workers=4)
KNOWN = PlatformOffers(queues=("training", "research"), priority_classes=("athanor.low", "athanor.high"), topology=True)

OWN = {"athanor.dev/job": "job", "athanor.dev/owner": "athanor-local"}


def _worker(**changes: object):
    return pod(manifest_of(dataclasses.replace(ARGS, **changes)), "worker")


@each_row(
    ("changes", "words"),
    [
        ({"env": {"1ST": "x"}}, ("env = '1ST'", "not start with a digit")),
        ({"labels": {"athanor.dev/job": "x"}}, ("labels = 'athanor.dev/job'", "use your own prefix")),
        ({"deadline_seconds": 0}, ("deadline_seconds = 0",)),
        ({"wait_seconds": 0}, ("wait_seconds = 0", "1 to 86400")),
        ({"rerun": -1}, ("rerun = -1",)),
    ],
)
def test_what_cannot_be_is_refused(changes, words):
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(ARGS, **changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@each_row("path", ["scratch", "/", "/data", "/data/output/x", "/tmp", "/tmp/x", "/a/../b", "/dev"])
def test_a_volume_cannot_hide_what_every_pod_has(path):
    with pytest.raises(RefusalError, match=r"volumes\.path"):
        ClaimMount(claim="scratch", path=path)


def test_a_volume_of_the_users_own_is_mounted():
    spec = _worker(volumes=(ClaimMount(claim="cache", path="/cache", read_only=True),))
    [volume] = [each for each in spec["volumes"] if "persistentVolumeClaim" in each and each["name"] == "volume-0"]
    assert volume["persistentVolumeClaim"] == {"claimName": "cache"}
    assert {"name": "volume-0", "mountPath": "/cache", "readOnly": True} in spec["containers"][0]["volumeMounts"]


def test_pods_are_spread_against_those_of_their_own_role():
    spec = _worker(spread=Spread(over="zones", maximum_skew=2, required=True))
    assert spec["topologySpreadConstraints"] == [
        {
            "maxSkew": 2,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {**OWN, "athanor.dev/role": "worker"}},
        }
    ]
    labels = task(manifest_of(ARGS), "worker")["template"]["metadata"]["labels"]
    assert labels.items() >= {**OWN, "athanor.dev/role": "worker"}.items()


def test_pods_are_spread_over_nodes_as_far_as_that_holds_nothing_up():
    [constraint] = _worker(spread=Spread())["topologySpreadConstraints"]
    assert (constraint["topologyKey"], constraint["maxSkew"]) == ("kubernetes.io/hostname", 1)
    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"


def test_nodes_are_chosen_by_labels_and_taints_of_the_users_own():
    tolerations = (Toleration(key="team", value="vision", effect="NoSchedule"), Toleration(key="spot"))
    spec = _worker(node_labels={"disk": "fast"}, tolerations=tolerations)
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["tolerations"] == [
        {"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]


@each_row(
    ("together", "expected"),
    [
        (Together(), {"mode": "hard", "highestTierAllowed": 1}),
        (Together(within="zone", required=False), {"mode": "soft", "highestTierAllowed": 2}),
    ],
)
def test_pods_that_belong_together_say_so_to_volcano(together, expected):
    assert manifest_of(dataclasses.replace(ARGS, together=together))["spec"]["networkTopology"] == expected


def test_a_deadline_ends_the_pods():
    assert _worker(deadline_seconds=90)["activeDeadlineSeconds"] == 90
    assert "activeDeadlineSeconds" not in _worker()


def _recorded(offers: PlatformOffers | None = None, **changes: object):
    platform = plain_platform if offers is None else lambda: dataclasses.replace(plain_platform(), offers=offers)
    return record(lambda: PyTorchJob("train", platform(), dataclasses.replace(ARGS, **changes)), preview=False)


def test_labels_of_the_user_are_on_the_object_alone():
    job = _recorded(labels={"team": "vision"}).one("train", "Job").inputs
    assert job["metadata"]["labels"]["team"] == "vision"
    assert "team" not in job["spec"]["tasks"][0]["template"]["metadata"]["labels"]


def test_update_waits_only_on_request():
    assert "annotations" not in _recorded().one("train", "Job").inputs["metadata"]
    waiting = _recorded(wait_seconds=90).one("train", "Job")
    ends = ("Completed", "Failed", "Terminated", "Aborted")
    condition = " || ".join(f'@ == "{phase}"' for phase in ends)
    assert waiting.inputs["metadata"]["annotations"] == {
        "pulumi.com/waitFor": f"jsonpath={{.status.state[?({condition})]}}"
    }


def _awaited(phase: str, **changes: object):
    status = {"status": {"state": {"phase": phase}, "failed": 1}}
    args = dataclasses.replace(ARGS, **changes)
    return record(
        lambda: pulumi.export("name", PyTorchJob("train", plain_platform(), args).job_name),
        preview=False,
        outputs={"kubernetes:batch.volcano.sh/v1alpha1:Job": status},
    )


KUBECTL = """#!/bin/sh
case "$*" in
*"config view"*) echo '{{"contexts": [{{"name": "c", "context": {{}}}}], "clusters": [{{"cluster": {{"server": "https://c"}}}}]}}' ;;
*" logs "*) echo "2026-01-01T10:00:01Z ValueError: no data" ;;
*"get jobs.batch.volcano.sh {name}"*) echo '{job}' ;;
*) echo '{{"items": [{job}, {pod}]}}' ;;
esac
"""  # noqa: E501


def _kubectl(name: str, phase: str) -> str:
    """Return a kubectl of a cluster with a job that has failed and its pod."""
    labels = {"volcano.sh/job-name": name, "volcano.sh/task-spec": "worker"}
    ended = {"name": "worker", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
    pod = {
        "kind": "Pod", "metadata": {"name": f"{name}-worker-0", "labels": labels, "annotations": labels},
        "spec": {"containers": [{"name": "worker"}]}, "status": {"phase": "Failed", "containerStatuses": [ended]},
    }  # fmt: skip
    job = {
        "kind": "Job", "metadata": {"name": name}, "status": {"state": {"phase": phase}},
        "spec": {"tasks": [{"name": "worker", "replicas": 1, "template": {"spec": pod["spec"]}}]},
    }  # fmt: skip
    return KUBECTL.format(name=name, job=json.dumps(job), pod=json.dumps(pod))


@each_row("phase", ["Failed", "Terminated"])
def test_an_update_that_waits_fails_as_soon_as_the_job_has(phase, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    name = _awaited(phase).exports["name"]
    assert name.startswith("train-"), "nobody waits for it"
    assert _awaited("Completed", wait_seconds=90).exports["name"] == name
    (tmp_path / "kubectl").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (tmp_path / "kubectl").chmod(0o755)
    with pytest.raises(RefusalError, match=rf"failed, with 1 of its pods.*`athanor why {name} --namespace athanor`"):
        _awaited(phase, wait_seconds=90)
    (tmp_path / "kubectl").write_text(_kubectl(name, phase), encoding="utf-8")
    with pytest.raises(RefusalError) as caught:
        _awaited(phase, wait_seconds=90)
    assert "container worker of worker-0 failed (exit code 3)" in caught.value.limit
    assert caught.value.fix.splitlines()[1:] == [f"{name}-worker-0: ValueError: no data"]


@each_row(
    ("changes", "words"),
    [
        ({"queue": "trainning"}, ("queue = 'trainning'", "did you mean training?")),
        ({"priority_class": "hihg"}, ("priority_class = 'hihg'", "did you mean high?")),
    ],
)
def test_what_the_platform_does_not_have_is_refused(changes, words):
    with pytest.raises(RefusalError) as caught:
        _recorded(KNOWN, **changes)
    assert all(word in str(caught.value) for word in words)
    _recorded(**changes)  # where nothing is known, nothing can be refused


@each_row("asked", ["high", "athanor.high"])
def test_a_priority_class_goes_by_its_short_name(asked):
    job = _recorded(KNOWN, priority_class=asked).one("train", "Job").inputs
    assert job["spec"]["priorityClassName"] == "athanor.high"
    unknown = _recorded(priority_class=asked).one("train", "Job").inputs
    assert unknown["spec"]["priorityClassName"] == asked


def test_closeness_needs_a_platform_that_knows_its_topology():
    _recorded(KNOWN, together=Together())
    with pytest.raises(RefusalError, match="together"):
        _recorded(together=Together())


def test_a_platform_without_an_image_is_refused():
    args = BatchJobArgs(command=("true",))
    with pytest.raises(RefusalError, match="has no image"):
        record(lambda: BatchJob("data", dataclasses.replace(plain_platform(), trainer_image=""), args), preview=False)


@given(st.integers(1, 100), st.integers(1, 100))
def test_the_gang_is_what_the_roles_cannot_do_without(minimum, more):
    args = PyTorchJobArgs(program=("train.py",), workers=minimum + more, minimum_workers=minimum)
    spec = manifest_of(args)["spec"]
    assert spec["minAvailable"] == minimum + 1
    assert sum(each.get("minAvailable", each["replicas"]) for each in spec["tasks"]) == spec["minAvailable"]


class TestElastic:
    """A job that continues with the workers that are left."""

    ARGS = PyTorchJobArgs(program=("-m", "trainer.train"), workers=4, minimum_workers=2, image="own:1")

    def test_the_workers_meet_at_a_pod_that_trains_nothing(self):
        manifest = manifest_of(self.ARGS)
        name = manifest["metadata"]["name"]
        [worker], [store] = pod(manifest, "worker")["containers"], pod(manifest, "rendezvous")["containers"]
        assert "--nnodes=2:4" in worker["args"]
        assert f"--rdzv-endpoint={name}-rendezvous-0.{name}:29400" in worker["args"]
        assert store["command"] == ["python3", "-m", "trainer.rendezvous", "--port=29400"]
        assert store["image"] == "trainer:1", "the user's image may not hold it"

    def test_late_workers_can_join(self):
        assert environment(manifest_of(self.ARGS), "worker")["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"

    @pytest.mark.parametrize("minimum", [0, 5])
    def test_a_minimum_beyond_the_workers_is_refused(self, minimum):
        with pytest.raises(RefusalError, match=f"minimum_workers = {minimum}"):
            dataclasses.replace(self.ARGS, minimum_workers=minimum)


GIT = GitSource(repository="https://git.example/team/project.git", branch="main", secret="git-robot")
PREPARED = {"workers": 2, "prepare": ("prepare",)}
SERVED = {"parameter_servers": ParameterServers(replicas=1), "evaluator": PodArgs()}
GPUS = {"resources": Resources(gpus=8), "processes_per_worker": 8}


@each_row(
    ("args", "roles"),
    [
        (PyTorchJobArgs(program=("train.py",), **PREPARED, **GPUS), {"worker"}),
        (PyTorchJobArgs(program=("train.py",), workers=2, source=GIT), {"source", "worker"}),
        (TestElastic.ARGS, {"worker", "rendezvous"}),
        (TensorFlowJobArgs(program=("a",), **PREPARED, **SERVED), {"ps", "worker", "chief", "evaluator"}),
        (MPIJobArgs(program=("train",), **PREPARED), {"launcher", "worker"}),
        (BatchJobArgs(command=("true",)), {"pod"}),
    ],
    ids=["prepared", "code from git", "elastic", "TensorFlow", "MPI", "batch"],
)  # fmt: skip
def test_the_pods_of_all_kinds_are_admitted_at_restricted(args, roles):
    manifest = manifest_of(args)
    assert {each["name"] for each in manifest["spec"]["tasks"]} == roles
    assert [violations(pod(manifest, role)) for role in roles] == [[]] * len(roles)


def test_a_repetition_is_a_new_object_of_the_same_content():
    arguments = [BatchJobArgs(command=("true",)), BatchJobArgs(command=("true",), rerun=1)]
    once, again = (manifest_of(args) for args in arguments)
    names = once["metadata"]["name"], again["metadata"]["name"]
    assert names[0] != names[1]
    assert json.dumps(once["spec"]).replace(*names) == json.dumps(again["spec"])
