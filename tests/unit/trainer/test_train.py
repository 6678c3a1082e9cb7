"""How `trainer.train` starts: its imports without collections, its run with them."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys

import pytest

from trainer import train
from trainer.pytorch import program
from trainer.pytorch.loop import Outcome

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _collecting():
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_slow_is_imported_before_collections_are_off():
    script = "import sys, trainer.train; print(sorted({'torch', 'numpy', 'tyro'} & sys.modules.keys()))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"


class FakeTrainer:
    """Notes whether collections are on, and whether something is left out of them, when it is built and trains."""

    def __init__(self, seen: list[tuple[bool, bool]]) -> None:
        self._seen = seen
        self._note()

    def _note(self) -> None:
        self._seen.append((gc.isenabled(), gc.get_freeze_count() > 0))

    def train(self, _stop: object) -> Outcome:
        self._note()
        return Outcome.FINISHED

    def close(self) -> None:
        pass


def test_a_run_collects_what_it_leaves_and_not_what_its_start_made(monkeypatch):
    gc.unfreeze()
    seen = []
    monkeypatch.setattr(program, "parse", lambda: seen)
    monkeypatch.setattr(program, "log_to_stderr", lambda: None)
    monkeypatch.setattr(program, "Trainer", FakeTrainer)
    train.main()
    assert seen == [(False, False), (True, True)]


def test_a_rank_starts_without_what_only_publishing_needs():
    script = "import sys, trainer.pytorch.program; print(sorted({'grpc', 'tritonclient'} & sys.modules.keys()))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "data_dir=nowhere: nowhere/digits/manifest.json is missing or not JSON. Fix: "),
        (
            ["--tensor_parallel", "2"],
            "tensor_parallel=2: the product of the degrees is 2, which does not divide the number of ranks, 1. Fix: ",
        ),
    ],
)
def test_what_is_wrong_with_data_or_layout_is_said_without_a_traceback(tmp_path, arguments, message):
    run = ("--data_dir", "nowhere", "--output_dir", tmp_path / "output", "--work_dir", tmp_path / "work")
    command = [sys.executable, "-m", "trainer.train", *run, *arguments]
    for_torchrun = tmp_path / "error.json"
    environment = {**os.environ, "TORCHELASTIC_ERROR_FILE": str(for_torchrun)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    # what torchrun prints at its end, for each rank
    printed = json.loads(for_torchrun.read_text())["message"]["extraInfo"]["py_callstack"]
    assert message in printed
    assert "Traceback" not in printed
