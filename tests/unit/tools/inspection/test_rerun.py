"""An ended job runs again through the engine, and nothing else is touched."""

from __future__ import annotations

import json

import pytest

from infra.errors import RefusalError
from tests.unit.tools.inspection.cluster_objects import NAMESPACE, job
from tools.inspection import rerun as module
from tools.inspection.rerun import job_resources, rerun
from tools.inspection.target import Target

URN = "urn:pulumi:local::athanor::athanor:workloads:PyTorchJob$kubernetes:batch.volcano.sh/v1alpha1:Job::my-run"


def entry(urn: str = URN, **more: object) -> dict[str, object]:
    metadata = job()["metadata"]
    inputs = {"metadata": {key: metadata[key] for key in ("name", "namespace", "labels")}}
    return {"urn": urn, "type": "kubernetes:batch.volcano.sh/v1alpha1:Job", "inputs": inputs, **more}


@pytest.fixture
def ask(monkeypatch, tmp_path, fake_program, kubectl, report):
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(module, "ensure", lambda names, _: dict.fromkeys(names, fake_program.path))
    monkeypatch.setattr(module, "upstream_manifests", lambda _: None)

    def ask(*jobs: object, name: str = "my-run", force: bool = False, stacks: tuple[str, ...] = ("local",)) -> str:
        fake_program.answer("stack ls", json.dumps([{"name": each} for each in stacks]))
        fake_program.answer("stack export", json.dumps({"deployment": {"resources": [entry()]}}))
        fake_program.answer("get jobs.batch.volcano.sh -n athanor", json.dumps({"items": jobs}))
        fake_program.answer("stack select")
        fake_program.answer("up --yes")
        target = Target(kubectl=kubectl, namespace=NAMESPACE, local=True)
        return rerun("local", name, target, report.progress, force=force)

    return ask


def ups(fake_program) -> list[str]:
    return [line for line in fake_program.lines if line.startswith("up ")]


@pytest.mark.parametrize("jobs", [[job(phase="Completed")], [job(phase="Failed")], []], ids=["done", "failed", "gone"])
def test_an_ended_job_is_replaced_alone(ask, fake_program, jobs):
    assert ask(*jobs) == "my-run-0a1b2c3d"
    [line] = ups(fake_program)
    assert line.startswith(f"up --yes --skip-preview --target-replace={URN} --target-dependents --stack local")


def test_a_job_that_runs_is_refused(ask, fake_program):
    with pytest.raises(RefusalError, match=r"is Running.*FORCE=1"):
        ask(job(phase="Running"))
    assert ups(fake_program) == []


def test_a_job_that_runs_can_be_forced(ask, fake_program):
    ask(job(phase="Running"), force=True)
    assert len(ups(fake_program)) == 1


def test_a_job_that_the_stack_does_not_have_names_the_near_ones(ask):
    with pytest.raises(RefusalError, match=r"no such job\. Fix: did you mean my-run"):
        ask(name="my-rnu")


def test_a_stack_that_is_not_there_is_told(ask):
    with pytest.raises(RefusalError, match="does not exist in this backend"):
        ask(stacks=("prod",))


def test_jobs_are_found_among_all_resources_by_their_names():
    other = {"urn": "urn:x::y::z::ns", "type": "kubernetes:core/v1:Namespace", "inputs": {}}
    unlabelled = {**entry(URN.replace("my-run", "plain")), "inputs": {"metadata": {"name": "plain-1"}}}
    state = {"deployment": {"resources": [other, entry(delete=True, id="old"), entry(), unlabelled]}}
    found = job_resources(state)
    assert sorted(found) == ["my-run", "plain"]
    assert "id" not in found["my-run"]
