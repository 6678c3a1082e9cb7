"""`athanor logs`: which lines are printed, from nodes and from the log store."""

from __future__ import annotations

import pytest

from athanor.command_line import parser
from athanor.runs.logs import logs as print_logs
from infra.errors import RefusalError
from tests.unit.athanor.runs.test_past_lines import JOB, LABEL, RESUMED, Cluster
from tests.unit.tools.operations.stored_logs import StoredLogs

_LATER = 10 * 1_000_000
"""Microseconds after the first attempt, when the second begins."""
_TASKS = [{"name": "worker", "replicas": 2, "template": {"spec": {"containers": [{"name": "worker"}]}}}]


class _Job(Cluster):
    """A job of two pods, which run if there are any."""

    def find(self, _kind: str, _name: str):
        job = super().find(_kind, _name)
        return job and {**job, "spec": {"tasks": _TASKS}}


@pytest.fixture
def logs():
    return StoredLogs()


@pytest.fixture
def past(logs, tmp_path):
    """The cluster with the log store, in which the job has these pods."""
    with logs.serve() as address:
        forwards = f"*port-forward*) echo 'Forwarding from {address} -> 9428'; exec sleep 600;;"
        script = f'case "$*" in {forwards} esac; echo 2026-01-01T10:00:00Z now'
        yield lambda *pods: _Job(tmp_path, script, phase="Running" if pods else "Completed", pods=pods)


def chosen(cluster: Cluster, capsys, *words: str) -> list[str]:
    arguments = parser().parse_args(["logs", "train", *words])
    assert print_logs(arguments, cluster, JOB) == 0
    return capsys.readouterr().out.splitlines()


def test_lines_of_pods_that_are_there_come_from_kubectl(tmp_path, capsys):
    said = 'case "$*" in *worker-0*) echo 2026-01-01T10:00:00Z a ;; *) echo 2026-01-01T10:00:00Z b ;; esac'
    cluster = _Job(tmp_path, said, phase="Running", pods=(f"{JOB}-worker-0", f"{JOB}-worker-1"))
    assert chosen(cluster, capsys, "--tail", "3", "--since", "2h") == ["[worker-0] a", "[worker-1] b"]
    assert chosen(cluster, capsys, "--rank", "1") == ["[worker-1] b"]
    assert chosen(cluster, capsys, "--rank", "0", "--tail", "0", "--follow") == ["[worker-0] a"]
    asked = cluster.asked.read_text(encoding="utf-8").splitlines()
    assert sorted(line.partition("--timestamps")[2].strip() for line in asked) == sorted(
        ["--tail=3 --since=7200s"] * 2 + [""] + ["--follow --tail=0"]
    )
    with pytest.raises(RefusalError, match="--rank = 2: the run has 2 ranks, the first is 0"):
        chosen(cluster, capsys, "--rank", "2")


def test_lines_of_pods_that_are_gone_come_from_the_log_store(past, logs, capsys):
    for number in range(3):
        logs.add(number, f"{JOB}-worker-0", f"first {number}", **LABEL)
        logs.add(number, f"{JOB}-worker-1", f"second {number}", **LABEL)
    assert chosen(past(), capsys, "--rank", "1") == [f"[worker-1] second {number}" for number in range(3)]
    assert sorted(chosen(past(), capsys, "--tail", "1")) == ["[worker-0] first 2", "[worker-1] second 2"]
    assert chosen(past(), capsys, "--since", "1s") == []


def test_the_lines_before_a_restart_come_from_the_log_store(past, logs, capsys):
    logs.add(1, f"{JOB}-worker-0", "before", **LABEL)
    logs.add(_LATER + 1, f"{JOB}-worker-0", "now", **LABEL)
    assert chosen(past(f"{JOB}-worker-0"), capsys, "--previous") == ["[worker-0] before"]
    logs.rows.pop(0)
    with pytest.raises(RefusalError, match=r"--previous = .*: has no earlier attempt in the log store"):
        chosen(past(f"{JOB}-worker-0"), capsys, "--previous")


def test_what_pods_wrote_before_they_started_again_comes_first(past, logs, capsys):
    logs.add(1_000_000, f"{JOB}-worker-0", "before", **LABEL)
    logs.add(1_000_000, f"{JOB}-worker-1", "too", **LABEL)
    logs.add(_LATER + 1, f"{JOB}-worker-0", "now", **LABEL)
    cluster = past(f"{JOB}-worker-0", f"{JOB}-worker-1")
    now = ["[worker-0] now", "[worker-1] now"]
    assert chosen(cluster, capsys) == now
    cluster.status = RESUMED
    assert sorted(chosen(cluster, capsys)[:2]) == ["[worker-0] before", "[worker-1] too"]
    assert chosen(cluster, capsys)[2:] == now
    assert chosen(cluster, capsys, "--rank", "1") == ["[worker-1] too", "[worker-1] now"]
    assert chosen(cluster, capsys, "--since", "1s") == now
    assert chosen(cluster, capsys, "--tail", "9") == now


def test_what_cannot_be_read_of_earlier_starts_is_said_once(tmp_path, capsys):
    script = "case \"$*\" in *port-forward*) echo '(NotFound)' >&2; exit 1;; esac; echo 2026-01-01T10:00:00Z now"
    cluster = _Job(tmp_path, script, phase="Running", pods=(f"{JOB}-worker-0", f"{JOB}-worker-1"))
    cluster.status = RESUMED
    arguments = parser().parse_args(["logs", "train"])
    assert print_logs(arguments, cluster, JOB) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == ["[worker-0] now", "[worker-1] now"]
    assert said.err.count("the platform has no log store") == 1


@pytest.mark.parametrize("words", [("--since", "10"), ("--tail", "-1"), ("--since", "1w"), ("--rank", "x")])
def test_other_words_than_numbers_and_times_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["logs", "train", *words])
    assert words[0] in capsys.readouterr().err
