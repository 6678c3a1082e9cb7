"""The Pulumi backend for the stacks of runs: the user's own, or a local folder if there is none."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRETS_VARIABLE = "PULUMI_CONFIG_PASSPHRASE"
_PASSPHRASES = (SECRETS_VARIABLE, "PULUMI_CONFIG_PASSPHRASE_FILE")
"""The first overrides the second."""
_BACKEND = "PULUMI_BACKEND_URL"
_NOT_LOGGED_IN = "PULUMI_ACCESS_TOKEN must be set"
"""Pulumi's message where nobody has logged in, and also where a login has expired."""
_WHOAMI_SECONDS = 60


def data_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's folder for what this command keeps (freedesktop.org, "XDG Base Directory Specification")."""
    base = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "athanor"


def engine_variables() -> dict[str, str]:
    """Return the environment variables that the engine needs to reach the stacks of runs.

    A passphrase is set up where none is: a file that only its user can read, with a random word for each user.

    Raises:
        RefusalError: there is no `pulumi` on PATH, or the backend that it is configured for does not answer.
    """
    url, is_own = backend_of_runs()
    variables = {_BACKEND: url} if is_own else {}
    if url.lower().startswith(("https://", "http://")) or any(name in os.environ for name in _PASSPHRASES):
        return variables
    return {**variables, _PASSPHRASES[1]: str(_own_passphrase())}


def own_passphrase(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with this user's passphrase for runs, which overrides that of the shell; empty without.

    Only where the backend is a folder, so of one machine, and the shell has a passphrase, so maybe another one at the
    next command: people who share a bucket share the shell's.

    Args:
        variables: From `engine_variables`.

    Raises:
        RefusalError: as `engine_variables`.
    """
    url = variables.get(_BACKEND) or backend_of_runs()[0]
    if not url.startswith("file://") or not any(name in os.environ for name in _PASSPHRASES):
        return {}
    return {SECRETS_VARIABLE: _own_passphrase().read_text(encoding="utf-8")}


def _own_passphrase() -> Path:
    return random_file(data_folder(os.environ) / "passphrase")


def backend_of_runs() -> tuple[str, bool]:
    """Return the address of the backend that keeps the runs, and whether it is a folder of this command's own.

    Raises:
        RefusalError: as `engine_variables`.
    """
    if shutil.which("pulumi") is None:
        fix = "install it (pulumi.com/docs/install), or activate the platform's .venv"
        raise RefusalError("pulumi", "PATH", "has no pulumi", fix)
    url = _backend_in_use()
    if url is not None:
        return url, False
    runs = data_folder(os.environ) / "runs"
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    return runs.as_uri(), True


def _backend_in_use() -> str | None:
    """Return the address of the backend that `pulumi` is logged in to; None without one.

    Raises:
        RefusalError: the configured one does not answer: with another one, all runs would seem to be gone.
    """
    try:
        done = subprocess.run(
            ["pulumi", "whoami", "--json", "--non-interactive"],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=_WHOAMI_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _no_answer(f"did not answer in {_WHOAMI_SECONDS} s") from None
    if done.returncode == 0:
        return str(json.loads(done.stdout)["url"])
    if _NOT_LOGGED_IN in done.stderr and _chosen_backend() is None:
        return None
    raise _no_answer((done.stderr.strip().splitlines() or [f"pulumi whoami ended with {done.returncode}"])[-1])


def _no_answer(said: str) -> RefusalError:
    fix = f"log in to it again with `pulumi login`, or correct {_BACKEND}"
    return RefusalError("Pulumi backend", _chosen_backend() or "the current one", said.removeprefix("error: "), fix)


def _chosen_backend() -> str | None:
    """Return the backend that the user has chosen, by a variable or `pulumi login`; None without one."""
    if os.environ.get(_BACKEND):
        return os.environ[_BACKEND]
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    with suppress(OSError, ValueError, AttributeError):
        return json.loads((home / "credentials.json").read_text(encoding="utf-8")).get("current") or None
    return None


def random_file(file: Path) -> Path:
    """Return a file with a random word, which only its user can read; it is created when it is first asked for."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if file.exists():
        return file
    # Linked when it is whole: two first runs at once must agree on one word.
    descriptor, name = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as writing:
        writing.write(secrets.token_urlsafe(32))
    try:
        with suppress(FileExistsError):
            file.hardlink_to(name)
    finally:
        Path(name).unlink()
    return file
