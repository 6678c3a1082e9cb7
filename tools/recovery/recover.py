"""`make recover STACK=…`: find the resources that a killed update's last calls created, and adopt them.

A killed engine leaves operations with an unknown outcome. `pulumi up` then creates a second time what exists already:
another VPC, another cluster. `pulumi refresh --import-pending-creates` (3.232) notes the id in the state and then drops
it, with the resource. So the state is edited here, as `pulumi stack export` and `import` allow.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.account.credentials import open_cloud
from athanor.account.lookup import LOOKUPS, REPEATABLE, candidates
from infra.errors import RefusalError
from infra.settings.parse import parse_settings
from tools.recovery.state import CREATING, Pending, known_ids, live_id, pending, settled
from tools.stacks.engine import Engine, make_private_folders, stack_config
from tools.stacks.preview import engine_tools
from tools.tables import table
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from athanor.account.cloud import Cloud
    from athanor.account.listed import Match
    from infra.settings.stack import Settings
    from tools.progress import Progress
    from tools.recovery.state import Deployment

_CLOUD = "alicloud:"
_PASSING = {"pending", "creating", "initial", "initializing", "associating", "modifying", "scaling", "updating"} | {
    "installing", "upgrading", "extending"
}  # fmt: skip
_GOING = {"deleting", "deleted", "removing", "releasing", "unassociating", "uninstalling", "delete_failed"}
_POLL_SECONDS = 5.0
PATIENCE_SECONDS = 1800.0
"""Seconds to wait for resources that are still being created: ACK needs minutes for a cluster or a node."""
_CHOOSE = "delete the unused one in the console, then run the recovery again"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one undecided operation."""

    pending: Pending
    resource_id: str | None = None
    """Id of what the account has."""
    said: str


def recover(stack: str, console: Console, report: Progress, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Settle everything that a killed update of a stack left undecided.

    Args:
        stack: its name.
        console: gets the table of what became of each operation.
        report: shows what is being done.
        patience_seconds: how long each thing that is still being made is waited for; it is adopted as it is then.

    Raises:
        RefusalError: no such stack, no credentials, or something that a person must decide.
        CloudError: the account could not be asked.
        CommandError: the engine refused; another update may be running.
    """
    settings = parse_settings(stack_config(stack))
    programs = ensure(sorted(engine_tools(settings)), report)
    make_private_folders()
    engine = Engine(pulumi=programs["pulumi"], stack=stack)
    if not engine.exists():
        raise RefusalError("stack", stack, "does not exist in this backend", "see `pulumi stack ls`")
    # One that lives on may be waiting for the answer to a create: what that made is looked for below.
    engine.end_orphans()
    state = engine.export()
    outcomes = look(state, settings, report, patience_seconds=patience_seconds)
    with report.step("repair the state"):
        _settle(engine, state, outcomes)
    _tell(console, stack, outcomes)


def look(
    state: Deployment,
    settings: Settings,
    report: Progress,
    *,
    poll_seconds: float = _POLL_SECONDS,
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[Outcome]:
    """Find out how each undecided operation of a state ended.

    What exists is adopted, ready or not: only what the state knows can be gone on with, changed or destroyed.

    Raises:
        RefusalError: more than one thing fits, something failed half-made, or its kind is not known here.
        CloudError: the account could not be asked.
    """
    operations = pending(state)
    if settings.alicloud is None or not any(_asks_the_cloud(one) for one in operations):
        return [_without_the_cloud(one) for one in operations]
    cloud = open_cloud(settings.alicloud, os.environ)
    outcomes: list[Outcome] = []
    with report.step("look up what was being created"):
        for one in operations:
            if not _asks_the_cloud(one):
                outcomes.append(_without_the_cloud(one))
                continue
            report.detail(one.label)
            until = time.monotonic() + patience_seconds
            match = _await_rest(_only_one(cloud, state, one), one, report, poll_seconds, until)
            outcomes.append(Outcome(pending=one, resource_id=match.id if match else None, said=_said(match)))
    return outcomes


def _asks_the_cloud(one: Pending) -> bool:
    return one.operation == CREATING and one.kind.startswith(_CLOUD) and one.kind not in REPEATABLE


def _without_the_cloud(one: Pending) -> Outcome:
    if one.operation != CREATING:
        return Outcome(pending=one, said="read again" if _readable(one) else "repeated by the next up or destroy")
    # Kubernetes takes an object that is there already, by its name; components and providers are in the state alone.
    return Outcome(pending=one, said="created again, or adopted as it is, by the next up")


def _readable(one: Pending) -> bool:
    # Objects in the cluster are left to the next up, so that no cluster needs to be reachable here.
    return one.operation != CREATING and one.kind.startswith(_CLOUD)


def _only_one(cloud: Cloud, state: Deployment, one: Pending) -> Callable[[], Match | None]:
    if one.kind not in LOOKUPS:
        raise RefusalError(
            "resource",
            one.label,
            "resources of this kind cannot be looked up",
            "check it in the console, then run `pulumi refresh`",
        )
    known, live = known_ids(state, one.kind), live_id(state, one.urn)

    def match() -> Match | None:
        matches = [
            match
            for match in candidates(cloud, one.kind, one.inputs)
            if match.id not in known and match.status.lower() not in _GOING
        ]
        # An `up` after the kill made it once more; or it was to replace what the state has. Never guess which goes.
        named = [*([f"{live} (in the state)"] if matches and live else []), *(match.id for match in matches)]
        if len(named) > 1:
            limit = f"the account has {len(named)} with this name: {', '.join(named)}"
            raise RefusalError("resource", one.label, limit, _CHOOSE)
        return matches[0] if matches else None

    return match


def _said(match: Match | None) -> str:
    if match is None:
        return "was not created"
    return f"adopted as {match.id}" + (f", still {match.status!r}" if match.status.lower() in _PASSING else "")


def _await_rest(
    ask: Callable[[], Match | None], one: Pending, report: Progress, poll_seconds: float, until: float
) -> Match | None:
    """Return the match once it does not change by itself any more, or as it is at a time of the monotonic clock.

    Half-made things cannot be built upon, and some never get ready: a pool whose machines are out of stock for days.
    """
    while (match := ask()) and match.status.lower() in _PASSING:
        report.detail(f"{one.label}: {match.id} is still {match.status!r}")
        if time.monotonic() >= until:
            break
        time.sleep(poll_seconds)
    if match and "fail" in match.status.lower():
        raise RefusalError(
            "resource",
            one.label,
            f"{match.id} is {match.status!r}",
            "delete it in the console, then run the recovery again",
        )
    return match


def _settle(engine: Engine, state: Deployment, outcomes: list[Outcome]) -> None:
    if engine.export() != state:
        raise RefusalError(
            "stack", engine.stack, "was changed by another update in the meantime", "run the recovery again"
        )
    adopted = {one.pending.urn: (one.pending, one.resource_id) for one in outcomes if one.resource_id}
    # Also with nothing to change: this is where the lock of a dead owner is noticed, and freed.
    engine.replace_state(settled(state, adopted))
    known = {entry["urn"] for entry in state["deployment"].get("resources", [])}
    interrupted = [one.pending.urn for one in outcomes if _readable(one.pending) and one.pending.urn in known]
    if urns := [*adopted, *interrupted]:
        engine.read_again(urns)


def _tell(console: Console, stack: str, outcomes: list[Outcome]) -> None:
    if outcomes:
        rows = [(one.pending.label, one.pending.operation, one.said) for one in outcomes]
        console.print(table("Pending operations", ("resource", "was", "now"), rows))
    else:
        console.print("There were no pending operations.")
    console.print(
        f"`pulumi up -s {stack}` continues from here. If it was `pulumi destroy` that was killed, run that again:"
        " `up` would create everything again."
    )
