from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainer.pytorch.shared_volume import FolderError, create_folders
from trainer.training.folders import RunFolders


def test_output_folder_that_is_not_shared_is_refused(tmp_path):
    on_another_volume = SimpleNamespace(
        rank=1, is_main=False, on_main=lambda _work: ".written-elsewhere", gather=lambda problem: ["", problem]
    )
    folders = RunFolders(run=tmp_path / "r", models=tmp_path / "m", logs=tmp_path / "l", work=tmp_path / "w")
    with pytest.raises(FolderError, match=r"output_dir: rank 1 does not see .* Fix: one ReadWriteMany volume"):
        create_folders(folders, on_another_volume)


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.ENOSPC, "more space on that volume"),
        (errno.EDQUOT, "more space on that volume"),
        (errno.EROFS, "mount the volume writable for this user"),
        (errno.EACCES, "mount the volume writable for this user"),
        (errno.ESTALE, "look at that volume"),
    ],
)
def test_the_fix_fits_what_is_wrong_with_the_volume(tmp_path, monkeypatch, number, fix):
    def fail(path, **_):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "touch", fail)
    alone = SimpleNamespace(rank=0, gather=lambda problem: [problem])
    folders = RunFolders(run=tmp_path / "r", models=tmp_path / "m", logs=tmp_path / "l", work=tmp_path / "w")
    with pytest.raises(FolderError, match=rf"checkpoints/.*: cannot be written: {os.strerror(number)}\. Fix: {fix}"):
        create_folders(folders, alone)


def test_what_is_wrong_for_all_ranks_is_said_once(tmp_path):
    (tmp_path / "file").touch()
    distributed = SimpleNamespace(rank=0, gather=lambda problem: [problem] * 4)
    folders = RunFolders(run=tmp_path / "file", models=tmp_path, logs=tmp_path, work=tmp_path)
    with pytest.raises(FolderError) as error:
        create_folders(folders, distributed)
    assert str(error.value).count("cannot be written") == 1
