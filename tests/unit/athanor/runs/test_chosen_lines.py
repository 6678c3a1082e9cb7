"""`athanor logs --rank --tail --since --previous`: which lines are printed, from nodes and from the log store."""

from __future__ import annotations

import pytest

from athanor.command_line import parser
from athanor.runs.chosen_lines import is_chosen, print_chosen
from infra.errors import RefusalError
from tests.unit.athanor.runs.test_past_lines import JOB, LABEL, Cluster
from tests.unit.tools.operations.stored_logs import StoredLogs

_LATER = 10 * 1_000_000
"""Microseconds after the first attempt, when the second begins."""
_TASKS = [{"name": "worker", "replicas": 2, "template": {"spec": {"containers": [{"name": "worker"}]}}}]


class _Job(Cluster):
    """A job of two pods, which run if there are any."""

    def find(self, _kind: str, _name: str):
        job = super().find(_kind, _name)
        return job and {"metadata": {"name": JOB}, "spec": {"tasks": _TASKS}, **job}

    def items(self, _kind: str, _selector: str):
        return [
            {
                "metadata": {"name": name, "creationTimestamp": "2026-11-21T10:00:10Z"},
                "spec": {"containers": [{"name": "worker"}]},
                "status": {"phase": "Running"},
            }
            for name in self._pods
        ]


@pytest.fixture
def logs():
    return StoredLogs()


@pytest.fixture
def past(logs, tmp_path):
    """The cluster with the log store, in which the job has these pods."""
    with logs.serve() as address:
        script = f"echo 'Forwarding from {address} -> 9428'; exec sleep 600"
        yield lambda *pods: _Job(tmp_path, script, phase="Running" if pods else "Completed", pods=pods)


def chosen(cluster: Cluster, capsys, *words: str) -> list[str]:
    arguments = parser().parse_args(["logs", "train", *words])
    assert is_chosen(arguments)
    print_chosen(arguments, cluster, JOB)
    return capsys.readouterr().out.splitlines()


def test_lines_of_pods_that_are_there_come_from_kubectl(tmp_path, capsys):
    said = 'case "$*" in *worker-0*) echo a ;; *) echo b ;; esac'
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


@pytest.mark.parametrize("words", [("--since", "10"), ("--tail", "-1"), ("--since", "1w"), ("--rank", "x")])
def test_other_words_than_numbers_and_times_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["logs", "train", *words])
    assert words[0] in capsys.readouterr().err
