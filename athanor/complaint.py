"""Error messages of a command on standard error: one line for people, or JSON for programs with --json."""

from __future__ import annotations

import json
import sys

from infra.errors import RefusalError


def complain(command: str, error: Exception | str, *, as_json: bool = False) -> None:
    """Write why a command failed; standard output keeps what it has to say otherwise.

    Args:
        command: Its name, without `athanor`.
        error: What went wrong.
        as_json: Whether it was called with --json.
    """
    if not as_json:
        sys.stderr.write(f"athanor {command}: {error}\n")
        return
    parts = {
        name: getattr(error, name) if isinstance(error, RefusalError) else None for name in ("field", "limit", "fix")
    }
    sys.stderr.write(f"{json.dumps({'command': command, 'error': str(error), **parts})}\n")
