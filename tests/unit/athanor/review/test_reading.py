"""Both formats of the engine say the same, and whatever else arrives is a failed preview."""

from __future__ import annotations

import json

from athanor.review.changes import changes
from athanor.review.reading import read_preview
from athanor.review.values import Masker
from tests.tables import each_row
from tests.unit.athanor.review.digests import CLUSTER, CONFIG_MAP, digest, step, urn

EVENTS = [
    {"sequence": 0, "preludeEvent": {"config": {}}},
    {
        "sequence": 1,
        "resourcePreEvent": {
            "metadata": {
                "op": "replace",
                "urn": urn(CLUSTER, "cluster"),
                "old": {"custom": True, "inputs": {"a": 1}},
                "new": {"custom": True, "inputs": {"a": 2}},
                "keys": ["a"],
                "detailedDiff": {"a": {"diffKind": "update-replace"}},
            }
        },
    },
    {"sequence": 2, "diagnosticEvent": {"message": "drawing", "severity": "info", "ephemeral": True}},
    {"sequence": 3, "diagnosticEvent": {"message": "careful\n", "severity": "warning"}},
    {
        "sequence": 4,
        "policyEvent": {
            "policyName": "no-public-api",
            "policyPackName": "athanor",
            "enforcementLevel": "mandatory",
            "message": "it is public",
            "resourceUrn": urn(CLUSTER, "cluster"),
        },
    },
]


def lines(*events: object) -> str:
    return "\n".join(json.dumps(event) for event in events)


def test_the_digest_and_the_events_say_the_same_of_steps_and_messages() -> None:
    said = [{"message": "careful\n", "severity": "warning"}]
    one = step(
        "replace", CLUSTER, "cluster", {"a": 1}, {"a": 2}, replaceReasons=["a"],
        detailedDiff={"a": {"kind": "update-replace", "inputDiff": False}},
    )  # fmt: skip
    of_digest, of_events = read_preview(digest(one, diagnostics=said)), read_preview(lines(*EVENTS))
    assert of_digest.steps == of_events.steps
    assert of_digest.diagnostics == of_events.diagnostics
    assert (of_digest.stack, of_events.stack) == ("dev", "dev")


def test_only_the_events_have_the_findings_of_policies() -> None:
    [finding] = read_preview(lines(*EVENTS)).findings
    assert (finding.policy, finding.pack, finding.mandatory) == ("no-public-api", "athanor", True)
    assert read_preview(lines(*EVENTS)).failed


def test_a_component_is_recognized_in_events_that_leave_false_out() -> None:
    event = {"resourcePreEvent": {"metadata": {"op": "create", "urn": urn("a:b:C", "c"), "new": {"inputs": {}}}}}
    [change] = changes(read_preview(lines({"sequence": 1, **event})), Masker())
    assert not change.custom


TAGGED = {"own": "1"}


@each_row(
    ("token", "old", "new", "listed"),
    [
        (CLUSTER, ({}, {"a": 1}), ({}, {"a": 2}), ["a"]),
        # Refreshed inputs have no new keys, and outputs more than what the program declares.
        (
            CLUSTER,
            ({"a": 1, "tags": TAGGED}, {"a": 1, "tags": TAGGED}),
            ({"a": 2}, {"a": 2, "tags": {"by": "hand"}, "b": 3}),
            ["a", "tags", "tags.by"],
        ),
        (
            CONFIG_MAP,
            ({"a": 1, "metadata": {}}, {"metadata": {}}),
            ({"a": 2}, {"metadata": {"managedFields": 1}}),
            ["a", "metadata"],
        ),
    ],
    ids=["outputs alone", "a tag by hand", "what the API server keeps"],
)
def test_a_refresh_becomes_what_the_provider_answered(
    token: str, old: tuple[object, object], new: tuple[object, object], listed: list[str]
) -> None:
    states = [{"custom": True, "inputs": inputs, "outputs": outputs} for inputs, outputs in (old, new)]
    before = {"op": "refresh", "urn": urn(token, "one"), "old": states[0]}
    after = {**before, "op": "update", "new": states[1]}
    events = [{"resourcePreEvent": {"metadata": before}}, {"resOutputsEvent": {"metadata": after}}]
    [change] = changes(read_preview(lines(*events)), Masker())
    assert [difference.path for difference in change.differences] == listed


def test_lines_around_the_json_are_ignored() -> None:
    text = f"warning: a new version is there\n{digest(step('create', new={}))}\nerror: preview failed\n"
    assert [each.operation for each in read_preview(text).steps] == ["create"]


@each_row("text", ["", " \n", "error: no stack named dev", "[]", '{"steps": [', "{" * 100_000, "null"])
def test_what_is_not_a_preview_is_a_failed_one(text: str) -> None:
    preview = read_preview(text, "prod")
    assert preview.failed
    assert preview.stack == "prod"


@each_row(
    "document",
    [
        {},
        {"steps": None, "diagnostics": None},
        {"steps": [None, 1, "a", {}, {"op": 1, "urn": [], "oldState": 3, "detailedDiff": []}]},
        {"steps": [{"op": "update", "urn": "not a URN"}]},
        {"steps": {"op": "update"}},
    ],
)
def test_what_the_engine_leaves_out_is_empty(document: object) -> None:
    preview = read_preview(json.dumps(document))
    assert not preview.failed
    changes(preview, Masker())


def test_an_error_fails_a_preview_and_a_warning_does_not() -> None:
    assert read_preview(digest(diagnostics=[{"severity": "error", "message": "x"}])).failed
    assert not read_preview(digest(diagnostics=[{"severity": "warning", "message": "x"}])).failed
