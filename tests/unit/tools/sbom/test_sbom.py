"""Bills of materials list what is pinned, are valid, and are the same bytes everywhere."""

import datetime as dt
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.tables import each_row
from tools.paths import REPOSITORY
from tools.sbom import __main__ as command
from tools.sbom.__main__ import graph_bill, pinned
from tools.sbom.cyclonedx_json import bill_text, first_problem, package_url
from tools.sbom.package import Bill, Package, Subject
from tools.toolchain.tool import GRAPHS

GO_MOD = """module example/graph // of ours

go 1.26.0

tool example.com/a/cmd/a

tool (
	example.com/b/cmd/b
)

require example.com/a v1.0.0
require (
	example.com/B/v2 v2.0.0 // indirect
	example.com/c v1.2.3+incompatible
	example.com/d v0.1.0
)

replace example.com/c => example.com/fork v1.5.0

replace (
	example.com/a => ./a
	example.com/d => example.com/d v0.2.0
)
"""
GO_SUM = """example.com/B/v2 v2.0.0 h1:b=
example.com/B/v2 v2.0.0/go.mod h1:not-this=
example.com/fork v1.5.0 h1:fork=
example.com/d v0.1.0/go.mod h1:neither=
"""
SMALL = Bill(
    file_name="small",
    subject=Subject(kind="container", name="localhost/small", version="0123", properties=(("athanor:variant", "cpu"),)),
    packages=(
        Package(kind="pypi", name="Torch", version="2.15.0", properties=(("athanor:file-sha256", "ab"),)),
        Package(kind="deb", name="dash", version=None, qualifiers={"distro": "bookworm"}),
        Package(kind="golang", name="example.com/b/v2", version="v2.0.0"),
    ),
)


@pytest.fixture(scope="module")
def bills() -> dict[str, Bill]:
    return {bill.file_name: bill for bill in command.all_bills()}


def versions(bill: Bill) -> dict[str, str | None]:
    return {package.name: package.version for package in bill.packages}


def test_images_in_both_variants_environments_and_graphs_have_one(bills):
    images = {
        f"image-{image}-{variant}" for image in ("training", "serving", "tensorflow") for variant in ("cpu", "gpu")
    }
    graphs = {f"toolchain-{graph.name}" for graph in GRAPHS}
    assert bills.keys() == images | graphs | {"python-commands", "python-policies"}


def test_an_image_has_the_packages_of_its_variant(bills):
    with_gpu, without = versions(bills["image-training-gpu"]), versions(bills["image-training-cpu"])
    assert with_gpu["torch"] == without["torch"] == "2.15.0"
    assert "triton" in with_gpu
    assert "triton" not in without
    assert without["openssh-server"] is None
    assert versions(bills["image-tensorflow-cpu"])["tensorflow-cpu"]


def test_the_subject_of_an_image_is_its_reference(bills):
    subject = bills["image-serving-cpu"].subject
    assert subject.name == "localhost/athanor/serving"
    assert re.fullmatch("[0-9a-f]{16}", subject.version)
    assert bills["image-serving-gpu"].subject.version != subject.version


@each_row("graph", GRAPHS, ids=lambda graph: graph.name)
def test_every_module_that_a_graph_takes_from_elsewhere_has_its_sum(graph, bills):
    packages = bills[f"toolchain-{graph.name}"].packages
    go_mod = (graph / "go.mod").read_text("utf-8")
    required = re.findall(r"^(?:require )?\t?([\w~-]+\.\S+) v\S+", go_mod, re.MULTILINE)
    assert len(packages) == len({*required}) + 1
    origins = {"athanor:go.sum", "athanor:compiled-from"}
    assert {one.name for one in packages if not origins & dict(one.properties).keys()} == {"std"}


def test_the_programs_of_a_graph_are_named(bills):
    programs = {value for name, value in bills["toolchain-platform"].subject.properties if name == "athanor:program"}
    assert "k8s.io/kubernetes/cmd/kubelet" in programs


def test_go_modules_are_those_after_replacement(tmp_path):
    graph = tmp_path / "graph"
    graph.mkdir()
    (tmp_path / "go-requirement.txt").write_text("# of\ngo-bin==1.26.6 \\\n    --hash=sha256:00\n")
    (graph / "go.mod").write_text(GO_MOD)
    (graph / "go.sum").write_text(GO_SUM)
    bill = graph_bill(graph)
    assert bill.subject.name == "example/graph"
    assert bill.subject.properties == (
        ("athanor:program", "example.com/a/cmd/a"),
        ("athanor:program", "example.com/b/cmd/b"),
    )
    assert versions(bill) == {
        "std": "1.26.6",
        "example.com/a": "v1.0.0",
        "example.com/B/v2": "v2.0.0",
        "example.com/fork": "v1.5.0",
        "example.com/d": "v0.2.0",
    }
    properties = {package.name: dict(package.properties) for package in bill.packages}
    assert properties["example.com/a"]["athanor:compiled-from"].startswith("./a: ")
    assert properties["example.com/B/v2"] == {"athanor:go.sum": "h1:b="}
    assert properties["example.com/fork"] == {
        "athanor:instead-of": "example.com/c@v1.2.3+incompatible",
        "athanor:go.sum": "h1:fork=",
    }
    assert properties["example.com/d"] == {}
    (graph / "go.sum").write_text("")
    assert graph_bill(graph).subject.version != bill.subject.version


def test_pins_are_read_with_all_their_files():
    [package] = pinned(["numpy==2.5.0 ; python_version > '3' --hash=sha256:aa --hash=sha256:bb"])
    assert (package.name, package.version) == ("numpy", "2.5.0")
    assert package.properties == (("athanor:file-sha256", "aa"), ("athanor:file-sha256", "bb"))


@each_row("name", ["image-training-gpu", "toolchain-platform", "python-policies"])
def test_bills_are_valid_cyclonedx(name, bills):
    assert first_problem(bill_text(bills[name])) is None
    assert first_problem(bill_text(bills[name], dt.datetime(2026, 11, 22, tzinfo=dt.UTC))) is None


@each_row("change", [{"bomFormat": "SPDX"}, {"unknown": 1}, {"serialNumber": "urn:uuid:1"}])
def test_what_is_not_valid_is_noticed(change):
    assert first_problem(json.dumps(json.loads(bill_text(SMALL)) | change))


def test_equal_bills_are_equal_bytes_in_any_order_and_others_have_other_numbers():
    text = bill_text(SMALL)
    assert bill_text(replace(SMALL, packages=SMALL.packages[::-1])) == text
    document: dict[str, Any] = json.loads(text)
    assert "timestamp" not in document["metadata"]
    # derived from the rest, and so the same on every machine and with every version of Python
    assert document["serialNumber"] == "urn:uuid:a6e141e2-8fee-5cb7-91f0-462cb302e006"
    other = bill_text(replace(SMALL, packages=SMALL.packages[1:]))
    dated = bill_text(SMALL, dt.datetime(2026, 11, 22, tzinfo=dt.UTC))
    assert len({json.loads(each)["serialNumber"] for each in (text, other, dated)}) == 3


def test_components_have_urls_that_scanners_know():
    urls = {component["purl"] for component in json.loads(bill_text(SMALL))["components"]}
    assert urls == {
        "pkg:pypi/torch@2.15.0",
        "pkg:deb/debian/dash?distro=bookworm",
        "pkg:golang/example.com/b/v2@v2.0.0",
    }
    assert str(package_url(Package(kind="golang", name="std", version="1.26.6"))) == "pkg:golang/std@1.26.6"


def test_the_command_writes_every_file_and_names_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "all_bills", lambda: iter([SMALL]))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1763769600")
    assert command.main([str(tmp_path / "new")]) == 0
    file = tmp_path / "new" / "small.cdx.json"
    assert capsys.readouterr().out == f"{file}: 3 packages\n"
    assert json.loads(file.read_text())["metadata"]["timestamp"] == "2025-11-22T00:00:00+00:00"


def test_files_go_to_the_folder_of_athanor_by_default(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "all_bills", lambda: iter([SMALL]))
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert command.main([]) == 0
    assert (tmp_path / "sbom" / "small.cdx.json").read_text() == bill_text(SMALL)


def test_a_folder_in_the_repository_is_refused(capsys):
    assert command.main([str(REPOSITORY / "docs")]) == 1
    assert "is in the repository. Fix: name a folder outside of it" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["today", "1e9", "9" * 30])
def test_a_date_that_is_none_is_refused(text, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    assert command.main([str(tmp_path)]) == 1
    assert "seconds since 1970" in capsys.readouterr().err
