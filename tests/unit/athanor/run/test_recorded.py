"""The commit that a run records of its folder."""

from __future__ import annotations

import subprocess

from athanor.run.recorded import commit_of


def _git(folder, *words):
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    return subprocess.run(
        ["git", *identity, "-C", str(folder), *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_folder_of_a_repository_has_its_commit_and_whether_it_was_changed(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    _git(tmp_path, "init", "--quiet")
    assert commit_of(str(folder)) is None  # nothing is committed
    (folder / "train.py").write_text("print(1)\n")
    _git(tmp_path, "add", "own")
    _git(tmp_path, "commit", "--quiet", "-m", "Begin")
    head = _git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(str(folder)) == head
    (tmp_path / "other").write_text("not in the folder\n")
    assert commit_of(str(folder)) == head
    (folder / "new.py").write_text("")
    assert commit_of(str(folder)) == f"{head} with changes"


def test_no_repository_has_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(str(tmp_path)) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(str(tmp_path)) is None
