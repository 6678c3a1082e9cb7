"""A connection to a development pod: synchronised folders and forwarded ports, which survive a suspended laptop."""

from __future__ import annotations

import subprocess
import threading
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from athanor.dev.not_copied import LeftAlone
from athanor.dev.sides import LostError, PodFolder
from athanor.dev.sync import Sync
from athanor.inspection.control_characters import printable
from athanor.runs.job import exec_words, started_pod
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from athanor.dev.sides import OwnFolder
    from athanor.runs.cluster import Cluster

_ROUND_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 15.0
_MOST_ROUNDS = 50
"""Most rounds until the first state is equal; a program that writes all the time would never let it be."""


class Session(AbstractContextManager["Session"]):
    """Syncs a folder of this machine with one in the pod of a job, in a thread of its own."""

    def __init__(
        self, cluster: Cluster, job_name: str, folders: tuple[OwnFolder, str], file: Path, say: Callable[[str], None]
    ) -> None:
        """Prepare a session.

        Args:
            cluster: The cluster, in the job's namespace.
            job_name: The job, of one pod.
            folders: The one here, and the path of the one there.
            file: Keeps the last equal state.
            say: Shows what was copied.
        """
        self._cluster, self._job_name = cluster, job_name
        self._here, self._folder = folders
        self._file, self._say = file, say
        self._left = LeftAlone(say, self._here.may_arrive)
        self._pod: PodFolder | None = None
        self._sync: Sync | None = None
        self._end = threading.Event()
        self._working = threading.Lock()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._problem = ""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Copy what was changed last, and end the connection."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()
        if not isinstance(error, (RefusalError, OSError)):
            self._copy_the_last()
        self._close()

    def _copy_the_last(self) -> None:
        try:
            self.settle()
        except (RefusalError, OSError) as error:
            self._say(f"not copied: {error}")

    def settle(self) -> tuple[str, ...]:
        """Sync the folders, over a new connection if the present one turns out to be lost.

        Returns:
            The names that differ in the end, such as those that cannot be written; not those that are left alone.

        Raises:
            RefusalError: a file here may not be sent, or all of them are gone.
            OSError: a file cannot be written, or the pod does not answer.
        """
        for _ in range(_MOST_ROUNDS):
            try:
                copied = self.once()
            except LostError:
                copied = self.once()
            if copied == 0:
                break
        return self._connected().differing

    def compare(self) -> tuple[str, ...]:
        """Return the names that differ, and change nothing: another terminal syncs the folders.

        Raises:
            RefusalError: as `settle`.
            OSError: as `settle`.
        """
        with self._working:
            try:
                return self._connected().compare()
            finally:
                self._close()

    @property
    def leaves_out(self) -> bool:
        """Whether anything is there, on one side or both, that is not copied."""
        return bool(self._left)

    def start(self) -> None:
        """Keep them in sync from now on."""
        self._thread.start()

    def once(self) -> int:
        """Copy what was changed; return the number of files.

        Raises:
            RefusalError: as `settle`.
            OSError: as `settle`.
        """
        with self._working:
            try:
                return self._connected().once()
            except LostError:
                self._close()
                raise

    def wait(self) -> None:
        """Return when the session ends."""
        self._thread.join()

    def _connected(self) -> Sync:
        if self._sync is None:
            pod = started_pod(self._cluster, self._job_name)
            if pod is None:
                raise LostError("the pod does not run")
            self._pod = PodFolder(exec_words(self._cluster, pod), self._folder)
            self._sync = Sync(
                here=self._here,
                there=self._pod,
                file=self._file,
                say=self._say,
                left=self._left,
            )
        return self._sync

    def _close(self) -> None:
        if self._pod is not None:
            self._pod.close()
        self._pod = self._sync = None

    def _go_on(self) -> None:
        pause = _ROUND_SECONDS
        while not self._end.wait(pause):
            try:
                self.once()
                pause, self._problem = _ROUND_SECONDS, ""
            except (RefusalError, OSError) as error:
                pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)
                if str(error) != self._problem:
                    self._problem = str(error)
                    self._say(f"not copied: {error}")


class Forwards(AbstractContextManager["Forwards"]):
    """Ports of the pod on this machine, opened again when the connection was lost."""

    def __init__(self, cluster: Cluster, job_name: str, ports: Sequence[str], say: Callable[[str], None]) -> None:
        self._cluster, self._job_name, self._ports, self._say = cluster, job_name, ports, say
        self._problem = ""
        self._end = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        if ports:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self._end.set()
        if self._process is not None:
            self._process.terminate()
        if self._ports:
            self._thread.join()

    def _go_on(self) -> None:
        while not self._end.is_set():
            with suppress(RefusalError, OSError):
                pod = started_pod(self._cluster, self._job_name)
                if pod is not None:
                    self._forward(pod["metadata"]["name"])
            self._end.wait(_ROUND_SECONDS)

    def _forward(self, pod: str) -> None:
        words = [*self._cluster.prefix, "port-forward", "--address=127.0.0.1", f"pod/{pod}", *self._ports]
        # Standard output belongs to the user's command.
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        ) as process:
            self._process = process
            if self._end.is_set():
                process.terminate()
            assert process.stderr
            for line in process.stderr:
                self._report(printable(line.decode(errors="replace").rstrip("\n")))

    def _report(self, problem: str) -> None:
        """Show what kubectl complains about, once as long as it stays the same."""
        if problem != self._problem and not self._end.is_set():
            self._problem = problem
            self._say(f"not forwarded: {problem}")
