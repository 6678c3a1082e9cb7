"""A deterministic archive of a folder: the same files give the same bytes, on any machine and in any order."""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from workloads.ignore_rules import OWN_RULES, IgnoreRules, added_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAXIMUM_BYTES = 8 * 1024 * 1024
"""Largest size of the archive. It is stored in etcd as long as the job is declared; by default that holds 2 GiB for
everything in a cluster (etcd.io, "System limits")."""
_MOST_ENTRIES = 20_000
"""A folder with more is not code: somebody's home, or data. Counting them all would take minutes."""
_MOST_KINDS = 3
"""Most kinds of excluded files in a message."""
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
    left_out: str = ""
    """Description of what git's rules exclude; empty for nothing."""

    @property
    def digest(self) -> str:
        """SHA-256 of the content, in 64 hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()

    @cached_property
    def names(self) -> frozenset[str]:
        """Paths of the files, relative to the folder."""
        with tarfile.open(fileobj=io.BytesIO(self.content)) as archive:
            return frozenset(archive.getnames())


class LeftOut:
    """The files that git's rules exclude from a folder, by kind and number."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._kinds: dict[str, tuple[int, int]] = {}
        self._seen = 0

    def note(self, path: Path) -> None:
        """Add a file, or a folder with everything in it; of very many, the rest is not counted."""
        if path.is_symlink() or not path.is_dir():
            self._add(path)
            return
        for current, folders, files in os.walk(path):
            folders[:] = [] if self._seen > _MOST_ENTRIES else sorted(folders)
            for name in files:
                self._add(Path(current, name))

    def _add(self, path: Path) -> None:
        self._seen += 1
        if self._seen > _MOST_ENTRIES:
            return
        kind = f"*{path.suffix}" if path.suffix else path.name
        count, size = self._kinds.get(kind, (0, 0))
        with suppress(OSError):
            self._kinds[kind] = (count + 1, size + path.lstat().st_size)

    @property
    def words(self) -> str:
        """The largest kinds with their number and size; empty without any."""
        kinds = sorted(self._kinds.items(), key=lambda each: (-each[1][1], each[0]))
        named = [f"{count} {kind} ({_size(size)})" for kind, (count, size) in kinds[:_MOST_KINDS]]
        rest = kinds[_MOST_KINDS:]
        if rest:
            files, size = (sum(each[1][place] for each in rest) for place in (0, 1))
            named.append(f"{files} of other kinds ({_size(size)})")
        more = f", of the first {_MOST_ENTRIES:,} files" if self._seen > _MOST_ENTRIES else ""
        return ", ".join(named) + more


def _size(size: int) -> str:
    return f"{size / 1024:,.1f} KiB" if size < 1024**2 else _mebibytes(size)


def pack(folder: Path) -> FolderArchive:
    """Return the files of a folder, without those that its ignore files name.

    Raises:
        RefusalError: they are too many or too large, one looks like a secret, a link leaves the folder or leads to
            what is not sent, one is neither a file nor a folder nor a link or cannot be read, or there are none.
    """
    paths: list[Path] = []
    left_out = LeftOut()
    for path, refusal in judged_files(folder, left_out):
        if refusal is not None:
            raise refusal
        paths.append(path)
    if not paths:
        fix = f"check .gitignore and {OWN_RULES}, or omit source if the program is in the image"
        raise RefusalError("source.path", str(folder), "has no files that are not ignored", fix)
    _check_size(folder, paths)
    _check_links(folder, paths)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            _add(archive, path, path.relative_to(folder).as_posix())
    return FolderArchive(content=packed.getvalue(), files=len(paths), left_out=left_out.words)


def chosen_files(folder: Path) -> Iterator[Path]:
    """Yield the files and links of a folder that are code, in the order of their names.

    Raises:
        RefusalError: they are too many, one looks like a secret, a link leaves the folder or leads nowhere, or one is
            neither a file nor a folder nor a link or cannot be read.
    """
    for path, refusal in judged_files(folder):
        if refusal is not None:
            raise refusal
        yield path


def judged_files(
    folder: Path, left_out: LeftOut | None = None, *, may_dangle: bool = False
) -> Iterator[tuple[Path, RefusalError | None]]:
    """Yield the files and links of a folder that are code, in the order of their names, and why one is refused.

    Args:
        folder: The folder.
        left_out: Gets the files that git's rules leave out.
        may_dangle: Whether a link may lead to a place in the folder where nothing is.

    Raises:
        RefusalError: they are too many.
    """
    added = added_files(folder)
    folders_of_added = {str(parent) for name in added for parent in PurePosixPath(name).parents}
    waiting = [(folder, IgnoreRules.of(folder), False)]
    seen = 0
    while waiting:
        current, rules, only_added = waiting.pop(0)
        try:
            entries = sorted(current.iterdir())
        except OSError as error:
            yield current, _unreadable(current, error)
            continue
        for path in entries:
            seen += 1
            if seen > _MOST_ENTRIES:
                limit = f"has more than {_MOST_ENTRIES} files and folders"
                fix = f"name the folder with only the code, or exclude the rest in {OWN_RULES}"
                raise RefusalError("source.path", str(folder), limit, fix)
            is_folder = path.is_dir() and not path.is_symlink()
            name = path.relative_to(folder).as_posix()
            is_ignored = only_added or rules.ignores(path, is_folder=is_folder)
            if is_ignored and rules.is_left_to_git(path, is_folder=is_folder):
                # What was added to the repository in spite of its rules is part of it, to git, too.
                if name not in (folders_of_added if is_folder else added):
                    if left_out is not None:
                        left_out.note(path)
                    continue
            elif is_ignored:
                continue
            if is_folder:
                waiting.append((path, rules.within(path), is_ignored))
            else:
                yield path, _refusal(folder, path, rules, may_dangle=may_dangle)


def _unreadable(path: Path, error: OSError) -> RefusalError:
    return RefusalError(
        "source.path", str(path), f"cannot be read ({error.strerror})", f"allow it, or exclude it in {OWN_RULES}"
    )


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path, through all links on its way, ends in a folder; trainer/common/files.py has the same."""
    try:
        # Path.resolve would raise on links that lead to each other.
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except (RecursionError, ValueError):  # a chain of thousands of links, or a name with a NUL byte
        return False


def looks_like_a_secret(path: Path, rules: IgnoreRules) -> bool:
    """Return whether the name of a file is one that secrets have, and no rule of its folder takes it in by name."""
    return _SECRETS.fullmatch(path.name) is not None and not rules.insists_on(path)


def _refusal(folder: Path, path: Path, rules: IgnoreRules, *, may_dangle: bool) -> RefusalError | None:
    """Return why a file is not sent."""
    name = path.relative_to(folder).as_posix()
    if looks_like_a_secret(path, rules):
        limit = "looks like a secret, but everyone who can read the job can read its code"
        fix = f"write /{name} into {OWN_RULES} or .gitignore, or {_SEND_ANYWAY.format(f'/{name}')}"
        return RefusalError("source.path", name, limit, fix)
    if path.is_symlink():
        return _refusal_of_link(folder, path, name, may_dangle=may_dangle)
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        return _unreadable(path, error)
    limit, fix = "is neither a file nor a folder nor a link", f"remove it, or write /{name} into {OWN_RULES}"
    return None if is_file else RefusalError("source.path", name, limit, fix)


def _refusal_of_link(folder: Path, path: Path, name: str, *, may_dangle: bool) -> RefusalError | None:
    target = path.readlink()
    if target.is_absolute() or not is_inside(path, folder):
        limit = f"links to {target}, which does not exist in the pods"
        fix = f"copy its target, or write /{name} into {OWN_RULES}"
        return RefusalError("source.path", name, limit, fix)
    if not may_dangle and not path.exists():
        limit = f"links to {target}, which does not exist"
        return RefusalError("source.path", name, limit, f"correct or remove it, or write /{name} into {OWN_RULES}")
    return None


def _check_links(folder: Path, paths: list[Path]) -> None:
    """Refuse a link to what is left out: in the pods it would lead nowhere.

    Raises:
        RefusalError: naming the first.
    """
    names = {path.relative_to(folder).as_posix() for path in paths}
    links = {path.relative_to(folder).as_posix(): os.readlink(path) for path in paths if path.is_symlink()}  # noqa: PTH115
    sent = names | {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for name, target in links.items():
        if _end_of(name, links) not in sent:
            limit = f"links to {target}, which is not sent"
            fix = f"include its target with a ! in {OWN_RULES}, or write /{name} there"
            raise RefusalError("source.path", name, limit, fix)


def _end_of(name: str, links: Mapping[str, str]) -> str:
    """Return the path that a link leads to in the end, through other links."""
    waiting, place = name.split("/"), PurePosixPath()
    for _ in range(_MOST_ENTRIES):
        if not waiting:
            break
        part = waiting.pop(0)
        place = place.parent if part == ".." else place / part
        if str(place) in links:
            waiting = [*links[str(place)].split("/"), *waiting]
            place = place.parent
    return str(place)


def _check_size(folder: Path, paths: list[Path]) -> None:
    """Refuse too many bytes before any is read: a checkpoint may have gigabytes."""
    sizes = {path.relative_to(folder).as_posix(): path.lstat().st_size for path in paths}
    # A header and, at the end, what fills the last block of 512 bytes (POSIX pax, "ustar Interchange Format").
    total = sum(512 + -(-size // 512) * 512 for size in sizes.values())
    if total <= MAXIMUM_BYTES:
        return
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:3]
    named = ", ".join(f"{name} ({_mebibytes(sizes[name])})" for name in largest)
    limit = f"its {len(sizes)} files have {_mebibytes(total)}, but a folder may have 8 MiB; the largest: {named}"
    fix = (
        f"exclude data in {OWN_RULES}, and copy it to a volume: `athanor copy FOLDER data:`, or your own claim with "
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
        content, executable = path.read_bytes(), path.stat().st_mode & stat.S_IXUSR
    except OSError as error:
        raise _unreadable(path, error) from None
    entry.size, entry.mode = len(content), 0o755 if executable else 0o644
    archive.addfile(entry, io.BytesIO(content))
