"""Linux namespaces for programs that mount or start processes: the kernel cleans up if athanor is killed."""

from __future__ import annotations

DIES_WITH_ATHANOR = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
"""First words of a command. Its mounts are seen by nobody else and end with it; all of its processes end with ours."""

# Root's buildah and skopeo keep a note of known blobs below /var/lib/containers, however they are configured. In the
# namespace that they run in, that folder is an empty one where there is one on the machine, else cannot be created.
_HIDE_MACHINE_STORAGE = """
set -e
if [ -d /var/lib/containers ]; then
    mount -t tmpfs tmpfs /var/lib/containers
else
    mount --rbind /var/lib /var/lib
    mount -o remount,bind,ro /var/lib
fi
exec "$@"
"""
WITHOUT_MACHINE_STORAGE = (*DIES_WITH_ATHANOR, "sh", "-c", _HIDE_MACHINE_STORAGE, "sh")
"""First words of such a command, which then leaves nothing in the machine's own image storage."""
