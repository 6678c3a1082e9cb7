"""What one of two folders has and does not copy is left alone on both sides, and named once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from athanor.dev import tree
from athanor.dev.sides import COULD_RUN, OwnFolder
from athanor.dev.tree import EXECUTABLE, LARGEST_BYTES, LINK, SKIPPED_FOLDERS, Tree
from tests.unit.athanor.dev.two_folders import content, settle, synced
from workloads.ignore_rules import IgnoreRules

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


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
    (here / "b.py").write_text("2")
    settle(sync)
    assert "kubeconfig" not in content(there)
    assert content(there)["b.py"] == b"2"
    assert sum("kubeconfig" in words for words in said) == 1


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


def test_what_looks_like_a_secret_stays_in_the_pod_and_stops_nothing(here, there, watched):
    """Here it would be refused at every look from then on, as `athanor run` would refuse to send it."""
    sync, said = watched
    (here / "train.py").write_text("1")
    settle(sync)
    (there / "own.key").write_text("TOKEN=1")
    (there / "notes.txt").write_text("2")
    settle(sync)
    assert content(here) == {"train.py": b"1", "notes.txt": b"2"}
    assert "stays in the pod (looks like a secret): own.key" in said
    (here / ".athanorignore").write_text("!own.key\n")
    settle(sync)
    assert content(here)["own.key"] == b"TOKEN=1"


def write(folder: Path, names: Mapping[str, str]) -> None:
    for name, text in names.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


_COULD_RUN = (
    ".envrc", ".vscode/tasks.json", "\u200c.idea/a.xml", "lib/Makefile", "MAKEFILE", "\uff2dakefile", "own.mk",
    "package.json", "setup.py", "pyproject.toml", "Conftest.PY", "Venv/lib/a.py",
)  # fmt: skip


def test_what_a_pod_creates_and_could_run_here_comes_only_if_it_is_accepted(folders, pod, watched, tmp_path):
    (here, there), (sync, said) = folders, watched
    (here / "train.py").write_text("1")
    settle(sync)
    write(there, dict.fromkeys((*_COULD_RUN, "bin/run", "notes.txt"), "1"))
    (there / "bin" / "run").chmod(0o755)
    for _ in range(2):
        settle(sync)
        assert content(here) == {"train.py": b"1", "notes.txt": b"1"}
    names = ".envrc, .vscode/tasks.json, Conftest.PY and 10 more"
    assert [words for words in said if "--accept" in words] == [f"stays in the pod ({COULD_RUN}): {names}"]
    settle(synced(here, pod, tmp_path / "kept" / "equal.json", accepted=[".vscode", "bin/*", "*.mk"]))
    assert set(content(here)) == {"train.py", "notes.txt", ".vscode/tasks.json", "bin/run", "own.mk"}
    assert (here / "bin" / "run").stat().st_mode & 0o100


@pytest.mark.parametrize(
    ("accepted", "name", "state", "why_not"),
    [
        (".*", ".envrc", "0", ""),
        (".*", "run", "x0", COULD_RUN),
        ("a", "a/run", "x0", ""),
        ("run", "a/run", "x0", ""),
        ("a/*", "Makefile/", "0", COULD_RUN),
    ],
)
def test_a_pattern_accepts_a_path_or_any_name_in_it(here, accepted, name, state, why_not):
    assert OwnFolder(here, [accepted]).why_not(name, state, None) == why_not


def test_what_was_sent_and_could_run_here_is_changed_only_if_it_is_accepted(folders, pod, watched, tmp_path):
    (here, there), (sync, said) = folders, watched
    write(here, {"Makefile": "1", "conftest.py": "1", "run": "1", "train.py": "1"})
    (here / "run").chmod(0o755)
    settle(sync)
    write(there, {"Makefile": "2", "run": "2", "train.py": "2"})
    (here / "conftest.py").write_text("2")
    settle(sync)
    assert content(here) == {"Makefile": b"1", "conftest.py": b"2", "run": b"1", "train.py": b"2"}
    assert (there / "conftest.py").read_text() == "2"
    assert f"not copied ({COULD_RUN}; changed in the pod): Makefile, run" in said
    (here / "run").write_text("3")
    settle(synced(here, pod, tmp_path / "kept" / "equal.json", accepted=["Makefile", "run"]))
    assert content(here) == content(there)
    assert (content(here)["Makefile"], content(here)["run"]) == (b"2", b"3")
    assert b"2" in [text for name, text in content(here).items() if name.startswith("run.conflict-")]


@pytest.mark.parametrize("folder", [".GIT", "sub/.Git", ".g\u200cit", "git~1", ".git.", ".\uff47it", ".git:a"])
def test_nothing_arrives_in_gits_own_folder_by_any_of_its_names(folders, pod, tmp_path, said, folder):
    here, there = folders
    sync = synced(here, pod, tmp_path / "equal.json", said.append, ["*"])
    (here / "train.py").write_text("1")
    settle(sync)
    write(there, {f"{folder}/hooks/pre-commit": "1", "notes.txt": "1"})
    (there / "hooks").symlink_to(f"{folder}/hooks")
    settle(sync)
    assert content(here) == {"train.py": b"1", "notes.txt": b"1"}
    assert not (here / "hooks").is_symlink()
    assert any(words.startswith("stays in the pod (a name that git's own folder may have): ") for words in said)


@pytest.mark.parametrize(("name", "answer"), [("a.txt", (b"1", EXECUTABLE)), ("link", (b".git/hooks", LINK))])
def test_a_pod_that_says_one_thing_and_gives_another_changes_nothing(here, there, tmp_path, name, answer):
    tree = Tree(there)
    sync = synced(here, tree, tmp_path / "equal.json")
    there.mkdir()
    (there / "a.txt").write_text("1")
    (there / "link").symlink_to("a.txt")
    read = tree.read
    tree.read = lambda each: answer if each == name else read(each)
    assert sync.once() == 1
    assert {path.name for path in here.iterdir()} == {"a.txt", "link"} - {name}


@pytest.mark.parametrize("place", [0, 1], ids=["here", "in the pod"])
def test_a_file_with_the_name_of_a_full_folder_is_named_once_and_stops_nothing(folders, watched, place):
    sync, said = watched
    full, other = folders[place], folders[1 - place]
    (folders[0] / ".gitignore").write_text("*.log\n")
    (full / "out").mkdir(parents=True)
    (full / "out" / "a.log").write_text("1")
    (full / "out" / "large.bin").write_bytes(bytes(LARGEST_BYTES + 1))
    (other / "out").write_text("a file")
    (other / "train.py").write_text("1")
    settle(sync)
    sync.once()
    where = ["here", "in the pod"][place]
    assert [words for words in said if ": out" in words and "8 MiB" not in words] == [
        f"not copied (a folder with other files has its name {where}): out"
    ]
    assert content(full)["train.py"] == b"1"
    (full / "out" / "a.log").unlink()
    (full / "out" / "large.bin").unlink()
    settle(sync)
    assert content(full)["out"] == b"a file"


def test_what_lies_behind_a_new_file_of_the_other_side_is_named_once(here, there, watched):
    sync, said = watched
    (here / "out").write_text("a file")
    (here / "train.py").write_text("1")
    (there / "out").mkdir()
    (there / "out" / "table.csv").write_text("a,b")
    settle(sync)
    sync.once()
    assert sorted(said) == [
        "copied to the pod: train.py",
        "not copied (a file has the name of its folder here): out/table.csv",
        "not copied (a folder with other files has its name in the pod): out",
    ]
