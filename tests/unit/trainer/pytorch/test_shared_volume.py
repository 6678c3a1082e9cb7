from __future__ import annotations

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


def test_what_is_wrong_for_all_ranks_is_said_once(tmp_path):
    (tmp_path / "file").touch()
    distributed = SimpleNamespace(rank=0, gather=lambda problem: [problem] * 4)
    folders = RunFolders(run=tmp_path / "file", models=tmp_path, logs=tmp_path, work=tmp_path)
    with pytest.raises(FolderError) as error:
        create_folders(folders, distributed)
    assert str(error.value).count("cannot be written") == 1
