"""Wait for what happens by itself: for as long as something moves, however slow the machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE_SECONDS = 300.0
"""Long enough for anything on a machine on which three other processes test, too."""
KUBECTL_TIMEOUT = f"--timeout={PATIENCE_SECONDS:.0f}s"
"""The same for `kubectl wait` and `kubectl rollout status`."""
_LOOK_SECONDS = 0.1


def wait_until(
    condition: Callable[[], T],
    what: str | Callable[[], str],
    timeout_seconds: float = PATIENCE_SECONDS,
    *,
    moves: Callable[[], object] | None = None,
    look_seconds: float = _LOOK_SECONDS,
) -> T:
    """Return the first true value of `condition`; fail with its last value and `what` after the timeout.

    Args:
        condition: What is looked at, every `look_seconds`.
        what: What is waited for, for people to read.
        timeout_seconds: How long to wait while nothing moves.
        moves: Something that changes as long as things go on, such as a count: each change restarts the time.
        look_seconds: Time between two looks; what passes in an instant needs less.
    """
    since, seen = time.monotonic(), None
    while not (value := condition()):
        if moves is not None and (now := moves()) != seen:
            since, seen = time.monotonic(), now
        if time.monotonic() - since > timeout_seconds:
            description = what if isinstance(what, str) else what()
            at_rest = "" if moves is None else f" since anything moved ({seen!r})"
            pytest.fail(f"{description}: not within {timeout_seconds:.0f} s{at_rest}, last seen: {value!r}")
        time.sleep(look_seconds)
    return value


def wait_for_count(count: Callable[[], int], expected: int, what: str | Callable[[], str]) -> None:
    """Wait until there are so many of something, for as long as their number changes."""
    seen = -1

    def counted() -> bool:
        nonlocal seen
        seen = count()
        return seen == expected

    wait_until(counted, what, moves=lambda: seen)
