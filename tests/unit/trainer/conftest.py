"""Fixtures for several rooms: prepared data, and no modules of users' files left from another test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trainer.training import digits

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    digits.prepare(folder)
    return folder


@pytest.fixture(autouse=True)
def user_code(tmp_path_factory) -> Iterator[None]:
    """Forget the modules of files that a test trains or exports: others have the same names."""
    path, temporary = [*sys.path], tmp_path_factory.getbasetemp()
    yield
    sys.path[:] = path
    for name, module in [*sys.modules.items()]:
        if temporary in Path(getattr(module, "__file__", None) or "/").parents:
            del sys.modules[name]
