"""kubectl always gets its cluster as an option, and nothing is left running after a port forward."""

import json
from pathlib import Path

import pytest

from tools.kubectl import Kubectl
from tools.process import CommandError

# Prints like kubectl, writes its own pid, then stays until it gets a signal.
_FORWARDER = """#!/bin/sh
echo "$$" > "{pid}"
echo "$@" > "{words}"
echo "Forwarding from 127.0.0.1:4711 -> 8000"
exec tail -f /dev/null
"""


def test_the_cluster_is_always_named(kubectl, fake_program, tmp_path):
    fake_program.answer("get nodes", "node")
    assert kubectl.run("get", "nodes") == "node"
    [call] = fake_program.calls
    assert call["words"] == [f"--kubeconfig={tmp_path / 'kubeconfig'}", "--context=athanor-local", "get", "nodes"]


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (("pods", "athanor", "app=a"), "get pods -n athanor -l app=a -o json"),
        (("pods", None), "get pods --all-namespaces -l  -o json"),
    ],
)
def test_objects_of_one_or_every_namespace_are_returned(kubectl, fake_program, question, asked):
    fake_program.answer(asked, json.dumps({"items": [{"kind": "Pod"}]}))
    assert kubectl.items(*question) == [{"kind": "Pod"}]


def test_an_unknown_kind_has_no_objects(kubectl, fake_program):
    """Volcano's kinds are unknown until the platform is installed."""
    fake_program.answer("get", stderr='error: the server doesn\'t have a resource type "jobs"', status=1)
    assert kubectl.items("jobs.batch.volcano.sh", "athanor") == []


def test_any_other_failure_is_raised(kubectl, fake_program):
    fake_program.answer("get", stderr="connection refused", status=1)
    with pytest.raises(CommandError, match="connection refused"):
        kubectl.items("pods", "athanor")


def _forwarder(tmp_path) -> Kubectl:
    program = tmp_path / "kubectl"
    program.write_text(_FORWARDER.format(pid=tmp_path / "pid", words=tmp_path / "words"))
    program.chmod(0o755)
    return Kubectl(program=program, kubeconfig=tmp_path / "kubeconfig", context="athanor-local")


def _runs(tmp_path) -> bool:
    return Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_forward_lives_as_long_as_its_block(tmp_path):
    with _forwarder(tmp_path).port_forward("service/digits", "athanor", 8000) as address:
        assert address == "127.0.0.1:4711"
        assert _runs(tmp_path)
    assert not _runs(tmp_path)
    words = (tmp_path / "words").read_text()
    assert "--address=127.0.0.1 service/digits :8000" in words


def test_a_failing_block_leaves_no_forward_behind(tmp_path):
    with pytest.raises(ZeroDivisionError), _forwarder(tmp_path).port_forward("service/digits", "athanor", 8000):
        _ = 1 / 0
    assert not _runs(tmp_path)


def test_a_forward_that_fails_says_why(kubectl, fake_program):
    fake_program.answer("port-forward", 'error: services "digits" not found\n', status=1)
    with pytest.raises(CommandError, match="not found"), kubectl.port_forward("service/digits", "athanor", 8000):
        pass
