"""A loop with Accelerate on the platform: stopped in the middle, it continues with the same losses."""

from __future__ import annotations

import pytest
import torch

from tests.unit.trainer.pod_modules.programs import Model, losses, said, shuffled

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS = 9


@pytest.fixture
def train(start, capsys):
    """Train as the documentation says, in a program that has just started; return its lines."""
    import accelerate  # noqa: PLC0415 - takes a second, which no other test should wait for

    def begin(seed: int, *, stop_in: int = 0) -> list[dict]:
        frameworks, training = start("athanor_frameworks"), __import__("athanor_run").Training
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = accelerate.Accelerator(cpu=True, log_with=frameworks.accelerate_tracker())
        accelerator.init_trackers("digits", {"lr": 0.1})
        model = Model(seed, stop_in)
        model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.1), shuffled())
        with training(STEPS, save=accelerator.save_state, load=accelerator.load_state, every_rank=True) as run:
            for [samples] in run.batches(loader):
                loss = model.loss(samples)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                accelerator.log({"loss": loss.item(), "note": "text"}, step=run.step + 1)
        accelerator.end_training()
        return said(capsys)

    return begin


@pytest.mark.parametrize("stop_in", [4, 6])
def test_a_stopped_run_continues_with_the_same_losses(train, capsys, tmp_path, monkeypatch, stop_in):
    (tmp_path / "whole").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    settings, *whole = train(1)
    assert settings == {"hyperparameters": {"lr": 0.1}}
    assert [step for step, _ in losses(whole)] == list(range(1, STEPS + 1))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        train(1, stop_in=stop_in)
    assert ended.value.code == 143
    assert losses(said(capsys)) + losses(train(2)) == losses(whole)
