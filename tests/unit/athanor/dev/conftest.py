"""A folder of the user's and one of a pod, kept equal, and what a command says of their copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from athanor.dev.sides import PodFolder
from tests.unit.athanor.dev.two_folders import synced

if TYPE_CHECKING:
    from pathlib import Path

    from athanor.dev.sync import Sync


@pytest.fixture
def here(tmp_path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def said() -> list[str]:
    return []


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
