"""Runs the Pulumi engine on this project's stacks, with state and passphrase in a private folder of the user's."""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import yaml

from infra.errors import RefusalError, choices
from infra.settings.stack_file import own_config
from tools.paths import REPOSITORY, paths
from tools.process import CommandError, run
from tools.stacks.state_file import backend_url, plain_outputs, read_state
from tools.toolchain.catalogue import ENGINE_WITH_CLOUDS, TOOLS
from tools.toolchain.store import install_folder

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

_SALT_KEY = b"encryptionsalt:"
_DOES_NOT_DECRYPT = "incorrect passphrase"
_WRITTEN_ONCE = {"PULUMI_SKIP_CHECKPOINTS": "true"}
_LOCK_OWNER = re.compile(r"created by \S+@(\S+) \(pid (\d+)\)")


def engine_defaults() -> dict[str, str]:
    """Return the engine's variables for this machine; wherever the user has set one, theirs wins."""
    home = paths().home
    return {
        "PULUMI_HOME": str(paths().cache / "pulumi-home"),
        "PULUMI_BACKEND_URL": backend_url(home / "pulumi"),
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(home / "passphrase"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }


def engine_path(pulumi: Path) -> list[str]:
    """Return the beginning of PATH for the engine.

    First this virtual environment, because the Python language host takes the first `python` it finds; then the
    engine's folder, because the engine looks there for its language host.
    """
    # An engine with clouds is alone in its folder: the language host is in that of the one without.
    host = install_folder(TOOLS["pulumi"])
    beside = [host] if pulumi.name == ENGINE_WITH_CLOUDS else []
    # Clones share the environment: by the path of one of them, it would be gone with that clone.
    return [str(folder) for folder in (Path(sys.executable).parent.resolve(), pulumi.parent, *beside)]


def engine_environment(pulumi: Path) -> dict[str, str]:
    """Return the variables to run the engine with."""
    own = {key: os.environ.get(key, value) for key, value in engine_defaults().items()}
    if os.environ.get("PULUMI_CONFIG_PASSPHRASE"):
        del own["PULUMI_CONFIG_PASSPHRASE_FILE"]
    # The Kubernetes provider writes the kubeconfig, with its credentials, to a temporary file and leaves it there.
    own["TMPDIR"] = str(paths().home / "tmp")
    return {**own, "PATH": os.pathsep.join([*engine_path(pulumi), os.environ.get("PATH", "")])}


def make_private_folders() -> None:
    """Create the state folder and a random passphrase, readable by this user only; both are kept if they exist."""
    home = paths().home
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    for name in ("pulumi", "tmp"):
        (home / name).mkdir(exist_ok=True, mode=0o700)
    passphrase = home / "passphrase"
    if passphrase.exists():
        return
    # Whole or not at all: a run killed between creating and writing would leave an empty passphrase forever.
    new = home / f"passphrase.{os.getpid()}"
    new.touch(mode=0o600)
    new.write_text(secrets.token_urlsafe(32), encoding="utf-8")
    try:
        passphrase.hardlink_to(new)
    except FileExistsError:  # another run was faster: its passphrase counts
        pass
    finally:
        new.unlink()


def remove_old_temporary_files() -> None:
    """Delete the providers' temporary files of more than a day ago, which no running engine can need any more."""
    yesterday = time.time() - 24 * 3600
    for file in (paths().home / "tmp").iterdir():
        if file.is_file() and file.stat().st_mtime < yesterday:
            file.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The engine, bound to one stack of this project."""

    pulumi: Path
    """The `pulumi` program."""
    stack: str
    project: Path = REPOSITORY
    """Folder with Pulumi.yaml."""
    written_once: bool = False
    """Whether an update writes the state at its end alone, also one that fails or is interrupted. One that is killed
    then leaves no trace of what it did."""

    def run(self, *words: str) -> str:
        """Run `pulumi <words>`; what it prints goes to the log, too.

        Raises:
            CommandError: it failed.
            RefusalError: the passphrase does not fit the stack's secrets.
        """
        environment = engine_environment(self.pulumi)
        try:
            return run(
                [self.pulumi, *words, "--non-interactive"],
                env={**environment, **(_WRITTEN_ONCE if self.written_once else {})},
                cwd=self.project,
                log=paths().logs / f"pulumi-{self.stack}.log",
            )
        except CommandError as error:
            if _DOES_NOT_DECRYPT not in error.output:
                raise
            source = environment.get("PULUMI_CONFIG_PASSPHRASE_FILE", "in PULUMI_CONFIG_PASSPHRASE")
            limit = f"is not the one that the secrets of stack {self.stack} are encrypted with"
            fix = "set PULUMI_CONFIG_PASSPHRASE_FILE to a file with that one, or restore the file"
            raise RefusalError("passphrase", source, limit, fix) from error

    def prepare(self) -> None:
        """Make sure that the stack exists, can be decrypted and is not left half-way by a killed run."""
        make_private_folders()
        remove_old_temporary_files()
        self.end_orphans()
        deployment = self._state()
        if deployment is None and not self._is_listed():
            # A salt that somebody else's passphrase made, or an earlier stack's, would make `init` refuse ours.
            strip_salt(self.config_file)
            self.run("stack", "init", self.stack)
            return
        self.run("stack", "select", self.stack)
        if "pending_operations" in (self.export()["deployment"] if deployment is None else deployment):
            # The engine does not know whether these happened: what exists is adopted by the next `up`.
            self._locked("refresh", "--yes", "--skip-preview", "--clear-pending-creates")

    def up(self, *, exclude: Sequence[str] = ()) -> None:
        """Bring the stack to what the program declares, leaving alone what these patterns of URNs fit."""
        self._locked("up", "--yes", "--skip-preview", *(f"--exclude={urns}" for urns in exclude))

    def writing_once(self) -> Self:
        """Return the same engine, see `written_once`."""
        return replace(self, written_once=True)

    def is_empty(self) -> bool:
        """Whether the stack has no resources, or does not exist."""
        deployment = self._state()
        if deployment is None and self._is_listed():
            deployment = self.export()["deployment"]
        return not (deployment or {}).get("resources")

    def replace(self, urn: str) -> None:
        """Recreate one resource, with what depends on it; nothing else is touched."""
        self._locked("up", "--yes", "--skip-preview", f"--target-replace={urn}", "--target-dependents")

    def destroy(self) -> None:
        """Remove every resource of the stack."""
        self._locked("destroy", "--yes", "--skip-preview")

    def forget(self) -> None:
        """Drop the stack's state and the salt in its configuration file, without touching any resource."""
        self.end_orphans()
        if self.exists():
            self._locked("stack", "rm", "--force", "--yes", "--preserve-config")
        strip_salt(self.config_file)

    def export(self) -> dict[str, Any]:
        """Return the stack's state; its secrets stay encrypted."""
        state = json.loads(self.run("stack", "export", "--stack", self.stack))
        # A stack that was never updated has none.
        return {**state, "deployment": state["deployment"] or {}}

    def replace_state(self, state: Mapping[str, Any]) -> None:
        """Replace the stack's state; whatever the old one left undecided is forgotten. Refused while an update runs."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=paths().home / "tmp", suffix=".json") as file:
            json.dump(state, file)
            file.flush()
            self._locked("stack", "import", "--file", file.name)

    def read_again(self, urns: Sequence[str]) -> None:
        """Read these resources, and no others, from where they are."""
        self._locked("refresh", "--yes", "--skip-preview", *(f"--target={urn}" for urn in urns))

    def end_orphans(self) -> None:
        """End plugins and language hosts of this backend whose engine was killed: they would live on for minutes."""
        for pid, parent, program in self._processes():
            if parent == 1 and program.startswith("pulumi-"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def is_running(self) -> bool:
        """Whether an engine is at work with this backend, also one that outlives the program that started it."""
        return any(program == self.pulumi.name for _, _, program in self._processes())

    def _processes(self) -> Generator[tuple[int, int, str]]:
        """Yield process id, parent and program of each process of Pulumi's that has this backend in its environment."""
        backend = f"PULUMI_BACKEND_URL={engine_environment(self.pulumi)['PULUMI_BACKEND_URL']}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # the process has ended, or is another user's
                program = (process / "exe").resolve().name
                if program.startswith("pulumi") and backend in _environment_of(process):
                    parent = int((process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
                    yield int(process.name), parent, program

    def _locked(self, *words: str) -> None:
        """Run a command that takes the stack's lock, freeing it first if its owner was killed."""
        try:
            self.run(*words, "--stack", self.stack)
        except CommandError as error:
            if not _only_dead_owners(error.output):
                raise
            self.run("cancel", "--yes", "--stack", self.stack)
            self.run(*words, "--stack", self.stack)

    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs."""
        deployment = self._state()
        if deployment is not None and (outputs := plain_outputs(deployment)) is not None:
            return outputs
        return json.loads(self.run("stack", "output", "--json", "--stack", self.stack))

    @property
    def config_file(self) -> Path:
        """The stack's configuration."""
        return self.project / f"Pulumi.{self.stack}.yaml"

    def check_described(self) -> None:
        """Refuse a stack that has no configuration file and that the backend does not have, either.

        Raises:
            RefusalError: it is such a stack.
        """
        make_private_folders()
        if not self.config_file.is_file() and not self.exists():
            limit = f"has no {self.config_file.name}, and the backend has no such stack"
            raise RefusalError("STACK", self.stack, limit, choices(self.stack, described_stacks(self.project)))

    def exists(self) -> bool:
        """Whether the backend knows the stack."""
        return self._state() is not None or self._is_listed()

    def _is_listed(self) -> bool:
        listed = json.loads(self.run("stack", "ls", "--json"))
        return self.stack in {entry["name"].rsplit("/", maxsplit=1)[-1] for entry in listed}

    def _state(self) -> dict[str, Any] | None:
        """Return the stack's deployment if that can be read without the engine."""
        file = self.project / "Pulumi.yaml"
        if not file.is_file():
            return None
        project = cast("dict[str, str]", yaml.safe_load(file.read_text(encoding="utf-8")))
        return read_state(engine_environment(self.pulumi)["PULUMI_BACKEND_URL"], project["name"], self.stack)


def _environment_of(process: Path) -> list[bytes]:
    return (process / "environ").read_bytes().split(b"\0")


def _only_dead_owners(output: str) -> bool:
    """Whether the engine refused because of locks, all held by processes of this machine that are gone."""
    owners = _LOCK_OWNER.findall(output)
    return bool(owners) and all(host == platform.node() and not Path(f"/proc/{pid}").exists() for host, pid in owners)


def strip_salt(config_file: Path) -> None:
    """Remove the encryption salt from a stack's configuration file; everything else stays as it is written."""
    if not config_file.is_file():
        return
    lines = config_file.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(_SALT_KEY)]
    if len(kept) != len(lines):
        config_file.write_bytes(b"".join(kept))


def described_stacks(project: Path = REPOSITORY) -> list[str]:
    """Return the names of the stacks that have a configuration file."""
    return [file.name.split(".")[1] for file in project.glob("Pulumi.*.yaml")]


def stack_config(stack: str, project: Path = REPOSITORY) -> dict[str, Any]:
    """Return the project's own keys of a stack's configuration file, without the `athanor:` prefix."""
    return own_config(project / f"Pulumi.{stack}.yaml", "athanor")
