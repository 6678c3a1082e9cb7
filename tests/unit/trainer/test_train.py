"""How `trainer.train` starts: its imports without collections, its run with them."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from trainer import train
from trainer.pytorch import program


@pytest.fixture(autouse=True)
def _collecting():
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_slow_is_imported_before_collections_are_off():
    script = "import sys, trainer.train; print(sorted({'torch', 'numpy', 'tyro'} & sys.modules.keys()))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"


def test_a_run_collects_what_it_leaves_and_not_what_was_imported(monkeypatch):
    seen = []
    monkeypatch.setattr(program, "run", lambda: seen.append((gc.isenabled(), gc.get_freeze_count() > 0)))
    train.main()
    assert seen == [(True, True)]
