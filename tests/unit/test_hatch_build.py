"""Contents of the wheels: the same modules under one name, whose imports stay within it, or the repository."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_editable

from hatch_build import INNER, within_package, write_package
from tests.tables import each_row

REPOSITORY = Path(__file__).resolve().parents[2]


@each_row(
    ("source", "expected"),
    [
        ("from infra.errors import X\n", "from athanor.infra.errors import X\n"),
        ("from workloads import job\n", "from athanor.workloads import job\n"),
        (
            "if x:\n    from infra.a import (\n        b,\n    )\n",
            "if x:\n    from athanor.infra.a import (\n        b,\n    )\n",
        ),
        (
            "from infrastructure import a\nfrom .infra import b\n",
            "from infrastructure import a\nfrom .infra import b\n",
        ),
        ('TEXT = """\nfrom infra.errors import X\n"""\n', 'TEXT = """\nfrom infra.errors import X\n"""\n'),
    ],
    ids=["module", "package", "block", "others", "text"],
)
def test_imports_of_inner_packages_and_nothing_else_are_rewritten(source: str, expected: str) -> None:
    assert within_package(source, "file.py") == expected


@each_row("statement", ["import infra", "import os, workloads.job", "import infra.errors as errors"])
def test_an_import_that_binds_the_packages_own_name_is_refused(statement: str) -> None:
    with pytest.raises(ValueError, match=r"file\.py:2: .*Fix: from"):
        within_package(f"x = 1\n{statement}\n", "file.py")


def test_every_module_is_in_it_and_imports_only_from_it(tmp_path: Path) -> None:
    write_package(REPOSITORY, tmp_path)

    for name in INNER:
        originals = {file.relative_to(REPOSITORY) for file in (REPOSITORY / name).rglob("*.py")}
        assert {file.relative_to(tmp_path) for file in (tmp_path / name).rglob("*.py")} == originals
    assert (tmp_path / "py.typed").is_file()
    outside = {"infra", "workloads", "trainer", "tools", "tests"}
    for file in tmp_path.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert (node.module or "").partition(".")[0] not in outside, file
            if isinstance(node, ast.Import):
                assert not {alias.name.partition(".")[0] for alias in node.names} & outside, file


def test_an_editable_install_runs_the_repositorys_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(REPOSITORY)
    wheel = tmp_path / build_editable(str(tmp_path))
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(site)

    code = (
        f"import json, site; site.addsitedir({str(site)!r}); import athanor_run, infra.errors, athanor.command_line;"
        "print(json.dumps([each.__file__ for each in (infra.errors, athanor.command_line, athanor_run)]))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    files = ("infra/errors.py", "athanor/command_line.py", "trainer/pod_modules/athanor_run.py")
    assert json.loads(done.stdout) == [str(REPOSITORY / name) for name in files]
    [entry_points] = site.glob("athanor-*.dist-info/entry_points.txt")
    assert "athanor = athanor.command_line:main" in entry_points.read_text(encoding="utf-8")
    assert list((tmp_path / "temporary").iterdir()) == []
