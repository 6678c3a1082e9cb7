"""Lightning on the platform: stopped in the middle of an epoch, it continues with the same losses."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

from tests.unit.trainer.pod_modules.programs import SAMPLES, Model, losses, said, shuffled, stopped

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.long]
STEPS = 10
"""Two epochs of four batches, and half of one."""


@pytest.fixture
def train(start, capsys, tmp_path):
    """Train as the documentation says, in a program that has just started; return its lines."""
    from lightning import pytorch as lightning  # noqa: PLC0415 - takes seconds, which no other test should wait for

    class Module(Model, lightning.LightningModule):
        """The model as Lightning calls it."""

        def training_step(self, batch, _number):
            return self.loss(*batch)

        def validation_step(self, batch, _number):
            self.log("val_loss", self.loss(*batch))

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.1)

    def begin(seed: int, *, stop_in: int = 0, validate: bool = False, **settings) -> list[dict]:
        frameworks = start("athanor_frameworks")
        athanor = frameworks.lightning_callback(**settings)
        trainer = lightning.Trainer(
            max_steps=STEPS, accelerator="cpu", callbacks=[athanor], log_every_n_steps=1, logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            default_root_dir=tmp_path,
        )  # fmt: skip
        module = Module(seed, stop_in)
        module.save_hyperparameters({"width": 8})
        held_out = DataLoader(shuffled().dataset, batch_size=len(SAMPLES)) if validate else None
        trainer.fit(module, frameworks.Batches(shuffled()), held_out, ckpt_path=athanor.latest())
        return said(capsys)

    return begin


@pytest.mark.parametrize("case", [(1, False), (4, False), (6, True), (8, True)])
def test_a_stopped_run_continues_with_the_same_losses(train, capsys, tmp_path, monkeypatch, case):
    stop_in, validate = case
    (tmp_path / "whole").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    whole = losses(train(1, validate=validate))
    assert [step for step, _ in whole] == list(range(1, STEPS + 1))
    monkeypatch.chdir(tmp_path)
    first = losses(stopped(train, capsys, 1, stop_in=stop_in, validate=validate))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [f"step-{stop_in:08d}"]
    assert first + losses(train(2, validate=validate)) == whole


def test_what_it_reports_and_saves(train, tmp_path):
    settings, *lines = train(1, validate=True, every_seconds=0, keep=3)
    assert settings["hyperparameters"] == {"width": 8}
    assert {line["total_steps"] for line in lines} == {STEPS}
    assert all(line["samples_per_second"] > 0 and line["learning_rate"] == 0.1 for line in lines if "loss" in line)
    assert [line["step"] for line in lines if "val_loss" in line and "loss" not in line] == [4, 8]
    assert sorted(path.name[-2:] for path in (tmp_path / "checkpoints").iterdir()) == ["08", "09", "10"]
