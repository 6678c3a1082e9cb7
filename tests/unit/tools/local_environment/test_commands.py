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


USERS_OWN = {"cluster": {"kubeconfig": "~/.kube/config", "context": "kind"}}


@pytest.mark.parametrize(
    ("raw", "needed", "others"),
    [
        ({}, {"packages", "kubelet", "vc-scheduler", "prometheus"}, set()),
        ({"monitoring": {"kind": "none"}}, {"packages", "kubelet", "vc-scheduler"}, {"prometheus"}),
        (USERS_OWN, {"pulumi"}, {"packages", "kubelet"}),
    ],
    ids=["a local cluster", "one that nothing watches", "one of the users"],
)
def test_tools_are_those_that_the_cluster_needs(*, got, monkeypatch, tmp_path, raw, needed, others):
    get_tools(monkeypatch, tmp_path, raw)
    assert needed <= set(got)
    assert not others & set(got)
    assert "packages" not in got[1:], "Debian's come first"


@pytest.mark.parametrize(
    ("raw", "given", "not_pulled"),
    [
        ({}, set(), {ADAPTER, GATEWAY}),
        (
            {"monitoring": {"autoscaling": {"enabled": True}}, "gateway": {"enabled": True}},
            {"vc-scheduler", "pause"},
            set(),
        ),
    ],
    ids=["what no setting asks for is not pulled", "what was pulled is not got as a program"],
)
def test_images_are_pulled_before_programs_are_got(*, got, monkeypatch, tmp_path, raw, given, not_pulled):
    asked = pull(monkeypatch, *given)
    get_tools(monkeypatch, tmp_path, raw)
    assert asked == [{*PLATFORM_IMAGES} - not_pulled]
    assert {*got} & {*PLATFORM_IMAGES} == asked[0] - given


def test_images_are_pulled_through_the_stacks_mirror(got, monkeypatch, tmp_path):
    del got
    places = []
    monkeypatch.setattr(programs, "fetch_platform_images", lambda *_, place: places.append(place) or set())
    get_tools(monkeypatch, tmp_path, {"images": {"registry": "mirror.example/team", "flatten": True}})
    assert places == [Mirror(registry="mirror.example/team", flatten=True)]


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


@pytest.mark.parametrize(
    ("raw", "framework", "names", "variant"),
    [
        ({"images": {"trainer_variant": "gpu"}}, "tensorflow", ["tensorflow"], "gpu"),
        ({}, "pytorch", ["training", "serving"], "cpu"),
    ],
)
def test_the_images_of_a_framework_are_built_in_the_settings_variant(build_image, raw, framework, names, variant):
    assert build_image(raw, framework) == ["packages", {"names": names, "variant": variant}]


def test_an_image_without_a_node_to_load_it_into_is_refused(build_image, got):
    with pytest.raises(ClusterError, match=r"Fix: run `make up`"):
        build_image({}, running=False)
    with pytest.raises(ClusterError, match=r"build the image.*athanor:images"):
        build_image(USERS_OWN)
    assert got == []
