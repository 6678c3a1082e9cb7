"""The supported parameters of a request, an input or an output.

Sources: Triton's "Schedule Policy", "Classification" and "Shared Memory" extensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.serve.errors import RequestError
from trainer.serve.protocol.tensors import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARED_MEMORY_REFUSAL = "shared memory is not supported. Fix: send tensors in the request"
_LARGEST = 2**63 - 1


def whole_number(where: str, parameters: Mapping[str, object], name: str) -> int:
    """Return a parameter such as priority; 0 where it is missing.

    Raises:
        RequestError: 400 where it is something else.
    """
    value = parameters.get(name, 0)
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise RequestError(400, f"{where}: {name}={shorten(value)}: must be a whole number from 0")
    return value


def refuse_shared_memory(where: str, parameters: Mapping[str, object]) -> None:
    """Refuse a tensor that is to be read from, or written to, shared memory.

    Raises:
        RequestError: 501.
    """
    if "shared_memory_region" in parameters:
        raise RequestError(501, f"{where}: {SHARED_MEMORY_REFUSAL}")
