"""The size of a state in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from torch import Tensor
from torch.distributed.tensor import DTensor

if TYPE_CHECKING:
    from collections.abc import Iterator


def whole_bytes(state: dict[str, Any]) -> int:
    """Return the bytes of all tensors in nested dictionaries and lists, with the shards of other ranks."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(state))


def local_bytes(state: dict[str, Any]) -> int:
    """Return the bytes of all tensors in nested dictionaries and lists, only what this rank holds."""
    local = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in _tensors(state))
    return sum(tensor.numel() * tensor.element_size() for tensor in local)


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in cast("dict[str, object]", value).values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in cast("list[object]", value):
            yield from _tensors(each)
