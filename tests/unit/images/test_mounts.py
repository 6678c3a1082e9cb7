from pathlib import Path

import pytest

from tools.images import mounts

TABLE = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
90 22 0:50 / /cache/build\\040er/merged rw - overlay overlay rw
91 90 0:51 / /cache/build\\040er/merged/proc rw - proc proc rw
92 22 0:52 / /cache/build\\040er-two/merged rw - overlay overlay rw
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    (tmp_path / "mountinfo").write_text(TABLE)
    monkeypatch.setattr(mounts, "MOUNT_TABLE", tmp_path / "mountinfo")


@pytest.mark.usefixtures("table")
def test_mounts_of_the_folder_come_deepest_first():
    folder = Path("/cache/build er")
    assert mounts.mounts_below(folder) == [folder / "merged/proc", folder / "merged"]


@pytest.mark.usefixtures("table")
def test_everything_below_is_unmounted_and_nothing_beside(monkeypatch):
    commands = []
    monkeypatch.setattr(mounts, "run", commands.append)
    mounts.unmount_below(Path("/cache/build er"))
    assert commands == [["umount", Path("/cache/build er/merged", part)] for part in ("proc", "")]
