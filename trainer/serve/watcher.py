"""The thread that reads the repository: at an interval, or when the repository API asks for it."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.serve.loader import ModelLoader, Snapshot

logger = logging.getLogger(__name__)

_Command = tuple["Callable[[], Snapshot]", "Future[Snapshot]"]


class RepositoryWatcher:
    """Runs a ModelLoader on a daemon thread: storage that hangs must not keep the process from ending."""

    def __init__(self, loader: ModelLoader, poll_interval_seconds: float | None) -> None:
        self._loader = loader
        self._poll_interval_seconds = poll_interval_seconds
        self._commands: SimpleQueue[_Command | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._watch, name="model-loader", daemon=True)

    def start(self) -> None:
        """Look for the first time, then continue until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after what it does now."""
        self._commands.put(None)

    def load(self) -> Future[Snapshot]:
        """Look at the repository now, and try again what failed."""
        return self._ask(self._loader.load)

    def unload(self) -> Future[Snapshot]:
        """Take all versions out of service."""
        return self._ask(self._loader.unload)

    def _ask(self, command: Callable[[], Snapshot]) -> Future[Snapshot]:
        future: Future[Snapshot] = Future()
        self._commands.put((command, future))
        return future

    def _watch(self) -> None:
        self._sync_logged()
        while True:
            try:
                command = self._commands.get(timeout=self._poll_interval_seconds)
            except Empty:
                self._sync_logged()
                continue
            if command is None:
                return
            run, future = command
            if not future.set_running_or_notify_cancel():
                continue  # who asked left before it began
            try:
                future.set_result(run())
            except Exception as error:  # noqa: BLE001  handed to who asked
                future.set_exception(error)

    def _sync_logged(self) -> None:
        try:
            self._loader.sync()
        except Exception:
            # what is loaded serves on; a watcher that died would silently serve it forever
            logger.exception("looking at the repository failed")
