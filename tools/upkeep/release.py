"""`make release VERSION=0.1.0`: releases a version, in one commit with a tag.

The commit dates the changelog's section, starts an empty one above it, sets the package's version, and copies the
schema of the contract between stacks to that of the last release. Nothing is pushed: look at the commit first.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tomllib
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from tools.errors import ExpectedError
from tools.paths import REPOSITORY
from tools.process import CommandError, run
from tools.terminal import status_of
from tools.upkeep.contract_schema import FILE, RELEASED

if TYPE_CHECKING:
    from pathlib import Path

NEXT = "Not released"
"""The heading of changes that no version has yet."""
_CHANGELOG, _PROJECT = "CHANGELOG.md", "pyproject.toml"
_CONTRACT, _CONTRACT_RELEASED = (str(file.relative_to(REPOSITORY)) for file in (FILE, RELEASED))
_CHANGED = (_CHANGELOG, _PROJECT, _CONTRACT_RELEASED)
_PARTS = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})")
_HEADING = re.compile(r"^## (.+)\n", re.MULTILINE)
_DATED = re.compile(r"(\S+) \(\d{4}-\d\d-\d\d\)")
_PENDING = re.compile(r"(\S+) \(not released\)")
_VERSION_LINE = re.compile(r'^version = ".*"$', re.MULTILINE)
_MOST_SHOWN = 5


def main(words: list[str]) -> int:
    """Release, and print what to do next; return 1 and print why if that is refused."""
    parser = argparse.ArgumentParser(prog="python -m tools.upkeep.release")
    parser.add_argument("version", help="three numbers, such as 0.1.0")
    version: str = parser.parse_args(words).version
    try:
        tag = release(REPOSITORY, version, datetime.now(tz=UTC).date())
    except (RefusalError, ExpectedError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(
        f"{tag} is committed and tagged here. Look at it with `git show {tag}`, then publish it with\n"
        f"  git push origin HEAD {tag}\n"
        f"or take it back with\n"
        f"  git tag --delete {tag} && git reset --hard HEAD~1\n"
    )
    return 0


def release(repository: Path, version: str, today: date) -> str:
    """Write, commit and tag a version; return the tag. Nothing changes if anything is refused.

    Args:
        repository: the top folder of a git work tree.
        version: `<major>.<minor>.<patch>`.
        today: the day that the changelog names.

    Raises:
        RefusalError: the version is not one, exists, or is lower than another; the work tree has changes; or the
            changelog says nothing about the version.
        ExpectedError: git could not commit or tag.
    """
    number = _number(version)
    if number is None:
        raise RefusalError("VERSION", version, "must be three numbers", "write it like 0.1.0")
    changed = run(["git", "status", "--porcelain"], cwd=repository).splitlines()
    if changed:
        names = ", ".join(line[3:] for line in changed[:_MOST_SHOWN]) + (", …" if len(changed) > _MOST_SHOWN else "")
        raise RefusalError("work tree", names, "has uncommitted changes", "commit or remove them")
    changelog, project = (repository / _CHANGELOG).read_text("utf-8"), (repository / _PROJECT).read_text("utf-8")
    _check_order(version, number, project, _released(repository, changelog))
    dated = with_release(changelog, version, today)

    tag = f"v{version}"
    (repository / _CHANGELOG).write_text(dated, encoding="utf-8")
    (repository / _PROJECT).write_text(_VERSION_LINE.sub(f'version = "{version}"', project, count=1), encoding="utf-8")
    shutil.copyfile(repository / _CONTRACT, repository / _CONTRACT_RELEASED)
    try:
        run(["git", "add", "--", *_CHANGED], cwd=repository)
        run(["git", "commit", "--quiet", "--message", f"Release {version}"], cwd=repository)
    except CommandError as error:
        run(["git", "checkout", "--quiet", "HEAD", "--", *_CHANGED], cwd=repository)
        raise ExpectedError(f"git did not commit {version}, and its files are as they were: {error}") from None
    run(["git", "tag", "--annotate", "--message", f"Release {version}", tag], cwd=repository)
    return tag


def with_release(changelog: str, version: str, today: date) -> str:
    """Return the changelog with a dated section of all that is not released, below an empty one for what comes next.

    Raises:
        RefusalError: nothing is written there, or it is written for another version.
    """
    before, *sections = _sections(changelog)
    texts: list[str] = []
    while sections and (sections[0][0] == NEXT or _PENDING.fullmatch(sections[0][0])):
        heading, text = sections.pop(0)
        pending = _PENDING.fullmatch(heading)
        if pending and pending[1] != version:
            fix = f"release {pending[1]}, or rename the heading"
            raise RefusalError(_CHANGELOG, f"## {heading}", f"is another version than {version}", fix)
        texts += [text] if text else []
    if not texts:
        fix = f"describe below `## {NEXT}`, at the top, what {version} changes for users"
        raise RefusalError(_CHANGELOG, "", "has no unreleased changes", fix)
    new = [(NEXT, ""), (f"{version} ({today.isoformat()})", "\n\n".join(texts))]
    written = (f"## {heading}\n" + (f"\n{text}\n" if text else "") for heading, text in (*new, *sections))
    return f"{before[1]}\n\n" + "\n".join(written)


def _sections(changelog: str) -> list[tuple[str, str]]:
    """Return heading and text of each section, first what is above all of them, under no heading."""
    first, *parts = _HEADING.split(changelog)
    return [("", first.strip()), *((heading, text.strip()) for heading, text in zip(*[iter(parts)] * 2, strict=True))]


def _number(version: str) -> tuple[int, int, int] | None:
    match = _PARTS.fullmatch(version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _released(repository: Path, changelog: str) -> set[str]:
    """Return the versions that have a tag, or a date in the changelog: a shallow clone has no tags."""
    tags = run(["git", "tag", "--list", "v*"], cwd=repository).split()
    dated = (_DATED.fullmatch(heading) for heading in _HEADING.findall(changelog))
    return {tag.removeprefix("v") for tag in tags} | {match[1] for match in dated if match}


def _check_order(version: str, number: tuple[int, int, int], project: str, released: set[str]) -> None:
    """Refuse a version that exists, or that is lower than a released one or the package's own."""
    if version in released:
        raise RefusalError("VERSION", version, "is released already", "choose a higher one")
    known = {*released, str(tomllib.loads(project)["project"]["version"])}
    highest = max((other, name) for name in known if (other := _number(name)))
    if number < highest[0]:
        raise RefusalError("VERSION", version, f"is lower than {highest[1]}", "choose a higher one")


if __name__ == "__main__":
    sys.exit(status_of(lambda: main(sys.argv[1:])))
