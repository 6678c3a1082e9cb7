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
