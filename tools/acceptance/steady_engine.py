"""The engine, interrupted like a person would: it ends what is under way first, and the state knows what there is."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
        with subprocess.Popen(
            command,
            cwd=self.project,
            env={**os.environ, **engine_environment(self.pulumi)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            output, errors, interrupted = _to_the_end(process)
        log = paths().logs / f"pulumi-{self.stack}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(command)}\n{output}{errors}[status {process.returncode}]\n")
        if interrupted:
            raise KeyboardInterrupt
        if process.returncode:
            raise CommandError(command, process.returncode, (output + errors).strip(), log)
        return output


def _to_the_end(process: subprocess.Popen[str]) -> tuple[str, str, bool]:
    """Return what a process printed, and whether it was interrupted before its end; each interruption is passed on."""
    interrupted = threading.Event()

    def pass_on(_: int, __: FrameType | None) -> None:
        interrupted.set()
        process.send_signal(signal.SIGINT)

    # Handlers that return, not exceptions: none can be lost between two waits.
    before = {kind: signal.signal(kind, pass_on) for kind in INTERRUPTIONS}
    try:
        output, errors = process.communicate()
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
    return output, errors, interrupted.is_set()
