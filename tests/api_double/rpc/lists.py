"""Lists as the API gives them: by page number, or by a token for the next part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.api_double.protocol import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.api_double.account import Record
    from tests.api_double.protocol import Request


def page(
    request: Request, items: Sequence[Record], *, size: int = 10, largest: int = 50
) -> tuple[list[Record], Record]:
    """Return the page that was asked for, and the other fields of the answer.

    Raises:
        ApiError: a page number below 1 or a page size the API does not allow.
    """
    number, length = request.number("PageNumber", 1), request.number("PageSize", size)
    if number < 1:
        raise ApiError(400, "InvalidParameter.PageNumber", f"PageNumber {number} is below 1.")
    if not 1 <= length <= largest:
        raise ApiError(400, "InvalidParameter.PageSize", f"PageSize {length} is not in 1..{largest}.")
    beside = {"TotalCount": len(items), "PageNumber": number, "PageSize": length}
    return list(items[(number - 1) * length : number * length]), beside


def part(
    request: Request, items: Sequence[Any], *, size: int = 50, largest: int = 100, sized: bool = True
) -> tuple[list[Any], Record]:
    """Return the part that `NextToken` asks for, and the token of the next one (none after the last).

    Args:
        request: who asks.
        items: all of them.
        size: how many are a part where the caller does not say.
        largest: how many the caller may ask for.
        sized: whether the caller may say how many.

    Raises:
        ApiError: a token that was never given.
    """
    token, length = request.get("NextToken"), request.number("MaxResults", size) if sized else size
    if not 1 <= length <= largest:
        raise ApiError(400, "InvalidParameter.MaxResults", f"MaxResults {length} is not in 1..{largest}.")
    if token and not token.isdecimal():
        raise ApiError(400, "InvalidParameter.NextToken", f"NextToken {token!r} is not valid.")
    start = int(token or 0)
    end = start + length
    return list(items[start:end]), {"NextToken": str(end)} if end < len(items) else {}
