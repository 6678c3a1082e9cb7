"""Code from git: what is refused, and what every pod of the job gets."""

from __future__ import annotations

import dataclasses

import pytest

from infra.errors import RefusalError
from tests.pod_security import violations
from tests.recording_engine import record
from tests.unit.workloads.job_cases import manifest_of, plain_platform, pod
from trainer.source.config import parse
from workloads.git_source import GitSource
from workloads.pytorch import PyTorchJob, PyTorchJobArgs, pytorch_shape

SOURCE = GitSource(repository="https://git.example/team/project.git", branch="main")
ARGS = PyTorchJobArgs(program=("train.py",), workers=2, source=SOURCE)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"branch": None}, ("source", "one of branch, tag and commit")),
        ({"tag": "v1"}, ("source", "one of branch, tag and commit")),
        ({"branch": None, "commit": "0123abc"}, ("source.commit = '0123abc'", "40")),
        ({"branch": "a..b"}, ("source.branch = 'a..b'",)),
        ({"branch": "--upload-pack=x"}, ("source.branch",)),
        ({"subdirectory": "../other"}, ("source.subdirectory = '../other'", "must lie in")),
        ({"subdirectory": "/etc"}, ("source.subdirectory = '/etc'",)),
        ({"repository": "git@git.example:team/project.git"}, ("source.repository", "https://")),
        ({"repository": "file:///etc"}, ("source.repository", "https://")),
        ({"repository": "https://git.example"}, ("source.repository", "https://")),
        ({"secret": "Not A Name"}, ("source.secret",)),
        ({"secret": "robot", "repository": "http://git.example/a.git"}, ("source.repository", "in clear", "https")),
        ({"repository": "https://git.example/a.git?token=1"}, ("source.repository", "without a query")),
    ],
)
def test_what_cannot_be_fetched_is_refused(fields, words):
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(SOURCE, **fields)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_credentials_in_an_address_are_refused_and_not_repeated():
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(SOURCE, repository="https://robot:hunter2@git.example/team/project.git")
    assert "hunter2" not in str(caught.value)
    assert "robot" not in str(caught.value)
    assert "basic-auth" in str(caught.value)


def _manifest(**changes: object):
    args = dataclasses.replace(ARGS, **changes)
    return manifest_of(args, lambda job_name: pytorch_shape(job_name, args))


def test_the_code_is_fetched_first_by_the_platforms_image_and_run_from_its_folder():
    manifest = _manifest(prepare=("python3", "prepare.py"))
    spec = pod(manifest, "worker")
    assert [step["name"] for step in spec["initContainers"]] == ["source", "prepare"]
    source, prepare = spec["initContainers"]
    [worker] = spec["containers"]
    assert (source["image"], prepare["image"], worker["image"]) == ("trainer:1", "own:1", "own:1")
    assert prepare["workingDir"] == worker["workingDir"] == "/source/code"
    seen = {mount["mountPath"]: mount.get("readOnly", False) for mount in worker["volumeMounts"]}
    assert seen["/source"] is True


@pytest.mark.parametrize(
    "reference", [{"branch": "main"}, {"branch": None, "tag": "v1.2"}, {"branch": None, "commit": COMMIT}]
)
def test_the_program_in_the_pod_understands_its_command(reference):
    source = dataclasses.replace(SOURCE, subdirectory="training", secret="git-robot", **reference)
    manifest = _manifest(source=source)
    [command] = [step["command"] for step in pod(manifest, "worker")["initContainers"]]
    assert command[:3] == ["python3", "-m", "trainer.source"]
    parse(command[3:])


def test_the_commit_is_written_beside_the_results_of_this_very_job():
    manifest = _manifest()
    [step] = pod(manifest, "worker")["initContainers"]
    assert f"--record=/data/output/{manifest['metadata']['name']}/source.json" in step["command"]


def test_only_the_fetching_step_sees_the_credentials():
    spec = pod(_manifest(source=dataclasses.replace(SOURCE, secret="git-robot")), "worker")
    holders = [
        container["name"]
        for container in [*spec["initContainers"], *spec["containers"]]
        if any(mount["name"] == "git-credentials" for mount in container["volumeMounts"])
    ]
    assert holders == ["source"]
    [volume] = [volume for volume in spec["volumes"] if volume["name"] == "git-credentials"]
    assert volume["secret"]["secretName"] == "git-robot"


def test_the_pods_are_admitted_at_restricted():
    assert violations(pod(_manifest(source=dataclasses.replace(SOURCE, secret="git-robot")), "worker")) == []


@pytest.mark.parametrize(
    ("repository", "port"),
    [
        ("https://git.example/a.git", 443),
        ("http://git.team.svc/a.git", 80),
        ("https://git.example:8443/a.git", 8443),
    ],
)
def test_the_network_is_opened_for_the_git_server_alone(repository, port):
    args = dataclasses.replace(ARGS, source=GitSource(repository=repository, branch="main"))
    recording = record(lambda: PyTorchJob("train", plain_platform(), args), preview=False)
    [policy] = recording.of_kind("NetworkPolicy")
    assert policy.inputs["spec"]["egress"][1:] == [{"ports": [{"protocol": "TCP", "port": port}]}]
    closed = record(
        lambda: PyTorchJob("train", plain_platform(), dataclasses.replace(ARGS, source=None)), preview=False
    )
    [policy] = closed.of_kind("NetworkPolicy")
    assert len(policy.inputs["spec"]["egress"]) == 1
