"""The double as a proxy: through it every host of Alibaba Cloud is the double itself, and there is no other host.

Some calls of the provider have their host written into its source, whatever the endpoints say: to change a cluster's
tags it calls cs.aliyuncs.com (terraform-provider-alicloud 1.285, `updateKubernetesClusterTag`). A client with the
double as its proxy meets it there, too; whatever else is asked for is refused and kept.
"""

from __future__ import annotations

import threading

CLOUD = ".aliyuncs.com"
"""What the names of all endpoints end with."""


def is_cloud(host: str) -> bool:
    """Tell whether a host name is one of Alibaba Cloud's."""
    return host.lower().endswith(CLOUD)


class Gate:
    """Decides which hosts can be reached, and keeps what was asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._caught: set[str] = set()
        self._refused: set[str] = set()

    def opens(self, host: str) -> bool:
        """Tell whether the double answers in the place of a host; both answers are kept."""
        if is_cloud(host):
            with self._lock:
                self._caught.add(host)
            return True
        self.refuse(host)
        return False

    def refuse(self, host: str) -> None:
        """Keep that a host was asked for in vain."""
        with self._lock:
            self._refused.add(host)

    def caught(self) -> list[str]:
        """Return the hosts of the cloud that were called by name."""
        with self._lock:
            return sorted(self._caught)

    def refused(self) -> list[str]:
        """Return the hosts that were asked for in vain."""
        with self._lock:
            return sorted(self._refused)
