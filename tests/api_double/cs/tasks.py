"""What takes time in ACK: tasks, which callers ask about until they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.api_double.account import timestamp
from tests.api_double.cs.addon_pods import waits_for_a_node
from tests.api_double.protocol import ApiError, Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.api_double.account import Account, Reference
    from tests.api_double.protocol import Request


def start(
    account: Account, cluster_id: str, kind: str, target: Reference, *, error: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Start a task on an object and return its id as ACK answers it.

    Once the task is seen to have ended, whatever passing state the object was in has ended, too.

    Args:
        account: where the objects are.
        cluster_id: the cluster it belongs to.
        kind: type of the task, such as cluster_create.
        target: kind and id of the object.
        error: code and message, where the task is to fail.
    """
    task_id = account.new_id("task")
    now = timestamp()
    account.add(
        "task",
        task_id,
        {
            "task_id": task_id,
            "cluster_id": cluster_id,
            "task_type": kind,
            "state": "running",
            "created": now,
            "updated": now,
            "target": {"type": target[0], "id": target[1]},
            "_cluster": cluster_id,
        },
    )
    ended: dict[str, Any] = {"state": "success"}
    if error is not None:
        ended = {"state": "failed", "error": {"code": error[0], "message": error[1]}}
    account.begin("task", task_id, {}, ended)
    return {"cluster_id": cluster_id, "request_id": task_id, "task_id": task_id}


def settle(account: Account, kind: str, identifier: str) -> None:
    """End the passing state of an object now, if its kind ever does."""
    while (
        kind not in account.standing_still
        and (record := account.find(kind, identifier)) is not None
        and "_then" in record
    ):
        account.read(kind, identifier)


def describe_task(account: Account, _request: Request, task_id: str) -> dict[str, Any]:
    """Answer DescribeTaskInfo; a task is not over before its object is ready, and its cluster's nodes are there."""
    record = account.find("task", task_id)
    if record is None:
        raise ApiError(404, "ErrorTaskNotFound", f"task {task_id} not found")
    if _stands_still(account, record["target"]) or account.kubernetes.busy:
        return {key: value for key, value in record.items() if not key.startswith("_")}
    task = account.read("task", task_id) or {}
    if task["state"] != "running":
        settle(account, task["target"]["type"], task["target"]["id"])
    return task


def _stands_still(account: Account, target: Mapping[str, str]) -> bool:
    record = account.find(target["type"], target["id"])
    waits = target["type"] == "addon" and record is not None and waits_for_a_node(account, record)
    return waits or target["type"] in account.standing_still


def cancel_task(account: Account, _request: Request, task_id: str) -> None:
    """Answer CancelTask: nothing of a task that has not ended can be taken back here."""
    if account.find("task", task_id) is None:
        raise ApiError(404, "ErrorTaskNotFound", f"task {task_id} not found")


ROUTES = [
    Route("GET", "/tasks/{task_id}", "DescribeTaskInfo", describe_task),
    Route("POST", "/tasks/{task_id}/cancel", "CancelTask", cancel_task),
]
