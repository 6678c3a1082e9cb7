"""`athanor delete`: only where the run is, and what forgets a run whose cluster is gone."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from athanor.command_line import main
from athanor.dev import command as dev
from athanor.runs import command as module
from athanor.runs import stack
from athanor.runs.history import Seen
from athanor.runs.stack import drop
from infra.errors import RefusalError

RECORDED = {"job_name": "lr-1", "namespace": "team", "server": "10.0.0.2:6443"}


class Cluster:
    """The cluster of the user's kubeconfig: not the one of the run."""

    def __init__(self) -> None:
        self.server, self.namespace, self.job, self.answers = "https://10.0.0.1:6443", "own", None, True

    def within(self, namespace: str) -> Cluster:
        self.namespace = namespace
        return self

    def variables(self):
        return nullcontext({})

    def find(self, _kind: str, _name: str):
        if not self.answers:
            raise RefusalError("kubectl", "get jobs", "connection refused", "check the kubeconfig")
        return self.job


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def cluster(tmp_path, monkeypatch, done) -> Cluster:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    cluster = Cluster()
    monkeypatch.setattr(module.Cluster, "of", lambda _: cluster)
    for each in (stack, dev):
        monkeypatch.setattr(each, "open_run", lambda *_: "stack")
        monkeypatch.setattr(each, "outputs_of", lambda _: RECORDED)
        monkeypatch.setattr(each, "remove", lambda _: done.append("remove"))
    monkeypatch.setattr(stack, "drop", lambda _: done.append("drop"))
    Seen(outputs=RECORDED).keep("lr")
    return cluster


@pytest.mark.parametrize("words", [["delete", "lr"], ["dev", "--stop", "--name", "lr"]])
@pytest.mark.usefixtures("cluster")
def test_a_run_of_another_cluster_is_not_deleted_here(words, done, capsys):
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "run = 'lr': was started in the cluster at 10.0.0.2:6443, and this is the one at 10.0.0.1:6443" in said
    assert "Fix: name its cluster with --context or --kubeconfig; if its cluster is gone for good, `athanor" in said
    assert "`athanor delete lr --forget`" in said
    assert done == []
    assert Seen.last("lr")


def test_one_whose_job_is_here_is_deleted_whatever_the_address(cluster, done):
    cluster.job = {}
    assert main(["delete", "lr"]) == 0
    assert done == ["remove"]


def test_a_cluster_that_does_not_answer_keeps_the_run_and_the_refusal_says_what_forgets_it(cluster, done, capsys):
    cluster.server, cluster.answers = "https://10.0.0.2:6443", False
    assert main(["delete", "lr", "--json"]) == 1
    said = json.loads(capsys.readouterr().err)
    assert said["limit"] == "connection refused"
    assert said["fix"].startswith("check the kubeconfig; if its cluster is gone for good, `athanor delete lr --forget`")
    assert done == []


def test_a_run_is_forgotten_without_any_cluster_and_what_may_be_left_is_named(cluster, done, monkeypatch, capsys):
    del cluster
    monkeypatch.setattr(module.Cluster, "of", lambda _: pytest.fail("no kubeconfig has that cluster any more"))
    assert main(["delete", "lr", "--forget"]) == 0
    said = capsys.readouterr().err
    assert said == (
        "forgotten: run lr; nothing was deleted in a cluster; the one at 10.0.0.2:6443 may still have its job lr-1,"
        " with its pods, its code and its network policy, in namespace team, labelled athanor.dev/job=lr:"
        " kubectl delete jobs.batch.volcano.sh,networkpolicies,configmaps,secrets --namespace team"
        " --selector=athanor.dev/job=lr\n"
    )
    assert done == ["drop"]
    assert Seen.last("lr") is None
    assert main(["delete", "lr", "--forget", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"run": "lr", "job": "lr-1", "state": "forgotten"}


def test_a_run_that_was_never_started_left_nothing(cluster, monkeypatch, capsys):
    del cluster
    monkeypatch.setattr(stack, "outputs_of", lambda _: {})
    assert main(["delete", "lr", "--forget"]) == 0
    assert capsys.readouterr().err == "forgotten: run lr; nothing was deleted in a cluster\n"


def test_the_state_goes_although_it_has_objects():
    removed = []
    workspace = SimpleNamespace(remove_stack=lambda name, *, force: removed.append((name, force)))
    drop(SimpleNamespace(name="lr", workspace=workspace))  # pyright: ignore[reportArgumentType]
    assert removed == [("lr", True)]
