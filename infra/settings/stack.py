"""The whole configuration of one stack."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from infra.namespaces import PodSecurity
from infra.settings.alicloud import AlicloudSettings
from infra.settings.clean_up import CleanUpSettings
from infra.settings.cluster import ClusterSettings
from infra.settings.digits import DigitsSettings
from infra.settings.fields import DnsLabel, Model
from infra.settings.gpu import ClusterGpuSettings
from infra.settings.images import ImageSettings
from infra.settings.monitoring import MonitoringSettings
from infra.settings.scheduling import SchedulingSettings
from infra.settings.storage import StorageSettings


class Settings(Model):
    """The whole configuration of one stack."""

    namespace: DnsLabel = "athanor"
    """Namespace of the workloads. The platform's own parts live in `<part>-system` namespaces."""
    pod_security: PodSecurity = "restricted"
    """Pod Security level of that namespace; host network and Lingjun's RDMA need `privileged`."""
    alicloud: AlicloudSettings | None = None
    """An environment on Alibaba Cloud to create. Default: none, the cluster exists already."""
    cluster: ClusterSettings = ClusterSettings()
    """Which Kubernetes cluster the stack runs on."""
    gpu: ClusterGpuSettings = ClusterGpuSettings()
    """What runs on GPU nodes beside the workloads."""
    storage: StorageSettings = StorageSettings()
    """The volumes of the workloads."""
    scheduling: SchedulingSettings = SchedulingSettings()
    """Volcano and its queues."""
    clean_up: CleanUpSettings = CleanUpSettings()
    """What becomes of the pods of finished jobs."""
    monitoring: MonitoringSettings = MonitoringSettings()
    """Metrics, alerts, dashboards and logs."""
    images: ImageSettings = ImageSettings()
    """Where images come from."""
    digits: DigitsSettings = DigitsSettings()
    """The example workload."""

    @model_validator(mode="after")
    def _storage_exists_where_the_cluster_is_ours(self) -> Self:
        if self.runs_on_own_local_cluster and self.storage.storage_class:
            raise ValueError(
                f"storage.storage_class = {self.storage.storage_class!r}: the local cluster has no StorageClass."
                " Fix: leave it out, or name your own cluster under cluster.kubeconfig"
            )
        return self

    @model_validator(mode="after")
    def _cluster_is_one(self) -> Self:
        if self.alicloud and self.cluster.kubeconfig:
            raise ValueError(
                f"cluster.kubeconfig = {self.cluster.kubeconfig!r}: this stack creates its own cluster under alicloud."
                " Fix: leave out one of the two"
            )
        return self

    @model_validator(mode="after")
    def _ack_brings_a_device_plugin(self) -> Self:
        if self.alicloud and self.gpu.device_plugin:
            raise ValueError(
                "gpu.device_plugin = True: ACK brings its own device plugin, and a node can have only one. Fix: leave"
                " gpu.device_plugin out; sharing belongs under alicloud.node_pools[].gpu"
            )
        return self

    @model_validator(mode="after")
    def _services_of_the_cloud_need_it(self) -> Self:
        monitoring = self.monitoring
        wanted = {"kind = 'managed'": monitoring.kind == "managed", "logs.kind = 'sls'": monitoring.logs.kind == "sls"}
        for setting, is_wanted in wanted.items():
            if is_wanted and self.alicloud is None:
                raise ValueError(
                    f"monitoring.{setting}: is a service of Alibaba Cloud. Fix: leave it out, or describe the"
                    " environment under alicloud"
                )
        return self

    @model_validator(mode="after")
    def _each_gpu_has_one_exporter(self) -> Self:
        if self.monitoring.kind == "managed" and self.gpu.dcgm_exporter:
            raise ValueError(
                "gpu.dcgm_exporter = True: ACK's managed Prometheus brings its own, and both would read each GPU. Fix:"
                " leave gpu.dcgm_exporter out, or set monitoring.kind to operator"
            )
        return self

    @model_validator(mode="after")
    def _copies_have_nodes(self) -> Self:
        if self.runs_on_own_local_cluster and self.monitoring.replicas > 1:
            raise ValueError(
                f"monitoring.replicas = {self.monitoring.replicas}: the local cluster has one node and one disk for"
                " them. Fix: leave it out, or name your own cluster under cluster.kubeconfig"
            )
        return self

    @property
    def runs_on_own_local_cluster(self) -> bool:
        """Whether the stack runs on the cluster that `make up` starts."""
        return self.alicloud is None and self.cluster.kubeconfig is None
