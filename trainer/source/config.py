"""The command line of the program that fetches a job's code."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from dulwich.refs import Ref, check_ref_format

from trainer.common import command_line
from trainer.common.validation import more_than
from trainer.source.address import as_url, server_of
from trainer.source.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMIT_PATTERN = re.compile(r"[0-9a-f]{40}")
RUN_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,179}")
SSH_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")
SERVICE = re.compile(r"[a-z][a-z0-9-]*")
"""Its name begins with a letter: 3221225991 is an address."""
CLUSTER_SUFFIXES = (".svc", ".svc.cluster.local")


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """Fetch one branch, tag or commit of a git repository into a folder."""

    repository: str
    """http(s) URL of the repository, without user name, password or token; or ssh://git@<host>/<path>, which may be
    written git@<host>:<path>."""
    destination: Path
    """Folder that gets the files; empty, or left behind by an earlier attempt of this program."""
    branch: str | None = None
    """Newest commit of this branch, or with HEAD of the repository's default one."""
    tag: str | None = None
    """Commit of this tag."""
    commit: str | None = None
    """This commit, 40 hex digits."""
    subdirectory: str | None = None
    """Take the content of this folder of the repository alone; without it everything."""
    credentials_dir: Path | None = None
    """Folder with the files `username` and `password`: a mounted Secret of type kubernetes.io/basic-auth. For ssh, one
    of type kubernetes.io/ssh-auth, with `ssh-privatekey` and `known_hosts`."""
    timeout_seconds: float = 300.0
    """Give up after this time, all attempts together."""
    record: Path | None = None
    """JSON file on a volume that all pods of the job share: the first pod writes the commit, the others take it."""
    run: str | None = None
    """Which run of the job this is: the pods of each take one commit, written next to the record, which has that of the
    latest run. Without it there is one run."""
    store: Path | None = None
    """Folder on that volume to leave the fetched objects in, for pods that cannot reach the server; needs a record."""
    take: bool = False
    """Fetch nothing: wait until the store has the record's commit, and take the files from there."""

    def __post_init__(self) -> None:
        url = _checked_url(self.repository)
        named = [name for name in ("branch", "tag", "commit") if getattr(self, name) is not None]
        if len(named) != 1:
            given = " and ".join(named) or "none"
            raise ValueError(f"branch, tag, commit: {given} given: must be exactly one. Fix: name one of the three")
        for name in ("branch", "tag"):
            _check_ref(name, getattr(self, name))
        if self.commit is not None and not COMMIT_PATTERN.fullmatch(self.commit):
            raise ValueError(f"commit={self.commit!r}: must be 40 of 0-9 a-f. Fix: the full id from `git rev-parse`")
        _check_subdirectory(self.subdirectory)
        if self.run is not None and not RUN_PATTERN.fullmatch(self.run):
            raise ValueError(f"run={self.run!r}: must be 1 to 180 letters, digits, - and dots. Fix: another name")
        more_than("timeout_seconds", self.timeout_seconds, 0)
        if url.scheme == "ssh" and self.credentials_dir is None and not self.take:
            raise ValueError("credentials_dir: None: ssh needs a key. Fix: a Secret of type kubernetes.io/ssh-auth")
        if self.store is not None and self.record is None:
            raise ValueError("record: None: a store needs one, to know whose objects it holds. Fix: name both")
        if self.take and self.store is None:
            raise ValueError("store: None: there is nothing to take from. Fix: name the store that another pod fills")
        if self.credentials_dir is not None and url.scheme == "http" and not _is_inside(url.hostname or ""):
            raise ValueError(
                f"repository={self.repository!r}: http to a host outside the cluster would send the password in clear; "
                "must be https, or a Service (a name without dots, *.svc or *.svc.cluster.local). Fix: https://"
            )

    def check_submodule(self, path: str, address: str) -> None:
        """Refuse the address of a submodule that is not fetched as the repository is.

        Raises:
            SourceError: naming the submodule and what to do.
        """
        try:
            url = _checked_url(address)
        except ValueError as error:
            raise SourceError(f"submodule {path!r}: {str(error).removeprefix('repository=')}") from None
        if url.scheme == "http" and server_of(self.repository)[0] != "http":
            raise SourceError(f"submodule {path!r}: {address} is http, and its repository is not. Fix: https")

    @property
    def is_ssh(self) -> bool:
        """Whether the repository is read over ssh."""
        return server_of(self.repository)[0] == "ssh"

    @property
    def requested(self) -> dict[str, str]:
        """The one of branch, tag and commit that was given, by its name."""
        values = {"branch": self.branch, "tag": self.tag, "commit": self.commit}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def record_of_run(self) -> Path | None:
        """The record that the pods of this run share."""
        if self.record is None or self.run is None:
            return self.record
        return self.record.with_name(f"{self.record.stem}-{self.run}{self.record.suffix}")

    @property
    def unprotected(self) -> bool:
        """Whether somebody between here and the server could change the code unnoticed."""
        url = urlsplit(as_url(self.repository))
        return self.commit is None and url.scheme == "http" and not _is_inside(url.hostname or "")


def parse(arguments: Sequence[str] | None = None) -> SourceConfig:
    """Read the command line; see `command_line.parse`."""
    return command_line.parse(SourceConfig, "trainer.source", arguments)


def _checked_url(address: str) -> SplitResult:
    repository = as_url(address)
    scheme, _, rest = repository.partition("://")
    user = rest.partition("/")[0].rpartition("@")[0]
    if user and (scheme != "ssh" or not SSH_USER.fullmatch(user)):
        raise ValueError(
            f"repository='{scheme}://***@{rest.rpartition('@')[2]}': must hold no user name or password. "
            "Fix: put them into a Secret of type kubernetes.io/basic-auth and name its mount as credentials_dir"
        )
    if re.search(r"[?#]", repository):
        public = re.split(r"[?#]", repository)[0]
        raise ValueError(
            f"repository='{public}***': must have no query and no fragment. Fix: leave out what follows the path; "
            "a token belongs in a Secret of type kubernetes.io/basic-auth whose mount is credentials_dir"
        )
    try:
        url = urlsplit(repository)
        # ssh takes a name that begins with a dash for an option.
        well_formed = url.scheme in {"http", "https", "ssh"} and (url.hostname or "-")[0] != "-" and url.port != 0
    except ValueError:
        well_formed, url = False, SplitResult("", "", "", "", "")
    if not well_formed or not repository.isascii() or not repository.isprintable() or " " in repository:
        public = "***" if "@" in repository else repository
        raise ValueError(
            f"repository={public!r}: must be an https://, http:// or ssh:// URL in ASCII; git and file are not "
            "supported. Fix: the https URL of the repository, or ssh://git@<host>/<path> with a key in credentials_dir"
        )
    return url


def _check_ref(field: str, value: str | None) -> None:
    if value is None:
        return
    if value.startswith("refs/") or not check_ref_format(Ref(f"refs/heads/{value}".encode())):
        raise ValueError(f"{field}={value!r}: is not a {field} name of git. Fix: the name alone, without refs/heads/")


def _check_subdirectory(value: str | None) -> None:
    if value is None:
        return
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(
            f"subdirectory={value!r}: must be a folder inside the repository. Fix: its path from the top, like 'a/b'"
        )


def _is_inside(host: str) -> bool:
    """Return whether traffic to a host stays in the cluster's network, or in this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return SERVICE.fullmatch(host) is not None or host.endswith(CLUSTER_SUFFIXES)
