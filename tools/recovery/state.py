"""A stack's state as `pulumi stack export` prints it: pending operations of a killed update, and their settlement.

Format: pulumi, `sdk/go/common/apitype`, DeploymentV3.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    Deployment = dict[str, Any]

CREATING = "creating"


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A call of which the engine does not know how it ended."""

    operation: str
    """creating, updating, deleting, reading or importing."""
    resource: Mapping[str, Any]

    @property
    def urn(self) -> str:
        """The resource's URN."""
        return self.resource["urn"]

    @property
    def kind(self) -> str:
        """The resource's type token."""
        return self.resource["type"]

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Inputs of the program."""
        return self.resource.get("inputs") or {}

    @property
    def label(self) -> str:
        """Type and name, as a person knows it."""
        return f"{self.kind.rpartition(':')[2]} {self.urn.rpartition('::')[2]}"


def pending(state: Deployment) -> list[Pending]:
    """Return the undecided operations of an exported state; an operation that was tried twice counts once."""
    operations = cast("list[dict[str, Any]]", state["deployment"].get("pending_operations") or [])
    attempts = [Pending(operation=one["type"], resource=one["resource"]) for one in operations]
    return list({(one.urn, one.operation): one for one in attempts}.values())


def known_ids(state: Deployment, kind: str) -> set[str]:
    """Return the ids of a kind that the state has."""
    entries = cast("list[dict[str, Any]]", state["deployment"].get("resources", []))
    return {entry["id"] for entry in entries if entry["type"] == kind}


def live_id(state: Deployment, urn: str) -> str | None:
    """Return the id that the state has for a URN, unless that is gone or about to go."""
    for entry in state["deployment"].get("resources", []):
        if entry["urn"] == urn and not entry.get("delete") and not entry.get("pendingReplacement"):
            return entry["id"]
    return None


def settled(state: Deployment, adopted: Mapping[str, tuple[Pending, str]]) -> Deployment:
    """Return the state with nothing undecided.

    What was adopted (by URN: the operation and its id) stands there as its create would have left it: with the inputs
    of the program and, as outputs, what the provider knows of a resource before it reads the rest back. It is marked to
    be read by whatever the engine does next, so that a recovery that is killed here is finished by any `up`.
    """
    new = copy.deepcopy(state)
    entries: list[dict[str, Any]] = new["deployment"].setdefault("resources", [])
    for urn, (operation, identifier) in adopted.items():
        # A replacement that deletes first keeps the old entry to remember that the new one is due.
        entries[:] = [entry for entry in entries if entry["urn"] != urn or not entry.get("pendingReplacement")]
        outputs = cast("dict[str, Any]", _without_defaults(operation.inputs))
        entries.append(
            {
                **operation.resource,
                "custom": True,
                "id": identifier,
                "outputs": {**outputs, "id": identifier},
                "refreshBeforeUpdate": True,
            }
        )
    new["deployment"].pop("pending_operations", None)
    return new


def _without_defaults(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a copy without the provider's notes of which inputs it filled in."""
    if isinstance(value, list):
        return [_without_defaults(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    content = cast("dict[str, Any]", value)
    return {name: _without_defaults(one) for name, one in content.items() if name != "__defaults"}
