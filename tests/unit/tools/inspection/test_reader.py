"""What is read, and what is left out because it may not be."""

from __future__ import annotations

import json

import pytest

from tools.inspection.containers import LogReference
from tools.inspection.reader import last_lines, read
from tools.process import CommandError

KINDS = (
    "jobs.batch.volcano.sh", "events", "persistentvolumeclaims", "resourcequotas", "deployments.apps", "services",
    "pods", "podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh", "nodes",
    "priorityclasses.scheduling.k8s.io",
)  # fmt: skip
FORBIDDEN = 'Error from server (Forbidden): pods is forbidden: User "team" cannot list resource "pods"'


def test_everything_is_read_under_its_own_name(kubectl, fake_program):
    for kind in KINDS:
        fake_program.answer(f"get {kind} ", json.dumps({"items": [{"kind": kind}]}))
    found = read(kubectl, "athanor")
    read_kinds = [
        found.jobs, found.events, found.claims, found.quotas, found.deployments, found.services,
        found.pods, found.pod_groups, found.queues, found.nodes, found.priority_classes,
    ]  # fmt: skip
    assert [each["kind"] for [each] in read_kinds] == list(KINDS)
    assert found.unreadable == ()
    wide = {words.split(" get ")[1].split()[0] for words in fake_program.lines if "--all-namespaces" in words}
    assert wide == set(KINDS[6:])


def test_a_team_with_a_role_in_its_namespace_sees_that(kubectl, fake_program):
    fake_program.answer("--all-namespaces", stderr=FORBIDDEN, status=1)
    fake_program.answer("get pods -n team", json.dumps({"items": [{"kind": "Pod"}]}))
    fake_program.answer("-n team", json.dumps({"items": []}))
    found = read(kubectl, "team")
    assert found.pods == [{"kind": "Pod"}]
    assert found.nodes == []
    assert set(found.unreadable) == {
        "pods of other namespaces", "podgroups of other namespaces", "queues", "nodes", "priorityclasses",
    }  # fmt: skip


def test_another_failure_is_raised(kubectl, fake_program):
    fake_program.answer("get", stderr="connection refused", status=1)
    with pytest.raises(CommandError, match="connection refused"):
        read(kubectl, "athanor")


def test_last_lines_are_those_of_the_run_that_failed(kubectl, fake_program):
    fake_program.answer("logs pod-0 -n athanor -c worker --tail=5 --previous", "before\n")
    fake_program.answer("logs pod-0 -n athanor -c worker --tail=5", "now\nand now\n")
    fake_program.answer("logs pod-1", stderr="NotFound", status=1)
    assert last_lines(kubectl, "athanor", LogReference(pod="pod-0", container="worker")) == ["now", "and now"]
    assert last_lines(kubectl, "athanor", LogReference(pod="pod-0", container="worker", previous=True)) == ["before"]
    assert last_lines(kubectl, "athanor", LogReference(pod="pod-1", container="worker")) == []
