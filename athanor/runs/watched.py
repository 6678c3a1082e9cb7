"""Objects of the cluster that are kept up to date by a watch instead of repeated requests."""

from __future__ import annotations

import codecs
import json
import os
import select
import subprocess
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster

_GATHER_SECONDS = 0.1
"""Pods that start together report within this time, and are one change."""
_MOST_BYTES = 1 << 16


class Watched:
    """The objects of one kind that a selector chooses, through kubectl.

    Each start of kubectl takes a tenth of a second of CPU time: a watch is one for as long as it lasts. A user who may
    list the objects and not watch them asks each time.
    """

    def __init__(self, cluster: Cluster, kind: str, selector: str) -> None:
        """Begin to watch.

        Args:
            cluster: The cluster, in the namespace of the objects.
            kind: Their resource, as kubectl spells it.
            selector: kubectl's option that chooses them, such as --selector=a=b.
        """
        self._cluster, self._words = cluster, ["get", kind, selector]
        self._has_worked = False
        self._gone: list[dict[str, Any]] = []
        self._begin()

    def _begin(self) -> None:
        self._objects: dict[str, dict[str, Any]] = {}
        self._text, self._decoder = "", codecs.getincrementaldecoder("utf-8")()
        self._watch: subprocess.Popen[bytes] | None = subprocess.Popen(
            [*self._cluster.prefix, *self._words, "--watch", "--output-watch-events", "--output=json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def now(self) -> list[dict[str, Any]]:
        """Return the objects as they are now.

        Raises:
            RefusalError: the cluster does not answer, or not to this user.
        """
        self._read_all()
        if self._objects:
            return list(self._objects.values())
        # The watch does not say when it has named all that there are: to have heard of none yet says little.
        items = json.loads(self._cluster.run(*self._words, "--output=json"))["items"]
        if self._watch is None and self._has_worked:
            self._begin()
        return items

    def take_gone(self) -> list[dict[str, Any]]:
        """Return the objects that were deleted since this was last called, as they were then; only a watch has them."""
        self._read_all()
        gone, self._gone = self._gone, []
        return gone

    def fileno(self) -> int:
        """Return the descriptor that has something to read at the next change; -1 without a watch."""
        return self._watch.stdout.fileno() if self._watch and self._watch.stdout else -1

    def close(self) -> None:
        """End the watch."""
        if self._watch is not None:
            self._watch.kill()
            self._watch.communicate()
            self._watch = None

    def _read_all(self) -> None:
        while self._watch and _readable([self], 0):
            self._read(self._watch)

    def _read(self, watch: subprocess.Popen[bytes]) -> None:
        assert watch.stdout
        content = os.read(watch.stdout.fileno(), _MOST_BYTES)
        if content:
            self._text += self._decoder.decode(content)
            self._take_events()
            return
        # API servers end each watch after a while; one that has said nothing was refused, and would be again. Where
        # others have worked, it is the server that is away, and the next one begins when it answers.
        had_objects = bool(self._objects)
        self.close()
        self._objects = {}
        if had_objects:
            self._has_worked = True
            self._begin()

    def _take_events(self) -> None:
        """Take the events that are whole."""
        while self._text:
            try:
                event, end = json.JSONDecoder().raw_decode(self._text)
            except ValueError:
                return
            self._text = self._text[end:].lstrip()
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        changed = event["object"]
        uid = changed.get("metadata", {}).get("uid")
        if event["type"] == "DELETED":
            self._objects.pop(uid, None)
            self._gone.append(changed)
        elif uid:  # an ERROR has a status for an object, and the watch ends
            self._objects[uid] = changed


def wait_for_change(watched: Sequence[Watched], seconds: float) -> None:
    """Return at the next change of any of them, or after this time."""
    if _readable([each for each in watched if each.fileno() >= 0], seconds):
        time.sleep(_GATHER_SECONDS)


def _readable(watched: Sequence[Watched], seconds: float) -> bool:
    return bool(select.select(watched, [], [], seconds)[0])
