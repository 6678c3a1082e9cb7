"""What `make tools` gets and `make image` builds, and for whom."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from infra.registry import Mirror
from infra.settings.parse import parse_settings
from tools.images.platform_images import ADAPTER, GATEWAY, PLATFORM_IMAGES
from tools.local_cluster import ClusterError
from tools.local_environment import commands, programs
from tools.progress import Progress


@pytest.fixture
def got(monkeypatch) -> list[str]:
    got: list[str] = []

    def ensure(names, _):
        got.extend(names)
        return {name: Path(name) for name in names}

    monkeypatch.setattr(commands.system_packages, "ensure_system_packages", lambda _: got.append("packages"))
    monkeypatch.setattr(commands, "ensure", ensure)
    monkeypatch.setattr(programs, "ensure", ensure)
    monkeypatch.setattr(programs, "upstream_manifests", lambda _, **__: None)
    for name in ("make_private_folders", "install_commands"):
        monkeypatch.setattr(commands, name, lambda *_: None)
    pull(monkeypatch)
    return got


def pull(monkeypatch, *given) -> list[set[str]]:
    """Have registries give the images of these names; return the list of what they are asked for."""
    asked: list[set[str]] = []

    def fetch(names, _, **__):
        asked.append(set(names))
        return asked[-1] & set(given)

    monkeypatch.setattr(programs, "fetch_platform_images", fetch)
    return asked


def get_tools(monkeypatch, tmp_path, raw) -> None:
    monkeypatch.setattr(commands.stack, "local_settings", lambda: parse_settings(raw))
    commands.tools(Progress(durations_file=tmp_path / "durations.json", console=Console(quiet=True)))


def test_tools_of_the_local_cluster_hold_its_debian_packages(got, monkeypatch, tmp_path):
    get_tools(monkeypatch, tmp_path, {})
    assert got[0] == "packages"
    assert "kubelet" in got


def test_a_program_is_not_asked_for_where_its_image_was_pulled(got, monkeypatch, tmp_path):
    asked = pull(monkeypatch, "vc-scheduler", "pause")
    get_tools(monkeypatch, tmp_path, {"monitoring": {"autoscaling": {"enabled": True}}, "gateway": {"enabled": True}})
    assert asked == [{*PLATFORM_IMAGES}]
    assert {*got} & asked[0] == asked[0] - {"vc-scheduler", "pause"}


def test_what_no_setting_asks_for_is_not_pulled(got, monkeypatch, tmp_path):
    asked = pull(monkeypatch)
    get_tools(monkeypatch, tmp_path, {})
    assert asked == [{*PLATFORM_IMAGES} - {ADAPTER, GATEWAY}]
    assert not {ADAPTER, GATEWAY} & {*got}


def test_images_are_pulled_through_the_stacks_mirror(got, monkeypatch, tmp_path):
    del got
    places = []
    monkeypatch.setattr(programs, "fetch_platform_images", lambda *_, place: places.append(place) or set())
    get_tools(monkeypatch, tmp_path, {"images": {"registry": "mirror.example/team", "flatten": True}})
    assert places == [Mirror(registry="mirror.example/team", flatten=True)]


def test_a_cluster_of_the_users_needs_none_of_them(got, monkeypatch, tmp_path):
    get_tools(monkeypatch, tmp_path, {"cluster": {"kubeconfig": "~/.kube/config", "context": "kind"}})
    assert "packages" not in got
    assert "kubelet" not in got
    assert "pulumi" in got


@pytest.fixture
def build_image(got, monkeypatch, tmp_path):
    """Run `make image` where a local cluster runs or not; give what was built."""

    def build(raw, framework="tensorflow", *, running=True):
        node = SimpleNamespace(status=lambda: SimpleNamespace(running=running), containerd_socket=tmp_path / "socket")
        monkeypatch.setattr(commands, "LocalCluster", lambda _: node)
        monkeypatch.setattr(commands.stack, "local_settings", lambda: parse_settings(raw))
        monkeypatch.setattr(
            commands, "ensure_trainer_images", lambda _, names, __, **named: got.append({"names": names, **named})
        )
        report = Progress(durations_file=tmp_path / "durations.json", console=Console(quiet=True))
        commands.image(framework, report)
        return got

    return build


def test_an_image_is_built_in_the_settings_variant(build_image):
    built = build_image({"images": {"trainer_variant": "gpu"}})
    assert built == ["packages", {"names": ["tensorflow"], "variant": "gpu"}]


def test_pytorch_is_in_the_images_of_training_and_of_serving(build_image):
    built = build_image({}, "pytorch")
    assert built == ["packages", {"names": ["training", "serving"], "variant": "cpu"}]


def test_an_image_without_a_node_to_load_it_into_is_refused(build_image, got):
    with pytest.raises(ClusterError, match=r"Fix: run `make up`"):
        build_image({}, running=False)
    with pytest.raises(ClusterError, match=r"build the image.*athanor:images"):
        build_image({"cluster": {"kubeconfig": "~/.kube/config", "context": "kind"}})
    assert got == []


@pytest.mark.parametrize(("kind", "expected"), [("operator", True), ("none", False)])
def test_the_local_cluster_has_what_watches_it_built(got, monkeypatch, tmp_path, kind, expected):
    get_tools(monkeypatch, tmp_path, {"monitoring": {"kind": kind}})
    assert ("prometheus" in got) is expected
    assert "vc-scheduler" in got
