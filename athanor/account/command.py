"""`athanor leftovers`: a table of a stack's resources that still exist in an account, and an exit status."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from athanor.complaint import complain
from infra.errors import RefusalError
from infra.settings.parse import parse_settings
from infra.settings.stack_file import own_config

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from athanor.account.owned import Leftover
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.stack import Settings

CLEAN, NOT_ASKED, LEFT, UNCERTAIN = 0, 1, 3, 4
_NOT_LOOKED_UP = (
    "Not looked up: log projects (SLS), load balancers that a cluster left behind, buckets, images, keys, prepaid"
    " machines and registries."
)


def run(arguments: argparse.Namespace) -> int:
    """List what is left of the stack of the project in this folder; return the exit status.

    Args:
        arguments: as athanor/command_line.py parses them.
    """
    try:
        # Here and not above: the vendor's client takes half a second, and the package does not depend on it.
        from athanor.account.credentials import open_cloud  # noqa: PLC0415
        from athanor.account.errors import CloudError  # noqa: PLC0415
        from athanor.account.owned import Owner, leftovers  # noqa: PLC0415
    except ModuleNotFoundError as error:
        words = f"{error.name} is required to query the account. Fix: pip install 'athanor[alicloud]'"
        complain("leftovers", words, as_json=arguments.json)
        return NOT_ASKED
    try:
        project, settings, account = _read(Path.cwd(), arguments.stack)
        cloud = open_cloud(account, os.environ)
        left = leftovers(cloud, Owner(project=project, stack=arguments.stack), settings)
    except (CloudError, OSError, RefusalError) as error:
        complain("leftovers", error, as_json=arguments.json)
        return NOT_ASKED
    if arguments.json:
        sys.stdout.writelines(f"{json.dumps(asdict(one))}\n" for one in left)
    else:
        sys.stdout.write(report(left, f"{project}/{arguments.stack}", cloud.region))
    return exit_status(left)


def exit_status(left: Sequence[Leftover]) -> int:
    """Return the exit status, which a pipeline can gate on."""
    if any(one.certain for one in left):
        return LEFT
    return UNCERTAIN if left else CLEAN


def report(left: Sequence[Leftover], stack: str, region: str) -> str:
    """Return the table, with a line about what was not asked."""
    certain = [one for one in left if one.certain]
    if not left:
        return f"Nothing of {stack} exists in {region}.\n{_NOT_LOOKED_UP}\n"
    billed = sum(one.billed for one in certain)
    lines = [f"Of {stack}, {len(certain)} resources exist in {region}, {billed} of them billed.", *_rows(certain)]
    if disks := [one for one in left if not one.certain]:
        orphans = f"{len(disks)} disks of claims belong to no cluster: billed, and perhaps another stack's."
        lines += ["", orphans, *_rows(disks)]
    return "\n".join([*lines, "", _NOT_LOOKED_UP, ""])


def _rows(left: Sequence[Leftover]) -> list[str]:
    rows = [
        (one.kind, one.id, one.name, one.status, "billed" if one.billed else "", f"by {one.known_by}") for one in left
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _read(folder: Path, stack: str) -> tuple[str, Settings, AlicloudSettings]:
    """Return the project's name, the stack's settings, and those of its account.

    Raises:
        RefusalError: the folder does not have them, they are wrong, or the stack is not on Alibaba Cloud.
    """
    project_file, stack_file = folder / "Pulumi.yaml", folder / f"Pulumi.{stack}.yaml"
    for file in (project_file, stack_file):
        if not file.is_file():
            raise RefusalError(
                "folder", str(folder), f"has no {file.name}", "run this where Pulumi.yaml and the stack's settings are"
            )
    project = yaml.safe_load(project_file.read_text(encoding="utf-8"))["name"]
    settings = parse_settings(own_config(stack_file, project))
    if settings.alicloud is None:
        limit = "has no `alicloud` settings, so it created nothing in an account"
        raise RefusalError("stack", stack, limit, "name a stack that has them")
    return project, settings, settings.alicloud
