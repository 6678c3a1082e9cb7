"""Following a run whose connections are cut, with a kubectl of this test: each log of it is the next of the test's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from athanor.inspection.containers import Finding
from athanor.runs import follow as module
from athanor.runs import patience, readers
from athanor.runs.follow import follow_to_the_end
from athanor.runs.job import Log
from athanor.runs.past_lines import PastLine
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

JOB = "train-0a1b2c3d"
KUBECTL = """#!/bin/sh
[ "$1" = logs ] || exit 1
number=$(cat {folder}/logs 2>/dev/null || echo 0)
echo $((number + 1)) > {folder}/logs
echo "$@" >> {folder}/words
[ -e {folder}/$number ] || exit 1
. {folder}/$number
"""
A, B, C = (f"2026-01-01T10:00:0{second}.5Z {name}" for second, name in enumerate("abc", 1))
AWAY = RefusalError("API server", "https://c", "does not answer", "check the network")
MISSING = "the cluster does not answer, waiting up to 5 minutes: does not answer\n"


class Cluster:
    """One with a job of one pod, whose user may not watch, and so asks again and again."""

    namespace = "team"
    asked = None
    """Nobody asks why a job that has pods has none."""

    def __init__(self, folder: Path) -> None:
        program = folder / "kubectl"
        program.write_text(KUBECTL.format(folder=folder), encoding="utf-8")
        program.chmod(0o755)
        self.prefix, self._folder = [str(program)], folder
        self.looks: list[Callable[[], str]] = []
        """What to do at the next questions for the job; then it runs until its last log has been read."""
        self._logs = 0

    def logs(self, *scripts: str) -> None:
        """Say what kubectl does each time that it is to print the log; the last time, the pod has ended."""
        self._logs = len(scripts)
        for number, script in enumerate(scripts):
            (self._folder / str(number)).write_text(script, encoding="utf-8")

    def log_words(self) -> list[str]:
        return (self._folder / "words").read_text(encoding="utf-8").splitlines()

    def find(self, *_: str) -> dict:
        return {"status": {"state": {"phase": self._phase()}}}

    def run(self, *words: str) -> str:
        if words[1] == "pods":
            return json.dumps({"items": self.items()})
        look = self.looks.pop(0) if self.looks else self._phase
        return json.dumps({"items": [{"status": {"state": {"phase": look()}}}]})

    def items(self, *_: str) -> list[dict]:
        spec, phase = {"containers": [{"name": "worker"}]}, {"Completed": "Succeeded"}.get(self._phase(), "Running")
        return [{"metadata": {"name": f"{JOB}-worker-0", "uid": "u"}, "spec": spec, "status": {"phase": phase}}]

    def _phase(self) -> str:
        file = self._folder / "logs"
        begun = int(file.read_text(encoding="utf-8") or 0) if file.exists() else 0
        return "Completed" if begun >= self._logs else "Running"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster of which is asked without a pause."""
    for name in ("_FIRST_DELAY_SECONDS", "_LAST_DELAY_SECONDS", "_REPORT_SECONDS"):
        monkeypatch.setattr(readers, name, 0.0)
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(patience, "_AWAY_SECONDS", 0.02)
    return Cluster(tmp_path)


def printing(*lines: str, cut: str = "") -> str:
    return "".join(f"echo '{line}'\n" for line in lines) + (f"printf %s '{cut}'\n" if cut else "")


def away() -> str:
    raise AWAY


def test_a_log_whose_connection_is_cut_is_read_on_without_a_line_twice_or_missing(cluster, capsys):
    cluster.logs(
        printing(A, B, B, cut=C[:-1]) + "echo 'error: unexpected EOF' >&2; exit 1",
        "echo 'error: unexpected EOF' >&2; exit 1",
        printing(A, B, B, B, C, cut=f"{C[:-1]}d"),
    )
    assert follow_to_the_end(cluster, "train", JOB) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == [word for line in "abbbcd" for word in ("[worker-0]", line)]
    assert printed.err == (
        "athanor: the log of worker-0 cannot be read now (error: unexpected EOF)\ntrain: Completed\n"
    )
    first, *others = cluster.log_words()
    assert "--since-time" not in first
    assert all(words.endswith("--timestamps --follow --since-time=2026-01-01T10:00:01Z") for words in others)


def test_a_log_that_ends_before_its_pod_is_read_on(cluster, capsys):
    cluster.logs(printing(A), printing(A, B))
    assert follow_to_the_end(cluster, "train", JOB, as_json=True) == 0
    assert [json.loads(line)["line"] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]


def test_a_node_that_refuses_at_first_is_asked_again(cluster, capsys):
    refusing = "echo 'Error from server: dial tcp 10.0.0.7:10250: connect: connection refused' >&2; exit 1"
    cluster.logs(refusing, refusing, printing(A))
    assert follow_to_the_end(cluster, "train", JOB) == 0
    printed = capsys.readouterr()
    assert printed.out == "[worker-0] a\n"
    assert printed.err.count("connection refused") == 1
    assert "--since-time" not in "".join(cluster.log_words())


def test_the_end_of_a_log_that_cannot_be_read_is_waited_for_a_while(cluster, monkeypatch, capsys):
    monkeypatch.setattr(readers, "_SILENT_SECONDS", 0.3)
    cluster.logs(printing(A, cut=B) + "exit 1")
    assert follow_to_the_end(cluster, "train", JOB) == 0
    assert capsys.readouterr().out.startswith("[worker-0] a\n")


def test_a_cluster_that_is_away_for_a_while_ends_nothing(cluster, capsys):
    cluster.logs(printing(A))
    cluster.looks = [lambda: "Running", away, away, away]
    assert follow_to_the_end(cluster, "train", JOB) == 0
    printed = capsys.readouterr()
    assert printed.out == "[worker-0] a\n"
    assert printed.err == f"{MISSING}the cluster answers again\ntrain: Completed\n"


def test_one_that_stays_away_ends_the_command_after_some_minutes(cluster, monkeypatch, capsys):
    clock = iter([0.0, 100.0, 299.0, 300.0])
    monkeypatch.setattr(patience, "monotonic", lambda: next(clock))
    cluster.logs(printing(A))
    cluster.looks = [lambda: "Running", *[away] * 9]
    with pytest.raises(RefusalError, match="does not answer"):
        follow_to_the_end(cluster, "train", JOB)
    assert len(cluster.looks) == 5
    assert capsys.readouterr().err == MISSING


def test_one_that_does_not_answer_at_all_is_refused_at_once(cluster, capsys):
    cluster.looks = [away]
    with pytest.raises(RefusalError, match="does not answer"):
        follow_to_the_end(cluster, "train", JOB)
    assert capsys.readouterr().err == ""


def test_a_job_that_is_deleted_meanwhile_is_said_at_once(cluster, monkeypatch):
    cluster.logs("exec sleep 600", "")
    answers = iter([{"status": {}}, None])
    monkeypatch.setattr(cluster, "find", lambda *_: next(answers))
    looks = iter(["Running"])
    running = json.dumps({"items": [{"status": {"state": {"phase": "Running"}}}]})
    monkeypatch.setattr(
        cluster, "run", lambda *words: running if words[1] != "pods" and next(looks, None) else '{"items": []}'
    )
    with pytest.raises(RefusalError, match="has no job in namespace team"):
        follow_to_the_end(cluster, "train", JOB)


FAILED = {"state": {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T10:00:05Z"}}}


class Scripted:
    """A cluster that says of a job and its pods what a test wants, one look after the other."""

    namespace = "team"
    asked = None

    def __init__(self, folder: Path, *looks: tuple[dict, list[dict]]) -> None:
        program = folder / "kubectl"
        program.write_text(
            '#!/bin/sh\n[ "$1" = logs ] || exit 1\necho "2026-01-01T10:00:01Z from $2 $3"\n', encoding="utf-8"
        )
        program.chmod(0o755)
        self.prefix, self._looks = [str(program)], list(looks)
        self._pods: list[dict] = []

    def find(self, *_: str) -> dict:
        raise AssertionError

    def run(self, *words: str) -> str:
        if words[1] == "pods":
            return json.dumps({"items": self._pods})
        status, self._pods = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        spec = {"maxRetry": 100, "tasks": [], "queue": "q"}
        return json.dumps({"items": [{"metadata": {"name": JOB}, "spec": spec, "status": status}]})

    def items(self, *_: str) -> list[dict]:
        return self._pods


def scripted_pod(
    uid: str, *, prepare: dict | None = None, worker: dict | None = None, phase: str = "Running", start: int = 0
) -> dict:
    status = {
        "phase": phase,
        "initContainerStatuses": [{"name": "code", "state": {"terminated": {"exitCode": 0}}}],
        "containerStatuses": [{"name": "worker", **(worker or {"state": {"running": {}}})}],
    }
    if prepare is not None:
        status["initContainerStatuses"].append({"name": "prepare", "state": prepare})
    return {
        "metadata": {
            "name": f"{JOB}-worker-0",
            "uid": uid,
            "annotations": {"volcano.sh/job-version": str(start)},
        },
        "spec": {"containers": [{"name": "worker"}]},
        "status": status,
    }


def status_of(phase: str, restarts: int = 0, *, version: int | None = None) -> dict:
    """Return the status of a job whose pods were all ended so often, by default at each restart."""
    return {"state": {"phase": phase}, "retryCount": restarts, "version": restarts if version is None else version}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(readers, "_STORE_SECONDS", 0.0)
    monkeypatch.setattr(
        module, "finding_of", lambda *_: Finding(cause="failed", because="no", next_step="go", exit_code=3)
    )


@pytest.mark.usefixtures("quick")
def test_a_failed_run_ends_with_the_sentence_of_why_and_the_exit_code_of_its_program(tmp_path, capsys):
    cluster = Scripted(
        tmp_path,
        (status_of("Running"), [scripted_pod("u")]),
        (status_of("Failed"), [scripted_pod("u", worker=FAILED, phase="Failed")]),
    )
    assert follow_to_the_end(cluster, "train", JOB) == 3
    assert capsys.readouterr().err == "train: Failed: no; next: go.\n"


@pytest.mark.usefixtures("quick")
def test_each_start_of_all_pods_is_named_with_how_it_ended(tmp_path, capsys):
    asked = {"state": {"terminated": {"exitCode": 75}}}
    cluster = Scripted(
        tmp_path,
        (status_of("Running"), [scripted_pod("u")]),
        (status_of("Running"), [scripted_pod("u", worker=FAILED, phase="Failed")]),
        (status_of("Restarting", 1), [scripted_pod("u", worker=FAILED, phase="Failed")]),
        (status_of("Running", 1), [scripted_pod("v", start=1)]),
        (status_of("Running", 1), [scripted_pod("v", start=1, worker=asked, phase="Failed")]),
        (status_of("Restarting", 2), []),
        (status_of("Running", 2), [scripted_pod("w", start=2)]),
        (status_of("Restarting", 3), []),
        (status_of("Completed", 3), []),
    )
    assert follow_to_the_end(cluster, "train", JOB) == 0
    printed = capsys.readouterr()
    assert printed.out.count("[worker-0] from") == 3, "all pods of one name are read"
    assert [line for line in printed.err.splitlines() if "start" in line] == [
        "athanor: start 1 of all pods has ended (worker-0: exit code 3); they are restarted",
        "athanor: start 2 of all pods has ended (worker-0: its program failed); they are restarted",
        "athanor: start 3 of all pods has ended (its pods were taken away); they are restarted",
    ]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("is_readable", [True, False])
def test_what_a_pod_printed_that_was_cut_off_and_replaced_comes_from_the_log_store(
    tmp_path, monkeypatch, capsys, is_readable
):
    def stored(_cluster: object, job_name: str, *, since: str) -> list[PastLine]:
        if not is_readable:
            raise RefusalError("run", job_name, "the platform has no log store", "run it again")
        assert since == "2026-01-01T09:59:59Z"
        log = Log(job_name=job_name, pod=f"{job_name}-worker-0", container="worker", is_program=True)
        seconds = (("00", "of the start before"), ("01", "from"), ("02", "ValueError: no"), ("05", "of the next pod"))
        return [PastLine(time=f"2026-01-01T10:00:{second}Z", log=log, text=text) for second, text in seconds]

    monkeypatch.setattr(readers, "past_lines", stored)
    first, second = scripted_pod("u"), scripted_pod("v")
    first["metadata"]["creationTimestamp"] = "2026-01-01T09:59:59Z"
    second["metadata"]["creationTimestamp"] = "2026-01-01T10:00:04Z"
    cluster = Scripted(
        tmp_path,
        *[(status_of("Running"), [first])] * 20,
        *[(status_of("Running", 1), [second])] * 20,
        (status_of("Completed", 1), [scripted_pod("v", phase="Succeeded")]),
    )
    (tmp_path / "kubectl").write_text(
        f'#!/bin/sh\n[ "$1" = logs ] || exit 1\n[ -e {tmp_path}/cut ] && exit 0\n'
        f"touch {tmp_path}/cut; echo '2026-01-01T10:00:01Z from'; exit 1\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(readers, "_FIRST_DELAY_SECONDS", 60.0)

    def run(*words: str) -> str:
        if words[1] != "pods" and not (tmp_path / "cut").exists():  # as long as kubectl has not ended
            cluster._looks.insert(0, cluster._looks[0])
        return Scripted.run(cluster, *words)

    monkeypatch.setattr(cluster, "run", run)
    assert follow_to_the_end(cluster, "train", JOB) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["[worker-0] from", *["[worker-0] ValueError: no"] * is_readable]
    assert ("the end of what pods printed that are gone is not shown: run" in printed.err) is not is_readable


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("is_watched", [True, False])
def test_a_pod_that_came_and_went_between_two_looks_is_not_lost(tmp_path, monkeypatch, capsys, is_watched):
    log = Log(job_name=JOB, pod=f"{JOB}-worker-0", container="worker", is_program=True)
    line = PastLine(time="2026-01-01T10:00:03Z", log=log, text="ValueError: no")
    monkeypatch.setattr(readers, "past_lines", lambda *_, **__: [line])
    first, last = scripted_pod("u", worker=FAILED, phase="Failed"), scripted_pod("w", phase="Succeeded", start=2)
    last["metadata"]["creationTimestamp"] = "2026-01-01T10:00:04Z"
    cluster = Scripted(
        tmp_path,
        (status_of("Running"), [first]),
        (status_of("Running"), []),
        (status_of("Running", 2, version=2), [last]),
        (status_of("Completed", 2, version=3), [last]),
    )
    between = scripted_pod("v", worker=FAILED, phase="Failed", start=1)
    events = [json.dumps({"type": kind, "object": between}) for kind in ("ADDED", "DELETED")] * is_watched
    (tmp_path / "kubectl").write_text(
        f"#!/bin/sh\ncd {tmp_path}; [ $1 != logs ] || exit 0; [ $2 = pods ] || exit 1\n"
        f"until [ -e now ]; do sleep 0.02; done; echo '{''.join(events)}'; touch watched; exec sleep 60\n",
        encoding="utf-8",
    )

    def run(*words: str) -> str:
        if words[1] != "pods" and len(cluster._looks) == 3:
            (tmp_path / "now").touch()
            if not (tmp_path / "watched").exists():
                cluster._looks.insert(0, cluster._looks[0])
        return Scripted.run(cluster, *words)

    monkeypatch.setattr(cluster, "run", run)
    monkeypatch.setattr(readers, "_SILENT_SECONDS", 0.1)
    assert follow_to_the_end(cluster, "train", JOB) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["[worker-0] ValueError: no"]
    assert [line for line in printed.err.splitlines() if "start" in line] == [
        "athanor: start 1 of all pods has ended (worker-0: exit code 3); they are restarted",
        f"athanor: start 2 of all pods has ended ({ENDS[is_watched]}); they are restarted",
    ]


ENDS = {True: "worker-0: exit code 3", False: "its pods were not seen"}


@pytest.mark.usefixtures("quick")
def test_a_pod_that_starts_again_alone_is_not_counted_as_a_start_of_all(tmp_path, capsys):
    cluster = Scripted(
        tmp_path,
        (status_of("Running"), [scripted_pod("u")]),
        (status_of("Running"), [scripted_pod("u", worker=FAILED, phase="Failed")]),
        (status_of("Restarting", 1, version=0), []),
        (status_of("Completed", 1, version=1), [scripted_pod("v", phase="Succeeded")]),
    )
    assert follow_to_the_end(cluster, "train", JOB) == 0
    assert capsys.readouterr().err == "athanor: worker-0: exit code 3; restarted alone\ntrain: Completed\n"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("code", [0, 1])
def test_what_prepares_a_pod_is_followed_under_its_own_name(tmp_path, capsys, code):
    waits = {"state": {"waiting": {"reason": "PodInitializing"}}}
    over = {"terminated": {"exitCode": code}}
    ends = {"worker": {"state": {"terminated": {"exitCode": 0}}}} if code == 0 else {"worker": waits}
    cluster = Scripted(
        tmp_path,
        (status_of("Running"), [scripted_pod("u", prepare={"running": {}}, worker=waits, phase="Pending")]),
        (status_of("Failed"), [scripted_pod("u", prepare=over, phase="Failed", **ends)]),
    )
    follow_to_the_end(cluster, "train", JOB)
    prepared = f"[worker-0 prepare] from --container=prepare {JOB}-worker-0"
    program = f"[worker-0] from --container=worker {JOB}-worker-0"
    assert sorted(capsys.readouterr().out.splitlines()) == sorted([prepared, *([] if code else [program])])
