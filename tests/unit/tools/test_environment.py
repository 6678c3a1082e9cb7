"""What `make tools` gets and `make image` builds, and for whom."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from infra.settings.parse import parse_settings
from tools import environment
from tools.local_cluster import ClusterError
from tools.progress import Progress


@pytest.fixture
def got(monkeypatch) -> list[str]:
    got: list[str] = []

    def ensure(names, _):
        got.extend(names)
        return {name: Path(name) for name in names}

    monkeypatch.setattr(environment.system_packages, "ensure_system_packages", lambda _: got.append("packages"))
    monkeypatch.setattr(environment, "ensure", ensure)
    for name in ("upstream_manifests", "make_private_folders", "install_commands"):
        monkeypatch.setattr(environment, name, lambda *_: None)
    return got


def get_tools(monkeypatch, tmp_path, raw) -> None:
    monkeypatch.setattr(environment, "_settings", lambda: parse_settings(raw))
    environment.tools(Progress(durations_file=tmp_path / "durations.json", console=Console(quiet=True)))


def test_tools_of_the_local_cluster_hold_its_debian_packages(got, monkeypatch, tmp_path):
    get_tools(monkeypatch, tmp_path, {})
    assert got[0] == "packages"
    assert "kubelet" in got


def test_a_cluster_of_the_users_needs_none_of_them(got, monkeypatch, tmp_path):
    get_tools(monkeypatch, tmp_path, {"cluster": {"kubeconfig": "~/.kube/config", "context": "kind"}})
    assert "packages" not in got
    assert "kubelet" not in got
    assert "pulumi" in got


@pytest.fixture
def build_image(got, monkeypatch, tmp_path):
    """Run `make image` for TensorFlow where a local cluster runs or not; give what was built."""

    def build(raw, *, running=True):
        node = SimpleNamespace(status=lambda: SimpleNamespace(running=running), containerd_socket=tmp_path / "socket")
        monkeypatch.setattr(environment, "LocalCluster", lambda _: node)
        monkeypatch.setattr(environment, "_settings", lambda: parse_settings(raw))
        monkeypatch.setattr(environment, "ensure_trainer_image", lambda *_, **named: got.append(named))
        report = Progress(durations_file=tmp_path / "durations.json", console=Console(quiet=True))
        environment.image("tensorflow", report)
        return got

    return build


def test_an_image_is_built_in_the_settings_variant(build_image):
    built = build_image({"images": {"trainer_variant": "gpu"}})
    assert built == ["packages", {"framework": "tensorflow", "variant": "gpu"}]


def test_an_image_without_a_node_to_load_it_into_is_refused(build_image, got):
    with pytest.raises(ClusterError, match=r"Fix: make up"):
        build_image({}, running=False)
    with pytest.raises(ClusterError, match=r"docker build.*athanor:images"):
        build_image({"cluster": {"kubeconfig": "~/.kube/config", "context": "kind"}})
    assert got == []


@pytest.mark.parametrize(("kind", "wanted"), [("operator", True), ("none", False)])
def test_the_local_cluster_has_what_watches_it_built(got, monkeypatch, tmp_path, kind, wanted):
    get_tools(monkeypatch, tmp_path, {"monitoring": {"kind": kind}})
    assert ("prometheus" in got) is wanted
    assert "vc-scheduler" in got
