"""The context of a check: its folder, the size of its models, and its processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_POLL_SECONDS = 0.05
_LINES_OF_A_FAILURE = 12
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class SkippedError(Exception):
    """Something that a step needs is not there; the message names it."""


class StepError(Exception):
    """A step did not show what it is for; the message says what it saw instead."""


class Process(Protocol):
    """The part of `subprocess.Popen` that a check needs."""

    def poll(self) -> int | None:
        """Return the exit status if it has ended."""
        ...

    def send_signal(self, sig: int, /) -> None:
        """Send a signal."""
        ...

    def kill(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes of a check's models and data."""

    gpt_sizes: tuple[str, ...]
    gpt_batch: int
    steps: int
    warm_up: int
    """Of these: steps that do not count, in which kernels are loaded and chosen."""
    photograph: tuple[int, int]
    """Width and height of the image files."""
    resnet: tuple[str, ...]
    image_size: int
    image_batch: int
    image_workers: int
    load_seconds: float
    """Duration of the requests to a server."""
    busy_seconds: float
    largest_all_reduce: int


FULL = Scale(
    gpt_sizes=("125m", "350m"),
    gpt_batch=8,
    steps=14,
    warm_up=4,
    photograph=(500, 375),
    resnet=("--depth", "50"),
    image_size=224,
    image_batch=128,
    image_workers=8,
    load_seconds=4.0,
    busy_seconds=2.0,
    largest_all_reduce=1 << 30,
)
MINIATURE = Scale(
    gpt_sizes=("nano",),
    gpt_batch=2,
    steps=4,
    warm_up=1,
    photograph=(40, 30),
    resnet=("--depth", "18"),
    image_size=16,
    image_batch=2,
    image_workers=1,
    load_seconds=0.3,
    busy_seconds=0.0,
    largest_all_reduce=4096,
)
"""Scale for a machine without GPUs: it shows whether the steps work, not how fast anything is."""


def start(words: Sequence[str], output: Path, variables: Mapping[str, str]) -> Process:
    """Start `python -m` with these words, in a process group of its own, its output added to a file."""
    with output.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            start_new_session=True,
        )


@dataclass(kw_only=True)
class Running:
    """Processes of one program, one per rank."""

    processes: list[Process]
    outputs: list[Path]
    statuses: list[int] = field(default_factory=list[int])

    def said(self, rank: int = 0) -> str:
        """Return the output of a rank so far."""
        return self.outputs[rank].read_text(encoding="utf-8", errors="replace")

    def last_lines(self, rank: int = 0) -> str:
        """Return the end of it, which says why it failed."""
        return "\n".join(self.said(rank).strip().splitlines()[-_LINES_OF_A_FAILURE:])

    def end(self) -> None:
        """Kill what is left of them; their own processes end with them."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()


@dataclass(kw_only=True)
class Training:
    """A run of the trainer that was watched (`observed_training`)."""

    folder: Path
    running: Running

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the events of rank 0 so far, of these kinds or all."""
        logs = sorted(self.folder.glob("*/logs/rank-00000.jsonl"))
        lines = logs[0].read_text(encoding="utf-8").splitlines() if logs else []
        # the last line may be half written
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [each for each in events if not kinds or each["event"] in kinds]

    @property
    def observed(self) -> dict[str, Any]:
        """The observations of rank 0 by `observed_training`."""
        return json.loads((self.folder / "observed-0.json").read_text(encoding="utf-8"))


class Site:
    """The folder, the scale and the processes of one check.

    Attributes:
        folder: for everything that steps write.
        scale: how large everything is.
        gpus: of this machine, as far as the check may use them.
        gpu_bytes: memory of the first one, once a step has seen it: this process opens none.
    """

    def __init__(
        self,
        folder: Path,
        scale: Scale,
        *,
        gpus: int,
        launch: Callable[[Sequence[str], Path, Mapping[str, str]], Process] = start,
    ) -> None:
        self.folder, self.scale, self.gpus = folder, scale, gpus
        self._launch = launch
        self.gpu_bytes: int | None = None
        self._until = float("inf")
        self._running: list[Running] = []

    def allow(self, seconds: float) -> None:
        """Set the time limit of the activity that begins now."""
        self._until = time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Until the end of the step that runs."""
        return self._until - time.monotonic()

    @property
    def gpt_batch(self) -> int:
        """Samples of a step of the language models: fewer on GPUs with less than 40 GB of memory."""
        gigabytes = 80 if self.gpu_bytes is None else self.gpu_bytes / 1e9
        return max(1, self.scale.gpt_batch // (1 if gigabytes >= 40 else 2 if gigabytes >= 20 else 4))

    def start(
        self, name: str, words: Sequence[str], *, ranks: int = 1, variables: Mapping[str, str] | None = None
    ) -> Running:
        """Start a program, as several ranks that find each other if `ranks` is more than one."""
        own = {**self._visible(ranks), **(variables or {})}
        if ranks > 1:
            own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
            own |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
        outputs = [self.folder / f"{name}-{rank}.log" for rank in range(ranks)]
        running = Running(processes=[], outputs=outputs)
        self._running.append(running)
        for rank, output in enumerate(outputs):
            output.touch()
            of_rank = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else {}
            running.processes.append(self._launch(words, output, {**own, **of_rank}))
        return running

    def finished(self, running: Running) -> list[int]:
        """Wait until all ranks have ended and return their statuses.

        Raises:
            StepError: the time of the step is over; what still runs is killed.
        """
        self.wait(running, lambda: all(each.poll() is not None for each in running.processes), "the end of it")
        return [each.poll() or 0 for each in running.processes]

    def wait(self, running: Running, look: Callable[[], object], what: str) -> None:
        """Wait for something that processes do.

        Raises:
            StepError: it did not come in the time of the step, or all processes ended without it.
        """
        while not look():
            ended = all(each.poll() is not None for each in running.processes)
            if ended and not look():
                raise StepError(f"the process ended before {what}:\n{running.last_lines()}")
            if self.seconds_left <= 0:
                running.end()
                raise StepError(f"its time was over before {what}:\n{running.last_lines()}")
            time.sleep(_POLL_SECONDS)

    def train(self, name: str, *options: str, until: str = "steps", ranks: int = 1) -> Training:
        """Start a training run.

        Args:
            name: Of the step, for the files.
            options: Of `trainer.train`.
            until: Where it ends, see `observed_training`.
            ranks: Processes.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        common = ("--output_dir", str(folder), "--work_dir", str(folder / "work"), "--log_interval_steps", "1")
        words = ("trainer.hardware_check.observed_training", str(folder), until, *common, "--metrics_port", "0")
        return Training(folder=folder, running=self.start(name, (*words, *options), ranks=ranks))

    def trained(self, name: str, *options: str, until: str = "steps", ranks: int = 1) -> Training:
        """Train, and return the run when it has ended well.

        Raises:
            StepError: it did not.
        """
        training = self.train(name, *options, until=until, ranks=ranks)
        statuses = self.finished(training.running)
        for rank, status in enumerate(statuses):
            if status:
                raise StepError(f"rank {rank} ended with status {status}:\n{training.running.last_lines(rank)}")
        return training

    def close(self) -> None:
        """End everything that steps have started."""
        for running in self._running:
            running.end()
        self._running.clear()

    def _visible(self, ranks: int) -> dict[str, str]:
        """Let a program see as many GPUs as it has ranks: the trainer refuses GPUs that nobody uses."""
        if not self.gpus:
            return {_VISIBLE: ""}
        names = [each for each in os.environ.get(_VISIBLE, "").split(",") if each] or [*map(str, range(self.gpus))]
        return {_VISIBLE: ",".join(names[:ranks])}


def free_port() -> int:
    """Return a port of loopback that nothing listened on a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
