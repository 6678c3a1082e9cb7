"""Which share of a step the small CNN waits for images from files, read by its own process or ahead by others."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from benchmarks.rounds import spread
from tools.tables import table
from trainer.pytorch.data import samples

if TYPE_CHECKING:
    from rich.table import Table

    from tools.progress import Progress

ROUNDS = 5
WORKERS = (0, 2)
_WARM_UP, _EPOCHS = 20, 6
"""Steps that do not count: in the first ones the readers start."""
_REPOSITORY = Path(__file__).resolve().parents[1]


def measure(report: Progress) -> Table:
    """Return the table: means of a run's steps, and medians of these over rounds in which the settings take turns."""
    waits: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    steps: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    with tempfile.TemporaryDirectory() as folder:
        samples.prepare_images(Path(folder))
        for number in range(ROUNDS):
            for workers in WORKERS:
                report.detail(f"round {number + 1} of {ROUNDS}, {workers} processes")
                wait, step = _wait(Path(folder), workers)
                waits[workers].append(100 * wait / step)
                steps[workers].append(1000 * step)
    rows = [[str(each), spread(steps[each], "ms", 1), spread(waits[each], "%", 2)] for each in WORKERS]
    title = f"CNN on image files, {ROUNDS} interleaved rounds, median (range)"
    return table(title, ["processes that read", "step", "of it waiting for data"], rows)


def _wait(data_dir: Path, workers: int) -> tuple[float, float]:
    """Return the mean seconds of a step's wait for its batch, and of the whole step."""
    with tempfile.TemporaryDirectory() as folder:
        options = (
            "--dataset=image_folder",
            "--model_name=images",
            "--num_gpu=0",
            f"--data_workers={workers}",
            "--num_cpu_threads=1",
        )
        lengths = (f"--epochs={_EPOCHS}", "--log_interval_steps=1", "--checkpoint_interval_steps=1000")
        folders = (f"--data_dir={data_dir}", f"--output_dir={folder}", f"--work_dir={folder}/work")
        command = [sys.executable, "-m", "trainer.train", *options, *lengths, *folders]
        subprocess.run(command, cwd=_REPOSITORY, check=True, capture_output=True)
        [log] = Path(folder).glob("*/logs/rank-00000.jsonl")
        events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    steps = [event for event in events if event["event"] == "step"][_WARM_UP:]
    return mean(step["data_wait_seconds"] for step in steps), mean(step["step_seconds"] for step in steps)
