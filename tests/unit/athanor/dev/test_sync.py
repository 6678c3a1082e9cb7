"""Two folders become equal, and nothing is lost: here, and through the program that runs in the pod."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from athanor.dev import sides, tree
from athanor.dev.left import LeftAlone
from athanor.dev.sides import LostError, OwnFolder, PodFolder
from athanor.dev.sync import Sync
from athanor.dev.tree import LARGEST_BYTES, LINK, SKIPPED_FOLDERS, Tree
from infra.errors import RefusalError
from workloads.ignore_rules import IgnoreRules

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def there(tmp_path) -> Path:
    return tmp_path / "there"


@pytest.fixture
def pod(there):
    pod = PodFolder([], str(there))
    yield pod
    pod.close()


@pytest.fixture
def sync(here, pod, tmp_path, said) -> Sync:
    return synced(here, pod, tmp_path / "kept" / "equal.json", said.append)


@pytest.fixture
def folders(here, there) -> tuple[Path, Path]:
    return here, there


@pytest.fixture
def watched(sync, said) -> tuple[Sync, list[str]]:
    return sync, said


def synced(here: Path, pod: PodFolder, file: Path, say: Callable[[str], None] = lambda _: None) -> Sync:
    own = OwnFolder(here)
    left = LeftAlone(say, own.may_arrive)
    return Sync(here=own, there=pod, file=file, say=say, left=left)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def settle(sync: Sync) -> None:
    for _ in range(20):
        if sync.once() == 0:
            return
    raise AssertionError("it never becomes quiet")


def test_changes_go_both_ways(here, there, sync, said):
    (here / "train.py").write_text("1")
    (here / "train.py").chmod(0o755)
    (there / "data").mkdir()
    (there / "data" / "table.csv").write_text("a,b")
    settle(sync)
    assert content(here) == content(there) == {"train.py": b"1", "data/table.csv": b"a,b"}
    assert (there / "train.py").stat().st_mode & 0o100
    assert said == ["copied here: data/table.csv", "copied to the pod: train.py"]
    (here / "train.py").write_text("2")
    (there / "data" / "table.csv").unlink()
    settle(sync)
    assert content(here) == content(there) == {"train.py": b"2"}
    assert not (here / "data").exists()


def test_what_changed_on_both_sides_is_kept_twice(here, there, sync, said):
    (here / "train.py").write_text("1")
    settle(sync)
    (here / "train.py").write_text("mine")
    (there / "train.py").write_text("theirs")
    settle(sync)
    assert content(here) == content(there)
    assert content(here).pop("train.py") == b"mine"
    [other] = [name for name in content(here) if "conflict" in name]
    assert content(here)[other] == b"theirs"
    assert Path(other).suffix == ".py"
    assert f"changed on both sides: train.py; the pod's is {other}" in said


@pytest.mark.parametrize("side", ["here", "there"])
def test_a_change_counts_more_than_a_deletion(here, there, sync, side):
    (here / "train.py").write_text("1")
    (here / "other.py").write_text("1")
    settle(sync)
    changed, deleted = (here, there) if side == "here" else (there, here)
    (changed / "train.py").write_text("2")
    (deleted / "train.py").unlink()
    settle(sync)
    assert content(here) == content(there) == {"train.py": b"2", "other.py": b"1"}


def test_ignored_large_and_private_files_stay_where_they_are(here, there, sync, said):
    (here / ".gitignore").write_text("*.log\nout/\n")
    (here / "a.log").write_text("x")
    (here / "large.bin").write_bytes(bytes(LARGEST_BYTES + 1))
    (here / ".git").mkdir()
    (here / ".git" / "HEAD").write_text("ref")
    (there / "out").mkdir()
    (there / "out" / "model.pt").write_text("weights")
    (there / "b.log").write_text("x")
    (there / "__pycache__").mkdir()
    (there / "__pycache__" / "a.pyc").write_text("")
    (there / "last.ckpt").write_bytes(bytes(LARGEST_BYTES + 1))
    settle(sync)
    assert set(content(here)) == {".gitignore", "a.log", "large.bin", ".git/HEAD"}
    assert set(content(there)) == {".gitignore", "out/model.pt", "b.log", "__pycache__/a.pyc", "last.ckpt"}
    assert said[:2] == [
        "not copied (larger than 8 MiB here): large.bin",
        "stays in the pod (larger than 8 MiB): last.ckpt",
    ]
    (here / "kubeconfig").write_text("token")
    with pytest.raises(RefusalError, match="looks like a secret"):
        sync.once()


def test_a_folder_that_is_suddenly_empty_deletes_nothing(here, there, sync):
    (here / "train.py").write_text("1")
    settle(sync)
    (here / "train.py").unlink()
    with pytest.raises(RefusalError, match="has no files any more"):
        sync.once()
    assert content(there) == {"train.py": b"1"}


def test_a_new_pod_with_an_empty_folder_gets_everything(here, there, sync):
    (here / "train.py").write_text("1")
    settle(sync)
    (there / "train.py").unlink()
    settle(sync)
    assert content(here) == content(there) == {"train.py": b"1"}


def test_a_client_that_starts_again_still_knows_what_was_deleted(here, there, pod, sync, tmp_path):
    (here / "a.py").write_text("1")
    (here / "b.py").write_text("1")
    settle(sync)
    (here / "a.py").unlink()
    settle(synced(here, pod, tmp_path / "kept" / "equal.json"))
    assert content(here) == content(there) == {"b.py": b"1"}


@pytest.mark.parametrize("seed", range(8))
def test_any_changes_on_both_sides_become_equal_and_none_is_lost(here, there, sync, seed):
    """Each text that was written last in its place, and was not deleted there afterwards, is still on both sides."""
    draw = random.Random(seed)
    names = [f"{folder}{name}.py" for folder in ("", "a/", "a/b/") for name in "xyz"]
    for _ in range(12):
        written = {"here": {}, "there": {}}
        for _ in range(draw.randint(0, 6)):
            side, name = draw.choice([("here", here), ("there", there)]), draw.choice(names)
            path = side[1] / name
            if path.exists() and draw.random() < 0.3:
                path.unlink()
                written[side[0]].pop(name, None)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                text = f"{seed} {draw.random()}"
                path.write_text(text)
                written[side[0]][name] = text
        (here / "always.py").write_text("so that the folder is never empty")
        settle(sync)
        assert content(here) == content(there)
        left = {text.decode() for text in content(here).values()}
        assert left >= {text for texts in written.values() for text in texts.values()}


def test_a_pod_that_is_killed_in_the_middle_loses_nothing(here, there, tmp_path):
    draw = random.Random(0)
    file = tmp_path / "equal.json"
    for number in range(30):
        (here / f"{number}.py").write_text(str(draw.random()) * 1000)
    for stop in range(12):
        pod = PodFolder([], str(there))
        sync = synced(here, pod, file)
        asked = 0

        def killed(answer, pod=pod, stop=stop):
            nonlocal asked
            asked += 1
            if asked == stop + 2:
                pod._process.kill()
            return answer

        exchange = pod._ask
        pod._ask = lambda *words, exchange=exchange, killed=killed: killed(exchange(*words))
        (here / "0.py").write_text(f"round {stop}")
        try:
            sync.once()
        except LostError:
            pass
        finally:
            pod.close()
    with_pod = PodFolder([], str(there))
    settle(synced(here, with_pod, file))
    with_pod.close()
    assert content(here) == content(there)
    assert len(content(here)) == 30
    assert (here / "0.py").read_text() == "round 11"


def test_a_file_that_changes_while_it_is_copied_waits_for_the_next_round(here, there, sync, monkeypatch):
    (here / "train.py").write_text("1")
    settle(sync)
    read = sync.here.read

    def changed_there(name):
        (there / "train.py").write_text("theirs")
        return read(name)

    (here / "train.py").write_text("mine")
    with monkeypatch.context() as patched:
        patched.setattr(sync.here, "read", changed_there)
        assert sync.once() == 0
    assert (there / "train.py").read_text() == "theirs"
    settle(sync)
    assert sorted(content(here).values()) == [b"mine", b"theirs"]


@pytest.mark.parametrize("name", ["../escaped", "/tmp/athanor-escaped", "", "link/in", "a\0b"])
def test_a_pod_cannot_write_outside_of_the_folder(here, tmp_path, name):
    (here / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match=r"leads out|behind a link"):
        OwnFolder(here).write(name, b"x", None, kind="")
    assert not (tmp_path / "escaped").exists()


def test_a_pod_without_python_says_so(there):
    with pytest.raises(LostError, match="python3"):
        PodFolder(["env", "PATH=/nowhere"], str(there))


def test_a_pod_that_does_not_answer_is_given_up(there, tmp_path, monkeypatch):
    monkeypatch.setattr(sides, "_ANSWER_SECONDS", 1)
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nprintf 'athanor-dev 1\\n'; exec sleep 60\n")
    silent.chmod(0o755)
    pod = PodFolder([str(silent)], str(there))
    with pytest.raises(LostError, match="does not answer"):
        pod.scan()
    pod.close()


def test_a_full_disk_in_the_pod_is_named(here, sync, monkeypatch, pod):
    (here / "train.py").write_text("1")
    monkeypatch.setattr(pod, "_limited", lambda _: ({"error": "[Errno 28] No space left on device"}, b""))
    with pytest.raises(OSError, match="No space left"):
        sync.once()


def grow(path: Path) -> None:
    path.write_bytes(bytes(LARGEST_BYTES + 1))


def become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def lead_out(path: Path) -> None:
    path.rename(path.parent.parent / "moved")
    path.symlink_to(path.parent.parent / "moved")


@pytest.mark.parametrize(
    ("place", "change", "why"),
    [
        ("here", grow, "larger than 8 MiB"),
        ("in the pod", grow, "larger than 8 MiB"),
        ("in the pod", become_a_pipe, "neither a file nor a link"),
        ("in the pod", lead_out, "a link that may lead out of the folder"),
    ],
)
def test_what_can_no_longer_be_copied_is_left_alone_on_both_sides(folders, watched, place, change, why):
    (here, there), (sync, said) = folders, watched
    (here / "train.log").write_text("1")
    (here / "always.py").write_text("1")
    settle(sync)
    changed, other = (here, there) if place == "here" else (there, here)
    change(changed / "train.log")
    del said[:]
    settle(sync)
    assert (other / "train.log").read_text() == "1"
    assert os.path.lexists(changed / "train.log")
    assert said == [f"not copied ({why} {place}): train.log"]
    settle(sync)
    assert len(said) == 1

    # Also after somebody writes to the other one; and when it can be copied again, nothing has been forgotten.
    (other / "train.log").write_text("2")
    settle(sync)
    (changed / "train.log").unlink()
    (changed / "train.log").write_text("1")
    settle(sync)
    assert content(here) == content(there)
    assert (changed / "train.log").read_text() == "2"


@pytest.mark.parametrize("place", ["here", "in the pod"])
def test_what_became_unreadable_is_left_alone_on_both_sides(folders, tmp_path, said, monkeypatch, place):
    here, there = folders
    sync = synced(here, Tree(there), tmp_path / "equal.json", said.append)
    (here / "data").mkdir()
    for name in ("train.py", "data/table.csv", "always.py"):
        (here / name).write_text("1")
    settle(sync)
    closed = here if place == "here" else there
    read, listed = tree._content, os.scandir

    def no_content(path):
        if path == closed / "train.py":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    def no_list(path):
        if closed == there and str(path) == str(there / "data"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    (closed / "train.py").write_text("2")
    del said[:]
    with monkeypatch.context() as patched:
        patched.setattr(tree, "_content", no_content)
        patched.setattr(os, "scandir", no_list)
        settle(sync)
    assert {**content(here), "train.py": b""} == {**content(there), "train.py": b""}
    assert set(content(here)) == {"train.py", "data/table.csv", "always.py"}
    assert f"not copied (unreadable {place}): train.py" in said
    assert ("not copied (an unreadable folder in the pod): data" in said) == (closed == there)
    settle(sync)
    assert (here / "train.py").read_text() == (there / "train.py").read_text() == "2"


def test_a_large_file_is_not_replaced_by_one_of_the_same_name(here, there, tmp_path, monkeypatch):
    sync = synced(here, Tree(there), tmp_path / "equal.json")
    (here / "train.log").write_text("1")
    write = Tree.write
    # It grew between the look at it and the copy.
    monkeypatch.setattr(Tree, "write", lambda *words, **more: grow(there / "train.log") or write(*words, **more))
    there.mkdir()
    assert sync.once() == 0
    assert (there / "train.log").stat().st_size > LARGEST_BYTES


def test_what_the_rules_here_take_in_goes_both_ways_from_any_folder(here, there, sync):
    (here / ".athanorignore").write_text("!/node_modules/\n!*.pyc\n")
    for folder in (here / "node_modules" / "a", here / "lib"):
        folder.mkdir(parents=True)
        (folder / "own.js").write_text("1")
        (folder / "own.pyc").write_text("1")
    settle(sync)
    settle(sync)
    assert content(here) == content(there)
    assert len(content(here)) == 5
    (there / "node_modules" / "a" / "own.js").write_text("2")
    (there / "node_modules" / "new.js").write_text("2")
    (here / "lib" / "own.pyc").unlink()
    settle(sync)
    assert content(here) == content(there)
    assert set(content(here)) == {
        ".athanorignore", "node_modules/a/own.js", "node_modules/a/own.pyc", "node_modules/new.js", "lib/own.js"
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(SKIPPED_FOLDERS))
def test_what_a_pod_skips_is_left_out_here_too(here, name):
    assert IgnoreRules.of(here).ignores(here / name, is_folder=True)


def test_many_names_are_said_in_one_line(here, sync, said):
    for number in range(12):
        grow(here / f"{number:02}\x1b[2J.bin")
    settle(sync)
    assert said == ["not copied (larger than 8 MiB here): 00.bin, 01.bin, 02.bin and 9 more"]


def test_a_file_that_only_became_executable_is_one_on_the_other_side(here, there, sync):
    (here / "run.sh").write_text("exit 3")
    settle(sync)
    assert not (there / "run.sh").stat().st_mode & 0o100
    (here / "run.sh").chmod(0o755)
    settle(sync)
    assert (there / "run.sh").stat().st_mode & 0o100
    (there / "run.sh").chmod(0o644)
    settle(sync)
    assert not (here / "run.sh").stat().st_mode & 0o100


def links(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_symlink()]
    return {path.relative_to(folder).as_posix(): str(path.readlink()) for path in paths}


def test_links_within_the_folder_go_both_ways_as_links(here, there, sync):
    (here / "lib").mkdir()
    (here / "lib" / "a.py").write_text("1")
    (here / "lib" / "b.py").symlink_to("a.py")
    (here / "lib" / "top.py").symlink_to("../train.py")
    (here / "train.py").write_text("1")
    (here / "same").symlink_to("lib")
    settle(sync)
    assert links(there) == {"lib/b.py": "a.py", "lib/top.py": "../train.py", "same": "lib"}
    (there / "same").unlink()
    (there / "latest").symlink_to("nothing/yet")
    (there / "lib" / "b.py").unlink()
    (there / "lib" / "b.py").symlink_to("top.py")
    settle(sync)
    assert links(here) == links(there) == {"lib/b.py": "top.py", "lib/top.py": "../train.py", "latest": "nothing/yet"}
    assert (there / "lib" / "a.py").read_text() == "1"


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "a/../../x", "s/../x", "a/b/../../../x", "", "a\0b"])
def test_a_pod_cannot_make_a_link_that_may_lead_out(here, target):
    with pytest.raises(OSError, match="a link that may lead out"):
        OwnFolder(here).write("link", target.encode(), None, kind=LINK)
    with pytest.raises(OSError, match="a link that may lead out"):
        OwnFolder(here).write("sub/link", f"../../{target}".encode(), None, kind=LINK)
    assert links(here) == {}


def test_nothing_is_read_or_written_through_a_link(here, tmp_path):
    (tmp_path / "secret").write_text("token")
    own = OwnFolder(here)
    (here / "out").symlink_to(tmp_path / "secret")
    assert own.read("out") is None
    assert not own.write("out", b"x", None, kind="")
    (here / "a.py").write_text("1")
    (here / "in").symlink_to("a.py")
    assert own.read("in") == (b"a.py", LINK)
    assert own.write("in", b"2", "->a.py", kind="")
    assert ((here / "a.py").read_text(), (here / "in").read_text()) == ("1", "2")
    assert (tmp_path / "secret").read_text() == "token"


def test_a_link_of_the_pod_through_one_of_the_users_own_does_not_arrive(folders, watched, tmp_path):
    (here, there), (sync, said) = folders, watched
    (here / ".gitignore").write_text("data\n")
    (here / "data").symlink_to(tmp_path)
    settle(sync)
    (there / "mine").symlink_to("data/secret")
    settle(sync)
    assert links(here) == {"data": str(tmp_path)}
    assert links(there) == {"mine": "data/secret"}
    assert said[-1] == "stays in the pod (a link that would lead out of the folder here): mine"


def test_what_looks_like_a_secret_stays_in_the_pod_and_stops_nothing(here, there, watched):
    """Here it would be refused at every look from then on, as `athanor run` would refuse to send it."""
    sync, said = watched
    (here / "train.py").write_text("1")
    settle(sync)
    (there / ".env").write_text("TOKEN=1")
    (there / "notes.txt").write_text("2")
    settle(sync)
    assert content(here) == {"train.py": b"1", "notes.txt": b"2"}
    assert "stays in the pod (looks like a secret): .env" in said
    (here / ".athanorignore").write_text("!.env\n")
    settle(sync)
    assert content(here)[".env"] == b"TOKEN=1"
