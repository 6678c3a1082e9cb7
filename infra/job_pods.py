"""Container names and exit codes that a job's pods share with the commands that watch them."""

from __future__ import annotations

PREPARE = "prepare"
"""Name of the container that runs what the user asks for before the program."""
REQUIREMENTS = "requirements"
"""Name of the container that installs the job's Python packages."""
STOPPED_EXIT_STATUS = 143
"""128 + SIGTERM: how a pod ends that was asked to, such as one that is evicted or whose liveness probe fails."""
NOT_AGAIN_EXIT_STATUS = 78
"""Exit status of a program that would fail in the same way again (EX_CONFIG of sysexits.h)."""
RESTART_EXIT_STATUS = 75
"""Exit status of a pod whose program failed and may start again with all other pods (EX_TEMPFAIL of sysexits.h)."""
