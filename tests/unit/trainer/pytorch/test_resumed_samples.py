"""A run that is stopped within its epochs and resumed by other numbers of ranks and of loader workers."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from trainer.pytorch.data import samples

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def train(run_ranks, tmp_path):
    """Train to a step, and return which images each step had, those of rank 0 first."""
    data_dir = tmp_path / "images"
    samples.prepare_images(data_dir)

    def run(output: Path, *, ranks: int, stop_at: int, workers: int) -> list[list[str]]:
        program = "tests.unit.trainer.pytorch.train_and_note_samples"
        said = run_ranks(program, ranks, data_dir, output, stop_at, workers)
        [printed] = [line for line in said[0].splitlines() if line.startswith("[[")]
        return [list(chain.from_iterable(of_ranks)) for of_ranks in json.loads(printed)]

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
