"""What `athanor why` prints, from the objects of a cluster and the lines of other jobs."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from athanor.command_line import parser
from athanor.inspection.commands import ATHANOR
from athanor.inspection.reader import Asked
from athanor.runs import why as module
from athanor.runs.job import Log
from athanor.runs.past_lines import PastLine
from athanor.runs.series import read_series
from athanor.runs.why import why
from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.athanor.inspection.cluster_objects import (
    NAMESPACE,
    NOW,
    container,
    gpu_node,
    gpu_spec,
    group,
    job,
    pods,
    queue,
    task,
)

KINDS = {
    "Job": "jobs.batch.volcano.sh", "Pod": "pods", "PodGroup": "podgroups.scheduling.volcano.sh", "Node": "nodes",
    "Queue": "queues.scheduling.volcano.sh", "PersistentVolumeClaim": "persistentvolumeclaims",
}  # fmt: skip
CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {"name": "training-data"}, "status": {"phase": "Bound"}}


class Cluster:
    """A namespace with some objects, of which a team may not read what is forbidden."""

    namespace = NAMESPACE

    def __init__(self, forbidden: tuple[str, ...] = (), logs: str = "", **objects) -> None:
        self.objects = [{"kind": kind, **each} for kind, many in objects.items() for each in many] + [CLAIM]
        self.forbidden, self.logs = forbidden, logs
        self.calls: list[tuple[str, ...]] = []
        self.asked = Asked(run=self.run, items=self.items, failure=RefusalError)

    def items(self, kind: str, namespace: str | None, selector: str = ""):
        del selector
        kinds = kind.split(",")
        if namespace is None and any(each in self.forbidden for each in kinds):
            raise RefusalError("kubectl", "get", "Error from server (Forbidden): not you", "-")
        return [each for each in self.objects if KINDS[each["kind"]] in kinds]

    def run(self, *words: str) -> str:
        self.calls.append(words)
        return self.logs


@pytest.fixture(autouse=True)
def _now(monkeypatch):
    class Clock:
        @staticmethod
        def now(_):
            return NOW

    monkeypatch.setattr(module, "datetime", Clock)


def busy(monkeypatch, **more) -> Cluster:
    """All GPUs of a node are another job's, which has 100 steps left and makes one in 6 s; two jobs wait."""
    other = job("other", task("worker", 1, gpu_spec(8)), phase="Running")
    mine, later = job("mine", task("worker", 1, gpu_spec(8))), job("later", created="2026-11-21T11:00:00Z")
    lines = [{"step": 1, "loss": 2.0, "total_steps": 102}, {"step": 2, "loss": 1.0}]
    stamps = ["2026-11-21T12:30:00.000000000Z", "2026-11-21T12:30:06.000000000Z"]
    text = "\n".join(f"{at} {json.dumps(line)}" for at, line in zip(stamps, lines, strict=True))
    series = {"other-0a1b2c3d": read_series(text)}
    monkeypatch.setattr(module, "series_if_any", lambda _, name: series[name])
    return Cluster(
        Job=[other, mine, later], Pod=[*pods(other, "a10-0"), *pods(mine)], PodGroup=[group(mine), group(later)],
        Queue=[queue()], Node=[gpu_node("a10-0")], **more,
    )  # fmt: skip


def test_a_run_that_waits_shows_its_place_and_when_it_can_start(monkeypatch, capsys):
    why(busy(monkeypatch), "mine-0a1b2c3d", as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mine  Pending  age 2h30m, 0 restarts, queue training: number 1 of 2 that wait"
    assert lines[1] == "  worker-0  waiting for a node"
    assert lines[2].startswith("why: not enough free GPUs for mine ")
    assert "`athanor status` shows who uses what" in lines[2]
    assert "make" not in lines[2]
    assert lines[3] == "start: room for all of it about in 10m 0s (2026-11-21 12:40 UTC), when other has ended"


def test_the_same_for_programs(monkeypatch, capsys):
    why(busy(monkeypatch), "mine-0a1b2c3d", as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert (said["run"], said["cause"], said["position"], said["waiting"]) == ("mine", "no-room", 1, 2)
    at = (NOW + timedelta(seconds=600)).isoformat()
    assert said["start"] == {
        "at": at, "latest": False, "after": ["other"], "ahead": 0,
        "ends": [{"run": "other", "at": at, "by": "steps left"}],
    }  # fmt: skip


def test_a_team_that_may_not_see_the_cluster_sees_the_ends_of_its_own(monkeypatch, capsys):
    wide = ("nodes", "queues.scheduling.volcano.sh", "priorityclasses.scheduling.k8s.io")
    why(busy(monkeypatch, forbidden=wide), "mine-0a1b2c3d", as_json=False)
    said = capsys.readouterr()
    assert said.out.splitlines()[-2:] == [
        "start: not known; running jobs that are expected to end:",
        "  other: in 10m 0s (2026-11-21 12:40 UTC) (steps left)",
    ]
    assert "does not have the right to list queues, nodes, priorityclasses" in said.err


_AT = "2026-11-21T12:00:00Z"


def test_a_failed_run_shows_the_end_of_its_log(capsys):
    lost = job("mine", task("worker", 1, gpu_spec(1)), phase="Failed")
    ended = [container(terminated={"exitCode": 1, "reason": "Error"})]
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no \x1b[31mdata'
    cluster = Cluster(
        Job=[lost], Pod=pods(lost, "a10-0", phase="Failed", containerStatuses=ended),
        logs=f"{_AT} begun\n{_AT} {json.dumps({'level': 'error', 'message': trace})}\nunable to retrieve logs",
    )  # fmt: skip
    why(cluster, "mine-0a1b2c3d", as_json=False)
    said = capsys.readouterr().out
    assert "start it again with `athanor run --replace --name mine …`" in said
    assert "start:" not in said
    assert said.splitlines()[-1] == "  mine-0a1b2c3d-worker-0: ValueError: no data"
    assert cluster.calls == [("logs", "mine-0a1b2c3d-worker-0", "--container=worker", "--tail=400", "--timestamps")]


@each_row(
    ("owner", "step"),
    [
        ("athanor-runs-mine-0a1b2c3d", "then start it again with `athanor run --replace --name mine …`"),
        ("vision-prod-0a1b2c3d", "then run `pulumi up` with the program that declares it, or `athanor rerun mine`"),
    ],
)
def test_what_was_corrected_takes_effect_as_the_job_was_started(owner, step):
    failed = job("mine", task("worker", 1, gpu_spec(1)), phase="Failed", owner=owner)
    ended = [container(terminated={"exitCode": 1, "reason": "Error"})]
    cluster = Cluster(Job=[failed], Pod=pods(failed, phase="Failed", containerStatuses=ended))
    assert step in module.finding_of(cluster, "mine-0a1b2c3d").sentence


def test_every_command_that_a_sentence_names_exists():
    resume = ATHANOR.look_again.split("`")[1]
    for words in (ATHANOR.logs, ATHANOR.rerun, resume):
        parser().parse_args(words.format("train-1").split()[1:])


def _restarted(monkeypatch, *texts: str) -> Cluster:
    """A job that runs again, with what its pod printed before."""
    log = Log(job_name="mine", pod="mine-worker-0", container="worker", is_program=True)
    lines = [PastLine(time=f"2026-11-21T12:00:0{place}Z", log=log, text=text) for place, text in enumerate(texts)]
    monkeypatch.setattr(module, "earlier_lines", lambda *_: lines)
    limited = {**container(), "resources": {"limits": {"memory": "1536Mi"}}}
    mine = job("mine", task("worker", 1, {"containers": [limited]}), phase="Running", status={"retryCount": 1})
    return Cluster(Job=[mine], Pod=pods(mine, phase="Running"), Queue=[queue()])


@each_row(
    ("code", "words"),
    [
        ("1", ("(exit code 1)", "correct the program", "run --replace --name mine")),
        ("137", ("lack of memory", "raise --memory to 3Gi (/dev/shm counts towards it, it had 1536Mi)")),
    ],
)
def test_of_a_job_that_runs_again_the_cause_of_before_is_named(code, words, monkeypatch, capsys):
    failed = f"athanor: attempt 1 of 3 ended with exit code {code}; all pods start again"
    cluster = _restarted(monkeypatch, "Traceback (most recent call last):", "  a", "ValueError: nan", failed)
    why(cluster, "mine", as_json=False)
    said = capsys.readouterr().out
    assert "before: worker-0: its program failed at 2026-11-21T12:00:03Z" in said
    assert all(each in said for each in words)
    assert "mine-worker-0: ValueError: nan" in said


def test_of_a_job_whose_pods_were_taken_away_that_is_said(monkeypatch, capsys):
    why(_restarted(monkeypatch, "step 1"), "mine", as_json=True)
    assert json.loads(capsys.readouterr().out)["before"].endswith("the program itself did not fail")
