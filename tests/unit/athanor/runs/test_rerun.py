"""Which jobs run again, as what, and that nothing is deleted that could not be created again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from athanor.inspection.reader import Asked
from athanor.runs import stack
from athanor.runs.rerun import output_folder, rerun
from athanor.runs.stack import DeclaredJob
from infra.errors import RefusalError

NAME = "train-1a2b3c4d"


def job(phase: str, uid: str = "u1") -> dict[str, Any]:
    container = {"name": "worker", "env": [{"name": "ATHANOR_JOB", "value": NAME}, {"name": "LR", "value": "0.1"}]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": NAME, "namespace": "team", "uid": uid, "labels": {"athanor.dev/job": "train"},
            "resourceVersion": "7", "managedFields": [{"manager": "pulumi-kubernetes-1", "operation": "Apply"}],
        },
        "spec": {"tasks": [{"template": {"spec": {"containers": [container]}}}]},
        "status": {"state": {"phase": phase}},
    }  # fmt: skip


class Cluster:
    """A namespace with one job, which is gone at the second look after it was deleted."""

    namespace, server = "team", "https://10.0.0.1:6443"

    def __init__(self, phase: str, forbidden: str = "") -> None:
        self.job: dict[str, Any] | None = job(phase)
        self.forbidden = forbidden
        self.calls: list[tuple[str, ...]] = []
        self.created: dict[str, Any] = {}
        self.asked = Asked(run=self.run, items=self.items, failure=RefusalError)

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        assert (kind, name) == ("jobs.batch.volcano.sh", NAME)
        return self.job

    def items(self, kind: str, namespace: str | None, selector: str = "") -> list[dict[str, Any]]:
        assert namespace == "team"
        return [self.job] if kind.startswith("jobs") and self.job and not selector else []

    def run(self, *words: str) -> str:
        self.calls.append(words)
        if words[0] == "auth" and words[2] == self.forbidden:
            raise RefusalError("kubectl", "auth can-i", "no", "-")
        if words[0] == "delete":
            self.job = None
        if words[0] in {"apply", "create"}:
            self.created = json.loads(Path(words[-1]).read_text(encoding="utf-8"))
        return json.dumps(self.job) if words[0] == "get" else ""


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def verbs(cluster: Cluster) -> list[str]:
    return [words[0] for words in cluster.calls]


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Aborted"])
def test_an_ended_run_is_created_again_by_its_owner(phase, tmp_path):
    cluster = Cluster(phase)
    assert rerun(cluster, "train", NAME, fresh=False, force=False) == NAME
    assert verbs(cluster) == ["auth", "auth", "get", "delete", "apply"]
    assert "--field-manager=pulumi-kubernetes-1" in cluster.calls[-1]
    before = job(phase)
    assert cluster.created["spec"] == before["spec"]
    assert cluster.created["metadata"] == {
        "name": NAME, "namespace": "team", "labels": {"athanor.dev/job": "train"},
    }  # fmt: skip
    assert not list((tmp_path / "athanor" / "reruns").iterdir())


def test_a_fresh_run_has_another_folder_and_nothing_else(capsys):
    cluster = Cluster("Completed")
    folder = rerun(cluster, "train", NAME, fresh=True, force=False)
    assert folder.startswith(f"{NAME}-")
    assert output_folder(cluster.created) == folder
    cluster.created["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"][0]["value"] = NAME
    assert cluster.created["spec"] == job("")["spec"]
    assert "kubectl create -f" in capsys.readouterr().err


def test_a_run_of_a_fresh_one_continues_there():
    cluster = Cluster("Completed")
    fresh = rerun(cluster, "train", NAME, fresh=True, force=False)
    cluster.job = {**cluster.created, "status": {"state": {"phase": "Failed"}}}
    cluster.job["metadata"]["uid"] = "u2"
    assert rerun(cluster, "train", NAME, fresh=False, force=False) == fresh


@pytest.mark.parametrize("phase", ["Running", "Pending", "Restarting"])
def test_a_run_that_has_not_ended_is_refused_unless_forced(phase):
    cluster = Cluster(phase)
    with pytest.raises(RefusalError, match=rf"run = 'train': is {phase}\. Fix: .*--force"):
        rerun(cluster, "train", NAME, fresh=False, force=False)
    assert cluster.calls == []
    rerun(cluster, "train", NAME, fresh=False, force=True)
    assert cluster.created


@pytest.mark.parametrize("verb", ["delete", "create"])
def test_who_may_not_create_it_again_deletes_nothing(verb):
    cluster = Cluster("Failed", forbidden=verb)
    with pytest.raises(RefusalError, match=f"not allowed to {verb} jobs there"):
        rerun(cluster, "train", NAME, fresh=False, force=False)
    assert "delete" not in verbs(cluster)


@pytest.fixture
def _state(monkeypatch):
    """What the run's stack has of its job."""
    declared = DeclaredJob(manifest=job(""), owner="pulumi-kubernetes-1", server="https://10.0.0.1:6443")
    monkeypatch.setattr(stack, "open_run", lambda run: run)
    monkeypatch.setattr(stack, "declared_job", lambda run, name: declared if (run, name) == ("train", NAME) else None)
    monkeypatch.setattr(
        stack, "outputs_of", lambda _: {"arguments": json.dumps({"kind": "PyTorchJob", "program": "a.py --lr 0.1"})}
    )


def gone() -> Cluster:
    cluster = Cluster("Completed")
    cluster.job = None
    return cluster


@pytest.mark.usefixtures("_state")
def test_a_job_that_is_gone_is_created_as_the_stack_has_it_by_its_owner(tmp_path):
    cluster = gone()
    assert rerun(cluster, "train", NAME, fresh=False, force=False) == NAME
    assert verbs(cluster) == ["auth", "apply"]
    assert "--field-manager=pulumi-kubernetes-1" in cluster.calls[-1]
    assert cluster.created["spec"] == job("")["spec"]
    assert "managedFields" not in cluster.created["metadata"]
    assert not list((tmp_path / "athanor" / "reruns").iterdir())
    fresh = gone()
    folder = rerun(fresh, "train", NAME, fresh=True, force=False)
    assert folder.startswith(f"{NAME}-")
    assert output_folder(fresh.created) == folder


@pytest.mark.usefixtures("_state")
def test_a_job_of_which_nothing_is_recorded_is_refused_with_the_command():
    with pytest.raises(
        RefusalError, match=r"has no record of one\. Fix: .*athanor run --name other --replace -- a\.py --lr"
    ):
        rerun(gone(), "other", NAME, fresh=False, force=False)


@pytest.mark.usefixtures("_state")
def test_a_job_is_not_created_in_another_cluster_than_it_was_in():
    cluster = gone()
    cluster.server = "https://10.0.0.2:6443"
    with pytest.raises(RefusalError, match=r"run = 'train': was started in the cluster at 10\.0\.0\.1:6443"):
        rerun(cluster, "train", NAME, fresh=False, force=False)
    assert cluster.calls == []


@pytest.mark.usefixtures("_state")
def test_who_may_not_create_a_job_that_is_gone_is_refused():
    cluster = gone()
    cluster.forbidden = "create"
    with pytest.raises(RefusalError, match="not allowed to create jobs there"):
        rerun(cluster, "train", NAME, fresh=False, force=False)
    assert verbs(cluster) == ["auth"]
