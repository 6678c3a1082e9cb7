"""The schema of the Alibaba Cloud provider, which has to be generated before the provider can embed it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.process import CommandError, run
from tools.toolchain.catalogue import ALICLOUD_PROVIDER, TOOLS
from tools.toolchain.errors import ToolchainError

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_GENERATOR = "./pulumi-tfgen-alicloud"
"""Main package of the program that writes the schema."""


def write_empty_schema(sources: Path) -> None:
    """Stand in for the schema: without the file, the go command would not even list the provider's packages."""
    _schema(sources).write_text("{}", encoding="utf-8")


def write_schema(generator: Path, sources: Path) -> None:
    """Make the generator write the schema into `sources`, a copy of the graph's folder.

    Raises:
        ToolchainError: the mapping names what the upstream provider does not have.
    """
    file = _schema(sources)
    words = ["schema", "--skip-docs", "--skip-examples", "--out", str(file.parent)]
    try:
        # Its own folder, because it looks for plugins where the user's are.
        environment = {"PULUMI_HOME": str(sources.parent / "pulumi-home")}
        run([generator, *words], cwd=sources, env=environment, log=paths().logs / "toolchain.log")
    except CommandError as error:
        raise ToolchainError(f"no schema of the Alibaba Cloud provider\n{error}") from error
    # The generator leaves the version out and indents.
    schema = {**json.loads(file.read_text(encoding="utf-8")), "version": str(TOOLS[ALICLOUD_PROVIDER].version)}
    file.write_text(json.dumps(schema, separators=(",", ":")), encoding="utf-8")


def _schema(sources: Path) -> Path:
    return sources / ALICLOUD_PROVIDER / "schema.json"
