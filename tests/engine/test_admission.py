"""What the API server refuses in the workloads' namespace, asked by those who would ask it.

These are a team with the rights of examples/team, and Volcano's controllers with theirs. That all that we declare is
admitted, tests/cluster/test_descriptions.py says of descriptions that it draws.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from infra.closed_addresses import ANYWHERE
from infra.volcano import CONTROLLERS
from infra.volcano import NAMESPACE as VOLCANO
from infra.volcano.crds import chart_folder, crd_manifests
from infra.volcano.permissions import CONTROLLER_RULES, permission_manifests, secret_permission_manifests
from tests.fixtures.api_server import answers, empty_api_server, enforce
from tests.tables import each_row
from tests.waiting import wait_until
from tools.paths import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.cluster_api import ApiCalls

Manifest = dict[str, Any]
TEAM, ADMINISTRATOR, VOLCANO_ACCOUNT = "engineer", "tests", f"system:serviceaccount:{VOLCANO}:{CONTROLLERS}"
NAMESPACE = "team"
MERGE = "application/merge-patch+json"
QUEUES = ("research", "production")
CLASSES = ("team.low", "team.high")
PLURALS = {"NetworkPolicy": "networkpolicies"}
CRDS = ("batch.volcano.sh_jobs", "bus.volcano.sh_commands", "scheduling.volcano.sh_podgroups")


def path_of(manifest: Manifest, namespace: str | None = NAMESPACE) -> str:
    """Return where objects of a kind are; namespace None: the cluster."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"apis/{version}" if "/" in version else f"api/{version}"
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{scope}/{PLURALS.get(kind, f'{kind.lower()}s')}"


@dataclass(frozen=True, kw_only=True)
class Server:
    """An API server with the policy in force, by who asks it."""

    by: dict[str, ApiCalls]

    def tried(self, manifest: Manifest, user: str = TEAM) -> str:
        """Return what the API server says to the creation of an object; empty if it would be created."""
        name = {} if manifest["metadata"].keys() & {"name", "generateName"} else {"name": "tried"}
        body = {**manifest, "metadata": {**name, **manifest["metadata"], "namespace": NAMESPACE}}
        status, answer = self.by[user].ask("POST", f"{path_of(manifest)}?dryRun=All", body)
        return "" if status == 201 else answer["message"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with empty_api_server(tmp_path_factory.mktemp("api"), (TEAM, VOLCANO_ACCOUNT)) as api:
        definitions = [crd_manifests(chart_folder())[name] for name in CRDS]
        volcano = permission_manifests(CONTROLLERS, CONTROLLER_RULES)[1:]
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        for manifest in (namespace, *definitions, *volcano):
            api.request("POST", path_of(manifest, None), manifest)
        access = (REPOSITORY / "examples" / "team" / "access.yaml").read_text(encoding="utf-8")
        own = access.replace("kind: ServiceAccount\n    name: team", f"kind: User\n    name: {TEAM}")
        for manifest in (*yaml.safe_load_all(own), *secret_permission_manifests(NAMESPACE)):
            api.request("POST", path_of(manifest), manifest)
        for each in (definition["spec"] for definition in definitions):
            served = f"apis/{each['group']}/{each['versions'][0]['name']}/{each['names']['plural']}"
            wait_until(lambda served=served: answers(api, served), f"{served} to be served")
        api.request("POST", path_of(FORMER), FORMER)
        enforce(api, NAMESPACE, QUEUES, CLASSES)
        with closing(api.asked_by(TEAM)) as team, closing(api.asked_by(VOLCANO_ACCOUNT)) as controllers:
            yield Server(by={ADMINISTRATOR: api, TEAM: team, VOLCANO_ACCOUNT: controllers})


def service(**spec: Any) -> Manifest:
    ports = [{"port": 80}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {"ports": ports, **spec}}


def command(kind: str = "Job", version: str = "batch.volcano.sh/v1alpha1", action: str = "AbortJob") -> Manifest:
    target = {"apiVersion": version, "kind": kind, "name": "train", "uid": "1"}
    head = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {}}
    return {**head, "action": action, "target": target}


def pod(**spec: Any) -> Manifest:
    return {"containers": [{"name": "main", "image": "own:1"}], **spec}


def contained(**security: Any) -> Manifest:
    return {"containers": [{"name": "main", "image": "own:1", "securityContext": security}]}


def job(*tasks: Manifest, **spec: Any) -> Manifest:
    given = {"queue": "research", "schedulerName": "volcano", "tasks": list(tasks) or [task()], **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {}, "spec": given}


def task(replicas: int = 1, **spec: Any) -> Manifest:
    return {"name": "worker", "replicas": replicas, "template": {"spec": pod(**spec)}}


def deployment(replicas: int = 1, **spec: Any) -> Manifest:
    labels = {"app": "own"}
    template = {"metadata": {"labels": labels}, "spec": pod(**spec)}
    given = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": given}


def pod_group(**spec: Any) -> Manifest:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {}, "spec": spec}


def one_pod(**spec: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": pod(**spec)}


def config_map(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def egress(*rules: Manifest) -> Manifest:
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": list(rules)}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {}, "spec": spec}


def to_range(cidr: str, *without: str) -> Manifest:
    return egress({"to": [{"podSelector": {}}, {"ipBlock": {"cidr": cidr, "except": list(without)}}]})


EVERY_TAINT = [{"operator": "Exists"}]
CONTROL_PLANE = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]
FORMER = job(task(tolerations=EVERY_TAINT), queue="former")
FORMER["metadata"] |= {"name": "former"}
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
EPHEMERAL = [{"name": "cache", "ephemeral": {"volumeClaimTemplate": CLAIM}}]
REFUSED: list[tuple[Manifest, str, str]] = [
    (service(type="NodePort"), TEAM, "spec.type = NodePort: workloads have addresses inside the cluster alone. Fix: "),
    (service(type="LoadBalancer"), TEAM, "spec.type = LoadBalancer"),
    (service(type="ExternalName", externalName="metadata.internal"), TEAM, "spec.type = ExternalName"),
    (service(externalIPs=["10.0.0.1", "10.0.0.2"]), TEAM, "spec.externalIPs[] = 10.0.0.1, 10.0.0.2: takes over"),
    (command("Queue", "scheduling.volcano.sh/v1beta1", "CloseQueue"), TEAM, "target.kind = Queue: commands are for"),
    (command(version="batch/v1"), TEAM, "target.apiVersion = batch/v1"),
    (job(queue="root"), TEAM, "spec.queue = root: jobs of this namespace wait in its own queues. Fix: use research or"),
    (job(queue="others"), TEAM, "spec.queue = others"),
    (job(queue=None), TEAM, "spec.queue = default"),
    (pod_group(queue="others"), VOLCANO_ACCOUNT, "spec.queue = others"),
    (pod_group(), VOLCANO_ACCOUNT, "spec.queue = default"),
    (job(priorityClassName="system-node-critical"), TEAM, "spec.priorityClassName = system-node-critical"),
    (job(task(priorityClassName="vision.high")), TEAM, "priorityClassName = vision.high: puts them before"),
    (deployment(priorityClassName="system-cluster-critical"), TEAM, "priorityClassName = system-cluster-critical"),
    (one_pod(priorityClassName="system-node-critical"), VOLCANO_ACCOUNT, "priorityClassName = system-node-critical"),
    (job(schedulerName="default-scheduler"), TEAM, "spec.schedulerName = default-scheduler"),
    (job(schedulerName=None), TEAM, "spec.schedulerName = nothing"),
    (job(task(nodeName="node-0")), TEAM, "nodeName = node-0: gets past the scheduler"),
    (deployment(nodeName="node-0"), TEAM, "nodeName = node-0"),
    (one_pod(nodeName="node-0"), VOLCANO_ACCOUNT, "nodeName = node-0"),
    (job(task(), {**task(tolerations=EVERY_TAINT), "name": "other"}), TEAM, "tolerations[].key = nothing: tolerates"),
    (deployment(tolerations=CONTROL_PLANE), TEAM, "tolerations[].key = node-role.kubernetes.io/control-plane"),
    (one_pod(tolerations=EVERY_TAINT), VOLCANO_ACCOUNT, "tolerations[].key = nothing"),
    (deployment(volumes=EPHEMERAL), TEAM, "volumes[].ephemeral = given: lets Kubernetes create a claim"),
    (
        deployment(volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
        TEAM,
        "volumes[].hostPath = given: gives the pod",
    ),
    (job(task(hostPID=True)), TEAM, "hostPID = true: gives the pod its node"),
    (one_pod(hostIPC=True), VOLCANO_ACCOUNT, "hostIPC = true"),
    (job(task(**contained(privileged=True))), TEAM, "containers[].securityContext.privileged = true"),
    (job(task(initContainers=contained(privileged=True)["containers"])), TEAM, "initContainers[].securityContext.priv"),
    (deployment(**contained(capabilities={"add": ["IPC_LOCK", "SYS_ADMIN"]})), TEAM, "capabilities.add[] = SYS_ADMIN:"),
    (job(volumes=[{"mountPath": "/a", "volumeClaim": CLAIM["spec"]}]), TEAM, "spec.volumes[].volumeClaim = given"),
    (job(task(2**31 - 1)), TEAM, "spec.tasks[].replicas = 2147483647: a role has at most 1000 pods"),
    (job(*({**task(), "name": f"role-{number}"} for number in range(17))), TEAM, "spec.tasks = 17"),
    (deployment(1001), TEAM, "spec.replicas = 1001"),
    (egress({"ports": [{"port": 443}]}), TEAM, "spec.egress[].to = nothing: opens every address"),
    (to_range("0.0.0.0/0"), TEAM, "spec.egress[].to[].ipBlock = 0.0.0.0/0: opens the metadata of nodes"),
    (to_range("0.0.0.0/0", "169.254.0.0/16"), TEAM, "opens the metadata"),
    (to_range("0.0.0.0/0", "169.254.0.0/16", "100.100.100.201/32"), TEAM, "opens the metadata"),
    (to_range("169.254.169.254/32"), TEAM, "= 169.254.169.254/32: opens the metadata"),
    (to_range("100.64.0.0/10"), TEAM, "= 100.64.0.0/10: opens the metadata"),
]
ADMITTED: list[tuple[Manifest, str]] = [
    (service(), TEAM),
    (service(type="ClusterIP", clusterIP="None"), TEAM),
    (command(), TEAM),
    (command(action="ResumeJob"), TEAM),
    (job(priorityClassName="team.high"), TEAM),
    (job(task(1000, priorityClassName="team.low", tolerations=[{"key": "gpu", "operator": "Exists"}])), TEAM),
    (job(task(hostNetwork=True, **contained(privileged=False, capabilities={"add": ["IPC_LOCK"]}))), TEAM),
    (deployment(1000, priorityClassName="team.high"), TEAM),
    (one_pod(priorityClassName="of-the-cluster"), VOLCANO_ACCOUNT),
    (pod_group(queue="production"), VOLCANO_ACCOUNT),
    (egress({"to": ANYWHERE, "ports": [{"port": 443}]}), TEAM),
    (to_range("203.0.113.0/24"), TEAM),
    (to_range("0.0.0.0/0", "169.0.0.0/8", "100.64.0.0/10"), TEAM),
    (to_range("2001:db8::/32"), TEAM),
    (config_map("athanor-source-0"), TEAM),
    (config_map("athanor-platform"), TEAM),  # a preview's dry run
]


@each_row(("manifest", "user", "said"), REFUSED)
def test_what_reaches_beyond_the_namespace_is_refused_with_a_fix(server, manifest, user, said):
    answer = server.tried(manifest, user)
    assert said in answer
    assert "Fix: " in answer


@each_row(("manifest", "user"), ADMITTED)
def test_what_stays_in_it_is_admitted(server, manifest, user):
    assert server.tried(manifest, user) == ""


@pytest.mark.parametrize(
    ("user", "owner", "allowed"),
    [(VOLCANO_ACCOUNT, None, False), (VOLCANO_ACCOUNT, "Job", True), (ADMINISTRATOR, None, True)],
)
def test_volcano_deletes_and_changes_only_what_it_made_for_a_job(server, user, owner, allowed):
    """The name of a job decides what its plugins change: NAME, NAME-svc, NAME-ssh."""
    owners = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": owner, "name": "train", "uid": "1"}] if owner else []
    manifest = config_map("train-svc")
    manifest["metadata"] |= {"ownerReferences": owners, "namespace": NAMESPACE}
    administrator, path = server.by[ADMINISTRATOR], path_of(manifest)
    administrator.request("POST", path, manifest)
    named = f"{path}/train-svc"
    for method, body in (("PUT", {**manifest, "data": {"hosts": "theirs"}}), ("DELETE", None)):
        status, answer = server.by[user].ask(method, f"{named}?dryRun=All", body)
        assert (status == 200) is allowed, answer
        assert allowed or "metadata.name = train-svc: Volcano changes and deletes" in answer["message"]
    administrator.request("DELETE", named)


def test_volcano_has_rights_on_secrets_in_the_workloads_namespace_alone(server):
    paths = [f"api/v1/namespaces/{namespace}/secrets" for namespace in (NAMESPACE, "kube-system")]
    asked = [server.by[VOLCANO_ACCOUNT].ask("GET", path) for path in (f"{paths[0]}/train-ssh", *paths)]
    assert [status for status, _ in asked] == [404, 403, 403]


@pytest.mark.parametrize("name", ["athanor-platform", "athanor-run"])
def test_a_team_neither_creates_nor_changes_nor_deletes_what_describes_the_platform(server, name):
    administrator, manifest = server.by[ADMINISTRATOR], config_map(name)
    path = path_of(manifest)
    refused = [server.by[TEAM].ask("POST", path, manifest)]
    administrator.request("POST", path, manifest)
    change = {"metadata": {"annotations": {"athanor.dev/outputs": "{}"}}}
    refused += [
        server.by[TEAM].ask("PATCH", f"{path}/{name}", change, MERGE),
        server.by[TEAM].ask("DELETE", f"{path}/{name}"),
    ]
    administrator.request("DELETE", f"{path}/{name}")
    for status, answer in refused:
        assert (status, f"metadata.name = {name}: describes the platform" in answer["message"]) == (403, True), answer


def test_what_was_there_before_may_be_labelled_but_not_changed(server):
    """Controllers still handle jobs in a queue that the stack no longer has."""
    path = f"{path_of(FORMER)}/former?dryRun=All"
    labelled = {"metadata": {"labels": {"seen": "yes"}, "finalizers": ["example.com/end"]}}
    assert server.by[TEAM].ask("PATCH", path, labelled, MERGE)[0] == 200
    status, answer = server.by[TEAM].ask("PATCH", path, {"spec": {"maxRetry": 4}}, MERGE)
    assert (status, "spec.queue = former" in answer["message"]) == (403, True)
