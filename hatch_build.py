"""What `pip install .` builds: one package, `athanor`, with `infra` and `workloads` inside of it.

In the repository these two are at the top level, where the Pulumi program imports them from; in somebody else's
environment such names would collide with anything. So a wheel holds copies whose import statements begin with
`athanor.`; nothing else of a file changes. An editable install (`pip install -e .`) is for working on this repository:
hatchling writes folders of the repository into a `.pth` file (`dev-mode-dirs`), and modules keep their names. hatchling
calls this (pyproject.toml); the format of the result is PyPA's "Binary distribution format".
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "athanor"
INNER = ("infra", "workloads")
"""Packages that the wheel holds inside of `athanor`."""
POD_MODULES = Path("trainer", "pod_modules")
"""The modules that pods have without a package: a program that imports them runs on its author's machine, too."""


class WheelHook(BuildHookInterface[Any]):
    """Hands the files of a wheel to hatchling, and removes those that it wrote for that after the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the copies; an editable install has none.

        Args:
            version: of the wheel: `standard` or `editable`.
            build_data: receives the files' paths and the names that they get.

        Raises:
            ValueError: a file imports one of the packages in a way that cannot be rewritten.
        """
        copies = Path(tempfile.mkdtemp(prefix="athanor-wheel-"))
        self._copies = copies
        if version == "editable":
            return
        write_package(Path(self.root), copies)
        build_data["force_include"][str(copies)] = PACKAGE
        for module in Path(self.root, POD_MODULES).glob("athanor_*.py"):
            build_data["force_include"][str(module)] = module.name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        del version, build_data, artifact_path
        shutil.rmtree(self._copies)


def write_package(repository: Path, folder: Path) -> None:
    """Write the package as the wheel holds it: `athanor`'s own files, and the inner packages in folders of their own.

    Raises:
        ValueError: a file imports one of the packages in a way that cannot be rewritten.
    """
    for source, place in ((PACKAGE, folder), *((name, folder / name) for name in INNER)):
        for file in sorted((repository / source).rglob("*")):
            target = place / file.relative_to(repository / source)
            if file.suffix == ".py":
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(within_package(file.read_text(encoding="utf-8"), str(file)), encoding="utf-8")
            elif file.name == "py.typed":
                shutil.copy(file, target)
    # where infra finds them in the repository, too
    shutil.copytree(repository / POD_MODULES, folder / POD_MODULES, ignore=shutil.ignore_patterns("__pycache__"))


def within_package(source: str, name: str) -> str:
    """Return a module's text with the imports of inner packages rewritten: `from infra.x` to `from athanor.infra.x`.

    Raises:
        ValueError: `import infra` or `import infra.x`, which bind a name that would be another one.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(_is_inner(alias.name) for alias in node.names):
            raise ValueError(f"{name}:{node.lineno}: `import` of a package of this repository. Fix: from … import …")
        if isinstance(node, ast.ImportFrom) and not node.level and _is_inner(node.module or ""):
            line = lines[node.lineno - 1]
            start = node.col_offset
            lines[node.lineno - 1] = line[:start] + line[start:].replace("from ", f"from {PACKAGE}.", 1)
    return "".join(lines)


def _is_inner(module: str) -> bool:
    return module.partition(".")[0] in INNER
