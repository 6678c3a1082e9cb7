"""All steps of a run, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.acceptance.runner import Step
from tools.acceptance.steps.account import account
from tools.acceptance.steps.cluster import cluster
from tools.acceptance.steps.dashboards import dashboards
from tools.acceptance.steps.environment import destroy, drift, up
from tools.acceptance.steps.gpus import gpu_job, hardware_check, scale_in, scale_out
from tools.acceptance.steps.leftovers import leftovers
from tools.acceptance.steps.networks import networks
from tools.acceptance.steps.nodes import gpu_nodes, nodes
from tools.acceptance.steps.sharing import sharing
from tools.acceptance.steps.spot import spot_loss
from tools.acceptance.steps.this_machine import this_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

ON_THIS_MACHINE: Sequence[Step] = (Step(name="this-machine", title="GPUs of this machine", run=this_machine),)
"""Steps that need no account."""
ALL: Sequence[Step] = (
    *ON_THIS_MACHINE,
    Step(name="account", title="Account: identity, versions, stock", run=account),
    Step(name="up", title="Create the environment from scratch", run=up, needs=("account",)),
    Step(name="drift", title="Nothing left to change", run=drift, needs=("up",)),
    Step(name="cluster", title="API server, versions, add-ons", run=cluster, needs=("up",)),
    Step(name="nodes", title="Nodes of fixed pools", run=nodes, needs=("cluster",)),
    Step(name="scale-out", title="GPU pools grow for a job", run=scale_out, needs=("cluster",)),
    Step(name="gpu-nodes", title="GPU nodes and drivers", run=gpu_nodes, needs=("scale-out",)),
    Step(name="gpu-job", title="Jobs on GPUs", run=gpu_job, needs=("scale-out",)),
    Step(name="dashboards", title="GPU panels of the dashboards", run=dashboards, needs=("scale-out",)),
    Step(name="network", title="NCCL between nodes", run=networks, needs=("scale-out",)),
    Step(name="gpu-check", title="Hardware check of GPU nodes", run=hardware_check, needs=("scale-out",)),
    Step(name="sharing", title="Shared GPUs and MIG", run=sharing, needs=("cluster",)),
    Step(name="spot-loss", title="A spot node is lost", run=spot_loss, needs=("scale-out",)),
    Step(name="scale-in", title="Idle GPU nodes are removed", run=scale_in, needs=("scale-out",)),
    Step(name="destroy", title="Everything is destroyed", run=destroy, last=True),
    Step(name="leftovers", title="What still exists", run=leftovers, last=True),
)
"""Steps that an account can run."""
