"""The login name of the current user, according to the operating system."""

from __future__ import annotations

import getpass
import os


def login_name() -> str:
    """Return the user's name on this machine; in a container, a user may have none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
