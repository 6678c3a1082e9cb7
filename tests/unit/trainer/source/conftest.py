"""A real git server, and ways to run the program against it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.git_server import GitServer, Repository
from trainer.source.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[4]
PASSWORD = "t0p-s3cret-€"


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository(tmp_path / "served" / "code")


@pytest.fixture
def server(repository) -> Iterator[GitServer]:
    with GitServer(repository.folder.parent) as running:
        yield running


@pytest.fixture
def destination(tmp_path) -> Path:
    return tmp_path / "source"


@pytest.fixture
def fetch(server, destination) -> Callable[..., int]:
    """Run the program in this process and return its exit status."""

    def run(*arguments: str, url: str = "") -> int:
        return main(["--repository", url or f"{server.url}/code", "--destination", str(destination), *arguments])

    return run


@pytest.fixture
def credentials_dir(tmp_path) -> Path:
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "username").write_text("robot\n")
    (folder / "password").write_text(f"{PASSWORD}\n")
    return folder


@pytest.fixture
def start() -> Iterator:
    """Start the program as its own process; it is gone after the test."""
    processes: list[subprocess.Popen[str]] = []

    def run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "trainer.source", *arguments],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **(environment or {})},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()
