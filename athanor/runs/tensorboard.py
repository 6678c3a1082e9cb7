"""`athanor tensorboard`: TensorBoard on this machine for the event files of runs, which are fetched periodically."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from athanor.runs.copy import VolumePods
from athanor.runs.transfer import download_some
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.copy import Place
    from infra.outputs import PlatformOutputs

_FILES = "*tfevents*"
"""Names of event files (tensorboard, summary/writer/event_file_writer.py)."""
_REFRESH_SECONDS = 30
_OVERLAP_SECONDS = 120
"""Seconds by which the clocks of this machine and of a file server may differ."""


def show(cluster: Cluster, platform: PlatformOutputs, runs: Mapping[str, Place], port: int) -> int:
    """Serve the curves of runs on 127.0.0.1 until Ctrl-C; return TensorBoard's exit status.

    Args:
        cluster: The cluster, in the workloads' namespace.
        platform: Whose volume the files are in.
        runs: The folders of runs in the volume `output`, by the runs' names.
        port: Where TensorBoard listens; 0 for any that is free.

    Raises:
        RefusalError: TensorBoard is not installed, no run has such files, or the cluster does not answer.
    """
    if importlib.util.find_spec("tensorboard") is None:
        limit = "is not installed on this machine, where it runs"
        raise RefusalError("tensorboard", "tensorboard", limit, "pip install 'athanor[tensorboard]'")
    with VolumePods(cluster, platform) as pods, tempfile.TemporaryDirectory(prefix="athanor-tensorboard-") as folder:
        files = EventFiles(pods, runs, Path(folder))
        files.refresh()
        if not any(Path(folder).rglob(_FILES)):
            limit = "has written no event files of TensorBoard below its folder in the volume output"
            fix = f"let the program write them to {next(iter(runs.values())).path}, or see `athanor curves`"
            raise RefusalError("RUN", " ".join(runs), limit, fix)
        return _serve(files, folder, port)


class EventFiles:
    """Copies of runs' event files in a folder of this machine: one folder for each run."""

    def __init__(self, pods: VolumePods, runs: Mapping[str, Place], folder: Path) -> None:
        self._pods, self._runs, self._folder = pods, runs, folder
        self._since = 0.0

    def refresh(self) -> None:
        """Fetch what was written since the last time.

        Raises:
            RefusalError: the cluster does not answer.
        """
        began = time.time()
        for run, place in self._runs.items():
            with tempfile.TemporaryDirectory(dir=self._folder, prefix=".") as name:
                new = Path(name, "new")
                self._pods.through(place, lambda prefix, at=place, to=new: self._fetch(prefix, at, to))
                _move_files(new, self._folder / run)
        self._since = began - _OVERLAP_SECONDS

    def _fetch(self, prefix: Sequence[str], place: Place, target: Path) -> None:
        download_some(prefix, place.path, _FILES, self._since, target)


def _move_files(new: Path, folder: Path) -> None:
    for file in new.rglob("*"):
        if file.is_file():
            target = folder / file.relative_to(new)
            target.parent.mkdir(parents=True, exist_ok=True)
            # In place: TensorBoard continues reading where it was in a file that has grown.
            with target.open("r+b" if target.exists() else "wb") as writing:
                writing.write(file.read_bytes())


def _serve(files: EventFiles, folder: str, port: int) -> int:
    words = [f"--logdir={folder}", "--host=127.0.0.1", f"--port={port}", "--reload_interval=10"]
    with subprocess.Popen([sys.executable, "-m", "tensorboard.main", *words]) as board:
        try:
            while True:
                try:
                    return board.wait(_REFRESH_SECONDS)
                except subprocess.TimeoutExpired:
                    _refresh_again(files)
        except KeyboardInterrupt:
            board.terminate()
            with suppress(subprocess.TimeoutExpired):
                board.wait(10)
            return 0
        finally:
            board.kill()


def _refresh_again(files: EventFiles) -> None:
    """Fetch what is new; a cluster that does not answer, as after this machine slept, leaves the curves as they are."""
    try:
        files.refresh()
    except RefusalError as error:
        sys.stderr.write(f"not refreshed: {error}\n")
