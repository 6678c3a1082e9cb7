"""What a person sees while long work runs: which step, what it is doing, time so far, time left."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

HEARTBEAT_SECONDS = 15.0


class Progress:
    """Prints one line when a step starts, changes or ends; estimates come from the last run on this machine."""

    def __init__(self, *, durations_file: Path, console: Console | None = None) -> None:
        self.console = console or wide_console(sys.stderr)
        self._durations_file = durations_file
        self._expected = _read_durations(durations_file)
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._planned: list[str] = []
        self._typical: Mapping[str, float] = {}
        self._doing = ""

    def plan(self, steps: list[str], typical: Mapping[str, float] | None = None) -> None:
        """Name the steps to come, in order, so that the time left can be told.

        Args:
            steps: their names.
            typical: seconds by name, for a run that the last one says nothing about (with an empty cache, say): these
                count instead of what is remembered, and what such a run takes is not remembered either.
        """
        self._planned = list(steps)
        self._typical = typical or {}

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """Show a step while the block runs; remembers how long it took if it ends well."""
        begin = time.monotonic()
        self._print(f"[bold]▶ {name}[/]{self._remaining(name)}")
        stop = threading.Event()
        self._doing = ""
        beat = threading.Thread(target=self._heartbeat, args=(name, begin, stop), daemon=True)
        beat.start()
        try:
            yield
        except BaseException:
            self._print(f"[red]✗ {name}[/] after {_clock(time.monotonic() - begin)}")
            raise
        finally:
            stop.set()
            beat.join()
        seconds = time.monotonic() - begin
        self._print(f"[green]✓ {name}[/] {_clock(seconds)}")
        if name not in self._typical:
            self._remember(name, seconds)

    def detail(self, text: str) -> None:
        """Say what the running step is doing now."""
        self._doing = text
        # What programs say is text: `[/data]` in it must neither vanish nor end the run as a markup error.
        self._print(f"    {escape(text)}")

    def _heartbeat(self, name: str, begin: float, stop: threading.Event) -> None:
        while not stop.wait(HEARTBEAT_SECONDS):
            doing = f": {escape(self._doing)}" if self._doing else ""
            self._print(f"[dim]    … {name}{doing} ({_clock(time.monotonic() - begin)})[/]")

    def _remaining(self, name: str) -> str:
        if name not in self._planned:
            return ""
        ahead = self._planned[self._planned.index(name) :]
        expected = {**self._expected, **self._typical}
        known = [expected[step] for step in ahead if step in expected]
        place = f"{self._planned.index(name) + 1}/{len(self._planned)}"
        left = f", about {_clock(sum(known))} left" if len(known) == len(ahead) else ""
        return f" [dim]({place}{left})[/]"

    def _remember(self, name: str, seconds: float) -> None:
        self._expected[name] = seconds
        self._durations_file.parent.mkdir(parents=True, exist_ok=True)
        self._durations_file.write_text(json.dumps(self._expected, indent=1), encoding="utf-8")

    def _print(self, text: str) -> None:
        with self._lock:
            self.console.print(f"[dim]{_clock(time.monotonic() - self._started):>6}[/] {text}")


def wide_console(file: TextIO) -> Console:
    """Return a console; where the output is no terminal it is a log, whose lines need not fit eighty columns."""
    return Console(file=file, highlight=False, width=None if file.isatty() else 140)


def _read_durations(file: Path) -> dict[str, float]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"
