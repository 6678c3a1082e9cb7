"""A folder's files as one archive: the same files give the same bytes, on any machine and in any order."""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from workloads.ignore_rules import OWN_RULES, IgnoreRules

if TYPE_CHECKING:
    from collections.abc import Iterator

MAXIMUM_BYTES = 8 * 1024 * 1024
"""Of the archive. It is stored in etcd as long as the job is declared; by default that holds 2 GiB for everything in a
cluster (etcd.io, "System limits")."""
_MOST_ENTRIES = 20_000
"""A folder with more is not code: somebody's home, or data. Counting them all would take minutes."""
_SECRETS = re.compile(
    r"""\.env(\.(?!example$|sample$|template$|dist$)[^/]*)?|\.netrc|_netrc|\.pypirc|\.git-credentials|\.htpasswd
    |.*\.pem|.*\.key|.*\.p12|.*\.pfx|.*\.jks|.*\.keystore|.*\.kdbx|id_(rsa|dsa|ecdsa|ed25519)(_sk)?
    |kubeconfig|.*\.kubeconfig|kubeconfig\.ya?ml|credentials(\.json|\.csv|\.ya?ml)?|client_secret.*\.json
    |service[-_]account.*\.json|secrets?\.(json|ya?ml|toml|env)|\.dockerconfigjson|kaggle\.json""",
    re.VERBOSE | re.IGNORECASE,
)
"""Names of files that usually hold a password, a token or a private key."""
_SEND_ANYWAY = f"write `!{{}}` into {OWN_RULES} if it is none"


@dataclass(frozen=True, kw_only=True)
class FolderArchive:
    """The files of a folder, packed."""

    content: bytes
    """A tar archive without times, owners and other traces of the machine."""
    files: int

    @property
    def digest(self) -> str:
        """SHA-256 of the content, in 64 hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()

    @cached_property
    def names(self) -> frozenset[str]:
        """Paths of the files, relative to the folder."""
        with tarfile.open(fileobj=io.BytesIO(self.content)) as archive:
            return frozenset(archive.getnames())


def pack(folder: Path) -> FolderArchive:
    """Return the files of a folder, without those that its ignore files name.

    Raises:
        RefusalError: they are too many or too large, one looks like a secret, a link leaves the folder, one is neither
            a file nor a folder nor a link or cannot be read, or there are none.
    """
    paths = list(chosen_files(folder))
    if not paths:
        fix = f"check .gitignore and {OWN_RULES}, or omit source if the program is in the image"
        raise RefusalError("source.path", str(folder), "has no files that are not ignored", fix)
    _check_size(folder, paths)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            _add(archive, path, path.relative_to(folder).as_posix())
    return FolderArchive(content=packed.getvalue(), files=len(paths))


def chosen_files(folder: Path, *, may_dangle: bool = False) -> Iterator[Path]:
    """Yield the files and links of a folder that are code, in the order of their names.

    Args:
        folder: The folder.
        may_dangle: Whether a link may lead to a place in the folder where nothing is.

    Raises:
        RefusalError: they are too many, one looks like a secret, a link leaves the folder, or one is neither a file nor
            a folder nor a link or cannot be read.
    """
    waiting = [(folder, IgnoreRules.of(folder))]
    seen = 0
    while waiting:
        current, rules = waiting.pop(0)
        for path in sorted(_entries(current)):
            seen += 1
            if seen > _MOST_ENTRIES:
                limit = f"has more than {_MOST_ENTRIES} files and folders"
                fix = f"name the folder of the code alone, or leave out the rest in {OWN_RULES}"
                raise RefusalError("source.path", str(folder), limit, fix)
            is_folder = path.is_dir() and not path.is_symlink()
            if rules.ignores(path, is_folder=is_folder):
                continue
            if is_folder:
                waiting.append((path, rules.within(path)))
                continue
            _check_file(folder, path, rules, may_dangle=may_dangle)
            yield path


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise _unreadable(folder, error) from None


def _unreadable(path: Path, error: OSError) -> RefusalError:
    return RefusalError(
        "source.path", str(path), f"cannot be read ({error.strerror})", f"allow it, or leave it out in {OWN_RULES}"
    )


def looks_like_a_secret(path: Path, rules: IgnoreRules) -> bool:
    """Return whether the name of a file is one that secrets have, and no rule of its folder takes it in by name."""
    return _SECRETS.fullmatch(path.name) is not None and not rules.insists_on(path)


def _check_file(folder: Path, path: Path, rules: IgnoreRules, *, may_dangle: bool) -> None:
    name = path.relative_to(folder).as_posix()
    if looks_like_a_secret(path, rules):
        limit = "looks like a secret, and code can be read by all who may see the job"
        fix = f"write /{name} into {OWN_RULES} or .gitignore, or {_SEND_ANYWAY.format(f'/{name}')}"
        raise RefusalError("source.path", name, limit, fix)
    if path.is_symlink():
        _check_link(folder, path, name, may_dangle=may_dangle)
    elif not stat.S_ISREG(_mode(path)):
        limit = "is neither a file nor a folder nor a link"
        raise RefusalError("source.path", name, limit, f"remove it, or write /{name} into {OWN_RULES}")


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        raise _unreadable(path, error) from None


def _check_link(folder: Path, path: Path, name: str, *, may_dangle: bool) -> None:
    target = path.readlink()
    # Path.resolve would raise on links that lead to each other.
    top, real = Path(os.path.realpath(folder)), Path(os.path.realpath(path))
    if target.is_absolute() or not real.is_relative_to(top):
        limit = f"links to {target}, which does not exist in the pods"
        fix = f"copy what it links to, or write /{name} into {OWN_RULES}"
        raise RefusalError("source.path", name, limit, fix)
    if not may_dangle and not real.exists():
        limit = f"links to {target}, which does not exist"
        raise RefusalError("source.path", name, limit, f"correct or remove it, or write /{name} into {OWN_RULES}")


def _check_size(folder: Path, paths: list[Path]) -> None:
    """Refuse too many bytes before any is read: a checkpoint may have gigabytes."""
    sizes = {path.relative_to(folder).as_posix(): path.lstat().st_size for path in paths}
    # A header and, at the end, what fills the last block of 512 bytes (POSIX pax, "ustar Interchange Format").
    total = sum(512 + -(-size // 512) * 512 for size in sizes.values())
    if total <= MAXIMUM_BYTES:
        return
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:3]
    named = ", ".join(f"{name} ({_mebibytes(sizes[name])})" for name in largest)
    limit = f"its {len(sizes)} files have {_mebibytes(total)}, and a folder may have 8 MiB; the largest: {named}"
    fix = (
        f"leave out data in {OWN_RULES}, and copy it to a volume: `athanor copy FOLDER data:`, or your own claim with "
        "--volume; put code of this size into an image: --image with --no-code, or in a Pulumi program GitSource"
    )
    raise RefusalError("source.path", str(folder), limit, fix)


def _mebibytes(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tarfile.TarInfo(name)
    if path.is_symlink():
        entry.type, entry.linkname = tarfile.SYMTYPE, os.fspath(path.readlink())
        archive.addfile(entry)
        return
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None
    executable = _mode(path) & stat.S_IXUSR
    entry.size, entry.mode = len(content), 0o755 if executable else 0o644
    archive.addfile(entry, io.BytesIO(content))
