"""What tests of several rooms share: prepared data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trainer.training import digits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    digits.prepare(folder)
    return folder
