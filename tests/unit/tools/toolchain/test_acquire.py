"""In which order sources are asked, and what is left of a failure, with stand-ins for vendor and compiler."""

import pytest

from tools.paths import paths
from tools.toolchain import ToolchainError, acquire, discard_sources, ensure, is_present, provide
from tools.toolchain.catalogue import ALICLOUD_PROVIDER, ENGINE_WITH_CLOUDS, STACKS, TOOLS
from tools.toolchain.tool import ALICLOUD_GRAPH, ENGINE_WITH_CLOUDS_GRAPH, PLATFORM_GRAPH
from tools.toolchain.vendor import VendorError

pytestmark = pytest.mark.usefixtures("programs", "sold", "built")


@pytest.fixture
def built(monkeypatch, tmp_path):
    """Stand in for the compiler; return the list of what it was asked for: {graph: {program: package}}."""
    asked = []

    def build(_go, builds, _report):
        asked.append({one.graph: dict(one.mains) for one in builds})
        files = {}
        for one in builds:
            one.folder.mkdir(parents=True)
            for name in one.mains:
                files[name] = one.folder / name
                files[name].write_text("built")
        return files

    module = tmp_path / "module" / "python" / "cmd"
    module.mkdir(parents=True)
    (module / "pulumi-language-python-exec").write_text("script")
    monkeypatch.setattr(acquire, "build", build)
    monkeypatch.setattr(acquire, "find_go", lambda *_: tmp_path / "go")
    monkeypatch.setattr(acquire.Go, "module_folder", lambda *_: tmp_path / "module")
    return asked


@pytest.fixture
def sold(monkeypatch):
    """Stand in for the vendors; return the set of names that they offer."""
    offered = set()

    def download(_self, tool, folder):
        if tool.name not in offered:
            raise VendorError("not offered")
        files = {name: folder / name for name in tool.programs}
        for file in files.values():
            file.write_text("downloaded")
        return files

    def install_plugin(_self, tool, pulumi, home):
        if tool.name not in offered:
            raise VendorError("not offered")
        assert pulumi.is_file()
        folder = home / "plugins" / f"{tool.name.removeprefix('pulumi-')}-v{tool.version}"
        folder.mkdir(parents=True)
        (folder / tool.name).write_text("downloaded")
        (folder / tool.name).chmod(0o755)

    monkeypatch.setattr(acquire.Vendors, "download", download)
    monkeypatch.setattr(acquire.Vendors, "install_plugin", install_plugin)
    return offered


def origins(names):
    return {name: one.origin for name, one in provide(names).items()}


def test_path_is_first_then_the_vendor_then_the_compiler(programs, sold, built):
    programs("etcd", f"echo etcd Version: {TOOLS['etcd'].version}")
    sold |= {"etcd", "kubelet"}
    assert origins(["etcd", "kubelet", "kubectl"]) == {"etcd": "path", "kubelet": "vendor", "kubectl": "build"}
    assert origins(["etcd", "kubelet", "kubectl"]) == {"etcd": "path", "kubelet": "cache", "kubectl": "cache"}
    assert built == [{PLATFORM_GRAPH: {"kubectl": "k8s.io/kubernetes/cmd/kubectl"}}]


def test_only_what_is_missing_is_built_and_all_of_it_at_once(built):
    ensure(["kubelet"])
    ensure(["kubelet", "etcd", "kwok"])
    assert built[1] == {PLATFORM_GRAPH: {"etcd": "go.etcd.io/etcd/server/v3", "kwok": "sigs.k8s.io/kwok/cmd/kwok"}}


@pytest.mark.parametrize(("kept", "left"), [("", False), ("1", True)])
def test_what_programs_were_built_from_is_deleted_unless_somebody_keeps_it(monkeypatch, kept, left):
    monkeypatch.setenv("ATHANOR_KEEP_GO", kept)
    packages = paths().cache / "go" / "build"
    packages.mkdir(parents=True)
    kubelet = ensure(["kubelet"])["kubelet"]
    discard_sources(None)
    assert packages.exists() is left
    assert kubelet.is_file()


def test_whether_a_program_is_here_is_reported_without_getting_it(sold, built):
    sold.add("etcd")
    assert not is_present("etcd")
    assert not is_present("etcd")
    ensure(["etcd"])
    assert is_present("etcd")
    assert built == []


def test_sources_can_be_limited(programs, sold, monkeypatch):
    programs("etcd", f"echo etcd Version: {TOOLS['etcd'].version}")
    sold.add("etcd")
    monkeypatch.setenv("ATHANOR_TOOL_SOURCES", "build")
    assert origins(["etcd"]) == {"etcd": "build"}


def test_without_the_compiler_a_missing_tool_is_named(sold, built, monkeypatch):
    sold.add("etcd")
    monkeypatch.setenv("ATHANOR_TOOL_SOURCES", "path, vendor")
    with pytest.raises(ToolchainError, match=f"kubelet {TOOLS['kubelet'].version}. Fix"):
        provide(["etcd", "kubelet"])
    assert built == []
    assert origins(["etcd"]) == {"etcd": "cache"}


def test_an_unknown_source_is_refused(monkeypatch):
    monkeypatch.setenv("ATHANOR_TOOL_SOURCES", "path,magic")
    with pytest.raises(ToolchainError, match="magic"):
        ensure(["etcd"])


def test_the_engines_parts_lie_in_one_folder():
    programs = ensure(["pulumi-language-python", "pulumi-language-python-exec", "pulumi"])
    assert {name: file.name for name, file in programs.items()} == {name: name for name in programs}
    assert len({file.parent for file in programs.values()}) == 1
    assert programs["pulumi-language-python-exec"].read_text() == "script"


BOTH = [[PLATFORM_GRAPH], [ENGINE_WITH_CLOUDS_GRAPH]]


@pytest.mark.parametrize(
    ("backend", "vendor_has", "engine", "builds"),
    [
        *((f"{cloud}://states?region=eu", set(), ENGINE_WITH_CLOUDS, BOTH) for cloud in ("s3", "gs", "azblob")),
        *((state, set(), "pulumi", BOTH[:1]) for state in ("", "file:///states", "https://app.pulumi.com")),
        ("s3://states", {"pulumi"}, "pulumi", []),
    ],
)
def test_the_engine_reads_the_state_wherever_it_is(*, built, sold, monkeypatch, backend, vendor_has, engine, builds):
    """Ours is compiled without the clouds' clients, the vendor's with them."""
    sold |= vendor_has
    monkeypatch.setenv("PULUMI_BACKEND_URL", backend)
    assert ensure(["pulumi"])["pulumi"].name == engine
    assert [list(graphs) for graphs in built] == builds


def test_an_engine_with_clouds_is_used_once_it_is_there():
    ensure([ENGINE_WITH_CLOUDS])
    assert ensure(["pulumi"])["pulumi"].name == ENGINE_WITH_CLOUDS


def test_the_engine_comes_before_the_plugins_that_it_installs(sold):
    plugins = {"pulumi-resource-kubernetes", "pulumi-resource-alicloud"}
    sold |= {"pulumi", *plugins}
    assert origins([*plugins, "pulumi"]) == dict.fromkeys(["pulumi", *plugins], "vendor")


def test_the_provider_of_alibaba_cloud_is_built_apart_from_all_else(built):
    ensure(STACKS["alicloud"])
    assert built[0][ALICLOUD_GRAPH] == {ALICLOUD_PROVIDER: f"./{ALICLOUD_PROVIDER}"}
    assert all(ALICLOUD_PROVIDER not in mains for graph, mains in built[0].items() if graph != ALICLOUD_GRAPH)


def test_a_plugin_without_an_engine_is_built(sold):
    sold.add("pulumi-resource-kubernetes")
    assert origins(["pulumi-resource-kubernetes"]) == {"pulumi-resource-kubernetes": "build"}


def test_a_changed_recipe_builds_again(monkeypatch):
    ensure(["etcd"])
    monkeypatch.setattr(acquire, "tool_recipe", lambda _: "changed")
    assert origins(["etcd"]) == {"etcd": "build"}
    assert origins(["etcd"]) == {"etcd": "cache"}


def test_why_a_vendor_was_passed_over_is_in_the_log(tmp_path):
    ensure(["etcd"])
    assert "etcd: not offered" in (tmp_path / "home" / "logs" / "toolchain.log").read_text()
