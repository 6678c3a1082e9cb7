"""Resources of an account that RPC operations list, and the stacks that own them.

Every name is `<project>-<stack>-<thing>` (infra/alicloud/names.py), so each exists once per environment. Ids are
composed as the provider does: terraform-provider-alicloud, `d.SetId` of each resource.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from athanor.account.cloud import Cloud

    Inputs = Mapping[str, Any]

OWNER_TAGS = ("athanor:project", "athanor:stack")
_SPELLINGS = (("K", "V"), ("k", "v"), ("TagK", "TagV"))
"""Spellings of Key and Value: VPC and NAS, the container service, ECS."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """Something in the account that may be the resource."""

    id: str
    """Its id, as the provider imports it."""
    status: str = ""
    """Its status in the API; empty for kinds that are ready at once."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A kind that an RPC operation lists."""

    product: str
    operation: str
    place: str
    """Path of the items in the answer."""
    within: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters of the operation: name to input."""
    same: Mapping[str, str]
    """Fields that identify an item: its field to the input that it equals."""
    id: str
    """Template over the inputs and the item."""
    status: str = "Status"

    def __call__(self, cloud: Cloud, inputs: Inputs) -> list[Match]:
        """Return the matching resources of the account."""
        return [
            Match(id=self.id.format_map({**inputs, **item}), status=self.status_of(item))
            for item in self.items(cloud, inputs)
            if all(str(item.get(name)) == str(inputs.get(source)) for name, source in self.same.items())
            and not of_another_owner(item, inputs)
        ]

    def items(self, cloud: Cloud, inputs: Inputs, **filters: str) -> Iterator[dict[str, Any]]:
        """Yield the items of the operation, limited to what the inputs name, else of the whole region."""
        query = {name: str(inputs[source]) for name, source in self.within.items() if source in inputs}
        return cloud.every(self.product, self.operation, self.place, **query, **filters)

    def status_of(self, item: Mapping[str, Any]) -> str:
        """Return an item's status as the API says it; empty for what has none."""
        return str(item.get(self.status) or "")


def tags_of(item: Mapping[str, Any]) -> dict[str, str]:
    """Return an item's tags, whichever of its three spellings the product uses."""
    tags: Any = item.get("Tags") or item.get("tags") or []
    listed = cast("list[Mapping[str, str]]", tags["Tag"] if isinstance(tags, dict) else tags)
    return {tag[f"{key}ey"]: tag[f"{value}alue"] for tag in listed for key, value in _SPELLINGS if f"{key}ey" in tag}


def of_another_owner(item: Mapping[str, Any], inputs: Inputs) -> bool:
    """Whether its tags name another owner than the program's; none is how a create that was killed early leaves it."""
    has = tags_of(item)
    declared = cast("Mapping[str, str]", inputs.get("tags") or {})
    return any(name in declared and has.get(name) not in {None, declared[name]} for name in OWNER_TAGS)
