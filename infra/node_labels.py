"""Labels of nodes that the platform sets, and selects nodes by."""

POOL_LABEL = "athanor.dev/pool"
"""Node label with the pool's name; workloads that name a pool select nodes by it."""
POOL_ROLE_LABEL = "athanor.dev/role"
"""Node label with the role of the node's pool: system, cpu or gpu. Pods have a label of the same key with another
meaning (infra/workload_labels.py)."""
SIMULATED_LABEL = "athanor.dev/simulated"
"""Label of nodes that exist only in the API server."""
ZONE_LABEL = "topology.kubernetes.io/zone"
"""Kubernetes' own node label with the zone's name."""

NOT_SIMULATED = {"key": SIMULATED_LABEL, "operator": "DoesNotExist"}
"""Match expression of a node selector term."""
