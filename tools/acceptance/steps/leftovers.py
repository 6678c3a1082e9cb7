"""The leftovers step: resources that still exist, and may be billed, after the environment was destroyed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tools.acceptance import inventory
from tools.acceptance.findings import SkippedError, StepFailedError

if TYPE_CHECKING:
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site

DISKS = "disks"
"""Note: disks of dynamic volumes, which DeleteCluster leaves."""


def leftovers(site: Site, findings: Findings) -> None:
    """Look up everything that was created, by name, tags or what it belonged to, as `make recover` does.

    Raises:
        SkippedError: nothing was created.
        StepFailedError: something is still there.
    """
    listed = inventory.created(site)
    if not listed:
        raise SkippedError("nothing was created")
    until = time.monotonic() + site.patience.gone
    while (left := inventory.still_there(site)) and time.monotonic() < until:
        site.report.detail(f"still listed: {', '.join(left)}")
        time.sleep(site.patience.poll)
    lines = [f"{name}: {left.get(name, 'gone')} (was {identifier})" for name, identifier in sorted(listed.items())]
    findings.saw("look up in the account what was created", "\n".join(lines))
    findings.figure("created", len(listed))
    findings.figure("left", len(left))
    for disk in site.journal.notes.get(DISKS, []):
        findings.figure(f"disk of a volume: check whether it still exists ({disk})", "ECS console")
    if left:
        named = "; ".join(f"{name} {what}" for name, what in left.items())
        raise StepFailedError(f"still exist and may be billed: {named}. Fix: delete them in the console")
