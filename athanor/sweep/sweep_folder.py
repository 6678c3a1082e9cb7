"""The local folder of a sweep: its plan, its code, optuna's journal and two locks."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.runs.backend import data_folder
from athanor.sweep.plan import Plan
from infra.errors import RefusalError
from workloads.local_folder import LocalFolder
from workloads.unpack_folder import unpack

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@dataclass(frozen=True)
class SweepFolder:
    """The folder of a sweep."""

    folder: Path

    @classmethod
    def of(cls, name: str) -> SweepFolder:
        """Return the folder of a name, which may not exist."""
        return cls(data_folder(os.environ) / "sweeps" / name)

    @property
    def journal(self) -> Path:
        """The file of optuna's storage."""
        return self.folder / "journal"

    @property
    def code(self) -> Path:
        """The files that every trial gets, as they were when the sweep began."""
        return self.folder / "code"

    @property
    def output(self) -> Path:
        """Folder for the output of the commands that start and delete runs."""
        return self.folder / "output"

    @property
    def plan(self) -> Plan:
        """The plan.

        Raises:
            RefusalError: there is no such sweep.
        """
        try:
            return Plan.model_validate_json((self.folder / "plan.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            limit = f"is not in {self.folder.parent}"
            raise RefusalError("sweep", self.folder.name, limit, _others(self.folder.parent)) from None

    def check_is_new(self) -> None:
        """Refuse the name of a sweep that exists.

        Raises:
            RefusalError: naming what to do with it.
        """
        name = self.folder.name
        if self.folder.exists():
            fix = f"choose another, `athanor sweep --resume {name}`, or delete it with --delete {name}"
            raise RefusalError("--name", name, "is the name of a sweep of yours", fix)

    def create(self, plan: Plan, source: LocalFolder | None) -> None:
        """Keep a new sweep, with its code if it sends any.

        Raises:
            RefusalError: there is one of that name, or the code cannot be kept.
        """
        self.check_is_new()
        self.folder.mkdir(parents=True, mode=0o700)
        try:
            self.output.mkdir()
            if source is not None:
                self._keep_code(source)
            self.save(plan)
        except BaseException:
            self.remove()
            raise

    def _keep_code(self, source: LocalFolder) -> None:
        parts = self.folder / "parts"
        parts.mkdir()
        (parts / "part-000").write_bytes(source.archive.content)
        unpack(parts, source.archive.digest, self.code)
        shutil.rmtree(parts)
        if LocalFolder(path=str(self.code)).archive.digest != source.archive.digest:
            limit = "contains files that only the ignore files of a parent folder include"
            raise RefusalError("--workdir", source.path, limit, "put these lines into an ignore file in this folder")

    def save(self, plan: Plan) -> None:
        """Keep a plan, whole or not at all."""
        new = self.folder / "plan.json.new"
        new.write_text(plan.model_dump_json(indent=1), encoding="utf-8")
        new.replace(self.folder / "plan.json")

    def remove(self) -> None:
        """Forget the sweep."""
        shutil.rmtree(self.folder)

    @contextmanager
    def locked(self) -> Generator[int]:
        """Yield the descriptor of a lock that the commands of trials hold, too: one client at a time works on a sweep.

        Raises:
            RefusalError: another one does.
        """
        with (self.folder / "lock").open("w") as client, (self.folder / "commands.lock").open("w") as commands:
            try:
                fcntl.flock(client, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fix = "let it end, or press Ctrl-C there"
                raise RefusalError("sweep", self.folder.name, "is in use by another athanor sweep", fix) from None
            # Those that an earlier client began continue without it, and this one must see what they did.
            try:
                fcntl.flock(commands, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sys.stderr.write("waiting for runs that the last client was starting or deleting\n")
                fcntl.flock(commands, fcntl.LOCK_EX)
            # optuna's own lock, of a client that was killed while it wrote; optuna would wait 30 s for it.
            self.journal.with_name(f"{self.journal.name}.lock").unlink(missing_ok=True)
            yield commands.fileno()


def _others(folder: Path) -> str:
    names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    return f"use one of {', '.join(names)}" if names else "begin one with `athanor sweep --param …`"
