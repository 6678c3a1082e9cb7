"""`tools/bootstrap.sh` with a Python that only notes what it is asked: which environment, when, and what is left."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
# Stands for the interpreter, for that of the environment it makes, and for uv: what it is decided by its name.
_PYTHON = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case "$(basename "$0") $*" in
    *sys.version_info\\[*) echo 3.12.1 ;;
    *"-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/uv" ;;
    "uv pip install"*) if [ -n "${FAIL-}" ]; then exit 1; fi ;;
esac
"""


INSTALL = "uv pip install --quiet --require-hashes --no-deps --build-constraints tools/build.txt"


@dataclass(frozen=True)
class Machine:
    """A clone with nothing but what the script reads, and a PATH with our Python first."""

    folder: Path

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def command(self, *words: str) -> list[str]:
        return [str(self.clone / "tools" / "bootstrap.sh"), *words]

    def environment(self, **variables: str) -> dict[str, str]:
        return {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "ATHANOR_CACHE": str(self.folder / "cache"),
            "CALLS": str(self.folder / "calls"),
            **variables,
        }

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), env=self.environment(**variables), capture_output=True, text=True, check=False
        )


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "clone" / "tools").mkdir(parents=True)
    shutil.copy2(REPOSITORY / "tools" / "bootstrap.sh", tmp_path / "clone" / "tools")
    (tmp_path / "clone" / "tools" / "installer.txt").write_text("uv==1\n")
    (tmp_path / "clone" / "tools" / "build.txt").write_text("setuptools==1\n")
    (tmp_path / "clone" / "requirements.txt").write_text("pulumi==1\n")
    (tmp_path / "clone" / "requirements-test.txt").write_text("pulumi==1\ntorch==2\n")
    (tmp_path / "clone" / "trainer" / "image").mkdir(parents=True)
    (tmp_path / "clone" / "trainer" / "image" / "variant.py").write_text("")
    (tmp_path / "clone" / "policies").mkdir()
    (tmp_path / "clone" / "policies" / "requirements.txt").write_text("pulumi-policy==1\n")
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3.13"
    python.write_text(_PYTHON)
    python.chmod(0o755)
    return Machine(tmp_path)


def installed(machine):
    return [line for line in machine.calls if line.startswith("uv ")]


@pytest.mark.parametrize(
    ("words", "requirements", "made"),
    [([], "requirements.txt", ".venv"), (["policies"], "policies/requirements.txt", ".venv-policies")],
)
def test_each_environment_gets_what_it_needs_and_no_more(machine, words, requirements, made):
    assert machine.run(*words).returncode == 0
    assert installed(machine) == [f"{INSTALL} -r {requirements}"]
    assert [folder.name for folder in machine.clone.glob(".venv*")] == [made]
    assert (machine.clone / made / "bin" / "python").is_file()


def test_that_of_the_tests_has_no_gpu_libraries(machine):
    assert machine.run("test").returncode == 0
    environment = (machine.clone / ".venv-test").resolve()
    *_, choice, _, install, _, stand_ins = machine.calls
    assert "requirements_for(CPU" in choice
    assert install == f"{INSTALL} -r {environment}/pins.txt"
    assert (environment / "pins.txt").is_file()
    assert "write_stand_ins(" in stand_ins


def test_nothing_is_created_twice(machine):
    machine.run()
    machine.run("test")
    before = len(installed(machine))

    assert machine.run().stderr == ""
    machine.run("test")
    assert len(installed(machine)) == before


def test_nothing_is_installed_but_files_that_are_pinned_not_even_the_installer(machine):
    machine.run()
    machine.run("test")

    installations = [line for line in machine.calls if " install " in line]
    assert len(installations) == 4
    assert all(" --require-hashes " in line and "==" not in line for line in installations)


@pytest.mark.parametrize(
    ("words", "file"),
    [
        *(([], file) for file in ("requirements.txt", "tools/installer.txt", "tools/build.txt")),
        (["test"], "trainer/image/variant.py"),
    ],
)
def test_changed_requirements_get_another_environment_and_the_link_follows(machine, words, file):
    machine.run(*words)
    link = machine.clone / ("-".join([".venv", *words]))
    first = link.readlink()
    (machine.clone / file).write_text("pulumi==2\n")
    machine.run(*words)

    assert link.readlink() != first
    assert first.is_dir()
    assert not list(first.glob("3.*")), "the new link was made inside the old environment"


def test_a_failed_installation_is_repeated(machine):
    assert machine.run(FAIL="1").returncode != 0
    assert not (machine.clone / ".venv").exists()

    assert machine.run().returncode == 0
    assert len(installed(machine)) == 2


def test_two_clones_at_once_make_one_environment(machine):
    both = [subprocess.Popen(machine.command(), env=machine.environment()) for _ in range(2)]

    assert [process.wait() for process in both] == [0, 0]
    assert len(installed(machine)) == 1


def test_a_folder_in_the_place_of_the_link_is_replaced(machine):
    (machine.clone / ".venv" / "bin").mkdir(parents=True)
    machine.run()

    assert (machine.clone / ".venv").is_symlink()


def test_another_word_is_refused(machine):
    done = machine.run("tests")

    assert done.returncode == 2
    assert "'tests' is not an environment. Fix: give no word, 'test' or 'policies'" in done.stderr
    assert machine.calls == []
