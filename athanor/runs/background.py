"""Background work that waits for others, such as a starting engine, while this process continues."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


def meanwhile(work: Callable[[], Result]) -> Callable[[], Result]:
    """Begin some work in a thread; return what waits for its result, or raises what the work raised.

    The process does not wait for the thread at its end: a refusal is not held up by a backend that does not answer.
    """
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result
