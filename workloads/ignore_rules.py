"""Which files of a folder belong to a job's code: the rules of .gitignore and .athanorignore, as git reads them.

The patterns and their order of precedence: git's documentation, gitignore(5). pathspec matches them; what is here is
where the files lie: one in every folder, the deeper ones decide, and above the folder those of its git repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pathspec import GitIgnoreSpec

if TYPE_CHECKING:
    from pathlib import Path

GIT_RULES = ".gitignore"
OWN_RULES = ".athanorignore"
"""The same rules, for jobs alone; it decides where the two disagree."""
NEVER_CODE = (
    ".git", "__pycache__/", "*.pyc", ".venv/", "venv/", "node_modules/", ".mypy_cache/", ".ruff_cache/",
    ".ipynb_checkpoints/",
    "/curves.html",  # the page of `athanor curves`: a run after it has the same code as the one before
)  # fmt: skip
"""Left out unless a file of rules takes them back in with `!`."""


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """The rules of one file, for everything below its folder."""

    folder: Path
    spec: GitIgnoreSpec

    def says(self, path: Path, *, is_folder: bool) -> bool | None:
        """Return whether the path is ignored; None if no pattern matches."""
        relative = path.relative_to(self.folder).as_posix()
        return self.spec.check_file(f"{relative}/" if is_folder else relative).include


@dataclass(frozen=True, kw_only=True)
class IgnoreRules:
    """The rules that apply in one folder, the ones that decide last."""

    rules: tuple[_Rules, ...] = ()
    own: tuple[_Rules, ...] = ()
    """Those of .athanorignore files alone."""

    @classmethod
    def of(cls, folder: Path) -> IgnoreRules:
        """Return the rules for the top folder: those of the git repository around it apply, too."""
        always = cls(rules=(_Rules(folder=folder, spec=GitIgnoreSpec.from_lines(NEVER_CODE)),))
        rules = always
        for each in _folders_of_the_repository_above(folder):
            rules = rules.within(each)
        # Who names a folder that the repository ignores wants what is in it.
        if rules is not always and rules.ignores(folder, is_folder=True):
            rules = always
        return rules.within(folder)

    def within(self, folder: Path) -> IgnoreRules:
        """Return the rules with those of the files in a folder added."""
        git, own = _read(folder, GIT_RULES), _read(folder, OWN_RULES)
        return IgnoreRules(rules=(*self.rules, *git, *own), own=(*self.own, *own))

    def ignores(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether a file or folder is left out; nothing inside a folder that is left out can be taken in."""
        return _last(self.rules, path, is_folder=is_folder) or False

    def insists_on(self, path: Path) -> bool:
        """Return whether an .athanorignore takes this file in by name, with a `!`."""
        return _last(self.own, path, is_folder=False) is False


def _last(rules: tuple[_Rules, ...], path: Path, *, is_folder: bool) -> bool | None:
    answers = (each.says(path, is_folder=is_folder) for each in reversed(rules))
    return next((answer for answer in answers if answer is not None), None)


def _read(folder: Path, name: str) -> tuple[_Rules, ...]:
    file = folder / name
    if not file.is_file():
        return ()
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return (_Rules(folder=folder, spec=GitIgnoreSpec.from_lines(lines)),)


def _folders_of_the_repository_above(folder: Path) -> tuple[Path, ...]:
    """Return the folders between the root of the git repository and this one, from the top; none outside of one."""
    above: list[Path] = []
    for each in (folder, *folder.parents):
        if each != folder:
            above.append(each)
        if (each / ".git").exists():
            return tuple(reversed(above))
    return ()
