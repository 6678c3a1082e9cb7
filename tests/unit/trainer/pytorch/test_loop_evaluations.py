"""When the trainer evaluates, and what a stop makes of an evaluation."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest
import torch

from tests.unit.trainer.pytorch.small_runs import GO_ON, StopAt, evaluations, events, losses, run
from trainer import export, export_weights
from trainer.pytorch.checkpoints import folders
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.loop import Outcome, Trainer

pytestmark = pytest.mark.long


def test_a_resumed_run_does_not_evaluate_the_same_step_twice(small, uninterrupted):
    """A kill in an epoch after the one whose last step was saved, and so was its evaluation."""
    reference, _ = uninterrupted
    config = small(epochs=2, checkpoint=CheckpointConfig(checkpoint_interval_steps=11))
    run(config, stop_at=13)
    shutil.rmtree(config.folders.checkpoints / "step-00000013")
    run(config)
    assert [event["step"] for event in events(config) if event["event"] == "resumed"] == [11]
    assert evaluations(config) == evaluations(reference)


@pytest.fixture
def stopped_while_evaluating(small):
    """Make runs of two epochs that are asked to stop when they compute the first held-out batch after a step."""

    def train(step):
        trainer, stop = Trainer(small(epochs=2)), SimpleNamespace(requested=False, arrived=lambda: False)

        def look(module, _inputs, _output):
            stop.requested = stop.requested or (not module.training and trainer.step == step)

        trainer.model.register_forward_hook(look)
        try:
            return trainer.train(stop), trainer
        finally:
            trainer.close()

    return train


def test_a_stop_breaks_off_an_evaluation_and_the_resumed_run_does_it(small, uninterrupted, stopped_while_evaluating):
    reference, reference_trainer = uninterrupted
    config = small(epochs=2)
    for step in (11, 22):  # between two epochs, and at the end
        outcome, trainer = stopped_while_evaluating(step)
        assert (outcome, trainer.step) == (Outcome.STOPPED, step)
        assert (config.folders.checkpoints / f"step-{step:08d}").is_dir()
        assert step not in dict(evaluations(config))
        assert not config.folders.result.exists()
    _, trainer = run(config)
    assert losses(config) == losses(reference)
    assert evaluations(config) == evaluations(reference)
    assert config.folders.result.exists()
    for name, weights in reference_trainer.model.state_dict().items():
        assert torch.equal(weights, trainer.model.state_dict()[name]), name


def test_a_run_that_is_asked_to_stop_at_once_does_not_begin_the_evaluation_that_it_lacks(
    small, stopped_while_evaluating
):
    stopped_while_evaluating(11)
    trainer = Trainer(small(epochs=2))
    trainer.model.register_forward_hook(lambda *_: pytest.fail("it computes"))
    try:
        assert trainer.train(SimpleNamespace(requested=True, arrived=lambda: False)) is Outcome.STOPPED
    finally:
        trainer.close()
    assert evaluations(small()) == []


def test_an_evaluation_of_a_lost_course_of_the_run_does_not_count(small, uninterrupted):
    reference, _ = uninterrupted
    config = small(epochs=2)
    run(config, stop_at=13)
    for step in (12, 13):
        shutil.rmtree(config.folders.checkpoints / f"step-{step:08d}")
    run(config, stop_at=11)
    run(config)
    assert [event["step"] for event in events(config) if event["event"] == "resumed"] == [8, 11]
    # readers of the curves discard what was reported after step 8 before
    assert evaluations(config) == evaluations(reference)[:1] + evaluations(reference)


def test_the_best_evaluation_is_saved_kept_and_exported(small, tmp_path, data_dir, monkeypatch):
    """Of evaluations every 3 steps, whose losses are made up: 5, 1, 3, and 4 at the end."""
    losses_of_steps = {3: 5.0, 6: 1.0, 9: 3.0, 11: 4.0}
    keep = CheckpointConfig(checkpoint_interval_steps=4, keep_latest_k=1, keep_best="loss")
    config = small(checkpoint=keep, evaluation_interval_steps=3)

    def train(stop_at=None):
        trainer = Trainer(config)
        own = trainer._evaluations._means
        means = lambda go_on: own(go_on) and (0.5, losses_of_steps[trainer.step])  # noqa: E731
        monkeypatch.setattr(trainer._evaluations, "_means", means)
        try:
            trainer.train(StopAt(trainer, stop_at) if stop_at else GO_ON)
        finally:
            trainer.close()

    train(stop_at=8)
    assert saved(config) == [6, 8]
    train()
    assert saved(config) == [6, 11]
    assert [event["step"] for event in events(config, "checkpoint_saved")] == [3, 4, 6, 8, 11]
    assert [event["test_loss"] for event in events(config, "evaluated")] == [5.0, 1.0, 3.0, 4.0]
    assert json.loads(config.folders.result.read_text())["loss"] == 4.0
    models, file = tmp_path / "models", tmp_path / "best.safetensors"
    run_folder = ["--checkpoint", str(config.folders.run), "--data", str(data_dir)]
    assert export.main([*run_folder, "--model_repository", str(models), "--step", "best"]) == 0
    assert json.loads((models / "digits/1/manifest.json").read_text())["step"] == 6
    assert export_weights.main(["--run", str(config.folders.run), "--output", str(file), "--step", "best"]) == 0
    (config.folders.checkpoints / "evaluations.json").unlink()
    assert export_weights.main(["--run", str(config.folders.run), "--output", str(file), "--step", "best"]) == 1


def saved(config) -> list[int]:
    return [step for step, _ in folders.by_step(config.folders.checkpoints)]
