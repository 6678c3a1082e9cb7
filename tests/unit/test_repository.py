"""What holds for the repository as a whole: one home per fact, nothing of one machine, nothing large."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from infra.settings.parse import parse_settings
from infra.versions import VOLCANO
from tests.fixtures.recorded_stack import REPOSITORY
from tools.settings_reference import PAGE, reference_page

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_FILE_BYTES = 512 * 1024

# Package registries and their mirrors: which one a machine uses is its own setting. go.sum and the lock files name
# none. (Container registries are part of image names and not meant.)
REGISTRIES = (
    r"\bpypi\.(org|python)",
    r"pythonhosted\.org",
    r"(proxy|sum)\.golang\.org",
    r"registry\.(npmjs|yarnpkg)",
    r"[Aa]rtifactory",
    r"\b[Nn]exus\b",
    r"--(extra-)?index-url[ =]",
    r"\bGOPROXY=",
)
# Folders of machines that the project was written on.
MACHINE_PATHS = (r"(?<![\w.$}>-])/[w]ork/", r"\.\./[s]hared/", r"/[U]sers/", r"/[w]orkspaces?/")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout


def _tracked_files() -> list[Path]:
    names = _git("ls-files", "-z").split("\0")
    return [REPOSITORY / name for name in names if name and (REPOSITORY / name).is_file()]


@pytest.fixture(scope="module")
def tracked_files() -> list[Path]:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("an exported source tree has no list of tracked files")
    return _tracked_files()


def _mentions(files: list[Path], patterns: tuple[str, ...]) -> list[str]:
    wanted = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
    found = []
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if wanted.search(line):
                found.append(f"{file.relative_to(REPOSITORY)}:{number}: {line.strip()[:100]}")
    return found


def test_no_file_names_a_package_registry(tracked_files):
    assert _mentions(tracked_files, REGISTRIES) == []


def test_no_file_names_a_folder_of_one_machine(tracked_files):
    assert _mentions(tracked_files, MACHINE_PATHS) == []


@pytest.mark.parametrize(
    ("line", "patterns"),
    [
        ("see https://" + "pypi" + ".org/simple", REGISTRIES),
        ("pip install --index-" + "url https://mirror", REGISTRIES),
        ("export GO" + "PROXY=direct", REGISTRIES),
        ("cd /" + "work/main", MACHINE_PATHS),
        ("see ../" + "shared/design.md", MACHINE_PATHS),
    ],
)
def test_mentions_are_found(tmp_path, monkeypatch, line, patterns):
    """The two tests above would pass on anything if their patterns were broken."""
    monkeypatch.setitem(globals(), "REPOSITORY", tmp_path)
    file = tmp_path / "file"
    file.write_text(f"first\n{line}\n")
    assert _mentions([file], patterns) == [f"file:2: {line}"]


def test_no_tracked_file_is_large(tracked_files):
    large = {str(file.relative_to(REPOSITORY)): file.stat().st_size for file in tracked_files}
    assert {name: size for name, size in large.items() if size >= LARGEST_FILE_BYTES} == {}


def test_nothing_generated_is_tracked(tracked_files):
    """What running the program, the tests or the tools leaves behind."""
    marks = {"__pycache__", ".venv", ".pytest_cache", ".ruff_cache", ".hypothesis", "node_modules"}
    assert [str(file) for file in tracked_files if marks & set(file.parts)] == []


def test_no_stack_file_is_committed_with_a_salt(tracked_files):
    """It belongs to one user's passphrase; with it nobody else could create the stack."""
    for file in tracked_files:
        if re.fullmatch(r"Pulumi\.\w+\.yaml", file.name):
            assert "encryptionsalt" not in _git("show", f":{file.relative_to(REPOSITORY)}"), file.name


def _pins(file: Path) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return dict(re.fullmatch(r"([A-Za-z0-9._\[\],-]+)==([^\s;]+)", line).groups() for line in lines if line)


def test_every_requirement_is_pinned_exactly():
    """`_pins` fails on any line that is no exact pin."""
    assert len(_pins(REPOSITORY / "requirements.txt")) > len(_pins(REPOSITORY / "trainer" / "requirements.txt")) > 10


def test_the_pods_run_what_the_tests_run():
    everywhere = _pins(REPOSITORY / "requirements.txt")
    in_pods = _pins(REPOSITORY / "trainer" / "requirements.txt")
    assert in_pods == {name: everywhere[name] for name in in_pods}


@pytest.mark.parametrize("folder", [".", "trainer"])
def test_what_is_wanted_is_pinned(folder):
    """An edited requirements.in needs a new `make lock`."""
    pins = _pins(REPOSITORY / folder / "requirements.txt")
    for line in (REPOSITORY / folder / "requirements.in").read_text(encoding="utf-8").splitlines():
        wanted = line.split("#")[0].strip()
        if wanted and not wanted.startswith("-r"):
            name, _, version = wanted.partition("==")
            pinned = pins[re.sub(r"\[.*\]", "", name)]
            assert version in ("", pinned), name


def test_volcano_is_built_in_the_version_that_is_deployed():
    built = {
        version
        for file in (REPOSITORY / "tools" / "toolchain").rglob("go.mod")
        for version in re.findall(r"^\s*(?:require )?volcano\.sh/volcano v(\S+)", file.read_text("utf-8"), re.MULTILINE)
    }
    assert built == {VOLCANO}


def test_every_stack_file_holds_valid_settings():
    files = [file for file in REPOSITORY.glob("Pulumi.*.yaml") if file.name != "Pulumi.yaml"]
    assert files
    for file in files:
        config = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("config") or {}
        own = {key.removeprefix("athanor:"): value for key, value in config.items() if key.startswith("athanor:")}
        parse_settings(own)


def test_the_project_file_names_the_project():
    project = yaml.safe_load((REPOSITORY / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert project["name"] == "athanor"
    assert project["runtime"]["name"] == "python"


def test_the_settings_page_is_the_one_that_the_code_writes():
    assert PAGE.read_text(encoding="utf-8") == reference_page(), "run `make lock`, which writes docs/settings.md"


def test_the_program_is_thin():
    assert len((REPOSITORY / "__main__.py").read_text(encoding="utf-8").splitlines()) < 30


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("infra", ("workloads", "trainer", "tools")),
        ("workloads", ("trainer", "tools")),
        ("trainer", ("infra", "workloads", "tools")),
    ],
)
def test_imports_point_one_way(package, forbidden):
    """`__main__` -> workloads -> infra; trainer/ runs in the pods alone; tools/ is imported by none of them."""
    wanted = re.compile(rf"^\s*(?:from|import) ({'|'.join(forbidden)})\b", re.MULTILINE)
    for file in (REPOSITORY / package).rglob("*.py"):
        assert wanted.findall(file.read_text(encoding="utf-8")) == [], file
