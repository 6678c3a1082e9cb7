"""What a preview asks a cluster, and with which rights: the real engine and provider on a real API server.

`docs/security.md` says what this proves; the roles are the files that it names.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from athanor.review.preview import urn_name
from athanor.review.reading import read_preview
from tests.fixtures.api_server import AUDIT_LOG, api_server
from tests.fixtures.engine_project import EngineProject
from tests.waiting import wait_until
from tools.paths import REPOSITORY
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.cluster_api import ApiCalls

ADMINISTRATOR, NOBODY, READER, TRIER = "tests", "nobody", "reader", "trier"
NAMESPACE = "team"
DENIED = "who previews may only try changes"
PROGRAM = """
import os
import pulumi
import pulumi_kubernetes as kubernetes
from infra.manifests import resource

changed = os.environ.get("CHANGED", "")
provider = kubernetes.Provider("cluster", kubeconfig=os.environ["TEST_KUBECONFIG"], cluster_identifier="test")
options = pulumi.ResourceOptions(provider=provider)


def declare(kind, name, version="v1", annotations=None, **content):
    metadata = {"name": name, "annotations": annotations or {}}
    if kind not in ("Namespace", "ClusterRole", "CustomResourceDefinition"):
        metadata["namespace"] = "team"
    return resource(name, {"apiVersion": version, "kind": kind, "metadata": metadata, **content}, options)


home = resource("team", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, options)
options = pulumi.ResourceOptions(provider=provider, depends_on=[home])
declare("ConfigMap", "notes", data={"text": changed or "as it was"})
declare("Secret", "alertmanager-config", stringData={"text": changed or "as it was"})
declare("ServiceAccount", "account")
rights = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] if changed else ["get"]}]
declare("ClusterRole", "readers", "rbac.authorization.k8s.io/v1", rules=rights)
container = {"name": "program", "image": f"registry.invalid/{changed or 'before'}:1"}
if changed == "wrong":
    container["ports"] = [{"containerPort": 99999}]
template = {"metadata": {"labels": {"app": "program"}}, "spec": {"containers": [container]}}
spec = {"replicas": 1, "selector": {"matchLabels": {"app": "program"}}, "template": template}
declare("Deployment", "program", "apps/v1", {"pulumi.com/skipAwait": "true"}, spec=spec)
names = {"kind": "Thing", "plural": "things"}
schema = {"openAPIV3Schema": {"type": "object", "description": changed or "as it was"}}
version = {"name": "v1", "served": True, "storage": True, "schema": schema}
definition = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
declare("CustomResourceDefinition", "things.example.com", "apiextensions.k8s.io/v1", spec=definition)
if changed:
    declare("NetworkPolicy", "closed", "networking.k8s.io/v1", spec={"podSelector": {}, "policyTypes": ["Ingress"]})
"""
EXPECTED = {
    ("replace", "notes"),
    ("replace", "alertmanager-config"),
    ("update", "readers"),
    ("update", "program"),
    ("update", "things.example.com"),
    ("create", "closed"),
}


@dataclass
class Cluster:
    """An API server, and a stack that was deployed to it by its administrator."""

    api: ApiCalls
    folder: Path
    project: EngineProject

    def become(self, user: str) -> None:
        """Let the engine's provider act as a user from now on; the kubeconfig names the file of the token."""
        (self.folder / "token").write_text(user, encoding="utf-8")

    def planned(self, changed: str) -> set[tuple[str, str]]:
        """Return the operation and the name of each step of a preview of the changed program."""
        words = ("preview", "--json", "--stack", "test")
        plan = json.loads(self.project.with_variables(CHANGED=changed).run(*words))
        steps = [(step["op"], step["urn"].rpartition("::")[2]) for step in plan["steps"]]
        return {step for step in steps if step[0] != "same"}

    def drift(self) -> set[str]:
        """Return the names of what a refresh would change."""
        streaming = self.project.with_variables(PULUMI_ENABLE_STREAMING_JSON_PREVIEW="true")
        preview = read_preview(streaming.run("refresh", "--preview-only", "--json", "--stack", "test"))
        assert not preview.failed, preview.diagnostics
        return {urn_name(step.urn) for step in preview.steps if step.operation in {"update", "delete"}}

    def requests(self, user: str) -> list[dict[str, Any]]:
        """Return what a user asked for, leaving out discovery, which every user may ask for."""
        lines = (self.folder / AUDIT_LOG).read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines]
        return [
            event
            for event in events
            if event["user"]["username"] == user and event["stage"] == "ResponseComplete" and "objectRef" in event
        ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("api")
    with api_server(folder, users=(NOBODY, READER, TRIER)) as api:
        for name in ("preview-access", "preview-dry-run"):
            for manifest in yaml.safe_load_all((REPOSITORY / "docs" / f"{name}.yaml").read_text(encoding="utf-8")):
                api.request("POST", collection(manifest), manifest)
        bind(api, "athanor-preview", READER, TRIER)
        bind(api, "athanor-preview-dry-run", TRIER)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(api, folder / "token")), encoding="utf-8")
        variables = {"TEST_KUBECONFIG": str(kubeconfig)}
        project = EngineProject.create(folder / "project", PROGRAM, "kubernetes", variables)
        stack = Cluster(api, folder, project)
        stack.become(ADMINISTRATOR)
        project.up()
        with closing(api.asked_by(TRIER)) as trier:
            path, note = f"api/v1/namespaces/{NAMESPACE}/configmaps", config_map("early")
            wait_until(lambda: DENIED in str(trier.ask("POST", path, note)), "the admission policy to be in force")
        yield stack


def collection(manifest: dict[str, Any]) -> str:
    plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
    kind = manifest["kind"]
    return f"apis/{manifest['apiVersion']}/{plural.get(kind, f'{kind.lower()}s')}"


def bind(api: ApiCalls, role: str, *users: str) -> None:
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user} for user in users],
    }
    api.request("POST", collection(binding), binding)


def kubeconfig_of(api: ApiCalls, token: Path) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": api.server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "test", "user": {"tokenFile": str(token)}}],
    }


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}}


@pytest.mark.parametrize("user", [ADMINISTRATOR, TRIER, READER, NOBODY])
def test_a_preview_shows_the_same_steps_whatever_its_user_may_do(cluster: Cluster, user: str) -> None:
    cluster.become(user)
    assert cluster.planned("after") == EXPECTED


def test_all_that_a_preview_asks_is_a_read_or_a_dry_run(cluster: Cluster) -> None:
    cluster.become(TRIER)
    before = len(cluster.requests(TRIER))
    cluster.planned("after")
    asked = cluster.requests(TRIER)[before:]
    tried = [event for event in asked if event["verb"] not in {"get", "list"}]
    assert {event["verb"] for event in tried} == {"patch", "update"}
    assert {tuple(parse_qs(urlsplit(event["requestURI"]).query)["dryRun"]) for event in tried} == {("All",)}
    answers = {event["objectRef"]["resource"]: event["responseStatus"]["code"] for event in tried}
    assert answers == {
        "configmaps": 200,
        "secrets": 403,
        "clusterroles": 403,
        "deployments": 200,
        "customresourcedefinitions": 200,
        "networkpolicies": 201,
    }


def test_who_may_only_read_does_not_see_what_the_server_would_reject(cluster: Cluster) -> None:
    """That is what a dry run is for, and what stands in its place is the program alone."""
    cluster.become(READER)
    assert ("update", "program") in cluster.planned("wrong")
    for user in (TRIER, ADMINISTRATOR):
        cluster.become(user)
        with pytest.raises(CommandError) as failed:
            cluster.planned("wrong")
        assert "99999" in str(failed.value)


def test_who_may_try_cannot_write(cluster: Cluster) -> None:
    path = f"api/v1/namespaces/{NAMESPACE}/configmaps"
    merge = "application/merge-patch+json"
    with closing(cluster.api.asked_by(TRIER)) as trier:
        assert trier.ask("POST", f"{path}?dryRun=All", config_map("tried"))[0] == 201
        status, answer = trier.ask("POST", path, config_map("tried"))
        assert (status, DENIED in answer["message"]) == (403, True)
        assert trier.ask("PATCH", f"{path}/notes", {"data": {"text": "theirs"}}, merge)[0] == 403
        assert trier.ask("DELETE", f"{path}/notes?dryRun=All")[0] == 403
        assert trier.ask("GET", f"api/v1/namespaces/{NAMESPACE}/secrets")[0] == 403
    notes = cluster.api.request("GET", f"{path}/notes")
    assert notes["data"] == {"text": "as it was"}


def test_the_policy_leaves_administrators_alone(cluster: Cluster) -> None:
    path = f"api/v1/namespaces/{NAMESPACE}/configmaps"
    cluster.api.request("POST", path, config_map("written"))
    cluster.api.request("DELETE", f"{path}/written")


def test_who_may_read_finds_the_drift_that_the_administrator_finds(cluster: Cluster) -> None:
    path, merge = f"api/v1/namespaces/{NAMESPACE}/configmaps/notes", "application/merge-patch+json"
    cluster.api.request("PATCH", path, {"data": {"text": "changed by hand"}}, merge)
    drifts = []
    for user in (ADMINISTRATOR, READER, TRIER):
        cluster.become(user)
        drifts.append(cluster.drift())
    cluster.api.request("PATCH", path, {"data": {"text": "as it was"}}, merge)
    assert "notes" in drifts[0]
    assert drifts[1:] == [drifts[0]] * 2


def test_who_may_not_read_finds_none(cluster: Cluster) -> None:
    cluster.become(NOBODY)
    with pytest.raises(CommandError) as failed:
        cluster.project.run("refresh", "--preview-only", "--expect-no-changes")
    assert "forbidden" in str(failed.value)
