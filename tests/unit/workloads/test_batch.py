"""BatchJob: independent pods that may write the input data."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.workloads.job_cases import environment, manifest_of, pod, task
from workloads.batch import BatchJobArgs
from workloads.local_folder import LocalFolder

ARGS = BatchJobArgs(command=("python3", "-m", "my.data", "--part=$(VC_TASK_INDEX)"), pods=3)


@each_row(
    ("changes", "words"),
    [
        ({"pods": 0}, ("pods = 0", "1 to 1000")),
        ({"command": ()}, ("command", "is empty")),
        ({"prepare": ("prepare",)}, ("prepare", "as part of the command")),
    ],
)
def test_what_cannot_run_is_refused(changes, words):
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(ARGS, **changes)
    assert all(word in str(caught.value) for word in words)


def test_any_pod_may_start_alone_and_all_must_succeed():
    spec = manifest_of(ARGS)["spec"]
    assert (spec["minAvailable"], spec["minSuccess"]) == (1, 3)
    pod_task = task(manifest_of(ARGS), "pod")
    assert (pod_task["replicas"], pod_task["minAvailable"]) == (3, 1)
    assert "policies" not in spec, "they would apply to pods that are taken away"


def test_the_input_data_is_writable_and_the_pod_knows_its_part():
    [container] = pod(manifest_of(ARGS), "pod")["containers"]
    seen = {mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
    assert seen["/data/data"] is False
    assert "--part=$(VC_TASK_INDEX)" in container["args"]
    assert environment(manifest_of(ARGS), "pod")["ATHANOR_PODS"] == "3"


def test_the_keys_of_secrets_are_variables_of_what_runs_the_users_code():
    folder = LocalFolder(path=str(Path(__file__).parent.parent / "athanor" / "run"))
    spec = pod(manifest_of(dataclasses.replace(ARGS, secrets=("wandb", "team.s3"), source=folder)), "pod")
    named = {each["name"]: each.get("envFrom") for each in (*spec["initContainers"], *spec["containers"])}
    references = [{"secretRef": {"name": "wandb"}}, {"secretRef": {"name": "team.s3"}}]
    assert named == {"unpack": None, "pod": references}
