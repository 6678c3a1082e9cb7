"""The examples of docs/jobs.md declare what they say, on a platform that has what they ask for."""

from __future__ import annotations

import dataclasses

import pytest

from infra.offers import PlatformOffers
from infra.pools import pool_offers
from infra.settings.stack import Settings
from tests.documentation import job_examples, own_script
from tests.manifests.placement_cases import ACK
from tests.pod_security import pod_specs, violations
from tests.recording_engine import Recording, record
from tests.tables import each_row
from tests.unit.workloads.job_cases import plain_platform

EXAMPLES = job_examples()


@pytest.fixture(autouse=True)
def _folder_with_code(tmp_path, monkeypatch):
    (tmp_path / "my-code").mkdir()
    (tmp_path / "my-code" / "train.py").write_text(own_script(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def _record(code: str) -> Recording:
    def program() -> None:
        pools = pool_offers(Settings.model_validate(ACK))
        offers = PlatformOffers(pools=pools, pod_networkings=("training",))
        exec(code, {"platform": dataclasses.replace(plain_platform(), offers=offers)})

    return record(program, preview=False)


def test_there_is_one_for_every_kind_of_job():
    code = " ".join(example.code for example in EXAMPLES)
    for kind in ("PyTorchJob", "MPIJob", "TensorFlowJob", "BatchJob", "NetworkBenchmark"):
        assert f"{kind}(" in code
    for feature in ("minimum_workers=", "ParameterServers(", "GitSource(", "LocalFolder(", "Sweep("):
        assert feature in code


@each_row("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_it_declares_jobs_whose_pods_are_admitted(example):
    jobs = _record(example.code).of_kind("Job")
    assert jobs
    assert any(job.name.startswith(example.name) for job in jobs)
    for job in jobs:
        for pod in pod_specs(job.inputs):
            assert violations(pod) == []


def test_the_articles_command_renders():
    """ResNet-50 on two machines with eight GPUs each: 16 ranks, one per GPU, in one MPI world."""
    [example] = [example for example in EXAMPLES if example.name == "resnet50"]
    [job] = _record(example.code).of_kind("Job")
    launcher, worker = job.inputs["spec"]["tasks"]
    command = launcher["template"]["spec"]["containers"][0]["args"]
    assert command[4:7] == ["mpirun", "-np", "16"]
    assert worker["replicas"] == 2
    [container] = worker["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
    hosts = launcher["template"]["metadata"]["annotations"]["athanor.dev/hostfile"].splitlines()
    assert [line.split()[1] for line in hosts] == ["slots=8", "slots=8"]
