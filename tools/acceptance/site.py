"""The context that the steps of a run share: stack, engine, account, cluster, and time limits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import yaml

from athanor.account.credentials import open_cloud
from infra.node_labels import POOL_LABEL
from infra.pools import SIMULATED_TAINT
from tools.acceptance.findings import StepFailedError
from tools.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from rich.console import Console

    from athanor.account.cloud import Cloud
    from athanor.inspection.objects import Object
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.node_pools import NodePoolSettings
    from infra.settings.stack import Settings
    from tools.acceptance.jobs import Jobs
    from tools.acceptance.journal import Journal
    from tools.progress import Progress
    from tools.stacks.engine import Engine

    Found = TypeVar("Found")

_KUBECONFIG_MINUTES = 24 * 60
"""Validity of a run's kubeconfig (DescribeClusterUserKubeconfig takes 15 minutes to 3 days)."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Time limits in seconds. They are generous guesses, not measurements."""

    poll: float = 5.0
    node: float = 1200.0
    """A machine is bought, boots, installs its GPU driver and joins."""
    job: float = 2400.0
    """A job pulls an image of several GB onto a new node, then runs."""
    shrink: float = 1800.0
    """An idle node is taken away: the autoscaler looks at it for some minutes first."""
    gone: float = 600.0
    """Until deleted resources are no longer listed."""


@dataclass(kw_only=True)
class Site:
    """The context of a run."""

    stack: str
    settings: Settings
    engine: Engine
    kubectl_program: Path
    journal: Journal
    console: Console
    report: Progress
    environment: Mapping[str, str]
    pools: Sequence[NodePoolSettings]
    """GPU pools that the run uses."""
    patience: Patience = field(default_factory=Patience)

    @property
    def alicloud(self) -> AlicloudSettings:
        """The settings of the environment."""
        assert self.settings.alicloud is not None
        return self.settings.alicloud

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return self.journal.folder

    @cached_property
    def cloud(self) -> Cloud:
        """The account and region, asked with the caller's credentials."""
        return open_cloud(self.alicloud, self.environment)

    @cached_property
    def outputs(self) -> Mapping[str, Any]:
        """The stack's outputs, once `up` has run."""
        return self.engine.outputs()

    @property
    def cluster_id(self) -> str:
        """Id of the ACK cluster."""
        return str(self.outputs["alicloud_cluster_id"])

    @property
    def kubectl(self) -> Kubectl:
        """The ACK cluster's, with a kubeconfig that ACK gives for a day."""
        return self._kubectl

    @cached_property
    def _kubectl(self) -> Kubectl:
        public = self.alicloud.kubernetes.public_api_server
        answer = self.cloud.get(
            f"/k8s/{self.cluster_id}/user_config",
            "DescribeClusterUserKubeconfig",
            PrivateIpAddress=str(not public).lower(),
            TemporaryDurationMinutes=str(_KUBECONFIG_MINUTES),
        )
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(answer["config"], encoding="utf-8")
        context = cast("dict[str, str]", yaml.safe_load(answer["config"]))["current-context"]
        return Kubectl(program=self.kubectl_program, kubeconfig=self.kubeconfig, context=context)

    @property
    def kubeconfig(self) -> Path:
        """The run's kubeconfig; it goes with the run."""
        return self.folder / "kubeconfig"

    @cached_property
    def jobs(self) -> Jobs:
        """The run's jobs on the platform."""
        # It brings the SDKs of the engine along, which no unit test of a step needs.
        from tools.acceptance.jobs import Jobs  # noqa: PLC0415

        return Jobs(self)

    def nodes(self, pool: str) -> list[Object]:
        """Return a pool's machines: nodes with an id of the cloud's, which a stand-in that runs their pods lacks."""
        listed = self.kubectl.items("nodes", None, f"{POOL_LABEL}={pool}")
        return [node for node in listed if node["spec"].get("providerID")]

    def wait(self, look: Callable[[], Found | None], what: str, seconds: float) -> Found:
        """Return the result of `look` once there is one.

        Args:
            look: returns something true when it is there.
            what: names it, in the report.
            seconds: how long it is waited for.

        Raises:
            StepFailedError: it was not there in time.
        """
        end = time.monotonic() + seconds
        self.report.detail(f"waiting for {what}")
        while not (result := look()):
            if time.monotonic() > end:
                raise StepFailedError(f"{what}: not within {seconds:.0f} s")
            time.sleep(self.patience.poll)
        return result


def is_simulated(node: Object) -> bool:
    """Return whether a node is simulated: the API double keeps it alive with kwok, and no program ever runs there."""
    return SIMULATED_TAINT.key in node["metadata"].get("annotations", {})


def is_ready(node: Object) -> bool:
    """Return whether a node is Ready."""
    conditions: Sequence[Mapping[str, str]] = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
