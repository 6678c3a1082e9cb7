"""Hugging Face's Trainer on the platform: stopped in the middle, it continues with the same losses."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.unit.trainer.pod_modules.programs import SAMPLES, Model, losses, said, stopped

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.long]
STEPS = 6


class ForTrainer(Model):
    """The model as the Trainer calls it; it counts 6 operations for each parameter and number of the input."""

    main_input_name = "x"

    def forward(self, x):
        return {"loss": self.loss(x), "logits": x}

    def num_parameters(self, *, exclude_embeddings: bool) -> int:
        return 10 if exclude_embeddings else 20


@pytest.fixture
def train(start, capsys, monkeypatch):
    """Train as the documentation says, in a program that has just started; return its lines."""
    import transformers  # noqa: PLC0415 - takes a second, which no other test should wait for

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = [{"x": sample} for sample in SAMPLES]

    def begin(seed: int, *, stop_in: int = 0, peak: float | None = None, **arguments) -> list[dict]:
        athanor = start("athanor_frameworks").huggingface_callback()
        monkeypatch.setattr(sys.modules["athanor_run"], "_peak", lambda: peak)
        settings = {
            "max_steps": STEPS, "per_device_train_batch_size": 2, "logging_steps": 1, "save_strategy": "no",
            "use_cpu": True, "report_to": "none", "disable_tqdm": True, "seed": 1,
            "remove_unused_columns": False, **arguments,
        }  # fmt: skip
        trainer = transformers.Trainer(
            ForTrainer(seed, stop_in),
            transformers.TrainingArguments(output_dir=athanor.folder, **settings),
            train_dataset=data,
            eval_dataset=data,
            callbacks=[athanor],
        )
        trainer.train(resume_from_checkpoint=athanor.latest())
        return said(capsys)

    return begin


@pytest.mark.parametrize("stop_in", [3, 4])
def test_a_stopped_run_continues_with_the_same_losses(train, capsys, tmp_path, stop_in):
    whole = losses(train(1))
    assert [step for step, _ in whole] == list(range(1, STEPS + 1))
    first = losses(stopped(train, capsys, 1, stop_in=stop_in))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [f"checkpoint-{stop_in}"]
    shutil.copytree(tmp_path / "checkpoints" / f"checkpoint-{stop_in}", tmp_path / "checkpoints" / "checkpoint-9")
    (tmp_path / "checkpoints" / "checkpoint-9" / "complete.json").unlink()  # as if it had been killed while it saved
    assert first + losses(train(2)) == whole


def test_its_own_checkpoints_count_once_they_are_complete(train, start, tmp_path):
    train(1, save_strategy="steps", save_steps=2, save_total_limit=2, eval_strategy="steps", eval_steps=3)
    folders = sorted((tmp_path / "checkpoints").iterdir())
    assert [folder.name for folder in folders] == ["checkpoint-4", "checkpoint-6"]
    assert start("athanor_frameworks").huggingface_callback().latest() == str(Path("checkpoints", "checkpoint-6"))
    (folders[-1] / "trainer_state.json").write_text("cut")
    assert start("athanor_frameworks").huggingface_callback().latest() == str(Path("checkpoints", "checkpoint-4"))


def test_a_checkpoint_does_not_count_while_it_is_written_again(train, start):
    train(1, save_strategy="steps", save_steps=STEPS)
    athanor = start("athanor_frameworks").huggingface_callback()
    assert athanor.latest() == str(Path("checkpoints", f"checkpoint-{STEPS}"))
    state = SimpleNamespace(global_step=STEPS)
    control = SimpleNamespace(should_save=True, should_evaluate=False)
    athanor.on_step_end(SimpleNamespace(output_dir="checkpoints"), state, control)
    assert athanor.latest() is None


def test_what_it_reports(train):
    settings, *lines = train(1, learning_rate=0.25, eval_strategy="steps", eval_steps=3, label_names=["x"], peak=1e9)
    chosen = settings["hyperparameters"]
    assert (chosen["learning_rate"], chosen["max_steps"]) == (0.25, STEPS)
    assert "weight_decay" not in chosen
    assert {line["total_steps"] for line in lines} == {STEPS}
    steps = [line for line in lines if "loss" in line]
    for line in steps:
        assert line["gradient_norm"] > 0
        assert line["mfu"] == pytest.approx(line["samples_per_second"] * 4 * 60 / 1e9)
    assert [line["step"] for line in lines if "test_loss" in line] == [3, 6]
    assert lines[-1]["train_loss"] > 0


def test_a_limit_of_one_checkpoint_is_refused(train):
    with pytest.raises(ValueError, match=r"save_total_limit=1: .* Fix: 2 or more"):
        train(1, save_total_limit=1)
