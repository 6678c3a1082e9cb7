"""Code from git: what is refused, and what every pod of the job gets."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess

import pytest

from infra.errors import RefusalError
from infra.job_source import COMMIT_VARIABLE, SAME
from infra.kubernetes.quantities import quantity_value
from infra.settings.scheduling import ContainerDefaults
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import manifest_of, plain_platform, pod, task
from trainer.source import __main__ as program
from trainer.source.config import parse
from workloads.batch import BatchJobArgs
from workloads.git_source import GitSource
from workloads.owner import owner_label
from workloads.pytorch import PyTorchJob, PyTorchJobArgs

SOURCE = GitSource(repository="https://git.example/team/project.git", branch="main")
ARGS = PyTorchJobArgs(program=("train.py",), workers=2, source=SOURCE)
OWNER = owner_label("athanor", "local")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@each_row(
    ("fields", "words"),
    [
        ({"tag": "v1"}, ("source", "one of branch, tag and commit")),
        ({"branch": None, "commit": "0123abc"}, ("source.commit = '0123abc'", "40")),
        ({"branch": "a..b"}, ("source.branch = 'a..b'",)),
        ({"branch": "--upload-pack=x"}, ("source.branch",)),
        ({"subdirectory": "../other"}, ("source.subdirectory = '../other'", "must be inside")),
        ({"subdirectory": "/etc"}, ("source.subdirectory = '/etc'",)),
        ({"repository": "git@git.example:team/project.git"}, ("source.repository", "needs a key")),
        ({"repository": "ext::sh -c true"}, ("source.repository", "https://")),
        ({"repository": "robot:word@git.example:a.git"}, ("source.repository", "https://")),
        ({"repository": "../project"}, ("source.repository", "https://")),
        ({"branch": "refs/heads/main"}, ("source.branch", "without refs/")),
        ({"repository": "ssh://git@git.example/a.git"}, ("source.repository", "needs a key", "kubernetes.io/ssh-auth")),
        ({"repository": "ssh://git:word@git.example/a.git"}, ("ssh://…@git.example/a.git", "contains credentials")),
        ({"repository": "ssh://-oProxyCommand=x/a.git"}, ("source.repository", "ssh://git@<host>")),
        ({"repository": "ssh://a@-oProxyCommand=x/a.git"}, ("source.repository", "ssh://git@<host>")),
        ({"repository": "file:///etc"}, ("source.repository", "https://")),
        ({"repository": "https://git.example"}, ("source.repository", "https://")),
        ({"secret": "Not A Name"}, ("source.secret",)),
        (
            {"secret": "robot", "repository": "http://git.example/a.git"},
            ("source.repository", "in plain text", "https"),
        ),
        (
            {"secret": "robot", "repository": "HTTP://git.example/a.git"},
            ("source.repository", "in plain text", "https"),
        ),
        ({"secret": "robot", "repository": "http://[2001:db8::7]/a.git"}, ("in plain text", "https")),
        ({"repository": "FTP://git.example/a.git"}, ("must be an https, http or ssh address",)),
        ({"repository": "GIT://git.example/a.git"}, ("must be an https, http or ssh address",)),
        ({"repository": "https://git.example/a.git?token=1"}, ("source.repository", "without a query")),
        ({"repository": "http://169.254.169.254/a.git"}, ("'http://169.254.169.254/a.git'", "link-local addresses")),
        ({"repository": "https://100.100.100.200/a.git"}, ("the metadata of nodes on Alibaba Cloud",)),
        ({"repository": "http://127.0.0.1/a.git"}, ("leads to the pod itself",)),
        ({"repository": "http://LOCALHOST:8080/a.git"}, ("leads to the pod itself",)),
        ({"repository": "http://a.localhost/a.git"}, ("leads to the pod itself",)),
        ({"repository": "http://0.0.0.0/a.git"}, ("addresses that no host has",)),
        ({"repository": "http://metadata.google.internal./a.git"}, ("the metadata of nodes on other clouds",)),
        ({"repository": "http://[::1]/a.git"}, ("leads to the pod itself",)),
        ({"repository": "http://[::]/a.git"}, ("addresses that no host has",)),
        ({"repository": "http://[fe80::1%25eth0]/a.git"}, ("link-local addresses",)),
        ({"repository": "http://[fd00:ec2::254]/a.git"}, ("the metadata of nodes on other clouds",)),
        ({"repository": "http://[::ffff:169.254.169.254]/a.git"}, ("link-local addresses",)),
        ({"repository": "http://[64:ff9b::6464:64c8]/a.git"}, ("the metadata of nodes on Alibaba Cloud",)),
        ({"repository": "http://2852039166/a.git"}, ("the address 169.254.169.254 in another notation",)),
        ({"repository": "http://0xA9FEA9FE/a.git"}, ("the address 169.254.169.254", "write 169.254.169.254")),
        ({"repository": "http://0251.254.0xa9fe/a.git"}, ("the address 169.254.169.254",)),
        ({"repository": "http://127.1/a.git"}, ("the address 127.0.0.1",)),
        ({"repository": "http://169.254.169.254./a.git"}, ("the address 169.254.169.254",)),
        ({"secret": "robot", "repository": "http://3221225991/a.git"}, ("the address 192.0.2.7",)),
    ],
)
def test_what_cannot_be_fetched_is_refused(fields, words):
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(SOURCE, **fields)
    assert all(word in str(caught.value) for word in words), str(caught.value)


_PIECES = (
    "a", "b/", "/", ".", "..", "@", "{", "#", "&", "-", "~", "^", ":", "?", "*", "[", "\\", " ", ".lock", "é", "$(",
    "'", "\x7f",
)  # fmt: skip
_NAMES = {
    "fix/#12", "r&d/x", "a@b", "feature/größe", "v1.0-rc.1+build", "@", "HEAD", "-x", "a.lock/b", "😀", "a'b\"c",
}  # fmt: skip


def test_the_names_of_branches_are_those_that_git_takes(tmp_path):
    draw = random.Random(5)
    names = _NAMES | {"".join(draw.choices(_PIECES, k=draw.randint(1, 4))) for _ in range(250)}
    asked = "\0".join(sorted(names))
    one = 'git check-ref-format --branch "$0" >&2 && printf "%s\\0" "$0"; :'
    words = ["xargs", "-0", "-n1", "sh", "-c", one]
    said = subprocess.run(words, cwd=tmp_path, input=asked.encode(), capture_output=True, check=True).stdout.decode()
    of_git = set(said.split("\0")) - {"", "HEAD", "@"}  # these two are the current commit to `git branch`
    ours = {name for name in names if _is_taken({"branch": name})}
    assert ours == of_git
    # what the pod's program takes is no less
    for name in ours:
        assert parse(["--repository=https://a/b", "--destination=/x", f"--branch={name}"]).branch == name


def _is_taken(fields: dict[str, str | None]) -> bool:
    try:
        dataclasses.replace(SOURCE, **fields)
    except RefusalError:
        return False
    return True


@each_row(
    ("repository", "ports"),
    [
        ("https://git.example/a.git", [443]),
        ("https://git.example:8443/a.git/", [8443, 443]),
        ("http://git.example/a.git", [80, 443]),
        ("http://git.example:8080/a.git", [8080, 80, 443]),
        ("git@git.example:team/a.git", [22, 443]),
        ("git.example:/srv/a.git", [22, 443]),
        ("git@git.example:~/a b.git", None),
        ("ssh://git@git.example:2222/~/a.git", [2222, 443]),
        ("git+ssh://git.example/a.git", [22, 443]),
        ("Git+SSH://git.example/a.git", [22, 443]),
        ("HTTPS://git.example/a.git", [443]),
        ("ssh://git@10.1.2.3/a.git", [22, 443]),
        ("ssh://git.example:443/a.git", [443]),
        ("git://git.example/a.git", None),
    ],
)
def test_the_forms_of_an_address_and_the_ports_that_it_needs(repository, ports):
    secret = None if repository.lower().startswith("http") else "git-robot"
    if ports is None:
        assert not _is_taken({"repository": repository, "secret": secret})
        return
    rule = dataclasses.replace(SOURCE, repository=repository, secret=secret).server
    assert [each["port"] for each in rule["ports"]] == ports


def test_credentials_in_an_address_are_refused_and_not_repeated():
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(SOURCE, repository="https://robot:hunter2@git.example/team/project.git")
    assert "hunter2" not in str(caught.value)
    assert "robot" not in str(caught.value)
    assert "basic-auth" in str(caught.value)


def _in_a_pod(command: list[str]) -> list[str]:
    """The program's arguments as Kubernetes passes them on."""
    return [word.replace("$(ATHANOR_RUN)", "train-0a1b2c3d-0000-uid") for word in command[3:]]


def _manifest(**changes: object):
    args = dataclasses.replace(ARGS, **changes)
    return manifest_of(args)


def test_the_code_is_fetched_first_by_the_platforms_image_and_run_from_its_folder():
    manifest = _manifest(prepare=("python3", "prepare.py"))
    spec = pod(manifest, "worker")
    [fetching] = pod(manifest, "source")["containers"]
    assert (fetching["image"], "workingDir" in fetching) == ("trainer:1", False)
    assert [step["name"] for step in spec["initContainers"]] == ["source", "prepare"]
    source, prepare = spec["initContainers"]
    [worker] = spec["containers"]
    assert (source["image"], prepare["image"], worker["image"]) == ("trainer:1", "own:1", "own:1")
    assert prepare["workingDir"] == worker["workingDir"] == "/source/code"
    seen = {mount["mountPath"]: mount.get("readOnly", False) for mount in worker["volumeMounts"]}
    assert seen["/source"] is False, "programs write next to their code"


@each_row("reference", [{"branch": "main"}, {}, {"tag": "v1.2"}, {"commit": COMMIT}])
def test_the_program_in_the_pod_understands_its_command(reference):
    source = dataclasses.replace(SOURCE, subdirectory="training", secret="git-robot", **{"branch": None, **reference})
    manifest = _manifest(source=source)
    [fetches], [takes] = pod(manifest, "source")["containers"], pod(manifest, "worker")["initContainers"]
    for container in (fetches, takes):
        assert container["command"][:3] == ["python3", "-m", "trainer.source"]
    fetching, taking = (parse(_in_a_pod(container["command"])) for container in (fetches, takes))
    assert (fetching.take, taking.take) == (False, True)
    assert (fetching.store, fetching.record_of_run) == (taking.store, taking.record_of_run)
    assert taking.credentials_dir is None


def test_the_commit_is_written_next_to_the_results_of_this_very_job():
    manifest = _manifest()
    [step] = pod(manifest, "worker")["initContainers"]
    assert f"--record=/data/output/{manifest['metadata']['name']}/source.json" in step["command"]


def test_the_pods_of_one_run_agree_and_another_run_may_choose():
    manifest = _manifest()
    [fetches], [takes] = pod(manifest, "source")["containers"], pod(manifest, "worker")["initContainers"]
    for container in (fetches, takes):
        assert "--run=$(ATHANOR_RUN)" in container["command"]
        [run] = [each["valueFrom"] for each in container["env"] if each["name"] == "ATHANOR_RUN"]
        assert run == {"fieldRef": {"fieldPath": "metadata.annotations['scheduling.k8s.io/group-name']"}}
    [choice] = [each["valueFrom"] for each in fetches["env"] if each["name"] == COMMIT_VARIABLE]
    name = f"{manifest['metadata']['name']}-source"
    assert choice == {"configMapKeyRef": {"name": name, "key": "commit", "optional": True}}
    assert (COMMIT_VARIABLE, SAME) == (program.COMMIT_VARIABLE, program.SAME), "trainer/ imports nothing of ours"


def test_only_the_fetching_pod_sees_the_credentials():
    manifest = _manifest(source=dataclasses.replace(SOURCE, secret="git-robot"))
    [volume] = [each for each in pod(manifest, "source")["volumes"] if each["name"] == "git-credentials"]
    assert volume["secret"]["secretName"] == "git-robot"
    assert "git-robot" not in json.dumps(pod(manifest, "worker"))


@each_row("role", ["source", "worker"])
def test_the_code_and_tmp_of_a_pod_stay_below_the_limit_of_its_disk(role):
    """The limit counts emptyDirs; without one of its own a repository could fill the disk of the node."""
    empty = [volume["emptyDir"] for volume in pod(_manifest(), role)["volumes"] if "emptyDir" in volume]
    disks = [quantity_value(each["sizeLimit"]) for each in empty if each.get("medium") != "Memory"]
    assert len(disks) == 2
    assert sum(disks) < quantity_value(ContainerDefaults().ephemeral_storage)


def test_the_fetching_pod_belongs_to_the_gang():
    assert _manifest()["spec"]["minAvailable"] == 3


def test_a_batch_is_not_complete_without_its_last_pod():
    """The pod that fetches succeeds, too."""
    args = BatchJobArgs(command=("python3", "part.py"), pods=3, source=SOURCE)
    assert manifest_of(args)["spec"]["minSuccess"] == 4


def _policies(args: PyTorchJobArgs):
    recording = record(lambda: PyTorchJob("train", plain_platform(), args), preview=False)
    return {policy.name: policy.inputs["spec"] for policy in recording.of_kind("NetworkPolicy")}


_TEAM = {"matchLabels": {"kubernetes.io/metadata.name": "team"}}
_ANYWHERE = [
    {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16", "100.100.100.200/32"]}},
    {"namespaceSelector": {}},
]
_HTTPS = {"ports": [{"protocol": "TCP", "port": 443}]}


@each_row(
    ("repository", "opened"),
    [
        ("https://git.example/a.git", {**_HTTPS, "to": _ANYWHERE}),
        (
            "https://git.example:8443/a.git",
            {"to": _ANYWHERE, "ports": [{"protocol": "TCP", "port": each} for each in (8443, 443)]},
        ),
        ("https://192.0.2.7/a.git", {**_HTTPS, "to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}]}),
        ("https://[2001:db8::7]/a.git", {**_HTTPS, "to": [{"ipBlock": {"cidr": "2001:db8::7/128"}}]}),
        ("http://git/a.git", {"to": [{"podSelector": {}}]}),
        ("http://git.team.svc:8080/a.git", {"to": [{"podSelector": {}, "namespaceSelector": _TEAM}]}),
    ],
)
def test_only_the_fetching_pod_reaches_the_git_server(repository, opened):
    policies = _policies(dataclasses.replace(ARGS, source=GitSource(repository=repository, branch="main")))
    source = policies["train-source-network"]
    labels = task(_manifest(), "source")["template"]["metadata"]["labels"]
    workers = task(_manifest(), "worker")["template"]["metadata"]["labels"]
    selected = source["podSelector"]["matchLabels"].items()
    assert selected <= {**labels, "athanor.dev/job": "train", "athanor.dev/owner": OWNER}.items()
    assert not selected <= {**workers, "athanor.dev/job": "train", "athanor.dev/owner": OWNER}.items()
    assert source["egress"] == [opened]
    [own] = policies["train-network"]["egress"]
    assert own == {"to": [{"podSelector": {"matchLabels": {"athanor.dev/job": "train", "athanor.dev/owner": OWNER}}}]}


def test_without_code_from_git_nothing_is_opened():
    assert set(_policies(dataclasses.replace(ARGS, source=None))) == {"train-network"}
