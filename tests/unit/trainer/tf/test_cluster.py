from __future__ import annotations

import json
import socket

import pytest

from tests.tables import each_row
from trainer.tf import cluster as clusters

pytestmark = pytest.mark.long

SPEC = {"worker": ["w0:2222", "w1:2222"], "chief": ["c:2222"], "ps": ["p0:2222", "p1:2222"]}


def config(role: str = "worker", index: object = 0, spec: object = None) -> str:
    return json.dumps({"cluster": spec or SPEC, "task": {"type": role, "index": index}})


@each_row(
    ("role", "index", "rank"),
    [("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2), ("ps", 1, 4), ("evaluator", 0, 5)],
)
def test_every_task_has_a_rank_and_the_chief_is_the_first(role, index, rank):
    cluster = clusters.parse(config(role, index))
    assert (cluster.rank, cluster.name) == (rank, f"{role} {index}")
    assert "evaluator" not in cluster.training_tasks


@each_row(
    ("text", "message"),
    [
        ("{", "Fix: "),
        ("[]", "Fix: "),
        ("{}", "KeyError"),
        ("[" * 100_000, "RecursionError"),
        (config("worker", 2), "task worker 2: the cluster has 2 of that role"),
        (config("worker", -1), "task worker -1"),
        (config("evaluator", 1), "task evaluator 1: the cluster has 1"),
        (config("worker", "x"), "Fix: "),
        (config("master"), "role 'master': must be one of chief, worker, ps, evaluator"),
        (config(spec={"worker": []}), "must be a list of addresses"),
        (config(spec={"worker": "w0:1"}), "must be a list of addresses"),
        (config(spec={"worker": ["w0"]}), "address 'w0' must be host:port"),
        (config(spec={"worker": ["w0:0"]}), "must be host:port"),
        (config(spec={"worker": ["w0:65536"]}), "must be host:port"),
        (config(spec={"worker": ["w0:²"]}), "must be host:port"),
    ],
)
def test_a_wrong_tf_config_is_refused_by_its_name(text, message):
    with pytest.raises(clusters.ClusterError, match=r"^TF_CONFIG") as caught:
        clusters.parse(text)
    assert message in str(caught.value)
    assert "Fix: " in str(caught.value)


def test_without_the_variable_there_is_no_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert clusters.from_environment() is None
    monkeypatch.setenv("TF_CONFIG", config())
    assert clusters.from_environment() == clusters.parse(config())


def test_a_name_that_never_resolves_is_reported_with_the_limit(monkeypatch):
    def unknown(*_arguments) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    message = (
        r"worker 0: after init_timeout_seconds=0\.1 3 tasks cannot be reached, "
        r"the last is ps 1 \(p1:2222\): Name or service not known. Fix: .*--init_timeout_seconds"
    )
    with pytest.raises(clusters.ClusterError, match=message):
        clusters.wait_for_names(clusters.parse(config()), ("chief", "ps"), seconds=0.1)


def test_names_that_resolve_at_the_third_try_are_waited_for(monkeypatch):
    tries: dict[str, int] = {}

    def slow(host: str, _port: int) -> list:
        tries[host] = tries.get(host, 0) + 1
        if host == "p1" and tries[host] < 3:
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    clusters.wait_for_names(clusters.parse(config()), ("chief", "worker", "ps"), seconds=60)
    # nobody asks for itself, and nobody twice who was found
    assert tries == {"c": 1, "w1": 1, "p0": 1, "p1": 3}


def test_a_server_is_there_when_it_accepts_connections():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        cluster = clusters.parse(config("chief", spec={"chief": ["127.0.0.1:9"], "ps": [address]}))
        clusters.wait_for_servers(cluster, ("ps",), seconds=60)
    with pytest.raises(clusters.ClusterError, match=rf"ps 0 \({address}\): Connection refused"):
        clusters.wait_for_servers(cluster, ("ps",), seconds=0.1)
