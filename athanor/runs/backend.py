"""Where the stacks of runs are kept: in the user's Pulumi backend, or in a folder of theirs if there is none."""

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

_PASSPHRASES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")
_BACKEND = "PULUMI_BACKEND_URL"


def data_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's folder for what this command keeps (freedesktop.org, "XDG Base Directory Specification")."""
    base = environment.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "athanor"


def engine_variables() -> dict[str, str]:
    """Return what the engine needs in its environment to reach the stacks of runs.

    A passphrase is set up where none is: a file that only its user can read, with a random word for each user.

    Raises:
        RefusalError: there is no `pulumi` on PATH.
    """
    if shutil.which("pulumi") is None:
        fix = "install it (pulumi.com/docs/install), or activate the platform's .venv"
        raise RefusalError("pulumi", "PATH", "has no pulumi", fix)
    folder = data_folder(os.environ)
    url = _backend_in_use()
    if url is None:
        runs = folder / "runs"
        runs.mkdir(parents=True, exist_ok=True, mode=0o700)
        url = runs.as_uri()
        variables = {_BACKEND: url}
    else:
        variables = {}
    if url.startswith(("https://", "http://")) or any(name in os.environ for name in _PASSPHRASES):
        return variables
    return {**variables, _PASSPHRASES[1]: str(_passphrase(folder / "passphrase"))}


def _backend_in_use() -> str | None:
    """Return the address of the backend that `pulumi` is logged in to; None without one."""
    done = subprocess.run(
        ["pulumi", "whoami", "--json", "--non-interactive"],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    if done.returncode:
        return None
    return str(json.loads(done.stdout)["url"])


def _passphrase(file: Path) -> Path:
    """Return the file with the passphrase; it is created at the first run."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if file.exists():
        return file
    # Linked when it is whole: two first runs at once must agree on one passphrase.
    descriptor, name = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as writing:
        writing.write(secrets.token_urlsafe(32))
    try:
        with suppress(FileExistsError):
            file.hardlink_to(name)
    finally:
        Path(name).unlink()
    return file
