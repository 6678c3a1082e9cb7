from __future__ import annotations

import pytest

from infra.errors import RefusalError, choices


def test_a_refusal_names_field_value_limit_and_fix():
    refusal = RefusalError("workers", 0, "must be 1 to 9", "choose more")
    assert str(refusal) == "workers = 0: must be 1 to 9. Fix: choose more"
    assert (refusal.field, refusal.value, refusal.limit, refusal.fix) == ("workers", 0, "must be 1 to 9", "choose more")
    assert isinstance(refusal, ValueError)


@pytest.mark.parametrize(
    ("value", "valid", "fix"),
    [
        ("contxt", ["kubeconfig", "context"], "did you mean context?"),
        ("zzz", ["b", "a"], "use one of a, b"),
        ("a", [], "there is none to choose from"),
        ("worker", iter(["workers", "nodes"]), "did you mean workers?"),
    ],
)
def test_choices_are_near_ones_else_all(value, valid, fix):
    assert choices(value, valid) == fix


def test_at_most_three_near_names_are_offered():
    assert choices("node", [f"node{i}" for i in range(9)]).count("node") == 3
