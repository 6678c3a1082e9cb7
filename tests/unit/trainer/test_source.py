"""Code from a real git server: branches, tags, commits, passwords, servers that come late, races."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.git_server import GitServer, Hold, Repository, git
from trainer.source.__main__ import main
from trainer.source.destination import OWN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[3]
PASSWORD = "t0p-s3cret-€"


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository(tmp_path / "served" / "code")


@pytest.fixture
def server(repository) -> Iterator[GitServer]:
    with GitServer(repository.folder.parent) as running:
        yield running


@pytest.fixture
def destination(tmp_path) -> Path:
    return tmp_path / "source"


@pytest.fixture
def fetch(server, destination) -> Callable[..., int]:
    """Run the program in this process and return its exit status."""

    def run(*arguments: str, url: str = "") -> int:
        return main(["--repository", url or f"{server.url}/code", "--destination", str(destination), *arguments])

    return run


@pytest.fixture
def credentials_dir(tmp_path) -> Path:
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "username").write_text("robot\n")
    (folder / "password").write_text(f"{PASSWORD}\n")
    return folder


@pytest.fixture
def start() -> Iterator:
    """Start the program as its own process; it is gone after the test."""
    processes: list[subprocess.Popen[str]] = []

    def run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "trainer.source", *arguments],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **(environment or {})},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def files(folder: Path) -> dict[str, str]:
    """Return the content of all files but the program's own."""
    found = (path for path in folder.rglob("*") if path.is_file() and OWN_FOLDER not in path.parts)
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def record_of(folder: Path) -> dict:
    return json.loads((folder / OWN_FOLDER / "source.json").read_text())


# What is fetched


def test_a_branch(repository, fetch, destination, capfd):
    repository.commit({"train.py": "old"})
    newest = repository.commit({"train.py": "new", "pkg/deep/data.txt": "x", "run.sh": "#!/bin/sh"})
    (repository.folder / "run.sh").chmod(0o755)
    (repository.folder / "link").symlink_to("pkg/deep/data.txt")
    git(repository.folder, "add", "--all")
    newest = repository.commit_index()
    git(repository.folder, "branch", "main2", "HEAD~1")
    assert fetch("--branch", "main") == 0
    assert files(destination) == {"train.py": "new", "pkg/deep/data.txt": "x", "run.sh": "#!/bin/sh", "link": "x"}
    assert os.access(destination / "run.sh", os.X_OK)
    assert not os.access(destination / "train.py", os.X_OK)
    assert (destination / "link").readlink() == Path("pkg/deep/data.txt")
    assert [path.name for path in (destination / OWN_FOLDER).iterdir()] == ["source.json"]
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert newest in error


def test_a_branch_comes_without_its_history(repository, server, fetch):
    repository.commit({"a": "1"})
    repository.commit({"a": "2"})
    assert fetch("--branch", "main") == 0
    assert "deepen 1\n" in server.requests[-1]


@pytest.mark.parametrize("kind", ["light", "annotated", "of a tag"])
def test_a_tag(repository, fetch, destination, kind):
    tagged = repository.commit({"a": "tagged"})
    if kind == "light":
        git(repository.folder, "tag", "v1")
    else:
        git(repository.folder, "tag", "-a", "-m", "one", "v1" if kind == "annotated" else "v0")
    if kind == "of a tag":
        git(repository.folder, "tag", "-a", "-m", "two", "v1", "v0")
    repository.commit({"a": "later"})
    git(repository.folder, "branch", "v1")
    assert fetch("--tag", "v1") == 0
    assert files(destination) == {"a": "tagged"}
    assert record_of(destination)["commit"] == tagged
    assert record_of(destination)["requested"] == {"tag": "v1"}


@pytest.mark.parametrize("protocol_2", [True, False])
@pytest.mark.parametrize("refused", [False, True], ids=["by its id", "by a full clone"])
def test_a_commit_that_is_no_tip(*, repository, server, fetch, destination, capfd, protocol_2, refused):
    server.protocol_2 = protocol_2
    server.refusals += ["upload-pack: not our ref 0123"] * refused
    repository.commit({"a": "1"})
    wanted = repository.commit({"a": "2"})
    repository.commit({"a": "3"})
    assert fetch("--commit", wanted) == 0
    assert files(destination) == {"a": "2"}
    assert record_of(destination)["commit"] == wanted
    assert ("fetching all branches and tags instead" in capfd.readouterr().err) is refused


def test_a_folder_alone(repository, fetch, destination, capfd):
    repository.commit({"a/b/c.py": "c", "a/d.py": "d", "e.py": "e"})
    assert fetch("--branch", "main", "--subdirectory", "a") == 0
    assert files(destination) == {"b/c.py": "c", "d.py": "d"}
    assert fetch("--branch", "main", "--subdirectory", "a/x") == 1
    assert "has no folder 'a/x'" in capfd.readouterr().err


def test_names_that_are_not_utf8(repository, fetch, destination):
    blob = repository.blob(b"x")
    repository.branch_of_tree("odd", repository.tree([("100644", b"caf\xe9", blob)]))
    assert fetch("--branch", "odd") == 0
    assert os.fsdecode(b"caf\xe9") in [path.name for path in destination.iterdir()]


def test_files_and_folders_in_great_number(repository, fetch, destination):
    wanted = {f"d{number % 7}/e{number % 5}/{number}": str(number) * number for number in range(500)}
    repository.commit(wanted)
    git(repository.folder, "gc", "--quiet")
    assert fetch("--branch", "main") == 0
    assert files(destination) == wanted


# What ends it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--branch", "absent"], "the repository has no branch 'absent'"),
        (["--tag", "absent"], "the repository has no tag 'absent'"),
        (["--commit", "0123456789" * 4], "the server does not give it"),
    ],
)
def test_what_is_not_there(*, repository, fetch, destination, capfd, arguments, message):
    repository.commit({"a": "1"})
    git(repository.folder, "branch", "absent2")
    assert fetch(*arguments) == 1
    assert message in capfd.readouterr().err
    assert files(destination) == {}


def test_an_empty_repository(fetch, capfd):
    assert fetch("--branch", "main") == 1
    assert "has no branch 'main'" in capfd.readouterr().err


def test_a_tag_of_no_commit(repository, fetch, capfd):
    repository.commit({"a": "1"})
    git(repository.folder, "tag", "v1", "HEAD:a")
    assert fetch("--tag", "v1") == 1
    assert "is a blob, not a commit" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, {}, b""), "no such repository"),
        (
            (200, {"Content-Type": "text/html"}, b"<html>log in"),
            "what answers is no git server: content type text/html",
        ),
        ((302, {"Location": "http://elsewhere/code/info/refs?service=x"}, b""), "has moved to http://elsewhere/code."),
        ((418, {}, b""), "status 418"),
    ],
)
def test_answers_that_are_final(*, repository, server, fetch, capfd, answer, message):
    repository.commit({"a": "1"})
    server.answers.append(answer)
    assert fetch("--branch", "main") == 1
    assert message in capfd.readouterr().err
    assert len(server.requests) == 1


def test_garbage_instead_of_the_protocol(server, fetch, capfd):
    headers = {"Content-Type": "application/x-git-upload-pack-advertisement"}
    for garbage in (b"zzzz", b"0004", b"000eversion 9\n", b"001e# service=git-upload-pack\n0000"):
        server.answers.append((200, headers, garbage))
        assert fetch("--branch", "main", "--timeout_seconds", "0.4") == 1
        assert "Traceback" not in capfd.readouterr().err


def test_a_pack_that_is_none(repository, server, fetch, capfd):
    repository.commit({"a": "1"})
    assert fetch("--branch", "main") == 0
    refs = server.requests[-2:]
    assert len(refs) == 2
    advertisement = (200, {"Content-Type": "application/x-git-upload-pack-advertisement"}, b"")
    result = {"Content-Type": "application/x-git-upload-pack-result"}
    list_of_refs = f"{0x3D:04x}{repository.head()} refs/heads/main\n0000".encode()
    version_2 = b"001e# service=git-upload-pack\n0000000eversion 2\n000cls-refs\n0012fetch=shallow\n0000"
    pack = b"PACK\0\0\0\2\0\0\0\1nonsense"
    body = b"000dpackfile\n" + f"{len(pack) + 5:04x}".encode() + b"\1" + pack + b"0000"
    server.answers += [(*advertisement[:2], version_2), (200, result, list_of_refs), (200, result, body)]
    assert fetch("--branch", "main") == 1
    assert "not a whole pack" in capfd.readouterr().err


# Passwords


@pytest.fixture
def locked(server) -> GitServer:
    server.credentials = ("robot", PASSWORD)
    return server


@pytest.mark.usefixtures("locked")
def test_a_password_from_the_mounted_secret(*, repository, fetch, destination, credentials_dir, tmp_path, capfd):
    repository.commit({"a": "1"})
    record = tmp_path / "shared" / "source.json"
    assert fetch("--branch", "main", "--credentials_dir", str(credentials_dir), "--record", str(record)) == 0
    assert files(destination) == {"a": "1"}
    written = [path.read_text() for path in (record, destination / OWN_FOLDER / "source.json")]
    assert not any("s3cret" in text for text in [*written, *capfd.readouterr()])


def test_a_wrong_password_is_tried_once_and_shown_nowhere(repository, locked, fetch, credentials_dir, capfd):
    repository.commit({"a": "1"})
    (credentials_dir / "password").write_text("wr0ng-s3cret")
    assert fetch("--branch", "main", "--credentials_dir", str(credentials_dir)) == 1
    output = "".join(capfd.readouterr())
    assert "user name or password refused. Fix: correct the Secret" in output
    assert "s3cret" not in output
    assert len(locked.requests) == 1


@pytest.mark.usefixtures("locked")
def test_no_password_where_one_is_wanted(repository, fetch, capfd):
    repository.commit({"a": "1"})
    assert fetch("--branch", "main") == 1
    assert "wants a user name and password. Fix: name a Secret" in capfd.readouterr().err


@pytest.mark.parametrize("encoded", [False, True])
def test_a_server_that_repeats_the_password(server, fetch, credentials_dir, capfd, encoded):
    secret = base64.b64encode(f"robot:{PASSWORD}".encode()).decode() if encoded else PASSWORD
    server.answers.append((302, {"Location": f"http://x/{secret}".encode().decode("latin-1")}, b""))
    assert fetch("--branch", "main", "--credentials_dir", str(credentials_dir)) == 1
    error = capfd.readouterr().err
    assert "has moved to http://x/***." in error
    assert secret not in error


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("password", None, "cannot be read: No such file"),
        ("username", None, "cannot be read: No such file"),
        ("password", "\n", "is empty"),
        ("username", "a:b", "cannot hold a colon"),
    ],
)
def test_a_secret_that_is_not_whole(*, fetch, credentials_dir, capfd, name, content, message):
    path = credentials_dir / name
    path.unlink() if content is None else path.write_text(content)
    assert fetch("--branch", "main", "--credentials_dir", str(credentials_dir)) == 1
    error = capfd.readouterr().err
    assert message in error
    assert str(path) in error


def test_a_certificate_of_an_own_authority(repository, tmp_path, start, destination):
    repository.commit({"a": "1"})
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *options.split(), *names], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with GitServer(repository.folder.parent, tls=tls) as server:
        arguments = ["--repository", f"{server.url}/code", "--branch", "main", "--destination", str(destination)]
        refused = start(*arguments)
        assert "certificate is not accepted" in refused.communicate(timeout=60)[1]
        assert refused.returncode == 1
        accepted = start(*arguments, environment={"SSL_CERT_FILE": str(certificate)})
        assert accepted.communicate(timeout=60)[1].startswith("source: https://127.0.0.1")
    assert files(destination) == {"a": "1"}


# Servers that are not there yet, or go away


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
    assert "is no record of fetched code" in capfd.readouterr().err


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
