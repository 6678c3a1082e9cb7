"""What a first start gets where every vendor answers: nothing is compiled. The vendors are played on loopback."""

from __future__ import annotations

import shutil
import urllib.request
from typing import TYPE_CHECKING

import pytest

from infra.settings.parse import parse_settings
from tests.fixtures.local_cluster import quiet_progress
from tests.fixtures.vendors import PlayedVendors, offer_tools, played_vendors
from tools.images import ensure_platform_images
from tools.images.platform_images import ADAPTER, GATEWAY, PLATFORM_IMAGES, binary_image
from tools.local_cluster import cluster as local_cluster
from tools.local_environment import commands
from tools.paths import paths
from tools.process import run
from tools.stacks.preview import engine_tools
from tools.toolchain import ToolchainError, ensure, upstream_manifests
from tools.toolchain.catalogue import TOOLS, tool_of
from tools.toolchain.store import install_folder
from tools.toolchain.system_packages import SKOPEO, ensure_system_packages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.containerd import Containerd

WANTED = sorted({*engine_tools(parse_settings({})), *local_cluster.tools(simulates_nodes=True)})
"""What runs outside of pods."""
FIRST_IMAGES = [name for name in PLATFORM_IMAGES if name not in {ADAPTER, GATEWAY}]
"""Of the environment without settings of one's own."""
SOLD = {tool.name: tool for tool in map(tool_of, WANTED) if tool.vendor or tool.is_plugin}


@pytest.fixture
def new_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedVendors]:
    """Give empty folders and a `go` that fails, and play the vendors.

    What they offer is real as far as it is run here, else a few bytes: nothing but its digest could differ.
    """
    report = quiet_progress(tmp_path)
    ensure_system_packages(packages=[SKOPEO])
    real = ensure([*TOOLS["pulumi"].programs, "coredns"], report)
    upstream_manifests(report, gateway=False)
    session_cache = paths().cache
    with played_vendors(tmp_path / "vendors") as vendors:
        names = [*FIRST_IMAGES, *(name for tool in SOLD.values() for name in tool.programs)]
        programs = {name: stand_in(vendors.folder, name) for name in names} | real
        offer_tools(vendors, programs)
        for name, image in ((name, PLATFORM_IMAGES[name]) for name in FIRST_IMAGES):
            vendors.offer(image.reference, binary_image(vendors.images, programs[name], name, image))
        # What nobody sells is here already, as are manifests, which the go command's module client gets.
        unsold = {install_folder(tool_of(name)) for name in ensure(WANTED) if tool_of(name).name not in SOLD}
        for folder in {*unsold, session_cache / "charts"}:
            link = tmp_path / "cache" / folder.relative_to(session_cache)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder)
        go = tmp_path / "bin" / "go"
        go.parent.mkdir()
        go.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/go-was-asked\nexit 1\n')
        go.chmod(0o755)
        folders = {"ATHANOR_CACHE": tmp_path / "cache", "ATHANOR_HOME": tmp_path / "home"}
        for name, value in {**vendors.variables, **folders, "ATHANOR_TOOL_SOURCES": "vendor"}.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("PATH", str(go.parent), prepend=":")
        monkeypatch.delenv("PULUMI_HOME", raising=False)
        monkeypatch.setattr(urllib.request, "_opener", None)
        # Theirs are those of the real files and images.
        monkeypatch.setattr("tools.toolchain.vendor.DIGESTS", vendors.digests)
        monkeypatch.setattr("tools.images.registry.DIGESTS", {})
        monkeypatch.setattr(commands, "install_commands", lambda *_: None)
        yield vendors
    for folder in ("vendors", "cache"):  # hundreds of megabytes, which pytest would keep
        shutil.rmtree(tmp_path / folder)


def stand_in(folder: Path, name: str) -> Path:
    file = folder / f"program-{name}"
    file.write_text(f"#!/bin/sh\necho {name}\n")
    file.chmod(0o755)
    return file


def test_nothing_is_compiled_where_vendors_answer(
    new_machine: PlayedVendors, containerd: Containerd, tmp_path: Path
) -> None:
    commands.tools(quiet_progress(tmp_path))

    assert not (tmp_path / "go-was-asked").exists()
    assert not (paths().cache / "go").exists()
    for tool in SOLD.values():
        assert {file.name for file in install_folder(tool).iterdir()} >= set(tool.programs)
        assert not (install_folder(tool) / ".recipe").exists()
    assert run([install_folder(TOOLS["kubelet"]) / "kubelet"]) == "kubelet\n"
    assert f"{TOOLS['pulumi'].version}" in run([install_folder(TOOLS["pulumi"]) / "pulumi", "version"])
    assert not [name for name in FIRST_IMAGES if (paths().cache / "tools" / name).exists()]

    asked = len(new_machine.asked)
    references = ensure_platform_images(containerd.socket, FIRST_IMAGES, quiet_progress(tmp_path))
    assert len(new_machine.asked) == asked
    assert references == {name: PLATFORM_IMAGES[name].reference for name in FIRST_IMAGES}
    assert containerd.images.manifests() == {
        reference: image.digest for reference, image in new_machine.published.items()
    }
    words = ["/coredns", "-version"]
    assert str(TOOLS["coredns"].version) in containerd.run(PLATFORM_IMAGES["coredns"].reference, *words)


def test_a_program_that_differs_from_its_checksum_is_not_taken(new_machine: PlayedVendors, tmp_path: Path) -> None:
    (address,) = (address for address in new_machine.files if address.endswith("/kubelet"))
    new_machine.files[address] = b"#!/bin/sh\necho evil\n"

    with pytest.raises(ToolchainError, match="not available from vendor: kubelet"):
        commands.tools(quiet_progress(tmp_path))
    assert not install_folder(TOOLS["kubelet"]).exists()
