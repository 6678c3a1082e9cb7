"""The cluster handle: an explicit context, a secret kubeconfig, and no replacement when only credentials change."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from infra.cluster_access import existing_cluster_args
from infra.machine import LOCAL_CONTEXT, LOCAL_NODE, cache_folder, home_folder, local_home
from infra.settings.cluster import ClusterSettings
from tests.fixtures.recorded_stack import FOREIGN_TOKEN, OWN_KEY
from tests.recording_engine import KUBERNETES_PROVIDER, Secret, scalars


def _provider(recording):
    [provider] = recording.of_type(KUBERNETES_PROVIDER)
    return provider


def test_the_kubeconfig_is_secret_and_self_contained(local_stack, machine_home):
    kubeconfig = _provider(local_stack).inputs["kubeconfig"]
    assert isinstance(kubeconfig, Secret)
    assert yaml.safe_load(kubeconfig.value)["current-context"] == LOCAL_CONTEXT
    assert FOREIGN_TOKEN not in kubeconfig.value
    assert str(machine_home) not in kubeconfig.value


def test_new_certificates_replace_nothing(local_stack):
    """Without an identifier of its own the cluster is taken for another one whenever its kubeconfig changes."""
    assert _provider(local_stack).inputs["clusterIdentifier"] == LOCAL_CONTEXT


def test_the_client_is_not_throttled_to_the_providers_default(local_stack):
    limits = json.loads(_provider(local_stack).inputs["kubeClientSettings"])
    assert limits["qps"] >= 100
    assert limits["burst"] >= limits["qps"]
    assert limits["timeout"] >= 120, (
        "more than 32 s, in which a busy API server may not have written its OpenAPI document"
    )


def test_credentials_appear_nowhere_else(local_stack):
    for resource in local_stack.resources.values():
        for path, value in scalars(resource.inputs):
            readable = "" if isinstance(value, Secret) else str(value)
            assert FOREIGN_TOKEN not in readable, f"{resource.name}: {path}"
            assert OWN_KEY not in readable, f"{resource.name}: {path}"


def test_the_local_cluster_is_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path))
    args = existing_cluster_args(ClusterSettings())
    assert (args.kubeconfig, args.context) == (tmp_path.resolve() / "local" / "kubeconfig", "athanor-local")
    assert LOCAL_NODE == "local-node-0"


def test_a_cluster_of_the_users_is_taken_as_named(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    args = existing_cluster_args(ClusterSettings(kubeconfig="~/.kube/config", context="kind-a"))
    assert (args.kubeconfig, args.context) == (tmp_path / ".kube" / "config", "kind-a")


def test_machine_folders_follow_own_variables_then_xdg_then_home(monkeypatch, tmp_path):
    for name in ("ATHANOR_HOME", "ATHANOR_CACHE", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    base = Path(tmp_path).resolve()
    assert (home_folder(), cache_folder()) == (base / ".local/state/athanor", base / ".cache/athanor")
    monkeypatch.setenv("XDG_STATE_HOME", str(base / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "cache"))
    assert (home_folder(), cache_folder()) == (base / "state/athanor", base / "cache/athanor")
    monkeypatch.setenv("ATHANOR_HOME", str(base / "h"))
    monkeypatch.setenv("ATHANOR_CACHE", str(base / "c"))
    assert (home_folder(), cache_folder(), local_home()) == (base / "h", base / "c", base / "h/local")
