"""Logs in Alibaba Cloud's Log Service (SLS): the configuration of its collector, an add-on of ACK.

Source: SLS, "AliyunPipelineConfig parameters", 2026-02-04; LoongCollector, docs/cn/plugins, input-container-stdio and
processor-parse-json-native.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.errors import RefusalError
from infra.manifests import Manifest, resource
from infra.monitoring.logs import JOB_FIELD, LABEL_FIELDS, RUN_FIELD, SERVICE_FIELD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.monitoring import LogSettings

NAME = "athanor-pods"
"""Name of the configuration and of its logstore."""
_FOR_EVER_DAYS = 3650
_LONGEST_DAYS = 3000
_TAGS = {JOB_FIELD: "job", RUN_FIELD: "run", SERVICE_FIELD: "service"}


@dataclass(frozen=True, kw_only=True)
class LogServiceArgs:
    """Arguments of LogService."""

    settings: LogSettings
    cluster_id: pulumi.Input[str]
    depends_on: Sequence[pulumi.Resource]
    """The add-ons: the collector brings the definition of its configurations."""


def collection_manifest(settings: LogSettings, project: pulumi.Input[str]) -> Manifest:
    """Return the configuration: what all containers print, a line that is a JSON object as its fields.

    Raises:
        RefusalError: the Log Service has no such retention.
    """
    days = settings.retention_days
    if _LONGEST_DAYS < days < _FOR_EVER_DAYS:
        limit = f"the Log Service keeps logs for at most {_LONGEST_DAYS} days or, with {_FOR_EVER_DAYS}, forever"
        raise RefusalError(
            "athanor:monitoring.logs.retention_days", days, limit, f"use {_LONGEST_DAYS} or {_FOR_EVER_DAYS}"
        )
    labels = {field.removeprefix(LABEL_FIELDS): tag for field, tag in _TAGS.items()}
    return {
        "apiVersion": "telemetry.alibabacloud.com/v1alpha1",
        "kind": "ClusterAliyunPipelineConfig",
        "metadata": {"name": NAME},
        "spec": {
            "project": {"name": project},
            "logstores": [{"name": NAME, "ttl": days}],
            "config": {
                "inputs": [
                    {
                        "Type": "input_container_stdio",
                        "IgnoringStdout": False,
                        "IgnoringStderr": False,
                        "ExternalK8sLabelTag": labels,
                    }
                ],
                "processors": [
                    # A line that is not JSON stays as it is.
                    {
                        "Type": "processor_parse_json_native",
                        "SourceKey": "content",
                        "KeepingSourceWhenParseFail": True,
                    }
                ],
                "flushers": [{"Type": "flusher_sls", "Logstore": NAME}],
            },
        },
    }


class LogService(pulumi.ComponentResource):
    """The collection of all pods' logs into the Log Service."""

    def __init__(self, name: str, args: LogServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:LogService", name, None, opts)
        # The add-on makes a project of this name.
        manifest = collection_manifest(args.settings, pulumi.Output.concat("k8s-log-", args.cluster_id))
        resource(NAME, manifest, pulumi.ResourceOptions(parent=self, depends_on=list(args.depends_on)))
        self.register_outputs({"logstore": NAME})
