"""`make down` leaves nothing of what `make up` made; tests/cluster/test_local_cluster_down.py compares the machine.

Runs last of all tests that use the `served` clone, because it takes that clone's environment away.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.fixtures.clone import make_clone
from tools.local_cluster.processes import all_processes
from tools.stacks.engine import stack_config

if TYPE_CHECKING:
    from tests.fixtures.clone import Clone


def processes_of(clone: Clone) -> list[tuple[str, ...]]:
    """Return the command lines of what works in the clone's folders, or was started with one of them."""
    folders = {str(clone.folder), str(clone.home)}

    def is_its(pid: int, words: tuple[str, ...]) -> bool:
        try:
            where = str(Path(f"/proc/{pid}/cwd").readlink())
        except OSError:  # ended meanwhile
            return False
        return any(folder in word for folder in folders for word in (where, *words))

    return [process.arguments for process in all_processes() if is_its(process.pid, process.arguments)]


def test_down_without_up_and_twice_is_harmless(tmp_path: Path) -> None:
    clone = make_clone(tmp_path / "clone", tmp_path / "home")

    clone.make("down")
    clone.make("down")

    assert not clone.home.exists()


def test_down_leaves_nothing_of_what_up_made(served: Clone) -> None:
    settings = stack_config("local", served.folder)
    temporary_files = set(served.temporary.iterdir())
    assert served.left_by_up == frozenset()
    assert served.cluster.leftovers() != []
    assert processes_of(served) != []
    assert "encryptionsalt" in (served.folder / "Pulumi.local.yaml").read_text(encoding="utf-8")

    served.make("down")

    assert served.cluster.leftovers() == []
    assert processes_of(served) == []
    assert set(served.temporary.iterdir()) <= temporary_files
    assert not served.home.exists()
    assert not (served.folder / ".venv").exists()
    assert "encryptionsalt" not in (served.folder / "Pulumi.local.yaml").read_text(encoding="utf-8")
    assert stack_config("local", served.folder) == settings
