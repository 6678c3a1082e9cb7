"""What the engine says when a stack cannot work: one clear message, before anything is created."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clone import Clone, make_clone

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    clone = make_clone(tmp_path / "clone", tmp_path / "home")
    clone.make("tools")
    clone.pulumi("stack", "init")
    return clone


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("athanor:digits.epoks", "3", ["athanor:digits.epoks", "no such key", "did you mean epochs"]),
        ("athanor:digits.workers", "0", ["athanor:digits.workers = 0", "greater than or equal to 1", "Fix:"]),
        ("athanor:cluster.context", "prod", ["names context 'prod' but no kubeconfig", "Fix:"]),
        ("athanor:namespace", "Team_A", ["'Team_A'", "RFC 1123", "Fix:"]),
    ],
)
def test_a_wrong_setting_is_refused_at_preview(clone: Clone, key: str, value: str, expected: list[str]) -> None:
    clone.pulumi("config", "set", "--path", key, value)

    printed = clone.pulumi("preview", check=False)

    for text in expected:
        assert text in printed
    assert "Traceback" not in printed


def test_a_cluster_that_is_not_up_is_named_with_the_command_that_starts_it(clone: Clone) -> None:
    printed = clone.pulumi("preview", check=False)

    assert "kubeconfig" in printed
    assert "make up" in printed
    assert "Traceback" not in printed
