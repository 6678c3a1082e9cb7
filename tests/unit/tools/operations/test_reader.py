"""What is read, and what is left out because it may not be."""

import json

import pytest

from athanor.inspection.containers import LogReference
from tools.operations.reader import last_lines, read, read_for_status
from tools.process import CommandError

KINDS = {
    "jobs.batch.volcano.sh": "Job", "events": "Event", "persistentvolumeclaims": "PersistentVolumeClaim",
    "resourcequotas": "ResourceQuota", "deployments.apps": "Deployment", "services": "Service", "pods": "Pod",
    "podgroups.scheduling.volcano.sh": "PodGroup", "queues.scheduling.volcano.sh": "Queue", "nodes": "Node",
    "priorityclasses.scheduling.k8s.io": "PriorityClass",
}  # fmt: skip
OF_THE_NAMESPACE = list(KINDS)[:6]
FORBIDDEN = 'Error from server (Forbidden): pods is forbidden: User "team" cannot list resource "pods"'


def kinds_of(snapshot) -> list[str]:
    read_kinds = [
        snapshot.jobs, snapshot.events, snapshot.claims, snapshot.quotas, snapshot.deployments, snapshot.services,
        snapshot.pods, snapshot.pod_groups, snapshot.queues, snapshot.nodes, snapshot.priority_classes,
    ]  # fmt: skip
    return [each["kind"] for [each] in read_kinds]


def items(*resources: str) -> str:
    return json.dumps({"items": [{"kind": KINDS[each]} for each in resources]})


def test_everything_is_read_by_two_programs(kubectl, fake_program):
    wide = [each for each in KINDS if each not in OF_THE_NAMESPACE]
    fake_program.answer(f"get {','.join(OF_THE_NAMESPACE)} -n athanor ", items(*OF_THE_NAMESPACE))
    fake_program.answer(f"get {','.join(wide)} --all-namespaces ", items(*wide))
    snapshot = read(kubectl, "athanor")
    assert kinds_of(snapshot) == list(KINDS.values())
    assert snapshot.unreadable == ()
    assert len(fake_program.lines) == 2


@pytest.mark.parametrize(
    ("part", "again"),
    [(",nodes,", list(KINDS)[6:]), (",services ", OF_THE_NAMESPACE)],
    ids=["of the cluster", "of the namespace"],
)
def test_where_not_all_is_given_at_once_that_half_is_read_one_by_one(kubectl, fake_program, part, again):
    for half in (OF_THE_NAMESPACE, [each for each in KINDS if each not in OF_THE_NAMESPACE]):
        if part.strip(" ,") not in half:
            fake_program.answer(f"get {','.join(half)} ", items(*half))
    fake_program.answer(part, items(), stderr="error: the server doesn't have a resource type", status=1)
    for resource in KINDS:
        fake_program.answer(f"get {resource} ", items(resource))
    fake_program.answer("get", items())
    snapshot = read(kubectl, "athanor")
    assert kinds_of(snapshot) == list(KINDS.values())
    assert snapshot.unreadable == ()
    singly = [line.split(" get ")[1] for line in fake_program.lines if "," not in line]
    assert sorted(line.split()[0] for line in singly) == sorted(again)


def test_a_team_with_a_role_in_its_namespace_sees_that(kubectl, fake_program):
    fake_program.answer("--all-namespaces", stderr=FORBIDDEN, status=1)
    fake_program.answer("get pods -n team", json.dumps({"items": [{"kind": "Pod"}]}))
    fake_program.answer("-n team", json.dumps({"items": []}))
    snapshot = read(kubectl, "team")
    assert snapshot.pods == [{"kind": "Pod"}]
    assert snapshot.nodes == []
    assert set(snapshot.unreadable) == {
        "pods of other namespaces", "podgroups of other namespaces", "queues", "nodes", "priorityclasses",
    }  # fmt: skip


def test_a_status_leaves_out_what_may_not_be_read_even_in_the_namespace(kubectl, fake_program):
    fake_program.answer("--all-namespaces", stderr=FORBIDDEN, status=1)
    fake_program.answer("get jobs.batch.volcano.sh -n team", items("jobs.batch.volcano.sh"))
    fake_program.answer("-n team", stderr=FORBIDDEN, status=1)
    snapshot = read_for_status(kubectl, "team")
    assert [len(each) for each in (snapshot.jobs, snapshot.deployments, snapshot.pods)] == [1, 0, 0]
    assert set(snapshot.unreadable) == {"deployments", "services", "pods", "queues", "nodes", "priorityclasses"}


@pytest.mark.parametrize(("asked", "said"), [("-n team", FORBIDDEN), ("get", "connection refused")])
def test_what_a_cause_depends_on_is_not_left_out(kubectl, fake_program, asked, said):
    fake_program.answer(asked, stderr=said, status=1)
    fake_program.answer("get", items())
    with pytest.raises(CommandError, match=r"Forbidden|connection refused"):
        read(kubectl, "team")


def test_last_lines_are_those_of_the_run_that_failed(kubectl, fake_program):
    fake_program.answer("logs pod-0 -n athanor -c worker --tail=400 --previous", "before\n")
    fake_program.answer("logs pod-0 -n athanor -c worker --tail=400", "now\nand now\n")
    fake_program.answer("logs pod-1", stderr="NotFound", status=1)
    assert last_lines(kubectl, "athanor", LogReference(pod="pod-0", container="worker")) == ["now", "and now"]
    assert last_lines(kubectl, "athanor", LogReference(pod="pod-0", container="worker", previous=True)) == ["before"]
    assert last_lines(kubectl, "athanor", LogReference(pod="pod-1", container="worker")) == []
