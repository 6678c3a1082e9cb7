"""Resources that a run created in the account, recorded apart from the engine's state, and those that still exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from athanor.account.lookup import LOOKUPS, candidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.acceptance.site import Site

_NOTE = "made"
_GOING = {"deleting", "deleted", "releasing"}


def remember(site: Site) -> None:
    """Note what the state has, with what it had before: what a failed `destroy` forgets may still exist."""
    if not site.engine.exists():
        return
    state = site.engine.export()["deployment"]
    entries = cast("Sequence[dict[str, Any]]", state.get("resources", []))
    resources: dict[str, Any] = site.journal.notes.setdefault(_NOTE, {})
    for entry in entries:
        if entry["type"] in LOOKUPS and entry.get("id"):
            resources[entry["urn"]] = {"type": entry["type"], "id": entry["id"], "inputs": entry.get("inputs") or {}}
    site.journal.save()


def created(site: Site) -> dict[str, str]:
    """Return the created resources: ids by type and name."""
    return {_label(urn): one["id"] for urn, one in site.journal.notes.get(_NOTE, {}).items()}


def still_there(site: Site) -> dict[str, str]:
    """Return those that the account still lists and that are not being deleted: ids with their state, by type and name.

    Raises:
        CloudError: the account could not be asked.
    """
    left: dict[str, str] = {}
    for urn, one in site.journal.notes.get(_NOTE, {}).items():
        for match in candidates(site.cloud, one["type"], one["inputs"]):
            if match.status.lower() not in _GOING:
                left[_label(urn)] = f"{match.id} {match.status}".strip()
    return left


def _label(urn: str) -> str:
    kind = urn.split("::")[2].rpartition("$")[2].rpartition(":")[2]
    return f"{kind} {urn.rpartition('::')[2]}"
