"""Running statistics of batch normalisation on two ranks, which each see other samples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch

from trainer.model_repository import torchscript
from trainer.pytorch.checkpoints.stored import whole_weights
from trainer.pytorch.data.digits import DigitsConfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def train(run_ranks, data_dir):
    def run(output: Path, stop_at: int = 0) -> None:
        run_ranks("tests.unit.trainer.pytorch.parallel.train_with_batch_norm", 2, data_dir, output, stop_at)

    return run


def events(output: Path, kind: str) -> list[dict]:
    lines = (output / "default/logs/rank-00000.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def curves(output: Path) -> tuple[list[float], list[float]]:
    return (
        [event["loss"] for event in events(output, "step")],
        [event["accuracy"] for event in events(output, "evaluated")],
    )


def saved(output: Path) -> dict[str, torch.Tensor]:
    return whole_weights(max((output / "default/checkpoints").iterdir()))


def test_a_resumed_run_has_the_statistics_of_the_uninterrupted_one_bit_for_bit(train, data_dir, tmp_path):
    reference, output = tmp_path / "uninterrupted", tmp_path / "resumed"
    train(reference)
    train(output, stop_at=5)
    train(output)
    assert [event["step"] for event in events(output, "resumed")] == [5]
    assert curves(output) == curves(reference)
    expected = saved(reference)
    for name, values in saved(output).items():
        assert torch.equal(values, expected[name]), name

    manifest = json.loads((reference / "models/digits/1/manifest.json").read_text())
    held_out = DigitsConfig(data_dir=data_dir).open("held_out", (1, 8, 8))
    batch = held_out.batch(torch.arange(len(held_out)))
    with torch.inference_mode():
        answers = torchscript.load(reference / "models/digits/1/model.pt")(batch.inputs).argmax(dim=1)
    assert (answers == batch.targets).double().mean().item() == manifest["accuracy"]
