"""The real cluster behind the double's ACK clusters: it is kept as the API says it is."""

from __future__ import annotations

import json
import threading
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from tests.api_double.account import timestamp
from tests.api_double.cs import addons, cluster_objects, growth, machines, simulated_node
from tests.api_double.cs.addon_catalogue import TERWAY
from tests.api_double.cs.autoscaling_config import CLUSTER_AUTOSCALER, SCALERS
from tests.api_double.cs.body import items
from tests.api_double.cs.kubernetes_api import CONFIG_MAPS, CRDS, CSI_DRIVERS, CSI_NODES, NODES, PODS, KubernetesApi
from tests.api_double.cs.simulated_node import MARK, POOL_LABEL, Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api_double.account import Account, Record
    from tests.api_double.cs.kubernetes_api import Object

GPU = "nvidia.com/gpu"
_ALIVE = {"running", "updating", "upgrading", "migrating", "initial"}


@dataclass
class _Desired:
    """What the cluster is to hold."""

    nodes: dict[str, Object] = field(default_factory=dict[str, "Object"])
    eni_config: Object | None = None
    csi_drivers: list[Object] = field(default_factory=list["Object"])
    real_node_labels: dict[str, str] = field(default_factory=dict[str, str])
    """Labels of the oldest pool without GPUs, which the cluster's real nodes join: what must really run runs there."""


class KubernetesSide:
    """Keeps one real cluster like the account's ACK clusters: nodes, Terway's and the storage's objects.

    All work is done by threads of its own, woken by `changed` and by the cluster's own events; a cluster that cannot be
    reached is left alone until the next change.

    Args:
        account: what is to be seen in the cluster.
        kubeconfig: an administrator's kubeconfig of the cluster, which the API hands out, too.
    """

    def __init__(self, account: Account, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self.failures: list[str] = []
        """What the cluster refused, or why it could not be reached."""
        self._account = account
        self._api = KubernetesApi(kubeconfig)
        self.server = self._api.server
        self._wake = threading.Condition()
        self._pending = True
        self._working = False
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._following: set[str] = set()

    def start(self) -> None:
        """Begin to keep the cluster as the account is."""
        self._run(self._keep)

    def close(self) -> None:
        """Stop; what is in the cluster stays there."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        self._api.interrupt()
        for thread in self._threads:
            thread.join()
        self._api.close()

    def changed(self) -> None:
        """Say that the account has changed."""
        with self._wake:
            self._pending = True
            self._wake.notify_all()

    @property
    def busy(self) -> bool:
        """Whether the cluster is not yet as the account is."""
        with self._wake:
            return not self._closed and (self._pending or self._working)

    def await_idle(self) -> None:
        """Wait until the cluster is as the account is, or cannot be made so."""
        with self._wake:
            self._wake.wait_for(lambda: self._closed or not (self._pending or self._working))

    def _run(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception:  # noqa: BLE001 - a mistake of ours must be reported, not waited for forever
                self.failures.append(traceback.format_exc())
                with self._wake:
                    self._closed = True
                    self._wake.notify_all()

        thread = threading.Thread(target=guarded, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _keep(self) -> None:
        while self._next_change():
            try:
                self._bring_about(self._desired())
            except (httpx.HTTPError, OSError) as error:
                self.failures.append(str(error))
            finally:
                with self._wake:
                    self._working = False
                    self._wake.notify_all()

    def _next_change(self) -> bool:
        with self._wake:
            self._wake.wait_for(lambda: self._pending or self._closed)
            self._pending, self._working = False, True
            return not self._closed

    # -- the desired objects ---------------------------------------------------------------------------------------

    def _desired(self) -> _Desired:
        desired = _Desired()
        with self._account.lock:
            for cluster_id, cluster in self._account.all("cluster").items():
                if cluster["state"] in _ALIVE:
                    self._add_cluster(desired, cluster_id, cluster)
        return desired

    def _add_cluster(self, desired: _Desired, cluster_id: str, cluster: Record) -> None:
        installed = {
            name: addon
            for name, addon in addons.installed(self._account, cluster_id).items()
            if addon["state"] != "deleting"
        }
        configuration: dict[str, Any] = json.loads(installed[TERWAY]["config"]) if TERWAY in installed else {}
        if TERWAY in installed:
            desired.eni_config = cluster_objects.eni_config(self._account, cluster, configuration)
        desired.csi_drivers += cluster_objects.csi_drivers(installed)
        for pool_id, pool in self._pools(cluster_id):
            around = _surroundings(pool_id, pool, cluster, set(installed), configuration)
            manifests = [simulated_node.manifest(node, around) for node in pool["_nodes"]]
            desired.nodes |= {manifest["metadata"]["name"]: manifest for manifest in manifests}
            if not desired.real_node_labels and not _has_gpus(pool):
                own = machines.fresh_configuration(pool)["labels"]
                desired.real_node_labels = {**own, POOL_LABEL: pool_id}

    def _pools(self, cluster_id: str) -> list[tuple[str, Record]]:
        return [
            (pool_id, pool)
            for pool_id, pool in self._account.all("node_pool").items()
            if pool["_cluster"] == cluster_id and pool["status"]["state"] != "deleting"
        ]

    # -- bringing it about -----------------------------------------------------------------------------------------

    def _bring_about(self, desired: _Desired) -> None:
        self._bring_about_nodes(desired)
        self._bring_about_terway(desired.eni_config)
        names = {driver["metadata"]["name"] for driver in desired.csi_drivers}
        for driver in desired.csi_drivers:
            self._api.apply(CSI_DRIVERS, driver)
        for driver in self._api.list(CSI_DRIVERS, {"labelSelector": MARK}):
            if driver["metadata"]["name"] not in names:
                self._api.delete(CSI_DRIVERS, driver["metadata"]["name"])
        self._register_drivers(desired.csi_drivers)
        self._follow(PODS, {"fieldSelector": "spec.nodeName=,status.phase=Pending"}, self._on_pending_pod)

    def _register_drivers(self, drivers: list[Object]) -> None:
        driver_names = [driver["metadata"]["name"] for driver in drivers]
        registered: dict[str, list[str]] = {}
        for each in self._api.list(CSI_NODES, {"labelSelector": MARK}):
            present: list[Object] = each["spec"].get("drivers") or []
            registered[each["metadata"]["name"]] = [driver["name"] for driver in present]
        for node in self._api.list(NODES):
            if simulated_node.is_ours(node) and registered.get(node["metadata"]["name"]) != driver_names:
                self._api.apply(CSI_NODES, cluster_objects.csi_node(node, drivers))

    def _bring_about_nodes(self, desired: _Desired) -> None:
        present = {node["metadata"]["name"]: node for node in self._api.list(NODES)}
        for name, node in present.items():
            if simulated_node.is_ours(node):
                if name not in desired.nodes:
                    self._api.delete(NODES, name)
                    self._api.evict(name)
            elif not simulated_node.is_simulated(node):
                # labels that are no longer in what we apply are taken away by the API server
                labels = {"metadata": {"name": name, "labels": desired.real_node_labels}}
                self._api.apply(NODES, {"apiVersion": "v1", "kind": "Node", **labels})
        for name, manifest in desired.nodes.items():
            if simulated_node.digest(present.get(name)) == simulated_node.digest(manifest):
                continue
            made = self._api.apply(NODES, manifest)
            if name in present:
                self._api.patch_status(NODES, name, simulated_node.status_patch(made, manifest))

    def _bring_about_terway(self, eni_config: Object | None) -> None:
        crd = cluster_objects.pod_networking_crd()
        if eni_config is None:
            self._api.delete(CRDS, crd["metadata"]["name"])
            if self._api.list(CONFIG_MAPS, {"labelSelector": f"{MARK}={TERWAY}"}):
                self._api.delete(CONFIG_MAPS, cluster_objects.ENI_CONFIG)
            return
        self._api.apply(CRDS, crd)
        self._api.create(CONFIG_MAPS, eni_config)
        self._await_crd(crd["metadata"]["name"])
        self._follow(cluster_objects.POD_NETWORKINGS, {}, self._on_pod_networking)

    def _await_crd(self, name: str) -> None:
        for crd in self._api.watch(CRDS, {"fieldSelector": f"metadata.name={name}"}):
            # null right after its birth
            conditions: list[dict[str, str]] = crd.get("status", {}).get("conditions") or []
            if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
                return

    # -- what the cluster's events cause ---------------------------------------------------------------------------

    def _follow(self, path: str, parameters: dict[str, str], handle: Callable[[Object], None]) -> None:
        """Handle every object of a kind and each change of one, until the kind is gone; at most once at a time."""
        if path in self._following:
            return
        self._following.add(path)

        def follow() -> None:
            try:
                for thing in self._api.watch(path, parameters):
                    try:
                        handle(thing)
                    except httpx.HTTPError as error:
                        self.failures.append(str(error))
            finally:
                self._following.discard(path)

        self._run(follow)

    def _on_pod_networking(self, thing: Object) -> None:
        """Do what Terway's controller does: resolve the vswitches and declare the network ready."""
        if thing.get("status", {}).get("status") == "Ready":
            return
        with self._account.lock:
            vswitches = [
                {"id": vswitch_id, "zone": vswitch["ZoneId"]}
                for vswitch_id in thing.get("spec", {}).get("vSwitchOptions", [])
                if (vswitch := self._account.find("vswitch", vswitch_id)) is not None
            ]
        status = {"status": "Ready", "updateAt": timestamp(), "vSwitches": vswitches}
        self._api.patch_status(cluster_objects.POD_NETWORKINGS, thing["metadata"]["name"], status)

    def _on_pending_pod(self, pod: Object) -> None:
        """Do what the autoscaler does: let pools grow for pods that find no GPU."""
        if not growth.is_waiting(pod) or growth.requested(pod, GPU) == 0:
            return
        pods = self._api.list(PODS)
        nodes = self._api.list(NODES, {"labelSelector": f"{MARK}=node"})
        with self._account.lock:
            grown = any(
                self._grow(cluster, pool_id, pool, pods, nodes)
                for cluster_id, cluster in self._account.all("cluster").items()
                for pool_id, pool in self._pools(cluster_id)
                if pool["auto_scaling"].get("enable")
            )
            if grown:
                self._account.save()
                self.changed()

    def _grow(self, cluster: Record, pool_id: str, pool: Record, pods: list[Object], nodes: list[Object]) -> bool:
        room = pool["auto_scaling"]["max_instances"] - len(pool["_nodes"])
        if room <= 0:
            return False
        present = {node["metadata"]["name"] for node in nodes}
        if any(node["name"] not in present for node in pool["_nodes"]):
            # nodes are on their way already; the pods that find none of these say so again
            return False
        installed = addons.installed(self._account, cluster["cluster_id"])
        if not installed.keys() & set(SCALERS):
            return False
        around = _surroundings(pool_id, pool, cluster, set(installed), {})
        own = [node for node in nodes if node["metadata"]["labels"].get(POOL_LABEL) == pool_id]
        sample = growth.expected_node(
            simulated_node.manifest(machines.sample(self._account, pool), around),
            own,
            items(pool["scaling_group"], "tags") if CLUSTER_AUTOSCALER in installed else (),
        )
        missing = growth.nodes_to_add(pods, own, sample, GPU)
        before = len(pool["_nodes"])
        machines.resize(self._account, pool, before + min(room, missing))
        return len(pool["_nodes"]) > before


def _surroundings(
    pool_id: str, pool: Record, cluster: Record, installed: set[str], terway: dict[str, Any]
) -> Surroundings:
    return Surroundings(
        region=cluster["region_id"],
        pool_id=pool_id,
        pool=pool,
        addons=installed,
        trunk=terway.get("ENITrunking") == "true",
    )


def _has_gpus(pool: Record) -> bool:
    return any(simulated_node.facts_of(name, pool).gpus > 0 for name in machines.types_of(pool))
