"""The whole configuration of one stack."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from infra.errors import choices
from infra.instance_types import INSTANCE_TYPES, instance_type
from infra.namespaces import PodSecurity, owner_of
from infra.prices import Prices
from infra.registry import private_region
from infra.settings.alicloud import AlicloudSettings
from infra.settings.alicloud_kubernetes import Edition
from infra.settings.clean_up import CleanUpSettings
from infra.settings.cluster import ClusterSettings
from infra.settings.digits import DigitsSettings
from infra.settings.fields import DnsLabel, Model
from infra.settings.gateway import GatewaySettings
from infra.settings.gpu import ClusterGpuSettings
from infra.settings.images import ImageSettings, PackageIndexSettings
from infra.settings.monitoring import MonitoringSettings
from infra.settings.scheduling import SchedulingSettings
from infra.settings.storage import StorageSettings

_PRICED = (*INSTANCE_TYPES, *get_args(Edition))


def _sold_by_the_hour(name: str) -> str:
    if name not in _PRICED:
        raise ValueError(f"is neither an instance type nor an edition that we know. Fix: {choices(name, _PRICED)}")
    return name


def _price(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError("is not a price of one hour. Fix: write a number of at least 0, such as 7.1")
    return value


PriceName = Annotated[str, AfterValidator(_sold_by_the_hour)]
Price = Annotated[float, BeforeValidator(_price)]


class PriceSettings(Prices):
    """Prices of one's own, which replace those of the built-in list one by one."""

    per_hour: dict[PriceName, Price] = Field(min_length=1)
    """Price of one hour by instance type, such as `ecs.gn7i-c8g1.2xlarge`, and by edition of the control plane, such as
    `ack.pro.small`."""


Admission = Literal["refuse", "warn", "off"]


def _of_ones_own(namespace: str) -> str:
    """Refuse a namespace of somebody else's: it would be closed, and deleted by `destroy`."""
    owner = owner_of(namespace)
    if owner:
        raise ValueError(f"belongs to {owner}. Fix: choose a namespace only for the workloads, such as athanor")
    return namespace


class Settings(Model):
    """The whole configuration of one stack."""

    namespace: Annotated[DnsLabel, AfterValidator(_of_ones_own)] = "athanor"
    """Namespace for the workloads; the stack creates it. The platform's own components run in other namespaces."""
    leave_namespace: DnsLabel | None = None
    """Previous `namespace`, which may be deleted with everything in it. Without it, a rename is refused."""
    pod_security: PodSecurity = "restricted"
    """Pod Security level of that namespace; host network and Lingjun's RDMA need `privileged`."""
    admission: Admission = "refuse"
    """What the API server does with objects in that namespace that reach beyond it, such as Services with addresses of
    nodes or jobs in others' queues: refuses them, warns and writes it into the audit log, or nothing. It needs
    Kubernetes 1.30."""
    alicloud: AlicloudSettings | None = None
    """Environment to create on Alibaba Cloud. Default: none; the cluster already exists."""
    cluster: ClusterSettings = ClusterSettings()
    """Which Kubernetes cluster the stack runs on."""
    gpu: ClusterGpuSettings = ClusterGpuSettings()
    """What runs on GPU nodes in addition to the workloads."""
    storage: StorageSettings = StorageSettings()
    """The volumes of the workloads."""
    scheduling: SchedulingSettings = SchedulingSettings()
    """Volcano and its queues."""
    clean_up: CleanUpSettings = CleanUpSettings()
    """What becomes of the pods of finished jobs."""
    monitoring: MonitoringSettings = MonitoringSettings()
    """Metrics, alerts, dashboards and logs."""
    gateway: GatewaySettings = GatewaySettings()
    """How clients outside the cluster reach services."""
    images: ImageSettings = ImageSettings()
    """Where images come from."""
    package_index: PackageIndexSettings | None = None
    """Where jobs with `requirements` install Python packages from. Default: the index of Python, if a job's `egress`
    lets it get there."""
    prices: PriceSettings | None = None
    """Your prices, for estimates of costs: reviews of changes, cost tables, the acceptance run. By default, the list in
    infra/instance_types.py; it also gives what is left out here. Dashboards, policies and
    `athanor run` use that list."""
    digits: DigitsSettings = DigitsSettings()
    """The example workload."""

    @model_validator(mode="after")
    def _storage_exists_where_the_cluster_is_ours(self) -> Self:
        if self.runs_on_own_local_cluster and self.storage.storage_class:
            raise ValueError(
                f"storage.storage_class = {self.storage.storage_class!r}: the local cluster has no StorageClass. Fix:"
                " omit it, or set cluster.kubeconfig to use your own cluster"
            )
        return self

    @model_validator(mode="after")
    def _cluster_is_one(self) -> Self:
        if self.alicloud and self.cluster.kubeconfig:
            raise ValueError(
                f"cluster.kubeconfig = {self.cluster.kubeconfig!r}: this stack creates its own cluster under alicloud."
                " Fix: omit one of them"
            )
        return self

    @model_validator(mode="after")
    def _ack_brings_a_device_plugin(self) -> Self:
        if self.alicloud and self.gpu.device_plugin:
            raise ValueError(
                "gpu.device_plugin = True: ACK has its own device plugin, and a node can have only one. Fix: omit"
                " gpu.device_plugin; configure sharing under alicloud.node_pools[].gpu"
            )
        return self

    @model_validator(mode="after")
    def _registry_is_in_reach(self) -> Self:
        if self.alicloud is None:
            return self
        ours = self.alicloud.region
        for name, reference in self.images.pulled.items():
            if private_region(reference) not in (None, ours):
                raise ValueError(
                    f"images.{name} = {reference!r}: a -vpc address is reached from VPCs of its own region, and the"
                    f" cluster is in {ours}. Fix: use an instance in {ours}, or replicate this one there"
                )
        return self

    @model_validator(mode="after")
    def _services_of_the_cloud_need_it(self) -> Self:
        monitoring = self.monitoring
        cloud_services = {
            "kind = 'managed'": monitoring.kind == "managed",
            "logs.kind = 'sls'": monitoring.logs.kind == "sls",
        }
        for setting, is_chosen in cloud_services.items():
            if is_chosen and self.alicloud is None:
                raise ValueError(
                    f"monitoring.{setting}: is a service of Alibaba Cloud. Fix: omit it, or describe the environment"
                    " under alicloud"
                )
        return self

    @model_validator(mode="after")
    def _resource_metrics_have_one_server(self) -> Self:
        if self.alicloud and self.monitoring.autoscaling.resource_metrics:
            raise ValueError(
                "monitoring.autoscaling.resource_metrics = True: ACK has its own metrics-server, and only one can serve"
                " them. Fix: omit it"
            )
        return self

    @model_validator(mode="after")
    def _gateway_has_its_address(self) -> Self:
        if self.runs_on_own_local_cluster and self.gateway.address != "cluster":
            raise ValueError(
                f"gateway.address = {self.gateway.address!r}: the local cluster has no load balancers. Fix: omit it, or"
                " set cluster.kubeconfig to use your own cluster"
            )
        # The annotation that asks for it is Alibaba Cloud's. Others ignore it, and services without authentication,
        # which are refused on a public address alone, would be on the internet.
        if self.alicloud is None and self.gateway.address == "internal":
            raise ValueError(
                "gateway.address = 'internal': needs alicloud, for load balancers of other clusters are usually public."
                " Fix: use 'public' with allowed_cidrs, or 'cluster' behind a load balancer of your own"
            )
        return self

    @model_validator(mode="after")
    def _queues_of_webhooks_exist(self) -> Self:
        queues = [queue.name for queue in self.scheduling.queues]
        for number, webhook in enumerate(self.monitoring.run_webhooks):
            if webhook.queue is not None and webhook.queue not in queues:
                raise ValueError(
                    f"monitoring.run_webhooks.{number}.queue = {webhook.queue!r}: is not under scheduling.queues, so"
                    f" nobody would be notified. Fix: {choices(webhook.queue, queues)}"
                )
        return self

    @model_validator(mode="after")
    def _each_gpu_has_one_exporter(self) -> Self:
        if self.monitoring.kind == "managed" and self.gpu.dcgm_exporter:
            raise ValueError(
                "gpu.dcgm_exporter = True: ACK's managed Prometheus has its own exporter, and both would read each"
                " GPU. Fix: omit gpu.dcgm_exporter, or set monitoring.kind to operator"
            )
        return self

    @model_validator(mode="after")
    def _copies_have_nodes(self) -> Self:
        if self.runs_on_own_local_cluster and self.monitoring.replicas > 1:
            raise ValueError(
                f"monitoring.replicas = {self.monitoring.replicas}: the local cluster has only one node and one disk"
                " for them. Fix: omit it, or set cluster.kubeconfig to use your own cluster"
            )
        return self

    @model_validator(mode="after")
    def _example_has_its_gpus(self) -> Self:
        gpus = self.digits.gpus_per_worker if self.digits.enabled else 0
        simulated = any(instance_type(group.instance_type).gpus for group in self.cluster.simulated_nodes)
        if gpus and self.runs_on_own_local_cluster and not (simulated or self.gpu.device_plugin):
            raise ValueError(
                f"digits.gpus_per_worker = {gpus}: the local cluster's node has no GPU. Fix: omit it, or set"
                " cluster.kubeconfig to use a cluster with GPUs"
            )
        return self

    @property
    def serves_resource_metrics(self) -> bool:
        """Whether the stack's own metrics adapter serves metrics.k8s.io."""
        asked = self.monitoring.autoscaling.resource_metrics
        return self.monitoring.has_metrics_adapter and (self.runs_on_own_local_cluster if asked is None else asked)

    @property
    def runs_on_own_local_cluster(self) -> bool:
        """Whether the stack runs on the cluster that `make up` starts."""
        return self.alicloud is None and self.cluster.kubeconfig is None
