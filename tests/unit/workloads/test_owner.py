"""Two workloads of one name: in one program refused or told apart, in two stacks never the same object."""

from __future__ import annotations

import importlib
import re
import string
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import workloads
from infra.errors import RefusalError
from tests.recording_engine import Recording, record
from tests.tables import each_row
from tests.unit.workloads.job_cases import plain_platform
from workloads.batch import BatchJob, BatchJobArgs
from workloads.canary import Canary
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.job import KINDS, Job
from workloads.mpi import MPIJob, MPIJobArgs
from workloads.owner import owner_label

if TYPE_CHECKING:
    from infra.platform import Platform

BATCH = BatchJobArgs(command=("true",))
SERVICE = TorchScriptServiceArgs(model="digits", replicas=2)
CANARY = TorchScriptServiceArgs(model="digits", replicas=2, version=1, canary=Canary(version=2, percent=50))
NAMES = st.text(alphabet=f"{string.ascii_letters}{string.digits}_.-", min_size=1, max_size=100)


def _job_and_service(stack: str = "local") -> Recording:
    def program() -> None:
        platform = plain_platform()
        BatchJob("same", platform, BATCH)
        TorchScriptService("same", platform, SERVICE)

    return record(program, preview=False, stack=stack)


def _objects(recording: Recording) -> set[tuple[str, str]]:
    return {(each.kind, each.inputs["metadata"]["name"]) for each in recording.objects()}


def test_a_job_and_a_service_may_be_called_alike():
    recording = _job_and_service()
    names = [policy.inputs["metadata"]["name"] for policy in recording.of_kind("NetworkPolicy")]
    assert len(set(names)) == len(names) == 2
    assert len(_objects(recording)) == len(recording.objects())


def test_jobs_and_policies_of_two_stacks_are_never_the_same_object():
    ours, theirs = _job_and_service(), _job_and_service("other")
    shared = _objects(ours) & _objects(theirs)
    # These have names that clients know: the label refuses the second stack.
    assert shared == {("Deployment", "same"), ("Service", "same"), ("PodDisruptionBudget", "same")}
    for kind, name in shared:
        labels = [recording.one(name, kind).inputs["metadata"]["labels"] for recording in (ours, theirs)]
        assert labels[0]["athanor.dev/owner"] != labels[1]["athanor.dev/owner"]


def test_a_policy_selects_the_pods_of_its_own_stack():
    recording = _job_and_service()
    [pods] = recording.one("same", "Job").inputs["spec"]["tasks"]
    [policy] = [
        each.inputs for each in recording.of_kind("NetworkPolicy") if each.inputs["metadata"]["name"][:3] == "job"
    ]
    selected = policy["spec"]["podSelector"]["matchLabels"]
    assert selected.items() <= pods["template"]["metadata"]["labels"].items()
    assert selected["athanor.dev/owner"] == owner_label("athanor", "local")


def _two_kinds_of_job(platform: Platform) -> None:
    BatchJob("same", platform, BATCH)
    MPIJob("same", platform, MPIJobArgs(program=("./train",), workers=2))


def _a_canary_and_its_namesake(platform: Platform) -> None:
    TorchScriptService("a", platform, CANARY)
    TorchScriptService("a-canary", platform, SERVICE)


@each_row(
    ("declare", "words"),
    [
        (_two_kinds_of_job, ("job name = 'same'", "the BatchJob 'same' already has this name", "the MPIJob 'same'")),
        (_a_canary_and_its_namesake, ("service name = 'a-canary'", "the service 'a' already has this name")),
    ],
)
def test_what_would_be_one_object_is_refused(declare, words):
    with pytest.raises(RefusalError) as caught:
        record(lambda: declare(plain_platform()), preview=True)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_job_of_another_kind_is_the_same_job_to_the_engine():
    """Else the new one would be created while the old one still holds the GPUs, and both share a policy's name."""
    as_batch = record(lambda: BatchJob("same", plain_platform(), BATCH), preview=False)
    as_mpi = record(
        lambda: MPIJob("same", plain_platform(), MPIJobArgs(program=("./train",), workers=2)), preview=False
    )
    [before], [now] = as_batch.of_type("athanor:workloads:BatchJob"), as_mpi.of_type("athanor:workloads:MPIJob")
    assert before.urn in now.aliases
    assert now.urn in before.aliases


def test_every_kind_of_job_takes_over_from_the_others():
    for module in ("batch", "mpi", "pytorch", "tensorflow"):
        importlib.import_module(f"{workloads.__name__}.{module}")
    assert sorted(kind.__name__ for kind in Job.__subclasses__()) == list(KINDS)


@given(NAMES, NAMES)
@example("_", ".")
def test_a_label_fits_whatever_the_names(project, stack):
    label = owner_label(project, stack)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", label)
    assert len(label) <= 63


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_two_stacks_have_two_labels(one, other):
    assert (owner_label(*one) == owner_label(*other)) is (one == other)
