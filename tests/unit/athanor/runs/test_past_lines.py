"""What a run without pods has printed: from a log store and a kubectl of these tests."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

import athanor.runs.watch as watch_module
from athanor.runs.past_lines import EarlierSteps, are_gone, past_lines, print_lines, whole_series
from athanor.runs.series import read_series
from athanor.runs.watch import watch
from infra.errors import RefusalError
from infra.monitoring import NAMESPACE, VICTORIA_LOGS
from tests.unit.tools.operations.stored_logs import START, StoredLogs

JOB = "train-0a1b2c3d"
LABEL = {"kubernetes.pod_labels.volcano.sh/job-name": JOB}
REPOSITORY = Path(__file__).resolve().parents[4]


class Cluster:
    """One whose kubectl is a script, with a job in a phase, or without it."""

    def __init__(self, folder: Path, script: str, *, phase: str | None = None, pods: tuple[str, ...] = ()) -> None:
        self.namespace, self._phase, self._pods = "ml", phase, pods
        self.status: dict[str, object] = {}
        self.created = "10:00:10"
        """When its pods were."""
        self.asked = folder / "asked"
        program = folder / "kubectl"
        program.write_text(f'#!/bin/sh\necho "$@" >> {self.asked}\n{script}\n', encoding="utf-8")
        program.chmod(0o755)
        self.prefix = [str(program), "--namespace=ml"]

    def within(self, namespace: str) -> Cluster:
        self.prefix = [self.prefix[0], f"--namespace={namespace}"]
        return self

    def find(self, _kind: str, _name: str) -> dict[str, object] | None:
        if self._phase is None:
            return None
        metadata = {"name": JOB, "creationTimestamp": "2026-11-21T10:00:00Z"}
        return {"metadata": metadata, "spec": {"tasks": []}, "status": {"state": {"phase": self._phase}, **self.status}}

    def items(self, _kind: str, _selector: str) -> list[dict[str, object]]:
        return [
            {
                "metadata": {"name": name, "creationTimestamp": f"2026-11-21T{self.created}Z"},
                "spec": {"containers": [{"name": "worker"}]},
                "status": {"phase": "Running"},
            }
            for name in self._pods
        ]


@pytest.fixture
def logs():
    return StoredLogs()


@pytest.fixture
def cluster(logs, tmp_path):
    """A cluster without the job, whose store is the tests'."""
    with logs.serve() as address:
        yield Cluster(tmp_path, f"echo 'Forwarding from {address} -> 9428'; exec sleep 600")


@pytest.mark.parametrize(
    ("phase", "pods", "gone"),
    [
        (None, (), True),
        ("Completed", (), True),
        ("Aborted", (), True),
        ("Pending", (), False),
        ("Restarting", (), False),
        ("Completed", ("train-worker-0",), False),
    ],
)
def test_pods_are_gone_only_after_they_were_there(tmp_path, phase, pods, gone):
    cluster = Cluster(tmp_path, "", phase=phase, pods=pods)
    assert are_gone(cluster.find("", JOB), cluster.items("", "")) == gone


def test_the_curve_of_an_mpi_job_is_that_of_its_launcher(cluster, logs):
    logs.add(1, f"{JOB}-worker-0", "missing _msg field; see", step="1", loss="9", **LABEL)
    logs.add(2, f"{JOB}-launcher-0", "missing _msg field; see", step="1", loss="0.5", **LABEL)
    assert whole_series(cluster, JOB).values("loss") == [0.5]


def test_the_curve_is_that_of_the_first_pod_by_time(cluster, logs):
    for place, pod, loss in [(3, "worker-0", "0.25"), (1, "worker-0", "0.5"), (2, "worker-10", "9")]:
        logs.add(place, f"{JOB}-{pod}", "missing _msg field; see", step=str(place), loss=loss, **LABEL)
    logs.add(4, f"{JOB}-worker-0", "done", **LABEL)
    series = whole_series(cluster, JOB)
    assert series.values("loss") == [0.5, 0.25]
    assert series.points[0].at == START + timedelta(microseconds=1)


def test_lines_are_printed_as_the_container_wrote_them(cluster, logs, capsys):
    logs.add(2, f"{JOB}-worker-1", "saved", **{"step": "10", "loss": "1e-3", "run": "007", **LABEL})
    logs.add(1, f"{JOB}-worker-0", "begun \x1b[31m", **LABEL)
    logs.add(3, f"{JOB}-worker-0", "of a namesake", **{next(iter(LABEL)): "train"})
    print_lines(past_lines(cluster, JOB), as_json=False)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("[worker-0] begun ")
    assert "\x1b" not in first
    printed = {"message": "saved", "step": 10, "loss": 0.001, "run": "007"}
    assert json.loads(second.removeprefix("[worker-1] ")) == printed
    print_lines(past_lines(cluster, JOB), as_json=True)
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["pod"], first["line"]) == (f"{JOB}-worker-0", "begun \x1b[31m")
    assert first["time"] < second["time"]
    assert json.loads(second["line"]) == printed


RESUMED = {"conditions": [{"status": "Running", "lastTransitionTime": "2026-11-21T10:00:01Z"}]}
"""Status of a job that ran before its pods were created that there are now."""
PRESENT = """2026-11-21T10:00:11Z {"step": 3, "loss": 0.2}
2026-11-21T10:00:13Z {"step": 5, "loss": 0.1}"""


@pytest.fixture
def resumed(logs, tmp_path):
    """A job that runs again from step 3 on, whose first two steps are in the store, as are those of its pod now."""
    for second, step, loss in [(2, 1, "0.5"), (3, 2, "0.4"), (11, 3, "0.2")]:
        fields = {"step": str(step), "loss": loss, **LABEL}
        logs.add(second * 1_000_000, f"{JOB}-worker-0", "missing _msg field; see", **fields)
    with logs.serve() as address:
        script = f"case \"$*\" in *port-forward*) echo 'Forwarding from {address} -> 9428'; exec sleep 600;; esac"
        cluster = Cluster(tmp_path, f"{script}\necho '{PRESENT}'", phase="Running", pods=(f"{JOB}-worker-0",))
        cluster.status = RESUMED
        yield cluster


def test_a_run_has_one_history_over_all_of_its_starts(resumed):
    series = whole_series(resumed, JOB)
    assert [point.step for point in series.points] == [1, 2, 3, 5]
    assert series.steps_per_second() == 1.0, "the time between two starts is none that its program took"
    resumed.status, resumed.created = {}, "10:00:00"
    assert [point.step for point in whole_series(resumed, JOB).points] == [3, 5]
    assert resumed.asked.read_text(encoding="utf-8").count("port-forward") == 1, "a job of one start has no earlier one"


def test_what_is_watched_is_the_whole_run(resumed, capsys, monkeypatch):
    watch(resumed, "train", JOB, as_json=True)
    assert json.loads(capsys.readouterr().out)["step"] == 5
    monkeypatch.setattr(watch_module, "series_if_any", lambda *_: read_series(""))
    watch(resumed, "train", JOB, as_json=True)
    assert json.loads(capsys.readouterr().out)["latest"]["loss"] == 0.4


def test_the_store_is_asked_once_for_each_start(resumed, logs):
    earlier = EarlierSteps(resumed, JOB)
    job = resumed.find("", JOB)
    for created, steps in [("10:00:10", [1, 2]), ("10:00:10", [1, 2]), ("10:00:20", [1, 2, 3])]:
        resumed.created = created
        assert [point.step for point in earlier.and_now(job, resumed.items("", ""), read_series("")).points] == steps
    assert sum("stats by" in each["query"] for each in logs.asked) == 2


def test_earlier_starts_that_cannot_be_read_are_named_once(tmp_path, capsys):
    script = "case \"$*\" in *port-forward*) echo 'Error from server (Forbidden): pods' >&2; exit 1;; esac"
    cluster = Cluster(tmp_path, f"{script}\necho '{PRESENT}'", phase="Running", pods=(f"{JOB}-worker-0",))
    cluster.status = {"retryCount": 1}
    assert [point.step for point in whole_series(cluster, JOB).points] == [3, 5]
    earlier, job = EarlierSteps(cluster, JOB), cluster.find("", JOB)
    for created in ("10:00:10", "10:00:20"):
        cluster.created = created
        earlier.and_now(job, cluster.items("", ""), read_series(""))
    assert capsys.readouterr().err.count("you have no access to the platform's log store") == 2


def test_a_store_without_lines_of_it_is_a_refusal(cluster):
    with pytest.raises(RefusalError, match="the log store has no lines of them"):
        past_lines(cluster, JOB)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("Error from server (Forbidden): pods is forbidden", "you have no access to the platform's log store"),
        ("Error from server (NotFound): pods not found", "the platform has no log store"),
        ("error: unable to connect", "unable to connect"),
    ],
)
def test_a_store_out_of_reach_is_a_refusal_that_says_why(tmp_path, said, message):
    with pytest.raises(RefusalError, match=message):
        past_lines(Cluster(tmp_path, f"echo '{said}' >&2; exit 1"), JOB)


def test_the_right_is_for_the_store_that_is_asked(cluster, logs):
    """The file names what the command uses, and nothing else of the namespace."""
    logs.add(1, f"{JOB}-worker-0", **LABEL)
    past_lines(cluster, JOB)
    [asked] = cluster.asked.read_text(encoding="utf-8").splitlines()
    assert asked == f"--namespace={NAMESPACE} port-forward --address=127.0.0.1 pod/{VICTORIA_LOGS}-0 :9428"
    role, _ = yaml.safe_load_all((REPOSITORY / "examples/team/past-logs.yaml").read_text(encoding="utf-8"))
    assert role["metadata"]["namespace"] == NAMESPACE
    assert {tuple(rule["resourceNames"]) for rule in role["rules"]} == {(f"{VICTORIA_LOGS}-0",)}
