"""What the engine says when a stack cannot work: one clear message, before anything is created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fixtures.clone import make_clone

if TYPE_CHECKING:
    from pathlib import Path

WRONG = {"digits": {"epoks": 3, "workers": 0}, "cluster": {"context": "prod"}, "namespace": "Team_A"}
PROBLEMS = (
    ("athanor:digits.epoks: ", "no such key", "did you mean epochs"),
    ("athanor:digits.workers = 0: ", "greater than or equal to 1"),
    ("athanor:cluster: ", "names context 'prod' but no kubeconfig"),
    ("athanor:namespace = 'Team_A': ", "RFC 1123"),
)


def test_a_stack_that_cannot_work_is_refused_at_preview(tmp_path: Path) -> None:
    clone = make_clone(tmp_path / "clone", tmp_path / "home")
    clone.make("tools")
    clone.pulumi("stack", "init")

    not_up = clone.pulumi("preview", check=False)

    assert "kubeconfig" in not_up
    assert "make up" in not_up
    assert "Traceback" not in not_up

    clone.configure("local", **WRONG)

    wrong = clone.pulumi("preview", check=False)

    for key, *expected in PROBLEMS:
        [line] = [line for line in wrong.splitlines() if line.strip().startswith(f"- {key}")]
        assert "Fix:" in line
        for text in expected:
            assert text in line
    assert "Traceback" not in wrong
