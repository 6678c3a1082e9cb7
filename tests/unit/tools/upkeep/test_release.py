"""`make release`, in a repository of the test's own."""

import subprocess
from datetime import date
from pathlib import Path

import pytest

from infra.errors import RefusalError
from tools.errors import ExpectedError
from tools.paths import REPOSITORY
from tools.upkeep import release as upkeep
from tools.upkeep.release import NEXT, main, release

DAY = date(2026, 11, 30)
CHANGELOG = """# Changelog

Versions of the package.

## Not released

- A second thing.

## 0.2.0 (not released)

- A thing.

## 0.1.0 (2026-11-01)

- The first one.
"""
RELEASED = """# Changelog

Versions of the package.

## Not released

## 0.2.0 (2026-11-30)

- A second thing.

- A thing.

## 0.1.0 (2026-11-01)

- The first one.
"""
PROJECT = '[project]\nname = "athanor"\nversion = "0.1.0"\n\n[tool.other]\nversion = "7"\n'


class Repository:
    """A work tree with one commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "docs").mkdir(parents=True)
        self.write("CHANGELOG.md", CHANGELOG)
        self.write("pyproject.toml", PROJECT)
        self.write("docs/contract.schema.json", '{"new": true}\n')
        self.write("docs/contract-released.schema.json", "{}\n")
        self.git("init", "--quiet")
        self.commit()

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A change")

    def state(self) -> list[str]:
        return [self.git("rev-parse", "HEAD"), self.git("status", "--porcelain"), self.git("tag")]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    identity = {f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    nobody = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(tmp_path)}
    for name, value in {**identity, **nobody}.items():
        monkeypatch.setenv(name, value)
    return Repository(tmp_path / "repository")


def test_a_release_is_one_commit_with_a_tag(repository: Repository) -> None:
    assert release(repository.folder, "0.2.0", DAY) == "v0.2.0"
    assert repository.read("CHANGELOG.md") == RELEASED
    assert repository.read("pyproject.toml") == PROJECT.replace('"0.1.0"', '"0.2.0"')
    assert repository.read("docs/contract-released.schema.json") == repository.read("docs/contract.schema.json")
    assert repository.git("log", "--format=%s") == "Release 0.2.0\nA change\n"
    assert repository.git("rev-parse", "v0.2.0^{commit}") == repository.git("rev-parse", "HEAD")
    assert repository.git("cat-file", "-t", "v0.2.0") == "tag\n"
    assert repository.git("status", "--porcelain") == ""


def test_the_version_that_the_package_has_already_can_be_its_first_release(repository: Repository) -> None:
    repository.write("CHANGELOG.md", "# Changelog\n\n## Not released\n\n## 0.1.0 (not released)\n\n- All of it.\n")
    repository.commit()
    assert release(repository.folder, "0.1.0", DAY) == "v0.1.0"
    expected = "# Changelog\n\n## Not released\n\n## 0.1.0 (2026-11-30)\n\n- All of it.\n"
    assert repository.read("CHANGELOG.md") == expected


def assert_refused(
    repository: Repository, message: str, version: str = "0.2.0", error: type[Exception] = RefusalError
) -> None:
    """A release fails with this message and changes nothing."""
    before = repository.state()
    with pytest.raises(error, match=message):
        release(repository.folder, version, DAY)
    assert repository.state() == before


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0.2", r"VERSION = '0\.2': must be three numbers\. Fix: write it like 0\.1\.0"),
        ("v0.2.0", r"VERSION = 'v0\.2\.0': must be three numbers"),
        ("0.02.0", r"VERSION = '0\.02\.0': must be three numbers"),
        ("0.1.0", r"VERSION = '0\.1\.0': is released already\. Fix: choose a higher one"),
        ("0.0.9", r"VERSION = '0\.0\.9': is lower than 0\.1\.0\. Fix: choose a higher one"),
        (
            "0.3.0",
            r"CHANGELOG\.md = '## 0\.2\.0 \(not released\)': is another version than 0\.3\.0\. Fix: release 0\.2\.0",
        ),
    ],
)
def test_a_version_that_cannot_be_released_is_refused(repository: Repository, version: str, message: str) -> None:
    assert_refused(repository, message, version)


def test_tags_count_too_and_by_number(repository: Repository) -> None:
    for tag in ("v0.10.0", "v0.9.0", "vendor"):
        repository.git("tag", tag)
    assert_refused(repository, r"'0\.9\.0': is released already", "0.9.0")
    assert_refused(repository, r"'0\.9\.1': is lower than 0\.10\.0", "0.9.1")


@pytest.mark.parametrize("name", ["pyproject.toml", "infra.py"])
def test_a_work_tree_with_changes_is_refused(repository: Repository, name: str) -> None:
    repository.write(name, "changed = 1\n")
    assert_refused(repository, rf"work tree = '{name}': has uncommitted changes.* Fix: commit or remove them")


@pytest.mark.parametrize("headings", ["", "## Not released\n\n", "## Not released\n\n## 0.2.0 (not released)\n\n"])
def test_a_release_without_a_change_is_refused(repository: Repository, headings: str) -> None:
    repository.write("CHANGELOG.md", f"# Changelog\n\n{headings}## 0.1.0 (2026-11-01)\n\n- The first one.\n")
    repository.commit()
    assert_refused(repository, r"CHANGELOG\.md = '': has no unreleased changes\. Fix: describe below")


def test_a_commit_that_git_rejects_leaves_nothing_behind(repository: Repository) -> None:
    hook = repository.folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    assert_refused(repository, r"git did not commit 0\.2\.0(.|\n)*not today", error=ExpectedError)


def test_a_refusal_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["one"]) == 1
    assert capsys.readouterr().err == "VERSION = 'one': must be three numbers. Fix: write it like 0.1.0\n"


def test_a_release_understands_every_section_of_this_changelog() -> None:
    first, *others = upkeep._HEADING.findall((REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert first == NEXT
    known = (upkeep._DATED, upkeep._PENDING)
    assert [heading for heading in others if not any(each.fullmatch(heading) for each in known)] == []
