import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import until_executing
from tools.local_cluster.layout import Layout
from tools.local_cluster.leftovers import leftovers, mounts_below
from tools.local_cluster.node import CLUSTER_VARIABLE
from tools.process import run

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and links need root")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(name="left", folder=tmp_path / "left")


def test_a_process_outside_the_node_is_found(layout: Layout) -> None:
    environment = {CLUSTER_VARIABLE: str(layout.folder)}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=environment, stdin=subprocess.PIPE) as process:
        until_executing(process.pid, sys.executable)
        assert [line.split(":")[0] for line in leftovers(layout)] == [f"process {process.pid}"]
        process.kill()


def test_a_folder_is_found_and_nothing_where_nothing_was(layout: Layout) -> None:
    assert leftovers(layout) == []
    layout.folder.mkdir()
    assert leftovers(layout) == [f"folder {layout.folder}"]


@needs_root
def test_mounts_are_found_whatever_their_name(tmp_path: Path) -> None:
    inside = tmp_path / "with space" / "data"
    inside.mkdir(parents=True)
    run(["mount", "-t", "tmpfs", "tmpfs", inside])
    try:
        assert mounts_below(tmp_path / "with space") == [inside]
        assert mounts_below(tmp_path / "with") == []
    finally:
        run(["umount", inside])


@needs_root
def test_an_interface_is_found(layout: Layout) -> None:
    run(["ip", "link", "add", layout.interface, "type", "veth", "peer", "name", f"p{layout.interface[4:]}"])
    try:
        assert leftovers(layout) == [f"network interface {layout.interface}"]
    finally:
        run(["ip", "link", "delete", "dev", layout.interface])
