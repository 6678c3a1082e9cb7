"""Fetching over ssh: through the image's own ssh, with the key and the known hosts of a mounted Secret.

Options: OpenSSH 9.2, ssh(1) and ssh_config(5). It never prompts, and trusts only the hosts of the Secret.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from dulwich.client import SSHGitClient, SubprocessSSHVendor

from trainer.source.address import as_url, path_on_server
from trainer.source.errors import RetryableError, SourceError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dulwich.protocol import Protocol

PRIVATE_KEY, KNOWN_HOSTS = "ssh-privatekey", "known_hosts"
"""Keys of a Secret of type kubernetes.io/ssh-auth (kubernetes.io, "Secrets"), and one more."""
USER = "git"
"""User of addresses that name none: that of every git server."""
_CONNECT_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class SshKey:
    """The key for a login: files that ssh itself reads."""

    private_key: Path
    known_hosts: Path

    def redact(self, text: str) -> str:
        """Return the text: the program never reads the key."""
        return text

    @property
    def command(self) -> str:
        """The beginning of the command line, for a shell's rules of quoting."""
        options = {
            "IdentityFile": f'"{self.private_key}"',
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": f'"{self.known_hosts}"',
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": _CONNECT_SECONDS,
            "ServerAliveInterval": _CONNECT_SECONDS,
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return shlex.join(["ssh", "-F", "/dev/null", *words])


def read_key(folder: Path) -> SshKey:
    """Return the key of a mounted Secret.

    Raises:
        SourceError: a file is missing or empty.
    """
    for name in (PRIVATE_KEY, KNOWN_HOSTS):
        path = folder / name
        if not path.is_file() or path.stat().st_size == 0:
            fix = f"with {PRIVATE_KEY}, and {KNOWN_HOSTS} from `ssh-keyscan` whose fingerprints you have compared"
            raise SourceError(f"{path}: is missing or empty. Fix: a Secret of type kubernetes.io/ssh-auth {fix}")
    return SshKey(private_key=folder / PRIVATE_KEY, known_hosts=folder / KNOWN_HOSTS)


class SshClient(SSHGitClient):
    """A client that ends its connections, which dulwich leaves open when the server refuses."""

    def _connect(
        self, cmd: bytes, path: str | bytes, protocol_version: int | None = None
    ) -> tuple[Protocol, Callable[[], bool], IO[bytes] | None]:
        connected = super()._connect(cmd, path, protocol_version)
        self._opened = [*getattr(self, "_opened", []), connected[0]]
        return connected

    def close(self) -> None:
        """End them."""
        for protocol in getattr(self, "_opened", []):
            protocol.close()


def open_ssh_client(repository: str, key: SshKey) -> tuple[SshClient, bytes]:
    """Return a client of a repository's server, and the repository's path there."""
    url = urlsplit(as_url(repository))
    client = SshClient(
        url.hostname or "",
        port=url.port,
        username=url.username or USER,
        vendor=SubprocessSSHVendor(),
        ssh_command=key.command,
        thin_packs=False,
        quiet=True,
    )
    return client, path_on_server(repository).encode()


def meaning(lines: Sequence[bytes]) -> SourceError:
    """Return the meaning of ssh's last message for the next attempt."""
    said = printable(b" ".join(lines) or b"the server broke off")
    if "Permission denied" in said:
        return SourceError(f"the key is refused: {said}. Fix: let it read this repository, or correct the Secret")
    if "Host key verification failed" in said or "host key is known" in said:
        return SourceError(f"the server's host key is not the one in {KNOWN_HOSTS}: {said}. Fix: correct the Secret")
    if "does not appear to be a git repository" in said or "not found" in said:
        return SourceError(f"no such repository, or hidden from this key: {said}. Fix: correct the URL")
    return RetryableError(f"the server broke off: {said}")
