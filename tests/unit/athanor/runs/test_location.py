"""Which job a question about a run is for, with the engine and without."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from athanor.runs import stack
from athanor.runs.history import Seen
from athanor.runs.location import locate_to_read
from infra.errors import RefusalError

RUN, JOB = "lr", "lr-0123abcd"


@dataclass
class Cluster:
    """The namespace of the jobs."""

    jobs: dict[str, dict] = field(default_factory=dict)
    namespace: str = ""
    server: str = "https://10.0.0.1:6443"

    def within(self, namespace):
        return Cluster(self.jobs, namespace)

    def find(self, _kind, name):
        return self.jobs.get(name) if self.namespace == "team" else None


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@pytest.fixture
def engine(monkeypatch):
    """Names of the runs whose stacks the engine was asked for."""
    asked = []
    monkeypatch.setattr(stack, "open_run", lambda run: asked.append(run) or run)
    monkeypatch.setattr(stack, "outputs_of", lambda _: {"job_name": "lr-of-the-stack", "namespace": "team"})
    return asked


def job(run):
    return {"metadata": {"name": JOB, "labels": {"athanor.dev/job": run}}}


def place(cluster):
    where, job_name = locate_to_read(cluster, RUN)
    return where.namespace, job_name


def test_a_run_that_was_seen_needs_no_engine(engine):
    Seen(outputs={"job_name": JOB, "namespace": "team"}).keep(RUN)
    assert place(Cluster({JOB: job(RUN)})) == ("team", JOB)
    assert engine == []


@pytest.mark.parametrize("jobs", [{}, {JOB: job("another")}], ids=["gone", "of-another-run"])
def test_a_job_that_is_not_there_any_more_is_not_believed(engine, jobs):
    Seen(outputs={"job_name": JOB, "namespace": "team"}).keep(RUN)
    assert place(Cluster(jobs)) == ("team", "lr-of-the-stack")
    assert engine == [RUN]


@pytest.mark.parametrize("outputs", [None, {}], ids=["never-seen", "never-started"])
def test_what_was_not_seen_is_asked_of_the_stack(engine, outputs):
    if outputs is not None:
        Seen(outputs=outputs).keep(RUN)
    assert place(Cluster({JOB: job(RUN)})) == ("team", "lr-of-the-stack")
    assert engine == [RUN]


@pytest.mark.usefixtures("engine")
def test_a_run_of_another_cluster_is_not_looked_for_here(monkeypatch):
    recorded = {"job_name": JOB, "namespace": "team", "server": "10.0.0.2:6443"}
    monkeypatch.setattr(stack, "outputs_of", lambda _: recorded)
    with pytest.raises(RefusalError, match=r"run = 'lr': was started in the cluster at 10\.0\.0\.2:6443"):
        place(Cluster({}))
    assert place(Cluster({JOB: job(RUN)})) == ("team", JOB)


def test_questions_that_the_cluster_answers_do_not_import_the_engine():
    code = "import sys, athanor.runs.questions, athanor.runs.status; sys.exit('pulumi' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
