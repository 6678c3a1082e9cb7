"""Ignore rules of a job's folder: .gitignore and .athanorignore, read as git does.

Source: git's documentation, gitignore(5), and git 2.39 itself, with which tests compare this. Git's rules, from the
highest precedence to the lowest: the .gitignore of the deepest folder up to that of the repository's root,
.git/info/exclude, and the user's file of excludes. All .athanorignore files precede them, the deepest first.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

GIT_RULES = ".gitignore"
OWN_RULES = ".athanorignore"
"""The same rules, for jobs alone; it decides where the two disagree."""
NEVER_CODE = (
    ".git", "__pycache__/", "*.pyc", ".venv/", "venv/", "node_modules/", ".mypy_cache/", ".ruff_cache/",
    ".ipynb_checkpoints/",
    "/curves.html",  # the page of `athanor curves`: a run after it has the same code as the one before
)  # fmt: skip
"""Left out unless a file of rules takes them back in with `!`."""
_CLASSES = {
    "alnum": r"0-9A-Za-z", "alpha": r"A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": r"0-9",
    "graph": r"!-~", "lower": r"a-z", "print": r" -~", "punct": r"!-/:-@\[-`{-~", "space": r" \t\n\r\v\f",
    "upper": r"A-Z", "xdigit": r"0-9A-Fa-f",
}  # fmt: skip
"""Classes in brackets, such as [[:alpha:]], in the words of Python's regular expressions."""
_NOTHING = b"(?!)"
_TOKEN = re.compile(
    rb"""(?P<stars>\*+)|(?P<one>\?)|\\(?P<escaped>.)|(?P<open>\\)
    |\[(?P<negated>[!^]?)(?P<items>(?:\[:[^\]]*:\]|\[:[a-z]*\Z|\\.|[^\\])(?:\[:[a-z]*:\]|\\.|[^\]\\])*)\]
    |(?P<unclosed>\[)|(?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)
_ITEM = re.compile(
    rb"\[:(?P<name>[^\]]*):\]|(?:\\(?P<quoted>.)|(?P<low>.))(?:-(?!\Z)(?:\\(?P<last>.)|(?P<high>.)))?", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class _Pattern:
    """One line of a file of rules."""

    ignores: bool
    """False for one that begins with an exclamation mark."""
    folders_only: bool
    of_path: bool
    """Whether it is matched with the path from the file's folder; else with the name alone."""
    text: re.Pattern[bytes]

    @classmethod
    def of(cls, line: bytes) -> _Pattern | None:
        """Return the pattern of a line; None for an empty one and for a comment."""
        line = line.removesuffix(b"\r")
        if line[:1] in {b"", b"#"}:
            return None
        trimmed = re.fullmatch(rb"((?:\\.|[^\\]|\\\Z)*?) *", line, re.DOTALL)
        words = trimmed[1] if trimmed else line
        ignores = not words.startswith(b"!")
        words = words[not ignores :]
        folders_only = words.endswith(b"/")
        words = words[: len(words) - folders_only]
        of_path = b"/" in words
        return cls(
            ignores=ignores, folders_only=folders_only, of_path=of_path,
            text=re.compile(_expression(words.removeprefix(b"/") if of_path else words, of_path=of_path), re.DOTALL),
        )  # fmt: skip


def _expression(pattern: bytes, *, of_path: bool) -> bytes:
    """Return a pattern as a regular expression for whole paths or names."""
    if not pattern:
        return _NOTHING
    # Git compares what comes before the first special character by itself, and then starts over.
    begin = re.match(rb"[^*?\[\\]*", pattern)
    begins = {0, begin.end() if begin else 0}
    expression = b""
    for match in _TOKEN.finditer(pattern):
        before, after = pattern[: match.start()], pattern[match.end() :]
        if match["stars"]:
            whole_parts = of_path and len(match["stars"]) > 1 and (match.start() in begins or before.endswith(b"/"))
            if whole_parts and after.startswith(b"/"):
                expression += b"(?:.*/)?(?#)"
            elif whole_parts and (not after or after.startswith(b"\\/")):
                expression += b".*"
            else:
                expression += b"[^/]*"
        elif match["one"]:
            expression += b"[^/]"
        elif match["items"] is not None:
            expression += _bracket(match["items"], negated=bool(match["negated"]))
        elif match["open"] or match["unclosed"]:
            return _NOTHING
        elif match["plain"] == b"/" and expression.endswith(b"(?#)"):
            expression = expression.removesuffix(b"(?#)")  # has this slash already
        else:
            expression += re.escape(match["escaped"] or match["plain"])
    return expression


def _bracket(items: bytes, *, negated: bool) -> bytes:
    """Return a set of characters; a slash is in none."""
    ranges: list[bytes] = []
    for match in _ITEM.finditer(items):
        if match["name"] is not None:
            name = match["name"].decode(errors="replace")
            if name not in _CLASSES:
                return _NOTHING
            ranges.append(_CLASSES[name].encode())
            continue
        low = match["quoted"] or match["low"]
        high = match["last"] or match["high"] or low
        # One that ends before it begins has its first character alone.
        ranges.append(re.escape(low) + b"-" + re.escape(high) if low <= high else re.escape(low))
    inside = b"".join(ranges)
    return b"[^/" + inside + b"]" if negated else b"(?!/)[" + inside + b"]"


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """The rules of one file, for everything below a folder."""

    folder: Path
    patterns: tuple[_Pattern, ...]

    @classmethod
    def of(cls, folder: Path, lines: Iterable[bytes]) -> _Rules:
        return cls(folder=folder, patterns=tuple(filter(None, map(_Pattern.of, lines))))

    def says(self, path: Path, *, is_folder: bool) -> bool | None:
        """Return whether the path is ignored; None if no pattern matches."""
        relative, name = os.fsencode(path.relative_to(self.folder)), os.fsencode(path.name)
        for each in reversed(self.patterns):
            if (is_folder or not each.folders_only) and each.text.fullmatch(relative if each.of_path else name):
                return each.ignores
        return None


@dataclass(frozen=True, kw_only=True)
class IgnoreRules:
    """The rules that apply in one folder; of each kind, the ones that decide last."""

    never: _Rules
    """Rules of NEVER_CODE."""
    git: tuple[_Rules, ...] = ()
    own: tuple[_Rules, ...] = ()
    """Rules of .athanorignore files."""

    @classmethod
    def of(cls, folder: Path) -> IgnoreRules:
        """Return the rules for the top folder: those of the git repository around it apply, too."""
        always = cls(never=_Rules.of(folder, (each.encode() for each in NEVER_CODE)))
        root = repository_root(folder)
        if root is None:
            return always.within(folder)
        rules = cls(never=always.never, git=_of_the_repository(root))
        for parent in reversed([each for each in folder.parents if each.is_relative_to(root)]):
            rules = rules.within(parent)
            # Who names a folder that the repository ignores wants what is in it.
            below = parent / folder.relative_to(parent).parts[0]
            if rules.ignores(below, is_folder=True):
                return always.within(folder)
        return rules.within(folder)

    def within(self, folder: Path) -> IgnoreRules:
        """Return the rules with those of the files in a folder added."""
        git = () if (folder / GIT_RULES).is_symlink() else _read(folder, folder / GIT_RULES)
        own = _read(folder, folder / OWN_RULES)
        return IgnoreRules(never=self.never, git=(*self.git, *git), own=(*self.own, *own))

    def ignores(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether a file or folder is left out; nothing inside a folder that is left out can be taken in."""
        own, git = _last(self.own, path, is_folder=is_folder), None
        if own is None:
            git = _last(self.git, path, is_folder=is_folder)
        said = own if own is not None else git
        return bool(self._never(path, is_folder=is_folder)) if said is None else said

    def is_left_to_git(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether only git's rules can leave it out: what was added to the repository is code all the same."""
        return _last(self.own, path, is_folder=is_folder) is not True and not self._never(path, is_folder=is_folder)

    def insists_on(self, path: Path) -> bool:
        """Return whether an .athanorignore takes this file in by name, with a `!`."""
        return _last(self.own, path, is_folder=False) is False

    def _never(self, path: Path, *, is_folder: bool) -> bool | None:
        inside = path.is_relative_to(self.never.folder)
        return self.never.says(path, is_folder=is_folder) if inside else None


def _last(rules: tuple[_Rules, ...], path: Path, *, is_folder: bool) -> bool | None:
    answers = (each.says(path, is_folder=is_folder) for each in reversed(rules))
    return next((answer for answer in answers if answer is not None), None)


def _read(folder: Path, file: Path) -> tuple[_Rules, ...]:
    """Return the rules of a file for a folder; none without the file."""
    try:
        content = file.read_bytes() if file.is_file() else b""
    except OSError:  # git warns, and continues
        content = b""
    return (_Rules.of(folder, content.removeprefix(b"\xef\xbb\xbf").split(b"\n")),) if content else ()


def _of_the_repository(root: Path) -> tuple[_Rules, ...]:
    """Return the rules of git that are in no folder of the repository."""
    excludes = _users_excludes()
    users = _read(root, excludes) if excludes else ()
    return (*users, *_read(root, _git_folder(root) / "info" / "exclude"))


@cache
def _users_excludes() -> Path | None:
    """Return the user's file of excludes, for all repositories."""
    named = _git("config", "--get", "--path", "core.excludesFile")
    if named:
        return Path(os.fsdecode(named).removesuffix("\n"))
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - may have no home
    return Path(home) / "git" / "ignore"


def repository_root(folder: Path) -> Path | None:
    """Return the root of the git repository that a folder is in; None outside of one."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def _git_folder(root: Path) -> Path:
    """Return a repository's .git, which all its worktrees share."""
    git = root / ".git"
    if git.is_file():
        answer = _git("-C", os.fspath(root), "rev-parse", "--git-common-dir")
        return root / os.fsdecode(answer).removesuffix("\n") if answer else git
    return git


def added_files(folder: Path) -> frozenset[str]:
    """Return the files below a folder that are in its repository's index, by their paths; none without git."""
    root = repository_root(folder)
    if root is None:
        return frozenset()
    try:
        index = (root / ".git" / "index").stat()
        seen = (index.st_mtime_ns, index.st_size)
    except OSError:
        seen = None
    return _added(folder, seen) if seen else _list_added(folder)


@lru_cache(maxsize=4)
def _added(folder: Path, seen: tuple[int, int]) -> frozenset[str]:
    """Return the same, as long as the index is the one that was seen."""
    del seen
    return _list_added(folder)


def _list_added(folder: Path) -> frozenset[str]:
    listed = os.fsdecode(_git("-C", os.fspath(folder), "ls-files", "-z", "--cached"))
    return frozenset(filter(None, listed.split("\0")))


def _git(*words: str) -> bytes:
    """Return the output of git; nothing where it fails or is not installed."""
    try:
        return subprocess.run(["git", *words], capture_output=True, check=False).stdout
    except OSError:
        return b""
