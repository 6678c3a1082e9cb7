"""Which cluster and platform a command means, with a kubectl that answers from files."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from athanor.command_line import parser
from athanor.runs import cluster, reach
from athanor.runs.cluster import Cluster
from infra.contract_object import CONTRACT_OBJECT, read_contract
from infra.errors import RefusalError
from tests.tables import each_row

VIEW = {
    "contexts": [{"name": "mine", "context": {"namespace": "team"}}],
    "clusters": [{"cluster": {"server": "https://c:6443"}}],
}
OUTPUTS = {
    "contract_version": 1, "namespace": "team", "queue": "training", "data_claim": "data", "output_claim": "output",
    "trainer_image": "trainer:1",
}  # fmt: skip
KUBECTL = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$*" in
    *--all-namespaces*) cat {folder}/everywhere ;;
    *"get configmap "*) cat {folder}/here ;;
    *--raw*) cat {folder}/raw ;;
    *"config view"*) cat {folder}/view ;;
    *) echo 'Error from server (Forbidden): not you' >&2; exit 1 ;;
esac
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "kubectl").write_text(KUBECTL.format(folder=tmp_path), encoding="utf-8")
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "view").write_text(json.dumps(VIEW), encoding="utf-8")
    (tmp_path / "here").touch()
    (tmp_path / "raw").write_text(json.dumps({"users": [{"name": "me", "user": {"token": "t"}}]}), encoding="utf-8")
    (tmp_path / "everywhere").write_text(json.dumps({"items": []}), encoding="utf-8")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def _cluster(**given: str) -> Cluster:
    return Cluster.of(argparse.Namespace(**{"kubeconfig": None, "context": None, "namespace": None, **given}))


def _contract(namespace: str) -> dict:
    return {
        "metadata": {
            "name": CONTRACT_OBJECT,
            "namespace": namespace,
            "annotations": {"athanor.dev/outputs": json.dumps({**OUTPUTS, "namespace": namespace})},
        },
    }


def test_the_context_gives_the_namespace_unless_one_is_named(folder):
    assert (_cluster().namespace, _cluster().server) == ("team", "https://c:6443")
    assert _cluster(namespace="other").namespace == "other"
    assert "--kubeconfig=here --context=mine config view" in _called(folder, kubeconfig="here", context="mine")


def _called(folder, **given: str) -> str:
    _cluster(**given)
    return (folder / "calls").read_text(encoding="utf-8")


def test_the_platform_of_the_namespace_is_the_first_choice(folder):
    (folder / "here").write_text(json.dumps(_contract("team")), encoding="utf-8")
    assert _cluster().platform().namespace == "team"


def test_the_only_platform_of_a_cluster_is_used_and_of_several_one_must_be_named(folder):
    said = rf"namespace = 'team': has no platform \(a ConfigMap {CONTRACT_OBJECT}\)\. Fix"
    with pytest.raises(RefusalError, match=said):
        _cluster().platform()
    (folder / "everywhere").write_text(json.dumps({"items": [_contract("athanor")]}), encoding="utf-8")
    assert _cluster().platform().namespace == "athanor"
    (folder / "everywhere").write_text(json.dumps({"items": [_contract("a"), _contract("b")]}), encoding="utf-8")
    with pytest.raises(RefusalError, match="but a, b have"):
        _cluster().platform()


def test_a_namespace_that_is_typed_has_a_platform_or_is_refused(folder):
    (folder / "everywhere").write_text(json.dumps({"items": [_contract("athanor")]}), encoding="utf-8")
    with pytest.raises(RefusalError) as refusal:
        _cluster(namespace="team-b").platform()
    said = f"--namespace = 'team-b': has no platform (a ConfigMap {CONTRACT_OBJECT}), but athanor has. Fix: write"
    assert f"{said} --namespace athanor" in str(refusal.value)
    (folder / "here").write_text(json.dumps(_contract("team-b")), encoding="utf-8")
    assert _cluster(namespace="team-b").platform().namespace == "team-b"


@pytest.mark.usefixtures("folder")
@each_row(
    ("words", "has_option"),
    [("runs", False), ("status", False), ("copy a data:b", True), ("tensorboard a", True), ("run -- a", True),
     ("dev", True), ("sweep", True)],
)  # fmt: skip
def test_only_options_that_a_command_has_are_named(words, has_option):
    with pytest.raises(RefusalError) as refusal:
        Cluster.of(parser().parse_args(words.split())).platform()
    assert "name the workloads' namespace with --namespace" in refusal.value.fix
    assert ("--platform" in refusal.value.fix) is has_option


def test_an_object_without_outputs_is_refused():
    with pytest.raises(RefusalError, match="does not hold a platform's outputs"):
        read_contract({"data": {}}, "team")


def test_a_platform_that_describes_itself_in_another_namespace_is_refused(folder):
    elsewhere = _contract("kube-system")
    elsewhere["metadata"]["namespace"] = "team"
    said = r"namespace = 'kube-system': says so in the namespace 'team'"
    (folder / "everywhere").write_text(json.dumps({"items": [elsewhere]}), encoding="utf-8")
    with pytest.raises(RefusalError, match=said):
        _cluster().platform()
    (folder / "here").write_text(json.dumps(elsewhere), encoding="utf-8")
    with pytest.raises(RefusalError, match=said):
        _cluster().platform()


@pytest.mark.usefixtures("folder")
def test_what_the_server_says_is_repeated():
    with pytest.raises(RefusalError, match="kubectl = 'get pods': Error from server"):
        _cluster().items("pods", "a=b")


@pytest.mark.usefixtures("folder")
def test_the_engine_gets_a_private_file_for_as_long_as_it_runs():
    with _cluster().variables() as variables:
        file = Path(variables["KUBECONFIG"])
        assert json.loads(file.read_text(encoding="utf-8")) == {"users": [{"name": "me", "user": {"token": "t"}}]}
        assert file.stat().st_mode & 0o077 == 0
    assert not file.exists()


@pytest.mark.parametrize(
    ("given", "said", "message"),
    [
        (
            {"kubeconfig": "/gone"},
            "error: current-context must exist",
            "kubeconfig = '/gone': does not exist. Fix: name",
        ),
        ({"kubeconfig": "{folder}/view"}, "", "view': has no current context. Fix: name the context with --context"),
        (
            {"kubeconfig": "{folder}/view", "context": "prod"},
            "error: cannot locate context prod",
            "--context = 'prod': is not in {folder}/view. Fix: name one that `kubectl config get-contexts` lists",
        ),
        (
            {"kubeconfig": "{folder}/view"},
            "error: yaml: line 1",
            "view': cannot be read (error: yaml: line 1). Fix: corr",
        ),
    ],
)
def test_a_kubeconfig_without_the_context_is_named(folder, given, said, message):
    (folder / "view").write_text("{}", encoding="utf-8")
    if said:
        (folder / "kubectl").write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1\n", encoding="utf-8")
    with pytest.raises(RefusalError) as refusal:
        _cluster(**{name: value.format(folder=folder) for name, value in given.items()})
    assert message.format(folder=folder) in str(refusal.value)


def test_of_a_server_behind_a_proxy_the_proxy_is_what_may_be_silent(folder, monkeypatch):
    view = {"server": "https://c:6443", "proxy-url": "http://me:word@proxy:3128", "tls-server-name": "inside"}
    (folder / "view").write_text(json.dumps({**VIEW, "clusters": [{"cluster": view}]}), encoding="utf-8")
    behind = _cluster()
    (folder / "kubectl").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    monkeypatch.setattr(cluster, "_PATIENCE_SECONDS", 0.1)
    asked: list[object] = []
    monkeypatch.setattr(reach, "is_silent", lambda *words, **named: asked.append((words, named)) or True)
    with pytest.raises(RefusalError, match=r"'https://c:6443 through the proxy proxy': does not answer") as refusal:
        behind.find("pods", "a")
    assert asked == [(("https://c:6443",), {"proxy": "http://me:word@proxy:3128", "tls_name": "inside"})]
    assert "word" not in str(refusal.value)


def test_a_silent_server_is_not_waited_for(folder, monkeypatch):
    silent = _cluster()
    (folder / "kubectl").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    monkeypatch.setattr(cluster, "_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(reach, "is_silent", lambda server, **_: server == "https://c:6443")
    with pytest.raises(RefusalError, match=r"API server = 'https://c:6443': does not answer\. Fix: check the network"):
        silent.find("pods", "a")
    monkeypatch.setattr(cluster, "_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(reach, "is_silent", lambda _, **__: False)
    with pytest.raises(RefusalError, match=r"did not answer in 0\.1 s"):
        silent.create({"kind": "Pod"})
