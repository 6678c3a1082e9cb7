"""Repositories that mean harm, or hold what cannot be fetched, and volumes that are too small."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from dulwich.objects import Blob, ObjectID

from tests.fixtures.git_server import GitServer, Repository, git
from trainer.source.__main__ import main
from trainer.source.checkout import load
from trainer.source.errors import SourceError

pytestmark = pytest.mark.long

SUBMODULE = "0123456789" * 4


@pytest.fixture
def repository(tmp_path) -> Repository:
    made = Repository(tmp_path / "served" / "code")
    made.commit({"honest": "1"})
    return made


@pytest.fixture
def fetch(repository, tmp_path):
    """Fetch a branch into `tmp_path/mount/source` and return the exit status; nothing else may change."""
    with GitServer(repository.folder.parent) as server:

        def run(branch: str, *arguments: str, destination: Path = tmp_path / "mount" / "source") -> int:
            url = f"{server.url}/code"
            return main(["--repository", url, "--branch", branch, "--destination", str(destination), *arguments])

        yield run
    outside = {path.name for path in tmp_path.iterdir()} - {"served", "mount", "full"}
    assert outside == set(), "something was written outside of the destination"
    assert [path.name for path in (tmp_path / "mount").glob("*")] in ([], ["source"])


def written(tmp_path) -> list[str]:
    return [path.name for path in (tmp_path / "mount" / "source").iterdir() if path.name != ".athanor-source"]


@pytest.mark.parametrize("name", [b"..", b".", b".git", b".GIT", b"a/b", b"../../evil", b"/evil"])
@pytest.mark.parametrize("mode", ["100644", "40000", "120000"])
def test_names_that_leave_the_folder(*, repository, fetch, tmp_path, capfd, name, mode):
    sha = repository.blob(b"x")
    if mode == "40000":
        sha = repository.tree([("100644", b"evil", sha)])
    repository.branch_of_tree("bad", repository.tree([(mode, name, sha)]))
    assert fetch("bad") == 1
    assert "is not a safe name of a file or folder" in capfd.readouterr().err
    assert written(tmp_path) == []


@pytest.mark.parametrize(
    "links",
    [
        {"l": "/etc/passwd"},
        {"l": ".."},
        {"l": "../../evil"},
        {"a/b/c/l": "../../../../evil"},
        {"l": "honest/../../x"},
        {"a/b/up": "../..", "a/b/l": "up/../evil"},
        {"l": "missing/../../../evil"},
        {"l": ""},
        {**{f"l{number}": f"l{number + 1}" for number in range(3000)}, "l3000": "../.."},
    ],
    ids=[
        "absolute",
        "parent",
        "above",
        "deep",
        "through a file",
        "through a link",
        "through nothing",
        "empty",
        "chain",
    ],
)
def test_links_that_leave_the_folder(repository, fetch, tmp_path, capfd, links):
    git(repository.folder, "fast-import", "--quiet", stdin=_commit_of_links("bad", links))
    assert fetch("bad") == 1
    assert "must lead to a place inside what is fetched" in capfd.readouterr().err
    assert written(tmp_path) == []


def _commit_of_links(branch: str, links: dict[str, str]) -> bytes:
    """Return a commit on top of the honest one as git's fast-import reads it, which takes thousands at once."""
    lines = [f"commit refs/heads/{branch}", "committer a <a@example.com> 1 +0000", "data 0", "from refs/heads/main"]
    for name, target in links.items():
        lines += [f"M 120000 inline {name}", f"data {len(target)}", target]
    return ("\n".join(lines) + "\n").encode()


def test_links_inside_the_folder_stay(repository, fetch, tmp_path):
    folder = repository.folder
    (folder / "a").mkdir()
    for name, target in {
        "a/top": "..",
        "a/file": "../honest",
        "loop": "loop",
        "later": "not/there",
        "b": "a/top",
    }.items():
        (folder / name).symlink_to(target)
    git(folder, "add", "--all")
    repository.commit_index()
    assert fetch("main") == 0
    source = tmp_path / "mount" / "source"
    assert (source / "a" / "file").read_text() == "1"
    assert (source / "b" / "honest").read_text() == "1"
    assert (source / "loop").readlink() == Path("loop")


def test_a_link_and_a_folder_of_one_name(repository, fetch, tmp_path):
    inner = repository.tree([("100644", b"evil", repository.blob(b"x"))])
    target = repository.blob(b"../..")
    for number, entries in enumerate(
        ([("120000", b"a", target), ("40000", b"a", inner)], [("40000", b"a", inner), ("120000", b"a", target)])
    ):
        repository.branch_of_tree(f"bad{number}", repository.tree(entries))
        fetch(f"bad{number}")
        assert not list(tmp_path.glob("evil"))
        assert not list(tmp_path.glob("mount/evil"))


def test_modes_that_git_does_not_make(repository, fetch, tmp_path, capfd):
    blob = repository.blob(b"x")
    repository.branch_of_tree("setuid", repository.tree([("104755", b"tool", blob), ("100666", b"open", blob)]))
    assert fetch("setuid") == 0
    source = tmp_path / "mount" / "source"
    assert {path.name: oct(path.stat().st_mode & 0o7777) for path in (source / "tool", source / "open")} == {
        "tool": "0o755",
        "open": "0o644",
    }
    repository.branch_of_tree("device", repository.tree([("20644", b"device", blob)]))
    assert fetch("device") == 1
    assert "has mode 20644: must be a file" in capfd.readouterr().err


def test_submodules_without_an_address_are_refused_where_they_are_wanted(repository, fetch, tmp_path, capfd):
    blob = repository.blob(b"x")
    library = repository.tree([("160000", b"nested", SUBMODULE)])
    tree = repository.tree([("100644", b".gitmodules", blob), ("40000", b"lib", library)])
    inner = repository.tree([("40000", b"ours", repository.tree([("100644", b"a", blob)])), ("40000", b"theirs", tree)])
    repository.branch_of_tree("with", inner)
    assert fetch("with") == 1
    assert "'theirs/lib/nested': is a submodule that .gitmodules does not name" in capfd.readouterr().err
    assert written(tmp_path) == []
    assert fetch("with", "--subdirectory", "ours") == 0
    assert written(tmp_path) == ["a"]


def test_pointers_of_lfs_are_refused(repository, fetch, tmp_path, capfd):
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    repository.commit({"weights/big.bin": pointer})
    assert fetch("main") == 1
    assert "'weights/big.bin': its content is in git LFS" in capfd.readouterr().err
    assert written(tmp_path) == []
    repository.commit({"weights/big.bin": pointer + "and a book on it\n" * 100})
    assert fetch("main") == 0


def test_the_name_of_our_own_mark(repository, fetch, tmp_path, capfd):
    repository.commit({".athanor-source/source.json": "{}"})
    assert fetch("main") == 1
    assert "this name is taken by the program" in capfd.readouterr().err
    assert written(tmp_path) == []


def test_a_commit_without_its_files(repository, fetch, capfd):
    git(repository.folder, "update-ref", "refs/heads/bad", "HEAD")
    tree = git(repository.folder, "rev-parse", "HEAD^{tree}")
    (repository.folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    assert fetch("bad", "--timeout_seconds", "5") == 1
    assert "Traceback" not in capfd.readouterr().err


def test_content_that_is_not_what_its_id_says():
    sha = ObjectID(Blob.from_string(b"honest").id)
    honest, lying = ({sha: Blob.from_raw_string(Blob.type_num, content, sha=sha)} for content in (b"honest", b"evil"))
    assert load(honest, sha, Blob).data == b"honest"
    with pytest.raises(SourceError, match="different content under this id"):
        load(lying, sha, Blob)


def test_escapes_for_terminals_are_not_passed_on(repository, fetch, capfd):
    sha = repository.blob(b"/etc/\x1b[2Jpasswd")
    repository.branch_of_tree("bad", repository.tree([("120000", b"l\x1b[31m\n", sha)]))
    assert fetch("bad") == 1
    error = capfd.readouterr().err
    assert "\x1b" not in error
    assert error.count("\n") == 1


def test_a_name_that_is_too_long(repository, fetch, tmp_path, capfd):
    repository.branch_of_tree("bad", repository.tree([("100644", b"n" * 300, repository.blob(b"x"))]))
    assert fetch("bad") == 1
    assert "File name too long" in capfd.readouterr().err
    assert written(tmp_path) == []


def test_folders_without_end(server, repository, start, tmp_path):
    """In a process of its own: the alarm stops it wherever it is, with files open."""
    tree = repository.tree([("100644", b"x", repository.blob(b"x"))])
    for _ in range(12):
        tree = repository.tree([("40000", f"d{number}".encode(), tree) for number in range(10)])
    repository.branch_of_tree("bomb", tree)
    destination = tmp_path / "mount" / "source"
    where = ("--repository", f"{server.url}/code", "--branch", "bomb", "--destination", str(destination))
    process = start(*where, "--timeout_seconds", "5")
    assert "not fetched within 5 s" in process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert written(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("compresses", [False, True], ids=["while receiving", "while writing"])
def test_a_full_volume(repository, fetch, tmp_path, capfd, compresses):
    repository.commit({"big": b"\0" * 8_000_000 if compresses else os.urandom(8_000_000)})
    volume = tmp_path / "full"
    volume.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(volume)], check=True)
    try:
        assert fetch("main", destination=volume) == 1
        assert f"{volume}: the volume is full (No space left on device). Fix: more space" in capfd.readouterr().err
        git(repository.folder, "rm", "--quiet", "big")
        repository.commit_index()
        assert fetch("main", destination=volume) == 0
        assert (volume / "honest").read_text() == "1"
    finally:
        subprocess.run(["umount", str(volume)], check=True)


def test_a_folder_that_cannot_be_made(fetch, tmp_path, capfd):
    assert fetch("main", destination=tmp_path / "served" / "code" / "honest" / "source") == 1
    assert "honest" in capfd.readouterr().err
