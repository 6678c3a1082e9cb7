"""Builds programs in a background process, while the parent does work that needs none of them.

The process runs at a lower priority than all others, so that compilers delay no other work, and in a session of its
own: when its parent ends, for whatever reason, so do the compilers. Programs published by then are complete.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Self

from infra.settings.parse import parse_settings
from tools.errors import ExpectedError
from tools.local_environment.programs import GROUPS, get
from tools.paths import REPOSITORY, paths
from tools.process import end_with
from tools.progress import Progress
from tools.stacks.engine import stack_config
from tools.toolchain import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path
    from types import TracebackType

    from infra.settings.stack import Settings

_ASIDE = "programs"
"""Beginning of its lines."""
_NICENESS = 10


class Background:
    """The process, seen from the one that started it. Use it in a `with` block, at whose end it is gone."""

    def __init__(
        self,
        stack: str,
        missing: Collection[str],
        report: Progress,
        *,
        on_share: Callable[[str, float], None] = lambda _, __: None,
        command: Sequence[str] = (sys.executable, "-m", "tools.local_environment.background"),
    ) -> None:
        """Prepare it.

        Args:
            stack: whose settings say which programs are needed.
            missing: groups that there is something to get of; where there is none, no process is started.
            report: displays what it does, next to the running step.
            on_share: called with a group's name and how much of it is done, 0..1.
            command: first words of what is started.
        """
        self._command = [*command, stack, str(os.getpid())]
        self._report = report
        self._on_share = on_share
        self._changed = threading.Condition()
        self._ready = {*GROUPS} - {*missing}
        self._error = ""
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        """Start it."""
        if self._ready >= {*GROUPS}:
            return self
        with _log().open("a", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                self._command,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it with everything that it started; what it still has to get is not got."""
        if self._process is None:
            return
        # Until it is waited for, its number is its own even if it has ended, and so is that of its group.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def is_ready(self, group: str) -> bool:
        """Return whether the programs of a group are there."""
        with self._changed:
            return group in self._ready

    def wait(self, group: str) -> None:
        """Return when the programs of a group are there.

        Raises:
            ToolchainError: one is not available.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._error or group in self._ready)
            if group not in self._ready:
                raise ToolchainError(self._error)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            with self._process.stdout as lines:
                for line in lines:
                    self._take(json.loads(line))
        finally:
            # Whatever ended it: a thread that waits must not wait forever.
            with self._changed:
                if not self._error and self._ready < {*GROUPS}:
                    self._error = f"the process that installs the tools ended before it was done; its log: {_log()}"
                self._changed.notify_all()

    def _take(self, said: dict[str, Any]) -> None:
        match said:
            case {"detail": text}:
                self._report.aside(_ASIDE, text)
            case {"group": group, "share": share}:
                self._on_share(group, share)
            case {"ready": group}:
                self._on_share(group, 1.0)
                with self._changed:
                    self._ready.add(group)
                    self._changed.notify_all()
            case {"error": text}:
                # At once: the step that runs may take minutes more before it asks.
                self._report.aside(_ASIDE, f"failed: {text.partition(chr(10))[0]}")
                with self._changed:
                    self._error = text
                    self._changed.notify_all()
            case _:
                raise AssertionError(said)


def _log() -> Path:
    log = paths().logs / "toolchain.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


class Relay(Progress):
    """The progress report of that process: every event is a line of JSON for the one that started it."""

    def __init__(self) -> None:
        super().__init__(durations_file=paths().cache / "durations.json")
        self.group = ""

    def detail(self, text: str) -> None:
        """Pass it on."""
        tell({"detail": text})

    def advance(self, done: int, total: int) -> None:
        """Pass it on, with whose it is."""
        tell({"group": self.group, "share": done / total if total else 0.0})


def tell(event: dict[str, Any]) -> None:
    """Write one event for the process that started this one."""
    print(json.dumps(event), flush=True)


def main(stack: str, parent: str) -> int:
    """Get all groups in their order; return the process's exit status."""
    end_with(int(parent))
    os.nice(_NICENESS)
    return get_all(parse_settings(stack_config(stack)))


def get_all(settings: Settings) -> int:
    """Get all groups in their order, telling of each; return the process's exit status."""
    report = Relay()
    for report.group in GROUPS:
        try:
            get(settings, [report.group], report)
        except ExpectedError as error:
            tell({"error": str(error)})
            return 1
        tell({"ready": report.group})
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
