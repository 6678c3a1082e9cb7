"""The store of all logs: VictoriaLogs, one pod with one disk.

Source of the flags: VictoriaLogs 1.43.1, docs/victorialogs/README.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.images import VICTORIA_LOGS_IMAGE
from infra.kubernetes.controllers import PodTemplate, stateful_set_manifest
from infra.kubernetes.pods import container_security, pod_security, resources
from infra.metrics_access import METRICS_PORT_NAME
from infra.monitoring import NAMESPACE, VICTORIA_LOGS, VICTORIA_LOGS_PORT
from infra.monitoring.logs import CLAIM
from infra.monitoring.parts import labels, metadata, service
from infra.storage import VolumeRequest, claim_manifest

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.settings.monitoring import LogSettings
    from infra.storage import Backing

URL = f"http://{VICTORIA_LOGS}.{NAMESPACE}.svc:{VICTORIA_LOGS_PORT}"
"""The store's address inside the cluster."""
_FOLDER = "/var/lib/victoria-logs"
_NO_FILE = "file:///no-such-file"
_USER = 65532
_GIB = 1024**3
_USED_SHARE = 0.8
"""Share of the disk from which on the oldest days go. The rest is room for merges and for a day of many lines: the
last two days never go."""
_FREE_SHARE = 0.05
"""Share of the disk that must be free for new lines to be taken: a full disk would stop the process."""


def disk_limits(size_gib: int) -> tuple[int, int]:
    """Return from how many bytes used the oldest days go, and below how many bytes free no line is taken."""
    return int(size_gib * _GIB * _USED_SHARE), int(min(_GIB, size_gib * _GIB * _FREE_SHARE))


def store_arguments(settings: LogSettings) -> list[str]:
    """Return the store's command line."""
    used, free = disk_limits(settings.storage.size_gib)
    return [
        f"-httpListenAddr=:{VICTORIA_LOGS_PORT}",
        f"-storageDataPath={_FOLDER}",
        f"-retentionPeriod={settings.retention_days}d",
        # In bytes: a share of the file system would be of the machine's disk where the volume is a folder of a node.
        f"-retention.maxDiskSpaceUsageBytes={used}",
        f"-storage.minFreeDiskSpaceBytes={free}",
        # Else any page that an operator's browser shows could read the logs through the port that he forwards.
        "-http.disableCORS",
        # What the parts of a store of many pods say to each other: they would take lines for any tenant.
        "-internalinsert.disable",
        "-internalselect.disable",
        # What takes days away, merges or writes. The key is random where its file is not there (VictoriaMetrics,
        # lib/flagutil, "Password"), so that nobody who reads logs through a forwarded port has it.
        *(f"-{name}AuthKey={_NO_FILE}" for name in ("partitionManage", "forceMerge", "forceFlush", "logNewStreams")),
        "-loggerFormat=json",
    ]


def store_manifest(settings: LogSettings, *, claimed: bool) -> Manifest:
    """Return the StatefulSet: never two pods on one disk. `claimed`: on the claim CLAIM, else gone with the pod."""
    volume: Manifest = {"persistentVolumeClaim": {"claimName": CLAIM}} if claimed else {"emptyDir": {}}
    pod: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": "system-cluster-critical",
        # It writes what is in memory to the disk.
        "terminationGracePeriodSeconds": 60,
        "securityContext": pod_security(_USER),
        "containers": [_container(settings)],
        "volumes": [{"name": "data", **volume}],
    }
    pods = PodTemplate(selector={"app.kubernetes.io/name": VICTORIA_LOGS}, labels=labels(VICTORIA_LOGS), spec=pod)
    return stateful_set_manifest(metadata(VICTORIA_LOGS), pods, {"replicas": 1, "serviceName": VICTORIA_LOGS})


def _container(settings: LogSettings) -> Manifest:
    return {
        "name": VICTORIA_LOGS,
        "image": VICTORIA_LOGS_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": store_arguments(settings),
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": VICTORIA_LOGS_PORT}],
        # It takes 60 % of the limit for its caches.
        "resources": resources("100m", "256Mi", "2Gi"),
        "readinessProbe": {"httpGet": {"path": "/health", "port": METRICS_PORT_NAME}, "periodSeconds": 2},
        "securityContext": container_security(),
        "volumeMounts": [{"name": "data", "mountPath": _FOLDER}],
    }


def store_service_manifest() -> Manifest:
    """Return the store's Service."""
    return service(VICTORIA_LOGS, METRICS_PORT_NAME, VICTORIA_LOGS_PORT)


def disk_manifests(settings: LogSettings, backing: Backing) -> dict[str, Manifest]:
    """Return the claim of the store's disk, and before it the volume that it binds to, if that is to be declared."""
    request = VolumeRequest(
        claim=CLAIM,
        volume=f"{NAMESPACE}-{CLAIM}",
        size_gib=settings.storage.size_gib,
        access_mode="ReadWriteOnce",
    )
    volume = backing.volume(request)
    source = backing.claim_source(request)
    return {
        **({f"{CLAIM}-volume": volume} if volume else {}),
        f"{CLAIM}-claim": claim_manifest(CLAIM, NAMESPACE, request.size_gib, request.access_mode, source),
    }
