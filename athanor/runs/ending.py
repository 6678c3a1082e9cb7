"""Exit handling of the commands about runs: success, an error in one line, or Ctrl-C."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from athanor.complaint import complain
from athanor.runs.engine_error import EngineError
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable

FAILED = 1
INTERRUPTED = 130


def exit_status(
    command: str, work: Callable[[], int], interrupted: str = "interrupted", *, as_json: bool = False
) -> int:
    """Run a command; return its exit status, and write the reason of a failure to standard error.

    Args:
        command: Name of the command, without `athanor`.
        work: Returns the status of a command that ends by itself.
        interrupted: What Ctrl-C prints.
        as_json: Whether the command was called with --json.

    Raises:
        BrokenPipeError: nobody reads what the command prints.
    """
    try:
        return work()
    except BrokenPipeError:
        raise
    except (RefusalError, EngineError, OSError) as error:
        complain(command, error, as_json=as_json)
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{interrupted}\n")
        return INTERRUPTED
