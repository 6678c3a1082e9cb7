"""What `make recover STACK=…` does after an update was killed: find what its last calls made, and take it over.

A killed engine leaves operations of which it does not know how they ended. `pulumi up` then makes once more what exists
already: another VPC, another cluster. `pulumi refresh --import-pending-creates` (3.232) notes the id in the state and
then forgets it, with the resource. So the state is edited here, as `pulumi stack export` and `import` allow.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from infra.settings.parse import parse_settings
from tools.engine import Engine, make_private_folders, stack_config
from tools.preview import engine_tools
from tools.recovery.credentials import open_cloud
from tools.recovery.lookup import LOOKUPS, REPEATABLE, Match, candidates
from tools.recovery.state import CREATING, Pending, known_ids, live_id, pending, settled
from tools.summary import table
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from infra.settings.stack import Settings
    from tools.progress import Progress
    from tools.recovery.cloud import Cloud
    from tools.recovery.state import Deployment

_CLOUD = "alicloud:"
_PASSING = {"pending", "creating", "initial", "initializing", "associating", "modifying", "scaling", "updating"} | {
    "installing", "upgrading", "extending"
}  # fmt: skip
_GOING = {"deleting", "deleted", "removing", "releasing", "unassociating", "uninstalling", "delete_failed"}
_POLL_SECONDS = 5.0
_LONGEST_SECONDS = 1800.0
_CHOOSE = "delete in the console the one that nothing uses, then recover again"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one undecided operation."""

    pending: Pending
    found: str | None = None
    """Id of what the account has."""
    said: str


def recover(stack: str, console: Console, report: Progress) -> None:
    """Settle everything that a killed update of a stack left undecided.

    Raises:
        RefusalError: no such stack, no credentials, or something that a person must decide.
        CloudError: the account could not be asked.
        CommandError: the engine refused; another update may be running.
    """
    settings = parse_settings(stack_config(stack))
    found = ensure(sorted(engine_tools(settings)), report)
    make_private_folders()
    engine = Engine(pulumi=found["pulumi"], stack=stack)
    if not engine.exists():
        raise RefusalError("stack", stack, "does not exist in this backend", "look at `pulumi stack ls`")
    # One that lives on may be waiting for the answer to a create: what that made is looked for below.
    engine.end_orphans()
    state = engine.export()
    outcomes = look(state, settings, report)
    with report.step("settle the state"):
        _settle(engine, state, outcomes)
    _tell(console, stack, outcomes)


def look(state: Deployment, settings: Settings, report: Progress, poll_seconds: float = _POLL_SECONDS) -> list[Outcome]:
    """Find out how each undecided operation of a state ended.

    Raises:
        RefusalError: more than one thing fits, something failed half-made, or its kind is not known here.
        CloudError: the account could not be asked.
    """
    operations = pending(state)
    if settings.alicloud is None or not any(_asks_the_cloud(one) for one in operations):
        return [_without_the_cloud(one) for one in operations]
    cloud = open_cloud(settings.alicloud, os.environ)
    outcomes: list[Outcome] = []
    with report.step("look for what was being made"):
        for one in operations:
            if not _asks_the_cloud(one):
                outcomes.append(_without_the_cloud(one))
                continue
            report.detail(one.label)
            match = _await_rest(_only_one(cloud, state, one), one, report, poll_seconds)
            said = f"adopted as {match.id}" if match else "was not made"
            outcomes.append(Outcome(pending=one, found=match.id if match else None, said=said))
    return outcomes


def _asks_the_cloud(one: Pending) -> bool:
    return one.operation == CREATING and one.kind.startswith(_CLOUD) and one.kind not in REPEATABLE


def _without_the_cloud(one: Pending) -> Outcome:
    if one.operation != CREATING:
        return Outcome(pending=one, said="read again" if _readable(one) else "done again by the next up")
    # Kubernetes takes an object that is there already, by its name; components and providers are in the state alone.
    return Outcome(pending=one, said="made again, or taken as it is, by the next up")


def _readable(one: Pending) -> bool:
    # Objects in the cluster are left to the next up, so that no cluster needs to be reachable here.
    return one.operation != CREATING and one.kind.startswith(_CLOUD)


def _only_one(cloud: Cloud, state: Deployment, one: Pending) -> Callable[[], Match | None]:
    if one.kind not in LOOKUPS:
        raise RefusalError(
            "resource", one.label, "of this kind nothing can be looked up", "look in the console, then `pulumi refresh`"
        )
    known, live = known_ids(state, one.kind), live_id(state, one.urn)

    def match() -> Match | None:
        found = [
            match
            for match in candidates(cloud, one.kind, one.inputs)
            if match.id not in known and match.status.lower() not in _GOING
        ]
        # An `up` after the kill made it once more; or it was to replace what the state has. Never guess which goes.
        named = [*([f"{live} (in the state)"] if found and live else []), *(match.id for match in found)]
        if len(named) > 1:
            limit = f"the account has {len(named)} of this name: {', '.join(named)}"
            raise RefusalError("resource", one.label, limit, _CHOOSE)
        return found[0] if found else None

    return match


def _await_rest(ask: Callable[[], Match | None], one: Pending, report: Progress, poll_seconds: float) -> Match | None:
    """Return the match once it does not change by itself any more: half-made things cannot be built upon."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while (match := ask()) and match.status.lower() in _PASSING:
        if time.monotonic() > deadline:
            raise RefusalError("resource", one.label, f"{match.id} stays {match.status!r}", "recover again later")
        report.detail(f"{one.label}: {match.id} is still {match.status!r}")
        time.sleep(poll_seconds)
    if match and "fail" in match.status.lower():
        raise RefusalError(
            "resource", one.label, f"{match.id} is {match.status!r}", "delete it in the console, then recover again"
        )
    return match


def _settle(engine: Engine, state: Deployment, outcomes: list[Outcome]) -> None:
    if engine.export() != state:
        raise RefusalError("stack", engine.stack, "was changed meanwhile by another update", "recover again")
    adopted = {one.pending.urn: (one.pending, one.found) for one in outcomes if one.found}
    # Also with nothing to change: this is where the lock of a dead owner is noticed, and freed.
    engine.replace_state(settled(state, adopted))
    known = {entry["urn"] for entry in state["deployment"].get("resources", [])}
    interrupted = [one.pending.urn for one in outcomes if _readable(one.pending) and one.pending.urn in known]
    if urns := [*adopted, *interrupted]:
        engine.read_again(urns)


def _tell(console: Console, stack: str, outcomes: list[Outcome]) -> None:
    if outcomes:
        rows = [(one.pending.label, one.pending.operation, one.said) for one in outcomes]
        console.print(table("Undecided operations", ("resource", "was", "now"), rows))
    else:
        console.print("Nothing was undecided.")
    console.print(f"`pulumi up -s {stack}` continues from here.")
