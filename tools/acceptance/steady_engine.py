"""The engine with a graceful interrupt: it finishes running operations first, so that the state is complete."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tools.paths import paths
from tools.process import CommandError
from tools.stacks.engine import Engine, engine_environment

if TYPE_CHECKING:
    from types import FrameType

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, the end of a CI job, the end of a session."""


@dataclass(frozen=True, kw_only=True)
class SteadyEngine(Engine):
    """An engine that an interruption of this process does not kill.

    `subprocess.run` kills its child a quarter of a second after Ctrl-C. An engine that is killed knows nothing of what
    its last calls created. So it runs in a session of its own, which the terminal's Ctrl-C does not reach, and is sent
    SIGINT: the engine then starts nothing new, waits for what is under way and writes its state. A second one makes it
    give up the waiting.
    """

    def run(self, *words: str) -> str:
        """Run `pulumi <words>`; what it prints goes to the log, too.

        Raises:
            CommandError: it ended with a non-zero status.
            KeyboardInterrupt: this process was interrupted; the engine has ended.
        """
        command = [str(self.pulumi), *words, "--non-interactive"]
        with (
            _Interruptions() as interruptions,
            subprocess.Popen(
                command,
                cwd=self.project,
                env={**os.environ, **engine_environment(self.pulumi)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            ) as process,
        ):
            interruptions.pass_on_to(process)
            output, errors = process.communicate()
        log = paths().logs / f"pulumi-{self.stack}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(command)}\n{output}{errors}[status {process.returncode}]\n")
        if interruptions.came:
            raise KeyboardInterrupt
        if process.returncode:
            raise CommandError(command, process.returncode, (output + errors).strip(), log)
        return output


class _Interruptions:
    """Passes interruptions of this process on to another one while a block runs, with what came before its start."""

    def __init__(self) -> None:
        self.came = False
        self._came_early = False
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        # Handlers that return, not exceptions: none can be lost between two waits.
        self._before = {kind: signal.signal(kind, self._on_signal) for kind in INTERRUPTIONS}
        return self

    def __exit__(self, *_: object) -> None:
        for kind, handler in self._before.items():
            signal.signal(kind, handler)

    def pass_on_to(self, process: subprocess.Popen[str]) -> None:
        """Pass them on to a process from now on."""
        self._process = process
        if self._came_early:
            process.send_signal(signal.SIGINT)

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        self.came = True
        if self._process is None:
            self._came_early = True
        else:
            self._process.send_signal(signal.SIGINT)
