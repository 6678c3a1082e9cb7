"""What the program asks ACK about versions, by the real engine and provider: of Kubernetes once, of add-ons always."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.api_double.cs.versions import release
from tests.api_double.double import ApiDouble
from tests.fixtures.engine_project import EngineProject
from tests.unit.api_double.cs.service import Service
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import json
from pathlib import Path

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.addon_versions import installed_versions, never_lower
from infra.alicloud.kubernetes_version import kubernetes_version
from infra.settings.alicloud_kubernetes import KubernetesSettings

wanted = json.loads(Path("wanted.json").read_text())
provider = alicloud.Provider("cloud", region="cn-hangzhou", account_type="Domestic")


class Cluster(pulumi.ComponentResource):
    def __init__(self):
        super().__init__("test:index:Cluster", "cluster", None, pulumi.ResourceOptions(provider=provider))
        self.cluster_id = pulumi.Output.from_input(wanted["cluster"])


cluster = Cluster()
pulumi.export("version", kubernetes_version(KubernetesSettings(version=wanted["version"]), cluster))
if wanted["addon"]:
    installed = installed_versions(cluster)
    alicloud.cs.KubernetesAddon(
        "coredns",
        cluster_id=cluster.cluster_id,
        name="coredns",
        version=installed.apply(lambda known: never_lower(wanted["addon"], known.get("coredns", ""))),
        config=json.dumps({"replicas": wanted["replicas"]}, separators=(",", ":")),
        opts=pulumi.ResourceOptions(parent=cluster),
    )
"""


class Stack:
    """A stack, its double, and the one cluster of the double."""

    def __init__(self, project: EngineProject, double: ApiDouble) -> None:
        self.project = project
        self.double = double
        self.service = Service(double.account)
        self.cluster = self.service.cluster()
        self.service.pool(self.cluster, "system")

    def want(self, version: str, *, addon: str = "", replicas: int = 2) -> None:
        inputs = {"version": version, "addon": addon, "replicas": replicas, "cluster": self.cluster}
        (self.project.folder / "wanted.json").write_text(json.dumps(inputs), encoding="utf-8")

    def version(self) -> str:
        return json.loads(self.project.run("stack", "output", "--json"))["version"]

    def addon(self) -> str:
        return self.service.call("GET", f"/clusters/{self.cluster}/addon_instances/coredns")["version"]

    def asked_for_versions(self) -> int:
        return len(self.double.log.calls("DescribeKubernetesVersionMetadata"))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    double = ApiDouble(tmp_path_factory.mktemp("double"))
    double.start()
    try:
        folder = tmp_path_factory.mktemp("project")
        yield Stack(EngineProject.create(folder, PROGRAM, "alicloud", double.environment()), double)
        assert double.mistakes() == []
        assert double.unknown_operations() == []
    finally:
        double.stop()


def test_a_preview_asks_for_no_patch_and_says_so(stack: Stack) -> None:
    stack.want("1.34")
    assert "a preview does not query ACK for the patch it offers" in stack.project.preview()
    assert stack.asked_for_versions() == 0


def test_a_minor_that_is_not_offered_is_refused_with_what_is(stack: Stack) -> None:
    stack.want("1.33")
    with pytest.raises(CommandError, match=r"ACK offers 1\.36\.2-aliyun\.1, 1\.35\.7-aliyun\.1, 1\.34\.10-aliyun\.1"):
        stack.project.up()


def test_a_minor_becomes_a_patch_and_stays_it(stack: Stack) -> None:
    stack.want("1.34")
    stack.project.up()
    assert stack.version() == "1.34.10-aliyun.1"
    with stack.double.account.lock:
        release(stack.double.account, "1.34.11-aliyun.1")
    stack.project.preview("--expect-no-changes")
    stack.project.up("--expect-no-changes")
    stack.project.run("refresh", "--yes", "--expect-no-changes")
    assert stack.version() == "1.34.10-aliyun.1"


def test_another_minor_is_asked_for_again(stack: Stack) -> None:
    stack.want("1.35")
    stack.project.up()
    assert stack.version() == "1.35.7-aliyun.1"


def test_an_addon_is_upgraded_and_never_goes_back(stack: Stack) -> None:
    stack.want("1.35", addon="v1.12.1.3")
    stack.project.up()
    assert stack.addon() == "v1.12.1.3"
    stack.project.preview("--expect-no-changes")

    # In the console somebody upgrades it, and here its configuration changes: the provider compares versions then, too.
    upgrade = [{"component_name": "coredns", "next_version": "v1.13.0"}]
    stack.service.finish(stack.service.call("POST", f"/clusters/{stack.cluster}/components/upgrade", upgrade))
    stack.want("1.35", addon="v1.12.1.4", replicas=3)
    stack.project.up()
    assert stack.addon() == "v1.13.0"
    stack.project.preview("--expect-no-changes")
