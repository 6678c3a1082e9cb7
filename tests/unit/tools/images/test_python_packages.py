import subprocess
import sys

import pytest

from tools.images import python_packages
from tools.images.errors import ImageError


@pytest.fixture
def site_packages(tmp_path):
    folder = tmp_path / "site-packages"
    metadata = folder / "greeter-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greeter\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[console_scripts]\ngreet = greeter.cli:Program.main\n\n[other]\nplugin = greeter:x\n"
    )
    (folder / "greeter").mkdir()
    (folder / "greeter" / "__init__.py").touch()
    (folder / "greeter" / "cli.py").write_text(
        "class Program:\n    @staticmethod\n    def main():\n        print('hello')\n        return 3\n"
    )
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("greet", "copied-as-it-was"):
        (programs / name).write_text("#!/another/machine/python\n")
    (programs / "compiled").write_bytes(b"\x7fELF")
    return folder


def test_programs_run_by_the_images_interpreter_and_pass_on_the_status_of_their_entry_point(site_packages, tmp_path):
    python_packages.write_console_scripts(site_packages, tmp_path / "bin")
    compiled, script = sorted((tmp_path / "bin").iterdir())
    assert (compiled.name, script.name) == ("compiled", "greet")
    assert script.read_text().startswith("#!/usr/bin/python3\n")
    assert script.stat().st_mode & 0o111
    variables = {"PYTHONPATH": str(site_packages)}
    done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True, env=variables)
    assert (done.returncode, done.stdout) == (3, "hello\n")


@pytest.mark.parametrize("version", [python_packages.PYTHON, "3.13"])
def test_packages_end_where_the_images_interpreter_looks(tmp_path, version):
    """Whatever version this machine's interpreter is, which the installer names the folder after."""
    (tmp_path / python_packages.SITE_PACKAGES).mkdir(parents=True)
    installed = tmp_path / f"usr/local/lib/python{version}/site-packages"
    (installed / "greeter").mkdir(parents=True)
    moved = python_packages.move_packages(tmp_path)
    assert moved == tmp_path / python_packages.SITE_PACKAGES
    assert [path.name for path in moved.iterdir()] == ["greeter"]
    assert [path.name for path in (tmp_path / "usr/local/lib").iterdir()] == [f"python{python_packages.PYTHON}"]


def test_only_test_packages_are_removed(tmp_path):
    for name in ("a/tests/deep/tests", "a/b/tests", "data/tests"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("a/tests", "a/tests/deep/tests", "a/b/tests"):
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "data/tests/table.csv").touch()
    python_packages.remove_tests(tmp_path)
    assert not (tmp_path / "a/tests").exists()
    assert not (tmp_path / "a/b/tests").exists()
    assert (tmp_path / "data/tests/table.csv").exists()


def test_missing_installer_is_named_with_the_fix(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(python_packages.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ImageError, match="pip install uv"):
        python_packages.install(tmp_path / "root", "pytorch", "cpu")
