"""Tags: kept with their object as a mapping, shown in each product's own shape."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.api_double.protocol import ApiError
from tests.api_double.rpc.lists import part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.api_double.account import Account, Record
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Request

MOST_TAGS = 20
_RESERVED = re.compile(r"aliyun|acs:|.*https?://")


def from_request(request: Request) -> dict[str, str]:
    """Return the tags of a call: `Tag.n.Key` and `Tag.n.Value`."""
    return checked({item.get("Key", ""): item.get("Value", "") for item in request.repeated("Tag")})


def checked(tags: Mapping[str, str]) -> dict[str, str]:
    """Return tags that the API takes.

    Raises:
        ApiError: too many, or a key or value that is too long, empty or reserved.
    """
    if len(tags) > MOST_TAGS:
        raise ApiError(400, "NumberExceed.Tags", f"{len(tags)} tags are more than {MOST_TAGS}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= 128 or _RESERVED.match(key):
            raise ApiError(400, "InvalidTagKey.Malformed", f"The specified tag key {key!r} is not valid.")
        if len(value) > 128 or _RESERVED.match(value):
            raise ApiError(400, "InvalidTagValue.Malformed", f"The specified tag value {value!r} is not valid.")
    return dict(tags)


def with_tags(record: Record, tags: Mapping[str, str], *, key: str = "Key", value: str = "Value") -> Record:
    """Return an object as it is described: with its tags."""
    return {**record, "Tags": {"Tag": [{key: name, value: text} for name, text in tags.items()]}}


def operations(kinds: Mapping[str, str], untag: str, *, sized: bool = False) -> dict[str, Operation]:
    """Return the tag operations of a product.

    Args:
        kinds: from the API's resource type, in lower case, to the kind of object.
        untag: what the product calls the operation that takes tags away.
        sized: whether its list of tags takes MaxResults.
    """

    def tagged(account: Account, request: Request) -> list[tuple[str, Record]]:
        kind = kinds.get(request.required("ResourceType").lower())
        if kind is None:
            raise ApiError(400, "InvalidResourceType.NotFound", f"ResourceType {request.get('ResourceType')!r}.")
        return [(name, _record(account, kind, name)) for name in _names(request)]

    def tag_resources(account: Account, request: Request) -> Record:
        for _, record in tagged(account, request):
            record["_tags"] = checked({**record.get("_tags", {}), **from_request(request)})
        return {}

    def untag_resources(account: Account, request: Request) -> Record:
        gone = set(request.values("TagKey"))
        for _, record in tagged(account, request):
            old: dict[str, str] = record.get("_tags", {})
            record["_tags"] = {key: value for key, value in old.items() if key not in gone and not request.flag("All")}
        return {}

    def list_tag_resources(account: Account, request: Request) -> Record:
        entries = [
            {"ResourceId": name, "ResourceType": request.get("ResourceType"), "TagKey": key, "TagValue": value}
            for name, record in tagged(account, request)
            for key, value in record.get("_tags", {}).items()
        ]
        items, beside = part(request, entries, sized=sized)
        return {"TagResources": {"TagResource": items}, **beside}

    return {"TagResources": tag_resources, untag: untag_resources, "ListTagResources": list_tag_resources}


def _names(request: Request) -> list[str]:
    names = request.values("ResourceId")
    if not names:
        raise ApiError(400, "MissingParameter.ResourceId", "The parameter ResourceId is mandatory.")
    return names


def _record(account: Account, kind: str, name: str) -> Record:
    record = account.find(kind, name)
    if record is None:
        raise ApiError(404, "InvalidResourceId.NotFound", f"The specified resource {name!r} does not exist.")
    return record
