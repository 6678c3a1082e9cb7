"""Namespaces for programs that mount things and start others: if athanor is killed, the kernel cleans up after them."""

from __future__ import annotations

DIES_WITH_ATHANOR = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
"""First words of a command. Its mounts are seen by nobody else and end with it; all of its processes end with ours."""
