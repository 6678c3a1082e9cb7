"""Links go both ways as links, and nothing is read or written through one that leads out of the folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from athanor.dev import sides
from athanor.dev.sides import OwnFolder
from athanor.dev.tree import CHANGED, LINK
from tests.unit.athanor.dev.two_folders import settle

if TYPE_CHECKING:
    from pathlib import Path


def links(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_symlink()]
    return {path.relative_to(folder).as_posix(): str(path.readlink()) for path in paths}


def test_links_within_the_folder_go_both_ways_as_links(here, there, sync):
    (here / "lib").mkdir()
    (here / "lib" / "a.py").write_text("1")
    (here / "lib" / "b.py").symlink_to("a.py")
    (here / "lib" / "top.py").symlink_to("../train.py")
    (here / "train.py").write_text("1")
    (here / "same").symlink_to("lib")
    settle(sync)
    assert links(there) == {"lib/b.py": "a.py", "lib/top.py": "../train.py", "same": "lib"}
    (there / "same").unlink()
    (there / "latest").symlink_to("nothing/yet")
    (there / "lib" / "b.py").unlink()
    (there / "lib" / "b.py").symlink_to("top.py")
    settle(sync)
    assert links(here) == links(there) == {"lib/b.py": "top.py", "lib/top.py": "../train.py", "latest": "nothing/yet"}
    assert (there / "lib" / "a.py").read_text() == "1"


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "a/../../x", "s/../x", "a/b/../../../x", "", "a\0b"])
def test_a_pod_cannot_make_a_link_that_may_lead_out(here, target):
    with pytest.raises(OSError, match="a link that may lead out"):
        OwnFolder(here).write("link", target.encode(), None, kind=LINK)
    with pytest.raises(OSError, match="a link that may lead out"):
        OwnFolder(here).write("sub/link", f"../../{target}".encode(), None, kind=LINK)
    assert links(here) == {}


def test_the_program_in_a_pod_needs_no_athanor_there():
    assert "def leads_inside" in sides._PROGRAM
    assert "from athanor" not in sides._PROGRAM


def test_nothing_is_read_or_written_through_a_link(here, tmp_path):
    (tmp_path / "secret").write_text("token")
    own = OwnFolder(here)
    (here / "out").symlink_to(tmp_path / "secret")
    assert own.read("out") is None
    assert own.write("out", b"x", None, kind="") == CHANGED
    (here / "a.py").write_text("1")
    (here / "in").symlink_to("a.py")
    assert own.read("in") == (b"a.py", LINK)
    assert not own.write("in", b"2", "->a.py", kind="")
    assert ((here / "a.py").read_text(), (here / "in").read_text()) == ("1", "2")
    assert (tmp_path / "secret").read_text() == "token"


def test_a_link_of_the_pod_through_one_of_the_users_own_does_not_arrive(folders, watched, tmp_path):
    (here, there), (sync, said) = folders, watched
    (here / ".gitignore").write_text("data\n")
    (here / "data").symlink_to(tmp_path)
    settle(sync)
    (there / "mine").symlink_to("data/secret")
    settle(sync)
    assert links(here) == {"data": str(tmp_path)}
    assert links(there) == {"mine": "data/secret"}
    assert said[-1] == "stays in the pod (a link that would lead out of the folder here): mine"
