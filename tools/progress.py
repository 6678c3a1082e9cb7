"""Progress of long work in the terminal: the current step, its activity, elapsed and remaining time."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.markup import escape

from tools.terminal import terminal
from tools.time_left import TimeLeft

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from rich.console import Console

HEARTBEAT_SECONDS = 15.0


class Progress:
    """Prints one line when a step starts, changes or ends; estimates come from the last run on this machine.

    Several threads may use it: each line is one event, and those of work next to the step say whose it is.
    """

    def __init__(self, *, durations_file: Path, console: Console | None = None) -> None:
        self.console = console or terminal(sys.stderr)
        self._durations_file = durations_file
        self._remembered = _read_durations(durations_file)
        self._started = self._printed_at = time.monotonic()
        self._lock = threading.Lock()
        self._outlook = TimeLeft([], {})
        self._typical: Mapping[str, float] = {}
        self._doing = ""

    def plan(self, steps: list[str], typical: Mapping[str, float] | None = None) -> TimeLeft:
        """Name the steps to come, in order, so that the time left can be estimated.

        Args:
            steps: their names.
            typical: seconds by name, for a run that the last one says nothing about (with an empty cache, say): these
                count instead of what is remembered, and what such a run takes is not remembered either.

        Returns:
            The estimate, for a caller that learns a better one.
        """
        self._typical = typical or {}
        self._outlook = TimeLeft(steps, {**self._remembered, **self._typical})
        return self._outlook

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """Show a step while the block runs; remembers how long it took if it ends well."""
        begin = time.monotonic()
        self._outlook.begin(name, begin)
        self._print(f"[bold]▶ {name}[/]{self._place(name)}")
        stop = threading.Event()
        self._doing = ""
        beat = threading.Thread(target=self._heartbeat, args=(name, begin, stop), daemon=True)
        beat.start()
        try:
            yield
        except BaseException:
            self._print(f"[red]✗ {name}[/] after {clock(time.monotonic() - begin)}")
            raise
        finally:
            stop.set()
            beat.join()
        seconds = time.monotonic() - begin
        self._outlook.end(name)
        self._print(f"[green]✓ {name}[/] {clock(seconds)}")
        if name not in self._typical:
            self._remember(name, seconds)

    def detail(self, text: str) -> None:
        """Say what the running step is doing now."""
        self._doing = text
        # What programs say is text: `[/data]` in it must neither vanish nor end the run as a markup error.
        self._print(f"    {escape(text)}")

    def aside(self, name: str, text: str) -> None:
        """Say what `name`, which runs next to the current step, is doing now."""
        self._print(f"    [cyan]{escape(name)}:[/] {escape(text)}")

    def advance(self, done: int, total: int) -> None:
        """Say how much of the running step is done, where that is known: its time left follows."""
        self._outlook.advance(done / total if total else 0.0)

    def _heartbeat(self, name: str, begin: float, stop: threading.Event) -> None:
        """Print that the step is alive whenever nothing was printed for a while."""
        while not stop.wait(max(0.0, self._printed_at + HEARTBEAT_SECONDS - time.monotonic())):
            if time.monotonic() < self._printed_at + HEARTBEAT_SECONDS:
                continue
            doing = f": {escape(self._doing)}" if self._doing else ""
            self._print(f"[dim]    … {name}{doing} ({clock(time.monotonic() - begin)}{self._still()})[/]")

    def _place(self, name: str) -> str:
        steps = self._outlook.steps
        if name not in steps:
            return ""
        return f" [dim]({steps.index(name) + 1}/{len(steps)}{self._still()})[/]"

    def _still(self) -> str:
        left = self._outlook.left(time.monotonic())
        # What takes longer than expected may end now or in a while: no number says that.
        return f", about {clock(round(left))} left" if left is not None and left >= 1 else ""

    def _remember(self, name: str, seconds: float) -> None:
        self._remembered[name] = seconds
        self._durations_file.parent.mkdir(parents=True, exist_ok=True)
        self._durations_file.write_text(json.dumps(self._remembered, indent=1), encoding="utf-8")

    def _print(self, text: str) -> None:
        with self._lock:
            self._printed_at = time.monotonic()
            self.console.print(f"[dim]{clock(self._printed_at - self._started):>6}[/] {text}")


def clock(seconds: float) -> str:
    """Return minutes and seconds as people read them."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def _read_durations(file: Path) -> dict[str, float]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
