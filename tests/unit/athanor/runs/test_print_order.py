"""Which pod's lines are a job's: that of the role that prints, whatever the kind of the job."""

from __future__ import annotations

import json
from functools import partial

import pytest

from athanor.runs import job, readers
from athanor.runs.follow import follow_to_the_end
from athanor.runs.job import print_order
from athanor.runs.pod_series import series_of
from tests.tables import each_row

JOB = "train-0a1b2c3d"


class Cluster:
    """A completed job whose kubectl prints the name of the pod whose log it is asked for, as a number of its step 1."""

    namespace = "team"
    asked = None
    """Nobody asks why a job that has pods has none."""

    def __init__(self, folder, pods: list[str]) -> None:
        self._pods = [f"{JOB}-{pod}" for pod in pods]
        program = folder / "kubectl"
        printed = r"""'{"step": 1, "%s": 1}\n'"""
        stamp = 'case "$*" in *--timestamps*) printf "2026-11-26T10:00:00Z ";; esac'
        program.write_text(
            f"#!/bin/sh\nfor word; do case $word in {JOB}-*) {stamp}\n"
            f'printf {printed} "${{word#{JOB}-}}";; esac; done\n',
            encoding="utf-8",
        )
        program.chmod(0o755)
        self.prefix = [str(program)]

    def find(self, _kind: str, _name: str) -> dict:
        return {"status": {"state": {"phase": "Completed"}}}

    def run(self, *words: str) -> str:
        assert words == ("get", job.JOBS, f"--field-selector=metadata.name={JOB}", "--output=json")
        return json.dumps({"items": [self.find(job.JOBS, JOB)]})

    def items(self, _kind: str, selector: str) -> list[dict]:
        assert selector == f"volcano.sh/job-name={JOB}"
        return [
            {
                "metadata": {"name": name, "uid": name},
                "spec": {"containers": [{"name": "main"}]},
                "status": {"phase": "Running"},
            }
            for name in self._pods
        ]


JOBS = [
    (["worker-0", "worker-1", "launcher-0"], "launcher-0"),
    (["ps-0", "worker-0", "chief-0", "evaluator-0"], "chief-0"),
    (["evaluator-0", "worker-0", "worker-1"], "worker-0"),
    (["rendezvous-0", "worker-10", "worker-2"], "worker-2"),
    (["source-0", "worker-0"], "worker-0"),
    (["pod-10", "pod-0", "pod-2"], "pod-0"),
    (["rendezvous-0"], "rendezvous-0"),
]


@pytest.mark.parametrize(("pods", "printing"), JOBS)
def test_the_progress_is_read_from_the_pod_that_prints_it(tmp_path, pods, printing):
    assert series_of(Cluster(tmp_path, pods), JOB).names() == [printing]


@each_row(("pods", "printing"), JOBS)
def test_the_order_is_the_same_for_pods_that_are_gone(pods, printing):
    assert min((f"{JOB}-{pod}" for pod in pods), key=partial(print_order, JOB)) == f"{JOB}-{printing}"


def test_a_job_with_an_unusual_name_has_the_same_roles():
    assert min(["worker-0-worker-0", "worker-0-launcher-0"], key=partial(print_order, "worker-0")).endswith(
        "launcher-0"
    )


def test_of_a_large_job_the_pod_that_prints_is_followed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(readers, "MOST_PODS", 2)
    assert follow_to_the_end(Cluster(tmp_path, ["worker-0", "worker-1", "worker-2", "launcher-0"]), "train", JOB) == 0
    assert sorted(line.partition("]")[0] for line in capsys.readouterr().out.splitlines()) == [
        "[launcher-0",
        "[worker-0",
    ]
