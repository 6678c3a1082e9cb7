"""The container service of an account with a network, called without HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api_double.account import Account
from tests.api_double.cs import ROUTES
from tests.api_double.protocol import ApiError, Request

TERWAY = {"name": "terway-eniip", "config": json.dumps({"ENITrunking": "true", "NetworkPolicy": "true"})}
ZONES = ("cn-hangzhou-i", "cn-hangzhou-j")
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority-data: ""}}]
users: [{name: u, user: {client-certificate-data: "", client-key-data: ""}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


class Service:
    """An account in which a cluster can be created, and what a caller does with it."""

    def __init__(self, account: Account | None = None) -> None:
        self.account = account or Account()
        add = self.account.add
        add("vpc", "vpc-1", {"VpcId": "vpc-1", "CidrBlock": "10.64.0.0/12"})
        add("vpc", "vpc-2", {"VpcId": "vpc-2", "CidrBlock": "192.168.0.0/16"})
        for number, zone in enumerate(ZONES):
            for use, block in (("node", f"10.64.{number}.0/24"), ("pod", f"10.65.{number}.0/24")):
                vswitch = f"vsw-{use}-{number}"
                add("vswitch", vswitch, {"VpcId": "vpc-1", "ZoneId": zone, "CidrBlock": block})
        add("vswitch", "vsw-elsewhere", {"VpcId": "vpc-2", "ZoneId": ZONES[0], "CidrBlock": "192.168.0.0/24"})
        for group, vpc in (("sg-1", "vpc-1"), ("sg-2", "vpc-2")):
            add("security_group", group, {"VpcId": vpc})

    def call(self, method: str, path: str, body: object = None, **query: str) -> Any:
        for route in ROUTES:
            names = route.match(method, path)
            if names is not None:
                request = Request(
                    product="cs",
                    operation=route.operation,
                    parameters=query,
                    method=method,
                    path=path,
                    body=body,
                    region="cn-hangzhou",
                )
                with self.account.lock:
                    return route.handler(self.account, request, **names)
        raise AssertionError(f"no route for {method} {path}")

    def refused(self, method: str, path: str, body: object = None, **query: str) -> str:
        """Return the code of the error that a call must end with."""
        with pytest.raises(ApiError) as caught:
            self.call(method, path, body, **query)
        return caught.value.code

    def finish(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Ask for a task until it has ended, and return it."""
        self.account.kubernetes.await_idle()
        for _ in range(10):
            task = self.call("GET", f"/tasks/{answer['task_id']}")
            if task["state"] != "running":
                return task
        raise AssertionError("the task does not end")

    def cluster(self, **changed: Any) -> str:
        """Create a cluster and return its id."""
        answer = self.call("POST", "/clusters", cluster_body(**changed))
        assert self.finish(answer)["state"] == "success"
        return answer["cluster_id"]

    def pool(self, cluster_id: str, name: str = "gpu", **changed: Any) -> str:
        """Create a node pool and return its path."""
        answer = self.call("POST", f"/clusters/{cluster_id}/nodepools", pool_body(name, **changed))
        assert self.finish(answer)["state"] == "success"
        return f"/clusters/{cluster_id}/nodepools/{answer['nodepool_id']}"

    def nodes(self, pool_path: str) -> list[dict[str, Any]]:
        return self.account.all("node_pool")[pool_path.rpartition("/")[2]]["_nodes"]


def cluster_body(**changed: Any) -> dict[str, Any]:
    return {
        "name": "athanor-dev",
        "region_id": "cn-hangzhou",
        "cluster_type": "ManagedKubernetes",
        "cluster_spec": "ack.pro.small",
        "kubernetes_version": "1.34.10-aliyun.1",
        "vpcid": "vpc-1",
        "vswitch_ids": ["vsw-node-0", "vsw-node-1"],
        "pod_vswitch_ids": ["vsw-pod-0", "vsw-pod-1"],
        "security_group_id": "sg-1",
        "service_cidr": "172.21.0.0/20",
        "enable_rrsa": True,
        "addons": [TERWAY],
        **changed,
    }


def pool_body(name: str, **changed: Any) -> dict[str, Any]:
    group = {
        "vswitch_ids": ["vsw-node-0", "vsw-node-1"],
        "instance_types": ["ecs.gn7i-c16g1.4xlarge"],
        "system_disk_category": "cloud_essd",
        "system_disk_size": 120,
        "desired_size": 2,
    }
    body: dict[str, Any] = {"nodepool_info": {"name": name}, "scaling_group": group, "kubernetes_config": {}}
    for section, fields in changed.items():
        body[section] = {**body.get(section, {}), **fields}
    return body
