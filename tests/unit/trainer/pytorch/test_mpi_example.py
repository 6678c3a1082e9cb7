"""The example under the real mpirun, and what it does where MPI is not as it should be. Needs openmpi and mpi4py."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from trainer.mpi_example import MpiError, check_sum, torchrun_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[4]
MPIRUN = Path(sysconfig.get_path("scripts")) / "mpirun"


@pytest.fixture
def mpirun(data_dir, tmp_path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Start the example on two ranks of this machine."""
    started: list[subprocess.Popen] = []

    def start(*arguments: object, environment: dict[str, str] | None = None) -> subprocess.Popen:
        launcher = [MPIRUN, "-np", "2", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,sm"]
        program = [sys.executable, "-m", "trainer.mpi_example"]
        folders = ["--data_dir", data_dir, "--output_dir", tmp_path / "output", "--work_dir", tmp_path / "work"]
        options = ["--num_gpu", 0, "--run_name", "r1", "--width", 4, "--log_interval_steps", 1]
        process = subprocess.Popen(
            [str(word) for word in (*launcher, *program, *folders, *options, *arguments)],
            env={
                **os.environ,
                "PYTHONPATH": str(REPOSITORY),
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                **(environment or {}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            # it takes its ranks along, which are in groups of their own
            process.terminate()
            process.wait()
        process.stdout.close()


def events(base: Path, rank: int) -> list[dict]:
    lines = (base / f"output/r1/logs/rank-{rank:05d}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_two_ranks_train_as_one_job_after_a_sum_over_mpi(mpirun, tmp_path):
    job = mpirun("--epochs", 2)
    output, _ = job.communicate()
    assert job.returncode == 0, output
    assert "mpi: sum of 2 ranks on 1 hosts is 1\n" in output
    losses = [[line["loss"] for line in events(tmp_path, rank) if line["event"] == "step"] for rank in (0, 1)]
    assert len(losses[0]) == 44
    assert losses[0] == losses[1]
    assert events(tmp_path, 0)[0]["world_size"] == 2
    assert (tmp_path / "output/models/digits/1/model.pt").exists()


def test_every_rank_can_be_read_says_who_it_is_and_saves_when_asked_to_stop(mpirun, tmp_path):
    port = two_free_ports()
    environment = {"ATHANOR_METRICS_PORT": str(port), "ATHANOR_LOG_FORMAT": "json"}
    job = mpirun("--epochs", 500, "--metrics_host", "127.0.0.1", environment=environment)
    said = []
    for line in job.stdout:
        said.append(line)
        if '"step step=30 ' in line:
            break
    for rank in (0, 1):
        with urlopen(f"http://127.0.0.1:{port + rank}/metrics") as answer:
            text = answer.read().decode()
        sample = re.search(rf"^athanor_training_step{{rank=\"{rank}\",run=\"r1\"}} (\S+)$", text, re.MULTILINE)
        assert sample
        assert float(sample[1]) >= 29

    job.send_signal(signal.SIGUSR1)  # which mpirun passes on; SIGTERM would leave the ranks half a second
    rest, _ = job.communicate()
    assert job.returncode != 0, "an unfinished job must not look like a success"
    last = [events(tmp_path, rank)[-1] for rank in (0, 1)]
    assert [line["event"] for line in last] == ["stopped", "stopped"]
    (checkpoint,) = (tmp_path / "output/r1/checkpoints").glob(f"step-{last[0]['step']:08d}")
    assert (checkpoint / "complete.json").exists()
    logged = [json.loads(line) for line in (*said, *rest.splitlines()) if line.startswith("{")]
    for rank in (0, 1):
        assert {"started", "stopped"} <= {line["event"] for line in logged if line["rank"] == rank}
    assert {line["rank"] for line in logged if line["event"] == "step"} == {0}


def two_free_ports() -> int:
    """Return the first of two neighbours that nobody listens on."""
    while True:
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", 0))
            second.bind(("127.0.0.1", first.getsockname()[1] + 1))
            return first.getsockname()[1]


def test_names_of_open_mpi_become_those_of_torchrun():
    environment = {f"OMPI_COMM_WORLD_{name}": name for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")}
    assert torchrun_variables(environment) == {
        "RANK": "RANK",
        "WORLD_SIZE": "SIZE",
        "LOCAL_RANK": "LOCAL_RANK",
        "LOCAL_WORLD_SIZE": "LOCAL_SIZE",
    }


def test_without_mpirun_it_says_how_to_start():
    done = subprocess.run(
        [sys.executable, "-m", "trainer.mpi_example"],
        env={name: value for name, value in os.environ.items() if not name.startswith("OMPI_")},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "mpi_example: OMPI_COMM_WORLD_RANK, " in done.stderr
    assert "Fix: start it with Open MPI's mpirun" in done.stderr


def test_wrong_sum_is_refused():
    class Miscounting:
        Get_size = staticmethod(lambda: 4)
        Get_rank = staticmethod(lambda: 0)
        allreduce = staticmethod(lambda _value: 5)
        allgather = staticmethod(lambda value: [value])

    with pytest.raises(MpiError, match="ranks 0 to 3 to 5, not 6"):
        check_sum(Miscounting())
