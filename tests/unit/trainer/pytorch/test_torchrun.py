"""Two ranks as in the pods, gloo over the loopback interface; by the real torchrun where that is what is tested."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import pytest
import torch
from torch.distributed.checkpoint import FileSystemReader, load
from torch.distributed.run import get_args_parser

from trainer.common.files import sha256_of, write_json_atomically
from trainer.pytorch.distributed import Distributed, DistributedConfig
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.training import digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.warm_python import WarmProcess

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[4]
PROGRAM = ("-m", "trainer.train")
RANKS = 2
EPOCHS, CHECKPOINT_INTERVAL_STEPS = 8, 30
SLOW_BACKWARD = "tests.unit.trainer.pytorch.slow_backward"


class Heard:
    """A process, and what it has said."""

    def __init__(self, process: subprocess.Popen[str] | WarmProcess, says: TextIO) -> None:
        self.process, self.output = process, ""
        self._says = says

    def wait_for(self, text: str) -> None:
        """Read what it says until a line contains `text`."""
        for line in self._says:
            self.output += line
            if text in line:
                return
        pytest.fail(f"it ended without saying {text!r}:\n{self.output}")

    def wait(self) -> int:
        """Read to the end and return the exit status."""
        self.output += self._says.read()
        return self.process.wait()


class Job(Heard):
    """A torchrun of two ranks, and what it says on standard error."""

    def __init__(self, *arguments: object, max_restarts: int = 0) -> None:
        launcher = ["-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={RANKS}"]
        launcher.append(f"--max-restarts={max_restarts}")
        rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
        environment = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        process = subprocess.Popen(
            [sys.executable, *launcher, *rendezvous, *map(str, (*PROGRAM, *arguments))],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        assert process.stderr
        super().__init__(process, process.stderr)

    def worker(self, rank: int) -> int:
        """Return the process id of a rank."""
        for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            if b"RANK=%d" % rank in variables:
                return int(child)
        raise AssertionError(f"no process of rank {rank}")

    def end(self) -> None:
        """Kill whatever of the job is left."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._says.close()


@pytest.fixture(scope="module")
def jobs() -> Iterator:
    started = []

    def start(*arguments: object, **options: Any) -> Job:
        started.append(Job(*arguments, **options))
        return started[-1]

    yield start
    for job in started:
        job.end()


def arguments(data_dir: Path, base: Path) -> list[object]:
    """The command line of the default training, shorter, with every step in the log."""
    return [
        *("--data_dir", data_dir, "--output_dir", base / "output", "--work_dir", base / "work", "--num_gpu", 0),
        *("--run_name", "r1", "--log_interval_steps", 1),
        *("--epochs", EPOCHS, "--checkpoint_interval_steps", CHECKPOINT_INTERVAL_STEPS),
    ]


def events(base: Path, rank: int) -> list[dict]:
    lines = (base / f"output/r1/logs/rank-{rank:05d}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def losses(base: Path, rank: int) -> dict[int, set[float]]:
    """Every loss that was logged for a step; more than one where steps were done again after a kill."""
    losses_by_step: dict[int, set[float]] = {}
    for event in events(base, rank):
        if event["event"] == "step":
            losses_by_step.setdefault(event["step"], set()).add(event["loss"])
    return losses_by_step


def final_weights(base: Path) -> dict[str, torch.Tensor]:
    newest = max((base / "output/r1/checkpoints").iterdir())
    weights = DigitsCnnConfig().build().state_dict()
    alone = Distributed(DistributedConfig())
    load({"model": weights}, storage_reader=FileSystemReader(newest))
    alone.close()
    return weights


@pytest.fixture(scope="module")
def uninterrupted(run_ranks, data_dir, tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("uninterrupted")
    run_ranks("trainer.train", RANKS, *arguments(data_dir, base))
    return base


def test_training_on_two_ranks_reaches_97_percent(uninterrupted):
    manifest = json.loads((uninterrupted / "output/models/digits/1/manifest.json").read_text())
    assert manifest["accuracy"] >= 0.97
    assert losses(uninterrupted, 0) == losses(uninterrupted, 1)


def test_preempted_then_killed_run_equals_the_uninterrupted_one_bit_for_bit(jobs, data_dir, uninterrupted, tmp_path):
    # what happens to a pod that is deleted: torchrun gets SIGTERM and passes it on
    preempted = jobs(*arguments(data_dir, tmp_path))
    preempted.wait_for(" step step=30 ")
    preempted.process.terminate()
    assert preempted.wait() != 0, "an unfinished job must not look like a success"
    last = [events(tmp_path, rank)[-1] for rank in (0, 1)]
    assert [event["event"] for event in last] == ["stopped", "stopped"]
    assert last[0]["step"] == last[1]["step"] >= 30

    # what happens when a process crashes: torchrun starts all ranks again
    killed = jobs(*arguments(data_dir, tmp_path), max_restarts=1)
    killed.wait_for(f" resumed step={last[0]['step']} ")
    killed.wait_for(" step step=140 ")
    os.kill(killed.worker(rank=1), signal.SIGKILL)
    assert killed.wait() == 0, killed.output
    resumed = [event["step"] for event in events(tmp_path, 1) if event["event"] == "resumed"]
    assert resumed[0] == last[0]["step"]
    assert resumed[1] > resumed[0]
    assert resumed[1] % CHECKPOINT_INTERVAL_STEPS == 0

    for rank in (0, 1):
        assert losses(tmp_path, rank) == losses(uninterrupted, rank)
    expected, actual = final_weights(uninterrupted), final_weights(tmp_path)
    for name, weights in expected.items():
        assert torch.equal(actual[name], weights), name

    again = jobs(*arguments(data_dir, tmp_path))
    assert again.wait() == 0, again.output
    assert [events(tmp_path, rank)[-1]["event"] for rank in (0, 1)] == ["already_finished"] * 2
    versions = [path.name for path in (tmp_path / "output/models/digits").iterdir() if path.is_dir()]
    assert versions == ["1"]


def test_one_bad_sample_on_one_rank_stops_all_ranks_with_the_reason(ranks_of, tmp_path):
    folder = digits.prepare(tmp_path / "data")
    images = np.load(folder / "train_images.npy")
    images[7] = np.nan
    np.save(folder / "train_images.npy", images)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["train_images.npy"]["sha256"] = sha256_of(folder / "train_images.npy")
    write_json_atomically(folder / "manifest.json", manifest)

    options = (*arguments(tmp_path / "data", tmp_path), "--checkpoint_interval_steps", 1)
    with ranks_of("trainer.train", RANKS, *options) as ranks:
        for rank in ranks:
            rank.stdout.read()
        assert [rank.wait() for rank in ranks] == [1, 1]
    last = [events(tmp_path, rank)[-1] for rank in (0, 1)]
    assert [event["event"] for event in last] == ["failed", "failed"]
    assert last[0]["step"] == last[1]["step"]
    assert all("NonFiniteError" in event["error"] and "not finite on 1 of 2 ranks" in event["error"] for event in last)
    assert sum("loss nan on rank" in event["error"] for event in last) == 1
    for weights in final_weights(tmp_path).values():
        assert weights.isfinite().all()


def test_torchrun_knows_the_binding_of_ranks_to_numa_nodes():
    """PyTorchJob asks for it on GPUs; a torchrun without it would end with an error."""
    parsed = get_args_parser().parse_args(["--numa-binding=node", "train.py"])
    assert parsed.numa_binding == "node"


def test_the_rank_with_slow_gradients_is_the_one_with_more_time_of_its_own(run_ranks, data_dir, tmp_path):
    slow, seconds = 1, 0.06
    short = ("--epochs", 1, "--checkpoint_interval_steps", 1000, "--straggler_interval_steps", 10)
    said, _ = run_ranks(SLOW_BACKWARD, RANKS, slow, seconds, *arguments(data_dir, tmp_path), *short)
    own, whole = (
        [median(event[name] for event in events(tmp_path, rank) if event["event"] == "step") for rank in (0, 1)]
        for name in ("own_seconds", "step_seconds")
    )
    # they end each step together: only what each of them did before it waited tells them apart
    assert whole[0] == pytest.approx(whole[1], rel=0.2)
    assert own[slow] > own[1 - slow] + seconds / 2
    assert own[slow] <= whole[slow]
    reported = [event for event in events(tmp_path, 0) if event["event"] == "slow_rank"]
    assert {event["slowest_rank"] for event in reported} == {slow}
    assert {event["host"] for event in reported} == {socket.gethostname()}
    assert " slow_rank step=10 slowest_rank=1 host=" in said
    assert not [event for event in events(tmp_path, 1) if event["event"] == "slow_rank"]
