"""Branches, tags, commits, folders, and what there is none of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fixtures.git_server import git
from tests.unit.trainer.source.fetched import files, record_of
from trainer.source.__main__ import OWN_FOLDER


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


@pytest.mark.parametrize("protocol_2", [True, False])
def test_the_default_branch(*, repository, server, fetch, destination, protocol_2):
    server.protocol_2 = protocol_2
    repository.commit({"a": "main"})
    git(repository.folder, "checkout", "--quiet", "-b", "trunk")
    newest = repository.commit({"a": "trunk"})
    assert fetch("--branch", "HEAD") == 0
    assert files(destination) == {"a": "trunk"}
    assert record_of(destination)["commit"] == newest


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
def test_a_commit_that_is_not_a_tip(*, repository, server, fetch, destination, capfd, protocol_2, refused):
    server.protocol_2 = protocol_2
    server.refusals += ["upload-pack: not our ref 0123"] * refused
    repository.commit({"a": "1"})
    commit = repository.commit({"a": "2"})
    repository.commit({"a": "3"})
    assert fetch("--commit", commit) == 0
    assert files(destination) == {"a": "2"}
    assert record_of(destination)["commit"] == commit
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
    content = {f"d{number % 7}/e{number % 5}/{number}": str(number) * number for number in range(500)}
    repository.commit(content)
    git(repository.folder, "gc", "--quiet")
    assert fetch("--branch", "main") == 0
    assert files(destination) == content


# What ends it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--branch", "absent"], "the repository has no branch 'absent'"),
        (["--tag", "absent"], "the repository has no tag 'absent'"),
        (["--commit", "0123456789" * 4], "the server refuses it"),
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
            "this is not a git server: content type text/html",
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


def test_a_repository_that_was_renamed_on_its_server(repository, server, fetch, destination):
    repository.commit({"a": "1"})
    moved = "/code/info/refs?service=git-upload-pack"
    server.answers += [(301, {"Location": "/older" + moved}, b""), (308, {"Location": server.url + moved}, b"")]
    assert fetch("--branch", "main", url=f"{server.url}/old") == 0
    assert files(destination) == {"a": "1"}
    assert [line.split()[0] for line in server.requests].count("POST") > 0


def test_redirects_without_end(repository, server, fetch, capfd):
    repository.commit({"a": "1"})
    server.answers += [(302, {"Location": "/code/info/refs?service=git-upload-pack"}, b"")] * 30
    assert fetch("--branch", "main") == 1
    assert "redirects more than 20 times" in capfd.readouterr().err


# The time limit is an alarm, which may come while a socket is being opened; outside of tests, the process ends then.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
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
