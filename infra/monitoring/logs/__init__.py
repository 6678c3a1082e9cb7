"""Logs that outlive their pods: a store of one pod (VictoriaLogs), and a collector on every node (vlagent).

The fields below are those of a stored line, under the collector's own names: the collector adds the pod's name,
namespace and labels; the others are the keys of a line that the container printed as a JSON object. Source:
VictoriaLogs 1.43.1, docs/victorialogs/vlagent.md and app/vlagent/kubernetescollector/collector.go.
"""

from infra.workload_labels import JOB_LABEL, SERVICE_LABEL

NAMESPACE_FIELD = "kubernetes.pod_namespace"
POD_FIELD = "kubernetes.pod_name"
CONTAINER_FIELD = "kubernetes.container_name"
NODE_FIELD = "kubernetes.pod_node_name"
LABEL_FIELDS = "kubernetes.pod_labels."
"""Prefix of the name of a pod's label."""
JOB_FIELD = f"{LABEL_FIELDS}{JOB_LABEL}"
"""The job's name in the program."""
SERVICE_FIELD = f"{LABEL_FIELDS}{SERVICE_LABEL}"
RUN_FIELD = f"{LABEL_FIELDS}volcano.sh/job-name"
"""The job's name in the cluster: another one for each time that it ran."""
RANK_FIELD = "rank"
STEP_FIELD = "step"
LEVEL_FIELD = "level"
MESSAGE_FIELD = "_msg"
TIME_FIELD = "_time"
"""Time at which the container's runtime took the line, in nanoseconds; what the container itself says stays in its own
field."""

CLAIM = "victoria-logs"
"""Name of the store's claim, and of its folder on the node of `make up`."""
