"""Modules that pods bring to programs, as a program has them that has just started."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from infra.run_module import run_module_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "ATHANOR_JOB", "ATHANOR_METRICS_PORT")


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("athanor_")]:
        del sys.modules[name]


@pytest.fixture
def start(monkeypatch, tmp_path) -> Iterator[Callable[[str], Any]]:
    """Import one of the modules as the first line of a program does; each call is a start of the program."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "mounted"
    folder.mkdir()
    for name, text in run_module_manifest("team")["data"].items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)

    def begin(name: str) -> Any:
        forget()
        return importlib.import_module(name)

    yield begin
    forget()
