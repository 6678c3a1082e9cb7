"""Two folders become equal, and nothing is lost: here, and through the program that runs in the pod."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from athanor.dev import sides
from athanor.dev.sides import LostError, OwnFolder, PodFolder
from infra.errors import RefusalError
from tests.unit.athanor.dev.two_folders import content, settle, synced


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


@pytest.mark.parametrize("place", [0, 1], ids=["here", "in the pod"])
def test_a_folder_becomes_a_file_and_a_folder_again(folders, watched, place):
    sync, _ = watched
    changed = folders[place]
    (folders[0] / "train.py").write_text("1")
    (changed / "out").mkdir(parents=True)
    (changed / "out" / "table.csv").write_text("a,b")
    settle(sync)
    (changed / "out" / "table.csv").unlink()
    (changed / "out").rmdir()
    (changed / "out").write_text("a file")
    settle(sync)
    assert content(folders[0]) == content(folders[1]) == {"train.py": b"1", "out": b"a file"}
    (changed / "out").unlink()
    (changed / "out").mkdir()
    (changed / "out" / "table.csv").write_text("a,b")
    settle(sync)
    assert content(folders[0]) == content(folders[1]) == {"train.py": b"1", "out/table.csv": b"a,b"}
