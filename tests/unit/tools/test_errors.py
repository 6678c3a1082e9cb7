"""Every failure that the tools expect has one base class, by which the command line recognizes it."""

import ast
from pathlib import Path

from tests.fixtures.recorded_stack import REPOSITORY

BASES = {"ExpectedError", "RefusalError"}


def _error_classes() -> dict[str, tuple[set[str], Path]]:
    """Return the bases and the file of every class of the tools whose name ends in Error, as ruff requires."""
    return {
        node.name: ({base.id for base in node.bases if isinstance(base, ast.Name)}, file)
        for file in (REPOSITORY / "tools").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error") and node.name not in BASES
    }


def test_every_error_of_the_tools_is_an_expected_one():
    classes = _error_classes()
    assert {"CommandError", "VendorError", "PreflightError"} <= classes.keys()

    def is_expected(name: str) -> bool:
        return name in BASES or any(is_expected(base) for base in classes.get(name, (set(), Path()))[0])

    assert {
        name: str(file.relative_to(REPOSITORY)) for name, (_, file) in classes.items() if not is_expected(name)
    } == {}
