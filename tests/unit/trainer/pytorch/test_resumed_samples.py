"""A run that is stopped within its epochs and resumed by other numbers of ranks and of loader workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from trainer.pytorch.data import samples

REPOSITORY = Path(__file__).resolve().parents[4]
PROGRAM = Path(__file__).with_name("train_and_note_samples.py")
LAUNCH = ("-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0")


@pytest.fixture
def train(tmp_path):
    """Train to a step, and return which images each step had, those of rank 0 first."""
    data_dir = tmp_path / "images"
    samples.prepare_images(data_dir)

    def run(output: Path, *, ranks: int, stop_at: int, workers: int) -> list[list[str]]:
        done = subprocess.run(
            [
                sys.executable,
                *LAUNCH,
                f"--nproc-per-node={ranks}",
                PROGRAM,
                data_dir,
                output,
                str(stop_at),
                str(workers),
            ],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return [list(chain.from_iterable(of_ranks)) for of_ranks in json.loads(done.stdout)]

    return run


def losses(output: Path) -> dict[int, float]:
    lines = (output / "default/logs/rank-00000.jsonl").read_text().splitlines()
    return {event["step"]: event["loss"] for event in map(json.loads, lines) if event["event"] == "step"}


def test_two_then_one_then_four_ranks_use_the_samples_of_one_in_the_same_order(train, tmp_path):
    expected = train(tmp_path / "alone", ranks=1, stop_at=0, workers=0)
    output = tmp_path / "resumed"
    steps = train(output, ranks=2, stop_at=5, workers=2)
    steps += train(output, ranks=1, stop_at=14, workers=1)  # from one epoch into the next
    steps += train(output, ranks=4, stop_at=0, workers=0)
    assert len(steps) == 22
    assert steps == expected
    assert losses(output) == pytest.approx(losses(tmp_path / "alone"), rel=1e-4)
