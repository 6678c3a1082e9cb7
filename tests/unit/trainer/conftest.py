"""Fixtures for several rooms: prepared data, and no modules of users' files left from another test."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.warm_python import WarmPython
from trainer.training import digits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    digits.prepare(folder)
    return folder


@pytest.fixture(scope="session")
def trainer_imported() -> Iterator[WarmPython]:
    """A Python that has imported what ranks of a small run take most of their time for, on the CPU and on loopback."""
    # torch imports its compiler when a mesh of devices is cut: two thirds of what a rank of a small run takes.
    packages = ("trainer.pytorch.loop", "torch._dynamo")
    imported = WarmPython(*packages, CUDA_VISIBLE_DEVICES="", GLOO_SOCKET_IFNAME="lo")
    yield imported
    imported.close()


@pytest.fixture(autouse=True)
def user_code(tmp_path_factory) -> Iterator[None]:
    """Forget the modules of files that a test trains or exports: others have the same names."""
    path, temporary = [*sys.path], f"{tmp_path_factory.getbasetemp()}{os.sep}"
    yield
    sys.path[:] = path
    # With torch there are thousands of modules: as paths in place of text, comparing them takes half a second per test.
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(temporary):
            del sys.modules[name]
