"""Where a copy goes, and the job whose pod mounts the volumes."""

from __future__ import annotations

import pytest

from athanor.runs.copy import Copy, job_manifest, remote_path, run_copy
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs

PLATFORM = PlatformOutputs(
    contract_version=1, namespace="team", queue="training", data_claim="d", output_claim="o", trainer_image="trainer:1"
)


def _folder_of(run: str) -> str:
    return f"{run}-bfc09d1c"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("data:cifar/train", "/data/data/cifar/train"),
        ("output:models", "/data/output/models"),
        ("train:model.pt", "/data/output/train-bfc09d1c/model.pt"),
        ("train:", "/data/output/train-bfc09d1c"),
        ("model.pt", None),
        ("./data:cifar", None),
        ("/tmp/data:cifar", None),
    ],
)
def test_a_path_is_in_a_volume_or_here(text, path):
    assert remote_path(text, _folder_of) == path


@pytest.mark.parametrize("text", ["data:/etc/passwd", "data:../output/x", "train:a/../../b"])
def test_nothing_leaves_a_volume(text):
    with pytest.raises(RefusalError, match="would leave the volume"):
        remote_path(text, _folder_of)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a", "b", "exactly one"),
        ("data:a", "output:b", "exactly one"),
        ("{here}/gone", "data:a", "does not exist"),
        ("data:{name}", "{above}", "exists"),
    ],
)
def test_what_cannot_be_copied_is_refused_before_a_pod_starts(tmp_path, source, target, message):
    names = {"here": tmp_path, "name": tmp_path.name, "above": tmp_path.parent}
    asked = Copy(source=source.format(**names), target=target.format(**names), replace=False)
    with pytest.raises(RefusalError, match=message):
        run_copy(None, PLATFORM, asked, _folder_of)


def test_the_pod_is_one_that_the_namespace_admits_and_ends_by_itself():
    [task] = job_manifest(PLATFORM)["spec"]["tasks"]
    spec = task["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["activeDeadlineSeconds"] == 6 * 3600
    mounts = {mount["name"]: mount.get("readOnly") for mount in spec["containers"][0]["volumeMounts"]}
    assert (mounts["data"], mounts["output"]) == (False, False)
