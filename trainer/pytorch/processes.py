"""The exit of a program's process."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def end_with(main: Callable[[], None]) -> NoReturn:
    """Run a program, then end the process with its exit status, without Python's last step: deleting all modules.

    Of a process with torch they are two thousand, and deleting them takes a quarter of a second of CPU, in which its
    memory goes back to the kernel anyway. torchrun waits for that before it starts ranks again.

    Args:
        main: Closes what it opened. A SystemExit decides the status; another exception is printed, the status is 1.
    """
    status = 0
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise  # it is a message, or nothing
        status = end.code
    except Exception as error:  # noqa: BLE001  what the interpreter would do
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    # as multiprocessing ends its processes, whose modules are not deleted either
    atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  no public name
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
