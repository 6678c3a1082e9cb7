"""User name and password of a git server, from the files of a mounted Secret."""

from __future__ import annotations

import base64
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from trainer.source.errors import SourceError, printable

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.source.ssh import SshKey


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """A login, as Latin-1 text of the files' bytes: so they reach the server unchanged, whatever their encoding."""

    username: str
    password: str = field(repr=False)

    def redact(self, text: str) -> str:
        """Return a text without the password, in whatever spelling: servers may repeat what they were sent."""
        header = f"{self.username}:{self.password}".encode("latin-1")
        sent = self.password.encode("latin-1")
        plain = {self.password, sent.decode(errors="replace"), quote(sent), base64.b64encode(header).decode()}
        for secret in plain | {repr(word)[1:-1] for word in plain} | {repr(sent)[2:-1]}:
            text = text.replace(secret, "***")
        return text


def say(line: str, credentials: Credentials | SshKey | None) -> None:
    """Print one line for people, free of the password."""
    # First the password: what was shortened or escaped is not found any more.
    text = printable(credentials.redact(line) if credentials else line)
    print(f"source: {text}", file=sys.stderr, flush=True)


def read_credentials(folder: Path) -> Credentials:
    """Read `username` and `password`; line ends after them do not count.

    Raises:
        SourceError: one is missing, empty or cannot be sent.
    """
    values = {name: _read(folder, name) for name in ("username", "password")}
    if ":" in values["username"]:
        raise SourceError(f"{folder / 'username'}: a user name cannot hold a colon. Fix: correct the Secret")
    return Credentials(**values)


def _read(folder: Path, name: str) -> str:
    path = folder / name
    try:
        value = path.read_bytes().decode("latin-1").rstrip("\r\n")
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read: {error.strerror}. "
            "Fix: mount a Secret of type kubernetes.io/basic-auth with username and password"
        ) from error
    if not value:
        raise SourceError(f"{path}: is empty. Fix: where the server wants a token alone, any user name does")
    return value
