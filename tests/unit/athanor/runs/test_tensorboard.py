"""`athanor tensorboard`: which files it fetches, and again, as they grow."""

from __future__ import annotations

import importlib.util
import os
from types import SimpleNamespace

import pytest

from athanor.runs import tensorboard as module
from athanor.runs.copy import Place
from athanor.runs.tensorboard import EventFiles, show
from infra.errors import RefusalError


class Pods:
    """Pods whose volumes are folders of this machine."""

    def __init__(self, *_: object) -> None:
        self.answers = True

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def through(self, _place: Place, work):
        if not self.answers:
            raise RefusalError("kubectl", "get", "did not answer", "try again")
        return work([])


@pytest.fixture
def run(tmp_path):
    """The folder of a run that has written some."""
    folder = tmp_path / "output" / "train-1"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "events.out.tfevents.1.host").write_bytes(b"first")
    (folder / "best.pt").write_bytes(b"weights")
    return folder


def test_event_files_are_fetched_as_they_grow_and_nothing_else(run, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    files = EventFiles(Pods(), {"train": Place(path=str(run)), "gone": Place(path=str(tmp_path / "no"))}, here)
    files.refresh()
    [fetched] = [file for file in here.rglob("*") if file.is_file()]
    assert fetched == here / "train" / "logs" / "events.out.tfevents.1.host"
    inode = fetched.stat().st_ino
    with (run / "logs" / "events.out.tfevents.1.host").open("ab") as writing:
        writing.write(b" second")
    old = run / "events.out.tfevents.0.host"
    old.write_bytes(b"of long ago")
    os.utime(old, (1, 1))
    files.refresh()
    assert fetched.read_bytes() == b"first second"
    assert fetched.stat().st_ino == inode
    assert not (here / "train" / old.name).exists()


def test_a_cluster_that_does_not_answer_leaves_the_curves(run, tmp_path, capsys):
    pods = Pods()
    files = EventFiles(pods, {"train": Place(path=str(run))}, tmp_path)
    pods.answers = False
    module._refresh_again(files)
    assert "not refreshed: kubectl = 'get': did not answer" in capsys.readouterr().err


def test_runs_without_event_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "VolumePods", Pods)
    with pytest.raises(RefusalError, match="RUN = 'train': has written no event files of TensorBoard"):
        show(SimpleNamespace(), SimpleNamespace(), {"train": Place(path=str(tmp_path / "no"))}, 0)


def test_without_tensorboard_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RefusalError, match=r"pip install 'athanor\[tensorboard\]'"):
        show(SimpleNamespace(), SimpleNamespace(), {}, 0)
