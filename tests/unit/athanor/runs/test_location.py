"""Which job a question about a run is for, with the engine and without."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from athanor.runs import command, stack
from athanor.runs.engine_error import EngineError
from athanor.runs.history import Seen
from athanor.runs.location import locate, locate_to_read
from infra.errors import RefusalError

RUN, JOB = "lr", "lr-0123abcd"


@dataclass
class Cluster:
    """The namespace of the jobs."""

    jobs: dict[str, dict] = field(default_factory=dict)
    namespace: str = ""
    server: str = "https://10.0.0.1:6443"

    def within(self, namespace):
        return Cluster(self.jobs, namespace, has_typed_namespace=self.has_typed_namespace)

    def find(self, _kind, name):
        return self.jobs.get(name) if self.namespace == "team" else None

    def items(self, _kind, selector):
        label, _, value = selector.partition("=")
        jobs = self.jobs.values() if self.namespace == "team" else ()
        return [job for job in jobs if job["metadata"]["labels"].get(label) == value]

    def platform(self):
        return SimpleNamespace(namespace="team")

    has_typed_namespace: bool = False


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


@pytest.fixture
def no_stack(monkeypatch):
    def unknown(run, _variables=None):
        raise RefusalError("run", run, "is not in your Pulumi backend", "`athanor runs` lists yours")

    monkeypatch.setattr(stack, "open_run", unknown)


@pytest.mark.usefixtures("no_stack")
@pytest.mark.parametrize("namespace", ["team", ""])
@pytest.mark.parametrize("name", ["lr", JOB])
def test_a_job_that_somebody_else_declared_is_found_by_its_name_or_its_objects(namespace, name):
    cluster = Cluster({JOB: job("lr"), "x": job("y")}, namespace)
    for find in (locate, locate_to_read):
        where, job_name = find(cluster, name)
        assert (where.namespace, job_name) == ("team", JOB)


@pytest.mark.usefixtures("no_stack")
def test_of_several_jobs_one_must_be_named():
    second = {"metadata": {"name": "lr-2", "labels": {"athanor.dev/job": "lr"}}}
    cluster = Cluster({JOB: job("lr"), "lr-2": second}, "team")
    with pytest.raises(RefusalError, match=f"several jobs of namespace team. Fix: .*: {JOB}, lr-2"):
        locate(cluster, "lr")
    for name in ("other", "--all", "a/b", "Lr"):
        with pytest.raises(RefusalError, match="is not in your Pulumi backend"):
            locate(cluster, name)
    with pytest.raises(RefusalError, match="is not in your Pulumi backend"):
        locate(Cluster({JOB: job("lr")}, "elsewhere", has_typed_namespace=True), "lr")


def test_without_an_engine_a_job_of_the_cluster_is_found(monkeypatch):
    def no_engine(_run):
        raise EngineError("passphrase must be set")

    monkeypatch.setattr(stack, "open_run", no_engine)
    assert locate(Cluster({JOB: job("lr")}, "team"), "lr")[1] == JOB
    with pytest.raises(EngineError):
        locate(Cluster({}, "team"), "lr")


@pytest.mark.usefixtures("no_stack")
def test_what_only_its_owners_stack_can_do_says_so():
    other = job("lr")
    other["metadata"]["labels"]["athanor.dev/owner"] = "digits-prod"
    with pytest.raises(
        RefusalError, match=r"not in your Pulumi backend \(athanor.dev/owner=digits-prod\)\. Fix: let its own"
    ):
        command._own_stack("lr", Cluster({JOB: other}, "team"), {})
    with pytest.raises(RefusalError, match="`athanor runs` lists yours"):
        command._own_stack("gone", Cluster({JOB: other}, "team"), {})


def test_questions_that_the_cluster_answers_do_not_import_the_engine():
    modules = "athanor.runs.questions, athanor.runs.status, athanor.runs.overview"
    code = f"import sys, {modules}; sys.exit('pulumi' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
