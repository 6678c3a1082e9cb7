"""When the trainer saves, and what a save that fails or takes long makes of the run."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
from types import SimpleNamespace

import pytest
import torch.distributed as dist

from tests.unit.trainer.pytorch.small_runs import GO_ON, events, losses, metric, run
from trainer.pytorch.checkpoints import background, saves
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.checkpoints.errors import CheckpointError
from trainer.pytorch.distributed import DistributedConfig
from trainer.pytorch.loop import Trainer

pytestmark = pytest.mark.long


def test_full_disk_in_the_middle_costs_a_checkpoint_but_at_the_end_the_run(small, monkeypatch):
    trainer = Trainer(small())
    try:
        monkeypatch.setattr(trainer._checkpoints, "save", _fail)
        with pytest.raises(CheckpointError, match="disk full"):
            trainer.train(GO_ON)
        labels = {"run": "small", "rank": "0"}
        assert trainer.metrics.registry.get_sample_value("athanor_training_checkpoint_failures_total", labels) == 2
    finally:
        trainer.close()
    assert trainer.step == 11
    kinds = [event["event"] for event in events(trainer.config)]
    assert kinds.count("checkpoint_failed") == 2
    assert kinds[-1] == "failed"


def test_a_run_saved_in_the_background_resumes_bit_for_bit(small, tmp_path):
    reference = small(output_dir=tmp_path / "reference")
    run(reference)
    in_background = CheckpointConfig(checkpoint_interval_steps=4, checkpoint_mode="async")
    config = small(checkpoint=in_background)
    run(config)
    saved = [event for event in events(config) if event["event"] == "checkpoint_saved"]
    assert [(event["step"], "background_seconds" in event) for event in saved] == [(4, True), (8, True), (11, False)]
    assert multiprocessing.active_children() == []
    config.folders.result.unlink()
    shutil.rmtree(config.folders.checkpoints / "step-00000011")
    _, trainer = run(small())
    assert [event["step"] for event in events(config) if event["event"] == "resumed"] == [8]
    assert losses(config) == losses(reference)
    assert metric(trainer, "step") == 11


def test_a_state_that_is_copied_while_the_next_step_computes_is_the_one_of_its_step(small, monkeypatch, tmp_path):
    waits = threading.Event()
    stage, wait = background.StateDictStager.stage, background.Background.wait_for_copy

    def late_stage(self, state):
        assert waits.wait(60), "the next step changes the parameters without waiting"
        return stage(self, state)

    def announced_wait(self):
        waits.set()
        wait(self)

    reference = small(output_dir=tmp_path / "reference")
    run(reference)
    monkeypatch.setattr(background.StateDictStager, "stage", late_stage)
    monkeypatch.setattr(background.Background, "wait_for_copy", announced_wait)
    in_background = CheckpointConfig(checkpoint_interval_steps=8, checkpoint_mode="async")
    config = small(checkpoint=in_background)
    run(config)
    config.folders.result.unlink()
    shutil.rmtree(config.folders.checkpoints / "step-00000011")
    run(config)
    assert [event["step"] for event in events(config) if event["event"] == "resumed"] == [8]
    assert losses(config) == losses(reference)


def test_a_run_that_fails_finishes_the_save_that_it_has_begun(small, monkeypatch):
    # on a busy machine, the process that saves needs longer than the usual 30 s to import torch
    monkeypatch.setattr(saves, "_LAST_SAVE_SECONDS", 600)
    config = small(checkpoint=CheckpointConfig(checkpoint_interval_steps=4, checkpoint_mode="async"))
    trainer = Trainer(config)
    monkeypatch.setattr(trainer, "evaluate", lambda _stop: None)
    step = trainer.train_step
    monkeypatch.setattr(trainer, "train_step", lambda **given: step(**given) if trainer.step < 4 else 1 / 0)
    try:
        with pytest.raises(ZeroDivisionError):
            trainer.train(GO_ON)
    finally:
        trainer.close()
    assert [path.name for path in config.folders.checkpoints.iterdir()] == ["step-00000004"]
    assert [event["event"] for event in events(config)][-2:] == ["failed", "checkpoint_saved"]


def test_without_shared_memory_training_waits_for_its_checkpoints(small, monkeypatch, caplog):
    monkeypatch.setattr(background.shutil, "disk_usage", lambda _: SimpleNamespace(total=0, used=0, free=1000))
    config = small(checkpoint=CheckpointConfig(checkpoint_interval_steps=4, checkpoint_mode="async"))
    run(config)
    saved = [event for event in events(config) if event["event"] == "checkpoint_saved"]
    assert [(event["step"], "background_seconds" in event) for event in saved] == [(4, False), (8, False), (11, False)]
    assert caplog.text.count("/dev/shm has 0 MB free") == 1


def test_a_state_that_cannot_be_copied_costs_one_checkpoint(small, monkeypatch):
    monkeypatch.setattr(background.StateDictStager, "stage", lambda *_: _fail_to_copy())
    config = small(checkpoint=CheckpointConfig(checkpoint_interval_steps=4, checkpoint_mode="async"))
    run(config)
    kinds = [(event["event"], event["step"]) for event in events(config) if event["event"].startswith("checkpoint")]
    assert kinds == [("checkpoint_failed", 4), ("checkpoint_saved", 8), ("checkpoint_saved", 11)]


def _fail_to_copy():
    raise RuntimeError("unable to allocate shared memory(shm)")


def _fail(_step, _state):
    raise CheckpointError("disk full")


def test_steps_and_checkpoints_have_limits_of_their_own(small, monkeypatch):
    limits: list[float] = []
    monkeypatch.setattr(dist, "set_timeout", lambda limit: limits.append(limit.total_seconds()))
    own = DistributedConfig(init_timeout_seconds=900, train_timeout_seconds=60, checkpoint_timeout_seconds=700)
    trainer = Trainer(small(distributed=own))
    trainer.train(GO_ON)
    trainer.close()
    # saved after steps 4 and 8, and at the end, where the model is evaluated and published as well
    assert limits == [60, 700] * 3
