"""The environment steps: created from nothing, compared with the cloud, destroyed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.acceptance import inventory
from tools.acceptance.findings import SkippedError, StepFailedError
from tools.process import CommandError
from tools.recovery.recover import recover
from tools.recovery.state import pending

if TYPE_CHECKING:
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site

STACK_CREATED = "stack_made"
"""Note: the run created the stack, so it removes it in the end."""


def up(site: Site, findings: Findings) -> None:
    """Create the environment.

    Raises:
        CommandError: the engine failed.
    """
    if not site.engine.exists():
        site.journal.notes[STACK_CREATED] = True
    site.journal.begin_environment()
    if site.engine.exists():
        _settle(site)
    try:
        site.engine.prepare()
        site.engine.up()
    finally:
        inventory.remember(site)
    state = site.engine.export()["deployment"]
    findings.figure("resources", len(state.get("resources", [])))
    for name, value in sorted(site.outputs.items()):
        if name != "offers":
            findings.figure(f"output {name}", value)


def drift(site: Site, findings: Findings) -> None:
    """Show that the cloud has what the state says, and that nothing is left to change.

    Raises:
        StepFailedError: something would change.
    """
    words = ("preview", "--refresh", "--diff", "--expect-no-changes", "--stack", site.stack)
    try:
        findings.saw(f"pulumi {' '.join(words)}", site.engine.run(*words))
    except CommandError as error:
        findings.saw(f"pulumi {' '.join(words)}", error.output)
        findings.compare("a second `up` right after the first", "no changes", "changes: see the step `drift`")
        raise StepFailedError("the engine sees changes right after `up`") from error


def destroy(site: Site, findings: Findings) -> None:
    """Destroy everything.

    Raises:
        SkippedError: nothing was created.
        CommandError: the engine failed; the report says how to continue.
    """
    if not site.journal.environment_begun:
        raise SkippedError("nothing was created")
    site.journal.leave()
    if not site.engine.exists():
        raise SkippedError("the backend has no such stack any more")
    _settle(site)
    inventory.remember(site)
    _remove_jobs(site, findings)
    site.engine.destroy()
    left = site.engine.export()["deployment"].get("resources", [])
    findings.figure("resources left in the state", len(left))
    if left:
        raise StepFailedError(f"the state still has {', '.join(one['urn'] for one in left)}")
    if site.journal.notes.get(STACK_CREATED):
        site.engine.forget()


def _settle(site: Site) -> None:
    """Find out what a killed engine created, before another one creates it again or forgets it."""
    site.engine.end_orphans()
    if pending(site.engine.export()):
        recover(site.stack, site.console, site.report)


def _remove_jobs(site: Site, findings: Findings) -> None:
    # They go with the cluster in any case; an API server that does not answer must not keep the machines.
    try:
        site.jobs.remove()
    except (CommandError, KeyError) as error:
        findings.saw("remove the run's own jobs", str(error))
