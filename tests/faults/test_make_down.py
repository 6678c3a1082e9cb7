"""`make down` proves itself: what was on the machine before `make up`, and nothing else, is there after it.

Runs last of all tests that use the `served` clone, because it takes that clone's environment away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fixtures.clone import make_clone, wait_until
from tools.engine import stack_config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.clone import Clone


def left_behind(clone: Clone) -> dict[str, set[str]]:
    now = clone.machine()
    return {kind: new for kind, lines in now.items() if (new := lines - clone.machine_before[kind])}


def test_down_without_up_and_twice_is_harmless(tmp_path: Path) -> None:
    clone = make_clone(tmp_path / "clone", tmp_path / "home")

    clone.make("down")
    clone.make("down")

    assert not clone.home.exists()


def test_down_leaves_the_machine_as_it_was(served: Clone) -> None:
    during = served.machine()
    assert during["links"] != served.machine_before["links"]
    assert during["daemons"] != served.machine_before["daemons"]

    served.make("down")

    # Other tests may be at work beside this one: what is theirs goes away by itself, what is ours would stay.
    wait_until(lambda: left_behind(served) == {}, lambda: f"the machine to be as before: {left_behind(served)}")
    assert not served.home.exists()
    assert not (served.folder / ".venv").exists()
    assert "encryptionsalt" not in (served.folder / "Pulumi.local.yaml").read_text(encoding="utf-8")
    assert stack_config("local", served.folder) == stack_config("local")
