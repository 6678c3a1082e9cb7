"""`pip install .` in an empty environment: what another team's program and type checker get."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import athanor

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = """
import pulumi_kubernetes as kubernetes
from athanor import GitSource, Platform, PyTorchJob, PyTorchJobArgs, Resources, TrunkEni

platform = Platform.from_stack("organization/athanor/prod", kubernetes.Provider("cluster"))
args = PyTorchJobArgs(program=("train.py",), workers=2, resources=Resources(cpu="4", memory="8Gi"))
job = PyTorchJob("ours", platform, args)
name: str = {value}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment in which nothing but this package was asked for."""
    folder = tmp_path_factory.mktemp("package") / "environment"
    venv.create(folder, with_pip=True)
    run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", str(REPOSITORY)], folder)
    return folder / "bin" / "python"


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command outside of the repository and return its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ask(python: Path, code: str) -> object:
    """Return what an expression is there, by way of JSON."""
    return json.loads(run([python, "-c", f"import json; print(json.dumps({code}))"], python.parent))


def test_there_is_one_new_name_to_import(installed: Path) -> None:
    names = ["athanor", "infra", "workloads", "trainer", "tools", "tests", "benchmarks"]
    code = f"[bool(__import__('importlib.util').util.find_spec(name)) for name in {names}]"
    assert ask(installed, code) == [True, *[False] * 6]


def test_everything_public_is_there_with_its_docstring(installed: Path) -> None:
    code = "(lambda a: {name: getattr(a, name).__doc__ for name in a.__all__})(__import__('athanor'))"
    expected = {name: getattr(athanor, name).__doc__ for name in athanor.__all__}
    assert ask(installed, code) == expected
    assert all(expected.values())


def test_the_console_command_reviews_a_preview(installed: Path, tmp_path: Path) -> None:
    preview = REPOSITORY / "tests" / "unit" / "athanor" / "review" / "previews" / "add-a-queue.json"
    printed = run([installed.parent / "athanor", "review", preview], tmp_path)
    assert "created `queue-research`" in printed
    loaded = ask(installed, "(__import__('athanor.review.command'), sorted(__import__('sys').modules))[1]")
    assert isinstance(loaded, list)
    assert "pulumi" not in loaded


def test_what_is_left_of_a_stack_needs_the_vendor_s_client(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [installed.parent / "athanor", "leftovers", "dev"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith("Fix: pip install 'athanor[alicloud]'\n")


def test_its_version_and_types_are_declared(installed: Path) -> None:
    metadata = "__import__('importlib.metadata').metadata"
    code = f"[{metadata}.version('athanor'), [str(f) for f in {metadata}.files('athanor') if f.name == 'py.typed']]"
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert ask(installed, code) == [version, ["athanor/py.typed"]]
    assert f"## {version} (" in (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")


def test_a_job_loads_neither_the_cloud_nor_the_monitoring(installed: Path) -> None:
    code = "(__import__('athanor'), sorted(__import__('sys').modules))[1]"
    loaded = ask(installed, code)
    assert isinstance(loaded, list)
    heavy = ("pulumi_alicloud", "athanor.infra.alicloud", "athanor.infra.monitoring", "athanor.infra.build", "grafana")
    assert [name for name in loaded if name.startswith(heavy)] == []


@pytest.mark.parametrize(("value", "complaint"), [('"ours"', ""), ("job.no_such_attribute", "no_such_attribute")])
def test_a_type_checker_knows_its_types(installed: Path, tmp_path: Path, value: str, complaint: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(value=value), encoding="utf-8")
    checker = Path(sys.executable).parent / "basedpyright"
    command = [checker, "--level", "error", "--pythonpath", installed, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is not bool(complaint), done.stdout + done.stderr
    assert complaint in done.stdout
