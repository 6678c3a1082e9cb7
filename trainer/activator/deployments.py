"""The Deployments of services that scale to zero, as the API server has them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from trainer.helpers.kubernetes_api import ApiError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from trainer.helpers.kubernetes_api import KubernetesApi, Listed

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A Deployment at one moment."""

    name: str
    replicas: int
    """Desired number."""
    ready: bool
    """Whether a pod answers."""
    idle_seconds: float
    hold_seconds: float


class Deployments:
    """Asks the API server, one question after the other and none of them on the event loop's thread.

    The order matters: what is stopped and asked for again at once is stopped first.
    """

    def __init__(
        self, connect: Callable[[], KubernetesApi], namespace: str, *, idle_label: str, hold_label: str
    ) -> None:
        self._connect = connect
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self._labels = (idle_label, hold_label)
        self._api: KubernetesApi | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kubernetes-api")

    async def all(self, loop: asyncio.AbstractEventLoop) -> list[Seen]:
        """Return all that are ours.

        Raises:
            ApiError: the server did not answer, or refused.
        """

        def listed(api: KubernetesApi) -> Listed:
            return api.listed(self._path, labels=self._labels[0])

        present = await loop.run_in_executor(self._thread, self._ask, listed)
        return [seen for item in present.items if (seen := self._seen(item)) is not None]

    async def scale(self, loop: asyncio.AbstractEventLoop, name: str, replicas: int) -> None:
        """Scale to this many pods.

        Raises:
            ApiError: the server did not answer, or refused.
        """

        def change(api: KubernetesApi) -> None:
            api.merge(f"{self._path}/{name}/scale", {"spec": {"replicas": replicas}})

        await loop.run_in_executor(self._thread, self._ask, change)

    def close(self) -> None:
        """End the thread, once its question is answered."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ask(self, question: Callable[[KubernetesApi], _T]) -> _T:
        # A new connection after each error: the token of an account is replaced every hour, and read when connecting.
        api, self._api = self._api or self._connect(), None
        try:
            answer = question(api)
        except ApiError:
            api.close()
            raise
        self._api = api
        return answer

    def _seen(self, item: dict[str, Any]) -> Seen | None:
        """Return nothing for one whose labels are not numbers: somebody else wrote them."""
        metadata: dict[str, Any] = item["metadata"]
        status: dict[str, Any] = item.get("status") or {}
        try:
            idle, hold = (float(metadata["labels"][label]) for label in self._labels)
        except (KeyError, ValueError):
            return None
        replicas = item["spec"].get("replicas", 1)
        is_current = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
        return Seen(
            name=metadata["name"],
            replicas=replicas,
            ready=bool(replicas) and is_current and bool(status.get("readyReplicas")),
            idle_seconds=idle,
            hold_seconds=hold,
        )
