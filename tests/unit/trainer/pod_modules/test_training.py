"""A loop of one's own that is stopped in the middle: it continues as if it had not been."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.unit.trainer.pod_modules.programs import in_child, status_of
from trainer import export
from trainer.model_repository import model_file

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 9
"""Two epochs and a bit of four batches each."""


class Program:
    """A model with dropout, of shuffled data: what it computes depends on all random numbers."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        samples = torch.arange(32.0).reshape(8, 4) / 32
        self.loader = DataLoader(TensorDataset(samples, samples.sum(1)), batch_size=2, shuffle=True)
        self.losses: list[float] = []

    def step(self, batch) -> float:
        samples, targets = batch
        loss = torch.nn.functional.mse_loss(self.model(samples).squeeze(1), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        return self.losses[-1]

    def save(self, folder: Path) -> None:
        torch.save([self.model.state_dict(), self.optimizer.state_dict()], folder / "state.pt")

    def load(self, folder: Path) -> None:
        model, optimizer = torch.load(folder / "state.pt")
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)

    def run(self, athanor_run, *, stop_after: int | None = None, **settings) -> list[float]:
        with athanor_run.Training(STEPS, save=self.save, load=self.load, **settings) as run:
            for batch in run.batches(self.loader):
                run.report(loss=self.step(batch), samples=2)
                if run.step + 1 == stop_after:
                    os.kill(os.getpid(), signal.SIGTERM)
        return self.losses


def stopped(program: Program, athanor_run, step: int, **settings) -> list[float]:
    with pytest.raises(SystemExit) as ended:
        program.run(athanor_run, stop_after=step, **settings)
    assert ended.value.code == 143
    return program.losses


@pytest.mark.parametrize("step", [1, 4, 6])
def test_a_stopped_run_continues_with_the_same_losses(start, tmp_path, monkeypatch, step):
    (tmp_path / "whole").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    whole = Program(seed=1).run(start("athanor_run"))
    monkeypatch.chdir(tmp_path)
    first = stopped(Program(seed=1), start("athanor_run"), step)
    second = Program(seed=2).run(start("athanor_run"))
    assert (len(first), first + second) == (step, whole)
    assert Program(seed=3).run(start("athanor_run")) == []


NETWORK = """
import torch

def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))

example = {"input": torch.rand(4, 4)}
"""


def test_the_model_of_a_loop_of_ones_own_is_published_as_the_trainers_are(start, tmp_path):
    program = Program(seed=1)
    program.save = lambda folder: torch.save(program.model.state_dict(), folder / "model.pt")
    program.run(start("athanor_run"))
    (tmp_path / "net.py").write_text(NETWORK, encoding="utf-8")
    weights = tmp_path / f"checkpoints/step-{STEPS:08d}/model.pt"
    words = [f"--checkpoint={weights}", f"--network={tmp_path / 'net.py'}:network", "--run_name=own"]
    more = [f"--examples={tmp_path / 'net.py'}:example", f"--model_repository={tmp_path / 'models'}"]
    assert export.main([*words, *more, "--model_name=own"]) == 0
    manifest = json.loads((tmp_path / "models/own/1/manifest.json").read_text())
    assert (manifest["run_name"], set(manifest["source_files"])) == ("own", {"model.pt", "net.py"})
    rows = torch.rand(3, 4)
    with torch.inference_mode():
        served = model_file.load(tmp_path / "models/own/1/model.pt").call(rows)
        torch.testing.assert_close(served, program.model.eval()(rows))


def test_a_run_that_is_killed_while_it_saves_continues_from_the_checkpoint_before(start, tmp_path):
    athanor_run = start("athanor_run")

    def save(folder: Path) -> None:
        (folder / "half").write_text("x")
        if folder.name.startswith(".step-00000003"):
            os._exit(9)

    def run() -> None:
        with athanor_run.Training(5, save=save, load=print, every_seconds=0) as training:
            list(training)

    assert status_of(in_child(run)) == 9
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        ".step-00000003.partial", "step-00000001", "step-00000002"
    ]  # fmt: skip
    loaded: list[str] = []
    with athanor_run.Training(4, save=lambda _: None, load=lambda folder: loaded.append(folder.name)) as run:
        assert list(run) == [2, 3]
    assert loaded == ["step-00000002"]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-00000002", "step-00000004"]


def test_a_signal_from_outside_ends_the_program_with_a_checkpoint(start, tmp_path):
    athanor_run = start("athanor_run")
    read, write = os.pipe()

    def run() -> None:
        sys.stdout = os.fdopen(write, "w")
        with athanor_run.Training(10**9, save=lambda folder: (folder / "done").touch()) as training:
            for step in training:
                if step < 3:
                    training.report(loss=1)

    child = in_child(run)
    os.close(write)
    with os.fdopen(read) as lines:
        assert [json.loads(next(lines))["step"] for _ in range(3)] == [1, 2, 3]
        os.kill(child, signal.SIGTERM)
        assert (status_of(child), lines.read()) == (143, "")
    [checkpoint] = (tmp_path / "checkpoints").iterdir()
    assert int(checkpoint.name[len("step-") :]) >= 3
    assert (checkpoint / "done").exists()


def test_what_it_reports(start, capsys, monkeypatch):
    athanor_run = start("athanor_run")
    now = iter(range(1000))
    monkeypatch.setattr(athanor_run.time, "monotonic", lambda: next(now) / 4)
    monkeypatch.setattr(athanor_run, "_peak", lambda: 1000.0)
    with athanor_run.Training(2, settings={"lr": 0.1}) as run:
        for step in run:
            run.report(loss=1 / (step + 1), samples=8, tokens=80, flops=500)
    settings, *steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert settings == {"hyperparameters": {"lr": 0.1}}
    assert [step["loss"] for step in steps] == [1, 0.5]
    for line in steps:
        assert line["total_steps"] == 2
        assert line["tokens_per_second"] == pytest.approx(10 * line["samples_per_second"])
        assert line["mfu"] == pytest.approx(line["samples_per_second"] / 8 * 500 / 1000)
    assert athanor_run.progress._PROGRESS.numbers["memory_peak_bytes"] > 1e6


def test_the_probe_sees_a_step_that_hangs(start, tmp_path, monkeypatch):
    monkeypatch.setenv("ATHANOR_JOB", "train-1")
    athanor_run = start("athanor_run")
    import athanor_heartbeat  # noqa: PLC0415 - just imported

    monkeypatch.setattr(athanor_run, "FOLDER", tmp_path / "work")
    monkeypatch.setattr(athanor_run, "_OUTPUT", tmp_path / "output")
    now = [100.0]
    monkeypatch.setattr(athanor_heartbeat.time, "monotonic", lambda: now[0])
    reasons = []
    with athanor_run.Training(2, save=lambda _: None, every_seconds=0, step_seconds=300) as run:
        for _ in run:
            for later in (300, 301):
                now[0] += later
                reasons.append(athanor_heartbeat.stuck(tmp_path / "work", 0))
    now[0] += 1e6
    assert athanor_heartbeat.stuck(tmp_path / "work", 0) == []
    assert [bool(each) for each in reasons] == [False, False, False, True], reasons
    assert "rank 0 has been at a step after step 1 for 601 s" in reasons[-1][0]
    assert (tmp_path / "output" / "train-1" / "checkpoints" / "step-00000002").is_dir()


def test_handlers_of_the_program_come_back(start):
    before = signal.getsignal(signal.SIGTERM)
    with start("athanor_run").Training(1) as run:
        assert signal.getsignal(signal.SIGTERM) != before
        list(run)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_second_ctrl_c_ends_at_once(start):
    with start("athanor_run").Training(5) as run:
        next(iter(run))
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_loader_without_batches_is_named(start):
    with start("athanor_run").Training(1) as run, pytest.raises(ValueError, match="the loader gives no batch"):
        list(run.batches([]))
