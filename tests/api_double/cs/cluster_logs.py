"""Logs of a cluster in SLS: which there are, and what of them outlives the cluster and goes on being billed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.api_double.cs import tasks
from tests.api_double.cs.body import body_of, items, section
from tests.api_double.cs.find import cluster_of, running_cluster
from tests.api_double.protocol import Route

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record
    from tests.api_double.protocol import Request

CONTROL_PLANE, DATA = "SLS_ControlPlane", "SLS_Data"


def begin(account: Account, cluster: Record, body: dict[str, Any]) -> None:
    """Start the logs that the request of a new cluster asks for."""
    components = items(body, "controlplane_log_components")
    if components:
        _log_control_plane(
            account,
            cluster,
            components,
            body.get("controlplane_log_project") or "",
            body.get("controlplane_log_ttl") or "30",
        )
    audit: dict[str, Any] = section(body, "audit_log_config")
    if audit.get("enabled"):
        _audit(account, cluster, audit.get("sls_project_name") or "")


def end(account: Account, cluster: Record, deleted: set[str]) -> None:
    """Delete the kinds of logs that the caller does not want to keep; the others stay, without their cluster."""
    for project_id, project in account.all("log_project").items():
        if project["_cluster"] == cluster["cluster_id"]:
            project["kinds"] = [kind for kind in project["kinds"] if kind not in deleted]
            if not project["kinds"]:
                account.remove("log_project", project_id)


def describe_control_plane(account: Account, _request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer CheckControlPlaneLogEnable."""
    return cluster_of(account, cluster_id)["_control_plane_log"]


def modify_control_plane(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer UpdateControlPlaneLog."""
    cluster = running_cluster(account, cluster_id)
    body = body_of(request)
    present: dict[str, Any] = cluster["_control_plane_log"]
    components = body["components"] if body.get("components") is not None else present["components"]
    project = body.get("log_project") or present["log_project"]
    _log_control_plane(account, cluster, components, project, body.get("log_ttl") or present["log_ttl"])
    return _change(account, cluster, "cluster_control_plane_log")


def describe_audit(account: Account, _request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer GetClusterAuditProject."""
    return cluster_of(account, cluster_id)["_audit"]


def modify_audit(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer UpdateClusterAuditLogConfig."""
    cluster = running_cluster(account, cluster_id)
    body = body_of(request)
    if body.get("disable"):
        cluster["_audit"] = {"audit_enabled": False, "sls_project_name": ""}
    else:
        _audit(account, cluster, body.get("sls_project_name") or "")
    return _change(account, cluster, "cluster_audit_log")


def _log_control_plane(account: Account, cluster: Record, components: list[str], project: str, days: str) -> None:
    project = project or _default_project(cluster)
    log = {"components": components, "log_project": project, "log_ttl": days, "aliuid": account.id}
    cluster["_control_plane_log"] = log
    _keep(account, cluster, project, CONTROL_PLANE)


def _audit(account: Account, cluster: Record, project: str) -> None:
    project = project or _default_project(cluster)
    cluster["_audit"] = {"audit_enabled": True, "sls_project_name": project}
    _keep(account, cluster, project, DATA)


def _default_project(cluster: Record) -> str:
    return f"k8s-log-{cluster['cluster_id']}"


def _keep(account: Account, cluster: Record, project: str, kind: str) -> None:
    """Note that a log is written to a project, if the project came with the cluster."""
    if project != _default_project(cluster):
        return
    record = account.find("log_project", project)
    if record is None:
        record = account.add("log_project", project, {"kinds": [], "_cluster": cluster["cluster_id"]})
    record["kinds"] = sorted({*record["kinds"], kind})


def _change(account: Account, cluster: Record, kind: str) -> dict[str, Any]:
    account.begin("cluster", cluster["cluster_id"], {"state": "updating"}, {"state": "running"})
    return tasks.start(account, cluster["cluster_id"], kind, ("cluster", cluster["cluster_id"]))


_CLUSTER = "/clusters/{cluster_id}"
ROUTES = [
    Route("GET", f"{_CLUSTER}/controlplanelog", "CheckControlPlaneLogEnable", describe_control_plane),
    Route("PUT", f"{_CLUSTER}/controlplanelog", "UpdateControlPlaneLog", modify_control_plane),
    Route("GET", f"{_CLUSTER}/audit", "GetClusterAuditProject", describe_audit),
    Route("PUT", f"{_CLUSTER}/audit_log", "UpdateClusterAuditLogConfig", modify_audit),
]
