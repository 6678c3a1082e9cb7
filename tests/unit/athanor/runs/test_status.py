"""`athanor status`, with a kubectl that answers from the objects of a cluster, for a team with rights of its own."""

from __future__ import annotations

import json
import sys

import pytest

from athanor.command_line import main
from tests.unit.athanor.inspection.cluster_objects import NAMESPACE, gpu_node, gpu_spec, job, pods, queue, task

KUBECTL = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
with pathlib.Path("{folder}/calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")
if "view" in words:
    print(pathlib.Path("{folder}/view").read_text())
elif "configmap" in words:
    print(pathlib.Path("{folder}/contract").read_text())
else:
    cluster = json.loads(pathlib.Path("{folder}/cluster").read_text())
    kinds, everywhere = words[words.index("get") + 1].split(","), "--all-namespaces" in words
    place = "everywhere" if everywhere else "namespace"
    refused = [kind for kind in kinds if kind in cluster["forbidden"][place]]
    if refused:
        sys.exit("Error from server (Forbidden): %s is forbidden: User cannot list it" % refused[0])
    print(json.dumps({{"items": [each for kind in kinds for each in cluster["objects"].get(kind, [])]}}))
"""
TEAM = {"everywhere": ["pods", "queues.scheduling.volcano.sh", "nodes", "priorityclasses.scheduling.k8s.io"]}
"""What examples/team/access.yaml does not give."""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Put a kubectl on PATH that answers for a cluster; return what chooses the rights."""
    run = job("run", task("worker", 2, gpu_spec(4)), phase="Running")
    objects = {
        "jobs.batch.volcano.sh": ("Job", [run]), "pods": ("Pod", pods(run, "a10-0\x1b[2J")),
        "nodes": ("Node", [gpu_node("a10-0")]),
        "queues.scheduling.volcano.sh": ("Queue", [queue(capability={"nvidia.com/gpu": "16"})]),
    }  # fmt: skip
    typed = {name: [{**each, "kind": kind} for each in many] for name, (kind, many) in objects.items()}
    view = {
        "contexts": [{"name": "mine", "context": {"namespace": NAMESPACE}}],
        "clusters": [{"cluster": {"server": "https://c:6443"}}],
    }
    outputs = {
        "contract_version": 1, "namespace": NAMESPACE, "queue": "training", "data_claim": "data",
        "output_claim": "output", "trainer_image": "trainer:1",
    }  # fmt: skip
    contract = {"metadata": {"annotations": {"athanor.dev/outputs": json.dumps(outputs)}}}
    (tmp_path / "view").write_text(json.dumps(view), encoding="utf-8")
    (tmp_path / "contract").write_text(json.dumps(contract), encoding="utf-8")
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(KUBECTL.format(python=sys.executable, folder=tmp_path), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    def forbidding(**places: list[str]) -> None:
        forbidden = {"everywhere": [], "namespace": [], **places}
        (tmp_path / "cluster").write_text(json.dumps({"objects": typed, "forbidden": forbidden}), encoding="utf-8")

    forbidding()
    return forbidding


def test_it_shows_what_runs_where(cluster, tmp_path, capsys):
    cluster()
    assert main(["status"]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == "Jobs"
    assert lines[1].split() == ["JOB", "OBJECT", "KIND", "STATE", "RUNNING", "QUEUE", "PRIORITY", "RESTARTS", "AGE"]
    assert lines[2].split()[:6] == ["run", "run-0a1b2c3d", "PyTorchJob", "Running", "worker", "2/2"]
    assert "\x1b" not in said.out
    assert ["training", "nvidia.com/gpu", "8", "-", "-", "16"] in [line.split() for line in lines]
    assert said.err == ""
    assert len((tmp_path / "calls").read_text().splitlines()) == 4


def test_a_team_sees_its_own_and_which_right_is_missing(cluster, capsys):
    cluster(**TEAM)
    assert main(["status", "--namespace", NAMESPACE]) == 0
    said = capsys.readouterr()
    assert "run-0a1b2c3d-worker-1" in said.out
    assert ["training", "nvidia.com/gpu", "8", "-", "-", "-"] in [line.split() for line in said.out.splitlines()]
    assert said.err == (
        "Not displayed, because this user does not have the right to list pods of other namespaces, queues, nodes,"
        " priorityclasses.\n"
    )


def test_the_same_for_programs(cluster, capsys):
    cluster(**TEAM)
    assert main(["status", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["namespace"] == NAMESPACE
    [run] = said["jobs"]
    assert (run["job"], run["roles"]) == ("run", [{"role": "worker", "running": 2, "replicas": 2}])
    assert [each["pod"] for each in said["pods"]] == ["run-0a1b2c3d-worker-0", "run-0a1b2c3d-worker-1"]
    nothing = {"guaranteed": None, "deserved": None, "limit": None}
    assert said["gpus_by_queue"] == [{"queue": "training", "resource": "nvidia.com/gpu", "used": 8, **nothing}]
    assert said["gpus_by_node"][0]["used"] == 8
    assert said["gpus_by_node"][0]["pool"] is None
    assert said["unreadable"] == ["pods of other namespaces", "queues", "nodes", "priorityclasses"]


def test_what_may_not_be_read_of_the_namespace_is_null_for_programs(cluster, capsys):
    cluster(everywhere=TEAM["everywhere"], namespace=["pods", "deployments.apps", "services"])
    assert main(["status", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["services"], said["pods"], said["gpus_by_queue"]) == (None, None, [])
    assert said["jobs"][0]["roles"] == [{"role": "worker", "running": None, "replicas": 2}]


def test_a_cluster_that_does_not_answer_is_one_line(cluster, tmp_path, capsys):
    cluster()
    (tmp_path / "bin" / "kubectl").write_text("#!/bin/sh\necho 'Unable to connect to the server' >&2; exit 1\n")
    assert main(["status"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("athanor status: ")
    assert len(said.err.splitlines()) == 1
