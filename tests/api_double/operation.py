"""The type of an RPC operation: a function of the account and a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tests.api_double.account import Account
from tests.api_double.protocol import Request

Operation: TypeAlias = Callable[[Account, Request], dict[str, Any]]
