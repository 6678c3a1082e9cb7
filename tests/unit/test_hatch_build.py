"""What the wheel holds: the same modules under one name, and no import that would leave it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hatch_build import INNER, within_package, write_package

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("statement", ["import infra", "import os, workloads.job", "import infra.errors as errors"])
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
