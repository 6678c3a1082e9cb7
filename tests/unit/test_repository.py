"""What holds for the repository as a whole: one home per fact, nothing of one machine, nothing large."""

from __future__ import annotations

import ast
import re
import subprocess
from importlib.metadata import packages_distributions
from typing import TYPE_CHECKING

import pytest
import yaml

from infra.settings.parse import parse_settings
from infra.versions import VOLCANO
from tests.fixtures.recorded_stack import REPOSITORY
from tests.tables import each_row

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
    any_pattern = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
    mentions = []
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if any_pattern.search(line):
                mentions.append(f"{file.relative_to(REPOSITORY)}:{number}: {line.strip()[:100]}")
    return mentions


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
    environments = {".venv", ".venv-test", ".venv-policies"}
    marks = {"__pycache__", *environments, ".pytest_cache", ".ruff_cache", ".hypothesis", "node_modules"}
    assert [str(file) for file in tracked_files if marks & set(file.parts)] == []


def test_no_stack_file_is_committed_with_a_salt(tracked_files):
    """It belongs to one user's passphrase; with it nobody else could create the stack."""
    for file in tracked_files:
        if re.fullmatch(r"Pulumi\.\w+\.yaml", file.name):
            assert "encryptionsalt" not in _git("show", f":{file.relative_to(REPOSITORY)}"), file.name


def _pins(file: Path) -> dict[str, str]:
    text = re.sub(r"#.*", "", file.read_text(encoding="utf-8")).replace("\\\n", " ")
    pin = re.compile(r"([A-Za-z0-9._\[\],-]+)==([^\s;]+)((?:\s+--hash=sha256:[0-9a-f]{64})+)")
    return dict(pin.fullmatch(line.strip()).groups()[:2] for line in text.splitlines() if line.strip())


LOCKED = (
    "requirements", "requirements-test", "trainer/requirements", "trainer/requirements-training",
    "trainer/requirements-tensorflow", "tools/installer", "tools/build", "policies/requirements",
)  # fmt: skip
"""Every `.in` file with the `.txt` that `make lock` compiles of it."""


def test_every_requirement_is_pinned_exactly_and_by_the_hashes_of_its_files():
    """`_pins` fails on any line that is not an exact pin with hashes: all are installed as root."""
    assert all(_pins(REPOSITORY / f"{name}.txt") for name in LOCKED)


def test_everything_that_pins_are_compiled_of_is_known(tracked_files):
    compiled = {f"{name}.in" for name in LOCKED}
    assert {str(file.relative_to(REPOSITORY)) for file in tracked_files if file.suffix == ".in"} == compiled


@each_row("name", ["requirements", "trainer/requirements", "trainer/requirements-training"])
def test_what_runs_is_what_the_tests_run(name):
    tested = _pins(REPOSITORY / "requirements-test.txt")
    run = _pins(REPOSITORY / f"{name}.txt")
    assert run == {package: tested[package] for package in run}


def test_make_up_installs_nothing_that_only_pods_and_tests_need():
    installed = _pins(REPOSITORY / "requirements.txt").keys()
    assert not {name for name in installed if name.startswith(("nvidia", "torch", "triton", "tensorflow", "pytest"))}
    assert {"pulumi", "pulumi-kubernetes", "pulumi-alicloud", "pip"} <= installed
    assert {"torch", "tensorflow-cpu", "pytest", *installed} <= _pins(REPOSITORY / "requirements-test.txt").keys()


def test_what_make_up_runs_imports_only_what_it_installs():
    """The tests' environment has more, so that no other test would see it."""
    installed = {re.sub(r"[-_.]+", "-", name).lower() for name in _pins(REPOSITORY / "requirements.txt")}
    distributions = packages_distributions()
    missing = set()
    for file in _files_of_make_up():
        for package in _imported_packages(file) & distributions.keys():
            if not installed & {re.sub(r"[-_.]+", "-", name).lower() for name in distributions[package]}:
                missing.add(f"{file.relative_to(REPOSITORY)}: {package}")
    assert missing == set()


def _files_of_make_up() -> list[Path]:
    """All of the program and the commands, except for what pods or the tests' environment alone run."""
    files = [file for folder in ("infra", "workloads", "tools") for file in (REPOSITORY / folder).rglob("*.py")]
    pods_alone = {
        REPOSITORY / "workloads" / name for name in ("elastic_worker.py", "fixed_worker.py", "install_requirements.py")
    }
    # `make sbom`; a contract of import-linter keeps other tools from importing it.
    tests_alone = REPOSITORY / "tools" / "sbom" / "cyclonedx_json.py"
    return [file for file in files if file not in {*pods_alone, tests_alone}]


def _imported_packages(file: Path) -> set[str]:
    packages = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            packages.add(node.module.split(".")[0])
    return packages


def test_programs_that_tests_write_import_modules_that_exist():
    """No type checker reads a text, and most of these programs run in the longest tests alone."""
    imports = re.compile(r"^from ((?:infra|athanor|workloads|tools|tests)(?:\.\w+)*) import ", re.MULTILINE)
    absent = {
        f"{file.relative_to(REPOSITORY)}: {module}"
        for file in (REPOSITORY / "tests").rglob("*.py")
        for module in imports.findall(file.read_text(encoding="utf-8"))
        if not (path := REPOSITORY.joinpath(*module.split("."))).is_dir() and not path.with_suffix(".py").is_file()
    }
    assert absent == set()


@each_row("name", LOCKED)
def test_what_is_wanted_is_pinned(name):
    """An edited requirements.in needs a new `make lock`."""
    pins = _pins(REPOSITORY / f"{name}.txt")
    for line in (REPOSITORY / f"{name}.in").read_text(encoding="utf-8").splitlines():
        requirement = line.split("#")[0].strip()
        if requirement and not requirement.startswith(("-r", "-c")):
            package, _, version = requirement.partition("==")
            pinned = pins[re.sub(r"\[.*\]", "", package)]
            assert version in ("", pinned), package


def test_the_policies_run_with_the_programs_versions():
    """An edited requirements.in needs `make lock` for both."""
    versions = _pins(REPOSITORY / "requirements.txt")
    own = _pins(REPOSITORY / "policies" / "requirements.txt")
    assert {name: own[name] for name in ("pulumi", "pydantic", "pyyaml")} == {
        name: versions[name] for name in ("pulumi", "pydantic", "pyyaml")
    }


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


def test_the_files_to_look_at_first_exist():
    page = (REPOSITORY / "docs" / "contributor.md").read_text(encoding="utf-8")
    table = page.partition("### Where to look first\n")[2].partition("\n#")[0]
    files = re.findall(r"^\| .+\? \| `(.+)` \|$", table, re.MULTILINE)
    assert len(files) >= 15
    assert [file for file in files if not (REPOSITORY / file).is_file()] == []


def test_the_program_is_thin():
    assert len((REPOSITORY / "__main__.py").read_text(encoding="utf-8").splitlines()) < 30


@each_row(
    ("package", "forbidden"),
    [
        ("infra", ("workloads", "trainer", "tools", "tests")),
        ("workloads", ("trainer", "tools", "tests")),
        ("trainer", ("infra", "workloads", "tools", "tests")),
        ("tools", ("tests",)),
    ],
)
def test_imports_point_one_way(package, forbidden):
    """`__main__` -> workloads -> infra; trainer/ runs in the pods alone; none of them imports tools/ or tests/."""
    import_of_forbidden = re.compile(rf"^\s*(?:from|import) ({'|'.join(forbidden)})\b", re.MULTILINE)
    for file in (REPOSITORY / package).rglob("*.py"):
        assert import_of_forbidden.findall(file.read_text(encoding="utf-8")) == [], file
