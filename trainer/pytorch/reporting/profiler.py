"""Profiles of some steps by torch's profiler: a trace for Perfetto, and the most expensive operators."""

from __future__ import annotations

import gzip
import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.profiler import ProfilerActivity, profile

if TYPE_CHECKING:
    import torch

    from trainer.pytorch.reporting.config import ProfileConfig
    from trainer.training.events import EventLog

logger = logging.getLogger(__name__)

_OPERATORS = 10
_NAME_WIDTH = 60


class StepProfiler:
    """Records one window of steps on this rank, if it is among those that do."""

    def __init__(self, config: ProfileConfig, *, rank: int, device: torch.device, folder: Path) -> None:
        """Record nothing yet.

        Args:
            config: Which steps, and which ranks.
            rank: This one.
            device: Where it computes: the kernels of a GPU are recorded, too.
            folder: Where the trace is written.
        """
        self._first = config.profile_start_step
        self._last = config.profile_start_step + config.profile_steps - 1
        self._takes_part = config.profile_steps > 0 and rank in config.profile_ranks
        self._prints_table = rank == min(config.profile_ranks, default=None)
        self._rank, self._folder = rank, folder
        self._on_gpu = device.type == "cuda"
        self._prepared: profile | None = None
        self._recording: profile | None = None

    def on_step(self, step: int, events: EventLog) -> None:
        """Begin or end the window where the end of a step asks for it.

        The profiler is set up during the step before the first one, which takes seconds and would be in the trace.
        """
        if not self._takes_part:
            return
        if step == self._first - 2:
            self._prepared = self._profile()
            self._prepared.prepare_trace()
        elif step == self._first - 1 and self._prepared:
            self._recording, self._prepared = self._prepared, None
            self._recording.start_trace()
        elif step == self._last:
            self.finish(step, events)

    def finish(self, step: int, events: EventLog) -> None:
        """Write what was recorded so far, if anything; a full disk costs the trace, not the run."""
        if self._recording is None:
            return
        recorded, self._recording = self._recording, None
        recorded.stop_trace()
        if step < self._first:
            return
        if self._prints_table:
            logger.info("the %d costliest operators:\n%s", _OPERATORS, self._table(recorded))
        path = self._folder / f"trace-rank-{self._rank:05d}-steps-{self._first}-{step}.json.gz"
        try:
            _write(recorded, path)
        except OSError as error:
            logger.warning("%s: trace not written: %s", path, error)
        else:
            events.write("profiled", step=step, first_step=self._first, trace=str(path))

    def _profile(self) -> profile:
        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._on_gpu else [])]
        return profile(activities=kinds, acc_events=True)

    def _table(self, recorded: profile) -> str:
        cost = "self_device_time_total" if self._on_gpu else "self_cpu_time_total"
        operators: Any = recorded.key_averages()  # its methods have no types
        return operators.table(sort_by=cost, row_limit=_OPERATORS, max_name_column_width=_NAME_WIDTH)


def _write(recorded: profile, path: Path) -> None:
    """Write a compressed trace: the whole file, or none.

    Raises:
        OSError: the folder is full or read-only.
    """
    with tempfile.TemporaryDirectory(prefix=".trace-", dir=path.parent) as scratch:
        raw, compressed = Path(scratch, "trace.json"), Path(scratch, path.name)
        recorded.export_chrome_trace(str(raw))
        # torch only prints that the file could not be written
        if not raw.exists():
            raise OSError("torch could not write it: the disk may be full")
        with raw.open("rb") as whole, gzip.open(compressed, "wb") as file:
            shutil.copyfileobj(whole, file)
        compressed.replace(path)
