"""The journal of a run, written after every step, so that a run that crashed continues where it ended."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from infra.errors import RefusalError
from tools.acceptance.findings import Difference, Entry, Evidence, Findings
from tools.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

_FILE = "run.json"
_FORMAT = 1
_ENV_BEGUN, _LEAVING, _FINISHED = "environment_begun", "leaving", "finished"


class Journal:
    """One run of a stack.

    Args:
        folder: the run's own; kept private, for it holds the state's inputs and for a while a kubeconfig.
        content: what `run.json` holds.
    """

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder = folder
        self._content = content

    @classmethod
    def of(cls, runs: Path, stack: str) -> Journal:
        """Return the stack's latest run if it is not finished, else a new one."""
        for folder in sorted(runs.glob("*/"), reverse=True):
            if (folder / _FILE).is_file():
                content = json.loads((folder / _FILE).read_text(encoding="utf-8"))
                if content["format"] == _FORMAT and not content["flags"].get(_FINISHED):
                    return cls(folder, content)
                break
        folder = runs / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S.%f")
        folder.mkdir(parents=True, mode=0o700)
        empty: dict[str, Any] = {"flags": {}, "notes": {}, "steps": []}
        journal = cls(folder, {"format": _FORMAT, "stack": stack, "began": now(), **empty})
        journal.save()
        return journal

    @property
    def began(self) -> str:
        """Start of the run."""
        return self._content["began"]

    @property
    def notes(self) -> dict[str, Any]:
        """Notes of steps for later ones: JSON; `save` writes it."""
        return self._content["notes"]

    @property
    def resumed(self) -> bool:
        """Whether something was done before."""
        return bool(self._content["steps"]) or self.environment_begun

    @property
    def environment_begun(self) -> bool:
        """Whether the run may have created something in the account."""
        return bool(self._content["flags"].get(_ENV_BEGUN))

    @property
    def leaving(self) -> bool:
        """Whether the run has begun to destroy: nothing else is done any more."""
        return bool(self._content["flags"].get(_LEAVING))

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self._content["flags"].get(_FINISHED))

    def begin_environment(self) -> None:
        """Note, before it happens, that something is created in the account."""
        self._flag(_ENV_BEGUN)

    def leave(self) -> None:
        """Note, before it happens, that the environment is destroyed."""
        self._flag(_LEAVING)

    def finish(self) -> None:
        """Note that nothing is left to do."""
        self._flag(_FINISHED)

    @property
    def entries(self) -> list[Entry]:
        """The outcomes of the steps, in their order."""
        return [_entry(one) for one in self._content["steps"]]

    def entry(self, step: str) -> Entry | None:
        """Return how a step ended; None if it did not run yet."""
        return next((entry for entry in self.entries if entry.step == step), None)

    def record(self, entry: Entry) -> None:
        """Keep how a step ended; a later try replaces an earlier one."""
        steps: list[dict[str, Any]] = self._content["steps"]
        steps[:] = [*(one for one in steps if one["step"] != entry.step), asdict(entry)]
        self.save()

    def save(self) -> None:
        """Write it, whole or not at all."""
        write_atomically(self.folder / _FILE, json.dumps(self._content, indent=1))

    def _flag(self, name: str) -> None:
        self._content["flags"][name] = True
        self.save()


def now() -> str:
    """Return the time as reports have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def only_run(runs: Path) -> Generator[None]:
    """Keep other runs of the stack out; the lock of a killed run ends with it.

    Raises:
        RefusalError: another one does.
    """
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(runs / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            limit = "another acceptance run of this stack is in progress"
            raise RefusalError("STACK", runs.name, limit, "wait for it, or interrupt it with Ctrl-C") from None
        yield
    finally:
        os.close(descriptor)


def _entry(data: Mapping[str, Any]) -> Entry:
    recorded = data["findings"]
    findings = Findings(
        evidence=[Evidence(**one) for one in recorded["evidence"]],
        figures=dict(recorded["figures"]),
        differences=[Difference(**one) for one in recorded["differences"]],
    )
    return Entry(
        step=data["step"],
        status=data["status"],
        reason=data["reason"],
        began=data["began"],
        seconds=data["seconds"],
        findings=findings,
    )
