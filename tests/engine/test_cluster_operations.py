"""What an operator does in a cluster that runs the platform, as docs/operate.md says it: real engine and API server.

Nothing runs in this cluster. One platform is installed in it; each test has a copy of the project with its state, and
changes nothing in the cluster that another one looks at.
"""

from __future__ import annotations

import http.client
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from infra.volcano import CONTROLLERS, SCHEDULER
from infra.volcano.crds import CRDS, chart_folder
from tests.fixtures.api_server import empty_api_server
from tests.fixtures.engine_project import EngineProject, Step
from tests.waiting import wait_until
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.cluster_api import ApiCalls

PROGRAM = """
import os
from pathlib import Path
import infra.versions
infra.versions.VOLCANO = os.environ["RELEASE"]
import pulumi
from infra.cluster import ExistingCluster
from infra.cluster_access import ExistingClusterArgs
from infra.scheduling import GangScheduling, GangSchedulingArgs
from infra.settings.scheduling import SchedulingSettings

def without_waiting(args):
    # No controller creates the pods that the provider waits for.
    if args.type_ != "kubernetes:apps/v1:Deployment":
        return None
    metadata = {**args.props["metadata"], "annotations": {"pulumi.com/skipAwait": "true"}}
    return pulumi.ResourceTransformResult({**args.props, "metadata": metadata}, args.opts)

pulumi.runtime.register_resource_transform(without_waiting)
cluster = ExistingCluster("cluster", ExistingClusterArgs(kubeconfig=Path("kubeconfig"), context="theirs"))
arguments = GangSchedulingArgs(settings=SchedulingSettings(), namespace="team-a")
GangScheduling("scheduling", arguments, pulumi.ResourceOptions(provider=cluster.provider))
"""
RELEASE, NEXT_RELEASE = "1.14.1", "1.15.0"
JOBS = CRDS[0]
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
PROVIDER = "pulumi:providers:kubernetes"
ACCOUNTS = "api/v1/namespaces/kube-system/serviceaccounts"


class Platform(NamedTuple):
    """A stack with Volcano in a cluster."""

    project: EngineProject
    api: ApiCalls

    def use(self, token: str, host: str = "127.0.0.1") -> None:
        """Write a kubeconfig in which this token stands for the user, and the API server has this name."""
        server = self.api.server.replace("127.0.0.1", host)
        cluster = {"server": server, "insecure-skip-tls-verify": True}
        content = {
            "contexts": [{"name": "theirs", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        (self.project.folder / "kubeconfig").write_text(yaml.safe_dump(content), encoding="utf-8")


def administrator(api: ApiCalls, name: str) -> str:
    """Create an account that may do anything, and return a token of it."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    api.request("POST", ACCOUNTS, {"metadata": {"name": name}})
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    api.request("POST", "apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    token = api.request("POST", f"{ACCOUNTS}/{name}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    wait_until(lambda: answer_to(api, token) == http.client.OK, f"{name} to be known")
    return token


def answer_to(api: ApiCalls, token: str) -> int:
    """Return the HTTP status of a request by the account that a token belongs to."""
    with closing(api.asked_by(token)) as caller:
        return caller.ask("GET", "api/v1/nodes")[0]


def revoke(api: ApiCalls, name: str, token: str) -> None:
    """Delete an account, and return once its token opens nothing."""
    api.request("DELETE", f"{ACCOUNTS}/{name}")
    wait_until(lambda: answer_to(api, token) == http.client.UNAUTHORIZED, f"{name} to be refused")


def write_release(charts: Path) -> None:
    """Write the chart of a later release, in which a job has one more field."""
    shutil.copytree(chart_folder(), charts / f"volcano-{RELEASE}")
    following = shutil.copytree(chart_folder(), charts / f"volcano-{NEXT_RELEASE}")
    file = following / "crd" / "bases" / f"{JOBS}.yaml"
    jobs: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    for version in jobs["spec"]["versions"]:
        fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        fields["ofTheNextRelease"] = {"type": "string"}
    file.write_text(yaml.safe_dump(jobs), encoding="utf-8")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("cluster")
    write_release(folder / "cache" / "charts")
    with empty_api_server(folder) as api:
        variables = {"RELEASE": RELEASE, "ATHANOR_CACHE": str(folder / "cache")}
        project = EngineProject.create(folder / "project", PROGRAM, "kubernetes", variables)
        platform = Platform(project, api)
        platform.use(administrator(api, "first"))
        project.up()
        yield platform


@pytest.fixture
def platform(installed: Platform, tmp_path: Path) -> Platform:
    """A copy of the stack, on the same cluster."""
    return Platform(installed.project.copied_to(tmp_path / "project"), installed.api)


def test_an_upgrade_of_volcano_changes_its_deployments_and_the_crds_that_differ(platform: Platform) -> None:
    assert platform.project.with_variables(RELEASE=NEXT_RELEASE).steps() == {
        Step("update", DEPLOYMENT, SCHEDULER),
        Step("update", DEPLOYMENT, CONTROLLERS),
        Step("update", CRD, f"crd-{JOBS}"),
    }


def test_a_new_kubeconfig_updates_the_provider_and_replaces_nothing(platform: Platform) -> None:
    platform.use(administrator(platform.api, "second"), host="localhost")

    assert platform.project.steps() == {Step("update", PROVIDER, "kubernetes")}
    platform.project.up()
    platform.project.preview("--refresh", "--expect-no-changes")


def test_a_revoked_kubeconfig_is_refused_until_the_file_has_a_new_one(platform: Platform) -> None:
    old = administrator(platform.api, "third")
    platform.use(old)
    platform.project.up()
    revoke(platform.api, "third", old)

    with pytest.raises(CommandError, match="provide credentials"):
        platform.project.preview("--refresh")
    platform.use(administrator(platform.api, "fourth"))
    platform.project.up()

    platform.project.preview("--refresh", "--expect-no-changes")
