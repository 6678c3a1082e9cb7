"""One change for each resource, whatever steps the engine takes for it."""

from __future__ import annotations

from typing import Any

from athanor.review.changes import Change, changes
from athanor.review.reading import read_preview
from athanor.review.values import Masker
from tests.tables import each_row
from tests.unit.athanor.review.digests import CONFIG_MAP, JOB, SECRET_MARK, digest, reported, reviewed, step, urn

EVERY_OPERATION = {
    "create": "created",
    "update": "changed",
    "delete": "deleted",
    "replace": "replaced",
    "create-replacement": "replaced",
    "delete-replaced": "replaced",
    "read-replacement": "replaced",
    "import": "imported",
    "import-replacement": "replaced",
    "discard": "forgotten",
    "discard-replaced": "replaced",
    "remove-pending-replace": "forgotten",
    "diff": "changed",
    "an operation of tomorrow": "changed",
    "same": None,
    "read": None,
    "refresh": None,
    "extend-parameterize": None,
}


def changes_of(*steps: dict[str, Any]) -> list[Change]:
    return changes(read_preview(digest(*steps)), Masker())


@each_row(("operation", "kind"), EVERY_OPERATION.items())
def test_every_operation_of_the_engine_is_a_kind_of_change(operation: str, kind: str | None) -> None:
    listed = changes_of(step(operation, old={"a": 1}, new={"a": 2}))
    assert [change.kind for change in listed] == ([kind] if kind else [])


@each_row(
    "order",
    [
        ("create-replacement", "replace", "delete-replaced"),
        ("delete-replaced", "replace", "create-replacement"),
        ("replace",),
        ("delete", "create"),
        ("create-replacement", "delete"),
    ],
)
def test_a_replacement_is_one_change(order: tuple[str, ...]) -> None:
    [change] = changes_of(*(step(operation, old={"a": 1}, new={"a": 2}, replaceReasons=["a"]) for operation in order))
    assert (change.kind, change.reasons) == ("replaced", ("a",))
    assert [each.path for each in change.differences] == ["a"]


def test_the_reason_of_a_replacement_may_be_in_the_details_alone() -> None:
    detailed = {"b": {"kind": "update"}, "a": {"kind": "add-replace"}}
    [change] = changes_of(step("replace", old={}, new={"a": 2}, detailedDiff=detailed))
    assert change.reasons == ("a",)


def test_the_leftover_of_an_earlier_replacement_is_deleted_and_the_rest_stays() -> None:
    leftover = step("delete", old={"a": 1})
    leftover["oldState"]["delete"] = True
    kinds = [change.kind for change in changes_of(step("update", old={"a": 2}, new={"a": 3}), leftover)]
    assert kinds == ["deleted", "changed"]


def test_what_is_retained_is_forgotten_and_not_deleted() -> None:
    retained = step("delete", old={"a": 1})
    retained["oldState"]["retainOnDelete"] = True
    assert [change.kind for change in changes_of(retained)] == ["forgotten"]
    assert "stays, but no longer belongs to the stack" in reported(retained)


def test_a_changed_secret_is_named_though_both_sides_are_blinded() -> None:
    text = reported(
        step("update", old={"a": "[secret]"}, new={"a": "[secret]"}, detailedDiff={"a": {"kind": "update"}})
    )
    assert "! a: changes; the values are secret or not in the preview" in text
    files = step("update", old={"a": 1}, new={"a": 1}, detailedDiff={'data["__init__.py"]': {"kind": "update"}})
    assert '! data["__init__.py"]: changes; the values' in reported(files)
    named = {"__defaults": {"kind": "update"}, "t.__defaults[0]": {"kind": "add"}}
    assert "__defaults" not in reported(step("update", old={"a": 1}, new={"a": 1}, detailedDiff=named))


def test_a_secret_that_changes_is_a_difference_without_content() -> None:
    old, new = ({"a": {**SECRET_MARK, "ciphertext": text}} for text in ("v1:abc", "v1:def"))
    assert "! a: [secret] → [secret]" in reported(step("update", old=old, new=new))


@each_row("missing", ["oldState", "newState"])
def test_without_a_state_the_provider_s_paths_are_listed(missing: str) -> None:
    one = step("update", old={"a": 1}, new={"a": 2}, detailedDiff={"a.b[0]": {"kind": "update"}})
    del one[missing]
    assert "a.b[0]" in reported(one)


def test_changes_are_grouped_by_component() -> None:
    parents = ("athanor:infra:Platform", "athanor:infra:NodePools")
    one = step("create", new={}, parents=parents)
    one["newState"]["parent"] = urn("athanor:infra:NodePools", "node-pools", "athanor:infra:Platform")
    text = reported(one, step("create", name="other", new={}))
    assert "<summary><code>Platform</code> / <code>NodePools</code> <code>node-pools</code>: 1 created" in text
    assert "<summary>Outside of components: 1 created" in text


def test_the_order_of_the_steps_changes_nothing() -> None:
    steps = [
        step("update", name="b", old={"a": 1}, new={"a": 2}),
        step("delete", JOB, "a", {"a": 1}),
        step("create", name="c", new={}),
        step("create", "a:b:C", "c", new={}),
    ]
    assert reported(*steps) == reported(*reversed(steps))


def test_components_are_not_counted() -> None:
    component = step("create", "other:team:Thing", "thing", new={})
    component["newState"]["custom"] = False
    counts = reviewed(component, step("create", CONFIG_MAP, new={})).counts
    assert counts["created"] == 1
