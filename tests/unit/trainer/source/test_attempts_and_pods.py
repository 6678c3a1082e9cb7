"""Servers that come late, programs that are killed, pods that race: one commit for all of a job."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.fixtures.git_server import GitServer, Hold, git
from tests.unit.trainer.source.fetched import files, record_of
from trainer.source.__main__ import OWN_FOLDER, main
from trainer.source.config import SourceConfig

pytestmark = pytest.mark.long


def test_a_server_that_comes_up_late(repository, start, destination):
    repository.commit({"a": "1"})
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    process = start(
        "--repository", f"http://127.0.0.1:{port}/code", "--branch", "main", "--destination", str(destination)
    )
    assert process.stderr is not None
    assert "trying again" in process.stderr.readline()
    with GitServer(repository.folder.parent, port=port):
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert files(destination) == {"a": "1"}


def test_a_server_with_a_bad_moment(*, repository, server, fetch, destination, capfd, monkeypatch):
    monkeypatch.setattr("trainer.source.fetch.FIRST_PAUSE_SECONDS", 0.01)
    repository.commit({"a": "1", "big": os.urandom(100_000)})
    server.answers += [(503, {}, b""), (429, {}, b"")]
    server.cuts += [0, 50, 50_000]
    assert fetch("--branch", "main") == 0
    assert (destination / "a").read_text() == "1"
    assert capfd.readouterr().err.count("trying again") == 5


def test_a_server_that_never_comes(destination, capfd):
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    url = f"http://127.0.0.1:{port}/code"
    assert (
        main(["--repository", url, "--branch", "b", "--destination", str(destination), "--timeout_seconds", "0.3"]) == 1
    )
    assert "not fetched within 0.3 s" in capfd.readouterr().err


def test_a_server_that_falls_silent(repository, server, fetch, capfd):
    repository.commit({"a": "1"})
    server.holds.append(hold := Hold(after_bytes=20))
    assert fetch("--branch", "main", "--timeout_seconds", "0.5") == 1
    hold.release.set()
    assert "not fetched within 0.5 s" in capfd.readouterr().err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_killed_half_way_and_started_again(*, repository, server, start, fetch, destination, number, status):
    repository.commit({"a": "1", "sub/big": os.urandom(100_000).hex()})
    server.holds.append(hold := Hold(after_bytes=50_000))
    process = start("--repository", f"{server.url}/code", "--branch", "main", "--destination", str(destination))
    assert hold.reached.wait(60)
    process.send_signal(number)
    assert process.wait(60) == status
    hold.release.set()
    assert files(destination) == {}
    assert any((destination / OWN_FOLDER).iterdir())
    assert fetch("--branch", "main") == 0
    assert set(files(destination)) == {"a", "sub/big"}


def test_a_pod_that_is_set_up_again_gets_exactly_the_commit(repository, fetch, destination):
    repository.commit({"a": "1"})
    assert fetch("--branch", "main") == 0
    (destination / "a").write_text("changed by the job")
    (destination / "cache").mkdir()
    (destination / "cache" / "x.pyc").touch()
    assert fetch("--branch", "main") == 0
    assert files(destination) == {"a": "1"}


def test_a_folder_with_somebody_elses_files(repository, fetch, destination, capfd):
    repository.commit({"a": "1"})
    destination.mkdir()
    (destination / "precious").write_text("x")
    assert fetch("--branch", "main") == 1
    assert "holds 'precious' and 0 more; must be empty" in capfd.readouterr().err
    assert files(destination) == {"precious": "x"}


# All pods of a job run the same commit


def test_the_branch_moves_between_the_clones_of_two_pods(repository, server, start, tmp_path):
    repository.commit({"a": "first"})
    record = tmp_path / "shared" / "job" / "source.json"
    common = ["--repository", f"{server.url}/code", "--branch", "main", "--record", str(record)]
    server.holds.append(hold := Hold(after_bytes=0))
    slow = start(*common, "--destination", str(tmp_path / "slow"))
    assert hold.reached.wait(60)  # the slow pod has asked for the first commit
    second = repository.commit({"a": "second"})
    fast = start(*common, "--destination", str(tmp_path / "fast"))
    assert fast.communicate(timeout=60)[1].count("\n") == 1
    hold.release.set()
    assert f"another pod was faster, taking its commit {second}" in slow.communicate(timeout=60)[1]
    assert (slow.returncode, fast.returncode) == (0, 0)
    assert files(tmp_path / "slow") == files(tmp_path / "fast") == {"a": "second"}
    assert json.loads(record.read_text())["commit"] == second
    assert record_of(tmp_path / "slow") == record_of(tmp_path / "fast") == json.loads(record.read_text())


def test_many_pods_race_with_a_branch_that_never_rests(repository, server, start, tmp_path):
    repository.commit({"a": "0"})
    record = tmp_path / "source.json"
    common = ["--repository", f"{server.url}/code", "--branch", "main", "--record", str(record)]
    pods = [tmp_path / f"pod-{number}" for number in range(5)]
    done = threading.Event()

    def move() -> None:
        number = 0
        while not done.is_set():
            number += 1
            repository.commit({"a": str(number)})

    mover = threading.Thread(target=move)
    mover.start()
    try:
        processes = [start(*common, "--destination", str(pod)) for pod in pods]
        errors = [process.communicate(timeout=120)[1] for process in processes]
    finally:
        done.set()
        mover.join()
    assert [process.returncode for process in processes] == [0] * 5, errors
    assert len({json.dumps(files(pod)) for pod in pods}) == 1
    assert {record_of(pod)["commit"] for pod in pods} == {json.loads(record.read_text())["commit"]}
    assert [path.name for path in tmp_path.glob(".source.json*")] == []


def test_a_pod_that_comes_back_later_gets_the_recorded_commit(repository, fetch, destination, tmp_path):
    first = repository.commit({"a": "1"})
    record = str(tmp_path / "source.json")
    assert fetch("--branch", "main", "--record", record) == 0
    before = Path(record).read_text()
    repository.commit({"a": "2"})
    assert fetch("--branch", "main", "--record", record) == 0
    assert files(destination) == {"a": "1"}
    assert record_of(destination)["commit"] == first
    assert Path(record).read_text() == before
    assert json.loads(before)["requested"] == {"branch": "main"}


# Another run of the job


@pytest.fixture
def run(fetch, destination, tmp_path, monkeypatch):
    """Be a pod of a run of the job, with what was chosen for it; return the commit that it got."""
    record = tmp_path / "job" / "source.json"

    def be_a_pod(name: str, chosen: str = "") -> str:
        monkeypatch.setenv("ATHANOR_SOURCE_COMMIT", chosen)
        assert fetch("--branch", "main", "--record", str(record), "--run", name) == 0
        assert json.loads(record.read_text()) == record_of(destination), "the latest run's is at the known place"
        return record_of(destination)["commit"]

    return be_a_pod


def test_a_job_that_runs_again_takes_the_fix_that_was_pushed(repository, run):
    first = repository.commit({"a": "broken"})
    assert run("job-uid-1") == first
    fix = repository.commit({"a": "fixed"})
    assert run("job-uid-1") == first, "a pod that comes back belongs to its run"
    assert run("job-uid-2") == fix
    repository.commit({"a": "newer"})
    assert run("job-uid-2") == fix


def test_a_job_can_run_again_with_the_commit_of_before_or_any_other(repository, run):
    first = repository.commit({"a": "1"})
    assert run("job-uid-1") == first
    second = repository.commit({"a": "2"})
    third = repository.commit({"a": "3"})
    assert run("job-uid-2", "same") == first
    assert run("job-uid-3", second) == second
    assert run("job-uid-3", third) == second, "the first pod of a run has chosen"
    assert run("job-uid-4", "same") == second
    assert run("job-uid-5") == third


def test_the_commit_of_a_run_before_that_there_was_not_is_the_latest(repository, run):
    newest = repository.commit({"a": "1"})
    assert run("job-uid-1", "same") == newest


def test_pods_that_take_wait_for_the_commit_of_their_own_run(repository, server, start, fetch, tmp_path):
    shared = tmp_path / "job"
    common = ["--branch", "main", "--record", str(shared / "source.json"), "--store", str(shared / "source")]
    first = repository.commit({"a": "1"})
    assert fetch(*common, "--run", "job-uid-1") == 0
    url = ["--repository", f"{server.url}/code", "--destination", str(tmp_path / "taker")]
    taker = start(*url, *common, "--run", "job-uid-2", "--take")
    assert taker.stderr is not None
    assert "waiting for the pod that fetches" in taker.stderr.readline()
    second = repository.commit({"a": "2"})
    assert fetch(*common, "--run", "job-uid-2") == 0
    taker.communicate(timeout=60)
    assert record_of(tmp_path / "taker")["commit"] == second != first
    assert files(tmp_path / "taker") == {"a": "2"}


def test_a_record_of_before_runs_were_told_apart_is_the_run_before(repository, fetch, run, tmp_path):
    first = repository.commit({"a": "1"})
    assert fetch("--branch", "main", "--record", str(tmp_path / "job" / "source.json")) == 0
    second = repository.commit({"a": "2"})
    assert run("job-uid-2", "same") == first
    assert run("job-uid-3") == second


def test_what_cannot_be_a_commit_is_not_asked_for(repository, fetch, monkeypatch, capfd):
    repository.commit({"a": "1"})
    monkeypatch.setenv("ATHANOR_SOURCE_COMMIT", "--upload-pack=x")
    assert fetch("--branch", "main") == 1
    assert "must be 40 of 0-9 a-f, or 'same'" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["", "../other", "a/b", "x" * 181])
def test_a_run_is_a_plain_name(tmp_path, name):
    with pytest.raises(ValueError, match="letters, digits, - and dots"):
        SourceConfig(repository="https://git/code", destination=tmp_path, branch="main", run=name)


def test_who_asks_about_the_pod_learns_the_commit(repository, fetch, tmp_path, monkeypatch):
    log = tmp_path / "termination-log"
    monkeypatch.setattr("trainer.source.__main__.TERMINATION_LOG", log)
    commit = repository.commit({"a": "1"})
    assert fetch("--branch", "main") == 0
    assert not log.exists(), "outside a pod"
    log.touch()
    assert fetch("--branch", "main") == 0
    assert json.loads(log.read_text())["commit"] == commit


def test_a_record_of_another_job_or_none(repository, fetch, tmp_path, capfd):
    commit = repository.commit({"a": "1"})
    record = tmp_path / "source.json"
    assert fetch("--branch", "main", "--record", str(record)) == 0
    git(repository.folder, "branch", "other")
    for other in (["--branch", "other"], ["--commit", commit]):
        assert fetch(*other, "--record", str(record)) == 1
        assert "Fix: a record of its own for each job" in capfd.readouterr().err
    record.write_text("{}")
    assert fetch("--branch", "main", "--record", str(record)) == 1
    assert "is not a record of fetched code" in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["branch", "commit"])
def test_a_shared_volume_without_hard_links(*, repository, fetch, tmp_path, capfd, monkeypatch, kind):
    def refuse(*_arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    commit = repository.commit({"a": "1"})
    record = tmp_path / "source.json"
    status = fetch(f"--{kind}", "main" if kind == "branch" else commit, "--record", str(record))
    assert status == (1 if kind == "branch" else 0)
    assert ("Fix: a volume with hard links" in capfd.readouterr().err) is (kind == "branch")
    assert record.exists() is (kind == "commit")
    assert list(tmp_path.glob(".source.json*")) == []


# One pod fetches, the others take what it left on the volume


@pytest.fixture
def shared(tmp_path) -> list[str]:
    """Flags that all pods of the job have."""
    folder = tmp_path / "volume" / "job"
    return ["--branch", "main", "--record", str(folder / "source.json"), "--store", str(folder / "source")]


def test_pods_that_cannot_reach_the_server_wait_and_take(*, repository, server, start, fetch, tmp_path, shared):
    commit = repository.commit({"a": "1", "sub/b": "2"})
    nowhere = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    pod = tmp_path / "pod"
    common = ["--repository", f"{server.url}/code", "--destination", str(pod), *shared]
    process = start(*common, "--take", environment=nowhere)
    assert process.stderr is not None
    assert "waiting for the pod that fetches" in process.stderr.readline()
    assert fetch(*shared) == 0
    repository.commit({"a": "later"})
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert files(pod) == {"a": "1", "sub/b": "2"}
    assert record_of(pod)["commit"] == commit


def test_taking_ends_when_nobody_fetches(fetch, shared, capfd):
    assert fetch(*shared, "--take", "--timeout_seconds", "0.3") == 1
    assert "not fetched within 0.3 s" in capfd.readouterr().err


def test_the_pod_that_fetches_needs_the_server_only_once(repository, server, fetch, destination, shared):
    repository.commit({"a": "1"})
    assert fetch(*shared) == 0
    server.answers.append(unasked := (503, {}, b""))
    assert fetch(*shared) == 0
    assert server.answers == [unasked]
    assert files(destination) == {"a": "1"}


def test_what_fetches_is_done_only_when_the_latest_run_is_recorded(*, repository, fetch, shared, tmp_path, monkeypatch):
    commit = repository.commit({"a": "1"})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("trainer.source.__main__.write_json_atomically", full)
        assert fetch(*shared, "--run", "one") == 1
    assert fetch(*shared, "--run", "one") == 0
    newest = tmp_path / "volume" / "job" / "source.json"
    assert json.loads(newest.read_text())["commit"] == commit


@pytest.mark.parametrize("harm", ["emptied", "forged"])
def test_a_store_that_somebody_changed(*, repository, fetch, destination, shared, tmp_path, capfd, harm):
    repository.commit({"a": "1"})
    assert fetch(*shared) == 0
    [pack] = (tmp_path / "volume").rglob("*.pack")
    pack.chmod(0o644)
    content = pack.read_bytes()
    pack.write_bytes(b"" if harm == "emptied" else content[:20] + bytes(byte ^ 1 for byte in content[20:]))
    assert fetch(*shared, "--take") == 1
    assert files(destination) == {}, "nothing of it may be run"
    assert fetch(*shared) == 0
    assert "the store is broken, fetching again" in capfd.readouterr().err
    assert fetch(*shared, "--take") == 0
    assert files(destination) == {"a": "1"}
