"""The files of .gitignore and .athanorignore, compared with git itself."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from workloads import ignore_rules
from workloads.folder_archive import chosen_files
from workloads.ignore_rules import IgnoreRules

_PIECES = (
    "a", "b", "ab", "*", "**", "/", "?", "!", "[ab]", "[!a]", "[^a]", "[a-c]", "[]a]", "[[:alpha:]]", "[[:punct:]b]",
    "\\", "\\ ", " ", ".", "#", "a*", "**/", "/**", "\\*", "\t", "{a,b}", "[", "]", "é", "[a-", "-", "\r", "[!]a-]",
    "***",
)  # fmt: skip
_NAMES = (
    "a", "b", "ab", "a/b", "a/ab", "ab/a", "a/b/a", "b/a/b", ".a", "a b", "a ", "#a", "!a", "a*", "[a]", "b/ab/a/b",
    "é", "a\\b", "{a,b}", "x/y", "a\t", "?", "-", "b/\u2028a", "a\x0cb",
)  # fmt: skip


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    ignore_rules._users_excludes.cache_clear()
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    yield folder
    ignore_rules._users_excludes.cache_clear()


def git(folder: Path, *words: str, given: str = "") -> str:
    done = subprocess.run(["git", *words], cwd=folder, input=given.encode(), capture_output=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout.decode()


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def of_git(folder: Path) -> set[str]:
    """Return the files that git has, or would add."""
    listed = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return set(filter(None, listed.split("\0")))


def ours(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in chosen_files(folder)}


def test_any_pattern_means_what_git_takes_it_for(repository):
    draw = random.Random(3)
    lines = [
        ["".join(draw.choices(_PIECES, k=draw.randint(1, 4))) for _ in range(draw.choice([1, 1, 1, 2, 3]))]
        for _ in range(300)
    ]
    for number, each in enumerate(lines):
        write(repository, {f"{number}/.gitignore": "\n".join(each) + "\n" * draw.randint(0, 1)})
    asked = "\0".join(f"{number}/{name}" for number in range(len(lines)) for name in _NAMES)
    answer = set(git(repository, "check-ignore", "--no-index", "-z", "--stdin", given=f"{asked}\0").split("\0"))
    wrong: list[tuple[list[str], str]] = []
    for number, each in enumerate(lines):
        rules = IgnoreRules.of(repository).within(repository / str(number))
        for name in _NAMES:
            steps = [Path(name), *Path(name).parents][-2::-1]
            place = repository / str(number)
            ignored = any(rules.ignores(place / step, is_folder=step != Path(name)) for step in steps)
            if ignored != (f"{number}/{name}" in answer):
                wrong.append((each, name))
    assert not wrong, wrong[:40]


@pytest.mark.parametrize(
    "files",
    [
        {".gitignore": "*.log\n/build\n**/cache/\n!important.log\ndoc/*.txt\n\\#odd\n", "a.log": "",
         "important.log": "", "build/x": "", "lib/build/x": "", "lib/cache/x": "", "doc/a.txt": "",
         "doc/deep/a.txt": "",
         "#odd": "", "lib/.gitignore": "!*.log\n", "lib/b.log": "", "größe.py": ""},
        {".gitignore": b"\xef\xbb\xbf*.bin\r\n!keep.bin\r\n#c\r\n", "a.bin": "", "keep.bin": "", "#c": ""},
        {".gitignore": "*.bin", "a/.gitignore": "!*.bin\n", "a/b/.gitignore": "*.bin\n!x.bin", "a/b/x.bin": "",
         "a/b/y.bin": "", "a/y.bin": "", "y.bin": "", "c/y.bin": ""},
        {".gitignore": "a/*\n!a/b\n", "a/x": "", "a/b/x": "", "a/b/c/x": ""},
        {".gitignore": "a/\n!a/b\n", "a/b/.gitignore": "!*\n", "a/b/x": "", "b/a": ""},
        {".gitignore": b"caf\xe9\nsp\x0cace\n", "sp\x0cace": "", "sp": "", "ace": ""},
        {".git/info/exclude": "*.x\n!b.y\n", "../config/git/ignore": "*.y\n*.z\n", ".gitignore": "!a.x\n", "a.x": "",
         "b.x": "", "b.y": "", "c.y": "", "d.z": ""},
        {"../gitconfig": "[core]\nexcludesFile = ../mine\n", "../mine": "*.w\n", "a.w": "", "b/a.w": "", "a.v": ""},
    ],
)  # fmt: skip
def test_of_several_files_of_rules_the_one_decides_that_git_takes(repository, files):
    write(repository, files)
    if "../mine" in files:
        write(repository, {"../gitconfig": f"[core]\nexcludesFile = {repository.parent / 'mine'}\n"})
    assert ours(repository) == of_git(repository)


def test_what_was_added_in_spite_of_the_rules_is_code(repository):
    write(repository, {".gitignore": "*.bin\ndata/\nenv/\n", "a.bin": "", "b.bin": "", "data/x": "", "data/deep/y": "",
                       "data/z": "", "env/a": ""})  # fmt: skip
    git(repository, "add", "--force", "a.bin", "data/x", "data/deep/y")
    assert ours(repository) == of_git(repository) == {".gitignore", "a.bin", "data/x", "data/deep/y"}
    git(repository, "add", "--force", "b.bin")
    assert "b.bin" in ours(repository)
    write(repository, {".athanorignore": "data/deep/\na.bin\n"})
    assert ours(repository) == {".gitignore", ".athanorignore", "b.bin", "data/x"}
    assert ours(repository / "data") == {"x", "deep/y", "z"}  # anyone who names an ignored folder wants all of it


def test_a_folder_below_an_ignored_one_is_wanted_when_it_is_named(repository):
    write(repository, {".gitignore": "out/\n*.bin\n", "out/deep/a.bin": ""})
    assert ours(repository / "out" / "deep") == {"a.bin"}
